"""Connections to the server, and what is in SQLite's words said in those of PostgreSQL."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from reenact.actors.journal.postgres.address import Address

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

LOCK_TIMEOUT = 10.0
"""How many seconds a writer waits for those of other processes."""

KEEPALIVE = {"keepalives_idle": 2, "keepalives_interval": 1, "keepalives_count": 2, "tcp_user_timeout": 4000}
"""Settings with which a connection ends some four seconds after its server has become silent, and not minutes."""

PLAIN = {"default_transaction_isolation": "read committed", "default_transaction_read_only": "off"}
"""What a session that writes must not have otherwise, whatever the database or the user is set to."""

SET = """
    SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS setting (name, value)
    WHERE name IN (SELECT name FROM pg_settings)
"""
"""Gives a session's settings, their names and their values, those that the server knows."""

_OURS = re.compile(r"\b(log|steps|stored_snapshots|tracking|timers|consumers|requests|keys|shards|check_epochs)\b")


def connect(address: Address, **settings: int) -> Connection:
    """Open a connection on which each statement is a transaction of its own; what the URL does not set, these may.

    Raises:
        psycopg.Error: the server cannot be reached, or lets nobody in.
    """
    conninfo = make_conninfo("", **settings | conninfo_to_dict(address.conninfo)) if settings else address.conninfo
    return psycopg.connect(conninfo, autocommit=True)


def channel_of(address: Address) -> str:
    """Return the name under which writers tell all processes of their commits."""
    return address.schema


def spell(query: str, schema: str) -> str:
    """Return the query in PostgreSQL's words: tables in the schema, and parameters by another name."""
    return _OURS.sub(rf"{schema}.\1", query).replace("?", "%s")


@lru_cache(maxsize=512)
def spelled(query: str, schema: str) -> bytes:
    """Return the same as the driver takes it, for a query that will come again."""
    return spell(query, schema).encode()
