"""Calls users' handlers with each published event, one event after the other.

One thread makes the calls, all those of an event before those of the next, so that an effect is never handled anywhere
before its cause. The calls come from one generator. A second thread stands by: when a handler has not returned within
`GRACE`, it goes on with the same generator, without that handler. The first thread then calls that handler alone until
it has caught up with what is published; from then on it is called with the others again.
"""

from __future__ import annotations

import inspect
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import islice
from typing import Any, Self, TypeAlias

import msgspec

from reenact.actors.feed.publications import Node, PublicationLog
from reenact.actors.feed.replay import stream_of
from reenact.actors.feed.waking import ANY_THREAD, Alarm
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, UnknownEventTypeError
from reenact.domain.messages import check_text
from reenact.domain.operations.table import CATALOGUE
from reenact.domain.stream.events import Envelope

logger = logging.getLogger("reenact.events")
Handler: TypeAlias = Callable[[Envelope[Any, Any]], object]
GRACE = 0.25
"""How long, in seconds, a handler may hold up the handlers of others."""
PATIENCE = 5.0
"""How long, in seconds, closing waits for handlers that do not return."""

_ALL = frozenset(CATALOGUE)


class Registration:
    """One registered handler. Call it, as often as you like, or leave its `with` block to end the registration."""

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
        self.topic = None if session_id is None else stream_of(session_id)
        self.begin = begin
        """The number of the first event that the handler is called with."""
        self.end: float = math.inf
        """The number of the first event that it is no longer called with."""
        self.alone = False
        """Whether a thread calls this handler alone, because it has held up the others."""

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


class _Handling(msgspec.Struct):
    """A call of a handler: which event it is about; None when it is over."""

    source: object
    number: int | None


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
"""A handler that is to be called, and the publication and number of the event that it is called with."""


class _ByType(dict[str, tuple[Registration, ...]]):
    """Registrations by the type of events that they are for; each type is looked up once."""

    def __init__(self, registrations: tuple[Registration, ...]) -> None:
        super().__init__()
        self.registrations = registrations

    def __missing__(self, type_: str) -> tuple[Registration, ...]:
        found = self[type_] = tuple(one for one in self.registrations if type_ in one.types)
        return found


class Handlers:
    """Calls handlers with what is published. Thread-safe."""

    def __init__(self, log: PublicationLog) -> None:
        self._log = log
        self._served = _ByType(())
        """Replaced as a whole, under the lock of the log; the thread that makes the calls reads it without a lock."""
        self._threads: set[threading.Thread] = set()
        self._alarm = Alarm()
        self._made = 0
        """How many calls were begun; the number of the last one."""
        self._under_way: dict[int, _Call] = {}
        """The present call by its number. Whoever pops it goes on with the generator: popping is atomic."""
        self._taking = threading.Lock()
        """Held while a call is taken away from the thread that makes it."""
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
        with self._log.lock:
            if self._log.closed:
                msg = "the runtime is closed; nothing more will be heard"
                raise RuntimeClosedError(msg)
            tail = self._log.tail
            number = handled(self)
            registration = Registration(
                self._end, type, handler, session_id, tail.end if number is None else number + 1
            )
            self._serve((*self._served.registrations, registration))
            if not self._threads:
                calls = self._calls(tail, 0)
                self._start(self._walk, calls)
                self._start(self._stand_by, calls)
        return registration

    def close(self) -> None:
        """Wait until the handlers were called with all that was published; the log is closed. Idempotent."""
        self._busy.set()
        if threading.current_thread() in self._threads:  # in a handler: the other calls are made when it returns
            return
        deadline = time.monotonic() + PATIENCE
        while alive := [thread for thread in tuple(self._threads) if thread.is_alive()]:  # one may bring on another
            alive[0].join(max(0.0, deadline - time.monotonic()))
            if time.monotonic() >= deadline:
                logger.warning("a handler has not returned within %s s; it is left behind", PATIENCE)
                return

    def _end(self, registration: Registration) -> int:
        """Serve the registration no more; return the number of the first event that its handler is not called with."""
        with self._log.lock:
            self._serve(tuple(other for other in self._served.registrations if other is not registration))
        number = handled(self)
        return 0 if number is None else number + 1

    def _serve(self, registrations: tuple[Registration, ...]) -> None:
        self._served = _ByType(registrations)
        types = frozenset[str]().union(*(one.types for one in registrations))
        topics = [one.topic for one in registrations if one.topic is not None]
        self._log.handle(types, frozenset(topics) if len(topics) == len(registrations) else None)

    def _start(self, work: Callable[[Iterator[_Call]], None], calls: Iterator[_Call]) -> None:
        def run() -> None:
            try:
                work(calls)
            finally:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="reenact-subscribers", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _calls(self, node: Node | None, index: int, alone: Registration | None = None) -> Iterator[_Call]:
        """Yield the calls from an event on, as events are published; those of one handler until it has caught up."""
        is_alone = alone is not None
        of_alone = None if alone is None else _ByType((alone,))
        while node is not None:
            wanted = None, node.chunk.session_id
            for number, type_ in islice(enumerate(node.chunk.types, node.begin), index, None):
                for one in self._served[type_] if of_alone is None else of_alone[type_]:
                    if one.alone is is_alone and one.begin <= number < one.end and one.session_id in wanted:
                        yield one, node, number
            index = 0
            node = (node.next or self._after(node)) if alone is None else self._after_alone(node, alone)

    def _after(self, node: Node) -> Node | None:
        """Wait for what comes next; None if nothing does."""
        self._log.reached = node.end
        self._busy.clear()
        while self._log.wait(ANY_THREAD, self._alarm.ring, node):
            self._alarm.wait(None)
        self._busy.set()
        return node.next

    def _after_alone(self, node: Node, alone: Registration) -> Node | None:
        with self._log.lock:
            if node.next is None or alone.end <= node.end:
                alone.begin = max(alone.begin, node.end)
                alone.alone = False
                return None
            return node.next

    def _walk(self, calls: Iterator[_Call]) -> None:
        """Make the calls, until nothing more comes or a handler takes too long; then go on with that one alone."""
        under_way = self._under_way
        for call in calls:
            self._made = number = self._made + 1
            under_way[number] = call
            self._make(call)
            if under_way.pop(number, None) is not None:
                del call  # it would keep all that is published behind it
                continue
            alone, node, event = call
            with self._taking:  # until the handler is marked as alone
                missed = self._calls(node, event + 1 - node.begin, alone)
            del call, node
            for late in missed:
                self._make(late)
                del late
            return
        self._done.set()
        self._busy.set()

    def _make(self, call: _Call) -> None:
        registration, node, number = call
        handle(self, number, registration.handler, node.chunk.envelope(number - node.begin))

    def _stand_by(self, calls: Iterator[_Call]) -> None:
        """Go on with the calls once one of them holds up the thread that makes them."""
        seen, times = 0, 0
        while not (times > 1 and self._take(seen)):
            self._busy.wait()
            if self._done.wait(GRACE / 2):
                return
            seen, times = self._made, times + 1 if seen == self._made else 0
        self._start(self._stand_by, calls)
        self._walk(calls)

    def _take(self, number: int) -> bool:
        """Take this call away from the thread that makes it, and leave the handler to that; False if it is over."""
        with self._taking:
            call = self._under_way.pop(number, None)
            if call is not None:
                call[0].alone = True
            return call is not None


def check_type(type_: object) -> str:
    """Return the name of a type of events, or raise `UnknownEventTypeError`."""
    if isinstance(type_, str) and type_ in CATALOGUE:
        return type_
    raise UnknownEventTypeError(type_, CATALOGUE)


def check_handler(handler: object) -> Handler:
    """Return what can be called with events, on a thread, or raise `InvalidInputError`."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):  # noqa: B004 - which of both it is
        name = getattr(handler, "__qualname__", type(handler).__name__)
        raise InvalidInputError(
            f"{name} is a coroutine function, which nobody would await; give a plain function, or use AsyncRuntime"
        )
    return check_callable(handler)


def check_callable(handler: object) -> Handler:
    """Return what can be called with events, and may have to be awaited then, or raise `InvalidInputError`."""
    if callable(handler):
        return handler
    msg = f"a handler is called with each event; {type(handler).__name__} cannot be called"
    raise InvalidInputError(msg)


def check_session(session_id: object) -> str | None:
    """Return the id of the session whose events a handler is for, None for all; or raise `InvalidInputError`."""
    return None if session_id is None else check_text("the session's id", session_id)
