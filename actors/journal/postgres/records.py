"""The records of a log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from reenact.actors.journal.postgres.address import Address, address_of
from reenact.actors.journal.postgres.connecting import Connection, connect, spelled
from reenact.actors.journal.postgres.faults import translated
from reenact.actors.journal.postgres.schema import check_format, relations_of
from reenact.actors.journal.seeking import Cells
from reenact.domain.chain import Row
from reenact.domain.errors import LogUnusableError

Select: TypeAlias = Callable[[str, Sequence[str] | None], Iterator[Cells]]
Ask: TypeAlias = Callable[[str, Sequence[str | int | bytes]], list[Cells]]
_CELLS = ", ".join(Row.__struct_fields__)


@contextmanager
def open_postgres_records(url: str) -> Generator[tuple[str, Select, Ask, bool]]:
    """Lend the name of the log that the URL names, two functions that read it, and whether it has keys."""
    address = address_of(url)
    with translated(address.name):
        connection = connect(address)
    with connection:
        with translated(address.name):
            if not check_format(connection, address):
                raise LogUnusableError(f"{address.name} holds no log yet; name another schema")
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            is_encrypted = "keys" in relations_of(connection, address)
        yield address.name, partial(_select, connection, address), partial(_ask, connection, address), is_encrypted


def _select(connection: Connection, address: Address, query: str, streams: Sequence[str] | None) -> Iterator[Cells]:
    which = "" if streams is None else "WHERE stream = ANY (?::text[])"
    parameters = () if streams is None else (list(streams),)
    with translated(address.name), connection.cursor(name="records", binary=True) as cursor:
        yield from cursor.execute(spelled(query.format(which=which, cells=_CELLS), address.schema), parameters)


def _ask(connection: Connection, address: Address, query: str, parameters: Sequence[str | int | bytes]) -> list[Cells]:
    with translated(address.name):
        return connection.execute(spelled(query, address.schema), parameters, binary=True).fetchall()
