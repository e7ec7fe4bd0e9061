"""Passivation: who has been idle for long, or longest when there are too many, leaves memory until the next message."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Protocol

from reenact.actors.kernel.timetable import SECOND, Timetable

_LOOKS: Final = 8
"""How many residents are looked at, at most, when another one comes in."""


class Resident(Protocol):
    """An actor in memory."""

    touched: int

    def ask_to_leave(self) -> None:
        """Ask the actor to leave memory as soon as it has nothing to do."""
        ...


class Residents:
    """Asks actors to leave that have been idle for `idle` seconds, and the idlest ones when more than `limit` live."""

    # Not the exact order of use, which would have to be kept at each message, but the second chance: whoever has been
    # used since it was looked at last goes to the end of the line.

    def __init__(self, timetable: Timetable, *, idle: float | None, limit: int | None) -> None:
        """Take the limits; None stands for none.

        Raises:
            ValueError: a limit is not above zero.
        """
        if (idle is not None and idle <= 0) or (limit is not None and limit < 1):
            raise ValueError(f"passivate_after={idle} and max_live={limit} must be above zero, or None")
        self._timetable = timetable
        self._idle = idle
        self._limit = limit
        self._line: OrderedDict[Resident, int] = OrderedDict()
        self._lock = threading.Lock()
        self._sweeps = False
        self._counts = idle is not None or limit is not None

    def enter(self, resident: Resident) -> None:
        """Take note that the actor is in memory; if it is one too many, somebody has to go."""
        if not self._counts:
            return
        leaving: list[Resident] = []
        with self._lock:
            self._line[resident] = resident.touched
            if self._limit is not None and len(self._line) > self._limit:
                leaving = self._idlest(len(self._line) - self._limit)
            begins = self._idle is not None and not self._sweeps
            self._sweeps = self._sweeps or begins
        if begins:
            self._plan()
        for other in leaving:
            other.ask_to_leave()

    def leave(self, resident: Resident) -> None:
        """Take note that the actor is gone."""
        if self._counts:
            with self._lock:
                self._line.pop(resident, None)

    def _idlest(self, too_many: int) -> list[Resident]:
        leaving: list[Resident] = []
        for _ in range(min(_LOOKS, len(self._line) - 1)):
            resident, seen = self._line.popitem(last=False)
            # Whoever is asked and stays, because there was something to do, is at the end of the line, too.
            self._line[resident] = resident.touched
            if resident.touched == seen:
                leaving.append(resident)
                if len(leaving) == too_many:
                    break
        return leaving

    def _plan(self) -> None:
        if self._idle is not None:
            self._timetable.after(self._idle / 2, self._sweep)

    def _sweep(self) -> None:
        if self._idle is None:
            return
        before = self._timetable.elapsed() - int(self._idle * SECOND)
        with self._lock:
            residents = list(self._line)
            self._sweeps = bool(residents)
        for resident in residents:
            if resident.touched <= before:
                resident.ask_to_leave()
        if residents:
            self._plan()
