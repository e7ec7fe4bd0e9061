"""Transfers between the accounts of `bank.py` that neither lose nor double money, wherever the process dies.

It prints:

    t1: done
    t2: refused, 9999 is more than the 800 there is
    after the crash: ann 700, bob 200
    half a minute later: ann 700, bob 300
"""

import os
from typing import NamedTuple, TypeAlias

from bank import Account, Book, OverdrawnError
from msgspec import Struct

from reenact import ActorSystem, Event, EventSourcedActor, Timer
from reenact.testing import ManualClock, wait_until

RETRY = 30  # seconds


class Send(NamedTuple):  # sent again, it is another attempt
    source: str
    target: str
    amount: int
    now: int = 0


class Finish(NamedTuple):
    outcome: str


class Tried(Event, frozen=True):
    source: str
    target: str
    amount: int
    at: int


class Finished(Event, frozen=True):
    outcome: str


class Order(Struct, frozen=True):
    last: Tried | None = None
    outcome: str = "open"


Command: TypeAlias = Send | Finish | None


class Transfer(EventSourcedActor[Order, Command, Tried | Finished]):
    category = "transfer"
    initial = Order()
    events = {"tried": Tried, "finished": Finished}

    @staticmethod
    def decide(order: Order, command: Command) -> list[Tried | Finished]:
        match command:
            case Send(source, target, amount, now) if order.outcome == "open":
                return [Tried(source, target, amount, now)]  # the intent
            case Finish(outcome) if order.outcome == "open":
                return [Finished(outcome)]
            case _:
                return []

    @staticmethod
    def evolve(order: Order, event: Tried | Finished) -> Order:
        return Order(event) if isinstance(event, Tried) else Order(order.last, event.outcome)

    @staticmethod
    def timers(order: Order) -> list[Timer[Command]]:
        if (last := order.last) is None or order.outcome != "open":
            return []
        return [Timer(at=last.at + RETRY * 1_000_000, command=Send(last.source, last.target, last.amount))]

    def prepare(self, command: Command) -> Command:
        return command._replace(now=self.context.clock()) if isinstance(command, Send) else command

    def on_committed(self, command: Command, events: object) -> None:
        if isinstance(command, Send):  # an account that is asked twice under one id does nothing the second time
            self.context.me.tell(Finish(self.move(command)))

    def move(self, order: Send) -> str:
        try:
            self.context.system.actor(Account, order.source).ask(Book(self.context.id, -order.amount))
        except OverdrawnError as refusal:
            return f"refused, {refusal}"
        self.context.system.actor(Account, order.target).ask(Book(self.context.id, order.amount))
        return "done"

    def reply(self, command: object, events: object) -> str:
        return self.state.outcome


class LastTransfer(Transfer):
    def move(self, order: Send) -> str:
        self.context.system.actor(Account, order.source).ask(Book(self.context.id, -order.amount))
        os._exit(9)  # as by kill -9: the money has left, and not arrived


if __name__ == "__main__":
    clock = ManualClock()  # with a real one we should have to wait for half a minute
    with ActorSystem.open("bank.db", clock=clock) as system:
        system.actor(Account, "ann").ask(Book("salary", 1000))
        for name, amount in (("t1", 200), ("t2", 9999)):
            system.actor(Transfer, name).ask(Send("ann", "bob", amount))
            print(f"{name}: {system.actor(Transfer, name).ask(None)}")
    if os.fork() == 0:
        ActorSystem.open("bank.db", clock=clock).actor(LastTransfer, "t3").ask(Send("ann", "bob", 100))
    os.wait()
    with ActorSystem.open("bank.db", clock=clock) as system:
        ann, bob = system.actor(Account, "ann"), system.actor(Account, "bob")
        print(f"after the crash: ann {ann.ask(None)}, bob {bob.ask(None)}")
        system.register(Transfer)  # from now on its timers are looked at
        clock.advance(RETRY)
        wait_until(lambda: system.actor(Transfer, "t3").ask(None) == "done")
        print(f"half a minute later: ann {ann.ask(None)}, bob {bob.ask(None)}")
