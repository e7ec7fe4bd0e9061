"""The log of publications: all that is published, in one order, with its listeners.

A publication is appended on the thread that publishes it. A follower holds a node and moves on to the next one, on its
own thread or event loop; nodes that all have passed are garbage. Handlers get everything, however late they are.
Listeners, which may be clients that read nothing, are moved on when they lag too far behind.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from itertools import islice
from typing import NamedTuple, TypeAlias

from reenact.actors.feed.replay import Pages, Replay, fitting
from reenact.actors.feed.topic import Chunk, Need
from reenact.actors.feed.waking import Awaited, Waiter, Waker, Woken
from reenact.actors.journal.api import Publication, Segment
from reenact.domain.operations.table import CATALOGUE

MOST_EVENTS = 8192
MOST_BYTES = 16 * 1024 * 1024
"""The most that is kept for listeners that lag."""
MOST_RUNS = 64
"""How many runs are kept."""
LISTENED_TO = frozenset(type_ for type_, kind in CATALOGUE.items() if kind.category != "command")
"""The events that listeners may get: all but commands, which are between a client and the server."""


class Node:
    """One publication, with a link to the next. Events are numbered from 0, in the order of publication."""

    __slots__ = ("__weakref__", "begin", "chunk", "end", "next", "size")

    def __init__(self, chunk: Chunk, begin: int, size: int) -> None:
        self.chunk = chunk
        self.begin = begin
        self.end = begin + len(chunk.types)
        self.size = size
        """About how many bytes were published up to its end while there were listeners."""
        self.next: Node | None = None


class Run(NamedTuple):
    """Events that a listener wants, one after the other: the last publication, the JSON, its size in bytes."""

    end: weakref.ref[Node]  # a node would keep everything published after it in memory
    lines: list[bytes]
    size: int


_Key: TypeAlias = tuple[int, frozenset[str], frozenset[str] | None]


class PublicationLog(Awaited):
    """Publications in one order, as far as handlers or listeners need them. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self.tail = Node(Chunk(Publication(None, None, Segment({}, ())), str), 0, 0)
        self.handled: frozenset[str] = frozenset()
        """The types of events for which there are handlers."""
        self._handled_of: frozenset[str] | None = frozenset()
        self.reached = 0
        """The number of events that have been passed to all handlers."""
        self._listened_to: frozenset[str] = frozenset()
        self._listeners: tuple[Listener, ...] = ()
        self._turn = 0
        self._runs: OrderedDict[_Key, Run] = OrderedDict()
        """The latest runs by the end of the node before, the types and the topics; those who keep up share them."""

    @property
    def is_followed(self) -> bool:
        """Whether there are handlers or listeners."""
        return bool(self.handled or self._listened_to)

    @property
    def topics(self) -> frozenset[str] | None:
        """The topics with handlers or listeners; None if some are for all topics."""
        with self.lock:
            wanted = [self._handled_of, *(listener.topics for listener in self._listeners)]
        found = [topics for topics in wanted if topics is not None]
        return frozenset[str]().union(*found) if len(found) == len(wanted) else None

    def handle(self, types: frozenset[str], topics: frozenset[str] | None) -> None:
        """Set the event types and the topics that handlers need; None means all topics. Called under the lock."""
        self.handled, self._handled_of = types, topics

    def wants(self, chunk: Chunk) -> bool:
        """Return whether the chunk is needed, or may be: a handler can register another for the following events."""
        if self.handled and self.reached < self.tail.end:
            return True
        return not (self.handled.isdisjoint(chunk.types) and self._listened_to.isdisjoint(chunk.types))

    def append(self, chunk: Chunk) -> Woken:
        """Add a publication; return the waiters to wake."""
        with self.lock:
            if self.closed:
                return ()
            tail = self.tail
            node = Node(chunk, tail.end, tail.size + chunk.size if self._listeners else tail.size)
            tail.next = self.tail = node
            if self._listeners:
                self._turn = (self._turn + 1) % len(self._listeners)
                self._skip_if_lagging(self._listeners[self._turn])
            return self._wake()

    def join(self, listener: Listener) -> None:
        """Give the listener everything published from now on."""
        with self.lock:
            listener.node = self.tail
            self._set_listeners((*self._listeners, listener))

    def part(self, listener: Listener) -> None:
        """Remove the listener. Idempotent."""
        with self.lock:
            listener.node = self.tail
            self._set_listeners(tuple(other for other in self._listeners if other is not listener))

    def run_after(
        self, node: Node, types: frozenset[str], topics: frozenset[str] | None, room: int
    ) -> tuple[Node, list[bytes]]:
        """Return the next events of these types and topics, at most `room` bytes, and the node with the last of them.

        A single publication may be larger. The caller must not change the lines.
        """
        key = node.end, types, topics
        run = self._runs.get(key)
        end = None if run is None or run.size > room else run.end()
        if run is not None and end is not None:
            return end, run.lines
        lines: list[bytes] = []
        size = 0
        while (following := node.next) is not None:
            more = _wanted_lines(following.chunk, types, topics)
            if lines and size + sum(map(len, more)) > room:
                break
            node = following
            lines += more
            size += sum(map(len, more))
        if size <= room:
            with self.lock:
                self._runs[key] = Run(weakref.ref(node), lines, size)
                if len(self._runs) > MOST_RUNS:
                    self._runs.popitem(last=False)
        return node, lines

    def move(self, listener: Listener, begin: Node, end: Node) -> bool:
        """Move the listener from one node to another; return False if it must catch up, or was moved past the first."""
        with self.lock:
            if listener.node is not begin or listener.is_behind:
                return False
            listener.node = end
            return True

    def wait(self, waker: Waker, waiter: Waiter, node: Node) -> bool:
        """Call the waiter when something follows the node; return False if something does already, or nothing will."""
        with self.lock:
            if node.next is not None or self.closed:
                return False
            self._await(waker, waiter)
            return True

    def _set_listeners(self, listeners: tuple[Listener, ...]) -> None:
        self._listeners = listeners
        self._listened_to = frozenset[str]().union(*(listener.types for listener in listeners))

    def _skip_if_lagging(self, listener: Listener) -> None:
        """Move a listener that is too far behind past the oldest publications; one listener is checked each time."""
        tail = self.tail
        while tail.end - listener.node.end > MOST_EVENTS or tail.size - listener.node.size > MOST_BYTES:
            missed = listener.node.next
            if missed is None or missed is tail:
                break
            listener.misses(missed.chunk)
            listener.node = missed


class Listener:
    """A subscription to everything: events of these types, or all, of these topics, or of everything.

    If it lags so far behind that its next events are no longer kept, it reads the log: then each session's events come
    in order, but no longer in the order between sessions. Events of no session are not in the log; a listener that has
    missed such an event ends, because it is `lagging`.
    """

    def __init__(
        self,
        log: PublicationLog,
        types: frozenset[str] | None,
        replay: Replay,
        topics: frozenset[str] | None = None,
    ) -> None:
        self.node = log.tail
        """The last publication that it was given, or has missed. Protected by the lock of the log."""
        self.types = LISTENED_TO if types is None else LISTENED_TO & types
        self.topics = topics
        """The topics of its events; None for everything."""
        self.source = log
        self._replay = replay
        self._lock = threading.Lock()
        self._behind: dict[str, tuple[int, int]] = {}
        self._delivered_to: dict[str, int] = {}
        self._has_lost_events = False
        self.is_cut_short = False
        self._reading: tuple[str, Pages] | None = None
        self._page: list[bytes] = []
        self._given = 0

    def begin(self, behind: dict[str, tuple[int, int]]) -> None:
        """First give the events of these topics between two cursors, the second included; it is already listening."""
        with self._lock:
            self._delivered_to = {topic: end for topic, (_, end) in behind.items()}
            for topic, (after, end) in behind.items():
                if not self._wants_topic(topic):
                    continue
                _, until = self._behind.get(topic, (0, 0))
                if max(end, until) > after:
                    self._behind[topic] = (after, max(end, until))

    def misses(self, chunk: Chunk) -> None:
        """Record that this publication was missed, so that it must be read from the log."""
        topic = chunk.publication.topic
        if not self._wants_topic(topic):
            return
        with self._lock:
            if topic is None:
                self._has_lost_events = self._has_lost_events or not self.types.isdisjoint(chunk.types)
                return
            had = self._delivered_to.get(topic, 0)
            if chunk.end > had:
                after, _ = self._behind.get(topic, (max(chunk.first - 1, had), 0))
                self._behind[topic] = (after, chunk.end)

    @property
    def is_behind(self) -> bool:
        """Whether something must be read from the log first, or is lost."""
        return bool(self._behind) or self._has_lost_events

    @property
    def holds_page(self) -> bool:
        return self._given < len(self._page)

    def give(self, room: int) -> tuple[list[bytes], bool]:
        """Return the next events, and whether these were all."""
        given: list[bytes] = []
        while room > 0:
            lines = self._from_page(room) if self.holds_page else self._next_published(room)
            if lines is None:
                break
            given += lines
            room -= sum(map(len, lines))
        return given, not (self.holds_page or self.is_behind or self.is_cut_short or self.source.closed) and (
            self.node.next is None
        )

    def need(self) -> Need:
        if self.holds_page:
            return Need.NOTHING
        closed = self.source.closed
        if self._has_lost_events or self.is_cut_short:
            return Need.OVER
        if self._behind:
            return Need.LOG
        if self.node.next is not None:
            return Need.NOTHING
        return Need.OVER if closed else Need.NEWS

    def load(self) -> None:
        with self._lock:
            topic = next(iter(self._behind))
            after, until = self._behind[topic]
        if self._reading is None or self._reading[0] != topic:
            self._reading = (topic, Pages(self._replay, topic))
        page, start = self._reading[1].read(after)
        of_page = islice(zip(page.envelopes, page.encoded(), strict=True), start, page.behind(until))
        self._page = [line for envelope, line in of_page if envelope.type in self.types]
        self._given = 0
        end = min(page.last, until)
        with self._lock:
            _, until = self._behind.pop(topic)  # it may have missed more meanwhile
            if end < until:
                self._behind[topic] = (end, until)

    def reason(self) -> str:
        return "lagging" if self._has_lost_events else "closed"

    def leave(self) -> None:
        self._page = []
        self._given = 0
        self.source.part(self)

    def _wants_topic(self, topic: str | None) -> bool:
        return self.topics is None or topic in self.topics

    def _from_page(self, room: int) -> list[bytes]:
        given = fitting(self._page, self._given, room)
        self._given += len(given)
        if not self.holds_page:
            self._page, self._given = [], 0
        return given

    def _next_published(self, room: int) -> list[bytes] | None:
        """Return wanted events of the next publications; None if there are none, or the log must be read first."""
        begin = self.node
        if begin.next is None:
            return None
        if self._delivered_to:
            return self._new_lines(begin, begin.next)
        end, lines = self.source.run_after(begin, self.types, self.topics, room)
        return lines if self.source.move(self, begin, end) else None

    def _new_lines(self, begin: Node, node: Node) -> list[bytes] | None:
        """Return the events of one publication, without those that were read from the log when it began to listen."""
        if not self.source.move(self, begin, node):
            return None
        chunk, topic = node.chunk, node.chunk.publication.topic
        had = 0
        if topic is not None:
            had = max(0, self._delivered_to.get(topic, 0) + 1 - chunk.first)
            if had <= len(chunk):  # all that comes now is new
                self._delivered_to.pop(topic, None)
        return _wanted_lines(chunk, self.types, self.topics, had)


def _wanted_lines(chunk: Chunk, types: frozenset[str], topics: frozenset[str] | None, had: int = 0) -> list[bytes]:
    """Return the publication's events of these types and topics as JSON, without the first `had` events."""
    if types.isdisjoint(chunk.types) or not (topics is None or chunk.publication.topic in topics):
        return []
    return [line for type_, line in islice(zip(chunk.types, chunk.encoded(), strict=True), had, None) if type_ in types]
