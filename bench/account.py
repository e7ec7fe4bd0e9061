"""The event-sourced actors that the workloads use, their log, and how many take part."""

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
    """Put the amount in; and then so many times `more`, each when the one before is durable."""

    amount: int
    more: int = 0


class Look(msgspec.Struct, frozen=True):
    """Ask for the balance; nothing follows from it."""


Command: TypeAlias = Deposit | Look


def decide(_balance: int, command: Command) -> tuple[Deposited, ...]:
    """Return what follows from the command."""
    return (Deposited(command.amount),) if isinstance(command, Deposit) else ()


def evolve(balance: int, event: Deposited) -> int:
    """Return the balance after the event."""
    return balance + event.amount


class Account(EventSourcedActor[int, Command, Deposited]):
    """A balance; the reply is what it is now."""

    category = "account"
    initial = 0
    decide = staticmethod(decide)
    evolve = staticmethod(evolve)

    def reply(self, command: Command, events: Sequence[Deposited]) -> int:
        return self.state


class Busy(Account):
    """An account that goes on by itself: one event at a time, each appended when the one before is durable."""

    category = "busy"

    def __init__(self, context: ActorContext, finish: Finish) -> None:
        super().__init__(context)
        self._finish_line = finish

    def on_committed(self, command: Command, events: Sequence[Deposited]) -> None:
        if isinstance(command, Deposit):
            if command.more:
                self.actor_ref.tell(Deposit(command.amount, command.more - 1))
            else:
                self._finish_line.cross()


class Finish:
    """Where one waits until so many have arrived."""

    def __init__(self, expected: int) -> None:
        self._last = expected - 1
        self._arrivals = itertools.count()  # its step is atomic
        self._all = threading.Event()

    def cross(self) -> None:
        """Arrive."""
        if next(self._arrivals) == self._last:
            self._all.set()

    def wait(self) -> None:
        """Return when all have arrived.

        Raises:
            TimeoutError: they do not come.
        """
        if not self._all.wait(600):
            raise TimeoutError("not all have arrived within ten minutes")


def forms() -> EventCodec:
    """Return what encodes the accounts' events."""
    return EventCodec([StoredForm("deposited", Deposited)])


def open_log(path: Path, synchronous: Synchronous = "FULL") -> SqliteJournal:
    """Open a log of accounts, or begin one."""
    return SqliteJournal.open(path, forms(), synchronous=synchronous)
