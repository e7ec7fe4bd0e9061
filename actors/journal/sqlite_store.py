"""The tables of a SQLite file, as the writer uses them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from reenact.actors.journal.faults import fault
from reenact.actors.journal.insertion import Insertion
from reenact.actors.journal.store import Changes, End, FeedCells, Values
from reenact.domain.errors import LogUnusableError, StorageError

_LAST_POSITION = "SELECT max(seq) FROM sqlite_sequence WHERE name = 'stored_events'"
_LAST_EVENT = """
    SELECT originator_version, digest FROM stored_events
    WHERE originator_id = ? ORDER BY originator_version DESC LIMIT 1
"""
_LAST_ROW = """
    SELECT first_cursor + count - 1, digest FROM feed
    WHERE topic = ? ORDER BY first_cursor DESC LIMIT 1
"""
_SNAPSHOT = "SELECT 1 FROM stored_snapshots WHERE originator_id = ? AND originator_version = ?"
_REMEMBERED = "SELECT 1 FROM requests WHERE id = ?"
# Damaged text need not be text any more.
_FEED_ROWS = """
    SELECT first_cursor, count, CAST(segments AS BLOB), CAST(digest AS BLOB), CAST(sealed AS BLOB) FROM feed
    WHERE topic = ? AND first_cursor <= ? AND first_cursor >= (
        SELECT coalesce(max(first_cursor), 0) FROM feed WHERE topic = ? AND first_cursor < ?
    )
    ORDER BY first_cursor
"""
_TRACKING = "SELECT notification_id FROM tracking WHERE application_name = ?"

_INSERT_EVENTS = Insertion("stored_events", columns=7)
_INSERT_FEED = Insertion("feed (topic, first_cursor, count, segments, digest)", columns=5)
_INSERT_SEALED = Insertion("feed", columns=6)
_INSERT_SEALS = Insertion("redactions", columns=3)
_DELETE_ROWS = "DELETE FROM feed WHERE topic = ? AND first_cursor >= ? AND first_cursor < ?"
_REPLACE_ROW = """
    UPDATE feed SET first_cursor = ?, count = ?, segments = ?, sealed = ? WHERE topic = ? AND first_cursor = ?
"""
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
_DELETE_MARK = "DELETE FROM consumers WHERE topic = ? AND client_id = ? AND seen_at < ?"
_INSERT_REQUESTS = Insertion("requests", columns=5)
_DELETE_REQUEST = "DELETE FROM requests WHERE id = ? AND at < ?"


_LOOKS_EVERY = 1.0
"""Seconds within which it is not looked twice whether the file is where it was."""


def _file_at(path: str) -> tuple[int, int] | None:
    """Return which file the path names, None if there is none, or none that can be seen."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class SqliteStore:
    """Keeps the promise of `store.Store` over one connection; the lock beside the file keeps other writers out.

    Those who share the log take turns: a transaction keeps the others waiting.
    """

    def __init__(self, connection: sqlite3.Connection, path: str, *, is_shared: bool = False) -> None:
        """Write over the connection, which must be in autocommit mode."""
        self.connection = connection
        self._path = path
        self._position: int | None = None
        self._is_shared = is_shared
        self._data_version: int | None = None
        self._file = _file_at(path)
        self._looked_at = -_LOOKS_EVERY

    @property
    def name(self) -> str:
        """Where the file is."""
        return self._path

    def begin(self) -> tuple[int, bool]:
        """Enter a transaction, as `store.Store` promises."""
        self._leave_transaction()
        now = time.monotonic()
        if now - self._looked_at >= _LOOKS_EVERY:
            self._check_file()
            self._looked_at = now
        self.connection.execute("BEGIN IMMEDIATE")
        if self._is_shared:
            # It changes when another connection has written, and with nothing that this one writes.
            version: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
            if version != self._data_version:
                self._data_version, self._position = version, None
        position = self._position
        if position is not None:
            return position, True
        last: int | None = self.connection.execute(_LAST_POSITION).fetchone()[0]
        return last or 0, False

    def stream_ends(self, streams: Sequence[str]) -> Iterator[End]:
        """Yield where the streams end."""
        return self._ends(_LAST_EVENT, streams)

    def feed_ends(self, topics: Sequence[str]) -> Iterator[End]:
        """Yield where the feeds of the topics end."""
        return self._ends(_LAST_ROW, topics)

    def has_snapshot(self, stream: str, version: int) -> bool:
        """Return whether a snapshot of the stream stands at this version."""
        return self.connection.execute(_SNAPSHOT, (stream, version)).fetchone() is not None

    def tracked(self, name: str) -> int | None:
        """Return the position that a reader has seen."""
        row: tuple[int] | None = self.connection.execute(_TRACKING, (name,)).fetchone()
        return row[0] if row else None

    def remembered(self, request_ids: Sequence[str]) -> Iterator[str]:
        """Yield those of the requests that have taken effect."""
        for request_id in request_ids:
            if self.connection.execute(_REMEMBERED, (request_id,)).fetchone() is not None:
                yield request_id

    def feed_rows(self, topic: str, first_cursor: int, last_cursor: int) -> list[FeedCells]:
        """Return the topic's rows that begin between these cursors, and the one before."""
        return self.connection.execute(_FEED_ROWS, (topic, last_cursor, topic, first_cursor)).fetchall()

    def replace_rows(
        self, topic: str, first_cursor: int, last_row: int, *, count: int, segments: bytes, sealed: bytes
    ) -> None:
        """Delete rows of the topic but for the last one of them, which takes their place."""
        self.connection.execute(_DELETE_ROWS, (topic, first_cursor, last_row))
        self.connection.execute(_REPLACE_ROW, (first_cursor, count, segments, sealed, topic, last_row))

    def write_marks(self, marks: Values) -> None:
        """Let consumers have come as far as these say."""
        _UPSERT_MARKS.run(self.connection, marks)

    def delete_marks(self, consumers: Sequence[tuple[str, str]], before: int) -> int:
        """Delete the marks of these consumers that were last said before the time."""
        return self.connection.executemany(_DELETE_MARK, [(*consumer, before) for consumer in consumers]).rowcount

    def delete_requests(self, request_ids: Sequence[str], before: int) -> int:
        """Delete those of the requests that took effect before the time."""
        return self.connection.executemany(_DELETE_REQUEST, [(each, before) for each in request_ids]).rowcount

    def commit(self, changes: Changes, meanwhile: Callable[[], None]) -> None:
        """Write the changes, call `meanwhile`, and leave the transaction."""
        connection = self.connection
        if changes.events:
            _INSERT_EVENTS.run(connection, changes.events)
        if changes.feed:
            _INSERT_FEED.run(connection, changes.feed)
        if changes.seals:
            _INSERT_SEALS.run(connection, changes.seals)
        if changes.sealed:
            _INSERT_SEALED.run(connection, changes.sealed)
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
        meanwhile()
        connection.execute("COMMIT")
        self._position = changes.position

    def roll_back(self) -> bool:
        """Leave the transaction; a file is always in reach."""
        self._position = None
        self._leave_transaction()
        return True

    def fault(self, error: Exception) -> StorageError:
        """Return our error for what was raised."""
        return fault(error, self._path)

    def _check_file(self) -> None:
        """Refuse to write what nobody would ever find: into a file that its path does not name any more."""
        if self._file is None or _file_at(self._path) != self._file:
            message = (
                f"{self._path} was deleted, moved or replaced while it was written, so nothing is recorded any more; "
                "put the file back, or begin another log"
            )
            raise LogUnusableError(message)

    def _ends(self, query: str, names: Sequence[str]) -> Iterator[End]:
        for name in names:
            row: tuple[int, bytes] | None = self.connection.execute(query, (name,)).fetchone()
            if row is not None:
                yield name, *row

    def _set_timers(self, due: dict[str, int | None]) -> None:
        set_to = [(stream, at) for stream, at in due.items() if at is not None]
        self.connection.executemany(_UPSERT_TIMER, set_to)
        self.connection.executemany(_DELETE_TIMER, [(stream,) for stream, at in due.items() if at is None])

    def _leave_transaction(self) -> None:
        # Some errors have rolled it back already.
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
