"""Runs functions at scheduled times, on one thread, which is started when first needed."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from reenact.actors.kernel.pool import here

SECOND = 1_000_000
"""Microseconds per second."""

Clock: TypeAlias = Callable[[], int]
"""Returns microseconds since 1970-01-01 UTC. The clock may be set, also backwards."""

Act: TypeAlias = Callable[[], object]

_LONGEST_SECONDS = 1_000_000_000.0
"""A practically infinite delay in seconds; a condition variable cannot wait for much longer."""

_FIRST_CLEANUP_SIZE = 64
"""Up to this many entries, cancelled ones are not removed."""

_log = logging.getLogger("reenact.kernel")


@runtime_checkable
class ControlledClock(Protocol):
    """A clock that the caller moves: acts that become due run on the thread that moves it, during the move."""

    def __call__(self) -> int:
        """Return the time in microseconds since 1970-01-01 UTC."""
        ...

    def elapsed(self) -> int:
        """Return monotonic microseconds since an arbitrary moment."""
        ...

    def watch(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` after each move; return a function that ends that."""
        ...


def microseconds() -> int:
    """Return the time: microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


def elapsed() -> int:
    """Return monotonic microseconds since an arbitrary moment, regardless of how the clock is set."""
    return time.monotonic_ns() // 1000


class Entry:
    """A scheduled act, which can be cancelled."""

    __slots__ = ("_act", "_lock")

    def __init__(self, act: Act) -> None:
        self._act: Act | None = act
        self._lock = threading.Lock()

    @property
    def is_to_come(self) -> bool:
        """Whether the act has neither begun nor been cancelled."""
        return self._act is not None

    def cancel(self) -> bool:
        """Cancel the act; return False if it has begun already or was cancelled before."""
        return self._take_act() is not None

    def run(self) -> None:
        """Run the act now, unless it has run or was cancelled."""
        act = self._take_act()
        if act is None:
            return
        try:
            act()
        except Exception:  # noqa: BLE001 - it must not affect the other acts
            _log.exception("a scheduled action has failed")

    def _take_act(self) -> Act | None:
        with self._lock:
            act, self._act = self._act, None
            return act


class Timetable:
    """Runs each act at its time; acts must return at once."""

    def __init__(self, clock: Clock) -> None:
        self._controlled = clock if isinstance(clock, ControlledClock) else None
        self.elapsed = elapsed if self._controlled is None else self._controlled.elapsed
        self._entries: list[tuple[int, int, Entry]] = []
        self._numbers = itertools.count()
        # Protects the entries and `_running_threads`. The acts run without it: on the timetable's thread, or, with a
        # controlled clock, on the thread that moves the clock.
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._cleanup_size = _FIRST_CLEANUP_SIZE
        self._running_threads: list[int] = []
        self._stop_watching: Callable[[], None] | None = None

    def after(self, seconds: float, act: Act) -> Entry:
        """Schedule the act after `seconds`; nothing runs any more once the timetable is closed."""
        entry = Entry(act)
        due = self.elapsed() + round(min(seconds, _LONGEST_SECONDS) * SECOND)
        with self._changed:
            if self._closed:
                return entry
            if len(self._entries) >= self._cleanup_size:
                self._remove_cancelled()
            heapq.heappush(self._entries, (due, next(self._numbers), entry))
            if self._controlled is None:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="reenact-timetable", daemon=True)
                    self._thread.start()
                elif self._entries[0][2] is entry:
                    self._changed.notify_all()
            elif self._stop_watching is None:
                self._stop_watching = self._controlled.watch(self._run_due)
        if self._controlled is not None and seconds <= 0:
            self._run_due()
        return entry

    def close(self) -> None:
        """Cancel all acts, and return when those that were running have finished. Idempotent."""
        with self._changed:
            self._closed = True
            self._entries.clear()
            self._changed.notify_all()
            stop_watching, self._stop_watching = self._stop_watching, None
        if stop_watching is not None:
            stop_watching()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        me = threading.get_ident()
        with self._changed:  # the thread that moves a controlled clock is not ours to join
            self._changed.wait_for(lambda: all(other == me for other in self._running_threads))

    def _remove_cancelled(self) -> None:
        # Most timeouts are cancelled long before their time: they must not accumulate until then.
        self._entries = [entry for entry in self._entries if entry[2].is_to_come]
        heapq.heapify(self._entries)
        self._cleanup_size = max(_FIRST_CLEANUP_SIZE, 2 * len(self._entries))

    def _run_due(self) -> None:
        me = threading.get_ident()
        while True:
            with self._changed:
                if not self._entries or self._entries[0][0] > self.elapsed():
                    return
                _, _, entry = heapq.heappop(self._entries)
                self._running_threads.append(me)
            try:
                entry.run()
            finally:
                with self._changed:
                    self._running_threads.remove(me)
                    self._changed.notify_all()

    def _work(self) -> None:
        here.runs_actors = False
        while True:
            self._run_due()
            with self._changed:
                if self._closed:
                    return
                wait = (self._entries[0][0] - self.elapsed()) / SECOND if self._entries else None
                if wait is None or wait > 0:
                    self._changed.wait(wait)
