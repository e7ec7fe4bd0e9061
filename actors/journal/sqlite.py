"""The journal in a SQLite file.

Plain sqlite3 connections and a small pool of our own: the one writing connection never leaves its thread, and a
reader needs nothing of a larger pool (overflow, ping, reset on return) that it would pay for at each read.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

import msgspec

from reenact.actors.journal.api import Append, Done, FeedRow, Listener, Recorded, Segment, Snapshot, Synchronous
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.faults import translated
from reenact.actors.journal.lock import WriterLock
from reenact.actors.journal.pool import BUSY_TIMEOUT, ReadPool, connect_to_read
from reenact.actors.journal.requests import Purge, Recovery, Step
from reenact.actors.journal.schema import check_file, check_format, create_tables, upgrade_tables
from reenact.actors.journal.writer import Writer
from reenact.domain.errors import LogUnusableError, StorageError

_WAL_SIZE_LIMIT = 64 * 1024 * 1024

_EVENTS = "SELECT originator_id, originator_version, rowid, topic, state FROM stored_events"
_READ_STREAM = f"{_EVENTS} WHERE originator_id = ? AND originator_version > ? ORDER BY originator_version"
_READ_ALL = f"{_EVENTS} WHERE rowid > ? ORDER BY rowid LIMIT ?"
_READ_FEED = """
    SELECT topic, first_cursor, segments FROM feed
    WHERE topic = ? AND first_cursor + count > ? AND first_cursor >= (
        SELECT coalesce(max(first_cursor), 0) FROM feed WHERE topic = ? AND first_cursor <= ?
    )
    ORDER BY first_cursor LIMIT ?
"""
_READ_FEED_BACKWARDS = """
    SELECT topic, first_cursor, segments FROM feed
    WHERE topic = ? AND first_cursor < ? ORDER BY first_cursor DESC LIMIT ?
"""
_READ_SNAPSHOT = """
    SELECT originator_id, originator_version, topic, state FROM stored_snapshots
    WHERE originator_id = ? ORDER BY originator_version DESC LIMIT 1
"""
# Beside max(), SQLite gives the other columns of the row that holds it.
_READ_SNAPSHOTS = """
    SELECT originator_id, max(originator_version), topic, state FROM stored_snapshots
    WHERE originator_id > ? GROUP BY originator_id ORDER BY originator_id LIMIT ?
"""
_READ_DUE = "SELECT stream, due FROM timers WHERE due > ? AND due <= ? ORDER BY due LIMIT ?"
_READ_NEXT_DUE = "SELECT min(due) FROM timers WHERE due > ?"
_BACKWARDS_PAGE = 16
_MAX_INTEGER = 2**63 - 1

_logger = logging.getLogger("reenact.journal")

_decode_segments = msgspec.msgpack.Decoder(tuple[Segment, ...]).decode


class SqliteJournal:
    """An append-only history for each stream in one SQLite file, with one global order over all of them.

    It keeps the promise of `api.Journal`. Use `open`, and close it, or use it as a context manager.
    """

    def __init__(
        self, *, path: str, codec: EventCodec, pool: ReadPool, writer: Writer | None, cleanup: ExitStack
    ) -> None:
        """Take what `open` has prepared."""
        self._path = path
        self._codec = codec
        self._pool = pool
        self._writer = writer
        self._cleanup = cleanup
        self._closing = threading.Lock()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        codec: EventCodec,
        *,
        listener: Listener | None = None,
        synchronous: Synchronous = "FULL",
        read_only: bool = False,
    ) -> SqliteJournal:
        """Open the log in the file, or begin one if the file is missing or empty.

        With `read_only` the file is opened beside a process that writes it; it must be a log, and nothing can be
        appended.

        Raises:
            LogLockedError: another process, or another journal of this one, is writing the log.
            LogTooNewError: a newer version has written it.
            LogUnusableError: it is not a log, is damaged, or cannot be opened here.
            StorageFullError: there is no space to begin it.
        """
        resolved = os.path.realpath(path)
        with ExitStack() as cleanup, translated(resolved):
            check_file(resolved)
            writer = None if read_only else _start_writer(resolved, codec, listener, synchronous, cleanup)
            pool = ReadPool(lambda: connect_to_read(resolved), resolved)
            cleanup.callback(pool.close)
            if writer is not None:
                # Before the pool, so that what is accepted can still be read by those who hear of it.
                cleanup.callback(writer.close)
            with pool.connection() as connection:
                if not check_format(connection, resolved):
                    message = f"{resolved} holds no log yet; open it for writing first"
                    raise LogUnusableError(message)
            return cls(path=resolved, codec=codec, pool=pool, writer=writer, cleanup=cleanup.pop_all())

    def __enter__(self) -> Self:
        """Return the journal itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()

    @property
    def path(self) -> str:
        """Where the file is, with every link resolved."""
        return self._path

    @property
    def codec(self) -> EventCodec:
        """What turns the log's events into bytes and back."""
        return self._codec

    @property
    def writer(self) -> Writer:
        """What makes things durable.

        Raises:
            StorageError: the log was opened for reading only.
        """
        if self._writer is None:
            message = f"{self._path} was opened for reading only"
            raise StorageError(message)
        return self._writer

    def append(self, step: Append, done: Done) -> None:
        """Make the step durable, as `api.Journal` promises.

        Raises:
            RuntimeClosedError: the journal is closed.
            StorageError: the log was opened for reading only.
            ValueError: the step has events, and does not say after which version.
        """
        if step.after is None and step.events:
            message = "a step with events must say after which version of its stream they come"
            raise ValueError(message)
        self.writer.submit(Step(step, done))

    def recover(self, stream: str, *, after: int = -1) -> list[Recorded]:
        """Wait for what is under way, accept steps of the stream again, and return its events with a version above."""
        if not self.writer.owes_nothing(stream):
            outcome = self.writer.wait(lambda done: Recovery(stream, done))
            if isinstance(outcome, Exception):
                raise outcome
        return self.read(stream, after=after)

    def read(self, stream: str, *, after: int = 0) -> list[Recorded]:
        """Return the stream's events with a version above `after`."""
        return self._read_events(_READ_STREAM, (stream, after))

    def read_all(self, *, after: int = 0, limit: int = 1000) -> list[Recorded]:
        """Return up to `limit` events of all streams with a position above `after`, in the order of their positions."""
        return self._read_events(_READ_ALL, (after, limit))

    def read_feed(self, topic: str, *, after: int = 0, limit: int = 1000) -> list[FeedRow]:
        """Return up to `limit` feed rows that hold cursors above `after`; the first row may begin before it."""
        return self._read_rows(_READ_FEED, (topic, after + 1, topic, after + 1, limit))

    def read_feed_backwards(self, topic: str) -> Iterator[FeedRow]:
        """Iterate over the feed rows of the topic from the newest to the oldest, reading only as far as one goes."""
        before = _MAX_INTEGER
        while rows := self._read_rows(_READ_FEED_BACKWARDS, (topic, before, _BACKWARDS_PAGE)):
            yield from rows
            before = rows[-1].first_cursor

    def snapshot(self, stream: str) -> Snapshot | None:
        """Return the last snapshot of the stream, if it has one."""
        with self._pool.connection() as connection:
            row: tuple[str, int, str, bytes] | None = connection.execute(_READ_SNAPSHOT, (stream,)).fetchone()
        return None if row is None else Snapshot(*row)

    def snapshots(self, *, after: str = "", limit: int = 1000) -> list[Snapshot]:
        """Return the last snapshots of up to `limit` streams, in the order of their names, from behind `after`."""
        with self._pool.connection() as connection:
            rows: list[tuple[str, int, str, bytes]] = connection.execute(_READ_SNAPSHOTS, (after, limit)).fetchall()
        return [Snapshot(*row) for row in rows]

    def delete_snapshots(self) -> None:
        """Delete the snapshots of all streams; returns when that is durable.

        Raises:
            RuntimeClosedError: the journal is closed.
            StorageError: the log cannot be written, or was opened for reading only.
        """
        outcome = self.writer.wait(Purge)
        if isinstance(outcome, Exception):
            raise outcome

    def due(self, *, after: int, until: int, limit: int = 1000) -> list[tuple[str, int]]:
        """Return up to `limit` streams that are to be woken in this time, `until` included, in its order."""
        with self._pool.connection() as connection:
            return connection.execute(_READ_DUE, (after, until, limit)).fetchall()

    def next_due(self, *, after: int) -> int | None:
        """Return the next time at which a stream is to be woken, if there is one."""
        with self._pool.connection() as connection:
            due: int | None = connection.execute(_READ_NEXT_DUE, (after,)).fetchone()[0]
        return due

    def head(self) -> int:
        """Return the position of the last durable event, 0 if there is none."""
        with self._pool.connection() as connection:
            last: int | None = connection.execute("SELECT max(rowid) FROM stored_events").fetchone()[0]
        return last or 0

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Lend a connection that sees what is durable and cannot write."""
        with self._pool.connection() as connection:
            yield connection

    def close(self) -> None:
        """Make durable what was handed over, then let go of the file. Idempotent."""
        if self._writer is not None:
            self._writer.forbid_own_thread()
        with self._closing:
            self._cleanup.close()

    def _read_events(self, query: str, parameters: tuple[str | int, ...]) -> list[Recorded]:
        with self._pool.connection() as connection:
            rows: list[tuple[str, int, int, str, bytes]] = connection.execute(query, parameters).fetchall()
        decode = self._codec.decode
        return [
            Recorded(stream, version, position, *decode(topic, state))
            for stream, version, position, topic, state in rows
        ]

    def _read_rows(self, query: str, parameters: tuple[str | int, ...]) -> list[FeedRow]:
        with self._pool.connection() as connection:
            rows: list[tuple[str, int, bytes]] = connection.execute(query, parameters).fetchall()
        try:
            return [FeedRow(topic, first_cursor, _decode_segments(segments)) for topic, first_cursor, segments in rows]
        except (msgspec.MsgspecError, TypeError) as error:
            message = f"{self._path}: a row of a feed cannot be decoded ({error}); restore a copy of the log"
            raise LogUnusableError(message) from error


def _start_writer(
    path: str, codec: EventCodec, listener: Listener | None, synchronous: Synchronous, cleanup: ExitStack
) -> Writer:
    lock = WriterLock(path)
    cleanup.callback(lock.release)
    # Handed over to the writer's thread before anything is appended.
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    cleanup.callback(_close_writer_connection, connection, path)
    is_log = check_format(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_SIZE_LIMIT}")
    if is_log:
        # What a crash has left in the write-ahead log goes home, so that the file can be compared with its header.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        check_file(path)
        upgrade_tables(connection)
    else:
        create_tables(connection)
    return Writer(connection, codec, path=path, listener=listener)


def _close_writer_connection(connection: sqlite3.Connection, path: str) -> None:
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:
        # Nothing is lost: the next one to open the log finds the write-ahead log beside it.
        _logger.warning("the write-ahead log of %s stays beside it", path, exc_info=True)
    finally:
        connection.close()
