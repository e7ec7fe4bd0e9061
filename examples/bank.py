"""Accounts that cannot be overdrawn, and holds on their money that expire, even while no program runs.

It prints:

    ann has 700 left, and 300 are held
    refused: 800 is more than the 700 there is
    two days later, after a restart: 1000
"""

from typing import NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from reenact import ActorSystem, Event, EventSourcedActor, ReenactError, Timer
from reenact.testing import ManualClock


class OverdrawnError(ReenactError):
    code = "overdrawn"


class Book(NamedTuple):  # the commands; an amount below zero is taken out
    id: str
    amount: int


class Hold(NamedTuple):
    id: str
    amount: int
    until: int


class Release(NamedTuple):
    id: str


class Booked(Event, frozen=True):
    id: str
    amount: int


class Held(Event, frozen=True):
    id: str
    amount: int
    until: int


class Released(Event, frozen=True):
    id: str


class Ledger(Struct, frozen=True):
    available: int = 0
    booked: frozenset[str] = frozenset()  # what is booked again under the same id has no effect
    holds: dict[str, Held] = {}


Command: TypeAlias = Book | Hold | Release | None
Change: TypeAlias = Booked | Held | Released


class Account(EventSourcedActor[Ledger, Command, Change]):
    category = "account"
    initial = Ledger()
    events = {"booked": Booked, "held": Held, "released": Released}
    snapshot_every = 100

    @staticmethod
    def decide(ledger: Ledger, command: Command) -> list[Change]:
        match command:
            case Book(id, amount) if id not in ledger.booked:
                return [Booked(id, amount if amount > 0 else -affordable(ledger, -amount))]
            case Hold(id, amount, until) if id not in ledger.holds:
                return [Held(id, affordable(ledger, amount), until)]
            case Release(id) if id in ledger.holds:
                return [Released(id)]
            case _:
                return []  # it is so already, or it was a mere question

    @staticmethod
    def evolve(ledger: Ledger, event: Change) -> Ledger:
        match event:
            case Booked(id, amount):
                return replace(ledger, available=ledger.available + amount, booked=ledger.booked | {id})
            case Held(id, amount):
                return replace(ledger, available=ledger.available - amount, holds={**ledger.holds, id: event})
            case Released(id):
                holds = {other: hold for other, hold in ledger.holds.items() if other != id}
                return replace(ledger, available=ledger.available + ledger.holds[id].amount, holds=holds)

    @staticmethod
    def timers(ledger: Ledger) -> list[Timer[Command]]:
        return [Timer(at=hold.until, command=Release(hold.id)) for hold in ledger.holds.values()]

    def reply(self, command: object, events: object) -> int:
        return self.state.available


def affordable(ledger: Ledger, amount: int) -> int:
    if amount > ledger.available:
        raise OverdrawnError(f"{amount} is more than the {ledger.available} there is")
    return amount


if __name__ == "__main__":
    clock = ManualClock()  # with a real one we should have to wait for two days
    with ActorSystem.open("bank.db", clock=clock) as system:
        ann = system.actor(Account, "ann")
        ann.ask(Book("salary", 1000))
        ann.ask(Book("salary", 1000))  # sent twice, booked once
        print("ann has", ann.ask(Hold("hotel", 300, until=clock() + 86_400_000_000)), "left, and 300 are held")
        try:
            ann.ask(Book("rent", -800))
        except OverdrawnError as refusal:
            print(f"refused: {refusal}")
    clock.advance(2 * 86_400)
    with ActorSystem.open("bank.db", clock=clock) as system:
        print("two days later, after a restart:", system.actor(Account, "ann").ask(None))
