"""SQLite connections to the runtime's own tables: a writer's, and a pool for readers."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

from reenact.domain.errors import RuntimeClosedError
from reenact.projections.errors import ReadModelError
from reenact.projections.generations import NAME, connect_to_write
from reenact.projections.read_model import compiled
from reenact.projections.read_model.rows import Value

_KEPT_OPEN: Final = 8


class Store:
    """The tables in a file. Each connection belongs to who opened it, whatever thread that is on at the time."""

    factory: ClassVar[type[sqlite3.Connection]] = sqlite3.Connection
    """What makes the connections."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def connect(self) -> sqlite3.Connection:
        """Return a connection, to be closed."""
        return connect_to_write(self.path, factory=self.factory)

    def make(self) -> None:
        """Make the tables in the file, which has none.

        Raises:
            ReadModelError: it cannot be written.
        """
        try:
            with closing(self.connect()) as connection:
                make_tables(connection)
        except sqlite3.Error as error:
            raise ReadModelError(f"the projections cannot be written to {self.path}: {error}") from error

    def close(self) -> None:
        """Let go of what is kept beyond the connections: nothing. Idempotent."""


class PrivateStore(Store):
    """Empty tables in memory, on one connection that all threads share."""

    def __init__(self) -> None:
        if sqlite3.threadsafety < 3:  # noqa: PLR2004 - DB-API: threads may share connections
            raise ReadModelError("this Python's sqlite3 was built without the serialised mode")
        super().__init__(Path(":memory:"))
        self._shared = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, factory=_Shared)
        make_tables(self._shared)

    def connect(self) -> sqlite3.Connection:
        """Return the connection; it stays open when it is closed, since others have it, too."""
        return self._shared

    def close(self) -> None:
        """Let go of the tables. Idempotent."""
        sqlite3.Connection.close(self._shared)


class _Shared(sqlite3.Connection):
    def close(self) -> None: ...


_Lent: TypeAlias = tuple[sqlite3.Connection, Store]


class Readers:
    """As many connections as there are readers at once, a few of which stay open for the next ones. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._free: deque[_Lent] = deque()
        self._closed = False
        self.failed = False
        """Whether a question could not be answered, which may be a fault of the tables."""

    def ask(self, question: str, values: Mapping[str, Value]) -> tuple[list[str], list[tuple[Value, ...]]]:
        """Return the names of the columns, and the rows that answer the question.

        Raises:
            ReadModelError: the tables cannot be read.
            RuntimeClosedError: the readers are closed.
        """
        if self._closed:
            raise RuntimeClosedError("the runtime is closed; open it again to go on")
        try:
            lent = self._take()
            try:
                found = lent[0].execute(question, values)
                return [name for name, *_ in found.description], found.fetchall()
            finally:
                self._give_back(lent)
        except sqlite3.Error as error:
            self.failed = True
            raise ReadModelError(f"the projections cannot be read: {error}") from error
        except UnicodeEncodeError:
            return [], []  # nothing has an id that is no Unicode

    def turn_to(self, store: Store) -> None:
        """Answer from these tables from now on; a question that is being answered is answered from the others."""
        self._store = store
        self.failed = False
        self._let_go(keep=0)

    def close(self) -> None:
        """Close the connections; a question that is being answered is answered. Idempotent."""
        self._closed = True
        self._let_go(keep=0)

    def _take(self) -> _Lent:
        store = self._store
        try:
            while (lent := self._free.pop())[1] is not store:
                lent[0].close()
        except IndexError:
            return store.connect(), store
        return lent

    def _give_back(self, lent: _Lent) -> None:
        if lent[1] is not self._store:
            lent[0].close()
            return
        self._free.append(lent)
        if self._closed or len(self._free) > _KEPT_OPEN:
            self._let_go(keep=0 if self._closed else _KEPT_OPEN)

    def _let_go(self, *, keep: int) -> None:
        while len(self._free) > keep:
            try:
                connection, _ = self._free.popleft()
            except IndexError:  # another thread was quicker
                return
            connection.close()


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and their indices, empty; they are made when the row is there that says how far they are."""
    for statement in compiled.TABLES:
        connection.execute(statement)
    connection.execute(compiled.ADD_PROGRESS, (NAME, 0, "", compiled.VERSION, 0))
