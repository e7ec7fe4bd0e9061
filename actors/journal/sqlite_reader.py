"""Reads a log in a SQLite file, beside the process that writes it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from reenact.actors.journal.faults import fault, translated
from reenact.actors.journal.pool import ReadPool
from reenact.actors.journal.schema import is_open_here
from reenact.actors.journal.seeking import Cells
from reenact.domain.errors import LogUnusableError

BUSY_TIMEOUT = 10.0
"""Seconds for which a connection waits for a lock that another process holds on the file."""


class SqliteReader(ReadPool[sqlite3.Connection]):
    """Implements `store.Reader`."""

    def __init__(self, path: str) -> None:
        """Read the log at `path`; connections are opened on demand."""
        super().__init__(lambda: connect_to_read(path), path, translated=translated)

    def select(self, query: str, parameters: Sequence[str | int | bytes]) -> list[Cells]:
        """Return the rows of the query."""
        # Like `connection`, without the cost of two context managers: each start of an actor reads its stream.
        connection = self.borrow()
        try:
            return connection.execute(query, parameters).fetchall()
        except (sqlite3.Error, OSError, UnicodeError) as error:
            raise fault(error, self.name) from error
        except OverflowError as error:  # from a number in a damaged row, used to look for the next rows
            raise LogUnusableError(f"{self.name}: {error}; no log has such a number: verify it") from error
        finally:
            self.give_back(connection)


def connect_to_read(path: str) -> sqlite3.Connection:
    """Open the log at `path` for reading, without creating or changing anything.

    Raises:
        LogUnusableError: the file does not exist.
        OSError: the file cannot be read.
        sqlite3.Error: the database cannot be opened.
    """
    uri = (
        f"file:{quote(os.fsencode(path))}"  # `as_uri` loads urllib.request, and with it http.client, since Python 3.14
    )
    try:
        return _open_to_read(f"{uri}?mode=ro")
    except sqlite3.OperationalError:
        try:
            if not is_open_here(path):
                Path(path).open("rb").close()
        except FileNotFoundError:
            raise LogUnusableError(f"there is no log at {path}; check the path") from None
        # In a directory that cannot be written, SQLite cannot create the files that readers share with a writer; but
        # there nothing can change either.
        if os.access(Path(path).parent, os.W_OK) or Path(f"{path}-wal").exists():
            raise
        return _open_to_read(f"{uri}?mode=ro&immutable=1")


def _open_to_read(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        # Connecting alone does not touch the file.
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection
