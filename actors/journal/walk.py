"""Checks the rows of a stream in order, and reports the first damaged one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from reenact.actors.journal.api import Recorded
from reenact.actors.journal.codec import EventCodec, KeyDestroyedError
from reenact.actors.journal.ends import End, Places, Sealed
from reenact.actors.journal.seeking import Cells, unpack
from reenact.domain.chain import GENESIS, Passed, Row, part_digest
from reenact.domain.errors import LogEncryptedError, LogUnusableError

Text: TypeAlias = bytes | bytearray
"""The types of stored text; in a damaged log, other types may occur in its place."""

Kind: TypeAlias = Literal[
    "stream", "feed", "snapshot", "timer", "request", "consumer", "reader", "log", "file", "read model"
]

Behind: TypeAlias = tuple[int, int, int, bytes]
"""The state of a stream after one of its rows: its last version and cursor, its position, and the row's digest."""

_UNREADABLE: Final[Passed[Recorded]] = Passed((), 0, 0, None, None, is_sealed=False)
"""Stands for a row whose key was destroyed, or is not available."""

BEGINNING: Final[Behind] = (-1, 0, 0, GENESIS)
_INVALID_ROW = "the row holds values that no row can have"
_CHANGED = "the row or the one before it was changed"


class Finding(msgspec.Struct, frozen=True):
    """A deviation of the log from what was written.

    `name` is the stream, and `at` the version or the first cursor of the row with the problem; otherwise they are a
    table and the key of a row. `position` is the event's position in the log, if the finding is about an event.
    """

    kind: Kind
    name: str
    at: int
    problem: str
    position: int | None = None


class StreamWalk:
    """Checks the rows of a stream while a consumer iterates over them, or without one."""

    def __init__(
        self,
        stream: bytes,
        rows: Iterable[Cells],
        codec: EventCodec | None = None,
        *,
        text: type[Text] = bytes,
        seen: Callable[[Row], None] | None = None,
        behind: Behind = BEGINNING,
    ) -> None:
        """Walk over the rows of the stream, in the order in which they were written.

        With a codec, the content of the rows is decoded; rows whose keys were destroyed, or are not available, are left
        out.

        Args:
            stream: the name of the stream.
            rows: each the name of the stream, then the cells of a `Row` in order.
            codec: decodes the content of the rows.
            text: the type in which text comes.
            seen: is called with each intact row written by a node; without it, the log must have no such rows.
            behind: the state after the rows checked before; if there are any, the stream gets no `end`.
        """
        self.name = text_of(stream)
        self.finding: Finding | None = None
        self.first = 0
        self.last, self._cursor, self._position, self._previous = behind
        """The versions of the first and the last intact event."""
        self.count = self.redacted = self.rows = self.forgotten = self.locked = 0
        """The number of events, of events in redacted rows, and of rows.

        Also the number of rows whose keys were destroyed, and of those that cannot be read without keys.
        """
        self.is_heard_of = False
        """Whether the stream has announcements."""
        self.end: End | None = None
        """The end of the stream, once it has been walked completely."""
        self.passing: Iterator[Passed[Recorded]] = self._readable_rows()
        """The rows, up to the first damaged one."""
        self._text = text
        self._codec = codec
        self._on_node_row = seen
        self._known: End | None = None
        self._rows = iter(rows)
        self._from_beginning = behind == BEGINNING
        self._places = Places()
        self._sealed = Sealed()
        self._is_over = self._has_reached_checkpoint = self._has_lost_end = False

    def expect(self, end: End) -> None:
        """Compare the stream with an earlier end of it; feed rows may have been replaced since."""
        self._known = end

    def check_rest(self) -> Finding | None:
        """Check the rest of the stream, and return what is wrong with it, or None."""
        while self._check_next() is not None:
            pass
        self.passing = iter(())  # breaks the reference cycle of generator and walk
        return self.finding

    def _readable_rows(self) -> Iterator[Passed[Recorded]]:
        while (row := self._check_next()) is not None:
            if row is not _UNREADABLE:
                yield row

    def _check_next(self) -> Passed[Recorded] | None:
        """Check the next row; return None at the end of the stream or if the row is damaged."""
        cells = None if self._is_over else next(self._rows, None)
        if cells is None:
            self._finish()
            return None
        _, number, *others = cells
        row = Row(number, self.name, *others)
        self.rows += 1
        self._count(row.count, row.heard)
        events: list[Recorded] = []
        problem = self._problem_of(cells[0], row) or self._add_row(row, events) or self._checkpoint_difference(row)
        if problem is None:
            if self._on_node_row is not None and row.epoch:
                self._on_node_row(row)
            try:
                return self._decrypted(row, events)
            except LogUnusableError as error:  # somebody has changed it and computed the digests again
                problem = str(error).partition(";")[0]
        self._is_over, self.finding = True, self._finding_about(row, problem)
        for _, _, _, _, _, count, _, heard, *_ in self._rows:
            self.rows += 1
            self._count(count, heard)
        return None

    def _decrypted(self, row: Row, events: list[Recorded]) -> Passed[Recorded]:
        """Return the row with its content decrypted, or the placeholder for one that cannot be read."""
        codec = self._codec
        if codec is None:
            return Passed(events, row.cursor, row.heard, row.feed, row.events, row.is_replaced)
        self._has_lost_end = False
        try:
            feed = None if row.feed is None else codec.opened(row.feed)
            stored = None if row.events is None else codec.opened_events(row.events)
        except KeyDestroyedError:
            self.forgotten += 1
            self._has_lost_end = True
            return _UNREADABLE
        except LogEncryptedError:
            self.locked += 1
            return _UNREADABLE
        return Passed(events, row.cursor, row.heard, feed, stored, row.is_replaced)

    def _problem_of(self, stream: object, row: Row) -> str | None:
        """Return what is wrong with the row, given those before it."""
        if not _has_valid_numbers(row):
            return _INVALID_ROW
        missing = row.missing((self.last, self._cursor, self._previous))
        if missing is not None:
            return "{} {} is missing".format(*missing)
        if not msgspec.structs.replace(row, key=None if row.key is None else text_of(row.key)).follows(self._previous):
            return _CHANGED if row.seal is None else f"the sealed {_CHANGED[4:]}"
        if type(stream) is not self._text or not self._is_key(row.key) or not _has_valid_types(row):
            return _INVALID_ROW
        if row.epoch < 0 or (row.epoch and self._on_node_row is None):
            return f"no node can have written it in epoch {row.epoch}"
        if (row.version != self.last + 1 and not row.count) or (row.cursor != self._cursor + 1 and not row.heard):
            return "the version or cursor of the row is not the next one of its stream"
        if row.position <= self._position:
            return "the row precedes an earlier one of its stream"
        return None

    def _is_key(self, key: object) -> bool:
        return key is None or (type(key) is self._text and key != self._text())

    def _add_row(self, row: Row, events: list[Recorded]) -> str | None:
        """Add the row and, if they are decoded, its events; return what is wrong with its content."""
        self._previous = row.digest
        if row.events is not None:
            is_redacted = row.is_redacted
            problem = self._decode_events(row, row.events, events, is_redacted=is_redacted)
            if problem is not None:
                return problem
            if self.last < 0:
                self.first = row.version
            self.last, self._position = row.version + row.count - 1, row.position + row.count - 1
            self._places.add(row.position)
            if is_redacted:
                self.redacted += row.count
                self._places.redacted(part_digest(row.events))
        if row.feed is not None:
            self._cursor += row.heard
            if row.is_replaced:
                self._sealed.add(row.cursor, self._cursor, part_digest(row.feed))
        return None

    def _decode_events(self, row: Row, packed: bytes, events: list[Recorded], *, is_redacted: bool) -> str | None:
        try:
            pairs = unpack(packed)
        except ValueError as error:
            return f"its events cannot be decoded ({error})"
        if len(pairs) != row.count:
            return f"it holds {len(pairs)} events, not {row.count}"
        if self._codec is not None:
            try:
                decoded = [self._codec.decode(*pair) for pair in pairs]
            except (KeyDestroyedError, LogEncryptedError):
                return None
            except LogUnusableError as error:
                return str(error).partition(";")[0]
            for index, (recorded_at, event) in enumerate(decoded):
                version, position = row.version + index, row.position + index
                events.append(Recorded(self.name, version, position, recorded_at, event, is_redacted))
        return None

    def _checkpoint_difference(self, row: Row) -> str | None:
        """Return how the row differs from the checkpoint, or None.

        A sealed row may have replaced the row that was the last one at the checkpoint.
        """
        known, end = self._known, (self.last, self._cursor)
        if known is None:
            return None
        if row.count and self.last == known.version and self._places.digest() != known.places:
            return "the row, or one before it, is another one, or elsewhere in the log, than at the checkpoint"
        if not self._has_reached_checkpoint and end[0] >= known.version and end[1] >= known.cursor:
            self._has_reached_checkpoint = True
            is_same = end == (known.version, known.cursor) and row.digest.hex() == known.digest
            if not is_same and not (row.is_replaced and end[1] > known.cursor):
                return "the row, or one before it, is another one than at the checkpoint"
        if row.is_replaced and self._cursor == known.sealed_to and self._sealed.end()[1] != known.sealed:
            return "the sealed row, or one before it, is another one than at the checkpoint"
        return None

    def _count(self, count: object, heard: object) -> None:
        self.count += count if type(count) is int and count > 0 else 0
        self.is_heard_of = self.is_heard_of or bool(heard)

    def _finding_about(self, row: Row, problem: str) -> Finding:
        if row.count or row.events is not None:
            version = row.version if type(row.version) is int else max(1, self.last + 1)
            return Finding("stream", self.name, version, problem, row.position if type(row.position) is int else None)
        return Finding("feed", self.name, row.cursor if type(row.cursor) is int else self._cursor + 1, problem)

    def _finish(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        known = self._known
        if known is not None and not self._has_reached_checkpoint:
            problem = (
                f"it ended at version {max(0, known.version)} and cursor {known.cursor} at the checkpoint, and now "
                f"ends at {max(0, self.last)} and {self._cursor}"
            )
            self.finding = Finding("stream", self.name, max(0, self.last) + 1, problem)
        elif self._has_lost_end:  # what is forgotten ends with an event that says so, under another key
            problem = "its key was destroyed, and no event says that it was forgotten"
            self.finding = Finding("stream", self.name, max(0, self.last), problem)
        elif self.rows and self._from_beginning:
            digest, places = self._previous.hex(), self._places.digest()
            self.end = End(self.name, self.last, self._cursor, digest, places, *self._sealed.end())


def _has_valid_numbers(row: Row) -> bool:
    """Return whether the row has events or announcements, with valid numbers."""
    numbers = (row.version, row.position, row.count, row.cursor, row.heard)
    return all(type(each) is int and each >= 0 for each in numbers) and row.count + row.heard > 0


def _has_valid_types(row: Row) -> bool:
    """Return whether the other cells of the row have the right types."""
    none = type(None)
    return (
        (type(row.recorded_at), type(row.epoch), type(row.digest)) == (int, int, bytes)
        and type(row.events) is (bytes if row.count else none)
        and type(row.feed) is (bytes if row.heard else none)
        and all(type(each) in (bytes, none) for each in (row.original, row.seal, row.cause))
    )


def text_of(text: object) -> str:
    """Return stored text, or another value in its place, in readable form."""
    return bytes(text).decode(errors="backslashreplace") if isinstance(text, bytes | bytearray) else repr(text)
