"""The handlers of a remote runtime: the thread that calls them, and the subscription that they share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeAlias

import msgspec

from reenact.actors.feed.handlers import REST, Handler, handle, handle_on_loop, handled, run_on
from reenact.client.asking import Batch, Head, encoded, read_envelope, read_head
from reenact.client.link import Follower, FollowerFrame, Link
from reenact.client.thread import NAME, Buffer, reject, resolve
from reenact.domain.errors import ProtocolError, ReenactError, RuntimeClosedError, StorageError, from_wire
from reenact.domain.stream.events import Envelope
from reenact.domain.stream.frames import Ended, Listen, Refused, Subscribed, Unsubscribe, Welcome

MOST = 10_000
MOST_BYTES = 32 * 1024 * 1024
"""Events, and bytes of them, that may wait for handlers; the server is asked for more when there is room again."""
PATIENCE = 2.0
"""Seconds that closing waits for handlers."""
_LAGGING = "lagging"
"""The reason with which a slow subscription ends, after which it can begin at once; others wait for a connection."""
SESSIONS = 1000
"""The number of sessions whose last cursor is remembered; those with the latest events."""
_log = logging.getLogger("reenact.events")


@dataclass(eq=False)
class RemoteListener:
    """One handler. To end it, call it, or leave its `with` block. Idempotent.

    It receives events of one type and of one session, or of all where that is None.
    """

    type: str | None
    handler: Handler
    session_id: str | None
    loop: asyncio.AbstractEventLoop | None
    """The event loop on which the handler is called and awaited; None if it is called on a thread."""
    _end: Callable[[RemoteListener], int]
    begin: float = math.inf
    """The number of the first event for this handler."""
    _ended: float = math.inf
    """The number of the first event that the handler does not receive any more."""

    def __post_init__(self) -> None:
        self.standing: Future[None] = Future()
        """Done once the handler receives all events published from then on."""

    def __call__(self) -> None:
        self._ended = min(self._ended, self._end(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self()

    def wants(self, number: int, type: str, session_id: str | None) -> bool:  # noqa: A002 - the word users know it by
        """Return whether the event of this number is for the handler."""
        is_meanwhile = self.begin <= number < self._ended
        return is_meanwhile and self.type in (None, type) and self.session_id in (None, session_id)


_Call: TypeAlias = tuple[RemoteListener, int, Envelope]
"""A call to make: the handler, and the number and the envelope of the event."""


class Handlers:
    """The handlers of one remote runtime. Thread-safe."""

    _next = 0  # the number of the next event
    _thread: threading.Thread | None = None

    # Three kinds of threads meet here. Users' threads add and end handlers; the link's thread delivers events
    # (`deliver`) and admits handlers; the handlers' own thread takes the events and calls the handlers. `_changed`
    # protects the listeners and the thread; waiting events are in a buffer with its own lock. Neither lock is held
    # while a handler runs. Events are numbered when they enter the buffer, on the link's thread, and leave it in that
    # order. The handlers' thread reads `_listeners` without the lock: the tuple is replaced as a whole. For handlers of
    # an event loop, a coroutine on that loop takes the events and calls the handlers, while the handlers' thread waits
    # for it.

    def __init__(self, link: Link) -> None:
        self._link = link
        self._changed = threading.Lock()
        self._events: Buffer[tuple[int, str, str | None, bytes]] = Buffer(MOST, MOST_BYTES)
        self._listeners: tuple[RemoteListener, ...] = ()
        self._follower = HandlersFollower(link, self)
        self._events.on_room = partial(link.call, self._follower.resume)

    def add(
        self,
        type: str | None,  # noqa: A002 - the word users know it by
        handler: Handler,
        session_id: str | None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> RemoteListener:
        """Add a handler; it receives events once its `standing` is done.

        Raises:
            RuntimeClosedError: the runtime is closed.
        """
        listener = RemoteListener(type, handler, session_id, loop, self._end)
        with self._changed:  # also keeps the link's thread from admitting it too soon
            self._link.call(self._follower.add, listener)
            self._listeners = (*self._listeners, listener)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"{NAME}-handlers", daemon=True)
                self._thread.start()
        return listener

    def close(self) -> None:
        """Let the handlers process the waiting events, within a time limit, then end. Idempotent."""
        self._events.end(None)
        with self._changed:
            thread = self._thread
        if thread is None or thread is threading.current_thread() or handled(self) is not None:
            return  # in a handler: the other calls are made when it returns
        thread.join(PATIENCE)
        self._events.close()
        thread.join(PATIENCE)
        if thread.is_alive():
            _log.warning("a handler has not returned within %s s; it is abandoned", 2 * PATIENCE)

    def deliver(self, type: str, session_id: str | None, event: bytes) -> bool:  # noqa: A002 - the word users know it by
        """Queue an event, or return False if there is no room for it; `resume` is called when there is."""
        has_room = self._events.offer((self._next, type, session_id, event), len(event))
        self._next += has_room
        return has_room

    def admit(self, listener: RemoteListener) -> None:
        """Deliver events to the handler from the next one on."""
        with self._changed:
            listener.begin = self._next

    def end(self, error: ReenactError) -> None:
        """Note that no more events come, and log the error that is the reason."""
        if not isinstance(error, RuntimeClosedError):
            _log.error("handlers receive no more events: %s", error)

    def _end(self, listener: RemoteListener) -> int:
        """Remove the handler; return the number of the first event that it does not receive."""
        with self._changed:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
        with contextlib.suppress(RuntimeClosedError):
            self._link.call(self._follower.remove, listener)
        number = handled(self)
        return 0 if number is None else number + 1

    def _run(self) -> None:
        calls = self._calls()
        for call in calls:
            if call is None:
                continue
            listener, number, envelope = call
            if listener.loop is None:
                handle(self, number, listener.handler, envelope)
            else:
                self._hand_over(listener.loop, call, calls)

    def _hand_over(self, loop: asyncio.AbstractEventLoop, call: _Call, calls: Iterator[_Call | None]) -> None:
        """Make calls on the loop, and wait until they have been made."""
        try:
            run_on(loop, self._run_on(call, calls))
        except CancelledError:  # an exception of the handler has been logged
            pass
        except RuntimeError:
            _log.exception("handlers whose event loop was closed are no longer called")
            for listener in self._listeners:
                if listener.loop is loop:
                    listener()

    async def _run_on(self, call: _Call | None, calls: Iterator[_Call | None]) -> None:
        while call is not None:
            listener, number, envelope = call
            if number % REST == 0:
                await asyncio.sleep(0)
            await handle_on_loop(self, number, listener.handler, envelope)
            call = next(calls, None)

    def _calls(self) -> Iterator[_Call | None]:
        """Yield calls as events arrive. Yield None before a call on another loop, and when no event is waiting."""
        loop = None
        while True:
            found = self._events.pop()
            if found is None:
                if self._events.is_done:
                    return
                yield None
                self._events.wait(None)
                continue
            number, type_, session_id, event = found
            listeners = [one for one in self._listeners if one.wants(number, type_, session_id)]
            if not listeners:
                continue
            try:
                envelope = read_envelope(event, type_)
            except ProtocolError:
                _log.exception("an event of the type %r could not be read", type_)
                continue
            for listener in listeners:
                if listener.loop is not loop:
                    loop = listener.loop
                    yield None
                if listener.wants(number, type_, session_id):  # it may have ended meanwhile
                    yield listener, number, envelope


class HandlersFollower(Follower):
    """A subscription to all sessions for all handlers, which is replaced when a handler joins.

    A handler receives the events that are published after it joined, and all handlers have processed an event before
    any receives the next. So when a handler joins, a second subscription is opened, and the first is ended once the
    second is established. The new handler receives the events that both subscriptions deliver. Used on the
    link's thread.
    """

    _current: str | None = None
    _pending: str | None = None
    _is_established = False  # the new subscription is established
    _must_end_current = False  # and the current one must still be ended

    def __init__(self, link: Link, handlers: Handlers) -> None:
        super().__init__(link)
        self._handlers = handlers
        self._members: dict[RemoteListener, None] = {}
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._joining: list[RemoteListener] = []
        self._entering: list[RemoteListener] = []  # the new subscription is for these
        self._current_events: list[tuple[Head, bytes]] = []
        self._pending_events: list[tuple[Head, bytes]] = []

    def add(self, joining: RemoteListener) -> None:
        """Add a handler."""
        self._members[joining] = None
        if self._is_full:  # dropped events are delivered later, also to this handler
            self._handlers.admit(joining)
            resolve(joining.standing, None)
        else:
            self._joining.append(joining)
        self._link.add(self)
        self._link.queue_sender(self)

    def remove(self, joining: RemoteListener) -> None:
        """Remove a handler."""
        self._joining = [one for one in self._joining if one is not joining]
        self._entering = [one for one in self._entering if one is not joining]
        self._members.pop(joining, None)
        if not self._members:
            self._seen.clear()
        self._link.queue_sender(self)

    def fail(self, error: ReenactError) -> None:
        """Fail the handlers that are joining, and end, because of an error."""
        self._drop()
        for joining in self._joining:
            reject(joining.standing, error)
        self._handlers.end(error)

    def leave(self) -> None:
        """Stop: the link is about to end."""
        self._has_left = True

    def next_frame(self, welcome: Welcome) -> bytes | None:
        """Return the next frame; see `Follower.next_frame`."""
        if self._has_left or self._is_postponed:
            return None
        if self._current is not None and (self._drops_events or not self._members) and self._pending is None:
            current, self._current, self._drops_events = self._current, None, False
            self._link.drop_id(current)
            return encoded(Unsubscribe(id=current))
        if self._current is not None and self._must_end_current:
            self._must_end_current = False
            return encoded(Unsubscribe(id=self._current))
        if self._pending is None and not self._is_full and (self._joining or (self._members and self._current is None)):
            return self._ask()
        return None

    def handle(self, frame: FollowerFrame) -> None:
        """Handle a frame, or one of its batches; see `Follower.handle`."""
        match frame:
            case Batch():
                events = ((read_head(event), bytes(event)) for event in frame.events)
                if frame.id == self._pending:
                    self._pending_events.extend(events)
                elif self._pending is not None:
                    self._current_events.extend(events)
                else:
                    self._deliver_all(events)
            case Subscribed():
                self._establish()
            case Ended() | Refused() if frame.id == self._current and self._pending is not None:
                self._link.drop_id(frame.id or "")
                self._current = None
                if self._is_established:
                    self._switch()
            case Refused() if frame.id == self._pending and frame.code != RuntimeClosedError.code:
                self._refused(from_wire(frame.code, frame.message))
            case Ended() | Refused():
                self._drop()
                self._is_postponed = not (isinstance(frame, Ended) and frame.reason == _LAGGING)
                self._link.queue_sender(self)
            case _:
                pass  # nothing is acknowledged here

    def _ask(self) -> bytes:
        """Return the frame of a new subscription; after a break, it begins where the last one stopped."""
        goes_on = self._current is None and len(self._members) > len(self._joining)
        self._entering, self._joining = self._joining, []
        self._pending = self._link.take_id(self)
        types = _names({joining.type for joining in self._members})
        sessions = _names({joining.session_id for joining in self._members})
        frame = Listen(
            id=self._pending,
            types=types,
            after=dict(self._seen) if goes_on else {},
            sessions=msgspec.UNSET if sessions is None else sessions,
        )
        return encoded(frame)

    def _establish(self) -> None:
        self._is_established = True
        for joining in self._entering:
            resolve(joining.standing, None)
        if self._current is None:
            self._switch()
        else:
            self._must_end_current = True
        self._link.queue_sender(self)

    def _switch(self) -> None:
        """Replace the current subscription, which has ended, by the new one."""
        current, pending = self._current_events, self._pending_events
        self._current_events, self._pending_events = [], []
        both = {head.id for head, _ in pending}
        self._current, self._pending, self._is_established, self._must_end_current = self._pending, None, False, False
        self._deliver_all((head, event) for head, event in current if head.id not in both)
        self._admit()
        self._deliver_all(pending)
        self._link.queue_sender(self)

    def _admit(self) -> None:
        entering, self._entering = self._entering, []
        for joining in entering:
            self._handlers.admit(joining)

    def _deliver_all(self, events: Iterable[tuple[Head, bytes]]) -> None:
        for head, event in events:
            if self._drops_events:
                return
            session_id, cursor = head.context.session_id, head.cursor
            if session_id is not None and cursor is not None and cursor <= self._seen.get(session_id, 0):
                continue
            if not self._handlers.deliver(head.type, session_id, event):
                self._drops_events = self._is_full = True
                self._link.queue_sender(self)
                return
            if session_id is not None and cursor is not None:
                self._seen[session_id] = cursor
                self._seen.move_to_end(session_id)
                if len(self._seen) > SESSIONS:
                    self._seen.popitem(last=False)

    def _refused(self, error: ReenactError) -> None:
        refused, self._entering = self._entering, []
        self._pending, self._is_established = None, False
        current, self._current_events, self._pending_events = self._current_events, [], []
        self._deliver_all(current)
        for joining in refused:
            self._members.pop(joining, None)
            reject(joining.standing, error)
        if self._current is not None or not self._members:
            return
        if isinstance(error, StorageError):
            self.retry_later()
        elif self._seen:  # perhaps a session was unknown to the server: go on without the missed events
            self._seen.clear()
            self._link.queue_sender(self)
        else:
            self._is_postponed = True
            self._handlers.end(error)

    def _drop(self) -> None:
        """Release both ids, which deliver nothing more. Handlers whose `standing` is done are admitted."""
        for id_ in (self._current, self._pending):
            if id_ is not None:
                self._link.drop_id(id_)
        current, self._current_events, self._pending_events = self._current_events, [], []
        self._deliver_all(current)
        if self._is_established:
            self._admit()
        self._joining = [*self._entering, *self._joining]
        self._entering = []
        self._current = self._pending = None
        self._is_established = self._must_end_current = self._drops_events = False


def _names(wanted: set[str | None]) -> tuple[str, ...] | None:
    """Return the names, sorted, or None if everything is wanted."""
    return None if None in wanted else tuple(sorted(name for name in wanted if name is not None))
