"""Waits: a question is asked again whenever something has happened, until it is answered or time is up."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, NamedTuple, Never, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_FIRST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.02


class Moment(NamedTuple):
    """How much has happened so far, and whether that is all."""

    happened: int
    over: bool


class Pause(NamedTuple):
    """How long a question rests: until more has `happened`, not before `earliest`, not after `latest`."""

    happened: int
    earliest: float
    latest: float


Asking: TypeAlias = Generator[Pause, None, T]
"""A question that is being asked: it says how long it rests, and returns its answer or raises."""


class Changes:
    """Counts what has happened, and wakes who waits for more."""

    def __init__(self) -> None:
        # Reentrant, as all locks here: the garbage collector clears forgotten terminals away wherever it comes to run.
        self._changed = threading.Condition(threading.RLock())
        self._listeners: list[Callable[[], None]] = []
        self._moment = Moment(0, over=False)

    @property
    def moment(self) -> Moment:
        """How much has happened until now."""
        return self._moment

    def announce(self, *, over: bool = False) -> None:
        """Wake all who wait; `over` says that nothing more will happen."""
        with self._changed:
            self._moment = Moment(self._moment.happened + 1, self._moment.over or over)
            self._changed.notify_all()
            for listener in self._listeners:
                listener()

    @contextmanager
    def heard_by(self, listener: Callable[[], None]) -> Generator[None]:
        """Have the listener called, on whatever thread, for each announcement; it must not block."""
        with self._changed:
            self._listeners.append(listener)
        try:
            yield
        finally:
            with self._changed:
                self._listeners.remove(listener)

    def rest(self, pause: Pause) -> None:
        """Block for as long as the pause says."""
        with self._changed:
            self._changed.wait_for(lambda: self._moment.happened != pause.happened, _left(pause.latest))
            # What is over is looked at in full once more, at once.
            self._changed.wait_for(lambda: self._moment.over, _left(pause.earliest))


def asking(
    changes: Changes,
    timeout: float,
    ask: Callable[[], T | None],
    *,
    ended: Callable[[], Exception],
    too_late: Callable[[], Exception],
    again: Callable[[], float] = lambda: math.inf,
) -> Asking[T]:
    """Ask until there is an answer, and return it.

    A question that takes long to ask rests for as long again, so that a flood of output cannot keep it busy for ever:
    what it is asked about has grown in proportion by then. It is asked for the last time when the time is over.

    Args:
        changes: what says that there may be an answer.
        timeout: seconds.
        ask: returns the answer, or None as long as there is none.
        ended: makes the error for when all is over without an answer.
        too_late: likewise for when the time is over.
        again: the moment, on the monotonic clock, at which time alone may bring the answer.
    """
    deadline = time.monotonic() + timeout
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
        yield Pause(moment.happened, min(deadline, now + (now - begun)), min(deadline, again()))


def wait(changes: Changes, asking: Asking[T]) -> T:
    """Block until the question has its answer, and return it, or raise what it raises."""
    try:
        while True:
            changes.rest(next(asking))
    except StopIteration as answered:
        answer: T = answered.value
        return answer
    finally:
        asking.close()


def until(condition: Callable[[], bool], timeout: float) -> bool:
    """Wait until it is so; return whether it is."""
    deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while not condition():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)
    return True


def run(coroutine: Coroutine[object, None, T]) -> T:
    """Return what a coroutine returns that waits for nothing but threads."""
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
    """Return the method of the blocking twin: it blocks where the asyncio one awaits."""

    @wraps(method)
    def call(self: object, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self, *args, **kwargs))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # twins have what the methods of the other need

    return call


def _left(until: float) -> float | None:
    return None if until == math.inf else min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
