"""How those are woken who wait for news: an event loop once for all who wait on it, threads one by one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol, TypeAlias

Waiter: TypeAlias = Callable[[], object]
"""Called once there are news, or nothing is to be waited for any more; must return at once, and may come in vain."""


class Waker(Protocol):
    """Calls waiters where they are at home."""

    def wake(self, waiters: Collection[Waiter]) -> None:
        """Call each of them, soon. May be called on any thread; returns at once."""
        ...


Woken: TypeAlias = Iterable[tuple[Waker, Collection[Waiter]]]
"""Who is to be woken, once all that they may hear of is there."""


class _Threads:
    """Wakes threads: their waiters may be called anywhere."""

    def wake(self, waiters: Collection[Waiter]) -> None:
        for waiter in waiters:
            waiter()


THREADS: Final[Waker] = _Threads()


class Alarm:
    """What one thread waits for. The wait of the main thread can be interrupted from the keyboard."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, seconds: float | None) -> None:
        """Return when it has rung, or after so many seconds."""
        self._lock.acquire(timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX))

    def ring(self) -> None:
        """Let the thread go on. What rings twice, or too late, does no harm."""
        with contextlib.suppress(RuntimeError):  # it rings already
            self._lock.release()


def wake(woken: Iterable[tuple[Waker, Collection[Waiter]]]) -> None:
    """Call the waiters, each place's all at once."""
    places: dict[Waker, list[Waiter]] = {}
    for waker, waiters in woken:
        places.setdefault(waker, []).extend(waiters)
    for waker, waiters in places.items():
        waker.wake(waiters)


class LoopWaker:
    """Calls waiters on an event loop, which is woken once however many they are; if it is closed, nothing is called."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._woken: list[Collection[Waiter]] = []

    def wake(self, waiters: Collection[Waiter]) -> None:
        with self._lock:
            self._woken.append(waiters)
            if len(self._woken) > 1:  # the loop has been told, and has not come to it yet
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


class Wakers:
    """The one waker of each event loop. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakers: dict[asyncio.AbstractEventLoop, LoopWaker] = {}

    def of(self, loop: asyncio.AbstractEventLoop) -> LoopWaker:
        """Return the waker of the loop."""
        waker = self._wakers.get(loop)
        if waker is not None:
            return waker
        with self._lock:
            for other in [other for other in self._wakers if other.is_closed()]:
                del self._wakers[other]
            return self._wakers.setdefault(loop, LoopWaker(loop))


class Awaited:
    """What others wait for: that it goes on, or is closed. Who waits is kept under its lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.closed = False
        """Whether nothing more comes."""
        self._waiting: dict[Waker, set[Waiter]] = {}

    def forget(self, waker: Waker, waiter: Waiter) -> None:
        """Do not call the waiter any more."""
        with self.lock:
            waiters = self._waiting.get(waker)
            if waiters is not None:
                waiters.discard(waiter)
                if not waiters:
                    del self._waiting[waker]

    def finish(self) -> Woken:
        """Let nothing more come; return who is to be woken."""
        with self.lock:
            self.closed = True
            return self._wake()

    def _await(self, waker: Waker, waiter: Waiter) -> None:
        """Have the waiter called next time."""
        waiters = self._waiting.get(waker)
        if waiters is None:
            self._waiting[waker] = {waiter}
        else:
            waiters.add(waiter)

    def _wake(self) -> Woken:
        """Return those who are to be woken; they wait no more."""
        if not self._waiting:
            return ()
        waiting, self._waiting = self._waiting, {}
        return waiting.items()
