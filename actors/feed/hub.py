"""The feed: hears each commit from whoever writes, keeps the topics that somebody follows, wakes who waits."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from reenact.actors.feed.consumers import Consumers, check_cursor
from reenact.actors.feed.group import Group
from reenact.actors.feed.handlers import Handlers
from reenact.actors.feed.line import Line
from reenact.actors.feed.place import Place, Stay
from reenact.actors.feed.replay import Log, Pages, Replay, deleted_at, stream_of
from reenact.actors.feed.subscription import Subscription
from reenact.actors.feed.topic import NOW, Budget, Chunk, Topic
from reenact.actors.feed.waking import Waiter, Waiting, Waker, Wakers
from reenact.actors.journal.api import Entry, Publication, Segment
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, SessionNotFoundError
from reenact.domain.events import EventData
from reenact.domain.messages import check_text

P = ParamSpec("P")
R = TypeVar("R")
THREADS: Final = 4
"""How many threads read the log for those who wait on event loops."""


class Feed:
    """Sessions' events under their cursors, for whoever follows them. Thread-safe."""

    def __init__(self, journal: Log, *, new_id: Callable[[str], str], now: Callable[[], int]) -> None:
        self.journal = journal
        self.consumers = Consumers(journal, now)
        self.wakers = Wakers()
        self.line = Line()
        self.handlers = Handlers(self.line)
        self._new_id = new_id
        self.replay = Replay(journal, new_id)
        self._lock = threading.Lock()
        self._topics: dict[str, Topic] = {}
        self._gone: deque[Stay] = deque()
        self._budget = Budget()
        self._waiting_for_end = Waiting()
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether nothing is published any more."""
        return self._closed

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that are followed."""
        self.clear_away()
        with self._lock:
            return tuple(self._topics.values())

    def publish(self, publications: Iterable[Publication]) -> None:
        """Let this be heard after all that was published before; commits come one after the other, once durable.

        What belongs to no topic, such as requests and their responses, may come between them, on any thread.
        """
        if self._gone:
            self.clear_away()
        topics, line = self._topics, self.line
        woken: dict[Waker, list[Waiter]] = {}
        for publication in publications:
            topic = None if publication.topic is None else topics.get(publication.topic)
            is_wanted = line.wants(publication)
            if topic is None and not is_wanted:
                continue
            chunk = Chunk(publication, self._new_id)
            if topic is not None:
                for waker, waiters in topic.append(chunk):
                    woken.setdefault(waker, []).extend(waiters)
                if not topic.is_followed:
                    self._drop(topic)
            if is_wanted:
                for waker, waiters in line.append(chunk):
                    woken.setdefault(waker, []).extend(waiters)
        for waker, waiters in woken.items():
            waker.wake(waiters)

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
        place = self._enter(stream_of(session_id), session_id)
        topic = place.topic
        place.begin(topic.end if topic.known or topic.begun is not None else NOW, None, is_over=False)
        return Subscription(place, self)

    def place(self, session_id: str, client_id: str | None, after: int | None) -> Place:
        """Return a follower's place, as `subscribe` says; it has to leave. Reads the log."""
        name = stream_of(session_id)
        if client_id is not None:
            check_text("the client id", client_id)
        if after is not None:
            check_cursor("`after`", after)
        place = self._enter(name, session_id)
        try:
            topic = place.topic
            if not topic.known or topic.end < (after or 0):  # what is durable may not have been published yet
                topic.ends_at(self.journal.feed_end(name))
            end = topic.end
            _must_reach(session_id, after or 0, end)
            consumer = None if client_id is None else self.consumers.come(name, client_id)
            begin = after if after is not None else 0 if consumer is None else min(consumer.acknowledged, end)
            place.begin(begin, consumer, is_over=False)
            if begin == end and deleted_at(self.journal, name) == begin:
                place.is_over = True
        except BaseException:
            place.leave()
            raise
        return place

    def span(self, session_id: str, after: object) -> tuple[str, tuple[int, int]]:
        """Return a session's topic, and between which cursors it has had something since; reads the log.

        Raises what `subscribe` raises.
        """
        name = stream_of(session_id)
        begin, end = check_cursor("`after`", after), self.journal.feed_end(name)
        _must_reach(session_id, begin, end)
        return name, (begin, end)

    def pages(self, name: str) -> Pages:
        """Return what reads a topic's log."""
        return Pages(self.replay, name)

    def group(self, loop: asyncio.AbstractEventLoop) -> Group:
        """Return an empty group of subscriptions of one task on the loop."""
        return Group(self, loop)

    def apart(self, work: Callable[P, R], *given: P.args, **named: P.kwargs) -> Future[R]:
        """Have one of the feed's threads do it.

        Raises:
            RuntimeClosedError: the feed is closed.
        """
        with self._lock:
            self.check_open()
            if self._pool is None:
                self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="reenact-feed")
            return self._pool.submit(work, *given, **named)

    def await_end(self, waker: Waker, waiter: Waiter) -> None:
        """Have the waiter called when the feed closes."""
        with self._lock:
            self._waiting_for_end.add(waker, waiter)

    def forget_end(self, waker: Waker, waiter: Waiter) -> None:
        """Do not call it any more."""
        with self._lock:
            self._waiting_for_end.discard(waker, waiter)

    def clear_away(self) -> None:
        """Give up what those have left behind who were forgotten without a word."""
        while self._gone:
            try:
                stay = self._gone.popleft()
            except IndexError:  # another thread is at it
                return
            if stay.is_over:
                continue
            stay.topic.prune()
            with self._lock:
                self._let_go(stay.topic)
            if stay.consumer is not None:
                self.consumers.part(stay.consumer)

    def check_open(self) -> None:
        """Raise `RuntimeClosedError` once the feed is closed."""
        if self._closed:
            message = "the runtime is closed; open it again to follow its sessions"
            raise RuntimeClosedError(message)

    def close(self) -> None:
        """Let all who follow end once they have had what was published; handlers are waited for. Idempotent."""
        with self._lock:
            self._closed = True
            topics, pool = tuple(self._topics.values()), self._pool
            waiting_for_end = self._waiting_for_end.take()
        woken: dict[Waker, list[Waiter]] = {}
        for waiting in (*(topic.close() for topic in topics), self.line.close(), waiting_for_end):
            for waker, waiters in waiting:
                woken.setdefault(waker, []).extend(waiters)
        for waker, waiters in woken.items():
            waker.wake(waiters)
        if pool is not None:
            pool.shutdown()
        self.handlers.close()

    def _enter(self, name: str, session_id: str) -> Place:
        with self._lock:
            self.check_open()
            topic = self._topics.get(name)
            if topic is None:
                topic = self._topics[name] = Topic(name, self._budget)
            place = Place(topic, session_id, self.pages(name), self._leave)
            topic.join(place)
        # Whoever collects garbage may hold any lock: nothing is done there but to leave word.
        weakref.finalize(place, self._gone.append, place.stay).atexit = False
        return place

    def _leave(self, place: Place) -> None:
        with self._lock:
            if place.stay.is_over:
                return
            place.stay.is_over = True
            place.topic.part(place)
            self._let_go(place.topic)
        if place.consumer is not None:
            self.consumers.leave(place.consumer)

    def _drop(self, topic: Topic) -> None:
        with self._lock:
            self._let_go(topic)

    def _let_go(self, topic: Topic) -> None:
        if not topic.is_followed and self._topics.get(topic.name) is topic:
            del self._topics[topic.name]
            topic.clear()


def _must_reach(session_id: str, after: int, end: int) -> None:
    if end == 0:
        raise SessionNotFoundError(session_id)
    if after > end:
        message = f"the last event of session {session_id!r} has the cursor {end}; nothing comes after {after}"
        raise InvalidInputError(message)
