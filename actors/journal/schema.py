"""The tables of a log file, their format version, and the check whether a file is a log."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from reenact.domain.chain import Row
from reenact.domain.errors import LogTooNewError, LogUnusableError

APPLICATION_ID = 0x524E4C47
"""Identifies a SQLite file as a log ("RNLG")."""

FORMAT_VERSION = 1
"""The version of the tables below."""

BEFORE_RELEASE = "before the first release of Reenact; read it with the version that has written it, or begin a new log"
"""The part of the error message about a log written before the first release."""

_IDS_BEFORE_RELEASE = {0x52454E41, 0x524E4354}

# The key of `steps` is declared, so that VACUUM does not renumber it. Its long columns come last: a search for a row
# does not read their pages. Each index costs time at every step; `seeking` explains how one is enough. Requests have no
# index by time: old ones are searched by a reader, once in a while.
_TABLES = (
    """
    CREATE TABLE steps (
        number INTEGER PRIMARY KEY,
        stream TEXT NOT NULL,
        recorded_at INTEGER NOT NULL,
        version INTEGER NOT NULL,
        position INTEGER NOT NULL,
        count INTEGER NOT NULL,
        cursor INTEGER NOT NULL,
        heard INTEGER NOT NULL,
        key TEXT,
        epoch INTEGER NOT NULL DEFAULT 0,
        digest BLOB NOT NULL,
        original BLOB,
        seal BLOB,
        cause BLOB,
        events BLOB,
        feed BLOB
    )
    """,
    "CREATE UNIQUE INDEX steps_by_stream ON steps (stream, version, cursor)",
    """
    CREATE TABLE stored_snapshots (
        originator_id TEXT NOT NULL,
        originator_version INTEGER NOT NULL,
        topic TEXT NOT NULL,
        state BLOB NOT NULL,
        PRIMARY KEY (originator_id, originator_version)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE tracking (
        application_name TEXT NOT NULL PRIMARY KEY,
        notification_id INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE timers (
        stream TEXT NOT NULL PRIMARY KEY,
        due INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE INDEX timers_by_due ON timers (due)",
    """
    CREATE TABLE consumers (
        topic TEXT NOT NULL,
        client_id TEXT NOT NULL,
        cursor INTEGER NOT NULL,
        seen_at INTEGER NOT NULL,
        PRIMARY KEY (topic, client_id)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE requests (
        id TEXT NOT NULL PRIMARY KEY,
        digest BLOB NOT NULL,
        note BLOB NOT NULL,
        at INTEGER NOT NULL,
        proof BLOB NOT NULL
    ) WITHOUT ROWID
    """,
)

_CREATE_KEYS = (
    "CREATE TABLE keys (id TEXT NOT NULL PRIMARY KEY, stream TEXT NOT NULL, wrapped BLOB) WITHOUT ROWID",
    "CREATE INDEX keys_by_stream ON keys (stream)",
)
"""Creates the table of the data keys of an encrypted log, each wrapped by a key ring; NULL once destroyed."""

_BLOBS = frozenset({"digest", "original", "seal", "cause", "events", "feed"})
_TEXTS = frozenset({"stream", "key"})
# In a damaged log, text may not be text, and a number not a number.
CELLS = ", ".join(
    f"CAST({name} AS {'BLOB' if name in _BLOBS else 'TEXT' if name in _TEXTS else 'INTEGER'})"
    for name in Row.__struct_fields__
)
"""The columns of a `Row`, each cast to its expected type."""

_MAGIC = b"SQLite format 3\x00"
_HEADER_SIZE = 100


def check_file(path: str) -> None:
    """Check the file, and leave nothing beside it; a missing or empty one passes, as a log that is still to be created.

    Raises:
        LogTooNewError, LogUnusableError: the file is not a log, or shorter than its header says.
        OSError: the file cannot be read.
    """
    refuse_pipe(path)
    if is_open_here(path):
        _check_unlabelled(path)
        return
    try:
        with Path(path).open("rb") as file:
            header = file.read(_HEADER_SIZE)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return
    if not header:
        return
    if len(header) < _HEADER_SIZE or not header.startswith(_MAGIC):
        message = f"{path} is not a log; choose another file, or import it if it is an export"
        raise LogUnusableError(message)
    expected = _expected_size(header)
    # With a write-ahead log, the rest of the database may still be in there.
    if size < expected and not _has_content(f"{path}-wal"):
        message = f"{path} is truncated: {size} bytes instead of {expected}; restore a copy of it"
        raise LogUnusableError(message)
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        _check_unlabelled(path)


def is_open_here(path: str) -> bool:
    """Return whether this process has the file open.

    Then nobody may open and close it but SQLite: closing any descriptor of a file releases all record locks that the
    process holds on it. Without these locks another process that closes the log deletes the write-ahead log in use.
    """
    with suppress(OSError):
        status = os.stat(path)  # noqa: PTH116 - compared with those of descriptors
        for descriptor in os.listdir("/dev/fd"):  # noqa: PTH208 - the numbers
            with suppress(OSError):  # it was closed meanwhile
                if os.path.samestat(os.stat(int(descriptor)), status):  # noqa: PTH116 - a descriptor
                    return True
    return False


def refuse_pipe(path: str) -> None:
    """Raise `LogUnusableError` if a pipe or a device is at the path: reading it could block."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:  # whoever opens it reports why
        return
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        kind = "pipe" if stat.S_ISFIFO(mode) else "device"
        raise LogUnusableError(f"{path} is a {kind}, which keeps nothing; choose a file")


def _check_unlabelled(path: str) -> None:
    """Raise `LogUnusableError` if the database in the file has the tables, or the application id, of something else.

    The write-ahead log is read only if a program uses the database, since SQLite would create a file for that. A log
    may be in there completely; it has no tables without its id in the file.
    """
    how = "mode=ro" if Path(f"{path}-shm").exists() else "immutable=1"
    location = f"file:{quote(os.fsencode(path))}?{how}"
    with suppress(sqlite3.Error), closing(sqlite3.connect(location, uri=True)) as connection:
        check_format(connection, path)


def check_format(connection: sqlite3.Connection, path: str) -> bool:
    """Return whether the database is a log; False means that it is empty and may become one.

    Raises:
        LogTooNewError: a later version of the tables was written there.
        LogUnusableError: the database belongs to another program, or was written before the first release.
    """
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version = format_of(connection)
    if application_id == APPLICATION_ID:
        if version > FORMAT_VERSION:
            message = f"{path} has format {version}, newer than {FORMAT_VERSION}; upgrade to read it"
            raise LogTooNewError(message)
        if version != FORMAT_VERSION:
            raise LogUnusableError(f"{path} says that it has format {version}, which no log has; verify it")
        return True
    refuse_from_before_release(application_id, path)
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application_id or version or tables:
        message = f"{path} is the database of something else; choose another file"
        raise LogUnusableError(message)
    return False


def refuse_from_before_release(application_id: int, name: str) -> None:
    """Raise `LogUnusableError` if the application id is that of a log from before the first release."""
    if application_id in _IDS_BEFORE_RELEASE:
        raise LogUnusableError(f"{name} was written {BEFORE_RELEASE}")


def format_of(connection: sqlite3.Connection) -> int:
    """Return the format version of the tables, 0 if the database is not a log."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def create_tables(connection: sqlite3.Connection) -> None:
    """Turn an empty database into a log, entirely or, if this raises and the connection is closed, not at all."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    connection.execute("COMMIT")


def has_keys(connection: sqlite3.Connection) -> bool:
    """Return whether the log has a table of keys: it is encrypted, or was once opened with a key ring."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'keys'").fetchone() is not None


def create_keys(connection: sqlite3.Connection) -> None:
    """Create the table of keys, if it does not exist."""
    connection.execute("BEGIN IMMEDIATE")
    if not has_keys(connection):
        for statement in _CREATE_KEYS:
            connection.execute(statement)
    connection.execute("COMMIT")


def _expected_size(header: bytes) -> int:
    """Return the size that the database header states, 0 if it states no valid one (SQLite file format, 1.3)."""
    page_size = int.from_bytes(header[16:18], "big")
    page_count = int.from_bytes(header[28:32], "big")
    claim_is_valid = header[24:28] == header[92:96]
    return (65536 if page_size == 1 else page_size) * page_count if claim_is_valid else 0


def _has_content(path: str) -> bool:
    try:
        return Path(path).stat().st_size > 0
    except FileNotFoundError:
        return False
