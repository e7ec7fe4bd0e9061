"""Supervised actors without a log: a new one takes the place of one that has failed, behind the same reference."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from reenact.actors.kernel.pooled import PooledActor
from reenact.actors.kernel.supervision import RestartLimitError, Restarts, Supervision
from reenact.actors.kernel.timetable import Entry, Timetable

_log = logging.getLogger("reenact.kernel")


class Household(Protocol):
    """Where keepers belong."""

    timetable: Timetable

    def rests(self) -> bool:
        """Return whether actors may still be started again by themselves, after a while."""
        ...

    def gave_up(self, keeper: Keeper, error: Exception, *, escalates: bool) -> None:
        """Hear that an actor has ended for good."""
        ...


class Keeper:
    """Cares for one actor: starts it again with what it was made of, or lets it end."""

    def __init__(self, household: Household, supervision: Supervision, make: Callable[[], PooledActor]) -> None:
        self.actor = make()
        self._household = household
        self._supervision = supervision
        self._make = make
        self._restarts = Restarts(supervision, type(self.actor).__qualname__)
        self._backoff: Entry | None = None

    def hurry(self) -> None:
        """Wait no longer for the time of the next start, if that is what the actor does."""
        if self._backoff is not None and self._backoff.cancel():
            self._start_again()

    def revives(self, failure: Exception) -> bool:
        """Take care of the actor, which has failed; return False if that is its end."""
        error, escalates = failure, self._supervision.strategy == "escalate"
        if self._supervision.strategy == "restart":
            delay = self._restarts.delay(self._household.timetable.elapsed())
            if delay is not None and self._household.rests():
                self._backoff = self._household.timetable.after(delay, self._start_again)
                if not self._household.rests():  # whoever closes the system may have come by in between
                    self.hurry()
                return True
            escalates = self._supervision.on_limit == "escalate"
            if delay is None:
                error = RestartLimitError(str(self.actor), self._supervision, failure)
                error.__cause__ = failure
                _log.error("%s", error)
        self._household.gave_up(self, error, escalates=escalates)
        return False

    def _start_again(self) -> None:
        self._backoff = None
        try:
            successor = self._make()
        except Exception as error:  # noqa: BLE001 - its constructor is the user's
            if not self.revives(error):
                self.actor.perish()
            return
        successor.succeed(self.actor)
        self.actor = successor
        successor.resume()
