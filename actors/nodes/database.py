"""Sends a node's messages to the database: each is one statement, so it takes effect completely or not at all."""

from __future__ import annotations

import math
import secrets
import time
from typing import Any, Self, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from reenact.actors.journal.postgres.address import Address
from reenact.actors.nodes.protocol import Answer, Claim, GiveBack, Message, Peer, Renewal, Timing, View

RV = TypeVar("RV")

# Seconds between checks whether an answer has taken too long.
_CHECK_SECONDS = 0.1

# The server releases the lock of a machine that is cut off after four seconds.
_SUPERVISED = """
    SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 2;
    SET tcp_user_timeout = 4000
"""
_LIMITS = "SET statement_timeout = {limit}; SET lock_timeout = {limit}"
_LOCK = "SELECT pg_advisory_lock(%s::bigint)"

# One statement renews the lease and reads everything. The node's own row is read as it was before.
_RENEW = """
    WITH renewed AS (
        INSERT INTO {schema}.nodes AS node (id, address, lock, drains, lease, expires) VALUES (
            %(id)s, %(address)s, %(lock)s, %(drains)s, %(lease)s * interval '1 s',
            clock_timestamp() + %(lease)s * interval '1 s'
        ) ON CONFLICT (id) DO UPDATE SET
            lock = excluded.lock, drains = excluded.drains, lease = excluded.lease, expires = excluded.expires
    )
    SELECT shard, epoch, owner, id, address, status, drains
    FROM {schema}.shards FULL JOIN {schema}.node_status ON owner = id
"""
# Does not wait for locks: a shard that is locked by a writer or another claim is tried again with the next tick.
_CLAIM = """
    WITH free AS (
        SELECT shard FROM {schema}.shards
        JOIN unnest(%(shards)s::integer[], %(epochs)s::bigint[]) AS seen (shard, epoch) USING (shard, epoch)
        WHERE NOT EXISTS (SELECT FROM {schema}.node_status WHERE id = owner AND status = 'live')
        ORDER BY shard FOR NO KEY UPDATE OF shards SKIP LOCKED
    )
    UPDATE {schema}.shards SET epoch = epoch + 1, owner = %(id)s FROM free WHERE shards.shard = free.shard
    RETURNING shards.shard, epoch
"""
_GIVE_BACK = """
    WITH held AS (
        SELECT shard FROM {schema}.shards
        JOIN unnest(%(shards)s::integer[], %(epochs)s::bigint[]) AS held (shard, epoch) USING (shard, epoch)
        WHERE owner = %(id)s ORDER BY shard FOR NO KEY UPDATE OF shards SKIP LOCKED
    )
    UPDATE {schema}.shards SET owner = NULL FROM held WHERE shards.shard = held.shard RETURNING shards.shard, epoch
"""
_FORGET = """
    DELETE FROM {schema}.nodes WHERE id = %(id)s
    OR expires < clock_timestamp() - interval '1 day' AND NOT EXISTS (SELECT FROM {schema}.shards WHERE owner = id)
"""
_COUNT = "SELECT count(*) FROM {schema}.shards"


class ImpatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up a silent server: otherwise a cut connection may go unnoticed for minutes."""

    limit: float | None = None
    """Seconds that an answer may take."""

    def wait(self, gen: PQGen[RV], interval: float = _CHECK_SECONDS, timeout: float | None = None) -> RV:
        """Wait for the generator, as long as the limit allows; no caller here passes a timeout."""
        return super().wait(
            gen if self.limit is None else _until_deadline(gen, time.monotonic() + self.limit), interval
        )


def _until_deadline(gen: PQGen[RV], deadline: float) -> PQGen[RV]:
    """Yield what the generator yields, until the deadline; it is resumed at intervals even without data."""
    try:
        waiting = next(gen)
        while True:
            ready = yield waiting
            if not ready and time.monotonic() >= deadline:
                raise psycopg.OperationalError("the server does not answer")
            waiting = gen.send(ready)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # what the generator returns


class Database:
    """A node's own connection; it holds an advisory lock, which shows that the node is alive."""

    def __init__(self, address: Address, node_id: str, node_address: str, timing: Timing) -> None:
        """Connect, and take a new advisory lock.

        Raises:
            psycopg.Error: the server cannot be reached, or refuses access.
        """
        self._node = {"id": node_id, "address": node_address, "lease": timing.lease}
        self._schema = address.schema
        self._lock = secrets.randbits(63)
        # The server gives up a statement a little earlier, so that a busy server does not cost the connection.
        limit = timing.answer
        self._connection = ImpatientConnection.connect(
            address.conninfo, autocommit=True, connect_timeout=max(2, math.ceil(limit)), tcp_user_timeout=4000
        )
        self._connection.limit = limit
        try:
            self._connection.execute(_SUPERVISED)
            self._connection.execute(_LIMITS.format(limit=math.ceil(limit * 750)).encode())
            self._connection.execute(_LOCK, (self._lock,))
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        """Return the database itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used; a statement that fails does not close it."""
        return not self._connection.closed

    def send(self, message: Message) -> Answer:
        """Execute a message and return the answer.

        Raises:
            psycopg.Error: it was not executed, or the outcome is unknown.
        """
        match message:
            case Renewal(drains=drains):
                return _view_of(self._execute(_RENEW, lock=self._lock, drains=drains))
            case Claim(seen=seen):
                return dict(self._execute(_CLAIM, shards=list(seen), epochs=list(seen.values())))
            case GiveBack(held=held):
                return dict(self._execute(_GIVE_BACK, shards=list(held), epochs=list(held.values())))

    def count(self) -> int:
        """Return the number of shards of the log."""
        ((count,),) = self._execute(_COUNT)
        return int(count)

    def forget(self) -> None:
        """Delete the node's row, and old rows of nodes that have ended without deleting theirs."""
        self._execute(_FORGET)

    def close(self) -> None:
        """Close the connection, which releases the lock. Idempotent."""
        self._connection.close()

    def _execute(self, query: str, **parameters: object) -> list[tuple[Any, ...]]:
        try:
            cursor = self._connection.execute(query.format(schema=self._schema).encode(), {**self._node, **parameters})
        except psycopg.Error:
            if self._connection.info.transaction_status != TransactionStatus.IDLE:
                self._connection.close()
            raise
        return cursor.fetchall() if cursor.description else []


def _view_of(rows: list[tuple[Any, ...]]) -> View:
    nodes: dict[str, Peer] = {}
    shards: dict[int, tuple[int, str | None]] = {}
    for shard, epoch, owner, id_, address, status, drains in rows:
        if shard is not None:
            shards[shard] = (epoch, owner)
        if id_ is not None:
            nodes[id_] = Peer(id_, address, status, drains)
    return View(nodes, shards)
