"""Reads the rows of a feed as events with cursors, including compacted ones."""

from __future__ import annotations

import contextlib
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import msgspec

from reenact.actors.envelopes import enveloped, id_in_feed
from reenact.actors.journal.api import Entry, FeedJournal, FeedRow, Link, Recorded, Segment
from reenact.domain.errors import InvalidInputError, LogUnusableError, SessionNotFoundError, reading
from reenact.domain.messages import check_text
from reenact.domain.plain import check_id
from reenact.domain.stream.events import (
    Context,
    DeltasCompacted,
    Envelope,
    SessionDeleted,
    StepStarted,
    TextDelta,
    TurnStarted,
)

FIRST_ROWS = 16
MOST_ROWS = 256
ENOUGH_BYTES = 64 * 1024
ENOUGH_EVENTS = 512
"""How many rows a page has: at first, and at most; and its intended size in the log, and number of events."""
MOST_BYTES = 256 * 1024
"""A page of this size gets no further row."""
STEP = 32
"""How many rows are read at a time, since their size is not known in advance."""
SHARED_BYTES = 1024 * 1024
SHARED_PAGES = 16
"""How much of the pages read last is kept, across all topics, for other followers at the same place."""
SHARED_SECONDS = 1.0
"""For how many seconds: another process may have compacted or forgotten their content."""
AT_A_TIME = 16
"""How many topics are read at the same time at most."""

_COMPACTED = DeltasCompacted.event_type
_SHOW_RESPONSE: Final = {TextDelta.event_type: True, StepStarted.event_type: False, TurnStarted.event_type: False}
"""Events of a turn that show whether the text of a response has begun by then."""
_measure = msgspec.msgpack.Encoder().encode
to_json = msgspec.json.Encoder().encode
"""Encodes an envelope for transmission."""


class Log(FeedJournal, Protocol):
    """The journal, as needed for replay."""

    def link_at(self, stream: str, position: int) -> Link | None:
        """See `ChainedJournal.link_at`."""
        ...

    def read_until(self, stream: str, version: int, *, after: int = -1) -> list[Recorded]:
        """See `Chain.read_until`."""
        ...

    def read_feed(self, topic: str, *, after: int = 0, limit: int = 1000) -> list[FeedRow]:
        """See `Journal.read_feed`."""
        ...

    def read_feed_backwards(self, topic: str) -> Iterator[FeedRow]:
        """See `Journal.read_feed_backwards`."""
        ...


def numbered(row: FeedRow) -> Iterator[tuple[int, Segment, Entry]]:
    """Yield each entry of a row with its cursor and segment; an entry for a compacted gap has the gap's last cursor.

    Raises:
        LogUnusableError: the entry for the gap is invalid.
    """
    cursor = row.first_cursor
    for segment in row.segments:
        for entry in segment.entries:
            if entry.type == _COMPACTED:
                with reading(f"event {cursor} of the feed of {row.topic!r}"):
                    cursor = max(cursor, msgspec.convert(entry.data, DeltasCompacted).last_cursor)
            yield cursor, segment, entry
            cursor += 1


def end_of(row: FeedRow, after: int) -> int:
    """Return the last cursor of a row that follows the cursor `after`.

    Raises:
        LogUnusableError: the row does not follow it.
    """
    cursor = after
    for cursor, _, _ in numbered(row):  # noqa: B007 - only the last one is needed
        pass
    if cursor <= after:
        message = f"the feed of {row.topic!r} goes back from event {after} to {cursor}; verify the log"
        raise LogUnusableError(f"{message}, and restore a copy of it")
    return cursor


def last_of(row: FeedRow) -> Entry:
    """Return the last entry of a row.

    Raises:
        LogUnusableError: the row has no entries.
    """
    with reading(f"row {row.first_cursor} of the feed of {row.topic!r}"):
        return row.segments[-1].entries[-1]


def opened(rows: Iterable[FeedRow], after: int) -> Iterator[Envelope]:
    """Yield the events of consecutive rows; the first row holds the event after the cursor.

    Raises:
        LogUnusableError: a row is missing, or an entry is not an event.
    """
    of: Segment | None = None
    context = Context()
    for row in rows:
        if row.first_cursor > after + 1 and not row.is_behind_forgotten:
            message = f"the feed of {row.topic!r} lacks event {after + 1}; verify the log, and restore a copy of it"
            raise LogUnusableError(message)
        for cursor, segment, entry in numbered(row):
            with reading(f"event {cursor} of the feed of {row.topic!r}"):
                if segment is not of:
                    of, context = segment, Context(**segment.context)
                envelope = enveloped(entry, context, id_in_feed(row.topic, cursor), cursor)
            yield envelope
            after = cursor


class Page:
    """Events of a topic read from the log, with their JSON once it is needed."""

    __slots__ = ("_encoded", "envelopes", "first", "last", "read_at", "rows", "size", "topic")

    def __init__(self, rows: list[FeedRow], after: int) -> None:
        self.read_at = time.monotonic()
        self.topic = rows[0].topic
        self.first = rows[0].first_cursor
        self.rows = len(rows)
        self.size = sum(len(_measure(row.segments)) for row in rows)
        self.envelopes = list(opened(rows, after))
        self.last = self.envelopes[-1].cursor or 0
        self._encoded: list[bytes] | None = None

    def behind(self, cursor: int) -> int:
        """Return the index of the first event after the cursor."""
        return bisect_right(self.envelopes, cursor, key=_cursor_of)

    def encoded(self) -> list[bytes]:
        """Return the envelopes as JSON."""
        made = self._encoded
        if made is None:
            made = self._encoded = [to_json(envelope) for envelope in self.envelopes]
        return made


class Replay:
    """Reads topics page by page. Thread-safe; the last pages are shared by all followers at the same place."""

    def __init__(self, journal: Log) -> None:
        self._journal = journal
        self._pages: deque[Page] = deque(maxlen=SHARED_PAGES)
        self._reading = tuple(threading.Lock() for _ in range(AT_A_TIME))

    def read(self, topic: str, after: int, rows: int) -> tuple[Page, int]:
        """Return a page that holds the next event after the cursor, which must exist, and its index there.

        A page that must be read gets about `rows` rows.

        Raises:
            StorageError: the log cannot be read.
            LogUnusableError: the log lacks the next event.
            RuntimeClosedError: the log is closed.
        """
        with self._reading[hash(topic) % AT_A_TIME]:  # a thread that waited here finds the page that another has read
            page = self._cached_page(topic, after)
            if page is None:
                page = Page(self._rows(topic, after, rows), after)
                self._pages.append(page)
                self._drop_old_pages()
        return page, page.behind(after)

    def forget(self, topic: str) -> None:
        """Drop the pages of the topic, whose rows in the log have changed."""
        with self._reading[hash(topic) % AT_A_TIME]:
            for page in [page for page in tuple(self._pages) if page.topic == topic]:
                with contextlib.suppress(ValueError):  # another thread has removed it
                    self._pages.remove(page)

    def _drop_old_pages(self) -> None:
        """Drop the oldest pages beyond the limit, but keep the newest one."""
        with contextlib.suppress(IndexError):  # other threads may remove pages, too
            while len(self._pages) > 1 and sum(page.size for page in tuple(self._pages)) > SHARED_BYTES:
                self._pages.popleft()

    def _cached_page(self, topic: str, after: int) -> Page | None:
        too_old = time.monotonic() - SHARED_SECONDS
        for page in tuple(self._pages):
            if page.topic == topic and page.read_at > too_old and page.first <= after + 1 and after < page.last:
                return page
        return None

    def _rows(self, topic: str, after: int, limit: int) -> list[FeedRow]:
        rows: list[FeedRow] = []
        events, size, cursor = 0, 0, after
        while events < ENOUGH_EVENTS and size < MOST_BYTES and len(rows) < limit:
            step = min(limit - len(rows), STEP)
            more = self._journal.read_feed(topic, after=cursor, limit=step)
            for row in more:
                if events < ENOUGH_EVENTS and size < MOST_BYTES:
                    rows.append(row)
                    size += len(_measure(row.segments))
                    cursor = end_of(row, cursor)
                    events += sum(len(segment.entries) for segment in row.segments)
            if len(more) < step:
                break
        if not rows:
            message = f"the feed of {topic!r} ends at {after}, and had more; verify the log, and restore a copy of it"
            raise LogUnusableError(message)
        return rows


class Pages:
    """One follower's progress through a topic: the number of rows per page adapts to the size of the previous page."""

    def __init__(self, replay: Replay, topic: str) -> None:
        self._replay = replay
        self._topic = topic
        self._rows = FIRST_ROWS

    def read(self, after: int) -> tuple[Page, int]:
        """Read the next page as `Replay.read` does."""
        page, index = self._replay.read(self._topic, after, self._rows)
        fitting = page.rows * min(ENOUGH_BYTES / page.size, ENOUGH_EVENTS / len(page.envelopes))
        self._rows = max(1, min(int(fitting), 2 * self._rows, MOST_ROWS))
        return page, index


def fitting(lines: list[bytes], begin: int, room: int) -> list[bytes]:
    """Return the lines from an index on, about `room` bytes, but at least one."""
    end = begin
    while end < len(lines) and (room > 0 or end == begin):
        room -= len(lines[end])
        end += 1
    return lines[begin:end]


def stream_of(session_id: str) -> str:
    """Return the topic under which the log stores a session's events.

    Raises:
        SessionNotFoundError: the session id is invalid.
    """
    check_id("session_id", session_id)
    try:
        return "session/" + check_text("the session's id", session_id)
    except InvalidInputError:
        raise SessionNotFoundError(session_id) from None


def deleted_at(journal: Log, topic: str) -> int | None:
    """Return the cursor of the topic's last event if it says that the session was deleted, else None."""
    for row in journal.read_feed_backwards(topic):
        if last_of(row).type == SessionDeleted.event_type:
            return max(cursor for cursor, _, _ in numbered(row))
        break
    return None


def cursor_of_turn(journal: Log, topic: str, turn_id: str, first: str) -> int | None:
    """Return the cursor of a turn's first event, searching from the end of the topic, or None.

    It is in the same row as the event of the type `first`: what guards say of a message comes before the message.
    """
    for row in journal.read_feed_backwards(topic):
        of_turn = [(cursor, entry) for cursor, of, entry in numbered(row) if of.context.get("turn_id") == turn_id]
        if any(entry.type == first for _, entry in of_turn):
            return of_turn[0][0]
    return None


def is_responding(journal: Log, topic: str, turn_id: str) -> bool:
    """Return whether the log has text of the turn's current response, searching from the end."""
    for row in journal.read_feed_backwards(topic):
        for _, segment, entry in reversed(list(numbered(row))):
            if segment.context.get("turn_id") != turn_id:
                continue
            if entry.type in _SHOW_RESPONSE:
                return _SHOW_RESPONSE[entry.type]
    return False


def _cursor_of(envelope: Envelope) -> int:
    return envelope.cursor or 0
