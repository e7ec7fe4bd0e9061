"""What is published of all topics, and of none, for those who listen to everything from now on."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from typing import Final, Protocol

from reenact.actors.feed.topic import Chunk
from reenact.actors.feed.waking import Waiter, Waiting, Waker
from reenact.actors.journal.api import Publication
from reenact.domain.commands import CATALOGUE

MOST_EVENTS: Final = 8192
MOST_BYTES: Final = 16 * 1024 * 1024
"""What is kept at the most for listeners that lag."""
FEW: Final = 256
"""So many publications may be kept although all listeners have had them."""


class Hears(Protocol):
    """Who listens to everything."""

    place: int
    """The number of the next publication that it is to be given."""

    @property
    def is_behind(self) -> bool:
        """Whether it has missed something that has to come first."""
        ...

    def misses(self, chunk: Chunk) -> None:
        """Take note that this will not be given. Called on the thread that writes, under a lock."""
        ...


class Everything:
    """The newest publications, numbered. Thread-safe."""

    def __init__(self) -> None:
        self.closed = False
        self._listeners: tuple[Hears, ...] = ()
        self._lock = threading.Lock()
        self._chunks: list[Chunk] = []
        self._begin = 0
        self._events = 0
        self._bytes = 0
        self._look = FEW
        self._waiting = Waiting()

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    @property
    def kept(self) -> tuple[int, int]:
        """How many events are kept, and how many bytes they take, about."""
        return self._events, self._bytes

    def join(self, listener: Hears) -> None:
        """Let the listener have what is published from now on."""
        with self._lock:
            listener.place = self._begin + len(self._chunks)
            self._listeners = (*self._listeners, listener)

    def part(self, listener: Hears) -> None:
        """Let it have nothing more. Idempotent."""
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
            if not self._listeners:
                self._drop(len(self._chunks))

    def append(self, chunk: Chunk) -> Iterable[tuple[Waker, Collection[Waiter]]]:
        """Add a publication; return who is to be woken."""
        with self._lock:
            if not self._listeners:
                return ()
            self._chunks.append(chunk)
            self._events += len(chunk)
            self._bytes += chunk.size
            if len(self._chunks) > self._look or self._events > MOST_EVENTS or self._bytes > MOST_BYTES:
                self._trim()
            return self._waiting.take()

    def take(self, listener: Hears) -> Chunk | None:
        """Return the next publication, which the listener has had then; None if there is none, or it is behind."""
        with self._lock:
            index = listener.place - self._begin
            if index >= len(self._chunks) or listener.is_behind:
                return None
            listener.place += 1
            return self._chunks[index]

    def has(self, place: int) -> bool:
        """Return whether there is a publication of this number."""
        return self._begin + len(self._chunks) > place

    def wait(self, waker: Waker, waiter: Waiter, place: int) -> bool:
        """Have the waiter called when there is a publication of this number; False if there is, or none will be."""
        with self._lock:
            if self.has(place) or self.closed:
                return False
            self._waiting.add(waker, waiter)
            return True

    def forget(self, waker: Waker, waiter: Waiter) -> None:
        """Do not call the waiter any more."""
        with self._lock:
            self._waiting.discard(waker, waiter)

    def close(self) -> Iterable[tuple[Waker, Collection[Waiter]]]:
        """Let nothing more come; return who is to be woken."""
        with self._lock:
            self.closed = True
            return self._waiting.take()

    def _trim(self) -> None:
        slowest = min(listener.place for listener in self._listeners)
        self._drop(max(0, slowest - self._begin))
        gone, events, size = 0, self._events, self._bytes
        while gone < len(self._chunks) - 1 and (events > MOST_EVENTS or size > MOST_BYTES):
            events -= len(self._chunks[gone])
            size -= self._chunks[gone].size
            gone += 1
        end = self._begin + gone
        for listener in self._listeners:
            if listener.place < end:
                for chunk in self._chunks[max(0, listener.place - self._begin) : gone]:
                    listener.misses(chunk)
                listener.place = end
        self._drop(gone)
        self._look = max(FEW, 2 * len(self._chunks))

    def _drop(self, count: int) -> None:
        for chunk in self._chunks[:count]:
            self._events -= len(chunk)
            self._bytes -= chunk.size
        del self._chunks[:count]
        self._begin += count


def is_told(publication: Publication) -> bool:
    """Return whether those who listen hear of it: all do but of commands, which are between two."""
    kind = CATALOGUE.get(publication.segment.entries[0].type)
    return kind is not None and kind.category != "command"
