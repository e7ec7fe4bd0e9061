"""The runtime's own tables in SQLite: in files beside that of the log, one for each generation, or in memory."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

import msgspec

from reenact.projections.cipher import Cipher, opened
from reenact.projections.errors import ReadModelError
from reenact.projections.generations import BUSY_TIMEOUT, NAME, Generations, connect_to_write, mark, remove
from reenact.projections.log import Row
from reenact.projections.read_model import compiled
from reenact.projections.read_model.rows import Changes, Connection, Value, write

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem

_NOT_OF_THE_EVENTS = (sqlite3.OperationalError, sqlite3.DatabaseError)
"""Locked, full, damaged: exactly these classes; other subclasses of the second concern the data to be written."""

_json = msgspec.json.Encoder().encode


class SqliteStore:
    """The tables in a file. A connection belongs to its opener, and may be used on any thread, one at a time."""

    faults: ClassVar[type[Exception]] = sqlite3.Error

    def __init__(self, path: Path, number: int = 1, cipher: Cipher | None = None) -> None:
        self.path = path
        self.number = number
        self.cipher = cipher

    def __str__(self) -> str:
        """Return the path."""
        return str(self.path)

    def connect(self) -> sqlite3.Connection:
        """Return a connection to the file, which exists, to be closed."""
        return connect_to_write(self.path, "rw")

    def make(self) -> None:
        """Create the tables in the file, which has none.

        Raises:
            ReadModelError: it cannot be written.
        """
        try:
            with closing(connect_to_write(self.path)) as connection:
                make_tables(connection)
        except sqlite3.Error as error:
            raise ReadModelError(f"the projections cannot be written to {self.path}: {error}") from error

    def close(self) -> None:
        """Do nothing: only connections hold resources. Idempotent."""

    def begin(self, connection: Connection, origin: int, last: Row) -> tuple[Connection, bool]:
        """Begin a transaction with a `move`, excluding other writers; return the connection, and whether it moved."""
        connection.execute("BEGIN IMMEDIATE")
        return connection, self.move(connection, origin, last)

    def ask(self, connection: Connection, question: str, keys: Collection[str | int]) -> list[tuple[Value, ...]]:
        """Return the rows of a query for some keys."""
        # All keys are one parameter: the statement does not depend on their number, and SQLite prepares it once.
        rows = connection.execute(question, (_json(list(keys)).decode(),)).fetchall()
        return list(opened(rows, self.cipher))

    def reached(self, connection: Connection) -> int:
        """Return the position of the tables.

        Raises:
            ReadModelError: the progress row is missing.
        """
        found = connection.execute(compiled.PROGRESS_OF, (NAME,)).fetchone()
        if found is None or not isinstance(found[0], int):
            raise ReadModelError("the row that says how far the projections are is gone")
        return found[0]

    def move(self, connection: Connection, origin: int, last: Row) -> bool:
        """Move the tables from the position `origin` to that of this row; return False if they are elsewhere."""
        return connection.execute(compiled.MOVE, (last.position, mark(last), NAME, origin)).rowcount == 1

    def write(self, connection: Connection, changes: Changes) -> None:
        """Write the rows."""
        write(connection, changes, self.cipher)

    def roll_back(self, connection: Connection) -> None:
        """Roll back the transaction, if there is one."""
        with suppress(sqlite3.OperationalError):  # SQLite may have rolled back by itself
            connection.execute("ROLLBACK")

    def record_closed(self, connection: Connection, closed: int) -> None:
        """Record whether the tables are intact, for the next opening."""
        connection.execute(compiled.RECORD_CLOSED, (closed, NAME))

    def is_of_the_store(self, error: BaseException) -> bool:
        """Return whether the error is independent of the data that was to be written."""
        return type(error) in _NOT_OF_THE_EVENTS

    def is_worth_another_try(self, error: BaseException) -> bool:
        """Return False: a failed query is not repeated, since SQLite has waited for locks already."""
        return False

    def is_gone(self, error: BaseException) -> bool:
        """Return False: nobody deletes the tables while they are open."""
        return False

    def successor(self) -> SqliteStore | None:
        """Return None: no other process replaces these tables."""


class SqliteReaderStore(SqliteStore):
    """The tables in a file for a reader beside the writer: read-only, with a time limit for each statement."""

    def __init__(self, path: Path, number: int, seconds: float, cipher: Cipher | None = None) -> None:
        """Take the file, and the time limit of a statement in seconds."""
        super().__init__(path, number, cipher)
        self._seconds = seconds

    def connect(self) -> sqlite3.Connection:
        """Return a read-only connection, to be closed."""
        connection = sqlite3.connect(
            f"file:{quote(str(self.path.absolute()))}?mode=ro",
            uri=True,
            timeout=min(BUSY_TIMEOUT, self._seconds),
            isolation_level=None,
            check_same_thread=False,
            factory=_Limited,
        )
        connection.execute("PRAGMA query_only=ON")
        connection.limit(self._seconds)
        return connection

    def record_closed(self, connection: Connection, closed: int) -> None:
        """Do nothing: the tables belong to the writer."""


_STEPS = 10_000
"""How many instructions SQLite's virtual machine executes between two checks of the time: less than a millisecond."""


class _Limited(sqlite3.Connection):
    """Cancels each statement that exceeds the time limit. Used by one thread at a time."""

    _until = math.inf
    _seconds = math.inf

    def limit(self, seconds: float) -> None:
        """Set the time limit of statements."""
        self._seconds = seconds
        self.set_progress_handler(lambda: time.monotonic() > self._until, _STEPS)

    def execute(
        self, statement: str, values: SupportsLenAndGetItem[object] | Mapping[str, object] = (), /
    ) -> sqlite3.Cursor:
        """Execute a statement; the time limit includes fetching its rows."""
        self._until = time.monotonic() + self._seconds
        return super().execute(statement, values)


class PrivateStore(SqliteStore):
    """Empty tables in memory, on one connection that all threads share."""

    def __init__(self) -> None:
        if sqlite3.threadsafety < 3:  # noqa: PLR2004 - DB-API: threads may share connections
            raise ReadModelError("this Python's sqlite3 was built without the serialised mode")
        super().__init__(Path(":memory:"))
        self._shared = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, factory=_Shared)
        make_tables(self._shared)

    def connect(self) -> sqlite3.Connection:
        """Return the connection; closing it has no effect, since it is shared."""
        return self._shared

    def close(self) -> None:
        """Close the tables. Idempotent."""
        sqlite3.Connection.close(self._shared)


class _Shared(sqlite3.Connection):
    def close(self) -> None: ...


def make_tables(connection: sqlite3.Connection) -> None:
    """Create the tables and their indices, empty; the progress row is written last, and marks them as complete."""
    for statement in compiled.TABLES:
        connection.execute(statement)
    connection.execute(compiled.ADD_PROGRESS, (NAME, 0, "", compiled.VERSION, 0))


class SqliteFiles(Generations):
    """The files of the runtime's own tables, whose content is encrypted if there is a cipher."""

    def __init__(self, path: Path, cipher: Cipher | None = None) -> None:
        super().__init__(path)
        self._cipher = cipher

    def make(self, number: int) -> None:
        """Create the tables of a generation, empty, in a new file."""
        remove(self.file(number))
        self.store(number).make()

    def store(self, number: int) -> SqliteStore:
        """Return the tables of a generation."""
        return SqliteStore(self.file(number), number, self._cipher)

    def close(self) -> None:
        """Do nothing: only connections hold resources. Idempotent."""
