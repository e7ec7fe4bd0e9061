"""The tables of a log, the version of their format, and whether a schema holds a log."""

from __future__ import annotations

from reenact.actors.journal.chain import request_proof
from reenact.actors.journal.postgres.address import Address
from reenact.actors.journal.postgres.connecting import LOCK_TIMEOUT, Connection, spelled
from reenact.domain.errors import LogTooNewError, LogUnusableError

FORMAT_VERSION = 4
"""The version of the tables below, the same as that of a file that holds as much. Format 1 had no consumers,
requests and seals of rows; there was no format 2; format 3 had no redacted events and no proofs of requests.
"""

ASIDE = {"stored_snapshots": 1, "tracking": 1, "timers": 1, "consumers": 3, "requests": 3, "redactions": 4}
"""The tables beside those of the events and the feeds, and the first version that has them."""

FIRST_WITH_SEALS = 3
"""The first version in which rows of feeds can be sealed."""

FIRST_WITH_REDACTIONS = 4
"""The first version in which events can be redacted, and requests are proven."""

_APPLICATION = "reenact"

_FORMAT_3 = (
    """
    CREATE TABLE consumers (
        topic text COLLATE "C" NOT NULL,
        client_id text COLLATE "C" NOT NULL,
        cursor bigint NOT NULL,
        seen_at bigint NOT NULL,
        PRIMARY KEY (topic, client_id)
    )
    """,
    # No index by time: each request would pay for it, and what is old is looked for by a reader, once in a while.
    """
    CREATE TABLE requests (
        id text COLLATE "C" PRIMARY KEY,
        digest bytea NOT NULL,
        note bytea NOT NULL,
        at bigint NOT NULL
    )
    """,
    "ALTER TABLE feed ADD COLUMN sealed bytea",
    # What SQLite calls a rowid: the order in which rows were written. Rows that are there already get it as they lie.
    "ALTER TABLE feed ADD COLUMN place bigint GENERATED ALWAYS AS IDENTITY",
    "CREATE INDEX feed_by_place ON feed (place) WHERE sealed IS NULL",
)

# The seals of redacted events. A table of its own: an event has nothing to say of it, and few of them are redacted.
_FORMAT_4 = (
    """
    CREATE TABLE redactions (
        stream text COLLATE "C" NOT NULL,
        version bigint NOT NULL,
        seal bytea NOT NULL,
        PRIMARY KEY (stream, version)
    )
    """,
    "ALTER TABLE requests ADD COLUMN proof bytea",
)
_UPGRADES = {3: _FORMAT_3, 4: _FORMAT_4}

# `log` is one row: what is in here, where the log ends, and who wrote last. Whoever holds the lock of that row may
# write; positions are given under it, so that they become visible in their order and without holes.
# The events are laid out as the eventsourcing library's own PostgreSQL recorder asks for them. Names are compared byte
# by byte, wherever the database is at home.
_TABLES = (
    """
    CREATE TABLE log (
        is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
        application text NOT NULL,
        format integer NOT NULL,
        position bigint NOT NULL,
        writer text NOT NULL
    )
    """,
    """
    CREATE TABLE stored_events (
        notification_id bigint NOT NULL UNIQUE,
        originator_id text COLLATE "C" NOT NULL,
        originator_version bigint NOT NULL,
        topic text NOT NULL,
        state bytea NOT NULL,
        digest bytea NOT NULL,
        PRIMARY KEY (originator_id, originator_version)
    )
    """,
    """
    CREATE TABLE feed (
        topic text COLLATE "C" NOT NULL,
        first_cursor bigint NOT NULL,
        count bigint NOT NULL,
        segments bytea NOT NULL,
        digest bytea NOT NULL,
        PRIMARY KEY (topic, first_cursor)
    )
    """,
    """
    CREATE TABLE stored_snapshots (
        originator_id text COLLATE "C" NOT NULL,
        originator_version bigint NOT NULL,
        topic text NOT NULL,
        state bytea NOT NULL,
        PRIMARY KEY (originator_id, originator_version)
    )
    """,
    """
    CREATE TABLE tracking (
        application_name text COLLATE "C" PRIMARY KEY,
        notification_id bigint NOT NULL
    )
    """,
    """
    CREATE TABLE timers (
        stream text COLLATE "C" PRIMARY KEY,
        due bigint NOT NULL
    )
    """,
    "CREATE INDEX timers_by_due ON timers (due, stream)",
    *_FORMAT_3,
    *_FORMAT_4,
)
_MARK = "INSERT INTO log (application, format, position, writer) VALUES (?, ?, 0, '')"
_RELATIONS = """
    SELECT relname::text FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s
"""
_MARKER = "SELECT application, format FROM log"
_OWN_FORMAT = "SELECT format FROM log FOR UPDATE"
_SET_FORMAT = "UPDATE log SET format = ?"
_UNPROVEN = "SELECT id, digest, note, at FROM requests WHERE proof IS NULL"
_PROVE = """
    UPDATE requests AS one SET proof = proven.proof FROM unnest(?::text[], ?::bytea[]) AS proven (id, proof)
    WHERE one.id = proven.id
"""
_PATIENCE = "SET LOCAL lock_timeout TO {milliseconds}"
_ONE_CREATOR = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def check_format(connection: Connection, address: Address) -> bool:
    """Return whether the schema holds a log; False means that it is missing or empty and may come to hold one.

    Raises:
        LogTooNewError: a later version of the tables was written there.
        LogUnusableError: it belongs to something else.
    """
    relations = relations_of(connection, address)
    if not relations:
        return False
    marker = connection.execute(spelled(_MARKER, address.schema)).fetchone() if "log" in relations else None
    if marker is None or marker[0] != _APPLICATION:
        raise LogUnusableError(f"{address.name}: the schema {address.schema!r} is that of something else; name another")
    if marker[1] > FORMAT_VERSION:
        message = f"{address.name} has format {marker[1]}, newer than {FORMAT_VERSION}; upgrade to read it"
        raise LogTooNewError(message)
    return True


def relations_of(connection: Connection, address: Address) -> set[str]:
    """Return the names of the tables, and of what else is called like one, in the schema."""
    return {name for (name,) in connection.execute(_RELATIONS, (address.schema,)).fetchall()}


def create_tables(connection: Connection, address: Address) -> None:
    """Have the schema hold a log, entirely or not at all; whoever comes second finds it there."""
    with connection.transaction():
        connection.execute(_ONE_CREATOR, (f"reenact {address.schema}",))
        if check_format(connection, address):
            return
        # Whoever may not make schemas can be given an empty one.
        if connection.execute("SELECT to_regnamespace(%s)", (address.schema,)).fetchone() == (None,):
            connection.execute(f"CREATE SCHEMA {address.schema}".encode())
        for statement in _TABLES:
            connection.execute(spelled(statement, address.schema))
        connection.execute(spelled(_MARK, address.schema), (_APPLICATION, FORMAT_VERSION))


def upgrade_tables(connection: Connection, address: Address) -> None:
    """Bring the tables of an earlier format to today's, entirely or not at all; whoever comes second finds them so.

    Raises:
        psycopg.errors.LockNotAvailable: somebody else uses them all the time.
    """
    if format_of(connection, address) >= FORMAT_VERSION:
        return
    with connection.transaction():
        connection.execute(_PATIENCE.format(milliseconds=int(LOCK_TIMEOUT * 1000)).encode())
        # Whoever writes has this lock first, too, and then those of the other tables.
        ((found,),) = connection.execute(spelled(_OWN_FORMAT, address.schema)).fetchall()
        for version in range(found + 1, FORMAT_VERSION + 1):
            for statement in _UPGRADES.get(version, ()):
                connection.execute(spelled(statement, address.schema))
        _prove_requests(connection, address)
        connection.execute(spelled(_SET_FORMAT, address.schema), (FORMAT_VERSION,))


def _prove_requests(connection: Connection, address: Address) -> None:
    rows = connection.execute(spelled(_UNPROVEN, address.schema), binary=True).fetchall()
    proofs = [request_proof(each.encode(), digest, note, at) for each, digest, note, at in rows]
    connection.execute(spelled(_PROVE, address.schema), ([row[0] for row in rows], proofs))


def format_of(connection: Connection, address: Address) -> int:
    """Return the version of the format of the log's tables."""
    ((_, version),) = connection.execute(spelled(_MARKER, address.schema)).fetchall()
    return int(version)
