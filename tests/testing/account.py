"""An account with everything that an event-sourced actor can have: the healthy twin of all mutants."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, assert_never

import msgspec
from hypothesis import strategies as st

from reenact.actors.journal.codec import Event as BaseEvent
from reenact.actors.kernel import ActorContext, EventSourcedActor, Stored, Timer
from reenact.domain.errors import ReenactError

HOUR = 3_600_000_000


class Deposit(msgspec.Struct, frozen=True):
    amount: int


class Withdraw(msgspec.Struct, frozen=True):
    amount: int
    note: str = ""


class Reserve(msgspec.Struct, frozen=True):
    """Set an amount aside for an hour; `at` is filled in by the actor."""

    amount: int
    at: int = 0


class Release(msgspec.Struct, frozen=True):
    until: int


class Audit(msgspec.Struct, frozen=True):
    """Ask for the balance; records nothing."""


class Deposited(BaseEvent, frozen=True):
    amount: int


class Withdrawn(BaseEvent, frozen=True):
    amount: int
    note: str = ""


class Reserved(BaseEvent, frozen=True):
    amount: int
    until: int


class Released(BaseEvent, frozen=True):
    until: int


Command: TypeAlias = Deposit | Withdraw | Reserve | Release | Audit
Event: TypeAlias = Deposited | Withdrawn | Reserved | Released


class OverdrawnError(ReenactError):
    code = "overdrawn"

    def __init__(self, free: int, amount: int) -> None:
        super().__init__(f"{amount} is more than the {free} there is")
        self.free = free
        self.amount = amount


class Balance(msgspec.Struct, frozen=True):
    amount: int = 0
    reserved: tuple[tuple[int, int], ...] = ()
    """Until when, and how much."""

    @property
    def free(self) -> int:
        return self.amount - sum(amount for _, amount in self.reserved)


def decide(state: Balance, command: Command) -> Sequence[Event]:
    match command:
        case Audit():
            return ()
        case Deposit(amount=amount):
            return (Deposited(amount),)
        case Withdraw(amount=amount, note=note):
            if amount > state.free:
                raise OverdrawnError(state.free, amount)
            return (Withdrawn(amount, note),)
        case Reserve(amount=amount, at=at):
            if amount > state.free:
                raise OverdrawnError(state.free, amount)
            return (Reserved(amount, at + HOUR),)
        case Release(until=until):
            return tuple(Released(end) for end, _ in state.reserved if end == until)
        case _:
            assert_never(command)


def evolve(state: Balance, event: Event) -> Balance:
    match event:
        case Deposited(amount=amount):
            return msgspec.structs.replace(state, amount=state.amount + amount)
        case Withdrawn(amount=amount):
            return msgspec.structs.replace(state, amount=state.amount - amount)
        case Reserved(amount=amount, until=until):
            return msgspec.structs.replace(state, reserved=(*state.reserved, (until, amount)))
        case Released(until=until):
            index = [end for end, _ in state.reserved].index(until)
            return msgspec.structs.replace(state, reserved=(*state.reserved[:index], *state.reserved[index + 1 :]))
        case _:
            assert_never(event)


def timers(state: Balance) -> tuple[Timer[Command], ...]:
    return tuple(Timer(until, Release(until)) for until, _ in state.reserved)


def with_a_note(fields: list[Any]) -> list[Any]:
    return [*fields, ""]


class Account(EventSourcedActor[Balance, Command, Event]):
    category = "account"
    initial = Balance()
    events = MappingProxyType(
        {
            "deposited": Deposited,
            "withdrawn": Stored(Withdrawn, version=2, upcast={1: with_a_note}),
            "reserved": Reserved,
            "released": Released,
        }
    )
    decide = staticmethod(decide)
    evolve = staticmethod(evolve)
    timers = staticmethod(timers)
    snapshot_every = 100

    def __init__(self, context: ActorContext, mails: list[str] | None = None) -> None:
        super().__init__(context)
        self.mails = [] if mails is None else mails

    def prepare(self, command: Command) -> Command:
        match command:
            case Reserve():
                return msgspec.structs.replace(command, at=self.context.clock())
            case _:
                return command

    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        self.mails += [f"{event.amount} withdrawn" for event in events if isinstance(event, Withdrawn)]

    def reply(self, command: Command, events: tuple[Event, ...]) -> int:
        return self.state.amount


amounts = st.integers(1, 9)
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(Deposit, amounts), st.builds(Withdraw, amounts), st.builds(Reserve, amounts), st.builds(Audit)
)
