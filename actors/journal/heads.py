"""Where each stream and each topic ends: remembered for those written last, read from the log for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from reenact.actors.journal.chain import FEED_GENESIS, STREAM_GENESIS
from reenact.actors.journal.requests import Request, streams_of, topics_of
from reenact.actors.journal.store import End, Store

Head: TypeAlias = tuple[int, bytes]
"""The last version of a stream, or the last cursor of a topic, and the digest of the record that holds it."""


class Heads:
    """The ends of all streams and topics, as they are within the open transaction of the store."""

    def __init__(self, store: Store, limit: int) -> None:
        """Remember at least the `limit` streams that were written last, at most twice as many, and topics likewise."""
        self._requests: Sequence[Request] = ()
        self.streams = Ends(store.stream_ends, lambda: streams_of(self._requests), (0, STREAM_GENESIS), limit)
        self.topics = Ends(store.feed_ends, lambda: topics_of(self._requests), (0, FEED_GENESIS), limit)

    def expect(self, requests: Sequence[Request]) -> None:
        """Prepare for these requests: what must be read for one of them is read for all at once."""
        self._requests = requests

    def forget(self) -> None:
        """Trust nothing that is remembered: a transaction was rolled back, or somebody else has written."""
        self.streams.forget()
        self.topics.forget()

    def trim(self) -> None:
        """Forget what was used least recently, down to the limit, and the requests; only between transactions."""
        self._requests = ()
        self.streams.trim()
        self.topics.trim()


class Ends:
    """Ends by their names, in two generations: the younger one, once it is full, takes the place of the older one."""

    def __init__(
        self,
        read: Callable[[Sequence[str]], Iterable[End]],
        expected: Callable[[], Iterable[str]],
        beginning: Head,
        limit: int,
    ) -> None:
        """Read ends with `read`, those that are `expected` together; what it does not find is at its `beginning`."""
        self._read = read
        self._expected = expected
        self._beginning = beginning
        self._limit = limit
        self._recent: dict[str, Head] = {}
        self._older: dict[str, Head] = {}

    def get(self, name: str) -> Head:
        """Return the end of the stream or topic."""
        return self._recent.get(name) or self._older.get(name) or self._find(name)

    def move(self, name: str, head: Head) -> None:
        """Remember that the stream or topic now ends there."""
        self._recent[name] = head

    def forget(self) -> None:
        """Remember nothing."""
        self._recent.clear()
        self._older.clear()

    def trim(self) -> None:
        """Begin a new generation once the younger one is full."""
        if len(self._recent) > self._limit:
            self._recent, self._older = {}, self._recent

    def _find(self, name: str) -> Head:
        unknown = {other for other in self._expected() if other not in self._recent and other not in self._older}
        unknown.add(name)
        self._recent |= dict.fromkeys(unknown, self._beginning)
        for found, last, digest in self._read(list(unknown)):
            self._recent[found] = (last, digest)
        return self._recent[name]
