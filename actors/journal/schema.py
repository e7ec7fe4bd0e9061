"""The tables of a log file, its format version, and whether a file is one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from reenact.domain.chain import Row
from reenact.domain.errors import LogTooNewError, LogUnusableError

APPLICATION_ID = 0x524E4C47
"""Marks a SQLite file as a log ("RNLG")."""

FORMAT_VERSION = 1
"""The version of the tables below."""

BEFORE_RELEASE = "before the first release of Reenact; read it with the version that has written it, or begin a new log"
"""What is said of a log that a state of Reenact from before its first release has written."""

_IDS_BEFORE_RELEASE = {0x52454E41, 0x524E4354}

# The key of `steps` is declared, so that no VACUUM renumbers it. Its long columns come last: whoever looks for a row
# reads none of their pages. Each index costs time at each step; see `seeking` for how one is enough. Requests have no
# index by time: what is old is looked for by a reader, once in a while.
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

CREATE_KEYS = (
    "CREATE TABLE keys (id TEXT NOT NULL PRIMARY KEY, stream TEXT NOT NULL, wrapped BLOB) WITHOUT ROWID",
    "CREATE INDEX keys_by_stream ON keys (stream)",
)
"""Makes the data keys of a log that is encrypted, each wrapped by a key ring; NULL once it was destroyed."""

_BLOBS = frozenset({"digest", "original", "seal", "cause", "events", "feed"})
_TEXTS = frozenset({"stream", "key"})
# Damaged text need not be text any more, nor a number one.
CELLS = ", ".join(
    f"CAST({name} AS {'BLOB' if name in _BLOBS else 'TEXT' if name in _TEXTS else 'INTEGER'})"
    for name in Row.__struct_fields__
)
"""What a `Row` is made of, each cell of the type that it should have."""

_MAGIC = b"SQLite format 3\x00"
_HEADER_SIZE = 100


def check_file(path: str) -> None:
    """Look at the file without SQLite: a file that is missing or empty passes, as a log that is still to begin.

    Raises:
        LogUnusableError: it is not an SQLite database, or shorter than it says it is.
        OSError: it cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            header = file.read(_HEADER_SIZE)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return
    if not header:
        return
    if len(header) < _HEADER_SIZE or not header.startswith(_MAGIC):
        message = f"{path} is not a log; choose another file"
        raise LogUnusableError(message)
    expected = _expected_size(header)
    # With a write-ahead log beside it, the rest of the file may still be in there.
    if size < expected and not _has_content(f"{path}-wal"):
        message = f"{path} is truncated: {size} bytes instead of {expected}; restore a copy of it"
        raise LogUnusableError(message)


def check_format(connection: sqlite3.Connection, path: str) -> bool:
    """Return whether the database is a log; False means that it is empty and may become one.

    Raises:
        LogTooNewError: a later version of the tables was written there.
        LogUnusableError: it belongs to something else, or was written before the first release.
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
    """Raise `LogUnusableError` if a file with this id is a log from before the first release."""
    if application_id in _IDS_BEFORE_RELEASE:
        raise LogUnusableError(f"{name} was written {BEFORE_RELEASE}")


def format_of(connection: sqlite3.Connection) -> int:
    """Return the version of the tables' format, 0 if they are not a log's."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def create_tables(connection: sqlite3.Connection) -> None:
    """Make an empty database a log, entirely or, if this raises and the connection is closed, not at all."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    connection.execute("COMMIT")


def has_keys(connection: sqlite3.Connection) -> bool:
    """Return whether the log has a table of keys, so that it is encrypted, or was once opened with a key ring."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'keys'").fetchone() is not None


def create_keys(connection: sqlite3.Connection) -> None:
    """Make the table of keys, if there is none."""
    connection.execute("BEGIN IMMEDIATE")
    if not has_keys(connection):
        for statement in CREATE_KEYS:
            connection.execute(statement)
    connection.execute("COMMIT")


def table_forms() -> dict[str, str]:
    """Return how what a log consists of is made, by its names, without blanks."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in (*_TABLES, *CREATE_KEYS):
            connection.execute(statement)
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {name: "".join(sql.split()) for name, sql in rows}


def _expected_size(header: bytes) -> int:
    """Return the size that the database header claims, 0 if it makes no valid claim (SQLite file format, 1.3)."""
    page_size = int.from_bytes(header[16:18], "big")
    page_count = int.from_bytes(header[28:32], "big")
    claim_is_valid = header[24:28] == header[92:96]
    return (65536 if page_size == 1 else page_size) * page_count if claim_is_valid else 0


def _has_content(path: str) -> bool:
    try:
        return Path(path).stat().st_size > 0
    except FileNotFoundError:
        return False
