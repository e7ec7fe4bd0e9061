"""The tail of a log with several writing processes: publishes the commits of all, in the order of the log.

This process's writer passes its commits on, with their row numbers. Rows that follow the last published one are
published at once, on the writer's thread. If others have written rows in between, a thread of the tail reads these
first, as far as there are followers for them, and then publishes the waiting commits. So a session may move between
processes at any moment, and each row is published once, in its place: even a row of this process that was never passed
on, because the response to its commit was lost.

A row that has replaced others by compaction, before it was read here, is published with all its content.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

from reenact.actors.container import CATEGORIES, published_form
from reenact.actors.envelopes import enveloped, id_in_feed
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.replay import end_of, numbered
from reenact.actors.journal.api import Entry, Publication, Publisher, Segment, WrittenRow
from reenact.domain.errors import LogUnusableError, RuntimeClosedError, StorageError, reading
from reenact.domain.stream.events import Context

LOOK = 1.0
"""Seconds after which the tail reads the end of the log, if it gets no notification of a commit."""
FIRST_PAUSE = 0.25
LAST_PAUSE = 2.0
"""Seconds before reading again after a failure: the first time, and at most."""
STEP = 128
"""How many rows are read at a time."""
MOST_TOPICS = 1000
"""If more topics than this are followed, the rows of all streams are read."""
MOST_EVENTS = 8192
"""If more events than this wait for rows of others, they are dropped, and read from the log later."""
PATIENCE = 5.0
"""Seconds that closing waits for the server, if the log is being read."""

_logger = logging.getLogger("reenact.feed")


class SharedLog(Protocol):
    """The journal, as needed by the tail."""

    def publish_by(self, publisher: Publisher) -> None:
        """See `PostgresJournal.publish_by`."""
        ...

    def watch_rows(self, watcher: Callable[[int], None]) -> None:
        """See `PostgresJournal.watch_rows`."""
        ...

    def unwatch_rows(self, watcher: Callable[[int], None]) -> None:
        """See `PostgresJournal.unwatch_rows`."""
        ...

    def last_row(self) -> int:
        """See `PostgresJournal.last_row`."""
        ...

    def read_rows(
        self,
        *,
        after: int,
        until: int,
        streams: Collection[str] | None = None,
        categories: Collection[str] = (),
        limit: int = 1000,
    ) -> list[WrittenRow]:
        """See `PostgresJournal.read_rows`."""
        ...


class Tail:
    """Publishes the rows of a log that are written from now on. Thread-safe.

    Without `start` it has no thread, and reads only in `advance`.
    """

    def __init__(self, log: SharedLog, feed: Feed) -> None:
        """Begin at the present end of the log; nothing has been appended here since it was opened.

        Raises:
            StorageError: the log cannot be read.
        """
        self._log = log
        self._feed = feed
        # Held while a row is published, so that rows are published one by one; never while the log is read.
        self._lock = threading.Lock()
        self.position = log.last_row()
        """The number of the last row that is published, or was not needed."""
        # All rows up to this number are durable.
        self._end = self.position
        # Commits of this process after the position, in order.
        self._queued_commits: deque[tuple[range, Sequence[Publication]]] = deque()
        self._queued_events = 0
        self._has_missed = True
        self._is_failing = False
        self._has_damage = False
        self._closed = False
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        log.publish_by(self._publish_own_commit)
        log.watch_rows(self._record_foreign_rows)

    def start(self) -> None:
        """Read what others write, on its own thread, until `close`."""
        self._thread = threading.Thread(target=self._run, name="reenact-tail", daemon=True)
        self._thread.start()

    def advance(self, *, looks: bool) -> None:
        """Publish the rows known to be durable, or, if it `looks`, all up to the end of the log.

        Raises:
            StorageError: the log cannot be read; the remaining rows are published next time.
            RuntimeClosedError: the log is closed.
        """
        if looks:
            self._look_up_end()
        while (gap := self._next_gap()) is not None:
            after, until, streams = gap
            rows = self._log.read_rows(after=after, until=until, streams=streams, categories=CATEGORIES, limit=STEP)
            for row in rows:
                self._publish_row(row)
            with self._lock:
                self._move_position(until if len(rows) < STEP else rows[-1].number)

    def close(self) -> None:
        """Stop reading; waiting commits are published now, later ones as they come. Idempotent."""
        self._log.unwatch_rows(self._record_foreign_rows)
        self._ending.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(PATIENCE)
        with self._lock:
            self._closed = True
            while self._queued_commits:
                rows, publications = self._queued_commits.popleft()
                if rows[0] > self.position:
                    self._feed.publish(publications)

    def _publish_own_commit(self, rows: range, publications: Sequence[Publication]) -> None:
        """Publish a commit of this process, at once or after the rows before it. Called on the writing thread."""
        with self._lock:
            if not rows or self._closed:
                self._feed.publish(publications)
                return
            self._end = max(self._end, rows[-1])
            if rows[0] == self.position + 1:
                self._feed.publish(publications)
                self._move_position(rows[-1])
            elif rows[0] > self.position and not self._skip_if_unfollowed(rows[-1]):
                self._queue_commit(rows, publications)
            is_behind = self.position < self._end
        if is_behind:
            self._wake.set()

    def _record_foreign_rows(self, number: int) -> None:
        """Record that others have written up to this row; 0 if that is unknown. Called on the listening thread."""
        if not number:
            self._has_missed = True
        else:
            with self._lock:
                self._end = max(self._end, number)
                if self.position >= self._end or self._skip_if_unfollowed(number):
                    return
        self._wake.set()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._ending.is_set():
            is_woken = self._wake.wait(LOOK)
            self._wake.clear()
            looks, self._has_missed = not is_woken or self._has_missed, False
            try:
                self.advance(looks=looks)
            except RuntimeClosedError:
                return
            except Exception as error:
                self._has_missed = True
                if not self._is_failing:
                    self._is_failing = True
                    _logger.log(
                        logging.ERROR,
                        "events that other processes wrote cannot be read now, and are published later: %s",
                        error,
                        exc_info=not isinstance(error, StorageError),
                    )
                self._ending.wait(pause)
                self._wake.set()
                pause = min(2 * pause, LAST_PAUSE)
            else:
                self._is_failing = False
                pause = FIRST_PAUSE

    def _look_up_end(self) -> None:
        known = self._end
        end = self._log.last_row()
        with self._lock:
            if end < known:  # after a failover, the replica may lack the last rows, and assign their numbers again
                self._end, self.position = end, min(end, self.position)
                self._clear_queue()
            self._end = max(self._end, end)

    def _next_gap(self) -> tuple[int, int, Collection[str] | None] | None:
        """Publish waiting commits that are next; return the range of rows to read then, and their topics."""
        with self._lock:
            while not self._ending.is_set():
                rows, publications = self._first_queued()
                if rows and rows[0] == self.position + 1:
                    self._feed.publish(publications)
                    self._move_position(rows[-1])
                    continue
                until = min(self._end, rows[0] - 1) if rows else self._end
                if until <= self.position:
                    return None
                # Checked after the end is known: a later follower needs no row up to there.
                if not self._skip_if_unfollowed(until):
                    return self.position, until, self._feed.followed(MOST_TOPICS)
        return None

    def _first_queued(self) -> tuple[range, Sequence[Publication]]:
        waiting = self._queued_commits
        while waiting and waiting[0][0][0] <= self.position:  # it was read from the log, or was not needed
            self._queued_events -= _count(waiting.popleft()[1])
        return waiting[0] if waiting else (range(0), ())

    def _queue_commit(self, rows: range, publications: Sequence[Publication]) -> None:
        self._queued_commits.append((rows, publications))
        self._queued_events += _count(publications)
        if self._queued_events > MOST_EVENTS:
            self._clear_queue()

    def _clear_queue(self) -> None:
        self._queued_commits.clear()
        self._queued_events = 0

    def _skip_if_unfollowed(self, until: int) -> bool:
        """Move on to a durable row without publishing, if there are no followers."""
        if self._feed.is_followed:
            return False
        self._move_position(until)
        return True

    def _move_position(self, number: int) -> None:
        self.position = max(self.position, number)

    def _publish_row(self, row: WrittenRow) -> None:
        try:
            publications = tuple(_publications_of(row))
        except LogUnusableError as error:
            publications = ()
            self._log_damage(row, error)
        else:
            self._has_damage = False
        with self._lock:
            if row.number <= self.position or self._closed:
                return
            if publications:
                self._feed.publish(publications)
            elif row.heard:
                self._feed.advance_to(row.stream, row.first_cursor, row.first_cursor + row.heard - 1)
            self._move_position(row.number)

    def _log_damage(self, row: WrittenRow, error: LogUnusableError) -> None:
        if not self._has_damage:
            _logger.error(
                "row %s of the log cannot be published (later rows like it are not reported): %s", row.number, error
            )
        self._has_damage = True


def _publications_of(row: WrittenRow) -> Iterator[Publication]:
    """Yield the publications of a row, as its writer publishes them.

    Raises:
        LogUnusableError: the row cannot be read.
    """
    if row.error is not None:
        raise row.error
    for recorded in row.events:
        yield Publication(None, None, published_form(recorded))
    if row.feed is None:
        return
    end_of_row = row.first_cursor + row.heard - 1
    if end_of(row.feed, row.first_cursor - 1) != end_of_row:
        message = f"row {row.first_cursor} of the feed of {row.stream!r} does not end at {end_of_row}"
        raise LogUnusableError(f"{message}; verify the log")
    # The entries of a segment are one publication, unless a compacted gap lies between them.
    of: Segment | None = None
    first, entries = 0, list[Entry]()
    for cursor, segment, entry in numbered(row.feed):
        if of is not None and (segment is not of or cursor != first + len(entries)):
            yield Publication(row.stream, first, Segment(of.context, tuple(entries)))
            entries = []
        if not entries:
            first = cursor
        of = segment
        entries.append(_typed(entry, segment, row.stream, cursor))
    if of is not None:
        yield Publication(row.stream, first, Segment(of.context, tuple(entries)))


def _typed(entry: Entry, segment: Segment, topic: str, cursor: int) -> Entry:
    """Return the entry with decoded data, as its writer publishes it, so that handlers find no unreadable data."""
    with reading(f"event {cursor} of the feed of {topic!r}"):
        envelope = enveloped(entry, Context(**segment.context), id_in_feed(topic, cursor), cursor)
    return Entry(entry.type, entry.at, envelope.data)


def _count(publications: Sequence[Publication]) -> int:
    return sum(len(publication.segment.entries) for publication in publications)
