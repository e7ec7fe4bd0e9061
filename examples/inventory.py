"""A warehouse of many articles with few of them in memory; reservations that are not paid in time expire.

It prints:

    3 of lamp-7 were asked for, and 1 is left
    600 of 900 lamps are reserved; most articles are not in memory: True
    an hour later, after a restart: 2 are sold, 898 are for sale
"""

from typing import NamedTuple, TypeAlias

from msgspec import Struct

from reenact import ActorSystem, Event, EventSourcedActor, ReenactError, Timer
from reenact.testing import ManualClock

HOUR = 60 * 60  # seconds


class SoldOutError(ReenactError):
    code = "sold_out"

    def __init__(self, asked: int, left: int) -> None:
        super().__init__(f"{asked} is more than the {left} there is")
        self.asked, self.left = asked, left


class Reserve(NamedTuple):
    order: str
    quantity: int
    now: int = 0


class Pay(NamedTuple):
    order: str


class Expire(NamedTuple):
    order: str


class Reserved(Event, frozen=True):
    order: str
    quantity: int
    until: int


class Sold(Event, frozen=True):
    order: str


class Expired(Event, frozen=True):
    order: str


class Shelf(Struct, frozen=True):
    left: int = 3
    reserved: dict[str, Reserved] = {}


Command: TypeAlias = Reserve | Pay | Expire | None
Change: TypeAlias = Reserved | Sold | Expired


class Article(EventSourcedActor[Shelf, Command, Change]):
    category = "article"
    initial = Shelf()
    events = {"reserved": Reserved, "sold": Sold, "expired": Expired}

    @staticmethod
    def decide(shelf: Shelf, command: Command) -> list[Change]:
        match command:
            case Reserve(order, quantity, now) if order not in shelf.reserved:
                if quantity > shelf.left:
                    raise SoldOutError(quantity, shelf.left)
                return [Reserved(order, quantity, until=now + HOUR * 1_000_000)]
            case Pay(order) if order in shelf.reserved:
                return [Sold(order)]
            case Expire(order) if order in shelf.reserved:
                return [Expired(order)]
            case _:
                return []  # it is so already, or it was a mere question

    @staticmethod
    def evolve(shelf: Shelf, event: Change) -> Shelf:
        if isinstance(event, Reserved):
            return Shelf(shelf.left - event.quantity, {**shelf.reserved, event.order: event})
        back = shelf.reserved[event.order].quantity if isinstance(event, Expired) else 0
        rest = {order: one for order, one in shelf.reserved.items() if order != event.order}
        return Shelf(shelf.left + back, rest)

    @staticmethod
    def timers(shelf: Shelf) -> list[Timer[Command]]:
        return [Timer(at=one.until, command=Expire(order)) for order, one in shelf.reserved.items()]

    def prepare(self, command: Command) -> Command:
        return command._replace(now=self.context.clock()) if isinstance(command, Reserve) else command

    def reply(self, command: object, events: object) -> int:
        return self.state.left


if __name__ == "__main__":
    clock = ManualClock()  # with a real one we should have to wait for an hour
    with ActorSystem.open("inventory.db", clock=clock, max_live=20) as system:
        lamps = [system.actor(Article, f"lamp-{number}") for number in range(300)]
        left = sum(lamp.ask(Reserve("zoe", 2)) for lamp in lamps)
        try:
            lamps[7].ask(Reserve("max", 3))
        except SoldOutError as refusal:
            print(f"{refusal.asked} of {lamps[7].id} were asked for, and {refusal.left} is left")
        print(f"{900 - left} of 900 lamps are reserved; most articles are not in memory:", system.live() < 100)
        lamps[7].ask(Pay("zoe"))
    clock.advance(HOUR)
    with ActorSystem.open("inventory.db", clock=clock, max_live=20) as system:
        system.register(Article)  # from now on its timers are looked at
        lamps = [system.actor(Article, f"lamp-{number}") for number in range(300)]
        left = sum(lamp.ask(None) for lamp in lamps)
        print(f"an hour later, after a restart: {900 - left} are sold, {left} are for sale")
