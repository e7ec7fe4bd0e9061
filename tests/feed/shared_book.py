"""A log as a list that several nodes write, for tests without threads: what a node has written it hears of later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence

import msgspec

from reenact.actors.feed.hub import Feed
from reenact.actors.feed.tail import Tail
from reenact.actors.journal.api import FeedRow, Publication, Publisher, Recorded, Segment, WrittenRow
from reenact.domain.errors import LogUnusableError, StorageError
from reenact.domain.stream.events import EventData
from tests.feed.book import Book, last_of


class SharedBook(Book):
    """Feeds as lists of rows, which have numbers besides."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[WrittenRow] = []
        self.end = 0
        self.nodes: list[SharedNode] = []

    def append(self, session_id: str, segment: Segment) -> None:
        super().append(session_id, segment)
        row = self.feeds[f"session/{session_id}"][-1]
        self.add(row.topic, feed=row, first_cursor=row.first_cursor, heard=len(segment.entries))

    def add(
        self,
        stream: str,
        *,
        feed: FeedRow | None = None,
        first_cursor: int = 0,
        heard: int = 0,
        events: tuple[Recorded, ...] = (),
        error: LogUnusableError | None = None,
    ) -> None:
        """Make a row durable, whatever is in it."""
        self.end += 1
        self.rows.append(WrittenRow(self.end, stream, first_cursor, heard, feed, events, error))

    def replace_feed(self, topic: str, first_cursor: int, last_cursor: int, segments: Sequence[Segment]) -> None:
        super().replace_feed(topic, first_cursor, last_cursor, segments)
        row = next(row for row in self.feeds[topic] if row.first_cursor == first_cursor)
        replaced = [each for each in self.rows if each.stream == topic and _is_between(each, first_cursor, last_cursor)]
        heard = last_of(row) - first_cursor + 1
        self.rows[self.rows.index(replaced[-1])] = WrittenRow(replaced[-1].number, topic, first_cursor, heard, row)
        for each in replaced[:-1]:
            self.rows.remove(each)

    def node(self) -> SharedNode:
        """Return another node on the log."""
        self.nodes.append(SharedNode(self))
        return self.nodes[-1]


class SharedNode:
    """What a node is given of the log: its answers and notices come when they are delivered. It keeps what a tail asks.

    One commit is under way at a time.
    """

    def __init__(self, book: SharedBook) -> None:
        self.book = book
        self.under_way: tuple[range, Sequence[Publication]] | None = None
        self.notices: deque[int] = deque()
        self.reads = 0
        self.reads_until_failure: int | None = None
        self._publisher: Publisher | None = None
        self._watcher: Callable[[int], None] | None = None
        self.feed: Feed = book.feed()
        self.tail = Tail(self, self.feed)

    def write(self, session_id: str, *data: EventData, turn_id: str | None = None, rows: int = 1) -> None:
        """Commit rows of a session; the answer is under way."""
        self.commit(lambda: self.book.write(session_id, *data, turn_id=turn_id, rows=rows))

    def commit(self, write: Callable[[], object]) -> None:
        """Commit what is written; the answer is under way, and all others are notified."""
        assert self.under_way is None
        first = self.book.end + 1
        write()
        self.under_way = range(first, self.book.end + 1), self.book.unheard
        self.book.unheard = []
        for other in self.book.nodes:
            if other is not self:
                other.notices.append(self.book.end)

    def answer(self) -> None:
        """Let the answer to the commit come, if one is under way."""
        if self.under_way is not None and self._publisher is not None:
            (rows, publications), self.under_way = self.under_way, None
            self._publisher(rows, publications)

    def notify(self) -> None:
        """Let the next notice come, if there is one."""
        if self.notices and self._watcher is not None:
            self._watcher(self.notices.popleft())

    def miss(self) -> None:
        """Let the notices be lost, and say so."""
        self.notices.clear()
        if self._watcher is not None:
            self._watcher(0)

    def publish_by(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def watch_rows(self, watcher: Callable[[int], None]) -> None:
        self._watcher = watcher

    def unwatch_rows(self, watcher: Callable[[int], None]) -> None:
        assert self._watcher in (watcher, None)
        self._watcher = None

    def last_row(self) -> int:
        return self.book.end

    def read_rows(
        self,
        *,
        after: int,
        until: int,
        streams: Collection[str] | None = None,
        categories: Collection[str] = (),
        limit: int = 1000,
    ) -> list[WrittenRow]:
        self.reads += 1
        if self.reads_until_failure is not None:
            self.reads_until_failure -= 1
            if self.reads_until_failure < 0:
                self.reads_until_failure = None
                raise StorageError("the server is gone")
        found = [row for row in self.book.rows if after < row.number <= until]
        if streams is None:
            wanted = [row for row in found if row.heard or row.stream.partition("/")[0] in categories]
        else:
            wanted = [row for row in found if row.heard and row.stream in streams]
        return msgspec.convert(wanted[:limit], list[WrittenRow])

    def close(self) -> None:
        """End the tail, then the feed."""
        self.tail.close()
        self.feed.close()


def _is_between(row: WrittenRow, first: int, last: int) -> bool:
    return first <= row.first_cursor and row.first_cursor + row.heard - 1 <= last
