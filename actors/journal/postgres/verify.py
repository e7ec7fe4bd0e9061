"""The same walk over the records of a log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reenact.actors.journal.postgres.address import Address, address_of
from reenact.actors.journal.postgres.connecting import Connection, connect, spelled
from reenact.actors.journal.postgres.faults import translated
from reenact.actors.journal.postgres.schema import (
    ASIDE,
    FIRST_WITH_REDACTIONS,
    FIRST_WITH_SEALS,
    check_format,
    format_of,
    relations_of,
)
from reenact.actors.journal.walk import (
    Finding,
    check_counts,
    check_feeds,
    check_requests,
    check_seals,
    check_streams,
    check_tables,
)
from reenact.domain.errors import LogUnusableError

_EVENTS = """
    SELECT convert_to(originator_id, 'UTF8'), originator_version, convert_to(topic, 'UTF8'), state, digest, rowid,
        {sealed}
    FROM stored_events ORDER BY originator_id, originator_version
"""
_SEAL = "(SELECT seal FROM redactions WHERE stream = originator_id AND version = originator_version)"
_LOST_SEALS = """
    SELECT convert_to(stream, 'UTF8'), version FROM redactions WHERE NOT EXISTS (
        SELECT 1 FROM stored_events WHERE originator_id = stream AND originator_version = version
    )
"""
_REQUESTS = "SELECT convert_to(id, 'UTF8'), digest, note, at, coalesce(proof, '') FROM requests"
_FEED = """
    SELECT convert_to(topic, 'UTF8'), first_cursor, count, segments, digest, {sealed}
    FROM feed ORDER BY topic, first_cursor
"""
_COUNTS = "SELECT (SELECT count(*) FROM stored_events), position FROM log"


def verify_postgres(url: str) -> list[Finding]:
    """Return what is wrong with the log, as `verify` does.

    Raises:
        ConfigurationError: the URL cannot be read.
        StorageError: the log cannot be read to its end.
    """
    address = address_of(url)
    with translated(address.name), connect(address) as connection:
        if not check_format(connection, address):
            raise LogUnusableError(f"{address.name} holds no log yet")
        # All of it as it stands at one moment.
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        version = format_of(connection, address)
        sealed = "sealed" if version >= FIRST_WITH_SEALS else "NULL::bytea"
        tables = relations_of(connection, address)
        has_redactions = version >= FIRST_WITH_REDACTIONS and "redactions" in tables
        has_proofs = version >= FIRST_WITH_REDACTIONS and "requests" in tables
        seal = _SEAL if has_redactions else "NULL::bytea"
        ((count, last),) = connection.execute(spelled(_COUNTS, address.schema)).fetchall()
        return [
            *check_streams(_stream(connection, _EVENTS.format(sealed=seal), address)),
            *check_seals(_stream(connection, _LOST_SEALS, address) if has_redactions else ()),
            *check_feeds(_stream(connection, _FEED.format(sealed=sealed), address)),
            *check_requests(_stream(connection, _REQUESTS, address) if has_proofs else ()),
            *check_counts(count, last),
            *check_tables([name for name, since in ASIDE.items() if since <= version], tables),
        ]


def _stream(connection: Connection, query: str, address: Address) -> Iterator[tuple[Any, ...]]:
    """Yield the rows, a few at a time."""
    with connection.cursor(name="walk", binary=True) as cursor:
        yield from cursor.execute(spelled(query, address.schema))
