"""Where each stream ends: remembered for those written last, read from the log for the others.

Rows of another log that are taken in must continue these ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from reenact.actors.journal.requests import Intake, Request, streams_of
from reenact.actors.journal.store import Store
from reenact.domain.chain import GENESIS, Row
from reenact.domain.errors import ConflictError, LogUnusableError, StorageError

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


def refusal_of(intake: Intake, heads: Heads) -> StorageError | None:
    """Return what forbids the rows; all of them are looked at before any is taken in."""
    ends: dict[str, Head] = {}
    for row in intake.rows:
        end = ends.get(row.stream) or heads.get(row.stream)
        version, cursor, digest = end
        # A stream that another library has begun may start at 0.
        if row.version is not None and row.version != version + 1 and (version, row.version) != (-1, 1):
            return ConflictError(row.stream, row.version - 1, max(0, version))
        if row.cursor is not None and row.cursor != cursor + 1:
            return ConflictError(row.stream, row.cursor - 1, cursor)
        if not row.follows(digest):
            what = "a row of the feed" if row.version is None else f"event {row.version}"
            message = f"{what} of {row.stream!r} does not follow what the log holds"
            return LogUnusableError(f"{message}; verify where it comes from, and where it goes")
        ends[row.stream] = end_of(row, end)
    return None


def end_of(row: Row, before: Head) -> Head:
    """Return where a stream ends with the row, which comes behind that end."""
    version, cursor = row.last_version, row.last_cursor
    return before[0] if version is None else version, before[1] if cursor is None else cursor, row.digest
