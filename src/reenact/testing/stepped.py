"""An actor system that can be waited for until everything in it has come to rest."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import Any, Final

from reenact.actors.journal.codec import EventCodec
from reenact.actors.kernel.family import Key
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.mailbox import Mailbox
from reenact.actors.kernel.persistent import EventSourcedActor
from reenact.actors.kernel.system import ActorSystem
from reenact.testing.clock import ManualClock
from reenact.testing.faulty_journal import PATIENCE, FaultyJournal

_TURNS: Final = 10
"""After so many turns without a sign of life, whoever is not idle waits for what only the test can bring about."""

_PAUSE: Final = 0.001


class _Turn:
    """Work for a worker that only shows that its turn has come."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.never = threading.Event()

    def run(self) -> None:
        self.over.set()


class SteppedSystem(ActorSystem):
    """One worker, a clock that stands still, and a journal that a test can hold: whatever happens, happens in order."""

    def __init__(self, journal: FaultyJournal, codec: EventCodec, clock: ManualClock) -> None:
        super().__init__(journal, codec=codec, workers=1, clock=clock)
        self._faulty = journal
        self._backing_off: frozenset[str] = frozenset()
        self._backing_off_at = 0

    def _dismiss(self, key: Key) -> PooledFuture[Any]:
        """Ask the actor to stop; one that waits for the time to be started again waits no longer."""
        self._backing_off = frozenset()
        return super()._dismiss(key)

    def dismiss(self, key: Key) -> None:
        """Ask the actor to stop, without waiting for it."""
        self._dismiss(key)

    def settle(self) -> None:
        """Wait until every actor is idle, or waits for an append that the journal holds.

        An actor that waits for something else that only the test can bring about (for one that is itself suspended,
        or for the time to be started again) is left alone.

        Raises:
            AssertionError: there is no end of it.
        """
        if self.timetable.elapsed() != self._backing_off_at:
            self._backing_off = frozenset()
        deadline = time.monotonic() + PATIENCE
        signs, still = self._signs(), 0
        while not self._is_quiet():
            turn = _Turn()
            self.pool.submit(turn)
            turn.over.wait(PATIENCE)  # then whatever was waiting for a worker has had its turn, too
            before, signs = signs, self._signs()
            still = still + 1 if signs == before and not self._faulty.under_way else 0
            if still == _TURNS:
                backing_off = self._without_actors()
                if backing_off or self._faulty.held:
                    self._backing_off, self._backing_off_at = backing_off, self.timetable.elapsed()
                    return
            if time.monotonic() > deadline:
                raise AssertionError(f"the actors have not come to rest after {PATIENCE:g} seconds")
            turn.never.wait(_PAUSE * still)

    def _signs(self) -> tuple[int, int]:
        """Return what shows that something has moved."""
        return self._faulty.handed_over, self.live()

    def _is_quiet(self) -> bool:
        """Hold all mailboxes at once: then nobody runs, and what is empty stays empty."""
        with self._lock:
            mailboxes = [(key[0].stream(key[1]), cell.mailbox) for key, cell in self._cells.items()]
            cells = len(mailboxes)
        for actor in self.pool.live():
            inbox: object = getattr(actor, "actor_inbox", None)
            if isinstance(inbox, Mailbox) and not isinstance(actor, EventSourcedActor):
                mailboxes.append(("", inbox))
        suspended = self._backing_off | {step.stream for step in self._faulty.held}
        with ExitStack() as letting_go:
            holding: list[Mailbox] = []
            for stream, mailbox in mailboxes:
                if mailbox.hold():
                    letting_go.callback(mailbox.let_go)
                    holding.append(mailbox)
                elif stream not in suspended:
                    return False
            with self._lock:
                same = cells == len(self._cells)
            return same and not self._faulty.under_way and all(mailbox.empty() for mailbox in holding)

    def _without_actors(self) -> frozenset[str]:
        """Return the streams for which there should be an actor, and is none."""
        live = {actor.context.stream for actor in self.pool.live() if isinstance(actor, EventSourcedActor)}
        with self._lock:
            return frozenset({key[0].stream(key[1]) for key in self._cells} - live)
