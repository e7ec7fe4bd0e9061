"""Topics that somebody follows: how one enters them, and what becomes of what is left behind."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from reenact.actors.feed.consumers import Consumers, check_cursor
from reenact.actors.feed.line import Line
from reenact.actors.feed.place import Place, Stay
from reenact.actors.feed.replay import Log, Pages, Replay, deleted_at, stream_of
from reenact.actors.feed.topic import NOW, Budget, Topic
from reenact.actors.feed.waking import Awaited, Waiter, Waker, Wakers
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, SessionNotFoundError
from reenact.domain.messages import check_text

P = ParamSpec("P")
R = TypeVar("R")
THREADS: Final = 4
"""How many threads read the log for those who wait on event loops."""


class Topics(Awaited):
    """The topics that are followed, and what all followers share. Thread-safe."""

    def __init__(self, journal: Log, *, new_id: Callable[[str], str], now: Callable[[], int]) -> None:
        super().__init__()
        self.journal = journal
        self.consumers = Consumers(journal, now)
        self.wakers = Wakers()
        self.line = Line()
        self.replay = Replay(journal, new_id)
        self._new_id = new_id
        self._topics: dict[str, Topic] = {}
        self._gone: deque[Stay] = deque()
        self._budget = Budget()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that are followed."""
        self.clear_away()
        with self.lock:
            return tuple(self._topics.values())

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

    def place_now(self, session_id: str) -> Place:
        """Return the place of a follower of what is published from now on; it has to leave. Reads no log."""
        place = self._enter(stream_of(session_id), session_id)
        topic = place.topic
        place.begin(topic.end if topic.known or topic.begun is not None else NOW, None, is_over=False)
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

    def apart(self, work: Callable[P, R], *given: P.args, **named: P.kwargs) -> Future[R]:
        """Have one of the feed's threads do it.

        Raises:
            RuntimeClosedError: the feed is closed.
        """
        with self.lock:
            self.check_open()
            if self._pool is None:
                self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="reenact-feed")
            return self._pool.submit(work, *given, **named)

    def await_end(self, waker: Waker, waiter: Waiter) -> None:
        """Have the waiter called when nothing more is published."""
        with self.lock:
            self._await(waker, waiter)

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
            with self.lock:
                self._let_go(stay.topic)
            if stay.consumer is not None:
                self.consumers.part(stay.consumer)

    def check_open(self) -> None:
        """Raise `RuntimeClosedError` once the feed is closed."""
        if self.closed:
            message = "the runtime is closed; open it again to follow its sessions"
            raise RuntimeClosedError(message)

    def _enter(self, name: str, session_id: str) -> Place:
        with self.lock:
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
        with self.lock:
            if place.stay.is_over:
                return
            place.stay.is_over = True
            place.topic.part(place)
            self._let_go(place.topic)
        if place.consumer is not None:
            self.consumers.leave(place.consumer)

    def _drop(self, topic: Topic) -> None:
        with self.lock:
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
