"""Is the log what was once written? Every stream and every feed is walked, and each break of its chain is named."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from reenact.actors.journal.faults import translated
from reenact.actors.journal.opening import is_postgres
from reenact.actors.journal.postgres.driver import require_driver
from reenact.actors.journal.schema import ASIDE, FIRST_WITH_REDACTIONS, FIRST_WITH_SEALS, format_of
from reenact.actors.journal.sqlite_reader import connect_to_read
from reenact.actors.journal.walk import (
    Finding,
    check_counts,
    check_feeds,
    check_requests,
    check_seals,
    check_streams,
    check_tables,
)

__all__ = ["Finding", "verify"]

# Read as what they should be: damaged text need not be text any more, and what is missing is not what was digested.
_EVENTS = """
    SELECT CAST(coalesce(originator_id, '') AS BLOB), CAST(coalesce(originator_version, -1) AS INTEGER),
        CAST(coalesce(topic, '') AS BLOB), CAST(coalesce(state, '') AS BLOB), CAST(coalesce(digest, '') AS BLOB), rowid,
        {sealed}
    FROM stored_events ORDER BY originator_id, originator_version
"""
_SEAL = """
    (SELECT CAST(seal AS BLOB) FROM redactions WHERE stream = originator_id AND version = originator_version)
"""
_LOST_SEALS = """
    SELECT CAST(stream AS BLOB), CAST(version AS INTEGER) FROM redactions WHERE NOT EXISTS (
        SELECT 1 FROM stored_events WHERE originator_id = stream AND originator_version = version
    )
"""
_REQUESTS = """
    SELECT CAST(id AS BLOB), CAST(digest AS BLOB), CAST(note AS BLOB), CAST(at AS INTEGER),
        CAST(coalesce(proof, '') AS BLOB)
    FROM requests
"""
_FEED = """
    SELECT CAST(coalesce(topic, '') AS BLOB), CAST(coalesce(first_cursor, -1) AS INTEGER),
        CAST(coalesce(count, -1) AS INTEGER), CAST(coalesce(segments, '') AS BLOB), CAST(coalesce(digest, '') AS BLOB),
        {sealed}
    FROM feed ORDER BY topic, first_cursor
"""
_COUNTS = """
    SELECT (SELECT count(*) FROM stored_events NOT INDEXED), coalesce(max(seq), 0)
    FROM sqlite_sequence WHERE name = 'stored_events'
"""
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"


def verify(log: sqlite3.Connection | str | os.PathLike[str]) -> list[Finding]:
    """Return what is wrong with the log, which is read in one pass and in bounded memory; nothing is repaired.

    The log is a file, an open connection to it, or the URL of one in PostgreSQL.

    Raises:
        ConfigurationError: the URL cannot be read, or what it needs is not installed.
        StorageError: the log cannot be read to its end.
    """
    if isinstance(log, sqlite3.Connection):
        return _verify(log)
    if is_postgres(log):
        require_driver()
        from reenact.actors.journal.postgres.verify import verify_postgres  # noqa: PLC0415 - an extra

        return verify_postgres(os.fspath(log))
    path = os.path.realpath(log)
    with translated(path), closing(connect_to_read(path)) as connection:
        return _verify(connection)


def _verify(connection: sqlite3.Connection) -> list[Finding]:
    connection.execute("BEGIN")
    try:
        version = format_of(connection)
        sealed = "CAST(sealed AS BLOB)" if version >= FIRST_WITH_SEALS else "NULL"
        tables = {name for (name,) in connection.execute(_TABLES).fetchall()}
        has_redactions = version >= FIRST_WITH_REDACTIONS and "redactions" in tables
        has_proofs = version >= FIRST_WITH_REDACTIONS and "requests" in tables
        seal = _SEAL if has_redactions else "NULL"
        counts: tuple[int, int] = connection.execute(_COUNTS).fetchone()
        return [
            *check_streams(connection.execute(_EVENTS.format(sealed=seal))),
            *check_seals(connection.execute(_LOST_SEALS) if has_redactions else ()),
            *check_feeds(connection.execute(_FEED.format(sealed=sealed))),
            *check_requests(connection.execute(_REQUESTS) if has_proofs else ()),
            *check_counts(*counts),
            *check_tables([name for name, since in ASIDE.items() if since <= version], tables),
        ]
    finally:
        connection.execute("ROLLBACK")
