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
from reenact.client.asking import Batch, Head, read_envelope, read_head
from reenact.client.link import Follower, Link, Told
from reenact.client.thread import NAME, Buffer, reject, resolve
from reenact.domain.errors import ProtocolError, ReenactError, RuntimeClosedError, from_wire
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

    def hears(self, number: int, type: str, session_id: str | None) -> bool:  # noqa: A002 - the word users know it by
        """Return whether the event of this number is for the handler."""
        is_meanwhile = self.begin <= number < self._ended
        return is_meanwhile and self.type in (None, type) and self.session_id in (None, session_id)


_Call: TypeAlias = tuple[RemoteListener, int, Envelope]
"""A call to make: the handler, and the number and the envelope of the event."""


class Handlers:
    """The handlers of one remote runtime. Thread-safe."""

    _next = 0  # the number of the next event
    _thread: threading.Thread | None = None

    # Three kinds of threads meet here. Users' threads add and end handlers; the link's thread delivers events (`tell`)
    # and admits handlers; the handlers' own thread takes the events and calls the handlers. `_changed` protects the
    # listeners and the thread; waiting events are in a buffer with its own lock. Neither lock is held while a handler
    # runs. Events are numbered when they enter the buffer, on the link's thread, and leave it in that order. The
    # handlers' thread reads `_listeners` without the lock: the tuple is replaced as a whole. For handlers of an event
    # loop, a coroutine on that loop takes the events and calls the handlers, while the handlers' thread waits for it.

    def __init__(self, link: Link) -> None:
        self._link = link
        self._changed = threading.Lock()
        self._events: Buffer[tuple[int, str, str | None, bytes]] = Buffer(MOST, MOST_BYTES)
        self._listeners: tuple[RemoteListener, ...] = ()
        self._listening = Listening(link, self)
        self._events.on_room = partial(link.call, self._listening.go_on)

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
            self._link.call(self._listening.join, listener)
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

    def tell(self, type: str, session_id: str | None, event: bytes) -> bool:  # noqa: A002 - the word users know it by
        """Queue an event, or return False if there is no room for it; `Listening.go_on` is called when there is."""
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
            self._link.call(self._listening.quit, listener)
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
        """Yield the calls as events arrive. Yield None before a call on another loop, and when no event is waiting."""
        loop = None
        while True:
            found = self._events.look()
            if found is None:
                if self._events.is_done:
                    return
                yield None
                self._events.come(None)
                continue
            number, type_, session_id, event = found
            listeners = [one for one in self._listeners if one.hears(number, type_, session_id)]
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
                if listener.hears(number, type_, session_id):  # it may have ended meanwhile
                    yield listener, number, envelope


class Listening(Follower):
    """A subscription to all sessions for all handlers, which is replaced when a handler joins.

    A handler receives the events that are published after it joined, and all handlers have processed an event before
    any receives the next. So when a handler joins, a second subscription is opened, and the first is ended once the
    second is established. The new handler receives the events that both subscriptions deliver. Used on the
    link's thread.
    """

    _present: str | None = None
    _coming: str | None = None
    _stands = False  # the new subscription is established
    _relieves = False  # and the present one must still be ended

    def __init__(self, link: Link, handlers: Handlers) -> None:
        super().__init__(link)
        self._handlers = handlers
        self._members: dict[RemoteListener, None] = {}
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._joining: list[RemoteListener] = []
        self._entering: list[RemoteListener] = []  # the new subscription is for these
        self._of_present: list[tuple[Head, bytes]] = []
        self._of_coming: list[tuple[Head, bytes]] = []

    def join(self, joining: RemoteListener) -> None:
        """Add a handler."""
        self._members[joining] = None
        if self._full:  # dropped events are delivered later, also to this handler
            self._handlers.admit(joining)
            resolve(joining.standing, None)
        else:
            self._joining.append(joining)
        self._link.join(self)
        self._link.speak(self)

    def quit(self, joining: RemoteListener) -> None:
        """Remove a handler."""
        self._joining = [one for one in self._joining if one is not joining]
        self._entering = [one for one in self._entering if one is not joining]
        self._members.pop(joining, None)
        if not self._members:
            self._seen.clear()
        self._link.speak(self)

    def fail(self, error: ReenactError) -> None:
        """Fail the handlers that are joining, and end, because of an error."""
        self._drop()
        for joining in self._joining:
            reject(joining.standing, error)
        self._handlers.end(error)

    def leave(self) -> None:
        """Stop: the link is about to end."""
        self._left = True

    def say(self, welcome: Welcome) -> bytes | None:
        """Return the next frame; see `Follower.say`."""
        if self._left or self._later:
            return None
        if self._present is not None and (self._deaf or not self._members) and self._coming is None:
            present, self._present, self._deaf = self._present, None, False
            self._link.drop_id(present)
            return msgspec.json.encode(Unsubscribe(id=present))
        if self._present is not None and self._relieves:
            self._relieves = False
            return msgspec.json.encode(Unsubscribe(id=self._present))
        if self._coming is None and not self._full and (self._joining or (self._members and self._present is None)):
            return self._ask()
        return None

    def hear(self, told: Told) -> None:
        """Handle a frame, or one of its batches; see `Follower.hear`."""
        match told:
            case Batch():
                events = ((read_head(event), bytes(event)) for event in told.events)
                if told.id == self._coming:
                    self._of_coming.extend(events)
                elif self._coming is not None:
                    self._of_present.extend(events)
                else:
                    self._tell_all(events)
            case Subscribed():
                self._stand()
            case Ended() | Refused() if told.id == self._present and self._coming is not None:
                self._link.drop_id(told.id or "")
                self._present = None
                if self._stands:
                    self._switch()
            case Refused() if told.id == self._coming and told.code != RuntimeClosedError.code:
                self._refused(from_wire(told.code, told.message))
            case Ended() | Refused():
                self._drop()
                self._later = not (isinstance(told, Ended) and told.reason == _LAGGING)
                self._link.speak(self)
            case _:
                pass  # nothing is acknowledged here

    def _ask(self) -> bytes:
        """Return the frame of a new subscription; after a break, it begins where the last one stopped."""
        goes_on = self._present is None and len(self._members) > len(self._joining)
        self._entering, self._joining = self._joining, []
        self._coming = self._link.take_id(self)
        types = _names({joining.type for joining in self._members})
        sessions = _names({joining.session_id for joining in self._members})
        frame = Listen(
            id=self._coming,
            types=types,
            after=dict(self._seen) if goes_on else {},
            sessions=msgspec.UNSET if sessions is None else sessions,
        )
        return msgspec.json.encode(frame)

    def _stand(self) -> None:
        self._stands = True
        for joining in self._entering:
            resolve(joining.standing, None)
        if self._present is None:
            self._switch()
        else:
            self._relieves = True
        self._link.speak(self)

    def _switch(self) -> None:
        """Replace the present subscription, which has ended, by the new one."""
        present, coming = self._of_present, self._of_coming
        self._of_present, self._of_coming = [], []
        both = {head.id for head, _ in coming}
        self._present, self._coming, self._stands, self._relieves = self._coming, None, False, False
        self._tell_all((head, event) for head, event in present if head.id not in both)
        self._admit()
        self._tell_all(coming)
        self._link.speak(self)

    def _admit(self) -> None:
        entering, self._entering = self._entering, []
        for joining in entering:
            self._handlers.admit(joining)

    def _tell_all(self, events: Iterable[tuple[Head, bytes]]) -> None:
        for head, event in events:
            if self._deaf:
                return
            session_id, cursor = head.context.session_id, head.cursor
            if session_id is not None and cursor is not None and cursor <= self._seen.get(session_id, 0):
                continue
            if not self._handlers.tell(head.type, session_id, event):
                self._deaf = self._full = True
                self._link.speak(self)
                return
            if session_id is not None and cursor is not None:
                self._seen[session_id] = cursor
                self._seen.move_to_end(session_id)
                if len(self._seen) > SESSIONS:
                    self._seen.popitem(last=False)

    def _refused(self, error: ReenactError) -> None:
        refused, self._entering = self._entering, []
        self._coming, self._stands = None, False
        present, self._of_present, self._of_coming = self._of_present, [], []
        self._tell_all(present)
        for joining in refused:
            self._members.pop(joining, None)
            reject(joining.standing, error)
        if self._present is not None or not self._members:
            return
        if self._seen:  # perhaps a session was unknown to the server: go on without the missed events
            self._seen.clear()
            self._link.speak(self)
        else:
            self._later = True
            self._handlers.end(error)

    def _drop(self) -> None:
        """Release both ids, which deliver nothing more. Handlers whose `standing` is done are admitted."""
        for id_ in (self._present, self._coming):
            if id_ is not None:
                self._link.drop_id(id_)
        present, self._of_present, self._of_coming = self._of_present, [], []
        self._tell_all(present)
        if self._stands:
            self._admit()
        self._joining = [*self._entering, *self._joining]
        self._entering = []
        self._present = self._coming = None
        self._stands = self._relieves = self._deaf = False


def _names(wanted: set[str | None]) -> tuple[str, ...] | None:
    """Return the names, sorted, or None if everything is wanted."""
    return None if None in wanted else tuple(sorted(name for name in wanted if name is not None))
