"""The tables in a PostgreSQL schema, as the writer uses them: beside the writers of other processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.pq import TransactionStatus

from reenact.actors.journal.api import Synchronous
from reenact.actors.journal.postgres.address import Address
from reenact.actors.journal.postgres.connecting import Connection, channel_of, connect, spell, spelled
from reenact.actors.journal.postgres.faults import fault
from reenact.actors.journal.store import Changes, End, Values
from reenact.domain.errors import StorageError

LOCK_TIMEOUT = 10.0
"""How many seconds a writer waits for those of other processes."""

# The server ends a writer that has begun and does not go on, so that it does not keep the others waiting for ever.
_IDLE_TIMEOUT = 60.0

VALUE_LIMIT = 500_000_000
"""The most bytes of one value, or of the records of one batch; the server takes one gigabyte at a time."""

_BEGIN = """
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL synchronous_commit TO {commit};
    SET LOCAL lock_timeout TO {lock};
    SET LOCAL idle_in_transaction_session_timeout TO {idle};
    SELECT position, writer FROM log FOR UPDATE
"""
_LAST_POSITION = "SELECT max(rowid) FROM stored_events"
_MOVE = "UPDATE log SET position = {{position}}, writer = '{writer}'"
_NOTIFY = "NOTIFY {channel}, '{{position}}'"

_LAST_EVENTS = """
    SELECT name, originator_version, digest FROM unnest(?::text[]) AS name CROSS JOIN LATERAL (
        SELECT originator_version, digest FROM stored_events
        WHERE originator_id = name ORDER BY originator_version DESC LIMIT 1
    ) AS last
"""
_LAST_ROWS = """
    SELECT name, first_cursor + count - 1, digest FROM unnest(?::text[]) AS name CROSS JOIN LATERAL (
        SELECT first_cursor, count, digest FROM feed WHERE topic = name ORDER BY first_cursor DESC LIMIT 1
    ) AS last
"""
_SNAPSHOT = "SELECT 1 FROM stored_snapshots WHERE originator_id = ? AND originator_version = ?"
_TRACKING = "SELECT notification_id FROM tracking WHERE application_name = ?"

_INSERT_EVENTS = """
    INSERT INTO stored_events (rowid, originator_id, originator_version, topic, state, digest)
    SELECT * FROM unnest(?::bigint[], ?::text[], ?::bigint[], ?::text[], ?::bytea[], ?::bytea[])
"""
_INSERT_FEED = """
    INSERT INTO feed (topic, first_cursor, count, segments, digest)
    SELECT * FROM unnest(?::text[], ?::bigint[], ?::bigint[], ?::bytea[], ?::bytea[])
"""
_INSERT_SNAPSHOTS = """
    INSERT INTO stored_snapshots (originator_id, originator_version, topic, state)
    SELECT * FROM unnest(?::text[], ?::bigint[], ?::text[], ?::bytea[])
"""
_DELETE_SNAPSHOTS = "DELETE FROM stored_snapshots"
_DELETE_SNAPSHOTS_OF = f"{_DELETE_SNAPSHOTS} WHERE originator_id = ANY (?::text[])"
_DELETE_TIMERS = "DELETE FROM timers WHERE stream = ANY (?::text[])"
_UPSERT_TIMERS = """
    INSERT INTO timers (stream, due) SELECT * FROM unnest(?::text[], ?::bigint[])
    ON CONFLICT (stream) DO UPDATE SET due = excluded.due
"""
_UPSERT_TRACKING = """
    INSERT INTO tracking (application_name, notification_id) SELECT * FROM unnest(?::text[], ?::bigint[])
    ON CONFLICT (application_name) DO UPDATE SET notification_id = excluded.notification_id
"""


class PostgresStore:
    """Keeps the promise of `store.Store` over one connection, which is made again when it was lost."""

    def __init__(self, connection: Connection, address: Address, synchronous: Synchronous) -> None:
        """Write over the connection."""
        self._connection: Connection | None = connection
        self._address = address
        # What the last commit has written into the one row of the log, over this connection.
        self._left: tuple[int, str] | None = None
        self._writer = uuid4().hex
        begin = _BEGIN.format(
            commit="on" if synchronous == "FULL" else "off",
            lock=int(LOCK_TIMEOUT * 1000),
            idle=int(_IDLE_TIMEOUT * 1000),
        )
        move = spell(_MOVE.format(writer=self._writer), address.schema)
        self._begin = spelled(begin, address.schema)
        self._commit = f"{move}; COMMIT"
        self._commit_events = f"{move}; {_NOTIFY.format(channel=channel_of(address))}; COMMIT"

    @property
    def name(self) -> str:
        """What messages call the log."""
        return self._address.name

    @property
    def connection(self) -> Connection:
        """The open connection.

        Raises:
            psycopg.Error: there was none, and none can be made.
        """
        if self._connection is None:
            self._connection = connect(self._address)
        return self._connection

    def begin(self) -> tuple[int, bool]:
        """Enter a transaction and keep other writers out of it."""
        is_new = self._connection is None
        try:
            return self._enter(self.connection)
        except psycopg.OperationalError:
            # A connection that was lost while nothing was under way takes nothing with it.
            if is_new or not self._is_lost():
                raise
        return self._enter(self.connection)

    def stream_ends(self, streams: Sequence[str]) -> list[End]:
        """Return where the streams end."""
        return self._execute(_LAST_EVENTS, streams).fetchall()

    def feed_ends(self, topics: Sequence[str]) -> list[End]:
        """Return where the feeds of the topics end."""
        return self._execute(_LAST_ROWS, topics).fetchall()

    def has_snapshot(self, stream: str, version: int) -> bool:
        """Return whether a snapshot of the stream stands at this version."""
        return self._execute(_SNAPSHOT, stream, version).fetchone() is not None

    def tracked(self, name: str) -> int | None:
        """Return the position that a reader has seen."""
        row: tuple[int] | None = self._execute(_TRACKING, name).fetchone()
        return row[0] if row else None

    def commit(self, changes: Changes, meanwhile: Callable[[], None]) -> None:
        """Write the changes, call `meanwhile`, and leave the transaction."""
        self._insert(_INSERT_EVENTS, changes.events, columns=6)
        self._insert(_INSERT_FEED, changes.feed, columns=5)
        if changes.purges:
            self._execute(_DELETE_SNAPSHOTS)
        if changes.replaced:
            self._execute(_DELETE_SNAPSHOTS_OF, changes.replaced)
        self._insert(_INSERT_SNAPSHOTS, changes.snapshots, columns=4)
        if changes.due:
            self._set_timers(changes.due)
        if changes.tracking:
            self._execute(_UPSERT_TRACKING, list(changes.tracking), list(changes.tracking.values()))
        commit = self._commit_events if changes.events else self._commit
        meanwhile()
        self.connection.execute(commit.format(position=changes.position).encode(), prepare=False)
        self._left = (changes.position, self._writer)

    def roll_back(self) -> bool:
        """Leave the transaction; over a connection that is lost, nobody knows what became of it."""
        self._left = None
        if self._is_lost():
            return False
        try:
            self._leave(self.connection)
        except psycopg.Error:
            self.close()
            return False
        return True

    def fault(self, error: Exception) -> StorageError:
        """Return our error for what was raised."""
        return fault(error, self._address.name)

    def close(self) -> None:
        """Let go of the connection. Idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _enter(self, connection: Connection) -> tuple[int, bool]:
        self._leave(connection)
        row: tuple[int, str] | None = connection.execute(self._begin, prepare=False).set_result(-1).fetchone()
        if row is None:
            raise psycopg.errors.UndefinedTable("the row that says where the log ends is gone")
        if row == self._left:
            return row[0], True
        last: tuple[int | None] | None = self._execute(_LAST_POSITION).fetchone()
        return max(row[0], last[0] or 0 if last else 0), False

    def _leave(self, connection: Connection) -> None:
        if connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute("ROLLBACK")

    def _is_lost(self) -> bool:
        """Return whether the connection is no more, and let go of what is left of it."""
        if self._connection is None or self._connection.closed:
            self.close()
            self._left = None
            return True
        return False

    def _execute(self, query: str, *parameters: object) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.connection.execute(spelled(query, self._address.schema), parameters, binary=True)

    def _insert(self, query: str, values: Values, columns: int) -> None:
        if not values:
            return
        if sum(len(value) for value in values if isinstance(value, str | bytes)) > VALUE_LIMIT:
            raise psycopg.DataError(f"it has more than {VALUE_LIMIT} bytes")
        self._execute(query, *(values[column::columns] for column in range(columns)))

    def _set_timers(self, due: dict[str, int | None]) -> None:
        set_to = {stream: at for stream, at in due.items() if at is not None}
        never = [stream for stream, at in due.items() if at is None]
        if set_to:
            self._execute(_UPSERT_TIMERS, list(set_to), list(set_to.values()))
        if never:
            self._execute(_DELETE_TIMERS, never)
