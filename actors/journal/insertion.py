"""Many rows into a table with few statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import TypeAlias

Values: TypeAlias = tuple[int | str | bytes, ...]

# At each statement sqlite3 lets other threads run, and one that is busy may keep the interpreter for 5 ms:
# `executemany`, a statement for each row, was four times slower beside such a thread. 128 rows of 6 values stay far
# below the number of parameters that SQLite takes.
_SIZES = (128, 16, 4, 1)


class Insertion:
    """Inserts whole rows into a table, many by one statement."""

    def __init__(self, table: str, columns: int) -> None:
        row = f"({', '.join('?' * columns)})"
        insert = f"INSERT INTO {table} VALUES "  # noqa: S608 - the names of our own tables
        self._statements = [(size, insert + ", ".join([row] * size)) for size in _SIZES]

    def run(self, connection: sqlite3.Connection, rows: Sequence[Values]) -> None:
        """Insert the rows in their order."""
        start = 0
        for size, statement in self._statements:
            while len(rows) - start >= size:
                connection.execute(statement, list(chain.from_iterable(rows[start : start + size])))
                start += size
