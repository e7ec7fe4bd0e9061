"""A building and its cabins: children, motors that block threads of their own, and a jam that supervision gets over.

It prints:

    north: 3 9
    south: 7 1
    north jammed, was started again, and lost no call; jams to come: 0
"""

import logging
import time
from collections import defaultdict
from typing import NamedTuple, TypeAlias

import pykka

from reenact import ActorSystem, Event, EventSourcedActor, Reference, Supervision
from reenact.testing import wait_until


class Call(NamedTuple):
    cabin: str
    floor: int


class Stop(NamedTuple):
    call: Call


class Called(Event, frozen=True):
    call: Call


class Stopped(Event, frozen=True):
    call: Call


Calls: TypeAlias = tuple[Call, ...]
Command: TypeAlias = Call | Stop | RuntimeError | None
Change: TypeAlias = Called | Stopped


class Lift(EventSourcedActor[Calls, Command, Change]):  # what a building and a cabin have in common: open calls
    initial = ()
    events = {"called": Called, "stopped": Stopped}

    @staticmethod
    def decide(calls: Calls, command: Command) -> list[Change]:
        match command:
            case Call() if command not in calls:
                return [Called(command)]
            case Stop(call) if call in calls:
                return [Stopped(call)]
            case RuntimeError():
                raise command  # told, and no refusal: the actor fails
            case _:
                return []

    @staticmethod
    def evolve(calls: Calls, event: Change) -> Calls:
        rest = tuple(call for call in calls if call != event.call)
        return (*rest, event.call) if isinstance(event, Called) else rest

    def on_recovered(self) -> list[Command]:
        for call in self.state:
            self.answer(call)  # once more, since nobody knows how far it came
        return []

    def on_committed(self, command: Command, events: tuple[Change, ...]) -> None:
        if isinstance(command, Call):
            self.answer(command)

    def answer(self, call: Call) -> None:
        raise NotImplementedError

    def reply(self, command: Command, events: tuple[Change, ...]) -> Calls:
        return self.state


class Building(Lift):
    def answer(self, call: Call) -> None:
        self.context.child(Cabin, call.cabin, Supervision(min_backoff=0.01)).tell(call)


class Cabin(Lift):
    def on_start(self) -> None:
        self.motor = self.context.spawn(Motor)

    def answer(self, call: Call) -> None:
        self.motor.tell((call, self.context.system.actor(Cabin, self.context.id)))

    def on_committed(self, command: Command, events: tuple[Change, ...]) -> None:
        super().on_committed(command, events)
        if isinstance(command, Stop):
            stops[command.call.cabin].append(command.call.floor)
            self.context.system.actor(Building, "tower").tell(command)  # upwards


class Motor(pykka.ThreadingActor):
    def on_receive(self, message: tuple[Call, Reference[Command]]) -> None:
        call, cabin = message
        time.sleep(call.floor / 100)  # blocks, as motors do: that is what a thread of its own is for
        cabin.tell(jams.pop() if call == Call("north", 9) and jams else Stop(call))


stops: dict[str, list[int]] = defaultdict(list)
jams = [RuntimeError("the motor has jammed")]

if __name__ == "__main__":
    logging.getLogger("reenact.kernel").setLevel(logging.CRITICAL)  # a failure is logged, with its traceback
    with ActorSystem.open("elevator.db") as system:
        tower = system.actor(Building, "tower")
        for call in (Call("north", 3), Call("south", 7), Call("north", 9), Call("south", 1)):
            tower.ask(call)
        wait_until(lambda: tower.ask(None) == ())
    for cabin, floors in sorted(stops.items()):
        print(f"{cabin}:", *floors)
    print(f"north jammed, was started again, and lost no call; jams to come: {len(jams)}")
