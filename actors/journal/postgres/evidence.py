"""The evidence of a log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from psycopg.types.string import ByteaBinaryLoader

from reenact.actors.journal.evidence import ROWS, Evidence
from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import connect, spelled
from reenact.actors.journal.postgres.faults import translated
from reenact.actors.journal.postgres.schema import TABLES, check_format, relations_of
from reenact.actors.journal.seeking import Cells
from reenact.domain.errors import LogUnusableError

_COUNTS = """
    SELECT rows, events, last, position FROM log, (
        SELECT count(*) AS rows, coalesce(sum(count), 0)::bigint AS events, max(position + count - 1) AS last
        FROM steps
    ) AS counted
"""

_SHARDS = "SELECT count(*) FROM shards"


@contextmanager
def postgres_evidence(url: str) -> Generator[Evidence]:
    """Lend the log at the URL as it is at this moment, in one read-only transaction.

    Raises:
        ConfigurationError: the URL is invalid.
        StorageError: the log cannot be opened or read.
    """
    address = address_of(url)
    with translated(address.name), connect(address) as connection:
        if not check_format(connection, address):
            raise LogUnusableError(f"{address.name} holds no log yet")
        there = relations_of(connection, address)
        connection.adapters.register_loader("text", ByteaBinaryLoader)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        numbers = count()

        def walk(query: str) -> Iterator[Cells]:
            """Yield the rows, fetching a few at a time."""
            with connection.cursor(name=f"walk_{next(numbers)}", binary=True) as cursor:
                yield from cursor.execute(spelled(query, address.schema))

        def ask(query: str, parameters: Sequence[str | int | bytes]) -> list[Cells]:
            return connection.execute(spelled(query, address.schema), parameters, binary=True).fetchall()

        ((shards,),) = ask(_SHARDS, ()) if "shards" in there else [(0,)]
        yield Evidence(
            walk,
            ask,
            rows=ROWS,
            counts=_COUNTS,
            tables={name: name in there for name in (*TABLES, *({"keys"} & there))},
            text=bytes,
            faults=list,
            shards=shards,
        )
