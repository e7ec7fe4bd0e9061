"""What is to be done later: acts at a time, on one thread, which is there once there is something to be done."""

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
"""Microseconds."""

Clock: TypeAlias = Callable[[], int]
"""Tells the time: microseconds since 1970-01-01 UTC. It may be set, also backwards."""

Act: TypeAlias = Callable[[], object]

_NEVER = 1_000_000_000.0
"""Seconds that nobody lives to see; a condition does not wait for much longer."""

_ENOUGH = 64
"""Entries among which those that are called off are not worth looking for."""

_log = logging.getLogger("reenact.kernel")


@runtime_checkable
class ControlledClock(Protocol):
    """A clock that somebody moves: what is due is then done by whoever moves it, before the move returns."""

    def __call__(self) -> int:
        """Return the time in microseconds since 1970-01-01 UTC."""
        ...

    def elapsed(self) -> int:
        """Return microseconds since some moment; they never go backwards."""
        ...

    def watch(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Have `callback` called after each move; what is returned ends that."""
        ...


def microseconds() -> int:
    """Return the time: microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


def elapsed() -> int:
    """Return microseconds since some moment; they never go backwards, whatever the clock is set to."""
    return time.monotonic_ns() // 1000


class Entry:
    """An act that is to come, unless it is cancelled."""

    __slots__ = ("_act", "_lock")

    def __init__(self, act: Act) -> None:
        self._act: Act | None = act
        self._lock = threading.Lock()

    @property
    def is_to_come(self) -> bool:
        """Whether the act has neither begun nor been called off."""
        return self._act is not None

    def cancel(self) -> bool:
        """Call the act off; returns False if it has begun already, or was called off before."""
        return self._take() is not None

    def run(self) -> None:
        """Do it now, once."""
        act = self._take()
        if act is None:
            return
        try:
            act()
        except Exception:  # noqa: BLE001 - the other acts are not to blame
            _log.exception("a scheduled action has failed")

    def _take(self) -> Act | None:
        with self._lock:
            act, self._act = self._act, None
            return act


class Timetable:
    """Does each act when its time has come; acts must return at once."""

    def __init__(self, clock: Clock) -> None:
        self._controlled = clock if isinstance(clock, ControlledClock) else None
        self.elapsed = elapsed if self._controlled is None else self._controlled.elapsed
        self._entries: list[tuple[int, int, Entry]] = []
        self._numbers = itertools.count()
        # Protects the entries and who is busy. The acts themselves run outside of it: on the timetable's thread, or, of
        # a controlled clock, on that of whoever moves it.
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._enough = _ENOUGH
        self._busy: list[int] = []
        self._unwatch: Callable[[], None] | None = None

    def after(self, seconds: float, act: Act) -> Entry:
        """Do the act in so many seconds; nothing is ever done once the timetable is closed."""
        entry = Entry(act)
        due = self.elapsed() + round(min(seconds, _NEVER) * SECOND)
        with self._changed:
            if self._closed:
                return entry
            if len(self._entries) >= self._enough:
                self._clear_out()
            heapq.heappush(self._entries, (due, next(self._numbers), entry))
            if self._controlled is None:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="reenact-timetable", daemon=True)
                    self._thread.start()
                elif self._entries[0][2] is entry:
                    self._changed.notify_all()
            elif self._unwatch is None:
                self._unwatch = self._controlled.watch(self._run_due)
        if self._controlled is not None and seconds <= 0:
            self._run_due()
        return entry

    def close(self) -> None:
        """Do nothing any more, and return when what was being done is over. Idempotent."""
        with self._changed:
            self._closed = True
            self._entries.clear()
            self._changed.notify_all()
            unwatch, self._unwatch = self._unwatch, None
        if unwatch is not None:
            unwatch()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        me = threading.get_ident()
        with self._changed:  # whoever moves a controlled clock has no thread of ours to be joined
            self._changed.wait_for(lambda: all(other == me for other in self._busy))

    def _clear_out(self) -> None:
        # Most timeouts are called off long before their time: they must not pile up until then.
        self._entries = [entry for entry in self._entries if entry[2].is_to_come]
        heapq.heapify(self._entries)
        self._enough = max(_ENOUGH, 2 * len(self._entries))

    def _run_due(self) -> None:
        me = threading.get_ident()
        while True:
            with self._changed:
                if not self._entries or self._entries[0][0] > self.elapsed():
                    return
                _, _, entry = heapq.heappop(self._entries)
                self._busy.append(me)
            try:
                entry.run()
            finally:
                with self._changed:
                    self._busy.remove(me)
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
