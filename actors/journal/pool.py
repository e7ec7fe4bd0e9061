"""Connections for reading, lent to one thread at a time."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from reenact.actors.journal.faults import translated
from reenact.domain.errors import RuntimeClosedError

BUSY_TIMEOUT = 10.0
"""How many seconds a connection waits for a lock that another process holds on the file."""

_IDLE_LIMIT = 8


class ReadPool:
    """As many connections as there are readers at once; a few of them are kept for the next ones."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: str) -> None:
        """Open connections with `connect` when they are needed."""
        self._connect = connect
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._lent = 0
        self._is_open = True
        self._returned = threading.Condition()

    @contextmanager
    def connection(self) -> Generator[sqlite3.Connection]:
        """Lend a connection; what SQLite raises meanwhile becomes an error of ours.

        Raises:
            RuntimeClosedError: the pool is closed.
            StorageError: the log cannot be read.
        """
        idle = self._borrow()
        connection: sqlite3.Connection | None = None
        try:
            with translated(self._path):
                connection = idle or self._connect()
                yield connection
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """Lend no more, wait for what is lent, and close every connection. Idempotent."""
        with self._returned:
            self._is_open = False
            self._returned.wait_for(lambda: not self._lent)
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _borrow(self) -> sqlite3.Connection | None:
        with self._returned:
            if not self._is_open:
                message = f"the log {self._path} is closed"
                raise RuntimeClosedError(message)
            self._lent += 1
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: sqlite3.Connection | None) -> None:
        with self._returned:
            self._lent -= 1
            if connection is not None and len(self._idle) < _IDLE_LIMIT:
                self._idle.append(connection)
                connection = None
            if not self._lent:
                self._returned.notify_all()
        if connection is not None:
            connection.close()


def connect_to_read(path: str) -> sqlite3.Connection:
    """Open the log at `path` for reading, making and changing nothing of it.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    uri = Path(path).as_uri()
    try:
        return _open_to_read(f"{uri}?mode=ro")
    except sqlite3.OperationalError:
        # In a directory that cannot be written, SQLite cannot make the files beside the log that readers share with
        # a writer; but where nobody can write, nothing changes either.
        if os.access(Path(path).parent, os.W_OK) or Path(f"{path}-wal").exists():
            raise
        return _open_to_read(f"{uri}?mode=ro&immutable=1")


def _open_to_read(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        # The first look at the file; connecting alone does not touch it.
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection
