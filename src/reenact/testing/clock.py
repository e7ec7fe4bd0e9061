"""A clock that advances only when a test says so, predictable ids, and a wait for a condition."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from reenact.domain.messages import EPOCH

_SECOND = 1_000_000
_MICROSECOND = timedelta(microseconds=1)
_START = datetime(2030, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock for `ActorSystem(clock=...)`; calling it returns the microseconds since 1970-01-01 UTC.

    Work that becomes due is done by the thread that moves the clock, before the move returns. Thread-safe.
    """

    def __init__(self, start: int | datetime = _START) -> None:
        """Begin at a time: microseconds since 1970-01-01 UTC, or a `datetime` with a time zone."""
        self._now = _microseconds(start)
        self._elapsed = 0
        self._lock = threading.Lock()
        self._watchers: tuple[Callable[[], object], ...] = ()

    def __call__(self) -> int:
        """Return the time in microseconds since 1970-01-01 UTC."""
        return self._now

    def elapsed(self) -> int:
        """Return the microseconds that have passed; `set` does not change them."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Advance the clock by some seconds.

        Raises:
            ValueError: `seconds` is below zero; `set` puts the clock back.
        """
        if seconds < 0:
            raise ValueError(f"time does not pass backwards, not by {-seconds} seconds either; set() puts a clock back")
        with self._lock:
            passed = round(seconds * _SECOND)
            self._now += passed
            self._elapsed += passed
        self._notify_watchers()

    def set(self, at: int | datetime) -> None:
        """Set the clock, forward or back, as an administrator would; no time passes.

        As with a real clock, durable timers notice within a minute that they are due: call `advance` afterwards.
        """
        with self._lock:
            self._now = _microseconds(at)
        self._notify_watchers()

    def watch(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` after each move, on the thread that moves the clock; return a function that ends this."""
        with self._lock:
            self._watchers = (*self._watchers, callback)

        def unwatch() -> None:
            with self._lock:
                self._watchers = tuple(other for other in self._watchers if other is not callback)

        return unwatch

    def __repr__(self) -> str:
        return f"<ManualClock {(EPOCH + self._now * _MICROSECOND).isoformat()}>"

    def _notify_watchers(self) -> None:
        for watcher in self._watchers:
            watcher()


def _microseconds(at: object) -> int:
    if isinstance(at, int):
        return at
    if not isinstance(at, datetime):
        raise TypeError(f"{at!r} is not a time: give whole microseconds since 1970, or a datetime with a time zone")
    if at.tzinfo is None:
        raise ValueError(f"{at.isoformat()} has no time zone: give it one, such as datetime.timezone.utc")
    return (at - EPOCH) // _MICROSECOND


class SequentialIds:
    """Makes `prefix_0001`, `prefix_0002` and so on, counted for each prefix; for `Runtime.open(ids=...)`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: Counter[str] = Counter()

    def __call__(self, prefix: str) -> str:
        """Return the next id with this prefix."""
        with self._lock:
            self._made[prefix] += 1
            return f"{prefix}_{self._made[prefix]:04d}"


T = TypeVar("T")

_FIRST = 0.0005
_LONGEST = 0.02


def wait_until(condition: Callable[[], T], timeout: float = 60.0, what: str = "a condition") -> T:
    """Check the condition repeatedly until it is true, and return its value.

    Raises:
        AssertionError: it was not true within `timeout` seconds; `what` names it in the message.
    """
    found = polled(condition, timeout)
    if not found:
        raise AssertionError(f"waited {timeout:g} seconds for {what}, in vain; it was {found!r} at the end")
    return found


def polled(condition: Callable[[], T], timeout: float) -> T:
    """Check the condition repeatedly until it is true or the time is up, and return its last value."""
    nothing_happens = threading.Event()  # rather than `time.sleep`, which the test may have replaced
    deadline, pause = time.monotonic() + timeout, _FIRST
    while not (found := condition()) and (left := deadline - time.monotonic()) > 0:
        nothing_happens.wait(min(pause, left))
        pause = min(pause * 2, _LONGEST)
    return found
