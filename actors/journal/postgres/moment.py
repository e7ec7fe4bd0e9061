"""Reads a log in PostgreSQL as it is at one moment: as evidence for verification, and as raw records."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from typing import TypeAlias

from psycopg.types.string import ByteaBinaryLoader

from reenact.actors.journal.evidence import ROWS, Evidence
from reenact.actors.journal.postgres.address import Address, address_of
from reenact.actors.journal.postgres.connecting import Connection, connect, spelled
from reenact.actors.journal.postgres.faults import translated
from reenact.actors.journal.postgres.schema import TABLES, check_format, relations_of
from reenact.actors.journal.seeking import Cells
from reenact.domain.chain import Row
from reenact.domain.errors import LogUnusableError

Select: TypeAlias = Callable[[str, Sequence[str] | None], Iterator[Cells]]
Ask: TypeAlias = Callable[[str, Sequence[str | int | bytes]], list[Cells]]
_CELLS = ", ".join(Row.__struct_fields__)
_COUNTS = """
    SELECT rows, events, last, position FROM log, (
        SELECT count(*) AS rows, coalesce(sum(count), 0)::bigint AS events, max(position + count - 1) AS last
        FROM steps
    ) AS counted
"""
_SHARDS = "SELECT count(*) FROM shards"


class _Moment:
    """The log at one moment, in the read-only transaction of a connection; `relations` are its tables and others."""

    def __init__(self, connection: Connection, address: Address, relations: set[str]) -> None:
        self.connection = connection
        self.address = address
        self.relations = relations
        self._numbers = count()

    def ask(self, query: str, parameters: Sequence[str | int | bytes]) -> list[Cells]:
        """Return the few rows of a query."""
        with translated(self.address.name):
            return self.connection.execute(spelled(query, self.address.schema), parameters, binary=True).fetchall()

    def walk(self, query: str, parameters: Sequence[list[str]] = ()) -> Iterator[Cells]:
        """Yield the rows of a query, fetching a few at a time."""
        with (
            translated(self.address.name),
            self.connection.cursor(name=f"walk_{next(self._numbers)}", binary=True) as cursor,
        ):
            yield from cursor.execute(spelled(query, self.address.schema), parameters)

    def select(self, query: str, streams: Sequence[str] | None) -> Iterator[Cells]:
        """Yield the rows of a query with the places `{which}` and `{cells}`, of these streams or of all."""
        which = "" if streams is None else "WHERE stream = ANY (?::text[])"
        return self.walk(query.format(which=which, cells=_CELLS), () if streams is None else (list(streams),))


@contextmanager
def _moment_of(url: str) -> Generator[_Moment]:
    address = address_of(url)
    with translated(address.name):
        connection = connect(address)
    with closing(connection):  # nothing is to be committed, and the server may have ended the connection by then
        with translated(address.name):
            if not check_format(connection, address):
                raise LogUnusableError(f"{address.name} holds no log yet; name another schema")
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            relations = relations_of(connection, address)
        yield _Moment(connection, address, relations)


@contextmanager
def open_postgres_records(url: str) -> Generator[tuple[str, Select, Ask, bool]]:
    """Lend the name of the log that the URL names, two functions that read it, and whether it has keys."""
    with _moment_of(url) as moment:
        yield moment.address.name, moment.select, moment.ask, "keys" in moment.relations


@contextmanager
def postgres_evidence(url: str) -> Generator[Evidence]:
    """Lend the log at the URL as it is at this moment, in one read-only transaction.

    Raises:
        ConfigurationError: the URL is invalid.
        StorageError: the log cannot be opened or read.
    """
    with _moment_of(url) as moment:
        there = moment.relations
        moment.connection.adapters.register_loader("text", ByteaBinaryLoader)
        ((shards,),) = moment.ask(_SHARDS, ()) if "shards" in there else [(0,)]
        yield Evidence(
            moment.walk,
            moment.ask,
            rows=ROWS,
            counts=_COUNTS,
            tables={name: name in there for name in (*TABLES, *({"keys"} & there))},
            text=bytes,
            faults=list,
            shards=shards,
        )
