"""The feed: receives commits from the writing thread, or from a tail, and passes them to followed topics."""

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
from reenact.actors.journal.seeking import MOST
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, SessionNotFoundError
from reenact.domain.messages import check_text
from reenact.domain.session import state as states
from reenact.domain.shards import is_child
from reenact.domain.stream.events import EventData, SessionDeleted


class Feed(Awaited):
    """The events of sessions, with cursors, for followers. Thread-safe."""

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
        """The topics with followers. Protected by the lock."""
        self._abandoned: deque[FollowerPosition] = deque()
        self._budget = Budget()

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The followed topics."""
        self.remove_abandoned()
        with self.lock:
            return tuple(self._topics.values())

    def publish(self, publications: Iterable[Publication]) -> None:
        """Publish these publications after all earlier ones; commits come one after the other, once durable.

        They come on the writing thread; if several processes write, on any thread, under the lock of the tail.
        Publications without a topic, such as requests and responses, may come between them, on any thread.
        """
        if self._abandoned:
            self.remove_abandoned()
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

    def advance_to(self, name: str, first: int, end: int) -> None:
        """Make the followers of the topic read these cursors from the log, since they cannot be published."""
        topic = self._topics.get(name)
        if topic is not None:
            wake(topic.advance_to(first, end))

    @property
    def is_followed(self) -> bool:
        """Whether there is a follower, listener or handler.

        A later one needs nothing that is durable by now: it reads the end of the log, or gets only later publications.
        """
        if self._abandoned:
            self.remove_abandoned()
        return bool(self._topics) or self.publications.is_followed

    def followed(self, most: int) -> Collection[str] | None:
        """Return the topics that are followed; None if they are more than `most`, or if all topics are followed."""
        topics = self.publications.topics
        if topics is None:
            return None
        with self.lock:
            wanted = topics.union(self._topics)
        return wanted if len(wanted) <= most else None

    def say(self, at: int, data: EventData, context: Mapping[str, str]) -> Segment:
        """Publish one event that is not part of a session's feed; `at` is microseconds since 1970-01-01 UTC."""
        segment = Segment(dict(context), (Entry(data.event_type, at, data),))
        self.publish((Publication(None, None, segment),))
        return segment

    def subscribe(
        self, topic: str, client_id: str | None = None, after: int | None = None, *, auto_ack: bool = False
    ) -> Subscription:
        """Return the events of a session after a cursor: `after`, or else the client's acknowledged cursor, or 0.

        Raises:
            SessionNotFoundError: there is no such session, and never was.
            InvalidInputError: `after` is not a cursor of the session, or the client id is blank or not text.
            StorageError: the log cannot be read.
            RuntimeClosedError: the runtime is closed.
        """
        return Subscription(self.follow(topic, client_id, after), self.loops, auto_ack=auto_ack)

    def subscribe_from_now(self, session_id: str) -> Subscription:
        """Return the events of a session published from now on. Does not read the log: the session must exist.

        Raises:
            RuntimeClosedError: the runtime is closed.
        """
        position = self._add_follower(stream_of(session_id), session_id)
        topic = position.topic
        position.ahead = topic.end if topic.known or topic.begun is not None else NOW
        return Subscription(position, self.loops)

    def follow(self, session_id: str, client_id: str | None, after: int | None) -> FollowerPosition:
        """Return the position of a new follower, as for `subscribe`; the caller must `leave` it. Reads the log."""
        name = stream_of(session_id)
        self.remove_abandoned()  # the same client may have abandoned an earlier subscription
        if client_id is not None:
            check_text("the client id", client_id)
        if after is not None:
            check_cursor("`after`", after)
        position = self._add_follower(name, session_id)
        try:
            topic = position.topic
            if not topic.known or topic.end < (after or 0):  # durable events may not have been published yet
                topic.ends_at(self.journal.feed_end(name))
            end = topic.end
            self._check_cursor(session_id, after or 0, end)
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
        """Return a session's topic, with the cursors of its events after `after`; reads the log.

        Raises what `subscribe` raises.
        """
        name = stream_of(session_id)
        begin, end = check_cursor("`after`", after), self.journal.feed_end(name)
        self._check_cursor(session_id, begin, end)
        return name, (begin, end)

    def await_end(self, waker: Waker, waiter: Waiter) -> None:
        """Call the waiter when nothing more will be published."""
        with self.lock:
            self._await(waker, waiter)

    def remove_abandoned(self) -> None:
        """Remove the followers whose owners were garbage-collected; what those have handled is acknowledged."""
        while self._abandoned:
            try:
                position = self._abandoned.popleft()
            except IndexError:  # another thread has taken it
                return
            position.acknowledge()
            self._remove(position)

    def check_open(self) -> None:
        """Raise `RuntimeClosedError` if the feed is closed."""
        if self.closed:
            raise RuntimeClosedError(CLOSED)

    def close(self) -> None:
        """End all followers after the last published events, and wait for handlers. Idempotent.

        Everything handled so far is acknowledged; the journal is closed after this.
        """
        woken = self.finish()
        for topic in self.topics:
            topic.acknowledge()
        wake(chain(*(topic.finish() for topic in self.topics), self.publications.finish(), woken))
        self.loops.close()
        self.handlers.close()

    def _add_follower(self, name: str, session_id: str) -> FollowerPosition:
        with self.lock:
            self.check_open()
            topic = self._topics.get(name)
            if topic is None:
                topic = self._topics[name] = Topic(name, self._budget)
            pages = Pages(self.replay, name)
            position = FollowerPosition(topic, session_id, pages, self._remove_follower, self._abandoned.append)
            topic.join(position)
        return position

    def _remove_follower(self, position: FollowerPosition) -> None:
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

    def _check_cursor(self, session_id: str, after: int, end: int) -> None:
        # A started child may get its first event a moment later.
        if end == 0 and not is_child(session_id) and not self._can_go_on(stream_of(session_id)):
            raise SessionNotFoundError(session_id)
        if after > end:
            message = f"the last event of session {session_id!r} has the cursor {end}; nothing comes after {after}"
            raise InvalidInputError(message)

    def _can_go_on(self, stream: str) -> bool:
        """Return whether the session exists and was not deleted: if it was imported without its feed, events say so."""
        last = self.journal.link_at(stream, MOST)
        found = [] if last is None else self.journal.read_until(stream, last.version, after=last.version - 1)
        return any(not isinstance(each.event, states.SessionDeleted | states.SessionForgotten) for each in found)
