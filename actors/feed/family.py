"""Merges the events of a session and its child sessions into one stream, over a subscription to each."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from reenact.actors.feed.consumers import check_cursor
from reenact.actors.feed.subscription import AT_ONCE, EventIterator, check_count
from reenact.actors.feed.waking import Alarm, Waiter, set_result
from reenact.domain.errors import InvalidInputError, ReenactError
from reenact.domain.messages import check_text
from reenact.domain.operations.table import RuntimeEvent
from reenact.domain.plain import check_id, is_mapping, seconds_of
from reenact.domain.stream.events import ChildEnded, ChildStarted


class Followed(Protocol):
    """A subscription to one session, of a local or a remote runtime."""

    @property
    def closed(self) -> bool:
        """Whether no more events will come."""
        ...

    def gather(self, limit: int, *, waits: bool) -> list[RuntimeEvent]:
        """Return up to `limit` available events; with `waits`, wait for those on their way."""
        ...

    def when_more(self, waiter: Waiter) -> Callable[[], object]:
        """Call the waiter when there may be more events, or no more will come; return a function that cancels this."""
        ...

    def unsubscribe(self) -> None:
        """End the subscription."""
        ...


_NEVER: Final = 1 << 63
Follow = Callable[[str, int], Followed]
"""Follows a session after a cursor, even a child session that does not exist yet; does not block."""


class FamilyStream(EventIterator):
    """The events of a session, its children and their children, each once, and in order for each session.

    A child is followed from the `child_started` event of its parent up to the cursor in its `child_ended` event; over a
    connection, its last events may come after that event. `context.session_id` tells the session of an event; each
    session has its own cursors. Iterate with `for` or `async for`, or call `next` and `take`. The stream ends with the
    subscription to the top session, or by `unsubscribe`, which leaving its `with` block calls. It is for one consumer.

    To continue later from the same place, pass its `cursors`.
    """

    def __init__(self, follow: Follow, session_id: str, after: Mapping[str, int]) -> None:
        """Follow the session, and the children for which `after` has a cursor; see `cursors_of`."""
        self.topic: Final = session_id
        """The id of the top session."""
        self.cursors: Final = dict(after)
        """The followed sessions, each with the cursor of its last delivered event."""
        self._follow = follow
        self._members: dict[str, _Member] = {}
        self._ready: deque[RuntimeEvent] = deque()
        """Events taken from the members but not delivered yet."""
        self._ends: dict[str, int] = {}
        """The last cursors of ended children that are not fully delivered."""
        for id_, cursor in after.items():
            self._members[id_] = _Member(follow(id_, cursor), None, cursor)
        self._top = self._members[session_id]

    @property
    def closed(self) -> bool:
        """Whether no more events will come."""
        return not self._ready and self._top.is_over

    async def __anext__(self) -> RuntimeEvent:
        while not self._ready:
            if await asyncio.to_thread(self._gather):
                continue
            if self._top.is_over:
                raise StopAsyncIteration
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            cancel = self._when_more(partial(loop.call_soon_threadsafe, partial(set_result, future, None)))
            try:
                await future
            finally:
                cancel()
        return self._deliver_next()

    def next(self, timeout: float | None = None) -> RuntimeEvent | None:
        """Return the next event; None if none comes within the timeout, or no more will. Raises as `take` does."""
        seconds = seconds_of(timeout)
        until = None if seconds is None else time.monotonic() + seconds
        while not self._ready and not self._gather():
            left = None if until is None else until - time.monotonic()
            if self._top.is_over or (left is not None and left <= 0):
                return None
            alarm = Alarm()
            cancel = self._when_more(alarm.ring)
            try:
                alarm.wait(left)
            finally:
                cancel()
        return self._deliver_next()

    def take(self, limit: int = 1000) -> list[RuntimeEvent]:
        """Return up to `limit` available events without waiting for more; raises as subscriptions do."""
        check_count(limit)
        taken: list[RuntimeEvent] = []
        try:
            while len(taken) < limit and (self._ready or self._gather(waits=True)):
                taken.append(self._deliver_next())
        except ReenactError:
            if not taken:  # the next call raises it again
                raise
        return taken

    def unsubscribe(self) -> None:
        """End all subscriptions. Idempotent."""
        self._ready.clear()
        for member in self._members.values():
            member.leave()

    def _deliver_next(self) -> RuntimeEvent:
        envelope = self._ready.popleft()
        id_, cursor = envelope.context.session_id or "", envelope.cursor or 0
        self.cursors[id_] = cursor
        match envelope.data:
            case ChildStarted() as started:
                self.cursors.setdefault(started.child_id, 0)
            case ChildEnded(outcome=outcome) as ended if outcome != "waiting":
                self._ends[ended.child_id] = ended.cursor
                self._forget_delivered(ended.child_id)
            case _:
                pass
        self._forget_delivered(id_)
        return envelope

    def _forget_delivered(self, id_: str) -> None:
        """Remove the cursor of a child that has been delivered up to its end."""
        if self.cursors.get(id_, 0) >= self._ends.get(id_, _NEVER):
            del self.cursors[id_], self._ends[id_]

    def _gather(self, *, waits: bool = False) -> bool:
        """Take up to about `AT_ONCE` available events from the members; return whether there are any."""
        while len(self._ready) < AT_ONCE and (envelope := self._take_next(waits=waits)) is not None:
            self._ready.append(envelope)
        return bool(self._ready)

    def _take_next(self, *, waits: bool) -> RuntimeEvent | None:
        """Take the next event of the youngest session that has one: a child's events come before its parent's next.

        The `child_ended` event comes after all events that the child had until then, which are already in the log.
        """
        for id_, member in reversed(list(self._members.items())):
            if (envelope := self._take_next_of(id_, member, waits=waits)) is not None:
                return envelope
            if member.is_over and member is not self._top:
                self._unfollow(id_)
        return None

    def _take_next_of(self, id_: str, member: _Member, *, waits: bool) -> RuntimeEvent | None:
        envelope = member.peek(waits=waits)
        if envelope is None:
            return None
        if isinstance(envelope.data, ChildEnded):
            child = self._members.get(envelope.data.child_id)
            if child is not None and child.cursor < envelope.data.cursor:
                before = self._take_next_of(envelope.data.child_id, child, waits=waits)
                if before is not None:
                    return before
        member.pop()
        self._track_child(id_, envelope)
        if member.has_ended:
            self._unfollow(id_)
        return envelope

    def _track_child(self, id_: str, envelope: RuntimeEvent) -> None:
        """Start to follow a child on `child_started`, and set its end on `child_ended`."""
        match envelope.data:
            case ChildStarted() as started if started.child_id not in self._members:
                self._members[started.child_id] = _Member(self._follow(started.child_id, 0), id_, 0)
            case ChildEnded(outcome=outcome) as ended if outcome != "waiting" and ended.child_id in self._members:
                child = self._members[ended.child_id]
                child.until = ended.cursor
                if child.has_ended:
                    self._unfollow(ended.child_id)
            case _:
                pass

    def _unfollow(self, id_: str) -> None:
        """Stop following a child that has ended, unless it has children that have not."""
        member = self._members[id_]
        if not any(one.parent == id_ for one in self._members.values()):
            del self._members[id_]
            member.leave()
            if member.parent is not None and member.parent in self._members and self._members[member.parent].has_ended:
                self._unfollow(member.parent)

    def _when_more(self, waiter: Waiter) -> Callable[[], object]:
        cancellers = [member.subscription.when_more(waiter) for member in self._members.values() if not member.is_over]

        def cancel() -> None:
            for cancel_one in cancellers:
                cancel_one()

        return cancel


class _Member:
    """A followed session; `cursor` is that of the last event taken from it."""

    def __init__(self, subscription: Followed, parent: str | None, cursor: int) -> None:
        self.parent = parent
        self.cursor = cursor
        self.until = _NEVER
        """The cursor of its last event."""
        self.subscription = subscription
        self._events: deque[RuntimeEvent] = deque()

    @property
    def has_ended(self) -> bool:
        return self.cursor >= self.until

    @property
    def is_over(self) -> bool:
        return not self._events and self.subscription.closed

    def peek(self, *, waits: bool) -> RuntimeEvent | None:
        """Return the next event if it is available, without removing it."""
        if not self._events:
            self._events.extend(self.subscription.gather(AT_ONCE, waits=waits))
        return self._events[0] if self._events else None

    def pop(self) -> None:
        self.cursor = self._events.popleft().cursor or 0

    def leave(self) -> None:
        self._events.clear()
        self.subscription.unsubscribe()


def cursors_of(session_id: object, after: object) -> dict[str, int]:
    """Return the cursors of the sessions to follow, from that of the top session or from those of several by id.

    Raises:
        InvalidInputError: a value is not a cursor, the top session is missing, or it is not given by its id.
    """
    check_id("session_id", session_id)
    if not isinstance(session_id, str):
        kind = type(session_id).__name__
        raise InvalidInputError(f"a stream with children follows one session, by its id, not {kind}; open one for each")
    if not is_mapping(after):
        return {session_id: check_cursor("`after`", after)}
    if session_id not in after:
        raise InvalidInputError(f"`after` names the cursor of each session; that of {session_id!r} is missing")
    return {check_text("an id in `after`", id_): check_cursor("`after`", cursor) for id_, cursor in after.items()}
