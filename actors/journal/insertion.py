"""Many rows into a table with few statements."""

from __future__ import annotations

import sqlite3

from reenact.actors.journal.store import Values

# At each statement sqlite3 lets other threads run, and one that is busy may keep the interpreter for 5 ms:
# `executemany`, a statement for each row, was four times slower beside such a thread. 128 rows of 16 values stay far
# below the number of parameters that SQLite takes.
_SIZES = (128, 16, 4, 1)


class Insertion:
    """Inserts rows into a table, many by one statement."""

    def __init__(self, table: str, columns: int, *, then: str = "") -> None:
        """Name the table, with its columns if these are not all, and what is to be done `then`."""
        row = f"({', '.join('?' * columns)})"
        # Whatever fails takes the transaction with it. Without OR ROLLBACK, SQLite copies each page that a statement of
        # several rows touches, to undo that statement alone: into a temporary file, when the rows lie far apart.
        insert = f"INSERT OR ROLLBACK INTO {table} VALUES "  # noqa: S608 - the names of our own tables
        self._statements = [(size * columns, insert + ", ".join([row] * size) + then) for size in _SIZES]

    def run(self, connection: sqlite3.Connection, values: Values) -> None:
        """Insert the rows in their order."""
        start, end = 0, len(values)
        for size, statement in self._statements:
            while end - start >= size:
                connection.execute(statement, values[start : start + size])
                start += size
