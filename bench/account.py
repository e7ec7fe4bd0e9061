"""The event-sourced actors of the workloads, their log, and a latch on which a measurement waits."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from reenact.actors.journal.api import Synchronous
from reenact.actors.journal.codec import Event, EventCodec, StoredForm
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.kernel import ActorContext, EventSourcedActor


class Deposited(Event, frozen=True):
    """The balance has grown."""

    amount: int


class Deposit(msgspec.Struct, frozen=True):
    """Deposit the amount, then repeat it `more` times, each time once the last deposit is durable."""

    amount: int
    more: int = 0


class Look(msgspec.Struct, frozen=True):
    """Ask for the balance; records no event."""


Command: TypeAlias = Deposit | Look


def decide(_balance: int, command: Command) -> tuple[Deposited, ...]:
    """Return what follows from the command."""
    return (Deposited(command.amount),) if isinstance(command, Deposit) else ()


def evolve(balance: int, event: Deposited) -> int:
    """Return the balance after the event."""
    return balance + event.amount


class Account(EventSourcedActor[int, Command, Deposited]):
    """A balance; the reply is the current balance."""

    category = "account"
    initial = 0
    decide = staticmethod(decide)
    evolve = staticmethod(evolve)

    def reply(self, command: Command, events: Sequence[Deposited]) -> int:
        return self.state


class Busy(Account):
    """An account that sends itself the next deposit once the last one is durable."""

    category = "busy"

    def __init__(self, context: ActorContext, latch: Latch) -> None:
        super().__init__(context)
        self._latch = latch

    def on_committed(self, command: Command, events: Sequence[Deposited]) -> None:
        if isinstance(command, Deposit):
            if command.more:
                self.actor_ref.tell(Deposit(command.amount, command.more - 1))
            else:
                self._latch.count_down()


class Latch:
    """Lets a thread wait until it has been counted down a number of times."""

    def __init__(self, expected: int) -> None:
        self._last = expected - 1
        self._arrivals = itertools.count()  # its step is atomic
        self._all = threading.Event()

    def count_down(self) -> None:
        """Count down once."""
        if next(self._arrivals) == self._last:
            self._all.set()

    def wait(self) -> None:
        """Wait until it has been counted down to zero.

        Raises:
            TimeoutError: that takes longer than ten minutes.
        """
        if not self._all.wait(600):
            raise TimeoutError("not all actors were ready within ten minutes")


def forms() -> EventCodec:
    """Return the codec of the accounts' events."""
    return EventCodec([StoredForm("deposited", Deposited)])


def open_log(path: Path, synchronous: Synchronous = "FULL") -> SqliteJournal:
    """Open a log of accounts, or create it."""
    return SqliteJournal.open(path, forms(), synchronous=synchronous)
