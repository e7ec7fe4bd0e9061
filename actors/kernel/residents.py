"""Passivation: actors leave memory when idle for long, and the idlest ones when there are too many."""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict
from operator import attrgetter
from typing import Protocol

from reenact.actors.kernel.timetable import SECOND, Timetable

_MOST_CHECKED = 8
"""At most how many residents are checked when another one enters."""

_FIRST_RECHECK = 1.0
"""Seconds before checking again whether too many actors live; doubled each time while the actors asked do not leave."""

_LAST_RECHECK = 60.0


class Resident(Protocol):
    """An actor that is in memory."""

    touched: int

    def ask_to_leave(self) -> None:
        """Ask the actor to leave memory as soon as it has nothing to do."""
        ...


class Residents:
    """Asks actors to leave that have been idle for `idle` seconds, and the idlest ones when more than `limit` live.

    An idle actor leaves at most an eighth of `idle` later. Busy actors can exceed the limit: they leave when they have
    nothing left to do.
    """

    # Not the exact order of use, which would have to be updated with each message, but the second-chance algorithm: a
    # resident that has been used since it was last checked goes to the end of the queue.

    def __init__(self, timetable: Timetable, *, idle: float | None, limit: int | None) -> None:
        """Set the limits; None means no limit.

        Raises:
            TypeError: a limit is not a number.
            ValueError: a limit is not above zero.
        """
        if not _are_numbers(idle, limit):
            raise TypeError(f"passivate_after={idle!r:.100} and max_live={limit!r:.100} must be numbers, or None")
        if (idle is not None and not idle > 0) or (limit is not None and limit < 1):
            raise ValueError(f"passivate_after={idle} and max_live={limit} must be above zero, or None")
        self._timetable = timetable
        self._idle = idle
        self._limit = limit
        self._queue: OrderedDict[Resident, int] = OrderedDict()
        self._leaving: dict[Resident, int] = {}
        self._lock = threading.Lock()  # protects the queue and `_leaving`; no actor is asked to leave under it
        self._is_sweeping = False
        self._recheck_delay: float | None = None
        self._is_limited = idle is not None or limit is not None
        self.elapsed = timetable.elapsed if self._is_limited else None
        """Returns the time of use that residents note; None if there are no limits."""

    def enter(self, resident: Resident) -> None:
        """Add an actor that is in memory; if there are too many now, ask idle ones to leave."""
        if not self._is_limited:
            return
        with self._lock:
            self._queue[resident] = resident.touched
            too_many = self._excess()
            leaving = self._choose_idlest(too_many) if too_many > 0 else []
            schedules_recheck = too_many > 0 and self._recheck_delay is None
            if schedules_recheck:
                self._recheck_delay = _FIRST_RECHECK
            starts_sweeping = self._idle is not None and not self._is_sweeping
            self._is_sweeping = self._is_sweeping or starts_sweeping
        if starts_sweeping and self._idle is not None:
            self._timetable.after(self._idle, self._sweep)
        if schedules_recheck:
            self._timetable.after(_FIRST_RECHECK, self._ask_more_to_leave)
        for other in leaving:
            other.ask_to_leave()

    def leave(self, resident: Resident) -> None:
        """Remove an actor that has left memory."""
        if self._is_limited:
            with self._lock:
                self._queue.pop(resident, None)
                self._leaving.pop(resident, None)

    def _excess(self) -> int:
        return 0 if self._limit is None else len(self._queue) - self._limit

    def _choose_idlest(self, too_many: int) -> list[Resident]:
        """Choose up to `too_many` residents at the head of the queue that have not been used since they joined it."""
        leaving: list[Resident] = []
        for _ in range(min(_MOST_CHECKED, len(self._queue) - 1)):
            resident, seen = self._queue.popitem(last=False)
            if resident.touched != seen:
                self._queue[resident] = resident.touched
                continue
            self._leaving[resident] = seen
            leaving.append(resident)
            if len(leaving) == too_many:
                break
        return leaving

    def _ask_more_to_leave(self) -> None:
        """Ask others to leave if there are still too many, because the ones that were asked were busy and stayed."""
        with self._lock:
            for resident, seen in list(self._leaving.items()):
                if resident.touched != seen:
                    del self._leaving[resident]
                    self._queue[resident] = resident.touched
            idlest = heapq.nsmallest(max(0, self._excess()), self._queue, key=attrgetter("touched"))
            for resident in idlest:
                del self._queue[resident]
                self._leaving[resident] = resident.touched
            self._recheck_delay = wait = (
                min(2 * (self._recheck_delay or _FIRST_RECHECK), _LAST_RECHECK) if self._leaving else None
            )
        for resident in idlest:
            resident.ask_to_leave()
        if wait is not None:
            self._timetable.after(wait, self._ask_more_to_leave)

    def _sweep(self) -> None:
        if self._idle is None:
            return
        now, idle = self._timetable.elapsed(), round(self._idle * SECOND)
        with self._lock:
            residents = [*self._queue, *self._leaving]
            self._is_sweeping = bool(residents)
        used = now
        for resident in residents:
            if resident.touched <= now - idle:
                resident.ask_to_leave()
            else:
                used = min(used, resident.touched)
        if residents:
            self._timetable.after(max(idle // 8, used + idle - now) / SECOND, self._sweep)


def _are_numbers(idle: object, limit: object) -> bool:
    return isinstance(idle, int | float | None) and isinstance(limit, int | None)
