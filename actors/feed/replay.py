"""The rows of a feed as events under their cursors, also of what was compacted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import msgspec

from reenact.actors.bus import enveloped
from reenact.actors.journal.api import Entry, FeedJournal, FeedRow, Segment
from reenact.domain.errors import LogUnusableError
from reenact.domain.events import Context, DeltasCompacted, Envelope, SessionDeleted

FIRST_ROWS: Final = 16
MOST_ROWS: Final = 256
ENOUGH_BYTES: Final = 64 * 1024
"""How many rows are read at a time: at first, and at the most; and what they ought to take in the log."""

_COMPACTED: Final = DeltasCompacted.event_type
_measure = msgspec.msgpack.Encoder().encode


class Log(FeedJournal, Protocol):
    """What is asked of the journal."""

    def read_feed(self, topic: str, *, after: int = 0, limit: int = 1000) -> list[FeedRow]:
        """See `Journal.read_feed`."""
        ...

    def read_feed_backwards(self, topic: str) -> Iterator[FeedRow]:
        """See `Journal.read_feed_backwards`."""
        ...


def numbered(row: FeedRow) -> Iterator[tuple[int, Segment, Entry]]:
    """Yield each entry of a row with its cursor and segment; what stands for a gap has the last cursor of that."""
    cursor = row.first_cursor
    for segment in row.segments:
        for entry in segment.entries:
            if entry.type == _COMPACTED:
                cursor = entry.data["last_cursor"]
            yield cursor, segment, entry
            cursor += 1


def opened(rows: Iterable[FeedRow], after: int, new_id: Callable[[str], str]) -> Iterator[Envelope]:
    """Yield the events of rows that follow each other, from behind a cursor on."""
    of: Segment | None = None
    context = Context()
    for row in rows:
        for cursor, segment, entry in numbered(row):
            if cursor <= after:
                continue
            if segment is not of:
                of, context = segment, Context(**segment.context)
            yield enveloped(entry, context, row.topic, cursor, new_id)


class Pages:
    """Reads a topic page by page; pages have as many rows as fit a size, by the page before."""

    def __init__(self, journal: Log, topic: str, new_id: Callable[[str], str]) -> None:
        self._journal = journal
        self._topic = topic
        self._new_id = new_id
        self._rows = FIRST_ROWS

    def read(self, after: int) -> list[Envelope]:
        """Return the next events behind the cursor, of which there must be some.

        Raises:
            StorageError: the log cannot be read.
            LogUnusableError: it lacks the next event.
            RuntimeClosedError: the log is closed.
        """
        rows = self._journal.read_feed(self._topic, after=after, limit=self._rows)
        if not rows or rows[0].first_cursor > after + 1:
            message = (
                f"the feed of {self._topic!r} lacks the event {after + 1}; verify the log, and restore a copy of it"
            )
            raise LogUnusableError(message)
        size = sum(len(_measure(row.segments)) for row in rows)
        fitting = len(rows) * ENOUGH_BYTES // max(size, 1)
        self._rows = max(1, min(fitting, 2 * self._rows, MOST_ROWS))
        return list(opened(rows, after, self._new_id))


def is_deleted(journal: Log, topic: str) -> bool:
    """Return whether the topic's last event says that its session is no more."""
    for row in journal.read_feed_backwards(topic):
        return row.segments[-1].entries[-1].type == SessionDeleted.event_type
    return False
