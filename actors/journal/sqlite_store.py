"""The writer's store in a SQLite file; many rows are inserted with few statements."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import astuple

from reenact.actors.journal.faults import fault
from reenact.actors.journal.schema import CELLS
from reenact.actors.journal.store import LAST, LAST_OF_ALL, ROWS, STEP, Changes, SideTable, Values, rows_between
from reenact.actors.journal.wal_checkpoint import WalCheckpointer
from reenact.domain.chain import DataKey, End, Row
from reenact.domain.errors import LogUnusableError, StorageError

# sqlite3 releases the interpreter lock at each statement, and a busy thread may keep it for 5 ms: `executemany`, with a
# statement per row, was four times slower beside such a thread. 128 rows of 16 values stay far below SQLite's limit of
# parameters.
_INSERT_SIZES = (128, 16, 4, 1)


class Insertion:
    """Inserts rows into a table, many with one statement."""

    def __init__(self, table: str, columns: int, *, then: str = "") -> None:
        """Name the table, with its columns if not all are given, and an optional clause `then` after the values."""
        row = f"({', '.join('?' * columns)})"
        # A failure ends the transaction in any case. Without OR ROLLBACK, SQLite saves each page that a statement of
        # several rows touches, to be able to undo that statement alone: into a temporary file, if the rows lie far
        # apart.
        insert = f"INSERT OR ROLLBACK INTO {table} VALUES "  # noqa: S608 - the names of our own tables
        self._statements = [(size * columns, insert + ", ".join([row] * size) + then) for size in _INSERT_SIZES]

    def run(self, connection: sqlite3.Connection, values: Values) -> None:
        """Insert the rows in order."""
        start, end = 0, len(values)
        for size, statement in self._statements:
            while end - start >= size:
                connection.execute(statement, values[start : start + size])
                start += size


_SNAPSHOT = "SELECT 1 FROM stored_snapshots WHERE originator_id = ? AND originator_version = ?"
_REMEMBERED = "SELECT 1 FROM requests WHERE id = ?"
_ROWS = ROWS.format(cells=CELLS)
_TRACKING = "SELECT notification_id FROM tracking WHERE application_name = ?"

_INSERT_STEPS = Insertion(f"steps ({', '.join(STEP)})", columns=len(STEP))
_INSERT_ROWS = Insertion(f"steps ({', '.join(Row.__struct_fields__)})", columns=len(Row.__struct_fields__))
_DELETE_ROW = "DELETE FROM steps WHERE number = ?"
_INSERT_SNAPSHOTS = Insertion("stored_snapshots", columns=4)
_DELETE_SNAPSHOTS = "DELETE FROM stored_snapshots"
_DELETE_SNAPSHOT = f"{_DELETE_SNAPSHOTS} WHERE originator_id = ?"
_DELETE_TIMER = "DELETE FROM timers WHERE stream = ?"
_UPSERT_TIMER = "INSERT INTO timers VALUES (?, ?) ON CONFLICT (stream) DO UPDATE SET due = excluded.due"
_UPSERT_TRACKING = """
    INSERT INTO tracking VALUES (?, ?)
    ON CONFLICT (application_name) DO UPDATE SET notification_id = excluded.notification_id
"""
_UPSERT_MARKS = Insertion(
    "consumers",
    columns=4,
    then="""
        ON CONFLICT (topic, client_id) DO UPDATE
        SET cursor = max(cursor, excluded.cursor), seen_at = max(seen_at, excluded.seen_at)
    """,
)
_INSERT_REQUESTS = Insertion("requests", columns=5)
_INSERT_KEYS = Insertion(
    "keys", columns=3, then=" ON CONFLICT (id) DO UPDATE SET wrapped = NULL WHERE excluded.wrapped IS NULL"
)
_DESTROY_KEYS = "UPDATE keys SET wrapped = NULL WHERE stream = ?"
_DELETE_OLD: dict[SideTable, str] = {
    "consumers": "DELETE FROM consumers WHERE topic = ? AND client_id = ? AND seen_at < ?",
    "requests": "DELETE FROM requests WHERE id = ? AND at < ?",
}


_logger = logging.getLogger("reenact.journal")

_PATIENCE = 1000
"""Milliseconds that forgetting a session waits for readers of the write-ahead log."""

_FILE_CHECK_SECONDS = 1.0
"""Shortest interval in seconds between two checks that the file is still in its place."""


def _file_at(path: str) -> tuple[int, int] | None:
    """Return the device and inode of the file at the path, None if there is none or it is not accessible."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class SqliteStore:
    """Implements `store.Store` with one connection; the lock beside the file excludes other writers.

    Processes that share the log take turns: a transaction blocks the others.
    """

    foresees = False

    def __init__(
        self, connection: sqlite3.Connection, path: str, wal: WalCheckpointer, *, is_shared: bool = False
    ) -> None:
        """Write with the connection, which must be in autocommit mode; `wal` copies its write-ahead log."""
        self.connection = connection
        self._wal = wal
        self.name = path
        """The path of the file."""
        self._end: tuple[int, int] | None = None
        self._is_shared = is_shared
        self._data_version: int | None = None
        self._file = _file_at(path)
        self._looked_at = -_FILE_CHECK_SECONDS
        self._has_untruncated_wal = False

    def begin(self) -> tuple[int, int, bool]:
        """Begin a batch, as in `store.Store`; without other writers, the SQLite transaction begins only when needed."""
        if self.connection.in_transaction:
            self._roll_back_transaction()
        self._wal.advance()
        now = time.monotonic()
        if now - self._looked_at >= _FILE_CHECK_SECONDS:
            self._check_same_file()
            self._looked_at = now
        if self._is_shared:
            self._begin_transaction()
            # It changes when another connection has written, but not with this connection's own writes.
            version: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
            if version != self._data_version:
                self._data_version, self._end = version, None
        if self._end is not None:
            return *self._end, True
        last: tuple[int, int] | None = self.connection.execute(LAST_OF_ALL).fetchone()
        number, position = last or (0, 0)
        return number, position, False

    def stream_ends(self, streams: Sequence[str]) -> Iterator[tuple[str, End]]:
        """Yield the ends of the streams that have rows."""
        for stream in streams:
            end: End | None = self.connection.execute(LAST, (stream,)).fetchone()
            if end is not None:
                yield stream, end

    def has_snapshot(self, stream: str, version: int) -> bool:
        """Return whether there is a snapshot of the stream at this version."""
        return self.connection.execute(_SNAPSHOT, (stream, version)).fetchone() is not None

    def tracked(self, name: str) -> int | None:
        """Return the last position of a reader."""
        row: tuple[int] | None = self.connection.execute(_TRACKING, (name,)).fetchone()
        return row[0] if row else None

    def remembered(self, request_ids: Sequence[str]) -> Iterator[str]:
        """Yield the requests that have taken effect."""
        for request_id in request_ids:
            if self.connection.execute(_REMEMBERED, (request_id,)).fetchone() is not None:
                yield request_id

    def rows(self, stream: str, first_cursor: int, last_cursor: int) -> list[Row]:
        """Return the stream's rows between these cursors, and the one before."""
        return [Row(*row) for row in self.connection.execute(_ROWS, rows_between(stream, first_cursor, last_cursor))]

    def replace(self, gone: Sequence[Row], row: Row) -> None:
        """Delete the rows, and replace the row that has the same number."""
        self._begin_transaction()
        self.connection.executemany(_DELETE_ROW, [(each.number,) for each in (*gone, row)])
        _INSERT_ROWS.run(self.connection, list(astuple(row)))

    def write_marks(self, marks: Values) -> None:
        """Record the progress of consumers, without going back."""
        self._begin_transaction()
        _UPSERT_MARKS.run(self.connection, marks)

    def delete(self, table: SideTable, keys: Sequence[tuple[str, ...]], before: int) -> int:
        """Delete those of the rows with these keys that are from before the time."""
        self._begin_transaction()
        return self.connection.executemany(_DELETE_OLD[table], [(*key, before) for key in keys]).rowcount

    def commit(self, changes: Changes, meanwhile: Callable[[], None]) -> None:
        """Write the changes, call `meanwhile`, and commit."""
        connection = self.connection
        beside = any(
            (
                *(changes.rows, changes.purges, changes.replaced, changes.snapshots, changes.due),
                *(changes.tracking, changes.marks, changes.remembered, changes.keys, changes.destroyed),
            )
        )
        if beside or len(changes.steps) > len(STEP):
            self._begin_transaction()
        if not connection.in_transaction:  # a single row is its own transaction
            meanwhile()
        if changes.steps:
            _INSERT_STEPS.run(connection, changes.steps)
        if beside:
            self._write_side_tables(changes)
        if connection.in_transaction:
            meanwhile()
            connection.execute("COMMIT")
        self._wal.wrote(1 + len(changes.steps) // len(STEP))  # each row is in the table and, elsewhere, in the index
        self._end = (changes.number, changes.position)
        if changes.destroyed or self._has_untruncated_wal:
            self._truncate_wal(_PATIENCE if changes.destroyed else 0)

    def _write_side_tables(self, changes: Changes) -> None:
        connection = self.connection
        for row in changes.rows:
            _INSERT_ROWS.run(connection, list(astuple(row)))
        if changes.purges:
            connection.execute(_DELETE_SNAPSHOTS)
        if changes.replaced:
            connection.executemany(_DELETE_SNAPSHOT, [(stream,) for stream in changes.replaced])
        if changes.snapshots:
            _INSERT_SNAPSHOTS.run(connection, changes.snapshots)
        if changes.due:
            self._set_timers(changes.due)
        if changes.tracking:
            connection.executemany(_UPSERT_TRACKING, changes.tracking.items())
        if changes.marks:
            self.write_marks(changes.marks)
        if changes.remembered:
            _INSERT_REQUESTS.run(connection, changes.remembered)
        if changes.keys:
            _INSERT_KEYS.run(connection, changes.keys)
        if changes.destroyed:
            streams = [(stream,) for stream in changes.destroyed]
            for statement in (_DESTROY_KEYS, _DELETE_SNAPSHOT, _DELETE_TIMER):
                connection.executemany(statement, streams)

    def keep_key(self, key: DataKey) -> None:
        """Write a key to the log at once, outside any batch."""
        _INSERT_KEYS.run(self.connection, [key.id, key.stream, key.wrapped])

    def roll_back(self) -> bool:
        """Roll the transaction back; a file can always be reached."""
        self._end = None
        self._roll_back_transaction()
        return True

    def was_taken_over(self) -> bool:
        """Return False: the lock beside the file is never lost."""
        return False

    def fault(self, error: Exception) -> StorageError:
        """Return the library's error for an exception."""
        return fault(error, self.name)

    def _truncate_wal(self, patience: int) -> None:
        """Empty the write-ahead log, which may still hold destroyed keys; if a reader uses it, later.

        It waits `patience` milliseconds for the readers.
        """
        # The pages of the file itself have been overwritten (PRAGMA secure_delete).
        connection = self.connection
        ((before,),) = connection.execute("PRAGMA busy_timeout").fetchall()
        connection.execute(f"PRAGMA busy_timeout = {patience}")
        busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        connection.execute(f"PRAGMA busy_timeout = {before}")
        self._has_untruncated_wal = bool(busy)
        if busy and patience:
            _logger.warning("%s: destroyed keys stay in the write-ahead log while somebody reads there", self.name)

    def _check_same_file(self) -> None:
        """Refuse to write to a file that its path no longer names, where the events would be lost."""
        if self._file is None or _file_at(self.name) != self._file:
            message = (
                f"{self.name} was deleted, moved or replaced while it was written, so nothing is recorded any more; "
                "put the file back, or begin another log"
            )
            raise LogUnusableError(message)

    def _set_timers(self, due: dict[str, int | None]) -> None:
        set_to = [(stream, at) for stream, at in due.items() if at is not None]
        self.connection.executemany(_UPSERT_TIMER, set_to)
        self.connection.executemany(_DELETE_TIMER, [(stream,) for stream, at in due.items() if at is None])

    def _begin_transaction(self) -> None:
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")

    def _roll_back_transaction(self) -> None:
        # Some errors have rolled it back already.
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
