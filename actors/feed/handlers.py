"""Handlers: functions that are called with each event of the line, one event after the other.

One thread walks along the line and calls the handlers of each event before it goes on to the next, so that an effect is
never handled anywhere before its cause. The walk is an iterator over calls. Another thread stands by: when a handler
has not returned within `GRACE`, it goes on with the same iterator, without that handler. The thread that was held up
goes on with that handler alone, until it has caught up with the line; then it is served with the others again.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final, Self, TypeAlias

from reenact.actors.feed.line import Line, Node
from reenact.actors.feed.waking import THREADS, Alarm
from reenact.domain.commands import CATALOGUE
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, UnknownEventTypeError
from reenact.domain.events import Envelope
from reenact.domain.messages import check_text

logger = logging.getLogger("reenact.events")
Handler: TypeAlias = Callable[[Envelope], object]
GRACE: Final = 0.25
"""How long, in seconds, a handler may hold up the handlers of others."""
PATIENCE: Final = 5.0
"""How long, in seconds, closing waits for handlers that do not return."""

_ALL: Final = frozenset(CATALOGUE)


class Registration:
    """One handler and what it has yet to hear. Call it, as often as you like, or leave its `with` block to end it."""

    def __init__(
        self,
        end: Callable[[Registration], int],
        type: str | None,  # noqa: A002 - the word users know it by
        handler: Handler,
        session_id: str | None,
        begin: int,
    ) -> None:
        self._end = end
        self.handler = handler
        self.types = _ALL if type is None else frozenset((type,))
        self.session_id = session_id
        self.begin = begin
        """The number of the first event that it hears."""
        self.end: float = math.inf
        """The number of the first event that it does not hear any more."""
        self.alone = False
        """Whether a thread calls this handler alone, since it has held up the others."""

    def __call__(self) -> None:
        self.end = min(self.end, self._end(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self()

    @property
    def active(self) -> bool:
        """Whether nobody has ended it."""
        return self.end == math.inf

    def hears(self, node: Node, index: int) -> bool:
        """Return whether the handler is for this event."""
        within = self.begin <= node.begin + index < self.end
        return within and node.chunk.types[index] in self.types and self.session_id in (None, node.chunk.session_id)


class _Handling:
    """A call of a handler: which event it is about; None when it is over."""

    def __init__(self, source: object, number: int) -> None:
        self.source = source
        self.number: int | None = number


_handling: ContextVar[_Handling | None] = ContextVar("_handling", default=None)
"""The present call, also in a coroutine: it is scheduled from the handlers' thread, and has a copy of its context."""


def handle(source: object, number: int, handler: Handler, envelope: Envelope) -> None:
    """Call the handler with the event of this number of the source; what it raises is logged."""
    handling = _Handling(source, number)
    _handling.set(handling)
    try:
        handler(envelope)
    except BaseException:  # a handler is a stranger's code: nothing that it raises may harm anybody else
        logger.exception("a handler of %r raised; the event was %s", envelope.type, envelope.id)
    finally:
        handling.number = None


def handled(source: object) -> int | None:
    """Return the number of the source's event that is being handled, if this is called in a handler."""
    handling = _handling.get()
    return handling.number if handling is not None and handling.source is source else None


_Call: TypeAlias = tuple[Registration, Node, int]
"""A handler that is to be called, and where in the line the event is that it is called with."""


class Handlers:
    """Calls handlers with what comes to the line. Thread-safe."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._registrations: tuple[Registration, ...] = ()
        self._by_type: dict[str, tuple[Registration, ...]] = {}
        self._threads: set[threading.Thread] = set()
        self._alarm = Alarm()
        self._under_way: _Call | None = None
        """The call that the walk is at; whoever takes it away goes on with the walk."""
        self._since = 0.0
        """When it began."""
        self._taking = threading.Lock()
        self._busy = threading.Event()
        self._done = threading.Event()

    def add(
        self,
        type: str | None,  # noqa: A002 - the word users know it by
        handler: Handler,
        session_id: str | None = None,
    ) -> Registration:
        """Call the handler with each event of the type (all, if None), of the session (any, if None), from now on.

        What is added or ended inside a handler is so from the event after the one being handled.

        Raises:
            UnknownEventTypeError: the type is not in the catalogue.
            InvalidInputError: the handler cannot be called, or no session can have this id.
            RuntimeClosedError: the runtime is closed.
        """
        if type is not None:
            check_type(type)
        check_handler(handler)
        check_session(session_id)
        with self._line.lock:
            if self._line.closed:
                msg = "the runtime is closed; nothing more will be heard"
                raise RuntimeClosedError(msg)
            tail = self._line.tail
            number = handled(self)
            registration = Registration(
                self._end, type, handler, session_id, tail.end if number is None else number + 1
            )
            self._serve((*self._registrations, registration))
            if not self._threads:
                calls = self._calls(tail, 0)
                self._start(self._walk, calls)
                self._start(self._stand_by, calls)
        return registration

    def close(self) -> None:
        """Wait until the handlers have heard what came to the line, which is closed. Idempotent."""
        self._busy.set()
        if threading.current_thread() in self._threads:  # in a handler: what is left is heard when it returns
            return
        deadline = time.monotonic() + PATIENCE
        while alive := [thread for thread in tuple(self._threads) if thread.is_alive()]:  # one may bring on another
            alive[0].join(max(0.0, deadline - time.monotonic()))
            if time.monotonic() >= deadline:
                logger.warning("a handler has not returned within %s s; it is left behind", PATIENCE)
                return

    def _end(self, registration: Registration) -> int:
        """Serve the registration no more; return the number of the first event that it does not hear."""
        with self._line.lock:
            self._serve(tuple(other for other in self._registrations if other is not registration))
        number = handled(self)
        return 0 if number is None else number + 1

    def _serve(self, registrations: tuple[Registration, ...]) -> None:
        self._registrations = registrations
        self._by_type = {}
        self._line.handled = frozenset[str]().union(*(one.types for one in registrations))

    def _listeners(self, type_: str) -> tuple[Registration, ...]:
        by_type = self._by_type
        found = by_type.get(type_)
        if found is None:  # kept with the registrations it was found among: `_serve` puts a new table in its place
            found = by_type[type_] = tuple(one for one in self._registrations if type_ in one.types)
        return found

    def _start(self, work: Callable[[Iterator[_Call]], None], calls: Iterator[_Call]) -> None:
        def run() -> None:
            try:
                work(calls)
            finally:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="reenact-subscribers", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _calls(self, node: Node, index: int, alone: Registration | None = None) -> Iterator[_Call]:
        """Yield the calls from an event on, as it comes; those of one handler until it has caught up with the line."""
        following: Node | None = node
        while following is not None:
            node = following
            for place in range(index, len(node.chunk.types)):
                for one in self._listeners(node.chunk.types[place]) if alone is None else (alone,):
                    if one.alone is (alone is not None) and one.hears(node, place):
                        yield one, node, place
            index = 0
            following = self._after(node) if alone is None else self._after_alone(node, alone)

    def _after(self, node: Node) -> Node | None:
        """Wait for what comes next; None if nothing does."""
        while node.next is None:
            self._line.reached = node.end
            self._busy.clear()
            if not self._line.wait(THREADS, self._alarm.ring, node):
                break
            self._alarm.wait(None)
        return node.next

    def _after_alone(self, node: Node, alone: Registration) -> Node | None:
        with self._line.lock:
            if node.next is None or alone.end <= node.end:
                alone.begin = max(alone.begin, node.end)
                alone.alone = False
                return None
            return node.next

    def _walk(self, calls: Iterator[_Call]) -> None:
        """Make the calls, until the line ends or a handler takes too long; then go on with that one alone."""
        for call in calls:
            self._since, self._under_way = time.monotonic(), call
            if not self._busy.is_set():
                self._busy.set()
            self._make(call)
            with self._taking:
                if self._under_way is call:
                    self._under_way = None
                    del call  # it would keep all that comes behind it in the line
                    continue
            alone, node, index = call
            missed = self._calls(node, index + 1, alone)
            del call, node
            for late in missed:
                self._make(late)
                del late
            return
        self._done.set()
        self._busy.set()

    def _make(self, call: _Call) -> None:
        registration, node, index = call
        handle(self, node.begin + index, registration.handler, node.chunk.envelope(index))

    def _stand_by(self, calls: Iterator[_Call]) -> None:
        """Go on with the calls once one of them holds up the thread that makes them."""
        while not self._take():
            self._busy.wait()
            if self._done.wait(GRACE / 2):
                return
        self._start(self._stand_by, calls)
        self._walk(calls)

    def _take(self) -> bool:
        """Take the walk away from a thread that a handler holds up, and leave that to it."""
        with self._taking:
            if self._under_way is None or time.monotonic() - self._since < GRACE:
                return False
            self._under_way[0].alone = True
            self._under_way = None
            return True


def check_type(type_: object) -> str:
    """Return the name of a type of events, or raise `UnknownEventTypeError`."""
    if isinstance(type_, str) and type_ in CATALOGUE:
        return type_
    raise UnknownEventTypeError(type_, CATALOGUE)


def check_handler(handler: object) -> Handler:
    """Return what can be called with events, or raise `InvalidInputError`."""
    if callable(handler):
        return handler
    msg = f"a handler is called with each event; {type(handler).__name__} cannot be called"
    raise InvalidInputError(msg)


def check_session(session_id: object) -> str | None:
    """Return the id of the session whose events are to be heard, None for all; or raise `InvalidInputError`."""
    return None if session_id is None else check_text("the session's id", session_id)
