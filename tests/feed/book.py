"""A log as a list, and a feed on it, for tests without threads: what is written becomes durable, and is heard later."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

import msgspec

from reenact.actors.feed.hub import Feed
from reenact.actors.journal.api import (
    Committed,
    Done,
    Entry,
    FeedRow,
    Link,
    Mark,
    Publication,
    Recorded,
    Remembered,
    Segment,
)
from reenact.domain.errors import RuntimeClosedError
from reenact.domain.stream.events import (
    EventData,
    MessageStop,
    SessionCreated,
    SessionDeleted,
    TextDelta,
    TurnCompleted,
    TurnStarted,
)
from tests.jsons import at

HOUR = 3_600_000_000


class Book:
    """Feeds as lists of rows. It keeps the part of a journal's promises that a feed relies on."""

    def __init__(self) -> None:
        self.now = 0
        self.feeds: dict[str, list[FeedRow]] = {}
        self.order: list[tuple[str, int]] = []
        self.sealed: set[tuple[str, int]] = set()
        self.told: dict[tuple[str, str], Mark] = {}
        self.unheard: list[Publication] = []
        self.reads = 0
        self.closed = False
        self.failing: Exception | None = None
        self.is_slow = False
        """Whether acknowledgements become durable when `settle` is called, and not at once."""
        self.unsettled: list[tuple[Sequence[Mark], Done]] = []

    def feed(self) -> Feed:
        """Return a feed of what stands here."""
        numbers = itertools.count()
        return Feed(self, new_id=lambda prefix: f"{prefix}_{next(numbers)}", now=lambda: self.now)

    def write(self, session_id: str, *data: EventData, turn_id: str | None = None, rows: int = 1) -> None:
        """Make events durable, in so many rows; they are heard when `publish` is called."""
        context = {"session_id": session_id} | ({} if turn_id is None else {"turn_id": turn_id})
        per_row = -(-len(data) // rows)
        for part in _parts(data, per_row):
            entries = tuple(Entry(one.event_type, self.now, one) for one in part)
            self.append(session_id, Segment(context, entries))

    def append(self, session_id: str, segment: Segment) -> None:
        """Make a row of one segment durable."""
        topic = f"session/{session_id}"
        first = self.feed_end(topic) + 1
        self.feeds.setdefault(topic, []).append(FeedRow(topic, first, (_plain(segment),)))
        self.order.append((topic, first))
        self.unheard.append(Publication(topic, first, segment))

    def say(self, data: EventData) -> None:
        """Let something be heard later that belongs to no session."""
        self.unheard.append(Publication(None, None, Segment({}, (Entry(data.event_type, self.now, data),))))

    def publish(self, feed: Feed) -> None:
        """Let the feed hear what is durable."""
        heard, self.unheard = self.unheard, []
        feed.publish(heard)

    def read_feed(self, topic: str, *, after: int = 0, limit: int = 1000) -> list[FeedRow]:
        self._check()
        self.reads += 1
        return [row for row in self.feeds.get(topic, []) if last_of(row) > after][:limit]

    def read_feed_backwards(self, topic: str) -> Iterator[FeedRow]:
        self._check()
        yield from reversed(self.feeds.get(topic, []))

    def link_at(self, stream: str, position: int) -> Link | None:
        self._check()
        return None

    def read_until(self, stream: str, version: int, *, after: int = -1) -> list[Recorded]:
        self._check()
        return []

    def feed_end(self, topic: str) -> int:
        self._check()
        rows = self.feeds.get(topic, [])
        return last_of(rows[-1]) if rows else 0

    def acknowledge(self, marks: Sequence[Mark], done: Done) -> None:
        if self.closed:
            raise RuntimeClosedError("closed")
        if self.is_slow:
            self.unsettled.append((marks, done))
        else:
            self._record(marks, done)

    def settle(self) -> None:
        """Let acknowledgements become durable that are under way, or fail."""
        unsettled, self.unsettled = self.unsettled, []
        for marks, done in unsettled:
            self._record(marks, done)

    def acknowledged(self, session_id: str, client_id: str) -> int:
        """Return up to where the client has acknowledged the session's events, durably."""
        mark = self.told.get((f"session/{session_id}", client_id))
        return 0 if mark is None else mark.cursor

    def _record(self, marks: Sequence[Mark], done: Done) -> None:
        if self.failing is not None:
            done(self.failing)
            return
        for mark in marks:
            known = self.told.get((mark.topic, mark.client_id), mark)
            later = Mark(mark.topic, mark.client_id, max(mark.cursor, known.cursor), max(mark.at, known.at))
            self.told[mark.topic, mark.client_id] = later
        done(Committed(0, 0))

    def mark(self, topic: str, client_id: str) -> Mark | None:
        self._check()
        return self.told.get((topic, client_id))

    def marks(self, topic: str) -> list[Mark]:
        return [mark for mark in self.told.values() if mark.topic == topic]

    def forget_marks(self, *, before: int, keep: Collection[tuple[str, str]] = ()) -> int:
        gone = [key for key, mark in self.told.items() if mark.at < before and key not in keep]
        for key in gone:
            del self.told[key]
        return len(gone)

    def remembered(self, request_id: str) -> Remembered | None:
        return None

    def forget_requests(self, *, before: int) -> int:
        return 0

    def replace_feed(self, topic: str, first_cursor: int, last_cursor: int, segments: Sequence[Segment]) -> None:
        self._check()
        rows = self.feeds[topic]
        replaced = [row for row in rows if first_cursor <= row.first_cursor <= last_cursor]
        if not replaced or replaced[0].first_cursor != first_cursor or last_of(replaced[-1]) != last_cursor:
            raise ValueError((topic, first_cursor, last_cursor))
        begin = rows.index(replaced[0])
        row = FeedRow(topic, first_cursor, tuple(map(_plain, segments)))
        assert last_of(row) == last_cursor
        rows[begin : begin + len(replaced)] = [row]
        self.sealed.add((topic, first_cursor))

    def stale_feeds(self, *, after: int, limit: int = 1000) -> list[tuple[int, str, int]]:
        self._check()
        found: list[tuple[int, str, int]] = []
        for place, (topic, first) in enumerate(self.order, 1):
            rows = [row for row in self.feeds[topic] if row.first_cursor == first and (topic, first) not in self.sealed]
            found += [(place, topic, row.segments[-1].entries[-1].at) for row in rows if place > after]
        return found[:limit]

    def _check(self) -> None:
        if self.closed:
            raise RuntimeClosedError("closed")
        if self.failing is not None:
            raise self.failing


def last_of(row: FeedRow) -> int:
    """Return a row's last cursor, counted the naive way."""
    cursor = row.first_cursor - 1
    for segment in row.segments:
        for entry in segment.entries:
            cursor = at(int, entry.data, "last_cursor") if entry.type == "deltas_compacted" else cursor + 1
    return cursor


def created(session_id: str) -> EventData:
    """Return the first event of a session."""
    return SessionCreated(session_id=session_id, container_id="c", image_id="i")


def deltas(*texts: str) -> list[EventData]:
    """Return pieces of an answer."""
    return [TextDelta(text=text) for text in texts]


def started(turn_id: str) -> EventData:
    """Return the beginning of a turn."""
    return TurnStarted(turn_id=turn_id, message_id="m")


def stopped() -> EventData:
    """Return the end of an answer."""
    return MessageStop()


def completed(turn_id: str) -> EventData:
    """Return the end of a turn."""
    return TurnCompleted(turn_id=turn_id, outcome="completed")


def deleted(session_id: str) -> EventData:
    """Return the last event of a session."""
    return SessionDeleted(session_id=session_id)


def _parts(data: Sequence[EventData], size: int) -> Iterator[Sequence[EventData]]:
    return (data[start : start + size] for start in range(0, len(data), size))


def _plain(segment: Segment) -> Segment:
    """Return the segment as it comes back from a log."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(segment), type=Segment)
