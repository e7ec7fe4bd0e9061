"""Calls users' handlers with published events, one event after the other.

One thread makes the calls, all those for an event before those for the next, so that no handler gets an effect before
its cause. The calls come from one generator. A second thread stands by: when a handler has not returned within `GRACE`,
it continues with the same generator, without that handler. The first thread then calls only that handler, until it has
caught up with what is published; from then on it is called with the others again.

Handlers of asyncio callers run on their event loop: a coroutine there makes consecutive calls on this loop, while the
thread waits for it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, wait
from contextvars import ContextVar
from itertools import islice
from types import CoroutineType
from typing import Any, Self, TypeAlias, TypeVar

import msgspec

from reenact.actors.feed.publications import Node, PublicationLog
from reenact.actors.feed.replay import stream_of
from reenact.actors.feed.waking import ANY_THREAD, Alarm
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, UnknownEventTypeError
from reenact.domain.messages import check_text
from reenact.domain.operations.table import CATALOGUE
from reenact.domain.stream.events import Envelope

logger = logging.getLogger("reenact.events")
T = TypeVar("T")
Handler: TypeAlias = Callable[[Envelope[Any, Any]], object]
GRACE = 0.25
"""Seconds that a handler may delay the other handlers."""
PATIENCE = 5.0
"""Seconds that closing waits for handlers that do not return."""
REST = 1024
"""Number of consecutive calls on an event loop after which other tasks get a turn."""
LOOKS = 0.25
"""Seconds between checks, by a thread that waits for an event loop, whether the loop is still open."""

_ALL = frozenset(CATALOGUE)


class Registration:
    """A registered handler. Call it, any number of times, or leave its `with` block, to end the registration."""

    def __init__(
        self,
        end: Callable[[Registration], int],
        type: str | None,  # noqa: A002 - the word users know it by
        handler: Handler,
        session_id: str | None,
        *,
        begin: int,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self._remove = end
        self.handler = handler
        self.loop = loop
        """The event loop on which the handler is called and awaited; None if it is called on a thread."""
        self.types = _ALL if type is None else frozenset((type,))
        self.session_id = session_id
        self.topic = None if session_id is None else stream_of(session_id)
        self.begin = begin
        """The number of the first event for which the handler is called."""
        self.end: float = math.inf
        """The number of the first event for which it is no longer called."""
        self.alone = False
        """Whether a thread calls only this handler, because it has delayed the others."""

    def __call__(self) -> None:
        self.end = min(self.end, self._remove(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self()

    @property
    def active(self) -> bool:
        """Whether the registration has not been ended."""
        return self.end == math.inf


class _Handling(msgspec.Struct):
    """A call of a handler, with the number of its event; None when the call is over."""

    source: object
    number: int | None


_handling: ContextVar[_Handling | None] = ContextVar("_handling", default=None)
"""The current call, also in tasks and threads that a handler starts with a copy of its context."""


def handle(source: object, number: int, handler: Handler, envelope: Envelope) -> None:
    """Call the handler with the event of this number in the source; log what it raises."""
    handling = _Handling(source, number)
    _handling.set(handling)
    try:
        handler(envelope)
    except BaseException:  # a handler is foreign code: its exceptions must not affect anything else
        logger.exception(_RAISED, envelope.type, envelope.id)
    finally:
        handling.number = None


_RAISED = "a handler of %r raised; the event was %s"


async def handle_on_loop(source: object, number: int, handler: Handler, envelope: Envelope) -> None:
    """Call the handler as `handle` does and await its result. Raises `CancelledError` if the task was cancelled."""
    handling = _Handling(source, number)
    _handling.set(handling)
    try:
        result = handler(envelope)
        if result is not None and (type(result) is CoroutineType or inspect.isawaitable(result)):
            await result
    except GeneratorExit:  # the loop is closed
        raise
    except BaseException:  # as in `handle`
        logger.exception(_RAISED, envelope.type, envelope.id)
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from None
    finally:
        handling.number = None


def run_on(loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, T]) -> T:
    """Run the coroutine on the loop, and block until it is done; raise `RuntimeError` if the loop is closed."""
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()
        raise
    while not future.done():
        wait((future,), timeout=LOOKS)
        if loop.is_closed() and not future.done():  # it was closed before the coroutine could run
            future.cancel()
            work.close()
            raise RuntimeError("the event loop was closed while a handler was to run on it")
    return future.result()


def handled(source: object) -> int | None:
    """Return the number of the source's event that is being handled, if called within a handler; else None."""
    handling = _handling.get()
    return handling.number if handling is not None and handling.source is source else None


_Call: TypeAlias = tuple[Registration, Node, int]
"""A handler to call, with the publication and the number of the event."""
_Calls: TypeAlias = Iterator[_Call | None]


class _CurrentCall(msgspec.Struct):
    """The number of the current call of a walk on an event loop, and the call itself until it is made."""

    number: int
    call: tuple[Registration, Node, int] | None


class _ByType(dict[str, tuple[Registration, ...]]):
    """Registrations by event type, found once for each type."""

    def __init__(self, registrations: tuple[Registration, ...]) -> None:
        super().__init__()
        self.registrations = registrations

    def __missing__(self, type_: str) -> tuple[Registration, ...]:
        found = self[type_] = tuple(one for one in self.registrations if type_ in one.types)
        return found


class Handlers:
    """Calls handlers with published events. Thread-safe."""

    def __init__(self, log: PublicationLog) -> None:
        self._log = log
        self._by_type = _ByType(())
        """Replaced as a whole, under the lock of the log; the calling thread reads it without a lock."""
        self._threads: set[threading.Thread] = set()
        self._alarm = Alarm()
        self._calls_begun = 0
        """The number of calls begun, which is the number of the last one."""
        self._under_way: dict[int, _Call] = {}
        """The current call by its number. The thread that pops it continues with the generator: popping is atomic."""
        self._take_over_lock = threading.Lock()
        """Held while a call is taken over from the thread that makes it."""
        self._busy = threading.Event()
        self._busy.set()  # events may be published before the calling thread waits for the first time
        self._ended = threading.Event()

    def add(
        self,
        type: str | None,  # noqa: A002 - the word users know it by
        handler: Handler,
        session_id: str | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Registration:
        """Call the handler with each event of the type (None: any) and of the session (None: any), from now on.

        With an event loop, it may be a coroutine function. A registration added or ended within a handler takes effect
        with the event after the current one.

        Raises:
            UnknownEventTypeError: the type is not in the catalogue.
            InvalidInputError: the handler is not callable, or the session id is invalid.
            RuntimeClosedError: the runtime is closed.
        """
        if type is not None:
            check_type(type)
        (check_handler if loop is None else check_callable)(handler)
        check_session(session_id)
        with self._log.lock:
            if self._log.closed:
                msg = "the runtime is closed; it delivers no more events"
                raise RuntimeClosedError(msg)
            tail = self._log.tail
            number = handled(self)
            begin = tail.end if number is None else number + 1
            registration = Registration(self._remove, type, handler, session_id, begin=begin, loop=loop)
            self._set_registrations((*self._by_type.registrations, registration))
            if not self._threads:
                calls = self._calls(tail, 0)
                self._start(self._make_calls, calls)
                self._start(self._watch_for_slow_handler, calls)
        return registration

    def close(self) -> None:
        """Wait until the handlers have been called for everything published; the log is closed. Idempotent."""
        self._busy.set()
        if threading.current_thread() in self._threads or handled(self) is not None:
            return  # called within a handler: the other calls are made when it returns
        deadline = time.monotonic() + PATIENCE
        while alive := [thread for thread in tuple(self._threads) if thread.is_alive()]:  # one thread may start another
            alive[0].join(max(0.0, deadline - time.monotonic()))
            if time.monotonic() >= deadline:
                logger.warning("a handler has not returned within %s s; it is abandoned", PATIENCE)
                return

    def _remove(self, registration: Registration) -> int:
        """Remove the registration; return the number of the first event for which its handler is no longer called."""
        with self._log.lock:
            self._set_registrations(tuple(other for other in self._by_type.registrations if other is not registration))
        number = handled(self)
        return 0 if number is None else number + 1

    def _set_registrations(self, registrations: tuple[Registration, ...]) -> None:
        self._by_type = _ByType(registrations)
        types = frozenset[str]().union(*(one.types for one in registrations))
        topics = [one.topic for one in registrations if one.topic is not None]
        self._log.handle(types, frozenset(topics) if len(topics) == len(registrations) else None)

    def _start(self, work: Callable[[_Calls], None], calls: _Calls) -> None:
        def run() -> None:
            try:
                work(calls)
            finally:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="reenact-subscribers", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _calls(self, node: Node | None, index: int, alone: Registration | None = None) -> _Calls:
        """Yield the calls from an event on, as events are published; with `alone`, its calls until it has caught up.

        Yields None in between if the next call is on another loop, or not available yet.
        """
        loop = None
        is_alone = alone is not None
        of_alone = None if alone is None else _ByType((alone,))
        while node is not None:
            wanted = None, node.chunk.session_id
            for number, type_ in islice(enumerate(node.chunk.types, node.begin), index, None):
                for one in self._by_type[type_] if of_alone is None else of_alone[type_]:
                    if one.alone is is_alone and one.begin <= number < one.end and one.session_id in wanted:
                        if one.loop is not loop:
                            loop = one.loop
                            yield None
                        yield one, node, number
            index = 0
            if alone is not None:
                node = self._next_for_slow_handler(node, alone)
            elif node.next is not None:
                node = node.next
            else:
                if loop is not None:
                    yield None
                node = self._wait_for_next(node)

    def _wait_for_next(self, node: Node) -> Node | None:
        """Wait for the next publication; return None if there will be none."""
        self._log.reached = node.end
        self._busy.clear()
        while self._log.wait(ANY_THREAD, self._alarm.ring, node):
            self._alarm.wait(None)
        self._busy.set()
        return node.next

    def _next_for_slow_handler(self, node: Node, alone: Registration) -> Node | None:
        with self._log.lock:
            if node.next is None or alone.end <= node.end:
                alone.begin = max(alone.begin, node.end)
                alone.alone = False
                return None
            return node.next

    def _make_calls(self, calls: _Calls) -> None:
        """Make the calls, until no more come or a handler takes too long; then continue with that handler alone."""
        # The code for each call is repeated in `_make_calls_on_loop` for speed: there is a call for each delta.
        under_way = self._under_way
        for call in calls:
            if call is None:
                continue
            self._calls_begun = made = self._calls_begun + 1
            under_way[made] = call
            registration, node, number = call
            if registration.loop is not None:
                current = _CurrentCall(made, call)
                del call, node
                if self._run_calls_on_loop(registration.loop, current, calls):
                    continue
                return
            handle(self, number, registration.handler, node.chunk.envelope(number - node.begin))
            if under_way.pop(made, None) is not None:
                del call, node  # they would keep everything published after them in memory
                continue
            missed = self._calls_missed(call)
            del call, node
            for registration, node, number in missed:
                handle(self, number, registration.handler, node.chunk.envelope(number - node.begin))
                del node
            return
        self._ended.set()
        self._busy.set()

    def _run_calls_on_loop(self, loop: asyncio.AbstractEventLoop, current: _CurrentCall, calls: _Calls) -> bool:
        """Run calls on the loop and wait for that; return whether to continue here."""
        try:
            return run_on(loop, self._make_calls_on_loop(current, calls))
        except CancelledError:  # the handler's exception has been logged
            pass
        except RuntimeError:
            logger.exception("handlers whose event loop was closed are no longer called")
            with self._log.lock:
                self._set_registrations(tuple(one for one in self._by_type.registrations if one.loop is not loop))
        return self._under_way.pop(current.number, None) is not None

    async def _make_calls_on_loop(self, current: _CurrentCall, calls: _Calls) -> bool:
        """Run calls on the loop as `_make_calls` does, while the next is for it; return whether to continue."""
        under_way = self._under_way
        call, current.call = current.call, None  # it would keep everything published after it in memory
        made = current.number
        while call is not None:
            if made % REST == 0:
                await asyncio.sleep(0)
            registration, node, number = call
            await handle_on_loop(self, number, registration.handler, node.chunk.envelope(number - node.begin))
            if under_way.pop(made, None) is None:
                missed = self._calls_missed(call)
                del call, node
                for count, (registration, node, number) in enumerate(missed):
                    if count % REST == 0:
                        await asyncio.sleep(0)
                    await handle_on_loop(self, number, registration.handler, node.chunk.envelope(number - node.begin))
                    del node
                return False
            del call, node
            call = next(calls, None)
            if call is not None:
                self._calls_begun = current.number = made = self._calls_begun + 1
                under_way[made] = call
        return True

    def _calls_missed(self, call: _Call) -> Iterator[_Call]:
        """Yield the calls that a slow handler has missed, until it is called with the others again."""
        alone, node, number = call
        with self._take_over_lock:  # wait until the handler is marked as alone
            missed = self._calls(node, number + 1 - node.begin, alone)
        del call, node
        return (late for late in missed if late is not None)

    def _watch_for_slow_handler(self, calls: _Calls) -> None:
        """Take over the calls once one of them delays the thread that makes them."""
        seen, times = 0, 0
        while not (times > 1 and self._take_over(seen)):
            self._busy.wait()
            if self._ended.wait(GRACE / 2):
                return
            seen, times = self._calls_begun, times + 1 if seen == self._calls_begun else 0
        self._start(self._watch_for_slow_handler, calls)
        self._make_calls(calls)

    def _take_over(self, number: int) -> bool:
        """Take this call over from the thread that makes it, which keeps the handler; return False if it is over."""
        with self._take_over_lock:
            call = self._under_way.pop(number, None)
            if call is not None:
                call[0].alone = True
            return call is not None


def check_type(type_: object) -> str:
    """Return the event type if it is known, or raise `UnknownEventTypeError`."""
    if isinstance(type_, str) and type_ in CATALOGUE:
        return type_
    raise UnknownEventTypeError(type_, CATALOGUE)


def check_handler(handler: object) -> Handler:
    """Return the handler if it can be called on a thread, or raise `InvalidInputError`."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):  # noqa: B004 - which of both it is
        name = getattr(handler, "__qualname__", type(handler).__name__)
        raise InvalidInputError(
            f"{name} is a coroutine function, which nobody would await; give a plain function, or use AsyncRuntime"
        )
    return check_callable(handler)


def check_callable(handler: object) -> Handler:
    """Return the handler if it is callable, possibly as a coroutine function, or raise `InvalidInputError`."""
    if callable(handler):
        return handler
    msg = f"a handler is called with each event; {type(handler).__name__} cannot be called"
    raise InvalidInputError(msg)


def check_session(session_id: object) -> str | None:
    """Return the id of a handler's session if it is valid, None for all; or raise `InvalidInputError`."""
    return None if session_id is None else check_text("the session's id", session_id)
