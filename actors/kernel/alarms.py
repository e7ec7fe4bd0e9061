"""Durable timers: the log holds the time at which each stream is due, and `Alarms` wakes the actors of due streams."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

import msgspec

from reenact.actors.journal.api import Journal
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.supervision import shown
from reenact.actors.kernel.timetable import SECOND, Clock, Timetable
from reenact.domain.errors import ReenactError, StorageError

Command_co = TypeVar("Command_co", covariant=True)

RETRY = 1.0
"""Seconds to wait before waking a stream again whose actor could not start, or could not record its events.

The delay doubles with each attempt, up to a minute, as long as the actor cannot start.
"""

_LONGEST = 60.0
"""Longest delay in seconds before the clock is read again, since it may have been set forward."""

_ALL = 1_000_000_000
_LIMIT = 2**63
_BEGINNING = -_LIMIT

_log = logging.getLogger("reenact.kernel")


class Timer(msgspec.Struct, Generic[Command_co], frozen=True):
    """A command that an actor is given at a time, in microseconds since 1970-01-01 UTC."""

    at: int
    command: Command_co

    def __post_init__(self) -> None:
        """Reject a time that the log cannot hold, such as a `datetime` or fractional seconds.

        Raises:
            TypeError: the time is not a 64-bit integer.
        """
        if not _is_time(self.at):
            raise TypeError(f"the time of a timer must be an int, microseconds since 1970-01-01 UTC, not {self.at!r}")


class Alarms:
    """Reads from the log which streams are due and wakes them; only the time of the next read is kept in memory."""

    def __init__(
        self, journal: Journal, timetable: Timetable, clock: Clock, wake: Callable[[str], PooledFuture[None] | None]
    ) -> None:
        """Wake streams with `wake`, which returns None if this system is not responsible for the stream."""
        self._journal = journal
        self._timetable = timetable
        self._clock = clock
        self._wake = wake
        # The timetable's thread runs `_wake_due`; workers and the threads that call the writer run `hint`. The lock
        # protects the fields below, and is never held while the log is read or an actor is woken.
        self._lock = threading.Lock()
        self._read_until = _BEGINNING
        self._next: int | None = None
        self._looks_scheduled = 0
        self._waiting: set[str] = set()

    def begin(self) -> None:
        """Read the due streams from the earliest time on; called again when this system takes over more streams."""
        with self._lock:
            self._read_until = _BEGINNING
        self._schedule_look(self._clock())

    def hint(self, stream: str, due: int) -> None:
        """Schedule a wake-up of the stream at this time, which the log already holds."""
        if due <= self._clock():
            # Reading the log again would wake all the other due streams a second time while their actors are starting;
            # if each of them did so, the work would be quadratic.
            with self._lock:
                was_looked_for = due <= self._read_until
            if was_looked_for:
                self._wake_or_retry(stream)
                return
        with self._lock:
            if due <= self._read_until:
                self._read_until = due - 1
        self._schedule_look(due)

    def later(self, stream: str) -> None:
        """Wake the stream after a delay, because a step of it could not be recorded."""
        self._retry_later(stream, RETRY)

    def _schedule_look(self, due: int) -> None:
        """Schedule a look at that time, or after `_LONGEST` if it is far away, unless an earlier look is scheduled."""
        delay = max(0.0, min(_LONGEST, (due - self._clock()) / SECOND))
        # Compare elapsed time, not clock time: the clock may have been set since.
        moment = self._timetable.elapsed() + round(delay * SECOND)
        with self._lock:
            if self._next is not None and self._next <= moment:
                return
            self._next = moment
            self._looks_scheduled += 1
            number = self._looks_scheduled
        self._timetable.after(delay, partial(self._wake_due, number))

    def _wake_due(self, number: int) -> None:
        now = self._clock()
        with self._lock:
            if number != self._looks_scheduled:
                return  # a later call of `_schedule_look` has superseded this look
            self._next = None
            after, self._read_until = self._read_until, now
        try:
            for stream, _ in self._journal.due(after=after, until=now, limit=_ALL):
                self._wake_or_retry(stream)
            upcoming = self._journal.next_due(after=now)
        except Exception as error:  # noqa: BLE001 - the journal may raise anything; the next look may succeed
            trace = None if isinstance(error, StorageError) else error
            _log.warning("the timers cannot be read; this is tried again: %s", shown(error), exc_info=trace)
            with self._lock:
                self._read_until = min(self._read_until, after)
            upcoming = now + int(RETRY * SECOND)
        if upcoming is not None:
            self._schedule_look(upcoming)

    def _wake_or_retry(self, stream: str, wait: float = RETRY) -> None:
        """Wake the stream; if its actor cannot start, wake it again after `wait` seconds."""
        try:
            woken = self._wake(stream)
        except ReenactError:
            return  # the system is closing; the log keeps the time
        if woken is not None:
            woken.add_done_callback(lambda future: self._retry_later(stream, wait) if future.failed() else None)

    def _retry_later(self, stream: str, wait: float) -> None:
        with self._lock:
            if stream in self._waiting:
                return
            self._waiting.add(stream)
        self._timetable.after(wait, partial(self._wake_again, stream, min(2 * wait, _LONGEST)))

    def _wake_again(self, stream: str, wait: float) -> None:
        with self._lock:
            self._waiting.discard(stream)
        self._wake_or_retry(stream, wait)


def _is_time(at: object) -> bool:
    return isinstance(at, int) and -_LIMIT <= at < _LIMIT
