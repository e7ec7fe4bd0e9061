"""Timers that survive a restart: the log holds when each stream is to be woken, and this wakes them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from reenact.actors.journal.api import Journal
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.timetable import SECOND, Clock, Entry, Timetable
from reenact.domain.errors import ReenactError

Command = TypeVar("Command")

RETRY: Final = 1.0
"""Seconds after which a stream is woken again whose actor could not start, or could not record what it did."""

_LONGEST: Final = 60.0
"""Seconds after which the clock is looked at again, since it may have been set forward."""

_PAGE: Final = 1000

_log = logging.getLogger("reenact.kernel")


class Timer(msgspec.Struct, Generic[Command], frozen=True):
    """A command that an actor is given at a time: microseconds since 1970-01-01 UTC."""

    at: int
    command: Command


class Alarms:
    """Looks into the log for streams whose time has come; in memory there is no more than the next time."""

    def __init__(
        self, journal: Journal, timetable: Timetable, clock: Clock, wake: Callable[[str], PooledFuture[Any] | None]
    ) -> None:
        """Wake with `wake`, which returns None if nobody is responsible for the stream yet."""
        self._journal = journal
        self._timetable = timetable
        self._clock = clock
        self._wake = wake
        self._lock = threading.Lock()
        self._looked_until = 0
        self._next: tuple[int, Entry] | None = None
        self._watching = False

    def begin(self) -> None:
        """Look from the first time on, again if that was done before: somebody is responsible who was not."""
        with self._lock:
            self._watching = True
            self._looked_until = 0
        self._plan(self._clock())

    def hint(self, due: int) -> None:
        """Take note that a stream is to be woken then; the log says so already."""
        with self._lock:
            if due <= self._looked_until:
                self._looked_until = due - 1
            elif self._next is not None and self._next[0] <= due:
                return
        self._plan(due)

    def later(self, stream: str) -> None:
        """Wake the stream after a while: something came in between."""
        self._timetable.after(RETRY, lambda: self._rouse(stream))

    def _plan(self, due: int) -> None:
        delay = max(0.0, min(_LONGEST, (due - self._clock()) / SECOND))
        with self._lock:
            if self._next is not None:
                self._next[1].cancel()
                self._next = None
        entry = self._timetable.after(delay, self._look)
        with self._lock:
            if self._next is None:
                self._next = due, entry

    def _look(self) -> None:
        now = self._clock()
        with self._lock:
            self._next = None
            after = min(self._looked_until, now)  # the clock may have been set back
            self._looked_until = now
        try:
            while rows := self._journal.due(after=after, until=now, limit=_PAGE):
                for stream, _ in rows:
                    self._rouse(stream)
                if len(rows) < _PAGE:
                    break
                after = self._behind(rows)
            upcoming = self._journal.next_due(after=now)
        except ReenactError:
            _log.warning("the timers cannot be read; this is tried again", exc_info=True)
            with self._lock:
                self._looked_until = min(self._looked_until, after)
            upcoming = now + int(RETRY * SECOND)
        if upcoming is not None:
            self._plan(upcoming)

    def _behind(self, rows: list[tuple[str, int]]) -> int:
        """Return the time to go on from: times that stand on the page to its end may go on behind it."""
        last = rows[-1][1]
        if rows[0][1] < last:
            return last - 1
        for stream, _ in self._journal.due(after=last - 1, until=last, limit=1_000_000_000)[_PAGE:]:
            self._rouse(stream)
        return last

    def _rouse(self, stream: str) -> None:
        try:
            woken = self._wake(stream)
        except ReenactError:
            return  # the system is closing: the log keeps the time
        if woken is not None:
            woken.add_done_callback(lambda future: self._retry(stream, future))

    def _retry(self, stream: str, woken: PooledFuture[Any]) -> None:
        if woken.failed():
            self.later(stream)
