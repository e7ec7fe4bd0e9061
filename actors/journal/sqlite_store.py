"""The tables of a SQLite file, as the writer uses them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

from reenact.actors.journal.faults import fault
from reenact.actors.journal.insertion import Insertion
from reenact.actors.journal.store import Changes, End
from reenact.domain.errors import StorageError

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
_TRACKING = "SELECT notification_id FROM tracking WHERE application_name = ?"

_INSERT_EVENTS = Insertion("stored_events", columns=6)
_INSERT_FEED = Insertion("feed", columns=5)
_INSERT_SNAPSHOTS = Insertion("stored_snapshots", columns=4)
_DELETE_SNAPSHOTS = "DELETE FROM stored_snapshots"
_DELETE_SNAPSHOT = f"{_DELETE_SNAPSHOTS} WHERE originator_id = ?"
_DELETE_TIMER = "DELETE FROM timers WHERE stream = ?"
_UPSERT_TIMER = "INSERT INTO timers VALUES (?, ?) ON CONFLICT (stream) DO UPDATE SET due = excluded.due"
_UPSERT_TRACKING = """
    INSERT INTO tracking VALUES (?, ?)
    ON CONFLICT (application_name) DO UPDATE SET notification_id = excluded.notification_id
"""


class SqliteStore:
    """Keeps the promise of `store.Store` over one connection; the lock beside the file keeps other writers out."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        """Write over the connection, which must be in autocommit mode."""
        self.connection = connection
        self._path = path
        self._position: int | None = None

    @property
    def name(self) -> str:
        """Where the file is."""
        return self._path

    def begin(self) -> tuple[int, bool]:
        """Enter a transaction, as `store.Store` promises."""
        self._leave_transaction()
        self.connection.execute("BEGIN IMMEDIATE")
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

    def commit(self, changes: Changes, meanwhile: Callable[[], None]) -> None:
        """Write the changes, call `meanwhile`, and leave the transaction."""
        connection = self.connection
        if changes.events:
            _INSERT_EVENTS.run(connection, changes.events)
        if changes.feed:
            _INSERT_FEED.run(connection, changes.feed)
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
