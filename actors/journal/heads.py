"""The ends of streams: cached for recently written ones, otherwise read from the log.

Rows imported from another log must continue these ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from reenact.actors.journal.requests import Request, RowImport, streams_of
from reenact.actors.journal.store import Store
from reenact.domain.chain import BEGINNING, End
from reenact.domain.errors import ConflictError, LogUnusableError, StorageError


class Heads:
    """The ends of all streams, as seen in the open transaction of the store.

    They are cached in two generations: when the younger one is full, it replaces the older one.
    """

    def __init__(self, store: Store, limit: int) -> None:
        """Cache at least the `limit` most recently written streams, and at most twice as many."""
        self._store = store
        self._limit = limit
        self._requests: Sequence[Request] = ()
        self._recent: dict[str, End] = {}
        self._older: dict[str, End] = {}
        self.told: dict[str, End] = {}
        """The stream ends that were requested for the current batch, if the class records them."""

    def get(self, stream: str) -> End:
        """Return the end of the stream."""
        return self._recent.get(stream) or self._older.get(stream) or self._read_ends(stream)

    def move(self, stream: str, head: End) -> None:
        """Record that the stream now ends here."""
        self._recent[stream] = head

    def expect(self, requests: Sequence[Request]) -> None:
        """Prepare for these requests: the ends of all their streams are read together when the first is needed."""
        self._requests = requests

    def forget(self) -> None:
        """Drop the cache, because a transaction was rolled back or another process has written."""
        self._recent.clear()
        self._older.clear()

    def trim(self) -> None:
        """Drop the least recently used ends, down to the limit, and the requests; only between transactions."""
        self._requests = ()
        if len(self._recent) > self._limit:
            self._recent, self._older = {}, self._recent

    def _read_ends(self, stream: str) -> End:
        expected = streams_of(self._requests)
        unknown = {each for each in expected if each not in self._recent and each not in self._older}
        unknown.add(stream)
        self._recent |= dict.fromkeys(unknown, BEGINNING)
        self._recent.update(self._store.stream_ends(list(unknown)))
        return self._recent[stream]


class CheckedHeads(Heads):
    """Records the ends it has returned, so that the store can check whether they still hold at commit."""

    def get(self, stream: str) -> End:
        """Return the end of the stream."""
        end = super().get(stream)
        self.told.setdefault(stream, end)  # the first answer, not where the stream has moved since
        return end

    def expect(self, requests: Sequence[Request]) -> None:
        """Prepare for these requests."""
        super().expect(requests)
        self.told = {}


def refusal_of(intake: RowImport, heads: Heads) -> StorageError | None:
    """Return why the rows cannot be imported, or None; all rows are checked before any is imported."""
    ends: dict[str, End] = {}
    for row in intake.rows:
        end = ends.get(row.stream) or heads.get(row.stream)
        missing = row.missing(end)
        if missing is not None:
            kind, expected = missing
            return ConflictError(row.stream, (row.version if kind == "version" else row.cursor) - 1, expected - 1)
        if not row.follows(end[2]):
            what = f"event {row.version}" if row.count else "a row of the feed"
            message = f"{what} of {row.stream!r} does not follow what the log holds"
            return LogUnusableError(f"{message}; verify the log that it comes from, and this one")
        ends[row.stream] = row.end(end)
    return None
