"""Reading a log in a PostgreSQL schema, from any thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from reenact.actors.journal.pool import ReadPool
from reenact.actors.journal.postgres.address import Address
from reenact.actors.journal.postgres.connecting import Connection, connect, spelled
from reenact.actors.journal.postgres.faults import translated


class PostgresReader(ReadPool[Connection]):
    """Keeps the promise of `reader.Reader`."""

    def __init__(self, address: Address) -> None:
        """Read the log at the address; connections are opened when they are needed."""
        super().__init__(
            lambda: connect(address),
            address.name,
            translated=translated,
            is_usable=lambda connection: connection.info.transaction_status == TransactionStatus.IDLE,
        )
        self._schema = address.schema

    def select(self, query: str, parameters: Sequence[str | int | bytes]) -> list[Any]:
        """Return the rows of the query."""
        spelling = spelled(query, self._schema)
        with self.connection() as connection:
            try:
                return _fetch(connection, spelling, parameters)
            except psycopg.OperationalError:
                if not connection.closed:
                    raise
        # The server had ended the connection while nobody used it, and the other idle ones with it.
        self.clear()
        with self.connection() as connection:
            return _fetch(connection, spelling, parameters)


def _fetch(connection: Connection, query: bytes, parameters: Sequence[str | int | bytes]) -> list[Any]:
    return connection.execute(query, parameters, binary=True).fetchall()
