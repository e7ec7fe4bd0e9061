"""The tables in a PostgreSQL schema, as the writer uses them: beside the writers of other processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import psycopg
from msgspec.structs import astuple
from psycopg.pq import TransactionStatus

from reenact.actors.journal.api import Synchronous
from reenact.actors.journal.postgres.address import Address
from reenact.actors.journal.postgres.connecting import LOCK_TIMEOUT, Connection, channel_of, connect, spell, spelled
from reenact.actors.journal.postgres.faults import fault
from reenact.actors.journal.postgres.locks import PostgresLocks
from reenact.actors.journal.store import LAST, LAST_OF_ALL, ROWS, STEP, Changes, Values, rows_between
from reenact.domain.chain import End, Row
from reenact.domain.errors import StorageError

# The server ends a writer that has begun and does not go on, so that it does not keep the others waiting for ever.
_IDLE_TIMEOUT = 60.0

VALUE_LIMIT = 500_000_000
"""The most bytes of one value, or of the records of one batch; the server takes one gigabyte at a time."""

_BEGIN = """
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL synchronous_commit TO {commit};
    SET LOCAL lock_timeout TO {lock};
    SET LOCAL idle_in_transaction_session_timeout TO {idle};
    SELECT number, position, writer FROM log FOR UPDATE;
    SELECT pg_try_advisory_xact_lock_shared({{key}})
"""
_LOOK = "SELECT number, position, writer FROM log FOR SHARE"
_MOVE = "UPDATE log SET number = {{number}}, position = {{position}}, writer = '{writer}'"
_NOTIFY = "NOTIFY {channel}, '{{position}}'"

_ENDS = f"""
    SELECT name, version, cursor, digest FROM unnest(?::text[]) AS name CROSS JOIN LATERAL (
        {LAST.replace("?", "name")}
    ) AS last (version, cursor, digest)
"""  # noqa: S608 - ours
_SNAPSHOT = "SELECT 1 FROM stored_snapshots WHERE originator_id = ? AND originator_version = ?"
_REMEMBERED = "SELECT id FROM requests WHERE id = ANY (?::text[])"
_ROWS = ROWS.format(cells=", ".join(Row.__struct_fields__))
_TRACKING = "SELECT notification_id FROM tracking WHERE application_name = ?"

_TYPES = {
    **dict.fromkeys(("stream", "key"), "text"),
    **dict.fromkeys(("digest", "original", "seal", "cause", "events", "feed"), "bytea"),
}


def _insertion(columns: Sequence[str]) -> str:
    arrays = ", ".join(f"?::{_TYPES.get(name, 'bigint')}[]" for name in columns)
    return f"INSERT INTO steps ({', '.join(columns)}) SELECT * FROM unnest({arrays})"  # noqa: S608 - ours


_INSERT_STEPS = _insertion(STEP)
_INSERT_ROWS = _insertion(Row.__struct_fields__)
_DELETE_ROWS = "DELETE FROM steps WHERE number = ANY (?::bigint[])"
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
_UPSERT_MARKS = """
    INSERT INTO consumers AS known (topic, client_id, cursor, seen_at)
    SELECT * FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[])
    ON CONFLICT (topic, client_id) DO UPDATE
    SET cursor = greatest(known.cursor, excluded.cursor), seen_at = greatest(known.seen_at, excluded.seen_at)
"""
_DELETE_MARKS = """
    DELETE FROM consumers WHERE (topic, client_id) IN (SELECT * FROM unnest(?::text[], ?::text[])) AND seen_at < ?
"""
_INSERT_REQUESTS = """
    INSERT INTO requests (id, digest, note, at, proof)
    SELECT * FROM unnest(?::text[], ?::bytea[], ?::bytea[], ?::bigint[], ?::bytea[])
"""
_DELETE_REQUESTS = "DELETE FROM requests WHERE id = ANY (?::text[]) AND at < ?"


class PostgresStore:
    """Keeps the promise of `store.Store` over one connection, which is made again when it was lost."""

    def __init__(
        self, connection: Connection, address: Address, synchronous: Synchronous, locks: PostgresLocks
    ) -> None:
        """Write over the connection for as long as the locks are held."""
        self._connection: Connection | None = connection
        self._address = address
        # What the last commit has written into the one row of the log, over this connection.
        self._left: tuple[int, int, str] | None = None
        self._writer = uuid4().hex
        self._locks = locks
        self._losses = 0
        self._is_taken_over = False
        begin = _BEGIN.format(
            commit="on" if synchronous == "FULL" else "off",
            lock=int(LOCK_TIMEOUT * 1000),
            idle=int(_IDLE_TIMEOUT * 1000),
        )
        move = spell(_MOVE.format(writer=self._writer), address.schema)
        self._begin = spell(begin, address.schema)
        # What the row said when the log was opened.
        self._found: tuple[int, int, str] | None = None
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

    def look(self) -> None:
        """Wait for a transaction that began while somebody else had the locks, and see where the log ends."""
        self._found = self._execute(_LOOK).fetchone()

    def begin(self) -> tuple[int, int, bool]:
        """Enter a transaction and keep other writers out of it."""
        key, losses = self._locks.hold()
        try:
            return self._begin_with(key, losses)
        except _LocksLostError:
            self._leave(self.connection)
            self._locks.doubt(key)
        return self._begin_with(*self._locks.hold())

    def stream_ends(self, streams: Sequence[str]) -> list[tuple[str, End]]:
        """Return streams with where they end."""
        rows: list[tuple[str, int, int, bytes]] = self._execute(_ENDS, list(streams)).fetchall()
        return [(stream, (version, cursor, digest)) for stream, version, cursor, digest in rows]

    def has_snapshot(self, stream: str, version: int) -> bool:
        """Return whether a snapshot of the stream stands at this version."""
        return self._execute(_SNAPSHOT, stream, version).fetchone() is not None

    def tracked(self, name: str) -> int | None:
        """Return the position that a reader has seen."""
        row: tuple[int] | None = self._execute(_TRACKING, name).fetchone()
        return row[0] if row else None

    def remembered(self, request_ids: Sequence[str]) -> list[str]:
        """Return those of the requests that have taken effect."""
        rows: list[tuple[str]] = self._execute(_REMEMBERED, list(request_ids)).fetchall()
        return [request_id for (request_id,) in rows]

    def rows(self, stream: str, first_cursor: int, last_cursor: int) -> list[Row]:
        """Return the stream's rows between these cursors, and the one before."""
        return [Row(*row) for row in self._execute(_ROWS, *rows_between(stream, first_cursor, last_cursor)).fetchall()]

    def replace(self, gone: Sequence[Row], row: Row) -> None:
        """Delete rows, and put the row in the place of the one with its number."""
        self._execute(_DELETE_ROWS, [each.number for each in (*gone, row)])
        self._insert_rows([row])

    def write_marks(self, marks: Values) -> None:
        """Let consumers have come as far as these say."""
        self._insert(_UPSERT_MARKS, marks, columns=4)

    def delete_marks(self, consumers: Sequence[tuple[str, str]], before: int) -> int:
        """Delete the marks of these consumers that were last said before the time."""
        topics, clients = [topic for topic, _ in consumers], [client for _, client in consumers]
        return self._execute(_DELETE_MARKS, topics, clients, before).rowcount

    def delete_requests(self, request_ids: Sequence[str], before: int) -> int:
        """Delete those of the requests that took effect before the time."""
        return self._execute(_DELETE_REQUESTS, list(request_ids), before).rowcount

    def commit(self, changes: Changes, meanwhile: Callable[[], None]) -> None:
        """Write the changes, call `meanwhile`, and leave the transaction."""
        self._insert(_INSERT_STEPS, changes.steps, columns=len(STEP))
        self._insert_rows(changes.rows)
        if changes.purges:
            self._execute(_DELETE_SNAPSHOTS)
        if changes.replaced:
            self._execute(_DELETE_SNAPSHOTS_OF, changes.replaced)
        self._insert(_INSERT_SNAPSHOTS, changes.snapshots, columns=4)
        if changes.due:
            self._set_timers(changes.due)
        if changes.tracking:
            self._execute(_UPSERT_TRACKING, list(changes.tracking), list(changes.tracking.values()))
        self.write_marks(changes.marks)
        self._insert(_INSERT_REQUESTS, changes.remembered, columns=5)
        has_moved = self._left is None or self._left[1] != changes.position
        commit = self._commit_events if has_moved else self._commit
        meanwhile()
        self.connection.execute(commit.format(number=changes.number, position=changes.position).encode(), prepare=False)
        self._left = (changes.number, changes.position, self._writer)

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

    def was_taken_over(self) -> bool:
        """Return whether others may have written any stream since the last commit, although they were locked out."""
        was, self._is_taken_over = self._is_taken_over, False
        return was

    def fault(self, error: Exception) -> StorageError:
        """Return our error for what was raised."""
        return fault(error, self._address.name)

    def close(self) -> None:
        """Let go of the connection. Idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _begin_with(self, key: int, losses: int) -> tuple[int, int, bool]:
        is_new = self._connection is None
        try:
            return self._enter(self.connection, key, losses)
        except psycopg.OperationalError:
            # A connection that was lost while nothing was under way takes nothing with it.
            if is_new or not self._is_lost():
                raise
        return self._enter(self.connection, key, losses)

    def _enter(self, connection: Connection, key: int, losses: int) -> tuple[int, int, bool]:
        self._leave(connection)
        results = connection.execute(self._begin.format(key=key).encode(), prepare=False)
        if results.set_result(-1).fetchone() != (False,):
            raise _LocksLostError(f"{self.name} may be written by others: the locks were lost")
        row: tuple[int, int, str] | None = results.set_result(-2).fetchone()
        if row is None:
            raise psycopg.errors.UndefinedTable("the row that says where the log ends is gone")
        if losses != self._losses:
            self._losses = losses
            # Who writes alone has missed nothing if the last one to write was this one.
            if self._locks.is_shared or not (row[2] == self._writer or row == self._found):
                self._is_taken_over = True
                raise StorageError(f"{self.name}: the locks were lost, and others may have written since")
        if row == self._left:
            return row[0], row[1], True
        number, position = self._execute(LAST_OF_ALL).fetchone() or (0, 0)
        return max(row[0], number), max(row[1], position), False

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
            raise _too_long()
        self._execute(query, *(values[column::columns] for column in range(columns)))

    def _insert_rows(self, rows: Sequence[Row]) -> None:
        self._insert(_INSERT_ROWS, [cell for row in rows for cell in astuple(row)], columns=len(Row.__struct_fields__))

    def _set_timers(self, due: dict[str, int | None]) -> None:
        set_to = {stream: at for stream, at in due.items() if at is not None}
        never = [stream for stream, at in due.items() if at is None]
        if set_to:
            self._execute(_UPSERT_TIMERS, list(set_to), list(set_to.values()))
        if never:
            self._execute(_DELETE_TIMERS, never)


class _LocksLostError(StorageError):
    """What kept others from writing was not there any more when something was to be written."""


def _too_long() -> psycopg.DataError:
    return psycopg.DataError(f"it has more than {VALUE_LIMIT} bytes")
