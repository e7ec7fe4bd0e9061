"""Wakes threads and event loops that wait for events: a loop once for all its waiters, threads one by one."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, Protocol, TypeAlias, TypeVar

from reenact.domain.errors import RuntimeClosedError

P = ParamSpec("P")
R = TypeVar("R")
THREADS = 4
"""How many threads read the log for waiters on event loops."""
CLOSED = "the runtime is closed; open it again to follow its sessions"

Waiter: TypeAlias = Callable[[], object]
"""Called when there may be more, or nothing more will come; must return at once."""


class Waker(Protocol):
    """Calls waiters on their thread or event loop."""

    def wake(self, waiters: Collection[Waiter]) -> None:
        """Call the waiters soon. May be called on any thread; returns at once."""
        ...


Woken: TypeAlias = Iterable[tuple[Waker, Collection[Waiter]]]
"""The waiters to call once everything of a commit is published."""


class _ThreadWaker:
    """Wakes threads: their waiters may be called on any thread."""

    def wake(self, waiters: Collection[Waiter]) -> None:
        for waiter in waiters:
            waiter()


ANY_THREAD: Final[Waker] = _ThreadWaker()


_SIGNAL_CHECK_SECONDS = 1.0
"""Seconds after which the main thread checks for signals."""


class Alarm:
    """An event for which one thread waits. The main thread's wait can be interrupted from the keyboard."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, seconds: float | None) -> None:
        """Wait for `ring`, or for this many seconds."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        longest = threading.TIMEOUT_MAX
        if threading.current_thread() is threading.main_thread():
            # Python does not handle a signal that arrives right before it blocks until it no longer blocks.
            longest = _SIGNAL_CHECK_SECONDS
        while not self._lock.acquire(timeout=max(0.0, min(longest, until - time.monotonic()))):
            if time.monotonic() >= until:
                return

    def ring(self) -> None:
        """Wake the thread. Ringing twice, or too late, is harmless."""
        with contextlib.suppress(RuntimeError):  # it is ringing already
            self._lock.release()


def wake(woken: Iterable[tuple[Waker, Collection[Waiter]]]) -> None:
    """Call the waiters, all those of a waker at once."""
    by_waker: dict[Waker, list[Waiter]] = {}
    for waker, waiters in woken:
        by_waker.setdefault(waker, []).extend(waiters)
    for waker, waiters in by_waker.items():
        waker.wake(waiters)


def set_result(future: asyncio.Future[R], result: R) -> None:
    """Set the future's result, unless it is done or cancelled."""
    if not future.done():
        future.set_result(result)


def is_on_loop() -> bool:
    """Return whether the caller runs on an event loop, which must not be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class LoopWaker:
    """Calls waiters on an event loop, waking it once for all; if the loop is closed, does nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._woken: list[Collection[Waiter]] = []

    def wake(self, waiters: Collection[Waiter]) -> None:
        with self._lock:
            self._woken.append(waiters)
            if len(self._woken) > 1:  # a call is already scheduled
                return
        try:
            self.loop.call_soon_threadsafe(self._call)
        except RuntimeError:
            with self._lock:
                self._woken.clear()

    def _call(self) -> None:
        with self._lock:
            woken, self._woken = self._woken, []
        for waiters in woken:
            for waiter in waiters:
                waiter()


class EventLoops:
    """The event loops on which events are awaited: a waker for each, and threads that block in their place.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakers: dict[asyncio.AbstractEventLoop, LoopWaker] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="reenact-feed")

    def waker(self, loop: asyncio.AbstractEventLoop) -> LoopWaker:
        """Return the waker of the loop."""
        waker = self._wakers.get(loop)
        if waker is not None:
            return waker
        with self._lock:
            for other in [other for other in self._wakers if other.is_closed()]:
                del self._wakers[other]
            return self._wakers.setdefault(loop, LoopWaker(loop))

    def in_thread(self, work: Callable[P, R], *given: P.args, **named: P.kwargs) -> Future[R]:
        """Run the work on one of the threads.

        Raises:
            RuntimeClosedError: the feed is closed.
        """
        try:
            return self._threads.submit(work, *given, **named)
        except RuntimeError:
            raise RuntimeClosedError(CLOSED) from None

    def close(self) -> None:
        """Accept no more work, and wait for the threads."""
        self._threads.shutdown()


class Awaited:
    """A base for something to wait for: until it changes or is closed. The lock protects the waiters."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.closed = False
        """Whether nothing more will come."""
        self._waiting: dict[Waker, set[Waiter]] = {}
        self._watching: dict[Waker, tuple[Waiter, ...]] = {}

    def watch(self, waker: Waker, waiter: Waiter) -> None:
        """Call the waiter at each change from now on, until it is removed with `unwatch`."""
        with self.lock:
            self._watching[waker] = (*self._watching.get(waker, ()), waiter)

    def unwatch(self, waker: Waker, waiter: Waiter) -> None:
        """Remove the waiter."""
        with self.lock:
            others = tuple(other for other in self._watching.pop(waker, ()) if other != waiter)
            if others:
                self._watching[waker] = others

    def forget(self, waker: Waker, waiter: Waiter) -> None:
        """Remove the waiter."""
        with self.lock:
            waiters = self._waiting.get(waker)
            if waiters is not None:
                waiters.discard(waiter)
                if not waiters:
                    del self._waiting[waker]

    def finish(self) -> Woken:
        """Close it; return the waiters to wake."""
        with self.lock:
            self.closed = True
            return self._wake()

    def _await(self, waker: Waker, waiter: Waiter) -> None:
        """Call the waiter at the next change."""
        waiters = self._waiting.get(waker)
        if waiters is None:
            self._waiting[waker] = {waiter}
        else:
            waiters.add(waiter)

    def _wake(self) -> Woken:
        """Return the waiters to wake, and remove those that wait for one change."""
        if not self._waiting:
            return (*self._watching.items(),)
        waiting, self._waiting = self._waiting, {}
        return (*self._watching.items(), *waiting.items())
