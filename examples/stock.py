"""Stock and shipments for the orders of `order.py`; a second request for the same order has no effect.

It prints:

    60 for o1: 40 left
    60 for o1, asked again: 40 left
    60 for o2: 60 is more than the 40 there is
    the shipment of o1: booked; called off: called off; too late to pick it up: called off
"""

from typing import NamedTuple

from reenact import ActorSystem, Event, EventSourcedActor, ReenactError


class TooManyError(ReenactError):
    code = "too_many"


class Take(NamedTuple):  # for the same order again, it is the same; 0 gives back
    order: str
    quantity: int


class Taken(Event, frozen=True):
    order: str
    quantity: int


class Stock(EventSourcedActor[dict[str, int], Take | None, Taken]):
    category = "stock"
    initial = {}
    events = {"taken": Taken}

    @staticmethod
    def decide(taken: dict[str, int], command: Take | None) -> list[Taken]:
        if command is None or taken.get(command.order) == command.quantity:
            return []
        left = 100 - sum(taken.values()) + taken.get(command.order, 0)
        if command.quantity > left:
            raise TooManyError(f"{command.quantity} is more than the {left} there is")
        return [Taken(command.order, command.quantity)]

    @staticmethod
    def evolve(taken: dict[str, int], event: Taken) -> dict[str, int]:
        return {**taken, event.order: event.quantity}

    def reply(self, command: object, events: object) -> int:
        return 100 - sum(self.state.values())


class Shipped(Event, frozen=True):
    what: str


class Shipment(EventSourcedActor[str, str, Shipped]):
    category = "shipment"
    initial = ""
    events = {"shipped": Shipped}

    @staticmethod
    def decide(state: str, wanted: str) -> list[Shipped]:
        return (
            [Shipped(wanted)]
            if (state, wanted) in {("", "booked"), ("booked", "away"), ("booked", "called off")}
            else []
        )

    @staticmethod
    def evolve(_state: str, event: Shipped) -> str:
        return event.what

    def reply(self, command: object, events: object) -> str:
        return self.state


if __name__ == "__main__":
    with ActorSystem.open("stock.db") as system:
        lamps = system.actor(Stock, "lamp")
        print(f"60 for o1: {lamps.ask(Take('o1', 60))} left")
        print(f"60 for o1, asked again: {lamps.ask(Take('o1', 60))} left")
        try:
            lamps.ask(Take("o2", 60))
        except TooManyError as refusal:
            print(f"60 for o2: {refusal}")
        o1 = system.actor(Shipment, "o1")
        print(f"the shipment of o1: {o1.ask('booked')}", end="; ")
        print(f"called off: {o1.ask('called off')}; too late to pick it up: {o1.ask('away')}")
