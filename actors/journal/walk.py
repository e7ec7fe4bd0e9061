"""Walks the records of a stream in their order, and names the first that is not as it was written."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from reenact.actors.journal.api import Recorded
from reenact.actors.journal.chain import (
    STREAM_GENESIS,
    event_digest,
    record_seal,
)
from reenact.actors.journal.ends import Places, StreamEnd
from reenact.domain.errors import LogUnusableError

Text: TypeAlias = bytes | bytearray
"""Text as it is stored; whoever has damaged it need not have left text."""

Event: TypeAlias = tuple[Any, Any, Any, Any, Any, int, Any]
"""Stream, version, topic, state, digest, position and cause; a file can hold anything in place of all but position."""

Seal: TypeAlias = tuple[Any, Any, Any]
"""Stream, version and seal of a record that was redacted; likewise."""

Kind: TypeAlias = Literal[
    "stream", "feed", "snapshot", "timer", "request", "consumer", "reader", "log", "file", "read model"
]

Decode: TypeAlias = Callable[[str, bytes], tuple[int, Any]]
"""Returns when an event was recorded, and the event, or raises `LogUnusableError`."""

_NO_RECORD: Final = "the record holds what no record holds"
_NONE: Final = (None, None, None)
CANNOT_BE: Final = (TypeError, struct.error)
"""What digesting raises if a cell is not of the kind that it should be."""


class Finding(msgspec.Struct, frozen=True):
    """Something in the log that is not as it was written.

    `name` is the stream or the topic, `at` the version or the first cursor of the record where it shows; or they are a
    table and the key of a row. `position` is where an event stands in the log, if it is about one.
    """

    kind: Kind
    name: str
    at: int
    problem: str
    position: int | None = None


class StreamWalk:
    """A stream on its way past: its records are checked while somebody takes the events, or passes over them."""

    def __init__(
        self,
        stream: bytes,
        rows: Iterable[Event],
        decode: Decode | None = None,
        seals: Iterable[Seal] = (),
        *,
        text: type[Text] = bytes,
    ) -> None:
        """Walk over the rows of the stream, which come by version, as do the seals of those that were redacted.

        `text` is what text comes as.
        """
        self._text = text
        self.name = text_of(stream)
        self.finding: Finding | None = None
        self.first = 0
        self.last = 0
        """The versions of the first and the last record that is as it was written."""
        self.count = 0
        self.redacted = 0
        """How many of them something was taken out of."""
        self.end: StreamEnd | None = None
        """Where the stream ends, once all of it has passed."""
        self.events: Iterator[Recorded] = self._walk(stream, iter(rows), iter(seals), decode)
        """The events up to the first that is not as it was written; none, if they are not decoded."""
        self._expected: StreamEnd | None = None

    def expect(self, end: StreamEnd | None) -> None:
        """Take note of how the stream once ended: it must still be like that at that version."""
        self._expected = end

    def pass_by(self) -> Finding | None:
        """Let what is left of the stream pass; return what is wrong with it."""
        deque(self.events, maxlen=0)
        return self.finding

    def _walk(
        self, stream: bytes, rows: Iterator[Event], seals: Iterator[Seal], decode: Decode | None
    ) -> Iterator[Recorded]:
        text, places, known = self._text, Places(), self._expected
        name, at, topics = self.name, -1 if known is None else known.version, dict[bytes, str]()
        previous, expected, before, count = STREAM_GENESIS, 1, 0, 0
        problem: str | None = None
        row: Event | None = None
        _, redacted, seal = next(seals, _NONE)
        for row in rows:
            cell, version, topic, state, digest, position, cause = row
            count += 1
            try:
                is_whole = (
                    version == expected
                    and version != redacted
                    and digest == event_digest(previous, stream, version, topic, state, cause=cause)
                    and position > before
                    and (type(cell), type(topic), type(state), type(digest)) == (text, text, bytes, bytes)
                )
            except CANNOT_BE:
                is_whole = False
            sealed = None
            if not is_whole:
                sealed = seal if version == redacted else None
                problem = self._problem_of(row, stream, previous, sealed, expected=expected, before=before)
                if problem is not None:
                    break
                if sealed is not None:
                    self.redacted += 1
                    places.seal(sealed)
                    _, redacted, seal = next(seals, _NONE)
            if count == 1:
                self.first = version
            previous, expected, before, self.last = digest, version + 1, position, version
            places.add(position)
            if version == at and known is not None and known != StreamEnd(version, digest, places.digest()):
                problem = (
                    "the record, or one before it, is another one, or elsewhere in the log, than at the checkpoint"
                )
                break
            if decode is not None:
                key = bytes(topic)
                topics[key] = topic_text = topics.get(key) or text_of(key)
                try:
                    recorded_at, event = decode(topic_text, state)
                except LogUnusableError as error:
                    problem = str(error).partition(";")[0]
                    break
                yield Recorded(name, version, position, recorded_at, event, sealed is not None, cause)
        if problem is None and redacted is not None:
            problem = f"version {redacted} is missing, and only the seal of what it was redacted to is there"
        if problem is None and at >= expected:
            problem = f"it ended at version {at} at the checkpoint, and now ends at {expected - 1}"
        if problem is not None:
            self.finding = _found_in_stream(name, row, problem, expected)
        self.count = count + sum(1 for _ in rows)
        if count:
            self.end = StreamEnd(expected - 1, bytes(previous), places.digest())

    def _problem_of(
        self, row: Event, stream: bytes, previous: bytes, sealed: bytes | None, *, expected: int, before: int
    ) -> str | None:
        """Return what is wrong with a record; None if it begins a stream at version 0, as other libraries do."""
        cell, version, topic, state, digest, position, cause = row
        if type(version) is not int:
            return _NO_RECORD
        if version != expected and not (version == 0 and previous is STREAM_GENESIS):
            return f"version {expected} is missing"
        if (type(cell), type(topic), type(state), type(digest)) != (self._text, self._text, bytes, bytes):
            return _NO_RECORD
        if not isinstance(cause, bytes | None):
            return _NO_RECORD
        if sealed is not None:
            if sealed != record_seal(previous, stream, version, topic, state, digest=digest, cause=cause):
                return "the redacted record or the one before it was changed"
        elif digest != event_digest(previous, stream, version, topic, state, cause=cause):
            return "the record or the one before it was changed"
        return "the record stands before an earlier one of its stream" if position <= before else None


def text_of(text: object) -> str:
    """Return text as it is stored, or what stands in place of it, as a person can read it."""
    return bytes(text).decode(errors="backslashreplace") if isinstance(text, bytes | bytearray) else repr(text)


def _found_in_stream(name: str, row: Event | None, problem: str, expected: int) -> Finding:
    if row is None:
        return Finding("stream", name, expected, problem)
    version = row[1] if type(row[1]) is int else expected
    return Finding("stream", name, version, problem, row[5])
