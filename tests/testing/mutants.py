"""Accounts with one planted bug each, of the kinds that a fold over a log does not survive."""

from __future__ import annotations

import dataclasses
import itertools
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec

from reenact.actors.journal.codec import Event as BaseEvent
from reenact.actors.kernel import ActorContext, EventSourcedActor, Stored, Timer
from reenact.actors.kernel.declared import Announcement
from tests.testing import account
from tests.testing.account import (
    Account,
    Audit,
    Balance,
    Command,
    Deposit,
    Deposited,
    Event,
    OverdrawnError,
    Reserve,
    Withdraw,
    Withdrawn,
)

COUNTER: Final = itertools.count(1)
MAILS: Final[list[str]] = []
"""What was sent by the accounts that send too early."""


class ReadsTheTime(Account):
    @staticmethod
    def evolve(state: Balance, event: Event) -> Balance:
        year = 1 if time.time() > 0 else 2  # the same on every day of the test, and not for ever
        return msgspec.structs.replace(account.evolve(state, event), amount=account.evolve(state, event).amount * year)


class ReadsTheDate(Account):
    @staticmethod
    def evolve(state: Balance, event: Event) -> Balance:
        return account.evolve(state, event) if datetime.now(UTC).year > 2000 else state


class LeavesToChance(Account):
    @staticmethod
    def evolve(state: Balance, event: Event) -> Balance:
        return account.evolve(state, event) if random.random() < 2 else state


class ReadsTheActorsClock(Account):
    def decide(self, state: Balance, command: Command) -> Sequence[Event]:
        return account.decide(state, command) if self.context.clock() else ()


class Counts(Account):
    @staticmethod
    def decide(state: Balance, command: Command) -> Sequence[Event]:
        match command:
            case Withdraw(amount=amount) if amount <= state.free:
                return (Withdrawn(amount, f"number {next(COUNTER)}"),)
            case _:
                return account.decide(state, command)


class Remembers(Account):
    """Knows how often it was asked, until it is started the next time."""

    asked = 0

    def decide(self, state: Balance, command: Command) -> Sequence[Event]:
        self.asked += 1
        return account.decide(state, command)


class RemembersInPlace(Account):
    """Changes a collection of its own, which stays the same object."""

    def __init__(self, context: ActorContext) -> None:
        super().__init__(context)
        self.asked = {"withdrawals": 0}

    def decide(self, state: Balance, command: Command) -> Sequence[Event]:
        self.asked["withdrawals"] += isinstance(command, Withdraw)
        return account.decide(state, command)


class RemembersForAll(Account):
    """Changes a collection that all of its kind share."""

    asked: ClassVar[list[Command]] = []

    def decide(self, state: Balance, command: Command) -> Sequence[Event]:
        self.asked.append(command)
        return account.decide(state, command)


class DecidesByWhatItRemembers(Account):
    """Numbers what it records, and begins anew when it is made anew."""

    recorded = 0

    def decide(self, state: Balance, command: Command) -> Sequence[Event]:
        events = account.decide(state, command)
        return [
            msgspec.structs.replace(event, note=f"number {self.recorded}") if isinstance(event, Withdrawn) else event
            for event in events
        ]

    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        self.recorded += len(events)


class DecidesToRaiseDifferently(Account):
    @staticmethod
    def decide(state: Balance, command: Command) -> Sequence[Event]:
        if isinstance(command, Withdraw) and command.amount > state.free:
            raise OverdrawnError(next(COUNTER), command.amount)
        return account.decide(state, command)


class EvolveRaises(Account):
    @staticmethod
    def evolve(state: Balance, event: Event) -> Balance:
        if isinstance(event, Withdrawn) and state.amount - event.amount < 5:
            raise ZeroDivisionError("an account that is almost empty")
        return account.evolve(state, event)


# States that can be changed, and are.


@dataclasses.dataclass
class Purse:
    coins: list[int] = dataclasses.field(default_factory=list[int])


class Open(msgspec.Struct):
    """A command that can be changed."""

    coins: list[int]


class PurseActor(EventSourcedActor[Purse, Open, Deposited]):
    """Keeps coins in a list, and treats it with care: healthy."""

    category = "purse"
    events = MappingProxyType({"deposited": Deposited})
    initial = Purse()

    @staticmethod
    def decide(state: Purse, command: Open) -> Sequence[Deposited]:
        return [Deposited(coin) for coin in command.coins]

    @staticmethod
    def evolve(state: Purse, event: Deposited) -> Purse:
        return Purse([*state.coins, event.amount])


class DecideMutatesTheState(PurseActor):
    @staticmethod
    def decide(state: Purse, command: Open) -> Sequence[Deposited]:
        state.coins += command.coins
        return [Deposited(coin) for coin in command.coins]


class DecideMutatesTheCommand(PurseActor):
    @staticmethod
    def decide(state: Purse, command: Open) -> Sequence[Deposited]:
        return [Deposited(command.coins.pop())] if command.coins else []


class EvolveMutatesInPlace(PurseActor):
    @staticmethod
    def evolve(state: Purse, event: Deposited) -> Purse:
        state.coins.append(event.amount)
        return state


# Hooks that do what only evolve, or only on_committed, may do.


class AppliesTwice(Account):
    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        self.state = account.evolve(self.state, events[-1])


class RecoversToMore(Account):
    def on_recovered(self) -> Sequence[Command]:
        self.state = msgspec.structs.replace(self.state, amount=self.state.amount + 1)
        return ()


class ReplySpends(Account):
    def reply(self, command: Command, events: tuple[Event, ...]) -> int:
        self.state = msgspec.structs.replace(self.state, amount=0)
        return 0


class SendsWhenPreparing(Account):
    def prepare(self, command: Command) -> Command:
        MAILS.append("about to")
        return super().prepare(command)


class SendsWhenDeciding(Account):
    @staticmethod
    def decide(state: Balance, command: Command) -> Sequence[Event]:
        events = account.decide(state, command)
        MAILS.extend(type(event).__name__ for event in events)
        return events


class TellsWhenAnnouncing(Account):
    def announce(
        self, command: Command, before: Balance, events: tuple[Event, ...], after: Balance, recorded_at: int
    ) -> Announcement:
        self.context.system.actor(type(self), "savings").tell(Audit())
        return (), ()


class SchedulesWhenDeciding(Account):
    def decide(self, state: Balance, command: Command) -> Sequence[Event]:
        self.context.schedule(60, Audit())
        return account.decide(state, command)


class RepliesFromWhatIsNotDurable(Account):
    """What it is about to believe is a step too early: another writer may come before it."""

    _expected: Balance | None = None

    def announce(
        self, command: Command, before: Balance, events: tuple[Event, ...], after: Balance, recorded_at: int
    ) -> Announcement:
        self._expected = after
        return (), ()

    def reply(self, command: Command, events: tuple[Event, ...]) -> int:
        return (self._expected or self.state).amount


# Forms in which something is lost.


class ForgetfulSnapshot(Account):
    snapshot_type = int

    @staticmethod
    def to_snapshot(state: Balance) -> int:
        return state.amount

    @staticmethod
    def from_snapshot(stored: int) -> Balance:
        return Balance(stored)


class Premium(Balance, frozen=True):
    """A state of a kind that a snapshot does not tell from the ordinary one."""


class SnapshotOfTheWrongKind(Account):
    @staticmethod
    def evolve(state: Balance, event: Event) -> Balance:
        balance = account.evolve(state, event)
        return Premium(balance.amount, balance.reserved) if balance.amount > 2 else balance


class UnreadableSnapshot(Account):
    @staticmethod
    def to_snapshot(state: Balance) -> object:
        return state if not state.reserved else str(state.reserved)


class UnstorableSnapshot(Account):
    @staticmethod
    def to_snapshot(state: Balance) -> object:
        return state if not state.amount else object()


class Unnamed(BaseEvent, frozen=True):
    amount: int


class EmitsTheUnnamed(Account):
    @staticmethod
    def decide(state: Balance, command: Command) -> Sequence[Any]:
        return [Unnamed(1)] if isinstance(command, Withdraw) else account.decide(state, command)


class Loose(BaseEvent, frozen=True):
    """Its field comes back as what msgspec makes of anything: a list, where a tuple was."""

    amounts: Any


class EmitsTheLoose(EventSourcedActor[tuple[int, ...], Deposit, Loose]):
    category = "loose"
    events = MappingProxyType({"loose": Loose})
    initial = ()

    @staticmethod
    def decide(state: tuple[int, ...], command: Deposit) -> Sequence[Loose]:
        return [Loose((command.amount,))]

    @staticmethod
    def evolve(state: tuple[int, ...], event: Loose) -> tuple[int, ...]:
        return (*state, *event.amounts)


def note_first(fields: list[Any]) -> list[Any]:
    return ["", *fields]


class WrongUpcast(Account):
    events: ClassVar[Any] = {**Account.events, "withdrawn": Stored(Withdrawn, version=2, upcast={1: note_first})}


class ForgetfulUpcast(Account):
    events: ClassVar[Any] = {
        **Account.events,
        "withdrawn": Stored(Withdrawn, version=2, upcast={1: lambda fields: [0, ""]}),
    }


class ImpatientTimers(Account):
    @staticmethod
    def timers(state: Balance) -> tuple[Timer[Command], ...]:
        return tuple(Timer(max(timer.at, time.time_ns() // 1000), timer.command) for timer in account.timers(state))


class CountingTimers(Account):
    @staticmethod
    def timers(state: Balance) -> tuple[Timer[Command], ...]:
        return tuple(Timer(timer.at + next(COUNTER), timer.command) for timer in account.timers(state))


USE: Final = (Deposit(10), Audit(), Withdraw(4), Reserve(2), Withdraw(9), Withdraw(4), Audit())
"""What every kind of account is asked."""
