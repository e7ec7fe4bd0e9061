"""An account that cannot be overdrawn: the smallest thing that has a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from reenact.actors.journal.api import Entry, Segment
from reenact.actors.kernel import ActorContext, EventSourcedActor
from reenact.actors.kernel.declared import Announcement
from reenact.domain.errors import ReenactError


class Deposit(msgspec.Struct, frozen=True):
    amount: int


class Withdraw(msgspec.Struct, frozen=True):
    amount: int


class Audit(msgspec.Struct, frozen=True):
    """Ask for the balance; records nothing."""


class Deposited(msgspec.Struct, frozen=True):
    amount: int


class Withdrawn(msgspec.Struct, frozen=True):
    amount: int


Command: TypeAlias = Deposit | Withdraw | Audit
Event: TypeAlias = Deposited | Withdrawn


class OverdrawnError(ReenactError):
    code = "overdrawn"

    def __init__(self, balance: int, amount: int) -> None:
        super().__init__(f"{amount} is more than the {balance} there is")


def decide(balance: int, command: Command) -> tuple[Event, ...]:
    match command:
        case Audit():
            return ()
        case Deposit(amount=amount):
            return (Deposited(amount),)
        case Withdraw(amount=amount):
            if amount > balance:
                raise OverdrawnError(balance, amount)
            return (Withdrawn(amount),)


def evolve(balance: int, event: Event) -> int:
    match event:
        case Deposited(amount=amount):
            return balance + amount
        case Withdrawn(amount=amount):
            return balance - amount


class Account(EventSourcedActor[int, Command, Event]):
    initial = 0
    decide = staticmethod(decide)
    evolve = staticmethod(evolve)

    @classmethod
    def stream(cls, id: str) -> str:  # noqa: A002 - as the base class has it
        return id

    def reply(self, command: Command, events: tuple[Event, ...]) -> int:
        return self.state


class Diary(list[tuple[Any, ...]]):
    """What hooks have heard, in order."""

    def told(self, what: str) -> list[tuple[Any, ...]]:
        return [entry for entry in self if entry[0] == what]


class WatchedAccount(Account):
    """An account that writes down which hooks were called, and does in them what a test wants done."""

    def __init__(
        self,
        context: ActorContext,
        diary: Diary,
        *,
        opening: Sequence[Command] = (),
        prepare: Callable[[Command], Command] = lambda command: command,
        on_committed: Callable[[Command], None] = lambda command: None,
    ) -> None:
        super().__init__(context)
        self._diary = diary
        self._opening_commands = opening
        self._prepare = prepare
        self._act = on_committed
        diary.append(("made", context.id))

    def on_recovered(self) -> Sequence[Command]:
        self._diary.append(("recovered", self.state, self.version))
        return self._opening_commands

    def prepare(self, command: Command) -> Command:
        return self._prepare(command)

    def announce(
        self, command: Command, before: int, events: tuple[Event, ...], after: int, recorded_at: int
    ) -> Announcement:
        assert self.state == before
        self._diary.append(("announced", command, before, events, after, recorded_at))
        entries = tuple(Entry("balance", recorded_at, {"balance": after}) for _ in events)
        return (Segment({"account": self.context.id}, entries),), (Segment({}, entries),)

    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        self._diary.append(("committed", events, self.state, self.version))
        self._act(command)

    def on_dead_letter(self, command: Command, refusal: ReenactError) -> None:
        self._diary.append(("dead letter", command, refusal.code))

    def on_lost(self, error: Exception) -> None:
        self._diary.append(("lost", error))

    def on_stop(self) -> None:
        self._diary.append(("stopped", self.state))
