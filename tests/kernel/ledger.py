"""A ledger that reminds: what a test of timers, snapshots and passivation needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from reenact.actors.journal.api import Append, Done, Recorded
from reenact.actors.kernel import EventSourcedActor, Timer
from reenact.domain.errors import ReenactError
from tests.kernel.memory import MemoryJournal

NOON = 1_700_000_000_000_000
"""When the tests begin."""

SECOND = 1_000_000
A = "ledger/a"
"""The stream of the ledger `a`."""


class Post(msgspec.Struct, frozen=True):
    """Post the amount, in so many entries."""

    amount: int
    entries: int = 1


class Remind(msgspec.Struct, frozen=True):
    """Ring at this time; an earlier reminder of that name moves."""

    name: str
    at: int


class Forget(msgspec.Struct, frozen=True):
    name: str


class Ring(msgspec.Struct, frozen=True):
    """What a reminder says. One named `idle…` has no effect, `refused…` is refused, `broken…` raises."""

    name: str


class Look(msgspec.Struct, frozen=True):
    """Ask for the book; records nothing."""


class Posted(msgspec.Struct, frozen=True, array_like=True):
    amount: int


class Reminded(msgspec.Struct, frozen=True, array_like=True):
    name: str
    at: int


class Forgotten(msgspec.Struct, frozen=True, array_like=True):
    name: str


class Rang(msgspec.Struct, frozen=True, array_like=True):
    name: str


Command: TypeAlias = Post | Remind | Forget | Ring | Look
Event: TypeAlias = Posted | Reminded | Forgotten | Rang


class Book(msgspec.Struct, frozen=True):
    """A state."""

    balance: int = 0
    reminders: tuple[tuple[str, int], ...] = ()
    rung: tuple[str, ...] = ()

    def without(self, name: str) -> tuple[tuple[str, int], ...]:
        return tuple(one for one in self.reminders if one[0] != name)


class NotRungError(ReenactError):
    code = "not_rung"


def decide(book: Book, command: Command) -> Sequence[Event]:
    match command:
        case Look():
            return ()
        case Post(amount=amount, entries=entries):
            return [Posted(amount)] * entries
        case Remind(name=name, at=at):
            return (Reminded(name, at),)
        case Forget(name=name):
            return (Forgotten(name),)
        case Ring(name=name) if name.startswith("idle"):
            return ()
        case Ring(name=name) if name.startswith("refused"):
            raise NotRungError(name)
        case Ring(name=name) if name.startswith("broken"):
            raise ZeroDivisionError(name)
        case Ring(name=name):
            return (Rang(name),)


def evolve(book: Book, event: Event) -> Book:
    match event:
        case Posted(amount=amount):
            return Book(book.balance + amount, book.reminders, book.rung)
        case Reminded(name=name, at=at):
            return Book(book.balance, (*book.without(name), (name, at)), book.rung)
        case Forgotten(name=name):
            return Book(book.balance, book.without(name), book.rung)
        case Rang(name=name):
            return Book(book.balance, book.without(name), (*book.rung, name))


def timers(book: Book) -> Iterable[Timer[Command]]:
    return [Timer(at, Ring(name)) for name, at in book.reminders]


class SilentLedger(EventSourcedActor[Book, Command, Event]):
    """Replies with its book, and reminds of nothing."""

    category = "ledger"
    initial = Book()
    events = {"posted": Posted, "reminded": Reminded, "forgotten": Forgotten, "rang": Rang}  # noqa: RUF012 - as a user
    decide = staticmethod(decide)
    evolve = staticmethod(evolve)

    def reply(self, command: Command, events: tuple[Event, ...]) -> Book:
        return self.state


class Ledger(SilentLedger):
    """Is reminded as well."""

    timers = staticmethod(timers)


class SnappingLedger(Ledger):
    """A ledger that takes a snapshot whenever three more events are there."""

    snapshot_every = 3


class CountingJournal(MemoryJournal):
    """A journal that counts the events that actors read back, and shows what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.recovered = 0
        self.appended: list[Append] = []

    def append(self, step: Append, done: Done) -> None:
        self.appended.append(step)
        super().append(step, done)

    def recover(self, stream: str, *, after: int = -1) -> list[Recorded]:
        recorded = super().recover(stream, after=after)
        self.recovered += len(recorded)
        return recorded


def rung(journal: MemoryJournal, stream: str = A) -> list[str]:
    """Return which reminders have rung."""
    return [entry.event.name for entry in journal.read(stream) if isinstance(entry.event, Rang)]
