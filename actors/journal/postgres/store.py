"""The writer's store in a PostgreSQL schema, beside the writers of other processes.

Batches are decided without any lock, based on the stream ends that were last written or read here. One call then writes
the batch, if the streams still end there; if not, the writer must decide it again.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from reenact.actors.journal.api import Synchronous
from reenact.actors.journal.fence import Epochs
from reenact.actors.journal.postgres.address import Address
from reenact.actors.journal.postgres.append import UPSERT_MARKS, Procedure, Replaced, Stale
from reenact.actors.journal.postgres.connecting import LOCK_TIMEOUT, PLAIN, SET, Connection, connect, spelled
from reenact.actors.journal.postgres.faults import fault
from reenact.actors.journal.postgres.locks import PostgresLocks
from reenact.actors.journal.postgres.schema import EPOCH
from reenact.actors.journal.store import LAST, ROWS, Changes, DecideAgainError, SideTable, Values, rows_between
from reenact.domain.chain import DataKey, End, Row
from reenact.domain.errors import StorageError

_TRIES = 100
"""How often a batch is decided, because others write the same streams at the same time, before it is refused."""
_TRIES_FOR_LOCKS = 3
_QUIET = 10

_READ_LOG_END = "SELECT number, position, writer FROM log FOR SHARE"
_ENDS = f"""
    SELECT name, version, cursor, digest FROM unnest(?::text[]) AS name CROSS JOIN LATERAL (
        {LAST.replace("?", "name")}
    ) AS last (version, cursor, digest)
"""  # noqa: S608 - ours
_SNAPSHOT = "SELECT 1 FROM stored_snapshots WHERE originator_id = ? AND originator_version = ?"
_REMEMBERED = "SELECT id FROM requests WHERE id = ANY (?::text[])"
_ROWS = ROWS.format(cells=", ".join(Row.__struct_fields__))
_TRACKING = "SELECT notification_id FROM tracking WHERE application_name = ?"
_UPSERT_MARKS = UPSERT_MARKS.format("?::text[]", "?::text[]", "?::bigint[]", "?::bigint[]")
_DELETE_OLD: dict[SideTable, str] = {
    "consumers": """
        DELETE FROM consumers WHERE (topic, client_id) IN (SELECT * FROM unnest(?::text[], ?::text[])) AND seen_at < ?
    """,
    "requests": "DELETE FROM requests WHERE id = ANY (?::text[]) AND at < ?",
}
_SELECT_LOST_SHARDS = """
    SELECT shard, epoch FROM unnest(?::integer[], ?::bigint[]) AS held (shard, epoch) WHERE (shard, epoch) NOT IN (
        SELECT shard, epoch FROM shards WHERE owner = ?
    )
"""
_INSERT_KEY = "INSERT INTO keys (id, stream, wrapped) VALUES (?, ?, ?)"


class PostgresStore:
    """Implements `store.Store` with one connection, which is opened again after a loss."""

    foresees = True

    def __init__(self, address: Address, synchronous: Synchronous, locks: PostgresLocks) -> None:
        """Write with a connection of its own as long as the locks are held.

        Raises:
            psycopg.Error: the server cannot be reached.
        """
        self.name = address.name
        """The log's name, as error messages show it."""
        self._address = address
        self._settings = {
            **PLAIN,
            "synchronous_commit": "on" if synchronous == "FULL" else "off",
            "lock_timeout": str(int(LOCK_TIMEOUT * 1000)),
        }
        self._connection: Connection | None = None
        self._procedure = Procedure(address)
        self.writer = uuid4().hex
        """The unique name of this store as a writer."""
        self._locks = locks
        self._key = 0
        self._losses = 0
        self._is_taken_over = False
        # The last known end of the log, and whether this store was the last to write.
        self._end = (0, 0)
        self._is_end_known = False
        # The content of the log's row when it was opened.
        self._found: tuple[int, int, str] | None = None
        self._tries = 0
        # How many batches have found the log as the last one left it.
        self._quiet = 0
        self._is_reachable = True
        # The basis and the effects of the open batch, in addition to the arguments of `commit`.
        self._read: Sequence[Row] = ()
        self._replaced: list[Replaced] = []
        self._tracked: dict[str, int | None] = {}
        self._is_end_assumed = False

    @property
    def connection(self) -> Connection:
        """The open connection.

        Raises:
            psycopg.Error: there was none, and none can be opened.
        """
        if self._connection is None:
            connection = connect(self._address)
            connection.execute(SET, (list(self._settings), list(self._settings.values())))
            self._connection = connection
        return self._connection

    def look(self) -> None:
        """Wait for an append that began under the locks of another process, and read the end of the log."""
        found: tuple[int, int, str] | None = self._execute(_READ_LOG_END).fetchone()
        if found is not None:
            self._found, self._end = found, (found[0], found[1])

    def begin(self) -> tuple[int, int, bool]:
        """Begin a batch, without locking others out."""
        self._key, losses = self._locks.hold()
        self._replaced, self._read = [], ()
        self._tracked.clear()
        self._is_end_assumed = False
        if losses != self._losses:
            self._check_lost_locks(losses)
        number, position = self._end
        return number, position, True

    def stream_ends(self, streams: Sequence[str]) -> list[tuple[str, End]]:
        """Return the ends of the streams that have rows."""
        rows: list[tuple[str, int, int, bytes]] = self._execute(_ENDS, list(streams)).fetchall()
        return [(stream, (version, cursor, digest)) for stream, version, cursor, digest in rows]

    def has_snapshot(self, stream: str, version: int) -> bool:
        """Return whether there is a snapshot of the stream at this version."""
        return self._execute(_SNAPSHOT, stream, version).fetchone() is not None

    def tracked(self, name: str) -> int | None:
        """Return the last position of a reader."""
        row: tuple[int] | None = self._execute(_TRACKING, name).fetchone()
        self._tracked[name] = row[0] if row else None
        return self._tracked[name]

    def remembered(self, request_ids: Sequence[str]) -> list[str]:
        """Return the requests that have taken effect; on the first try none, since the server checks when it writes."""
        if not self._tries:
            self._is_end_assumed = True
            return []
        rows: list[tuple[str]] = self._execute(_REMEMBERED, list(request_ids)).fetchall()
        return [request_id for (request_id,) in rows]

    def rows(self, stream: str, first_cursor: int, last_cursor: int) -> list[Row]:
        """Return the stream's rows between these cursors, and the one before."""
        if any(each.row.stream == stream for each in self._replaced):
            # The result of the first replacement is not in the database yet: the writer then takes the requests one by
            # one.
            raise StorageError(f"{self.name}: rows of {stream!r} are replaced twice at once")
        rows = self._execute(_ROWS, *rows_between(stream, first_cursor, last_cursor)).fetchall()
        self._read = [Row(*row) for row in rows]
        return list(self._read)

    def replace(self, gone: Sequence[Row], row: Row) -> None:
        """Delete the rows, and replace the row with the same number, when the batch is committed."""
        self._replaced.append(Replaced(row, gone, self._read))

    def write_marks(self, marks: Values) -> None:
        """Record the progress of consumers, at once."""
        if marks:
            self._execute(_UPSERT_MARKS, *(marks[column::4] for column in range(4)))

    def delete(self, table: SideTable, keys: Sequence[tuple[str, ...]], before: int) -> int:
        """Delete those of the rows with these keys that are from before the time, at once."""
        if table == "requests" and self._is_end_assumed:  # earlier requests of the batch have not been looked up
            self._decide_again("requests are forgotten")
        return self._execute(_DELETE_OLD[table], *map(list, zip(*keys, strict=True)), before).rowcount

    def keep_key(self, key: DataKey) -> None:
        """Write a key to the log at once, outside any batch."""
        self._execute(_INSERT_KEY, key.id, key.stream, key.wrapped)

    def commit(self, changes: Changes, meanwhile: Callable[[], None]) -> None:
        """Call `meanwhile`, and write the changes, after those of others if there are any."""
        before = {
            name: self._tracked[name] if name in self._tracked else self.tracked(name) for name in changes.tracking
        }
        meanwhile()
        knows, self._is_end_known = self._is_end_known, False
        # If others have not written for a while, they probably have not now: the ends are left out at first, and given
        # on a retry.
        with_ends = not knows or (self._locks.is_shared and self._quiet < _QUIET)
        try:
            written = self._procedure.run(
                self._usable_connection(),
                changes,
                me=self.writer,
                presence=self._key,
                end=self._end,
                knows=knows,
                with_ends=with_ends,
                replaced=self._replaced,
                before=before,
            )
        except errors.UniqueViolation:
            self._decide_again("others write the same at the same time, again and again")
            raise
        except errors.CheckViolation as error:
            if changes.epochs is not None and error.diag.constraint_name == EPOCH:
                self._decide_again(
                    "its shards get other owners again and again", past=self._find_lost_shards(changes.epochs)
                )
            raise
        except errors.LockNotAvailable:
            self._is_reachable = False
            raise
        if isinstance(written, Stale):
            if written.what == "locks":
                self._locks.doubt(self._key)
                self._decide_again("the locks were lost", tries=_TRIES_FOR_LOCKS)
            self._quiet = 0
            self._decide_again("others write the same streams at the same time, again and again")
        else:
            self._quiet = self._quiet + 1 if written[1] == changes.position else 0
            self._end = changes.number, changes.position = written
            self._is_end_known, self._tries = True, 0

    def roll_back(self) -> bool:
        """Drop the batch; return False if the connection is lost, since the outcome is then unknown."""
        self._is_end_known, self._tries = False, 0
        is_in_reach, self._is_reachable = self._is_reachable, True
        if self._is_lost():
            return False
        if self.connection.info.transaction_status != TransactionStatus.IDLE:
            self.close()
            return False
        return is_in_reach

    def was_taken_over(self) -> bool:
        """Return whether others may have written any stream since the last commit, although the locks excluded them."""
        was, self._is_taken_over = self._is_taken_over, False
        return was

    def fault(self, error: Exception) -> StorageError:
        """Return the library's error for an exception."""
        return fault(error, self.name)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _check_lost_locks(self, losses: int) -> None:
        """Find out whether others have written while the locks were lost."""
        self._is_end_known = False
        row: tuple[int, int, str] | None = self._execute(_READ_LOG_END).fetchone()
        self._losses = losses
        # An exclusive writer has missed nothing if it was the last one to write.
        if self._locks.is_shared or row is None or not (row[2] == self.writer or row == self._found):
            self._is_taken_over = True
            raise StorageError(f"{self.name}: the locks were lost, and others may have written since")

    def _find_lost_shards(self, epochs: Epochs) -> frozenset[tuple[int, int]]:
        """Return those of the shards, with their epochs, that this node no longer owns."""
        held = list(epochs.held), list(epochs.held.values())
        return frozenset(self._execute(_SELECT_LOST_SHARDS, *held, epochs.owner).fetchall())

    def _decide_again(self, why: str, *, tries: int = _TRIES, past: frozenset[tuple[int, int]] = frozenset()) -> None:
        self._tries += 1
        if self._tries < tries:
            raise DecideAgainError(past)
        self._is_reachable = False
        raise StorageError(f"{self.name} cannot be written now: {why}; try again")

    def _is_lost(self) -> bool:
        """Return whether the connection is lost, and drop the rest of it."""
        if self._connection is None or self._connection.closed:
            self.close()
            return True
        return False

    def _usable_connection(self) -> Connection:
        """Return the connection, opened again if it was lost while idle, when no transaction can be lost."""
        connection = self.connection
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        # Nothing was requested, so incoming data is most likely the end of this connection.
        if poll.poll(0):
            try:
                connection.execute("SELECT 1")
            except psycopg.OperationalError:
                self.close()
        return self.connection

    def _execute(self, query: str, *parameters: object) -> psycopg.Cursor[tuple[Any, ...]]:
        """Execute a statement as a transaction of its own."""
        return self._usable_connection().execute(spelled(query, self._address.schema), parameters, binary=True)
