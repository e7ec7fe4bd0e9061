"""The feed: receives each commit from the thread that writes, or from a tail, and hands it to followed topics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain

from reenact.actors.feed.consumers import Consumers, check_cursor
from reenact.actors.feed.handlers import Handlers
from reenact.actors.feed.publications import PublicationLog
from reenact.actors.feed.replay import Log, Pages, Replay, deleted_at, stream_of
from reenact.actors.feed.subscription import Subscription
from reenact.actors.feed.topic import NOW, Budget, Chunk, FollowerPosition, Topic
from reenact.actors.feed.waking import CLOSED, Awaited, EventLoops, Waiter, Waker, wake
from reenact.actors.journal.api import Entry, Publication, Segment
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, SessionNotFoundError
from reenact.domain.messages import check_text
from reenact.domain.shards import is_child
from reenact.domain.stream.events import EventData, SessionDeleted


class Feed(Awaited):
    """Sessions' events under their cursors, for whoever follows them. Thread-safe."""

    def __init__(self, journal: Log, *, new_id: Callable[[str], str], now: Callable[[], int]) -> None:
        super().__init__()
        self.journal = journal
        self.consumers = Consumers(journal, now)
        self.loops = EventLoops()
        self.publications = PublicationLog()
        self.handlers = Handlers(self.publications)
        self.replay = Replay(journal)
        self._new_id = new_id
        self._topics: dict[str, Topic] = {}
        """The topics that have followers. Under the lock."""
        self._abandoned: deque[FollowerPosition] = deque()
        self._budget = Budget()

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that are followed."""
        self.clear_away()
        with self.lock:
            return tuple(self._topics.values())

    def publish(self, publications: Iterable[Publication]) -> None:
        """Publish this after all that was published before; commits come one after the other, once durable.

        They come on the thread that writes; where several processes write, on any thread, under the lock of the tail.
        What belongs to no topic, such as requests and their responses, may come between them, on any thread.
        """
        if self._abandoned:
            self.clear_away()
        topics, log = self._topics, self.publications
        woken: list[tuple[Waker, Collection[Waiter]]] = []
        for publication in publications:
            if publication.topic is not None and publication.segment.entries[-1].type == SessionDeleted.event_type:
                self.replay.forget(publication.topic)
            topic = None if publication.topic is None else topics.get(publication.topic)
            if topic is None and not log.is_followed:
                continue
            chunk = Chunk(publication, self._new_id)
            if topic is not None:
                woken += topic.append(chunk)
                if not topic.is_followed:  # its last follower has left meanwhile
                    topic.clear()
            if log.wants(chunk):
                woken += log.append(chunk)
        wake(woken)

    def reaches(self, name: str, first: int, end: int) -> None:
        """Let whoever follows the topic read these cursors from the log: they cannot be published."""
        topic = self._topics.get(name)
        if topic is not None:
            wake(topic.reaches(first, end))

    @property
    def is_followed(self) -> bool:
        """Whether anybody wants anything that is published.

        Whoever comes later needs nothing that is durable by now: it looks up where the log ends, or wants only what
        is published from then on.
        """
        if self._abandoned:
            self.clear_away()
        return bool(self._topics) or self.publications.is_followed

    def followed(self, most: int) -> Collection[str] | None:
        """Return the topics that somebody wants something of; None if these are more, or somebody wants all."""
        topics = self.publications.topics
        if topics is None:
            return None
        with self.lock:
            wanted = topics.union(self._topics)
        return wanted if len(wanted) <= most else None

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
            InvalidInputError: `after` is not a cursor of it; the client id is blank, or no text.
            StorageError: the log cannot be read.
            RuntimeClosedError: the runtime is closed.
        """
        return Subscription(self.follow(topic, client_id, after), self.loops, auto_ack=auto_ack)

    def news(self, session_id: str) -> Subscription:
        """Return the events of a session that are published from now on. Reads no log: the session must exist.

        Raises:
            RuntimeClosedError: the runtime is closed.
        """
        position = self._enter(stream_of(session_id), session_id)
        topic = position.topic
        position.ahead = topic.end if topic.known or topic.begun is not None else NOW
        return Subscription(position, self.loops)

    def follow(self, session_id: str, client_id: str | None, after: int | None) -> FollowerPosition:
        """Return the position of a new follower, as `subscribe` does; it has to leave. Reads the log."""
        name = stream_of(session_id)
        self.clear_away()  # it may have been the same client that let go of one before
        if client_id is not None:
            check_text("the client id", client_id)
        if after is not None:
            check_cursor("`after`", after)
        position = self._enter(name, session_id)
        try:
            topic = position.topic
            if not topic.known or topic.end < (after or 0):  # what is durable may not have been published yet
                topic.ends_at(self.journal.feed_end(name))
            end = topic.end
            _must_reach(session_id, after or 0, end)
            if client_id is not None:
                position.consumer = self.consumers.come(name, client_id)
                position.ahead = min(position.consumer.said, end)
            if after is not None:
                position.ahead = after
            position.is_over = position.ahead == end and deleted_at(self.journal, name) == end
        except BaseException:
            position.leave()
            raise
        return position

    def span(self, session_id: str, after: object) -> tuple[str, tuple[int, int]]:
        """Return a session's topic, and between which cursors it has had something since; reads the log.

        Raises what `subscribe` raises.
        """
        name = stream_of(session_id)
        begin, end = check_cursor("`after`", after), self.journal.feed_end(name)
        _must_reach(session_id, begin, end)
        return name, (begin, end)

    def await_end(self, waker: Waker, waiter: Waiter) -> None:
        """Have the waiter called when nothing more is published."""
        with self.lock:
            self._await(waker, waiter)

    def clear_away(self) -> None:
        """Let the followers leave whose owners were collected as garbage; what these dealt with is acknowledged."""
        while self._abandoned:
            try:
                position = self._abandoned.popleft()
            except IndexError:  # another thread is at it
                return
            position.acknowledge()
            self._remove(position)

    def check_open(self) -> None:
        """Raise `RuntimeClosedError` once the feed is closed."""
        if self.closed:
            raise RuntimeClosedError(CLOSED)

    def close(self) -> None:
        """Let all who follow end once they have had what was published; handlers are waited for. Idempotent.

        What was dealt with until now is acknowledged; the journal is closed after this.
        """
        woken = self.finish()
        for topic in self.topics:
            topic.acknowledge()
        wake(chain(*(topic.finish() for topic in self.topics), self.publications.finish(), woken))
        self.loops.close()
        self.handlers.close()

    def _enter(self, name: str, session_id: str) -> FollowerPosition:
        with self.lock:
            self.check_open()
            topic = self._topics.get(name)
            if topic is None:
                topic = self._topics[name] = Topic(name, self._budget)
            pages = Pages(self.replay, name)
            position = FollowerPosition(topic, session_id, pages, self._leave, self._abandoned.append)
            topic.join(position)
        return position

    def _leave(self, position: FollowerPosition) -> None:
        if position.consumer is not None and not position.has_left:
            self.consumers.seen(position.consumer)
        self._remove(position)

    def _remove(self, position: FollowerPosition) -> None:
        topic = position.topic
        with self.lock:
            if position.has_left:
                return
            position.has_left = True
            topic.part(position)
            if not topic.is_followed:
                del self._topics[topic.name]
                topic.clear()
        if position.consumer is not None:
            self.consumers.part(position.consumer)


def _must_reach(session_id: str, after: int, end: int) -> None:
    if end == 0 and not is_child(session_id):  # one that has started may begin a moment later
        raise SessionNotFoundError(session_id)
    if after > end:
        message = f"the last event of session {session_id!r} has the cursor {end}; nothing comes after {after}"
        raise InvalidInputError(message)
