"""Where each stream ends: remembered for those written last, read from the log for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from reenact.actors.journal.chain import GENESIS
from reenact.actors.journal.requests import Request, streams_of
from reenact.actors.journal.store import Store

Head: TypeAlias = tuple[int, int, bytes]
"""The version of a stream's last event, -1 if it has none, its last cursor, and the digest of its last row."""

_BEGINNING: Final[Head] = (-1, 0, GENESIS)


class Heads:
    """The ends of all streams, as they are within the open transaction of the store.

    They are in two generations: the younger one, once it is full, takes the place of the older one.
    """

    def __init__(self, store: Store, limit: int) -> None:
        """Remember at least the `limit` streams that were written last, at most twice as many."""
        self._store = store
        self._limit = limit
        self._requests: Sequence[Request] = ()
        self._recent: dict[str, Head] = {}
        self._older: dict[str, Head] = {}

    def get(self, stream: str) -> Head:
        """Return the end of the stream."""
        return self._recent.get(stream) or self._older.get(stream) or self._find(stream)

    def move(self, stream: str, head: Head) -> None:
        """Remember that the stream now ends there."""
        self._recent[stream] = head

    def expect(self, requests: Sequence[Request]) -> None:
        """Prepare for these requests: what must be read for one of them is read for all at once."""
        self._requests = requests

    def forget(self) -> None:
        """Trust nothing that is remembered: a transaction was rolled back, or somebody else has written."""
        self._recent.clear()
        self._older.clear()

    def trim(self) -> None:
        """Forget what was used least recently, down to the limit, and the requests; only between transactions."""
        self._requests = ()
        if len(self._recent) > self._limit:
            self._recent, self._older = {}, self._recent

    def _find(self, stream: str) -> Head:
        expected = streams_of(self._requests)
        unknown = {each for each in expected if each not in self._recent and each not in self._older}
        unknown.add(stream)
        self._recent |= dict.fromkeys(unknown, _BEGINNING)
        for found, version, cursor, digest in self._store.stream_ends(list(unknown)):
            self._recent[found] = (version, cursor, digest)
        return self._recent[stream]
