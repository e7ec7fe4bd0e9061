"""Where the tables are, and connections to them: the standard library's, which begin and end no transaction unasked."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import ClassVar, Final

from reenact.projections import compiled
from reenact.projections.errors import ReadModelError

BUSY_TIMEOUT: Final = 5.0
CHECKPOINT_PAGES: Final = 4000
"""Pages that the write-ahead log grows to before it goes home; most are written again and again until then."""


class Store:
    """The tables in a file. Each connection belongs to who opened it, whatever thread that is on at the time."""

    factory: ClassVar[type[sqlite3.Connection]] = sqlite3.Connection
    """What makes the connections."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def connect(self) -> sqlite3.Connection:
        """Return a connection, to be closed."""
        connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, factory=self.factory
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")  # a tail lost with the power is projected again
            connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        except BaseException:
            connection.close()
            raise
        return connection

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


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and their indices, empty."""
    for statement in compiled.TABLES:
        connection.execute(statement)
