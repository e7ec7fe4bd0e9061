"""The same records of a log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from reenact.actors.journal.postgres.address import Address, address_of
from reenact.actors.journal.postgres.connecting import Connection, connect, spelled
from reenact.actors.journal.postgres.faults import translated
from reenact.actors.journal.postgres.schema import check_format
from reenact.domain.chain import Row, Timer
from reenact.domain.errors import LogUnusableError

_ROWS = f"SELECT {', '.join(Row.__struct_fields__)} FROM steps {{which}} ORDER BY number"  # noqa: S608 - ours
_EVENTS = "SELECT coalesce(sum(count), 0)::bigint FROM steps {which}"
_TIMERS = "SELECT stream, due FROM timers {which} ORDER BY stream"
_HEAD = "SELECT coalesce(max(position + count - 1), 0) FROM steps WHERE number = (SELECT max(number) FROM steps)"


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
        return self._number(_HEAD, None)

    def count_events(self, streams: Sequence[str] | None = None) -> int:
        """Return how many events there are."""
        return self._number(_EVENTS, streams)

    def count_rows(self, streams: Sequence[str] | None = None) -> int:
        """Return how many rows there are."""
        return self._number("SELECT count(*) FROM steps {which}", streams)

    def rows(self, streams: Sequence[str] | None = None) -> Generator[Row]:
        """Yield the rows in the order in which they were written."""
        for row in self._select(_ROWS, streams):
            yield Row(*row)

    def timers(self, streams: Sequence[str] | None = None) -> Iterator[Timer]:
        """Yield when streams are to be woken."""
        for row in self._select(_TIMERS, streams):
            yield Timer(*row)

    def _number(self, query: str, streams: Sequence[str] | None) -> int:
        ((number,),) = self._select(query, streams)
        return int(number)

    def _select(self, query: str, streams: Sequence[str] | None) -> Iterator[Any]:
        which = "" if streams is None else "WHERE stream = ANY (?::text[])"
        parameters = () if streams is None else (list(streams),)
        with translated(self.name), self._connection.cursor(name="records", binary=True) as cursor:
            yield from cursor.execute(spelled(query.format(which=which), self._address.schema), parameters)
