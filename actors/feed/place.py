"""Where one follower of a topic stands, and how it goes on: from what was just published, or from the log."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from reenact.actors.feed.consumers import Consumer
from reenact.actors.feed.replay import Page, Pages
from reenact.actors.feed.topic import NOW, Chunk, Topic


class Need(Enum):
    """What a follower needs to go on."""

    NOTHING = auto()
    LOG = auto()
    NEWS = auto()
    OVER = auto()


class Stay:
    """What is to be given up when a follower is gone, also if it is forgotten without a word."""

    __slots__ = ("consumer", "is_over", "topic")

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.consumer: Consumer | None = None
        self.is_over = False


class Place:
    """Where one follower stands. Not thread-safe but for `leave`."""

    def __init__(self, topic: Topic, session_id: str, pages: Pages, leave: Callable[[Place], None]) -> None:
        self.topic = topic
        self.session_id = session_id
        self.ahead = 0
        self.stay = Stay(topic)
        self.is_over = False
        """Whether nothing can come any more: the session was deleted, and that was told."""
        self._pages = pages
        self._leave = leave

    @property
    def consumer(self) -> Consumer | None:
        """Under whose name it stands there."""
        return self.stay.consumer

    def begin(self, after: int, consumer: Consumer | None, *, is_over: bool) -> None:
        """Stand behind this cursor."""
        self.ahead = after
        self.stay.consumer = consumer
        self.is_over = is_over

    def look(self, at_once: int) -> tuple[Need, list[Chunk]]:
        """Return what was published behind the cursor, about so many events, or else what it needs to go on."""
        closed = self.topic.closed  # looked at first: what was published before it was closed still counts
        if self.ahead == NOW:
            if self.topic.begun is None:
                return Need.OVER if closed else Need.NEWS, []
            self.ahead = self.topic.begun
        chunks = self.topic.since(self.ahead, at_once)
        if chunks is None:
            return Need.LOG, []
        if chunks:
            return Need.NOTHING, chunks
        return Need.OVER if closed or self.is_over else Need.NEWS, chunks

    def read(self, after: int) -> tuple[Page, int]:
        """Return a page of the log with what comes behind a cursor, and where on it; see `Pages.read`."""
        return self._pages.read(after)

    def leave(self) -> None:
        """Follow the topic no more. Idempotent."""
        self._leave(self)
