"""The base of all stored journals for feeds, consumers' marks and remembered requests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TypeVar

import msgspec

from reenact.actors.journal.api import Done, FeedRow, Mark, Remembered, Segment, raise_if_error
from reenact.actors.journal.codec import EventCodec, KeyDestroyedError
from reenact.actors.journal.requests import Deleted, Deletion, Marking, Replacement
from reenact.actors.journal.seeking import HEARD_AT, MOST, Cells, heard_at
from reenact.actors.journal.store import LAST, NEWEST_FIRST, Reader, SideTable
from reenact.actors.journal.writer import Writer
from reenact.domain.chain import End
from reenact.domain.errors import LogUnusableError, StorageError, UnstorableError, reading
from reenact.domain.stream.feed import pack_segments, unpack_feed

Side = TypeVar("Side", Mark, Remembered)

_FEED = "SELECT stream, cursor, recorded_at, count, events, feed FROM steps"
_READ_FEED = f"""
    {_FEED} WHERE stream = ? AND heard > 0 AND cursor + heard > ? AND (version, cursor) >= {HEARD_AT}
    ORDER BY version, cursor LIMIT ?
"""
# Rows without announcements are not filtered out here: there may be many of them, and a page would take long to find.
_READ_FEED_BACKWARDS = f"{_FEED} WHERE stream = ? AND (version, cursor) <= {HEARD_AT} {NEWEST_FIRST} LIMIT ?"
_READ_STALE = """
    SELECT number, stream, recorded_at FROM steps
    WHERE number > ? AND heard > 0 AND seal IS NULL ORDER BY number LIMIT ?
"""
_MARKS = "SELECT topic, client_id, cursor, seen_at FROM consumers"
_READ_MARK = f"{_MARKS} WHERE topic = ? AND client_id = ?"
_READ_MARKS = f"{_MARKS} WHERE topic = ? ORDER BY client_id"
_READ_OLD: dict[SideTable, str] = {
    "consumers": """
        SELECT topic, client_id FROM consumers
        WHERE (topic, client_id) > (?, ?) AND seen_at < ? ORDER BY topic, client_id LIMIT ?
    """,
    "requests": "SELECT id FROM requests WHERE id > ? AND at < ? ORDER BY id LIMIT ?",
}
_READ_REQUEST = "SELECT id, digest, note, at FROM requests WHERE id = ?"
_BACKWARDS_PAGE = 16
_DELETION_PAGE = 500


class StoredFeeds:
    """The feeds of a stored journal; implements `api.FeedJournal`."""

    def __init__(self, codec: EventCodec, reader: Reader, writer: Writer | None) -> None:
        """Use what `open` has prepared; without a writer the log can only be read."""
        self.codec = codec
        """Encodes and decodes the log's events."""
        self.name = reader.name
        """The log's name, as error messages show it, without passwords."""
        self._reader = reader
        self._writer = writer

    @property
    def writer(self) -> Writer:
        """Makes requests durable.

        Raises:
            StorageError: the log was opened for reading only.
        """
        if self._writer is None:
            raise StorageError(f"{self.name} was opened for reading only")
        return self._writer

    def read_feed(self, topic: str, *, after: int = 0, limit: int = 1000) -> list[FeedRow]:
        """Return up to `limit` feed rows with cursors above `after`; the first row may begin before that."""
        parameters = (topic, after + 1, *heard_at(topic, after + 1), limit)
        try:
            return list(map(self._decode_row, self._reader.select(_READ_FEED, parameters)))
        except KeyDestroyedError:  # only the last row can be read, which says that the stream was forgotten
            rows = islice(self.read_feed_backwards(topic), 1)
            return [msgspec.structs.replace(row, is_behind_forgotten=True) for row in rows if row.first_cursor > after]

    def read_feed_backwards(self, topic: str) -> Iterator[FeedRow]:
        """Yield the topic's feed rows, newest first, reading them lazily."""
        until = MOST
        with suppress(KeyDestroyedError):
            while rows := self._reader.select(_READ_FEED_BACKWARDS, (topic, *heard_at(topic, until), _BACKWARDS_PAGE)):
                yield from (self._decode_row(cells) for cells in rows if cells[-1] is not None)
                until = rows[-1][1] - 1

    def feed_end(self, topic: str) -> int:
        """Return the last cursor of the topic's feed, 0 if it is empty."""
        rows: list[End] = self._reader.select(LAST, (topic,))
        end = rows[0][1] if rows else 0
        if type(end) is not int:
            raise LogUnusableError(f"{self.name}: the last row of the feed of {topic!r} has no end; verify the log")
        return end

    def acknowledge(self, marks: Sequence[Mark], done: Done) -> None:
        """Record the progress of consumers, as described in `api.FeedJournal`.

        Raises:
            RuntimeClosedError: the journal is closed.
            StorageError: the log was opened for reading only.
        """
        self.writer.submit(Marking(tuple(marks), done))

    def mark(self, topic: str, client_id: str) -> Mark | None:
        """Return the mark of the consumer, or None if it has none."""
        rows = self._reader.select(_READ_MARK, (topic, client_id))
        return self._decode_mark(rows[0]) if rows else None

    def marks(self, topic: str) -> list[Mark]:
        """Return the marks of the topic's consumers, in the order of their ids."""
        return [self._decode_mark(row) for row in self._reader.select(_READ_MARKS, (topic,))]

    def forget_marks(self, *, before: int, keep: Collection[tuple[str, str]] = ()) -> int:
        """Delete the marks that were last updated before that time, except for the (topic, client id) pairs in `keep`.

        Returns their number, once the deletion is durable.

        Raises:
            RuntimeClosedError: the journal is closed.
            StorageError: the log cannot be written, or was opened for reading only.
        """
        return self._delete_old("consumers", ("", ""), before, frozenset(keep))

    def remembered(self, request_id: str) -> Remembered | None:
        """Return the request if it has taken effect.

        Raises:
            KeyDestroyedError: it was forgotten, together with its session.
        """
        rows = self._reader.select(_READ_REQUEST, (request_id,))
        return self._decode_remembered(rows[0]) if rows else None

    def forget_requests(self, *, before: int) -> int:
        """Delete the requests that took effect before that time; returns their number, once the deletion is durable.

        Raises:
            RuntimeClosedError: the journal is closed.
            StorageError: the log cannot be written, or was opened for reading only.
        """
        return self._delete_old("requests", ("",), before)

    def replace_feed(self, topic: str, first_cursor: int, last_cursor: int, segments: Sequence[Segment]) -> None:
        """Replace the rows that hold exactly these cursors by one sealed row, as described in `api.FeedJournal`.

        Raises:
            RuntimeClosedError: the journal is closed.
            ValueError: no rows hold exactly these cursors.
            LogUnusableError: the rows, or the one before them, have been changed; they stay.
            UnstorableError: the segments hold a value that cannot be encoded.
            StorageError: the log cannot be written, or was opened for reading only.
        """
        try:
            encoded = pack_segments([(segment.context, segment.entries) for segment in segments], topic)
        except Exception as error:
            raise UnstorableError(f"{self.name}: this cannot be stored: {error}") from error
        raise_if_error(self.writer.wait(partial(Replacement, topic, first_cursor, last_cursor, encoded)))

    def stale_feeds(self, *, after: int, limit: int = 1000) -> list[tuple[int, str, int]]:
        """Return up to `limit` unsealed feed rows after a row number, as described in `api.FeedJournal`."""
        return self._reader.select(_READ_STALE, (after, limit))

    def _delete_old(
        self, table: SideTable, last: tuple[str, ...], before: int, kept: Collection[tuple[str, ...]] = ()
    ) -> int:
        """Delete the rows with keys above `last` that are from before the time, and return their number."""
        writer, count = self.writer, 0
        # A reader searches for the old rows, so that the writer is occupied only briefly at a time.
        while found := self._reader.select(_READ_OLD[table], (*last, before, _DELETION_PAGE)):
            last = found[-1]
            keys = [each for each in found if each not in kept]
            if keys:
                outcome = writer.wait(partial(Deletion, table, keys, before))
                raise_if_error(outcome)
                count += outcome.count if isinstance(outcome, Deleted) else 0
        return count

    def _decode_row(self, cells: Cells) -> FeedRow:
        topic, first_cursor, recorded_at, count, events, feed = cells
        what = f"{self.name}: row {first_cursor!r} of the feed of {topic!r}"
        with reading(what):
            if type(first_cursor) is not int:
                raise TypeError("its cursor is not a number")
            feed, events = self.codec.opened(feed), None if events is None else self.codec.opened_events(events)
            part = unpack_feed(feed, topic, events)
            derived = self.codec.derived(part, topic, recorded_at, events or b"", what) if part.version else ()
            segments = (*part.segments, *derived)
            return FeedRow(topic, first_cursor, segments, has_events=count != 0, derived=len(derived))

    def _decode_mark(self, row: tuple[object, ...]) -> Mark:
        return self._convert(row, Mark, f"consumer {row[1]!r} of {row[0]!r} in the table consumers")

    def _decode_remembered(self, row: tuple[object, ...]) -> Remembered:
        found = self._convert(row, Remembered, f"request {row[0]!r} in the table requests")
        opened = self.codec.opened
        return msgspec.structs.replace(found, digest=opened(found.digest), note=opened(found.note))

    def _convert(self, row: tuple[object, ...], kind: type[Side], what: str) -> Side:
        try:
            return msgspec.convert(dict(zip(kind.__struct_fields__, row, strict=True)), kind, builtin_types=(bytes,))
        except msgspec.ValidationError as error:
            message = f"{self.name}: the row of {what} is damaged ({error}); restore a copy of the log"
            raise LogUnusableError(message) from error
