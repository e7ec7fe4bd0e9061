"""A saga of an order with the stock and the shipment of `stock.py`; an order that is not picked up in a day is undone.

Each step is recorded before it is tried. An older program, which counted dozens, has begun the log. It prints:

    ordered with the old program: shipping, 76 left
    a crash before the stock's answer was recorded; half a minute later: shipping, 66 left
    too many: refused, 500 is more than the 66 there is
    picked up: done, 66 left
    not picked up, a day later: cancelled, 76 left
"""

import os
import signal
from typing import NamedTuple, TypeAlias

from msgspec import Struct
from stock import Shipment, Stock, Take, TooManyError

from reenact import ActorSystem, Event, EventSourcedActor, Stored, Timer
from reenact.testing import ManualClock, wait_until

RETRY, DAY = 30, 24 * 60 * 60  # seconds


class Place(NamedTuple):
    quantity: int


class Go(NamedTuple):  # to another stage, or once more to the one it is at
    stage: str
    now: int = 0


class Placed(Event, frozen=True):
    quantity: int


class Went(Event, frozen=True):
    stage: str
    at: int


class Course(Struct, frozen=True):
    quantity: int = 0
    stage: str = ""
    since: int = 0


ROADS = {
    "placed": {"reserving"},
    "reserving": {"reserving", "shipping", "refused"},
    "shipping": {"done", "cancelling"},
    "cancelling": {"cancelling", "cancelled"},
}
AFTER = {"reserving": (RETRY, "reserving"), "shipping": (DAY, "cancelling"), "cancelling": (RETRY, "cancelling")}
Command: TypeAlias = Place | Go | None


class Order(EventSourcedActor[Course, Command, Placed | Went]):
    category = "order"
    initial = Course()
    events = {"placed": Stored(Placed, version=2, upcast={1: lambda fields: [fields[0] * 12]}), "went": Went}

    @staticmethod
    def decide(course: Course, command: Command) -> list[Placed | Went]:
        match command:
            case Place(quantity) if not course.stage:
                return [Placed(quantity)]
            case Go(stage, now) if stage.partition(",")[0] in ROADS.get(course.stage, ()):
                return [Went(stage, now)]
            case _:
                return []

    @staticmethod
    def evolve(course: Course, event: Placed | Went) -> Course:
        if isinstance(event, Placed):
            return Course(event.quantity, "placed")
        return Course(course.quantity, event.stage, event.at)

    @staticmethod
    def timers(course: Course) -> list[Timer[Command]]:
        seconds, stage = AFTER.get(course.stage, (0, ""))
        return [Timer(at=course.since + seconds * 1_000_000, command=Go(stage))] if stage else []

    def prepare(self, command: Command) -> Command:
        return command._replace(now=self.context.clock()) if isinstance(command, Go) else command

    def on_committed(self, command: object, events: object) -> None:
        if next_stage := self.act():
            self.context.me.tell(Go(next_stage))

    def act(self) -> str:
        """Carry out the stage; a second request for the same order has no effect."""
        stock = self.context.system.actor(Stock, "lamp")
        shipment = self.context.system.actor(Shipment, self.context.id)
        match self.state.stage:
            case "placed":
                return "reserving"
            case "reserving":
                try:
                    stock.ask(Take(self.context.id, self.state.quantity))
                except TooManyError as refusal:
                    return f"refused, {refusal}"
                shipment.ask("booked")
                return "shipping"
            case "cancelling":
                if shipment.ask("called off") == "away":
                    return ""
                stock.ask(Take(self.context.id, 0))
                return "cancelled"
            case _:
                return ""

    def reply(self, command: object, events: object) -> str:
        return self.state.stage


class InDozens(Order):  # the older program, which went no further than this
    events = {"placed": Placed, "went": Went}

    def on_committed(self, command: object, events: object) -> None: ...


class LastOrder(Order):
    def act(self) -> str:
        if self.state.stage == "reserving":
            self.context.system.actor(Stock, "lamp").ask(Take(self.context.id, self.state.quantity))
            os._exit(9)  # as by kill -9: the stock has said yes, and the order does not know
        return super().act()


def show(system: ActorSystem, what: str, order: str, stage: str) -> None:
    wait_until(lambda: system.actor(Order, order).ask(None).startswith(stage))
    left = f", {system.actor(Stock, 'lamp').ask(None)} left" if stage != "refused" else ""
    print(f"{what}: {system.actor(Order, order).ask(None)}{left}")


if __name__ == "__main__":
    clock = ManualClock()  # with a real one we should have to wait for a day
    with ActorSystem.open("orders.db", clock=clock) as system:
        system.actor(InDozens, "o1").ask(Place(2))
    with ActorSystem.open("orders.db", clock=clock) as system:
        system.actor(Order, "o1").ask(Go("reserving"))
        show(system, "ordered with the old program", "o1", "shipping")
    if os.fork() == 0:
        ActorSystem.open("orders.db", clock=clock).actor(LastOrder, "o2").ask(Place(10))
        signal.pause()
    os.wait()
    with ActorSystem.open("orders.db", clock=clock) as system:
        system.register(Order)  # from now on its timers are looked at
        clock.advance(RETRY)
        show(system, "a crash before the stock's answer was recorded; half a minute later", "o2", "shipping")
        system.actor(Order, "o3").ask(Place(500))
        show(system, "too many", "o3", "refused")
        system.actor(Shipment, "o1").ask("away")
        system.actor(Order, "o1").ask(Go("done"))
        show(system, "picked up", "o1", "done")
        clock.advance(DAY)
        show(system, "not picked up, a day later", "o2", "cancelled")
