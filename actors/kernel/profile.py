"""What the kernel knows of a class of actors before the first of them is made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from reenact.actors.journal.api import Snapshot
from reenact.actors.journal.codec import StoredForm, Upcast
from reenact.actors.kernel.alarms import Timer
from reenact.actors.kernel.lineage import OriginOf

State = TypeVar("State")

_log = logging.getLogger("reenact.kernel")


class Stored(msgspec.Struct, frozen=True):
    """How an event is stored whose form has changed: `upcast[n]` turns the fields of version n into those of n + 1.

    The fields are a list in the order of their declaration; every version below `version` has its upcast.
    """

    type: type[msgspec.Struct]
    version: int = 1
    upcast: Mapping[int, Upcast] = MappingProxyType({})


StoredNames: TypeAlias = Mapping[str, type[msgspec.Struct] | Stored]
"""The names that events have in the log for ever: renaming a class loses no history."""


def stored_forms(names: StoredNames) -> Iterator[StoredForm]:
    """Yield the stored forms that a table of names stands for."""
    for name, kind in names.items():
        if isinstance(kind, Stored):
            yield StoredForm(name, kind.type, kind.version, kind.upcast)
        else:
            yield StoredForm(name, kind)


class SnapshotForm(Generic[State]):
    """Turns states of a class of actors into bytes and back."""

    __slots__ = ("_decode", "_encode", "_kind", "_restore", "_take", "every", "topic")

    def __init__(
        self,
        topic: str,
        every: int,
        kind: Any,  # noqa: ANN401 - whatever msgspec decodes; unions and the like are no types
        take: Callable[[State], Any],
        restore: Callable[[Any], State],
    ) -> None:
        """Take one every so many events.

        Raises:
            TypeError: what is stored of a state cannot be decoded as a `kind`.
        """
        self.topic = topic
        self.every = every
        self._kind = kind
        self._take = take
        self._restore = restore
        self._encode = msgspec.msgpack.Encoder().encode
        try:
            self._decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(kind).decode
        except TypeError as error:
            raise self._unfit(error) from error

    def check(self, state: State) -> None:
        """Try it with a state.

        Raises:
            TypeError: the state cannot be stored, or not be restored.
        """
        try:
            self._restore(self._decode(self._encode(self._take(state))))
        except Exception as error:
            raise self._unfit(error) from error

    def taken(self, stream: str, version: int, state: State) -> Snapshot:
        """Return a snapshot of the state that the stream has at this version.

        Raises:
            TypeError: the state cannot be encoded.
        """
        try:
            return Snapshot(stream, version, self.topic, self._encode(self._take(state)))
        except Exception as error:
            raise self._unfit(error) from error

    def _unfit(self, error: Exception) -> TypeError:
        return TypeError(
            f"a state cannot be stored in a snapshot {self.topic!r} and read again as {self._kind!r} ({error}); "
            "declare snapshot_type, to_snapshot and from_snapshot"
        )

    def is_earlier(self, topic: str) -> bool:
        """Return whether snapshots of this topic were taken before the class raised its `snapshot_version`."""
        category, _, version = self.topic.rpartition(":")
        name, _, digits = topic.rpartition(":")
        return name == category and digits.isascii() and digits.isdigit() and 0 < int(digits) < int(version)

    def restored(self, snapshot: Snapshot) -> tuple[State] | None:
        """Return the state, or None if this form does not know the snapshot: then the events say it."""
        if snapshot.topic != self.topic:
            return None
        try:
            return (self._restore(self._decode(snapshot.state)),)
        except Exception:  # noqa: BLE001 - a function of the user's; and the events say the same
            _log.warning(
                "the snapshot of %s at version %d is skipped", snapshot.stream, snapshot.version, exc_info=True
            )
            return None


class Profile(Generic[State]):
    """A class of actors: its name in the log, what it stores, what it waits for, and where streams of it begin."""

    __slots__ = ("category", "events", "forms", "may_be_none", "origin", "remembers", "snapshots", "timers")

    def __init__(
        self,
        category: str,
        forms: Iterable[StoredForm],
        snapshots: SnapshotForm[State] | None,
        timers: Callable[[State], Iterable[Timer[Any]]] | None,
        origin: OriginOf | None,
        *,
        may_be_none: bool,
        remembers: bool,
    ) -> None:
        self.category = category
        self.forms = tuple(forms)
        self.events = frozenset(form.type for form in self.forms)
        self.may_be_none = may_be_none
        self.remembers = remembers
        self.snapshots = snapshots
        self.timers = timers
        self.origin = origin

    def difference(self, snapshot: Snapshot, replayed: State) -> str | None:
        """Return in what a snapshot differs from the state that the events of its stream add up to, or None.

        Those of earlier forms, which nobody reads any more, differ in nothing.
        """
        form = self.snapshots
        if form is None or form.is_earlier(snapshot.topic):
            return None
        if snapshot.topic != form.topic:
            return f"it is of the unknown form {snapshot.topic!r:.100}"
        known = form.restored(snapshot)
        if known is None:
            return "it cannot be decoded"
        return None if known[0] == replayed else f"it says {known[0]!r:.500}, the events say {replayed!r:.500}"
