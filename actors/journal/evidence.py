"""Read access to all tables of a log as they are at one moment, for verification."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, takewhile
from typing import TypeAlias

import msgspec

from reenact.actors.journal.api import Link, Recorded
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.schema import APPLICATION_ID, FORMAT_VERSION, refuse_from_before_release
from reenact.actors.journal.seeking import Cells, cells_of, rows_of, seek
from reenact.actors.journal.store import NEWEST_FIRST
from reenact.actors.journal.structure import structure_of
from reenact.actors.journal.walk import BEGINNING, Behind, Text, text_of
from reenact.domain.chain import Row
from reenact.domain.errors import LogTooNewError, LogUnusableError

Fault: TypeAlias = tuple[str, str]
"""The name of what is damaged, "" for the whole log, and the problem."""

_COLUMNS = ", ".join(name for name in Row.__struct_fields__ if name != "stream")
ROWS = f"SELECT stream, {_COLUMNS} FROM steps ORDER BY stream, number"  # noqa: S608 - ours
"""The rows by stream, in the order in which they were written."""
# Only the keys are sorted, without the long columns. The LIMIT keeps SQLite from merging the two queries.
_ROWS_BY_KEY = f"""
    SELECT stream, {_COLUMNS} FROM (SELECT number AS next FROM steps ORDER BY stream, number LIMIT -1)
    CROSS JOIN steps ON number = next
"""  # noqa: S608 - ours
_SIDE_TABLE_QUERIES = {
    "stored_snapshots": """
        SELECT originator_id, originator_version, topic, state FROM stored_snapshots
        ORDER BY originator_id, originator_version
    """,
    "timers": "SELECT stream, due FROM timers ORDER BY stream",
    "requests": "SELECT id, digest, note, at, proof FROM requests ORDER BY id",
    "tracking": "SELECT application_name, notification_id FROM tracking ORDER BY application_name",
    "consumers": "SELECT topic, client_id, cursor, seen_at, {end} FROM consumers ORDER BY topic, client_id",
}
"""The tables beside the rows, each sorted by its key; consumers come with the end of their topic."""
_END = """
    (
        SELECT steps.cursor + heard - 1 FROM steps
        WHERE stream = topic ORDER BY version DESC, steps.cursor DESC LIMIT 1
    )
"""
_ROW_OF = f"""
    SELECT version + count - 1, digest FROM steps WHERE stream = ? AND version <= ? {NEWEST_FIRST} LIMIT 1
"""  # noqa: S608 - ours
_HAS_EVENTS = "SELECT 1 FROM steps WHERE stream = ? AND count > 0 LIMIT 1"
_ROW_WITH_DIGEST = "SELECT 1 FROM steps WHERE stream = ? AND digest = ? LIMIT 1"
_FIRST_HOLE = """
    SELECT expected FROM (
        SELECT number, position, lag(position + count, 1, CAST(1 AS bigint)) OVER (ORDER BY number) AS expected
        FROM steps
    ) AS each_row WHERE position <> expected ORDER BY number LIMIT 1
"""
_COUNTS = """
    SELECT count(*), CAST(total(count) AS INTEGER), max(position + count - 1), NULL FROM steps NOT INDEXED
"""
_PAGE = f"SELECT stream, {_COLUMNS} FROM steps WHERE number > ? AND number <= ? ORDER BY number"  # noqa: S608 - ours
_SIZES = """
    SELECT number, coalesce(length(cause), 0) + coalesce(length(events), 0) + coalesce(length(feed), 0)
    FROM steps WHERE number > ? ORDER BY number LIMIT ?
"""
_BEHIND = f"""
    SELECT version + count - 1, cursor + heard - 1, position + count - 1, digest FROM steps
    WHERE stream = ? AND (version, cursor) < (?, ?) {NEWEST_FIRST} LIMIT 1
"""  # noqa: S608 - ours
_MOST_FAULTS = 10


class Counts(msgspec.Struct, frozen=True):
    """The number of rows and events, the last position, and the last position that the log records for itself."""

    rows: int
    events: int
    last: int
    said: int


class Evidence:
    """The tables of a log at one moment; none of them is loaded as a whole. Used by one thread at a time."""

    def __init__(
        self,
        walk: Callable[[str], Iterator[Cells]],
        ask: Callable[[str, Sequence[str | int | bytes]], list[Cells]],
        *,
        rows: str,
        counts: str,
        tables: Mapping[str, bool],
        text: type[Text],
        faults: Callable[[], list[Fault]],
        shards: int = 0,
    ) -> None:
        """Read the log; queries are in SQLite's dialect.

        Args:
            walk: yields the rows of a query.
            ask: returns a few rows of a query with parameters.
            rows: the query for all rows, by stream.
            counts: the query for the counts.
            tables: the tables that the log should have, and whether they exist, without those that cannot be read.
            text: the type in which text is returned.
            faults: returns what is wrong with the file or the database itself.
            shards: the number of shards, 0 if the log is not for several nodes.
        """
        self.shards = shards
        self.text = text
        self.faults = faults
        self._walk = walk
        self.select = ask
        """Returns the rows of a query in SQLite's dialect; text is returned as `text`."""
        self._rows = rows
        self._counts = counts
        self._tables = tables
        self._has_rows = tables.get("steps", False)

    @property
    def is_encrypted(self) -> bool:
        """Whether the log has a table of keys."""
        return self._tables.get("keys", False)

    def rows(self) -> Iterator[Cells]:
        """Yield the rows by stream, in the order in which they were written; none if they cannot be read."""
        return self._walk(self._rows) if self._has_rows else iter(())

    def page(self, after: int, *, rows: int, size: int) -> list[Cells]:
        """Return up to `rows` rows after this row number, fewer if they are larger than `size`."""
        last, total = after, 0
        for number, length in self.select(_SIZES, (after, rows)) if self._has_rows else ():
            if total and total + length > size:
                break
            last, total = number, total + length
        return self.select(_PAGE, (after, last)) if last > after else []

    def behind(self, stream: str, version: int, cursor: int) -> Behind:
        """Return the state of the stream before the row with this version and cursor."""
        found = self.select(_BEHIND, (stream, version, cursor))
        if not found or not all(type(each) is int for each in found[0][:3]) or type(found[0][3]) is not bytes:
            return BEGINNING
        last, heard, position, digest = found[0]
        return last, heard, position, digest

    def aside(self, table: str) -> Iterator[Cells]:
        """Yield the rows of another table by its key; none if it does not exist."""
        if not self._tables.get(table):
            return iter(())
        end = _END if self._has_rows else "cursor"
        return self._walk(_SIDE_TABLE_QUERIES[table].format(end=end))

    def missing(self) -> list[str]:
        """Return the tables that are missing from the log."""
        return [name for name, is_there in self._tables.items() if not is_there]

    def counts(self) -> Counts:
        """Return the counts that must agree if no position is missing."""
        if not self._has_rows:
            return Counts(0, 0, 0, 0)
        ((rows, events, last, said),) = self.select(self._counts, ())
        return Counts(rows, events, last or 0, last or 0 if said is None else said)

    def first_hole(self) -> int | None:
        """Return the first position at which no row begins although a later row exists, or None."""
        found = self.select(_FIRST_HOLE, ()) if self._has_rows else []
        if not found:
            return None
        hole: object = found[0][0]
        return hole if type(hole) is int else 1  # rows of a damaged log may hold no numbers

    def digest_at(self, stream: str, version: int) -> bytes | None:
        """Return the digest of the row that holds the event, None if it does not exist."""
        found = self.select(_ROW_OF, (stream, version)) if self._has_rows else []
        is_there = bool(found) and isinstance(found[0][1], bytes) and found[0][0] >= version
        return bytes(found[0][1]) if is_there else None

    def holds(self, stream: str, digest: str) -> bool:
        """Return whether a row of the stream has the digest, given in hexadecimal digits."""
        return self._has_rows and bool(self.select(_ROW_WITH_DIGEST, (stream, bytes.fromhex(digest))))

    def has(self, stream: str) -> bool:
        """Return whether the stream has events."""
        return self._has_rows and bool(self.select(_HAS_EVENTS, (stream,)))

    def events(self, after: int, stream: str | None = None) -> Iterator[Cells]:
        """Yield the events after a position, or after a version of the stream; raises as `seek` does."""
        return seek(self._select_named, after=after, stream=stream) if self._has_rows else iter(())

    def first_events(self, count: int) -> list[Cells]:
        """Return the first rows that hold events, for `cells_of`."""
        return self._select_named(*rows_of(after=-(2**62), limit=count)) if self._has_rows else []

    def _select_named(self, query: str, parameters: Sequence[str | int | bytes]) -> list[Cells]:
        return [(text_of(stream), *others) for stream, *others in self.select(query, parameters)]


class EvidenceLog:
    """The evidence as decoded events, with the reading methods of a journal."""

    def __init__(self, evidence: Evidence, codec: EventCodec) -> None:
        """Decode events with the codec."""
        self._evidence = evidence
        self.codec = codec

    def read_all(self, *, after: int = 0, limit: int = 1000) -> list[Recorded]:
        """Return up to `limit` events of all streams with a position above `after`, in the order of their positions.

        Raises:
            LogUnusableError: one of them cannot be decoded.
        """
        return list(islice(self.codec.readable(self._evidence.events(after)), limit))

    def read(self, stream: str, *, after: int = 0) -> list[Recorded]:
        """Return the stream's events with a version above `after`; raises as `read_all` does."""
        return list(self.records(stream, after=after))

    def records(self, stream: str, *, after: int = 0) -> Iterator[Recorded]:
        """Yield the stream's events with a version above `after`, reading page by page; raises as `read_all` does."""
        return self.codec.readable(self._evidence.events(after, stream))

    def digest_at(self, stream: str, version: int) -> bytes | None:
        """Return the digest of the row that holds the event, None if it does not exist."""
        return self._evidence.digest_at(stream, version)

    def link(self, stream: str, version: int) -> Link | None:
        """Return the link of the event with this version, None if there is none."""
        digest, recorded = self.digest_at(stream, version), next(self.records(stream, after=version - 1), None)
        if digest is None or recorded is None or recorded.version != version:
            return None
        return Link(version, recorded.position, recorded.recorded_at, digest)

    def read_until(self, stream: str, version: int, *, after: int = -1) -> list[Recorded]:
        """Return the stream's events with a version above `after` and up to `version`; raises as `read_all` does."""
        return list(takewhile(lambda recorded: recorded.version <= version, self.records(stream, after=after)))

    def topics(self, count: int) -> list[str]:
        """Return the stored names of the first `count` events."""
        found: list[str] = []
        for row in self._evidence.first_events(count):
            with suppress(LogUnusableError):
                found += (topic for _, _, _, topic, _, _ in cells_of([row]))
        return found[:count]

    def head(self) -> int:
        """Return the position of the last event, 0 if there is none."""
        return self._evidence.counts().last


@contextmanager
def sqlite_evidence(connection: sqlite3.Connection) -> Generator[Evidence]:
    """Lend the log as the connection sees it, in one transaction that sees nothing written meanwhile."""
    text_factory, connection.text_factory = connection.text_factory, bytearray  # text comes as this, BLOBs as bytes
    connection.execute("BEGIN")
    try:
        structure = structure_of(connection)
        refuse_from_before_release(structure.application, "the log")
        if structure.application == APPLICATION_ID and structure.version > FORMAT_VERSION:
            raise LogTooNewError(
                f"the log has format {structure.version}, newer than {FORMAT_VERSION}; upgrade to verify it"
            )
        yield Evidence(
            connection.execute,
            lambda query, parameters: connection.execute(query, parameters).fetchall(),
            rows=_ROWS_BY_KEY,
            counts=_COUNTS,
            tables=structure.tables(),
            text=bytearray,
            faults=lambda: [*structure.problems(), *_integrity_faults(connection)],
        )
    finally:
        connection.text_factory = text_factory
        connection.execute("ROLLBACK")


def _integrity_faults(connection: sqlite3.Connection) -> list[Fault]:
    rows = connection.execute(f"PRAGMA integrity_check({_MOST_FAULTS})")
    return [("", fault) for (text,) in rows if (fault := text_of(text)) != "ok"]
