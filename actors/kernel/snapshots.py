"""Snapshots of states, which are taken every few events and used only if they match the events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from reenact.actors.journal.api import Snapshot

State = TypeVar("State")

_log = logging.getLogger("reenact.kernel")


class SnapshotForm(Generic[State]):
    """Encodes and decodes the snapshots of an actor class."""

    __slots__ = ("_decode", "_encode", "_is_state_itself", "_kind", "_restore", "_take", "every", "topic")

    def __init__(
        self, topic: str, every: int, kind: object, take: Callable[[State], object], restore: Callable[..., State]
    ) -> None:
        """Take a snapshot every `every` events; `kind` is a type that msgspec can decode.

        Raises:
            TypeError: msgspec cannot decode a `kind`.
        """
        self.topic = topic
        self.every = every
        self._kind = kind
        self._take = take
        self._restore = restore
        self._is_state_itself = take is restore  # the defaults, which return what they are given
        self._encode = msgspec.msgpack.Encoder().encode
        try:
            self._decode: Callable[[bytes], object] = msgspec.msgpack.Decoder(kind).decode
        except TypeError as error:
            raise self._unfit_error(error) from error

    def check(self, state: State) -> None:
        """Encode and decode a state as a test.

        Raises:
            TypeError: the state cannot be stored or cannot be restored.
        """
        try:
            self._restore(self._decode(self._encode(self._take(state))))
        except Exception as error:
            raise self._unfit_error(error) from error

    def taken(self, stream: str, version: int, state: State) -> Snapshot:
        """Return a snapshot of the stream's state at this version.

        Raises:
            TypeError: the state cannot be encoded.
        """
        try:
            return Snapshot(stream, version, self.topic, self._encode(self._take(state)))
        except Exception as error:
            raise self._unfit_error(error) from error

    def taken_if_possible(self, stream: str, version: int, state: State) -> Snapshot | None:
        """Return the snapshot, or None if the state cannot be stored: then log why, since the events suffice."""
        try:
            snapshot = self.taken(stream, version, state)
            self._check_unchanged(snapshot, state)
        except TypeError as error:
            _log.warning("no snapshot of %s is taken at version %d: %s", stream, version, error)
            return None
        return snapshot

    def _check_unchanged(self, snapshot: Snapshot, state: State) -> None:
        """Raise TypeError if the state could not be decoded, or would be another one."""
        try:
            read = self._decode(snapshot.state)
            is_changed = self._is_state_itself and read != state
        except Exception as error:
            raise self._unfit_error(error) from error
        if is_changed:
            raise self._unfit_error("parts of it would be of other types, such as lists for tuples; name its full type")

    def _unfit_error(self, reason: object) -> TypeError:
        return TypeError(
            f"a state cannot be stored in a snapshot {self.topic!r} and read again as {self._kind!r} ({reason}); "
            "declare snapshot_type, to_snapshot and from_snapshot"
        )

    def restored(self, snapshot: Snapshot) -> tuple[State] | None:
        """Return the state, or None if this form cannot decode the snapshot, so that the events must be replayed."""
        if snapshot.topic != self.topic:
            return None
        try:
            return (self._restore(self._decode(snapshot.state)),)
        except Exception:  # noqa: BLE001 - a user's function; and the events suffice
            _log.warning(
                "the snapshot of %s at version %d is skipped", snapshot.stream, snapshot.version, exc_info=True
            )
            return None

    def difference(self, snapshot: Snapshot, replayed: State) -> str | None:
        """Return how a snapshot differs from the state that the events of its stream produce, or None.

        Snapshots of earlier forms, which are no longer read, count as equal.
        """
        if self._is_earlier(snapshot.topic):
            return None
        if snapshot.topic != self.topic:
            return f"it is of the unknown form {snapshot.topic!r:.100}"
        known = self.restored(snapshot)
        if known is None:
            return "it cannot be decoded"
        return None if known[0] == replayed else f"it says {known[0]!r:.500}, the events say {replayed!r:.500}"

    def _is_earlier(self, topic: str) -> bool:
        """Return whether the topic is that of an earlier `snapshot_version` of the class."""
        category, _, version = self.topic.rpartition(":")
        name, _, digits = topic.rpartition(":")
        return name == category and digits.isascii() and digits.isdigit() and 0 < int(digits) < int(version)
