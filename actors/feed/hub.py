"""The feed: hears each commit from whoever writes, keeps the topics that somebody follows, wakes who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain

from reenact.actors.feed.group import Group
from reenact.actors.feed.handlers import Handlers
from reenact.actors.feed.replay import Log
from reenact.actors.feed.subscription import Subscription
from reenact.actors.feed.topic import Chunk
from reenact.actors.feed.topics import Topics
from reenact.actors.feed.waking import Waiter, Waker, wake
from reenact.actors.journal.api import Entry, Publication, Segment
from reenact.domain.events import EventData


class Feed(Topics):
    """Sessions' events under their cursors, for whoever follows them. Thread-safe."""

    def __init__(self, journal: Log, *, new_id: Callable[[str], str], now: Callable[[], int]) -> None:
        super().__init__(journal, new_id=new_id, now=now)
        self.handlers = Handlers(self.line)

    def publish(self, publications: Iterable[Publication]) -> None:
        """Let this be heard after all that was published before; commits come one after the other, once durable.

        What belongs to no topic, such as requests and their responses, may come between them, on any thread.
        """
        if self._gone:
            self.clear_away()
        topics, line = self._topics, self.line
        woken: list[tuple[Waker, Collection[Waiter]]] = []
        for publication in publications:
            topic = None if publication.topic is None else topics.get(publication.topic)
            if topic is None and not line.is_followed:
                continue
            chunk = Chunk(publication, self._new_id)
            if topic is not None:
                woken += topic.append(chunk)
                if not topic.is_followed:
                    self._drop(topic)
            if line.wants(chunk):
                woken += line.append(chunk)
        wake(woken)

    def say(self, at: int, data: EventData, context: Mapping[str, str]) -> Segment:
        """Publish one event that no session's feed keeps; `at` is microseconds since 1970-01-01 UTC."""
        segment = Segment(dict(context), (Entry(data.event_type, at, data),))
        self.publish((Publication(None, None, segment),))
        return segment

    def subscribe(
        self, topic: str, client_id: str | None = None, after: int | None = None, *, auto_ack: bool = False
    ) -> Subscription:
        """Return the events of a session from behind a cursor on: `after`, or what the client has acknowledged, or 0.

        Raises:
            SessionNotFoundError: there is no such session, and never was.
            InvalidInputError: `after` is no cursor of it; the client id is blank, or no text.
            StorageError: the log cannot be read.
            RuntimeClosedError: the runtime is closed.
        """
        return Subscription(self.place(topic, client_id, after), self, auto_ack=auto_ack)

    def news(self, session_id: str) -> Subscription:
        """Return the events of a session that are published from now on. Reads no log: the session must exist.

        Raises:
            RuntimeClosedError: the runtime is closed.
        """
        return Subscription(self.place_now(session_id), self)

    def group(self, loop: asyncio.AbstractEventLoop) -> Group:
        """Return an empty group of subscriptions of one task on the loop."""
        return Group(self, loop)

    def close(self) -> None:
        """Let all who follow end once they have had what was published; handlers are waited for. Idempotent."""
        woken = self.finish()
        wake(chain(*(topic.finish() for topic in self.topics), self.line.finish(), woken))
        if self._pool is not None:
            self._pool.shutdown()
        self.handlers.close()
