"""The subscriptions of one connection or asyncio task, which share an output of encoded events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

import msgspec

from reenact.actors.feed.consumers import named
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.publications import Listener
from reenact.actors.feed.replay import Page, fitting, stream_of
from reenact.actors.feed.topic import FollowerPosition, Need
from reenact.actors.feed.waking import set_result
from reenact.domain.errors import InvalidInputError, RuntimeClosedError
from reenact.domain.stream.events import SessionDeleted

SHARE = 8
"""A subscription may take this fraction of a batch before the next one's turn; what is left is shared again."""
AT_ONCE = 64
"""About how many of the latest events a subscription takes in its turn."""
PAGES = 8
"""How many subscriptions of a group may hold or load a page of the log at a time; others wait."""


_LAST = SessionDeleted.event_type


class Span(NamedTuple):
    """The events that a new subscription replays: after one cursor, up to another."""

    after: int
    end: int


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Events of one subscription, in order, as JSON; and the reason if they are the last.

    `ended` is `deleted` after the last event of a deleted session, `closed` when the runtime closes, and `lagging` if a
    listener has missed events that are not in the log.
    """

    id: str
    events: list[bytes]
    ended: str | None = None


class Follower:
    """A group's subscription to a session. All methods but `load` run on the group's loop, and not during `load`."""

    __slots__ = ("__weakref__", "_given", "_is_deleted", "_page", "is_cut_short", "position", "source")

    def __init__(self, position: FollowerPosition) -> None:
        self.position = position
        self.source = position.topic
        position.belongs_to(self)
        self._page: Page | None = None
        self._given = 0
        self._is_deleted = position.is_over
        self.is_cut_short = False

    @property
    def holds_page(self) -> bool:
        return self._page is not None

    def give(self, room: int) -> tuple[list[bytes], bool]:
        """Return the next events, and whether these were all."""
        topic, position = self.source, self.position
        newest = topic.newest
        if newest is not None and newest.first == position.ahead + 1 and newest.end == topic.end and self._page is None:
            lines = newest.encoded()  # the case of all followers that keep up
            if newest.length <= room and not newest.is_last and not topic.closed:
                position.ahead = newest.end
                return lines, True
        if self._page is not None:
            lines = self._from_page(self._page, room)
        else:
            lines = [] if self._is_deleted else self._from_topic(room)
        is_over = topic.closed or self._is_deleted or self.is_cut_short
        return lines, position.ahead == topic.end and not is_over

    def need(self) -> Need:
        if self._is_deleted or self.is_cut_short:
            return Need.OVER
        if self.holds_page:
            return Need.NOTHING
        return self.position.look(1)[0]

    def load(self) -> None:
        page, start = self.position.pages.read(self.position.ahead)
        page.encoded()  # on this thread rather than on the loop
        self._page, self._given = page, start

    def reason(self) -> str:
        return "deleted" if self._is_deleted else "closed"

    def leave(self) -> None:
        self._page = None
        self.position.leave()

    def _from_page(self, page: Page, room: int) -> list[bytes]:
        given = fitting(page.encoded(), self._given, room)
        self._given += len(given)
        last = page.envelopes[self._given - 1]
        self.position.ahead = last.cursor or 0
        if self._given == len(page.envelopes):
            self._page = None
            self._is_deleted = last.type == _LAST
        return given

    def _from_topic(self, room: int) -> list[bytes]:
        given: list[bytes] = []
        position = self.position
        for chunk in self.source.since(position.ahead, AT_ONCE) or ():
            lines, had = chunk.encoded(), position.ahead + 1 - chunk.first
            if had or chunk.length > room:
                lines = fitting(lines, had, room)
            given += lines
            room -= chunk.length
            position.ahead += len(lines)
            self._is_deleted = position.ahead == self.source.end and chunk.is_last
            if position.ahead < chunk.end or room <= 0:
                break
        return given


class _MemberState:
    """A member of the group with its current state."""

    __slots__ = ("_ready", "_wake_taker", "has_page", "id", "is_gone", "member", "waits")

    def __init__(
        self,
        id: str,  # noqa: A002
        member: Follower | Listener,
        ready: deque[_MemberState],
        wake_taker: Callable[[], None],
    ) -> None:
        self.id = id
        self.member = member
        self.waits = False
        self.has_page = False
        self.is_gone = False
        self._ready = ready
        self._wake_taker = wake_taker

    def wake(self) -> None:
        """Make it ready if it waits; called when it may have more to give."""
        if self.waits:
            self.waits = False
            self._ready.append(self)
            if len(self._ready) == 1:  # the taker waits only while nobody is ready
                self._wake_taker()


class Group:
    """Subscriptions that share an output. Used on one event loop, whose tasks it never blocks.

    One task calls `take`; other tasks of the loop may add, remove and acknowledge meanwhile. A subscription that is not
    read buffers no events: they are in the log, or among the latest events of its topic.
    """

    def __init__(self, feed: Feed, loop: asyncio.AbstractEventLoop) -> None:
        self._feed = feed
        self._waker = feed.loops.waker(loop)
        self._states: dict[str, _MemberState] = {}
        self._ready: deque[_MemberState] = deque()
        self._behind: deque[_MemberState] = deque()
        self._pages = 0
        self._member_count = 0
        self._error: Exception | None = None
        self._taking: asyncio.Future[None] | None = None
        self._closed = False
        feed.await_end(self._waker, self._wake)

    @property
    def is_behind(self) -> bool:
        """Whether a subscription is still replaying the log."""
        return self._pages > 0 or bool(self._behind)

    async def add(
        self,
        id: str,  # noqa: A002
        topic: str,
        client_id: str | None = None,
        after: int | None = None,
    ) -> Span:
        """Subscribe to the session `topic`; return the cursor after which it begins, and that of the last event so far.

        Raises what `Feed.subscribe` raises, and `InvalidInputError` if the group already has a subscription with this
        id.
        """
        self._check_id_unused(id)
        follower = await self._follow(topic, client_id, after)
        span = Span(follower.position.ahead, follower.position.topic.end)
        self._add_member(id, follower)
        return span

    async def add_listener(
        self,
        id: str,  # noqa: A002
        types: tuple[str, ...] | None,
        after: dict[str, int],
        sessions: tuple[str, ...] | None = None,
    ) -> None:
        """Listen to events of these types, or all, from now on: of these sessions, or of everything.

        Requests and responses are excluded. The events of the sessions in `after` after these cursors come first. A
        listener that lags reads the log, too; if that cannot help, it ends as `lagging`.

        Raises what `Feed.subscribe` raises, and `InvalidInputError` if the group already has a subscription with this
        id.
        """
        self._check_id_unused(id)
        self._feed.check_open()
        wanted = None if types is None else frozenset(types)
        topics = None if sessions is None else frozenset(map(stream_of, sessions))
        listener = Listener(self._feed.publications, wanted, self._feed.replay, topics)
        self._feed.publications.join(listener)
        try:
            listener.begin(await asyncio.wrap_future(self._feed.loops.in_thread(self._spans_after, after)))
            self._add_member(id, listener)
        except BaseException:
            listener.leave()
            raise

    async def take(self, limit_bytes: int = 65536) -> list[Batch]:
        """Wait for events, and return about `limit_bytes` bytes of them, from all subscriptions in turn.

        Returns an empty list after `close`.

        Raises:
            StorageError: the log cannot be read for one of them; call again, nothing is lost.
            RuntimeClosedError: the runtime is closed, and all subscriptions have ended.
        """
        await asyncio.sleep(0)  # a caller that always finds events must not starve the other tasks of the loop
        while True:
            if self._error is not None:  # before more is read, which may succeed
                error, self._error = self._error, None
                raise error
            batches = self._gather(limit_bytes)
            if batches or self._closed:
                return batches
            if not self._member_count:
                self._feed.check_open()
            self._taking = taking = self._waker.loop.create_future()
            try:
                await taking
            finally:
                self._taking = None

    async def ack(self, id: str, cursor: int) -> None:  # noqa: A002
        """Acknowledge the events of a subscription up to this cursor; durable when this returns.

        A subscription that has ended can still acknowledge the events it was given.

        Raises:
            InvalidInputError: there is no such subscription, it has no client id, or it was not given this cursor.
            StorageError: the log cannot be written.
            RuntimeClosedError: the log is closed.
        """
        state = self._states.get(id)
        if state is None or not isinstance(state.member, Follower):
            message = f"there is no subscription {id!r} that could acknowledge anything"
            raise InvalidInputError(message)
        position = state.member.position
        await named(position.consumer, position.session_id).aack(cursor, position.ahead, self._waker)

    def remove(self, id: str) -> None:  # noqa: A002
        """End a subscription, whether it has already ended or not. Idempotent."""
        state = self._states.pop(id, None)
        if state is not None:
            self._end(state)

    def close(self) -> None:
        """End all subscriptions; `take` returns nothing more. Idempotent."""
        self._closed = True
        self._feed.forget(self._waker, self._wake)
        for id_ in list(self._states):
            self.remove(id_)
        self._wake()

    def _check_id_unused(self, id_: str) -> None:
        state = self._states.get(id_)
        if self._closed:
            raise RuntimeClosedError("the group of subscriptions is closed")
        if state is not None and not state.is_gone:
            raise InvalidInputError(f"there is a subscription {id_!r} already; give each an id of its own")

    def _add_member(self, id_: str, member: Follower | Listener) -> None:
        try:
            self._check_id_unused(id_)
        except BaseException:
            member.leave()
            raise
        state = self._states[id_] = _MemberState(id_, member, self._ready, self._wake)
        self._member_count += 1
        member.source.watch(self._waker, state.wake)
        self._ready.append(state)
        self._wake()

    async def _follow(self, topic: str, client_id: str | None, after: int | None) -> Follower:
        """Follow the topic, which reads the log, on a thread; if this task is cancelled meanwhile, leave it again."""
        future = self._feed.loops.in_thread(lambda: Follower(self._feed.follow(topic, client_id, after)))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(_leave)
            raise

    def _spans_after(self, after: dict[str, int]) -> dict[str, tuple[int, int]]:
        return dict(self._feed.span(session_id, cursor) for session_id, cursor in after.items())

    def _gather(self, room: int) -> list[Batch]:
        """Give every ready member a share, repeatedly, until there is no room or no member has more."""
        given: dict[str, list[bytes]] = {}
        ended: dict[str, str] = {}
        ready = self._ready
        share = max(1, room // min(SHARE, len(ready) or 1))
        while ready and room > 0:
            state = ready.popleft()
            if state.is_gone:
                self._release_page(state)
                continue
            lines, has_all = state.member.give(min(room, share))
            if lines:
                given[state.id] = [*given[state.id], *lines] if state.id in given else lines
                room -= len(lines[0]) if len(lines) == 1 else sum(map(len, lines))
            if state.has_page:
                self._release_page(state)
            if has_all:  # the usual case; whatever comes from now on wakes it
                state.waits = True
            else:
                self._requeue(state, ended)
        if not ended:
            return [Batch(id_, lines) for id_, lines in given.items()]
        return [Batch(id_, given.get(id_, []), ended.get(id_)) for id_ in {**given, **ended}]

    def _requeue(self, state: _MemberState, ended: dict[str, str]) -> None:
        match state.member.need():
            case Need.NOTHING | Need.NEWS:  # something was published in between
                self._ready.append(state)
            case Need.LOG:
                self._behind.append(state)
                self._load_next()
            case Need.OVER:
                ended[state.id] = state.member.reason()
                self._end(state)

    def _load_next(self) -> None:
        while self._behind and self._pages < PAGES:
            state = self._behind.popleft()
            if not state.is_gone:
                state.has_page = True
                self._pages += 1
                self._load(state)

    def _load(self, state: _MemberState) -> None:
        try:
            future = asyncio.wrap_future(self._feed.loops.in_thread(state.member.load), loop=self._waker.loop)
        except RuntimeClosedError as error:
            self._loaded(state, error)
        else:
            future.add_done_callback(lambda done: self._loaded(state, done.exception()))

    def _loaded(self, state: _MemberState, error: BaseException | None) -> None:
        if isinstance(error, RuntimeClosedError):
            state.member.is_cut_short = True
        elif isinstance(error, Exception):
            self._error = error
        self._ready.append(state)
        self._release_page(state)
        self._wake()

    def _release_page(self, state: _MemberState) -> None:
        if state.has_page and (state.is_gone or not state.member.holds_page):
            state.has_page = False
            self._pages -= 1
            self._load_next()

    def _end(self, state: _MemberState) -> None:
        if state.is_gone:
            return
        state.is_gone = True
        self._member_count -= 1
        state.waits = False
        state.member.source.unwatch(self._waker, state.wake)
        state.member.leave()

    def _wake(self) -> None:
        if self._taking is not None:
            set_result(self._taking, None)
            self._taking = None


def _leave(done: Future[Follower]) -> None:
    if not done.cancelled() and done.exception() is None:
        done.result().leave()
