"""The tables of ownership: nodes with their leases, shards with their owners, and the check of a writer's epochs."""

from __future__ import annotations

from typing import Final

from reenact.domain.shards import SHARDS

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
"""The statements that create them; `{schema}` is replaced by the schema."""
