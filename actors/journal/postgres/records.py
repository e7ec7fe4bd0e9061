"""The same records of a log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from reenact.actors.journal.chain import FeedRecord, Record, Timer
from reenact.actors.journal.postgres.address import Address, address_of
from reenact.actors.journal.postgres.connecting import Connection, connect, spelled
from reenact.actors.journal.postgres.faults import translated
from reenact.actors.journal.postgres.schema import check_format
from reenact.domain.errors import LogUnusableError

_EVENTS = """
    SELECT originator_id, originator_version, rowid, topic, state, digest,
        (SELECT seal FROM redactions WHERE stream = originator_id AND version = originator_version), cause
    FROM stored_events {which} ORDER BY rowid
"""
_ROWS = "SELECT topic, first_cursor, count, segments, digest, sealed FROM feed {which} ORDER BY topic, first_cursor"
_TIMERS = "SELECT stream, due FROM timers {which} ORDER BY stream"
_HEAD = "SELECT coalesce(max(rowid), 0) FROM stored_events"


@contextmanager
def open_postgres_records(url: str) -> Generator[PostgresRecords]:
    """Lend the records of the log that the URL names, as `records.open_records` does."""
    address = address_of(url)
    with translated(address.name):
        connection = connect(address)
    with connection:
        with translated(address.name):
            if not check_format(connection, address):
                raise LogUnusableError(f"{address.name} holds no log yet; name another schema")
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield PostgresRecords(connection, address)


class PostgresRecords:
    """Keeps the promise of `records.Records` over one connection, in one transaction."""

    def __init__(self, connection: Connection, address: Address) -> None:
        """Read over the connection, in its open transaction."""
        self._connection = connection
        self._address = address

    @property
    def name(self) -> str:
        """What messages call the log."""
        return self._address.name

    def head(self) -> int:
        """Return the position of the last event."""
        return self._number(_HEAD, "", None)

    def count_events(self, streams: Sequence[str] | None = None) -> int:
        """Return how many events there are."""
        return self._number("SELECT count(*) FROM stored_events {which}", "originator_id", streams)

    def count_rows(self, topics: Sequence[str] | None = None) -> int:
        """Return how many rows of feeds there are."""
        return self._number("SELECT count(*) FROM feed {which}", "topic", topics)

    def events(self, streams: Sequence[str] | None = None) -> Generator[Record]:
        """Yield the events in the order of their positions."""
        for row in self._select(_EVENTS, "originator_id", streams):
            yield Record(*row)

    def rows(self, topics: Sequence[str] | None = None) -> Iterator[FeedRecord]:
        """Yield the rows of feeds by topic and cursor."""
        for row in self._select(_ROWS, "topic", topics):
            yield FeedRecord(*row)

    def timers(self, streams: Sequence[str] | None = None) -> Iterator[Timer]:
        """Yield when streams are to be woken."""
        for row in self._select(_TIMERS, "stream", streams):
            yield Timer(*row)

    def _number(self, query: str, column: str, names: Sequence[str] | None) -> int:
        ((number,),) = self._select(query, column, names)
        return int(number)

    def _select(self, query: str, column: str, names: Sequence[str] | None) -> Iterator[Any]:
        which = "" if names is None else f"WHERE {column} = ANY (?::text[])"
        parameters = () if names is None else (list(names),)
        with translated(self.name), self._connection.cursor(name="records", binary=True) as cursor:
            yield from cursor.execute(spelled(query.format(which=which), self._address.schema), parameters)
