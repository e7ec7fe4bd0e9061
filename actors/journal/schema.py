"""The tables of a log file, its format version, and whether a file is one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from reenact.actors.journal.chain import request_proof
from reenact.domain.errors import LogTooNewError, LogUnusableError

APPLICATION_ID = 0x52454E41
"""Marks a SQLite file as a log ("RENA")."""

FORMAT_VERSION = 4
"""The version of the tables below. Format 1 had no timers; format 2 no consumers, requests and seals of rows; format 3
no redacted events and no proofs of requests.
"""

ASIDE = {"stored_snapshots": 1, "tracking": 1, "timers": 2, "consumers": 3, "requests": 3, "redactions": 4}
"""The tables beside those of the events and the feeds, and the first version that has them."""

FIRST_WITH_SEALS = 3
"""The first version in which rows of feeds can be sealed."""

FIRST_WITH_REDACTIONS = 4
"""The first version in which events can be redacted, and requests are proven."""

# When each stream is to be woken.
_TIMERS = (
    """
    CREATE TABLE timers (
        stream TEXT NOT NULL PRIMARY KEY,
        due INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE INDEX timers_by_due ON timers (due)",
)

_CONSUMERS = """
    CREATE TABLE consumers (
        topic TEXT NOT NULL,
        client_id TEXT NOT NULL,
        cursor INTEGER NOT NULL,
        seen_at INTEGER NOT NULL,
        PRIMARY KEY (topic, client_id)
    ) WITHOUT ROWID
"""

# No index by time: each request would pay for it, and what is old is looked for by a reader, once in a while.
_REQUESTS = """
    CREATE TABLE requests (
        id TEXT NOT NULL PRIMARY KEY,
        digest BLOB NOT NULL,
        note BLOB NOT NULL,
        at INTEGER NOT NULL
    ) WITHOUT ROWID
"""

# The seals of redacted events. A table of its own: an event has nothing to say of it, and few of them are redacted.
_FORMAT_4 = (
    """
    CREATE TABLE redactions (
        stream TEXT NOT NULL,
        version INTEGER NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (stream, version)
    ) WITHOUT ROWID
    """,
    "ALTER TABLE requests ADD COLUMN proof BLOB",
)
# Damaged text need not be text any more, nor a number one.
_PROVE_REQUESTS = """
    UPDATE requests SET proof = request_proof(
        CAST(id AS BLOB), CAST(digest AS BLOB), CAST(note AS BLOB), CAST(at AS INTEGER)
    )
"""

_FEED = """
    CREATE TABLE feed (
        topic TEXT NOT NULL,
        first_cursor INTEGER NOT NULL,
        count INTEGER NOT NULL,
        segments BLOB NOT NULL,
        digest BLOB NOT NULL,
        {sealed}
        UNIQUE (topic, first_cursor)
    )
"""

# What turns the tables of an earlier format into those of the next.
_UPGRADES = {
    2: _TIMERS,
    3: (_CONSUMERS, _REQUESTS, "ALTER TABLE feed ADD COLUMN sealed BLOB"),
    4: (*_FORMAT_4, _PROVE_REQUESTS),
}

# The key of stored_events is declared, so that no VACUUM renumbers it, and named as the eventsourcing library's own
# SQLite recorder asks for it. AUTOINCREMENT: the position of a removed record is never given to another one. Rows of
# the feed are long: a table keyed by their topics would put each on pages of its own.
_TABLES = (
    """
    CREATE TABLE stored_events (
        rowid INTEGER PRIMARY KEY AUTOINCREMENT,
        originator_id TEXT NOT NULL,
        originator_version INTEGER NOT NULL,
        topic TEXT NOT NULL,
        state BLOB NOT NULL,
        digest BLOB NOT NULL,
        UNIQUE (originator_id, originator_version)
    )
    """,
    _FEED.format(sealed="sealed BLOB,"),
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
    *_TIMERS,
    _CONSUMERS,
    _REQUESTS,
    *_FORMAT_4,
)
_FIRST_TABLES = (_TABLES[0], _FEED.format(sealed=""), *_TABLES[2:4])
"""Those of format 1."""
_LATER_TABLES = {2: _TIMERS, 3: (_CONSUMERS, _REQUESTS), 4: _FORMAT_4}
"""What each format has added to them, in a log that has begun with it."""

_MAGIC = b"SQLite format 3\x00"
_HEADER_SIZE = 100


def check_file(path: str) -> None:
    """Look at the file without SQLite: a file that is missing or empty passes, as a log that is still to begin.

    Raises:
        LogUnusableError: it is no SQLite database, or shorter than it says it is.
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
        LogUnusableError: it belongs to something else.
    """
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version = format_of(connection)
    if application_id == APPLICATION_ID:
        if version > FORMAT_VERSION:
            message = f"{path} has format {version}, newer than {FORMAT_VERSION}; upgrade to read it"
            raise LogTooNewError(message)
        return True
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application_id or version or tables:
        message = f"{path} is the database of something else; choose another file"
        raise LogUnusableError(message)
    return False


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


def forms_of(version: int) -> dict[str, set[str]]:
    """Return how what a log of the format consists of may have been made, by its names: as it began, or upgraded."""
    forms: dict[str, set[str]] = {}
    for begun in range(1, version + 1):
        with closing(sqlite3.connect(":memory:")) as connection:
            for statement in _FIRST_TABLES if begun < FIRST_WITH_SEALS else _TABLES[:4]:
                connection.execute(statement)
            for later in range(2, begun + 1):
                for statement in _LATER_TABLES[later]:
                    connection.execute(statement)
            for later in range(begun + 1, version + 1):
                for statement in _UPGRADES[later]:
                    if statement is not _PROVE_REQUESTS:
                        connection.execute(statement)
            for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"):
                forms.setdefault(name, set()).add("".join(sql.split()))
    return forms


def upgrade_tables(connection: sqlite3.Connection) -> None:
    """Bring the tables of an earlier format to today's, entirely or not at all.

    Raises:
        LogUnusableError: they are not those of the format that the file says it has.
    """
    said = format_of(connection)
    if said == FORMAT_VERSION:
        return
    connection.create_function("request_proof", 4, request_proof, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(said + 1, FORMAT_VERSION + 1):
            for statement in _UPGRADES.get(version, ()):
                connection.execute(statement)
    except sqlite3.OperationalError as error:
        connection.execute("ROLLBACK")
        if _is_of_tables(error):
            path = connection.execute("PRAGMA database_list").fetchone()[2]
            message = f"{path} says that it has format {said}, and its tables are not of that ({error})"
            raise LogUnusableError(f"{message}; verify it, and restore a copy of it") from error
        raise
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    connection.execute("COMMIT")


def _is_of_tables(error: sqlite3.OperationalError) -> bool:
    """Return whether what was to be changed is not as it should be, or there already."""
    return error.sqlite_errorname == "SQLITE_ERROR"


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
