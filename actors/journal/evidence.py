"""What there is to be read of a log for whoever verifies it: all of it, as it stands at one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import msgspec

from reenact.actors.journal.api import Recorded
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.feed_walk import Row
from reenact.actors.journal.schema import FORMAT_VERSION, refuse_from_before_release
from reenact.actors.journal.structure import structure_of
from reenact.actors.journal.walk import Event, Text, text_of
from reenact.domain.errors import LogTooNewError

Fault: TypeAlias = tuple[str, str]
"""What something is wrong with, "" for all of it, and what."""

Cells: TypeAlias = tuple[Any, ...]
"""A row of a table; a file can hold anything in it."""

EVENTS: Final = """
    SELECT originator_id, originator_version, topic, state, digest, rowid, cause FROM stored_events
    ORDER BY originator_id, originator_version
"""
_FEED: Final = "SELECT topic, first_cursor, count, segments, digest, sealed FROM feed ORDER BY topic, first_cursor"
_ASIDE: Final = {
    "stored_snapshots": """
        SELECT originator_id, originator_version, topic, state FROM stored_snapshots
        ORDER BY originator_id, originator_version
    """,
    "timers": "SELECT stream, due FROM timers ORDER BY stream",
    "redactions": "SELECT stream, version, seal FROM redactions ORDER BY stream, version",
    "requests": "SELECT id, digest, note, at, proof FROM requests ORDER BY id",
    "tracking": "SELECT application_name, notification_id FROM tracking ORDER BY application_name",
    "consumers": "SELECT topic, client_id, cursor, seen_at, {end} FROM consumers ORDER BY topic, client_id",
}
"""What stands beside streams and feeds, each in the order of its key; consumers with where their topic ends."""
_END: Final = """
    (SELECT first_cursor + count - 1 FROM feed WHERE feed.topic = consumers.topic ORDER BY first_cursor DESC LIMIT 1)
"""

_FIRST_HOLE: Final = """
    SELECT rowid + 1 FROM stored_events AS one
    WHERE NOT EXISTS (SELECT 1 FROM stored_events WHERE rowid = one.rowid + 1) ORDER BY rowid LIMIT 1
"""
_BY_POSITION: Final = """
    SELECT originator_id, originator_version, rowid, topic, state, cause FROM stored_events
    WHERE rowid > ? ORDER BY rowid LIMIT ?
"""
_RECORD: Final = "SELECT digest FROM stored_events WHERE originator_id = ? AND originator_version = ?"
_STREAM: Final = """
    SELECT originator_id, originator_version, rowid, topic, state, cause FROM stored_events
    WHERE originator_id = ? AND originator_version > ? ORDER BY originator_version LIMIT ?
"""
_COUNTS: Final = """
    SELECT (SELECT count(*) FROM stored_events NOT INDEXED), (SELECT min(rowid) FROM stored_events),
        (SELECT max(rowid) FROM stored_events), {said}
"""
_SAID: Final = """
    (SELECT CAST(total(seq) AS INTEGER) FROM sqlite_sequence WHERE name = 'stored_events' AND typeof(seq) = 'integer')
"""
_MOST_FAULTS: Final = 10
_PAGE: Final = 1000


class Counts(msgspec.Struct, frozen=True):
    """How many events there are, the first and the last position, and where the log says that it ends."""

    events: int
    first: int
    last: int
    said: int


class Evidence:
    """The tables of a log at one moment; none of them is ever in memory as a whole. One thread at a time may use it."""

    def __init__(
        self,
        walk: Callable[[str], Iterator[Cells]],
        ask: Callable[[str, Sequence[str | int]], list[Cells]],
        *,
        counts: str,
        tables: Mapping[str, bool],
        text: type[Text],
        faults: Callable[[], list[Fault]],
    ) -> None:
        """Read with these, in SQLite's words: `walk` yields rows, `ask` returns a few.

        `tables` says which tables the log should have, and whether they are there, without those that cannot be read.
        `text` is what text comes as. `faults` returns what is wrong with what
        keeps the tables.
        """
        self.text = text
        self.faults = faults
        self._walk = walk
        self._ask = ask
        self._counts = counts
        self._tables = tables
        self._has_events = tables.get("stored_events", False)

    def events(self) -> Iterator[Event]:
        """Yield the records by stream and version; none, if they cannot be read."""
        return self._walk(EVENTS) if self._has_events else iter(())

    def feed(self) -> Iterator[Row]:
        """Yield the rows of feeds by topic and cursor, likewise."""
        return self._walk(_FEED) if self._tables.get("feed") else iter(())

    def aside(self, table: str) -> Iterator[Cells]:
        """Yield the rows of a table beside them by its key; none, if it is not there."""
        if not self._tables.get(table):
            return iter(())
        end = _END if self._tables.get("feed") else "cursor"
        return self._walk(_ASIDE[table].format(end=end))

    def missing(self) -> list[str]:
        """Return the tables that a log has, and this one lacks."""
        return [name for name, is_there in self._tables.items() if not is_there]

    def counts(self) -> Counts:
        """Return what must agree if no position is missing."""
        if not self._has_events:
            return Counts(0, 0, 0, 0)
        ((events, first, last, said),) = self._ask(self._counts, ())
        return Counts(events, first or 0, last or 0, said or 0)

    def first_hole(self, first: int) -> int:
        """Return the first position without a record, if the first with one is this."""
        if first != 1:
            return 1
        ((hole,),) = self._ask(_FIRST_HOLE, ())
        return int(hole)

    def digest_at(self, stream: str, version: int) -> bytes | None:
        """Return the digest of a record, None if it is not there."""
        found = self._ask(_RECORD, (stream, version)) if self._has_events else []
        return bytes(found[0][0]) if found and isinstance(found[0][0], bytes) else None

    def by_position(self, after: int, limit: int) -> list[Cells]:
        """Return stream, version, position, topic, state and cause of up to `limit` records behind a position."""
        return self._ask(_BY_POSITION, (after, limit)) if self._has_events else []

    def of_stream(self, stream: str, after: int, limit: int) -> list[Cells]:
        """Return the same of up to `limit` records of a stream behind a version."""
        return self._ask(_STREAM, (stream, after, limit)) if self._has_events else []


class EvidenceLog:
    """The same evidence as events: what a journal gives to read, at the moment of the evidence."""

    def __init__(self, evidence: Evidence, codec: EventCodec) -> None:
        """Decode events with the codec."""
        self._evidence = evidence
        self._codec = codec

    def read_all(self, *, after: int = 0, limit: int = 1000) -> list[Recorded]:
        """Return up to `limit` events of all streams with a position above `after`, in the order of their positions.

        Raises:
            LogUnusableError: one of them cannot be decoded.
        """
        return list(map(self._recorded, self._evidence.by_position(after, limit)))

    def read(self, stream: str, *, after: int = 0) -> list[Recorded]:
        """Return the stream's events with a version above `after`; raises likewise."""
        return list(self.records(stream, after=after))

    def records(self, stream: str, *, after: int = 0) -> Iterator[Recorded]:
        """Yield the stream's events with a version above `after`, a few at a time; raises likewise."""
        while page := self._evidence.of_stream(stream, after, _PAGE):
            yield from map(self._recorded, page)
            after = page[-1][1]

    def digest_at(self, stream: str, version: int) -> bytes | None:
        """Return the digest of a record, None if it is not there."""
        return self._evidence.digest_at(stream, version)

    def topics(self, count: int) -> list[str]:
        """Return the stored names of the first events, so many of them."""
        return [text_of(topic) for _, _, _, topic, _, _ in self._evidence.by_position(-(2**62), count)]

    def head(self) -> int:
        """Return the position of the last event, 0 if there is none."""
        return self._evidence.counts().last

    def _recorded(self, cells: Cells) -> Recorded:
        stream, version, position, topic, state, cause = cells
        return self._codec.recorded((text_of(stream), version, position, text_of(topic), state, cause))


@contextmanager
def sqlite_evidence(connection: sqlite3.Connection) -> Generator[Evidence]:
    """Read what the connection sees from now on until this ends, and nothing of what is written meanwhile."""
    text_factory, connection.text_factory = connection.text_factory, bytearray  # told from bytes, which are no text
    connection.execute("BEGIN")
    try:
        structure = structure_of(connection)
        refuse_from_before_release(structure.application, "the log")
        if structure.version > FORMAT_VERSION:
            raise LogTooNewError(
                f"the log has format {structure.version}, newer than {FORMAT_VERSION}; upgrade to verify it"
            )
        yield Evidence(
            connection.execute,
            lambda query, parameters: connection.execute(query, parameters).fetchall(),
            counts=_COUNTS.format(said="0" if structure.counted is None else _SAID),
            tables=structure.tables(),
            text=bytearray,
            faults=lambda: [*structure.problems(), *_faults(connection)],
        )
    finally:
        connection.text_factory = text_factory
        connection.execute("ROLLBACK")


def _faults(connection: sqlite3.Connection) -> list[Fault]:
    rows = connection.execute(f"PRAGMA integrity_check({_MOST_FAULTS})")
    return [("", fault) for (text,) in rows if (fault := text_of(text)) != "ok"]
