"""Compacts feeds: replaces the deltas of finished turns by `deltas_compacted` events, and many rows by few."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import msgspec

from reenact.actors.feed.replay import Log, end_of, last_of, numbered
from reenact.actors.journal.api import Entry, FeedRow, Segment
from reenact.domain.errors import LogUnusableError, ShardMovedError, reading
from reenact.domain.stream.events import DeltasCompacted, InputJsonDelta, TextDelta, ThinkingDelta, TurnCompleted

MOST_ENTRIES = 1000
MOST_BYTES = 256 * 1024
"""The approximate limits of a row that replaces others."""
REMEMBERED = 10_000
"""For how many topics the cursor reached by compaction is cached."""
PAGE = 256

_DELTAS = frozenset(kind.event_type for kind in (TextDelta, ThinkingDelta, InputJsonDelta))
_COMPACTED = DeltasCompacted.event_type
_COMPLETED = TurnCompleted.event_type
_measure = msgspec.msgpack.Encoder().encode
_logger = logging.getLogger("reenact.feed")


class Compaction:
    """Compacts the feeds of a log, oldest rows first.

    Rows written after a row that is too young count as too young as well, whatever their times say. Used by one thread
    at a time.
    """

    def __init__(
        self,
        journal: Log,
        is_over: Callable[[], bool],
        replaced: Callable[[str], None] | None = None,
        is_here: Callable[[str], bool] | None = None,
    ) -> None:
        """Compact until `is_over` returns True; `replaced` is called with each topic that has changed.

        `is_here` returns whether this node may write a topic, since the log has other nodes; None: it may write all.
        """
        self._journal = journal
        self._replaced = replaced
        self._is_over = is_over
        self._is_here = is_here
        self._starts_over = False
        self._place = 0
        self._done: dict[str, int] = {}
        self._unfinished: set[str] = set()

    def take_up(self) -> None:
        """Start again from the first row next time, since this node has taken over topics; called from any thread."""
        self._starts_over = True

    def compact(self, *, before: int) -> int:
        """Compact the deltas of turns that ended before that time; return how many deltas were removed.

        Raises:
            StorageError: the log cannot be read or written.
            RuntimeClosedError: the log is closed.
        """
        count = 0
        if self._starts_over:
            self._starts_over = False
            self._place = 0
        for topic in tuple(self._unfinished):
            count += self._compact_here(topic, before)
        while not self._is_over() and (topics := self._old_topics(before)):
            self._unfinished.update(topics)
            for topic in topics:
                count += self._compact_here(topic, before)
        return count

    def _old_topics(self, before: int) -> dict[str, None]:
        """Return the topics of the next rows that are old enough."""
        topics: dict[str, None] = {}
        for place, topic, at in self._journal.stale_feeds(after=self._place, limit=PAGE):
            if at >= before:
                break
            self._place = place
            topics[topic] = None
        return topics

    def _compact_here(self, topic: str, before: int) -> int:
        """Compact the topic if this node may write it; otherwise it is found again when the node takes it over."""
        if self._is_here is None or self._is_here(topic):
            try:
                return self._compact(topic, before)
            except ShardMovedError:
                pass  # another node has taken it over meanwhile
        self._unfinished.discard(topic)
        return 0

    def _compact(self, topic: str, before: int) -> int:
        """Compact the old rows of a topic, as far as its turns are finished."""
        count = 0
        end = self._done.pop(topic, 0)
        merged = Merged()
        pending: list[FeedRow] = []
        waited_for: set[str] = set()
        for row in self._old_rows(topic, end, before):
            pending.append(row)
            with reading(f"row {row.first_cursor} of the feed of {topic!r}"):
                for segment in row.segments:
                    waited_for |= {_turn_of(segment) for entry in segment.entries if entry.type in _DELTAS}
                    waited_for -= {
                        msgspec.convert(entry.data, TurnCompleted).turn_id
                        for entry in segment.entries
                        if entry.type == _COMPLETED
                    }
            if waited_for:
                continue
            for finished in pending:
                if merged.is_full or _is_compacted(finished):
                    count += self._write(topic, merged)
                    merged = Merged()
                if not _is_compacted(finished):
                    merged.add(finished)
                if finished.has_events:  # events stay in their row, and no later entries may be moved into it
                    count += self._write(topic, merged)
                    merged = Merged()
            end = end_of(row, end)
            pending = []
        count += self._write(topic, merged)
        if not pending:
            self._unfinished.discard(topic)
        self._cache_cursor(topic, end)
        return count

    def _old_rows(self, topic: str, after: int, before: int) -> Iterator[FeedRow]:
        while not self._is_over():
            rows = self._journal.read_feed(topic, after=after, limit=PAGE)
            for row in rows:
                if last_of(row).at >= before:
                    return
                after = end_of(row, after)
                yield row
            if not rows:
                return

    def _cache_cursor(self, topic: str, cursor: int) -> None:
        self._done[topic] = cursor
        if len(self._done) > REMEMBERED:
            del self._done[next(iter(self._done))]

    def _write(self, topic: str, merged: Merged) -> int:
        if not merged.dropped:
            return 0
        try:
            self._journal.replace_feed(topic, merged.first, merged.last, merged.segments())
        except ValueError:  # another process that shares the log was faster, or rows overlap
            return 0
        except LogUnusableError:
            _logger.exception("%s stays as it is: some of it is not as it was written", topic)
            return 0
        if self._replaced is not None:
            self._replaced(topic)
        return merged.dropped


class Merged:
    """Consecutive rows merged into one, without their deltas."""

    def __init__(self) -> None:
        self.first = self.last = 0
        self.dropped = 0
        """How many deltas have been removed."""
        self._segments: list[tuple[dict[str, str], list[Entry]]] = []
        self._count = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the merged row has reached its limits."""
        return self._count >= MOST_ENTRIES or self._bytes >= MOST_BYTES

    def add(self, row: FeedRow) -> None:
        """Add the next row; entries that are derived from its events stay as they are."""
        if not self._segments:
            self.first = row.first_cursor
        self.last = end_of(row, row.first_cursor - 1)
        for cursor, segment, entry in numbered(msgspec.structs.replace(row, segments=row.stored)):
            if not self._segments or self._segments[-1][0] != segment.context:
                self._segments.append((segment.context, []))
            _, entries = self._segments[-1]
            if entry.type in _DELTAS:
                self.dropped += 1
                begin = cursor
                if entries and isinstance(gap := entries[-1].data, DeltasCompacted):
                    begin = gap.first_cursor
                    entries.pop()
                    self._count -= 1
                entries.append(Entry(_COMPACTED, entry.at, DeltasCompacted(first_cursor=begin, last_cursor=cursor)))
            else:
                self._bytes += len(_measure(entry))
                entries.append(entry)
            self._count += 1

    def segments(self) -> list[Segment]:
        """Return the segments of the new row."""
        return [Segment(context, tuple(entries)) for context, entries in self._segments]


def _is_compacted(row: FeedRow) -> bool:
    return any(entry.type == _COMPACTED for segment in row.segments for entry in segment.entries)


def _turn_of(segment: Segment) -> str:
    return segment.context.get("turn_id", "")
