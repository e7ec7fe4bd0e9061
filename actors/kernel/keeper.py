"""Supervised actors without a log: a new one takes the place of one that has failed, behind the same reference."""

# The parts of the kernel call each other's private methods: what is public there is the user's.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable

import pykka

from reenact.actors.kernel.mailbox import Envelope
from reenact.actors.kernel.pooled import PooledActor
from reenact.actors.kernel.reference import Surroundings
from reenact.actors.kernel.supervision import Backoff, Restarts, Supervision


class Keeper:
    """Cares for one actor: starts it again with what it was made of, or lets it end."""

    def __init__(self, household: Surroundings, supervision: Supervision, make: Callable[[], PooledActor]) -> None:
        self.actor = make()
        self._household = household
        self._make = make
        self._restarts = Restarts(supervision, type(self.actor).__qualname__)
        self._backoff: Backoff | None = None

    def hurry(self) -> None:
        """Wait no longer for the time of the next start, if that is what the actor does."""
        backoff = self._backoff
        if backoff is not None:
            backoff.hurry()

    def take_care(self, failure: Exception) -> None:
        """Start the actor, which has failed, again after a while, or let it perish."""
        failed = self.actor
        household = self._household
        verdict = self._restarts.verdict(failure, str(failed), household.timetable.elapsed(), rests=household._rests())
        if verdict.delay is not None:
            self._backoff = backoff = Backoff(self._start_again)
            backoff.begin(household.timetable, verdict.delay)
            # Whoever closes the system, or stops the actor, may have come by in between.
            if not household._rests() or failed.awaits_stop():
                backoff.hurry()
            return
        failed.perish()
        household._failed(failed.actor_ref, verdict.error, escalates=verdict.escalates)

    def _start_again(self) -> None:
        self.actor.awaken(self)

    def _turn(self, _envelope: Envelope | None) -> None:
        failed = self.actor
        try:
            with failed.replaced():
                successor = self._make()
        except BaseException as error:  # noqa: BLE001 - its constructor is the user's
            if isinstance(error, Exception):
                failure = error
            else:
                failure = pykka.ActorDeadError(f"{failed} quits before it takes its first message")
                failure.__cause__ = error
            self.take_care(failure)
        else:
            self.actor = successor
            successor.succeed(failed)
