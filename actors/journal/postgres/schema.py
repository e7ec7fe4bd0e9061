"""The tables of a log in PostgreSQL, their format version, and the check whether a schema holds a log."""

from __future__ import annotations

from typing import Final

from psycopg import errors

from reenact.actors.journal.postgres.address import Address
from reenact.actors.journal.postgres.append import create_procedure, has_procedure
from reenact.actors.journal.postgres.connecting import Connection, spelled
from reenact.actors.journal.schema import BEFORE_RELEASE, FORMAT_VERSION
from reenact.actors.journal.seeking import Select
from reenact.domain.errors import LogTooNewError, LogUnusableError
from reenact.domain.shards import SHARDS

TABLES = ("steps", "stored_snapshots", "tracking", "timers", "consumers", "requests")
"""The tables of a log, except for the one that identifies it."""

_APPLICATION = "reenact: a log"
_BEFORE_RELEASE = {"reenact", "reenact log"}

# `log` has one row: the kind of content, the end of the log, and the last writer. The transaction that holds the lock
# of that row may write; positions are assigned under it, so that they become visible in order and without gaps. Names
# are compared byte by byte, whatever the locale of the database is.
_TABLES = (
    """
    CREATE TABLE log (
        is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
        application text NOT NULL,
        format integer NOT NULL,
        number bigint NOT NULL,
        position bigint NOT NULL,
        writer text NOT NULL
    )
    """,
    """
    CREATE TABLE steps (
        number bigint PRIMARY KEY,
        stream text COLLATE "C" NOT NULL,
        recorded_at bigint NOT NULL,
        version bigint NOT NULL,
        position bigint NOT NULL,
        count bigint NOT NULL,
        cursor bigint NOT NULL,
        heard bigint NOT NULL,
        key text,
        epoch bigint NOT NULL DEFAULT 0,
        digest bytea NOT NULL,
        original bytea,
        seal bytea,
        cause bytea,
        events bytea,
        feed bytea
    )
    """,
    "CREATE UNIQUE INDEX steps_by_stream ON steps (stream, version, cursor)",
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
    """
    CREATE TABLE consumers (
        topic text COLLATE "C" NOT NULL,
        client_id text COLLATE "C" NOT NULL,
        cursor bigint NOT NULL,
        seen_at bigint NOT NULL,
        PRIMARY KEY (topic, client_id)
    )
    """,
    # No index by time: every request would pay for it, and old ones are searched by a reader, once in a while.
    """
    CREATE TABLE requests (
        id text COLLATE "C" PRIMARY KEY,
        digest bytea NOT NULL,
        note bytea NOT NULL,
        at bigint NOT NULL,
        proof bytea NOT NULL
    )
    """,
)
_KEYS = (
    """
    CREATE TABLE IF NOT EXISTS keys (
        id text COLLATE "C" PRIMARY KEY,
        stream text COLLATE "C" NOT NULL,
        wrapped bytea
    )
    """,
    "CREATE INDEX IF NOT EXISTS keys_by_stream ON keys USING hash (stream)",
)
EPOCH: Final = "epoch"
"""The constraint name in the error for a writer whose epoch is past."""

# `nodes.lock` is the key of the advisory lock that a node's connection holds: the server releases it when the
# connection ends. A lease that ends further in the future than its length was written before the clock was set back.
#
# `check_epochs` is called in the transaction that appends. It locks the rows of the shards, so a concurrent claim is
# either seen by it or waits for its end. Renewals of leases do not touch these rows. The owner is checked, too: a
# replica that is promoted may lack the last claims, and assign an epoch a second time.
OWNERSHIP_TABLES: Final = (
    """
    CREATE TABLE {schema}.nodes (
        id text COLLATE "C" PRIMARY KEY,
        address text NOT NULL,
        lock bigint NOT NULL,
        drains boolean NOT NULL,
        lease interval NOT NULL,
        expires timestamptz NOT NULL
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE {schema}.shards (
        shard integer PRIMARY KEY,
        epoch bigint NOT NULL,
        owner text COLLATE "C"
    ) WITH (fillfactor = 50)
    """,
    f"INSERT INTO {{schema}}.shards (shard, epoch) SELECT shard, 0 FROM generate_series(0, {SHARDS - 1}) AS shard",  # noqa: S608 - ours
    """
    CREATE VIEW {schema}.node_status AS SELECT id, address, drains, CASE
        WHEN NOT EXISTS (
            SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database
            WHERE datname = current_database() AND locktype = 'advisory' AND granted AND objsubid = 1
                AND classid::bigint << 32 | objid::bigint = lock
        ) THEN 'gone'
        WHEN expires BETWEEN clock_timestamp() AND clock_timestamp() + lease THEN 'live'
        ELSE 'late'
    END AS status FROM {schema}.nodes
    """,
    f"""
    CREATE FUNCTION {{schema}}.check_epochs(held_by text, held_shards integer[], held_epochs bigint[]) RETURNS void
    LANGUAGE plpgsql AS $$
    DECLARE
        owned bigint;
    BEGIN
        PERFORM FROM {{schema}}.shards JOIN unnest(held_shards, held_epochs) AS held (shard, epoch) USING (shard, epoch)
            WHERE owner = held_by ORDER BY shard FOR SHARE OF shards;
        GET DIAGNOSTICS owned = ROW_COUNT;
        IF owned <> cardinality(held_shards) THEN
            RAISE EXCEPTION 'node % does not own all of the shards % any more', held_by, held_shards
                USING ERRCODE = 'check_violation', CONSTRAINT = '{EPOCH}';
        END IF;
    END
    $$
    """,
)
"""Creates the tables of ownership; `{schema}` is replaced by the schema."""

# A request names the receiver of the reply, a reply does not. Each message is stored for milliseconds, so a crash of
# the server may empty the table: it also ends the connections, and callers that wait for a reply get an error. Most
# large messages are compressed already.
_RELAY_TABLES = (
    """
    CREATE UNLOGGED TABLE {schema}.messages (
        recipient text COLLATE "C" NOT NULL,
        number bigint GENERATED ALWAYS AS IDENTITY,
        request bigint NOT NULL,
        reply_to text COLLATE "C",
        at timestamptz NOT NULL DEFAULT clock_timestamp(),
        body bytea NOT NULL,
        PRIMARY KEY (recipient, number)
    )
    """,
    "ALTER TABLE {schema}.messages ALTER COLUMN body SET STORAGE EXTERNAL",
)
"""Creates the table of the relay: requests and replies that their receivers have not yet taken."""

_HAS_KEYS = "SELECT to_regclass('keys') IS NOT NULL"
_INSERT_LOG_ROW = "INSERT INTO log (application, format, number, position, writer) VALUES (?, ?, 0, 0, '')"
_RELATIONS = """
    SELECT relname::text FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s
"""
_SELECT_FORMAT = "SELECT application, format FROM log"
_LOCK_CREATION = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def check_format(connection: Connection, address: Address) -> bool:
    """Return whether the schema holds a log; False means that it is missing or empty and may become one.

    Raises:
        LogTooNewError: a later version of the tables was written there.
        LogUnusableError: the schema belongs to another program, or was written before the first release.
    """
    relations = relations_of(connection, address)
    if not relations:
        return False
    try:
        marker = connection.execute(spelled(_SELECT_FORMAT, address.schema)).fetchone() if "log" in relations else None
    except (errors.UndefinedColumn, errors.WrongObjectType):
        marker = None
    if marker is not None and marker[0] in _BEFORE_RELEASE:
        raise LogUnusableError(f"{address.name} was written {BEFORE_RELEASE}")
    if marker is None or marker[0] != _APPLICATION:
        raise LogUnusableError(f"{address.name}: the schema {address.schema!r} is that of something else; name another")
    if marker[1] > FORMAT_VERSION:
        message = f"{address.name} has format {marker[1]}, newer than {FORMAT_VERSION}; upgrade to read it"
        raise LogTooNewError(message)
    return True


def relations_of(connection: Connection, address: Address) -> set[str]:
    """Return the names of the tables, and of other relations such as indexes, in the schema."""
    return {name for (name,) in connection.execute(_RELATIONS, (address.schema,)).fetchall()}


def has_keys(select: Select) -> bool:
    """Return whether the log has a table of keys: it is encrypted, or was once opened with a key ring."""
    return select(_HAS_KEYS, ()) == [(True,)]


def create_keys(connection: Connection, address: Address) -> None:
    """Create the table of keys, if it does not exist."""
    with connection.transaction():
        connection.execute(_LOCK_CREATION, (f"reenact {address.schema}",))
        if "keys" not in relations_of(connection, address):
            for statement in _KEYS:
                connection.execute(spelled(statement, address.schema))


def create_tables(connection: Connection, address: Address) -> None:
    """Create the log and its procedure in the schema, entirely or not at all; a concurrent second call finds them."""
    with connection.transaction():
        connection.execute(_LOCK_CREATION, (f"reenact {address.schema}",))
        if not check_format(connection, address):
            # A user without the right to create schemas can be given an empty one.
            if connection.execute("SELECT to_regnamespace(%s)", (address.schema,)).fetchone() == (None,):
                connection.execute(f"CREATE SCHEMA {address.schema}".encode())
            for statement in _TABLES:
                connection.execute(spelled(statement, address.schema))
            for statement in (*OWNERSHIP_TABLES, *_RELAY_TABLES):
                connection.execute(statement.format(schema=address.schema).encode())
            connection.execute(spelled(_INSERT_LOG_ROW, address.schema), (_APPLICATION, FORMAT_VERSION))
        if not has_procedure(connection, address):
            create_procedure(connection, address)
