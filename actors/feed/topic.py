"""A followed topic: its latest events, shared by all its followers, and the followers' positions."""

from __future__ import annotations

import contextlib
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable
from enum import Enum, auto

import msgspec

from reenact.actors.envelopes import enveloped, id_in_feed, passing_id
from reenact.actors.feed.consumers import Consumer, log_unacknowledged
from reenact.actors.feed.replay import Pages, to_json
from reenact.actors.feed.waking import Awaited, Waiter, Waker, Woken
from reenact.actors.journal.api import Publication
from reenact.domain.errors import RuntimeClosedError, StorageError
from reenact.domain.stream.events import Context, Envelope, SessionDeleted

MOST_EVENTS = 2048
MOST_BYTES = 2 * 1024 * 1024
"""The most that is kept of a topic; followers further behind read the log."""
FEW_EVENTS = 32
FEW_BYTES = 256 * 1024
"""What may be kept of a topic although all its followers have had it."""
AT_ONCE = 16
"""How many publications that all followers have had are dropped at once: many topics may grow in step."""
ALL_BYTES = 64 * 1024 * 1024
"""About the most that is kept of all topics together; beyond that, a growing topic keeps only its latest events."""
ENVELOPE = 1024
"""The approximate size in bytes of an event's envelope and JSON, besides its data."""

NOW = -1
"""Stands for the cursor of a follower that begins now, until something is published."""

_measure = msgspec.msgpack.Encoder().encode


class Chunk:
    """One publication. Its envelopes and their JSON are created when first needed, and shared."""

    __slots__ = (
        "_context",
        "_encoded",
        "_envelopes",
        "_made",
        "_new_id",
        "_size",
        "end",
        "first",
        "is_last",
        "length",
        "publication",
        "types",
    )

    def __init__(self, publication: Publication, new_id: Callable[[str], str]) -> None:
        self.publication = publication
        self.types = [entry.type for entry in publication.segment.entries]
        """The types of its events."""
        self.first = publication.first_cursor or 0
        self.end = self.first + len(self.types) - 1
        self.is_last = bool(self.types) and self.types[-1] == SessionDeleted.event_type
        """Whether it is the last of its topic."""
        self.length = 0
        """The size of its JSON in bytes, once it is created."""
        self._new_id = new_id
        self._size = 0
        self._context: Context | None = None
        self._made: dict[str, dict[int, Envelope]] = {}
        self._envelopes: list[Envelope] | None = None
        self._encoded: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self.types)

    @property
    def size(self) -> int:
        """Its approximate memory use in bytes."""
        if not self._size:
            self._size = len(_measure(self.publication.segment)) + ENVELOPE * len(self)
        return self._size

    @property
    def session_id(self) -> str | None:
        """The session of its events."""
        return self.publication.segment.context.get("session_id")

    def envelope(self, index: int) -> Envelope:
        """Return the envelope of one of its events, the same object for all callers."""
        type_ = self.types[index]
        return (self._made.get(type_) or self._make(type_))[index]

    def _make(self, type_: str) -> dict[int, Envelope]:
        """Create the envelopes of all its events of the type: a caller that needs one usually needs the others."""
        segment, topic, first = self.publication.segment, self.publication.topic, self.first
        context = self._context
        if context is None:
            context = self._context = Context(**segment.context)
        made = {
            index: enveloped(entry, context, passing_id(entry.data, self._new_id))
            if topic is None
            else enveloped(entry, context, id_in_feed(topic, first + index), first + index)
            for index, entry in enumerate(segment.entries)
            if entry.type == type_
        }
        return self._made.setdefault(type_, made)  # two threads may get here at the same time

    def envelopes(self) -> list[Envelope]:
        """Return the envelopes of all its events."""
        made = self._envelopes
        if made is None:
            made = self._envelopes = [self.envelope(index) for index in range(len(self))]
        return made

    def encoded(self) -> list[bytes]:
        """Return the envelopes as JSON."""
        made = self._encoded
        if made is None:
            made = [to_json(envelope) for envelope in self.envelopes()]
            self.length = sum(map(len, made))
            self._encoded = made
        return made


class Budget:
    """The memory used by all topics together. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.bytes = 0

    @property
    def is_spent(self) -> bool:
        """Whether it exceeds the limit."""
        return self.bytes > ALL_BYTES

    def add(self, size: int) -> None:
        """Add to the used bytes; negative to subtract."""
        with self._lock:
            self.bytes += size


class Topic(Awaited):
    """The shared state of a topic's followers. Thread-safe.

    Everything up to `end` is durable. The latest part of that is kept, without gaps; the rest is in the log.
    """

    def __init__(self, name: str, budget: Budget) -> None:
        super().__init__()
        self.name = name
        self._budget = budget
        self.end = 0
        self.known = False
        """Whether `end` has been read from the log."""
        self.newest: Chunk | None = None
        """The last publication since the topic has followers."""
        self.begun: int | None = None
        """The cursor before the first publication since the topic has followers; None before that."""
        self._followers: set[FollowerPosition] = set()
        self._chunks: list[Chunk] = []
        self._firsts: list[int] = []
        self._events = 0
        self._bytes = 0

    @property
    def kept(self) -> tuple[int, int]:
        """The number of kept events, and their approximate size in bytes."""
        return self._events, self._bytes

    @property
    def is_followed(self) -> bool:
        """Whether it has followers."""
        return bool(self._followers)

    def acknowledge(self) -> None:
        """Acknowledge what its followers have handled."""
        with self.lock:
            followers = tuple(self._followers)
        for follower in followers:
            follower.acknowledge()

    def join(self, follower: FollowerPosition) -> None:
        """Add a follower, for which events are kept, within bounds."""
        with self.lock:
            self._followers.add(follower)

    def part(self, follower: FollowerPosition) -> None:
        """Remove the follower. Idempotent."""
        with self.lock:
            self._followers.discard(follower)

    def ends_at(self, end: int) -> None:
        """Record that the log has the topic's events up to `end`."""
        with self.lock:
            self.end = max(self.end, end)
            self.known = True

    def advance_to(self, first: int, end: int) -> Woken:
        """Record that these cursors can only be read from the log; return the waiters to wake."""
        with self.lock:
            if self.begun is None:
                self.begun = first - 1
            self.end = max(self.end, end)
            return self._wake()

    def append(self, chunk: Chunk) -> Woken:
        """Add a publication; return the waiters to wake."""
        with self.lock:
            if chunk.is_last or (self._chunks and chunk.first != self._chunks[-1].end + 1):
                self._drop_all()  # another writer appended, or the session was forgotten: read the log
            self.newest = chunk
            if self.begun is None:
                self.begun = chunk.first - 1
            self._chunks.append(chunk)
            self._firsts.append(chunk.first)
            self._events += len(chunk)
            self._bytes += chunk.size
            self._budget.add(chunk.size)
            self.end = max(self.end, chunk.end)
            if self._events > FEW_EVENTS + AT_ONCE // 2 or self._bytes > FEW_BYTES or self._budget.is_spent:
                self._trim()
            return self._wake()

    def since(self, cursor: int, at_once: int) -> list[Chunk] | None:
        """Return about `at_once` events after the cursor, in chunks of which the first holds the next event.

        Returns an empty list if there are none yet, None if they must be read from the log.
        """
        with self.lock:
            if cursor >= self.end:
                return []
            chunks = self._chunks
            if not chunks or cursor + 1 < self._firsts[0] or chunks[-1].end <= cursor:
                return None
            if cursor + 1 >= self._firsts[-1]:
                return chunks[-1:]
            start = bisect_right(self._firsts, cursor + 1) - 1
            return chunks[start : bisect_right(self._firsts, cursor + at_once, lo=start + 1)]

    def wait(self, waker: Waker, waiter: Waiter, cursor: int) -> bool:
        """Call the waiter when there is something after the cursor; return False if there is, or nothing will be."""
        with self.lock:
            is_behind = self.begun is not None if cursor == NOW else self.end > cursor
            if is_behind or self.closed:
                return False
            self._await(waker, waiter)
            return True

    def clear(self) -> None:
        """Drop all events, since there are no followers."""
        with self.lock:
            self._drop_all()
            self.newest = None

    def _trim(self) -> None:
        """Drop what exceeds the limits, and some of what all followers have had."""
        slowest = min((follower.ahead for follower in self._followers), default=self.end)
        most = 0 if self._budget.is_spent else MOST_BYTES
        chunks, events, size = self._chunks, self._events, self._bytes
        gone = 0
        while gone < len(chunks) - 1:
            chunk = chunks[gone]
            is_passed = gone < AT_ONCE and chunk.end <= slowest and (events > FEW_EVENTS or size > FEW_BYTES)
            if not is_passed and events <= MOST_EVENTS and size <= most:
                break
            events -= len(chunk.types)
            size -= chunk.size
            gone += 1
        if gone:
            self._budget.add(size - self._bytes)
            self._events, self._bytes = events, size
            del chunks[:gone], self._firsts[:gone]

    def _drop_all(self) -> None:
        self._budget.add(-self._bytes)
        self._events = self._bytes = 0
        self._chunks.clear()
        self._firsts.clear()


class Need(Enum):
    """What a follower needs to continue."""

    NOTHING = auto()
    LOG = auto()
    NEWS = auto()
    OVER = auto()


class FollowerPosition:
    """The position of one follower of a topic. Only `leave` is thread-safe.

    The topic refers to it until it has left. It leaves when its owner is garbage-collected; nothing else may refer to
    the owner.
    """

    __slots__ = (
        "_abandon",
        "_leave",
        "ahead",
        "consumer",
        "dealt_with",
        "has_left",
        "is_over",
        "pages",
        "session_id",
        "topic",
    )

    def __init__(
        self,
        topic: Topic,
        session_id: str,
        pages: Pages,
        leave: Callable[[FollowerPosition], None],
        abandon: Callable[[FollowerPosition], None],
    ) -> None:
        self.topic = topic
        self.session_id = session_id
        self.pages = pages
        """Reads the topic from the log."""
        self.ahead = 0
        """The cursor of the last event that was taken."""
        self.consumer: Consumer | None = None
        """The consumer for which events are acknowledged."""
        self.dealt_with = 0
        """The cursor up to which events are to be acknowledged automatically; 0 for none."""
        self.is_over = False
        """Whether nothing more can come: the session was deleted, and that event was taken."""
        self.has_left = False
        self._leave = leave
        self._abandon = abandon

    def belongs_to(self, owner: object) -> None:
        """Leave some time after the owner is garbage-collected."""
        # The garbage collector may run with any lock held, so nothing may be done here but to append a note.
        weakref.finalize(owner, self._abandon, self).atexit = False

    def look(self, at_once: int) -> tuple[Need, list[Chunk]]:
        """Return about `at_once` published events after the cursor, or else what is needed to continue."""
        closed = self.topic.closed  # read first: what was published before closing still counts
        if self.ahead == NOW:
            if self.topic.begun is None:
                return Need.OVER if closed else Need.NEWS, []
            self.ahead = self.topic.begun
        chunks = self.topic.since(self.ahead, at_once)
        if chunks is None:
            return Need.LOG, []
        if chunks:
            return Need.NOTHING, chunks
        return Need.OVER if closed or self.is_over else Need.NEWS, chunks

    def acknowledge(self) -> None:
        """Start to acknowledge what was handled; a failure is made up for later, or by `ack`."""
        consumer, cursor = self.consumer, self.dealt_with
        if consumer is not None and cursor > consumer.said:
            with contextlib.suppress(RuntimeClosedError, StorageError):  # the log is closed, or open for reading only
                consumer.send(cursor, log_unacknowledged)

    def leave(self) -> None:
        """Stop following the topic. Idempotent."""
        self._leave(self)
