"""Waiting: a question is asked again after each change, until it is answered or the time is up."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Concatenate, NamedTuple, Never, ParamSpec, TypeVar

from reenact.terminal.errors import is_kit_error

__tracebackhide__ = is_kit_error
P = ParamSpec("P")
T = TypeVar("T")


class ChangeCount(NamedTuple):
    """The number of changes so far, and whether there will be no more."""

    happened: int
    over: bool


class Pause(NamedTuple):
    """How long to wait before asking again: until there are more changes than `happened`, but within the two times."""

    happened: int
    earliest: float
    latest: float


class Changes:
    """Counts changes in `moment`, and wakes the waiting threads."""

    def __init__(self) -> None:
        # Reentrant, like all locks here: the garbage collector may clean up terminals while the lock is held.
        self._changed = threading.Condition(threading.RLock())
        self._listeners: list[Callable[[], None]] = []
        self.moment = ChangeCount(0, over=False)

    def announce(self, *, over: bool = False) -> None:
        """Count a change and wake all that wait; `over` says that it is the last one."""
        with self._changed:
            self.moment = ChangeCount(self.moment.happened + 1, self.moment.over or over)
            self._changed.notify_all()
            for listener in self._listeners:
                listener()

    @contextmanager
    def notifying(self, listener: Callable[[], None]) -> Generator[None]:
        """Call the listener, on any thread, at each change during the block; it must not block."""
        with self._changed:
            self._listeners.append(listener)
        try:
            yield
        finally:
            with self._changed:
                self._listeners.remove(listener)

    def wait_out(self, pause: Pause) -> None:
        """Block for the pause."""
        with self._changed:
            self._changed.wait_for(lambda: self.moment.happened != pause.happened, _left(pause.latest))
            # After the last change, ask again at once.
            self._changed.wait_for(lambda: self.moment.over, _left(pause.earliest))

    async def wait_out_on_loop(self, pause: Pause) -> None:
        """Wait for the pause on an event loop."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed without waiting for its tasks
                loop.call_soon_threadsafe(woken.set)

        async def until(time_is_over: float, reached: Callable[[], bool]) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, time_is_over - time.monotonic())):
                    while not reached():
                        woken.clear()
                        if not reached():
                            await woken.wait()

        with self.notifying(wake):
            await until(pause.latest, lambda: self.moment.happened != pause.happened)
            await until(pause.earliest, lambda: self.moment.over)


async def answer_to(
    changes: Changes,
    wait_out: Callable[[Changes, Pause], Coroutine[object, None, None]],
    seconds: float,
    ask: Callable[[], T | None],
    *,
    ended: Callable[[], Exception],
    too_late: Callable[[], Exception],
    next_check: Callable[[], float] = lambda: math.inf,
) -> T:
    """Ask until there is an answer, and return it.

    After a question that took long, there is a pause of the same length, so that continuous output cannot cause endless
    repetition: the time to ask grows with the output. It is asked a last time when the time is up.

    Args:
        changes: announces that there may be an answer.
        wait_out: waits for a pause before the next question.
        seconds: how long to ask.
        ask: returns the answer, or None if there is none yet.
        ended: returns the error to raise if there is no answer after the last change.
        too_late: returns the error to raise if the time is up.
        next_check: returns the time, on the monotonic clock, at which there may be an answer without a change.
    """
    deadline = time.monotonic() + seconds
    while True:
        moment, begun = changes.moment, time.monotonic()
        answer = ask()
        if answer is not None:
            return answer
        now = time.monotonic()
        if moment.over:
            raise ended()
        if now >= deadline:
            raise too_late()
        pause = Pause(moment.happened, min(deadline, now + (now - begun)), min(deadline, next_check()))
        await wait_out(changes, pause)


def run(coroutine: Coroutine[object, None, T]) -> T:
    """Run a coroutine that never suspends, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as returned:
        result: T = returned.value
        return result
    coroutine.close()
    raise RuntimeError("a blocking terminal cannot wait for an event loop")


def blocking(
    method: Callable[Concatenate[Never, P], Coroutine[object, None, T]],
) -> Callable[Concatenate[object, P], T]:
    """Return the blocking version of a method, for the class whose waits block instead of suspending."""

    @wraps(method)
    def call(self: object, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self, *args, **kwargs))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # twins have what the methods of the other need

    return call


def _left(until: float) -> float | None:
    return None if until == math.inf else min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
