"""Connects to the server, and translates queries from SQLite's dialect."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from reenact.actors.journal.postgres.address import Address

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

LOCK_TIMEOUT = 10.0
"""Seconds that a writer waits for writers of other processes."""

KEEPALIVE = {"keepalives_idle": 2, "keepalives_interval": 1, "keepalives_count": 2, "tcp_user_timeout": 4000}
"""Settings that end a connection some four seconds after its server has become silent, rather than minutes."""

PLAIN = {"default_transaction_isolation": "read committed", "default_transaction_read_only": "off"}
"""Settings that a writing session needs, whatever the defaults of the database or the user are."""

SET = """
    SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS setting (name, value)
    WHERE name IN (SELECT name FROM pg_settings)
"""
"""Applies settings, given by names and values, as far as the server knows them."""

_OWN_TABLES = re.compile(
    r"\b(log|steps|stored_snapshots|tracking|timers|consumers|requests|keys|shards|check_epochs)\b"
)


def connect(address: Address, **settings: int) -> Connection:
    """Open a connection in autocommit mode; `settings` apply unless the URL sets them.

    Raises:
        psycopg.Error: the server cannot be reached, or refuses access.
    """
    conninfo = make_conninfo("", **settings | conninfo_to_dict(address.conninfo)) if settings else address.conninfo
    return psycopg.connect(conninfo, autocommit=True)


def channel_of(address: Address) -> str:
    """Return the channel on which writers notify all processes of their commits."""
    return address.schema


def spell(query: str, schema: str) -> str:
    """Return the query in PostgreSQL's dialect: tables with the schema, and `%s` for parameters."""
    return _OWN_TABLES.sub(rf"{schema}.\1", query).replace("?", "%s")


@lru_cache(maxsize=512)
def spelled(query: str, schema: str) -> bytes:
    """Return the same as bytes for the driver, cached for repeated queries."""
    return spell(query, schema).encode()
