"""The line: what is published of all topics and of none, in one order, for handlers and for listeners to everything.

A publication is appended on the thread that publishes it; whoever follows stands at a node and goes on to the next, on
a thread or an event loop of its own. What all have passed is garbage. Handlers are given everything, however late they
are. Listeners, which may be clients that read nothing, are pushed on when they lag too far behind.
"""

from __future__ import annotations

from typing import Final, Protocol

from reenact.actors.feed.topic import Chunk
from reenact.actors.feed.waking import Awaited, Waiter, Waker, Woken
from reenact.actors.journal.api import Publication, Segment

MOST_EVENTS: Final = 8192
MOST_BYTES: Final = 16 * 1024 * 1024
"""What is kept at the most for listeners that lag."""


class Node:
    """One publication of the line, and the next. Events are numbered from 0 since the line began."""

    __slots__ = ("begin", "chunk", "end", "next", "size")

    def __init__(self, chunk: Chunk, begin: int, size: int) -> None:
        self.chunk = chunk
        self.begin = begin
        self.end = begin + len(chunk.types)
        self.size = size
        """About how many bytes the line has had up to its end, as far as somebody listened."""
        self.next: Node | None = None


class Hears(Protocol):
    """Who listens to everything."""

    place: Node
    """The last publication that it was given, or has missed."""
    types: frozenset[str]
    """The events that it wants."""

    @property
    def is_behind(self) -> bool:
        """Whether it has missed something that has to come first."""
        ...

    def misses(self, chunk: Chunk) -> None:
        """Take note that this will not be given. Called on the thread that writes, under a lock."""
        ...


class Line(Awaited):
    """Publications in one order, as far as somebody wants them. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self.tail = Node(Chunk(Publication(None, None, Segment({}, ())), str), 0, 0)
        self.handled: frozenset[str] = frozenset()
        """The types of events that handlers want."""
        self.reached = 0
        """Up to which event handlers have had all."""
        self._heard: frozenset[str] = frozenset()
        self._listeners: tuple[Hears, ...] = ()
        self._turn = 0

    @property
    def is_followed(self) -> bool:
        """Whether anybody wants anything."""
        return bool(self.handled or self._heard)

    def wants(self, chunk: Chunk) -> bool:
        """Return whether anybody wants it, or may: a handler can ask for what comes behind its event."""
        if self.handled and self.reached < self.tail.end:
            return True
        return not (self.handled.isdisjoint(chunk.types) and self._heard.isdisjoint(chunk.types))

    def append(self, chunk: Chunk) -> Woken:
        """Add a publication; return who is to be woken."""
        with self.lock:
            if self.closed:
                return ()
            tail = self.tail
            node = Node(chunk, tail.end, tail.size + chunk.size if self._listeners else tail.size)
            tail.next = self.tail = node
            if self._listeners:
                self._turn = (self._turn + 1) % len(self._listeners)
                self._push_on(self._listeners[self._turn])
            return self._wake()

    def join(self, listener: Hears) -> None:
        """Let the listener have what is published from now on."""
        with self.lock:
            listener.place = self.tail
            self._listen((*self._listeners, listener))

    def part(self, listener: Hears) -> None:
        """Let it have nothing more. Idempotent."""
        with self.lock:
            listener.place = self.tail
            self._listen(tuple(other for other in self._listeners if other is not listener))

    def take(self, listener: Hears) -> Chunk | None:
        """Return the next publication, which the listener has had then; None if there is none, or it is behind."""
        with self.lock:
            following = listener.place.next
            if following is None or listener.is_behind:
                return None
            listener.place = following
            return following.chunk

    def wait(self, waker: Waker, waiter: Waiter, place: Node) -> bool:
        """Have the waiter called when something comes behind the place; False if something has, or nothing will."""
        with self.lock:
            if place.next is not None or self.closed:
                return False
            self._await(waker, waiter)
            return True

    def _listen(self, listeners: tuple[Hears, ...]) -> None:
        self._listeners = listeners
        self._heard = frozenset[str]().union(*(listener.types for listener in listeners))

    def _push_on(self, listener: Hears) -> None:
        """Let a listener that is too far behind miss the oldest; they are looked at in turns."""
        tail = self.tail
        while tail.end - listener.place.end > MOST_EVENTS or tail.size - listener.place.size > MOST_BYTES:
            missed = listener.place.next
            if missed is None or missed is tail:
                break
            listener.misses(missed.chunk)
            listener.place = missed
