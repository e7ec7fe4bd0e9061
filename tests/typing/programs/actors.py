"""Actors, as users write them."""

from __future__ import annotations

from collections.abc import Sequence

from reenact import ActorSystem, Event, EventSourcedActor


class Counted(Event, frozen=True):
    by: int


class Counter(EventSourcedActor[int, int, Counted]):
    category = "counter"
    initial = 0
    events = {"counted": Counted}

    @staticmethod
    def decide(total: int, by: int) -> Sequence[Counted]:
        return [Counted(by)] if by else []

    @staticmethod
    def evolve(total: int, event: Counted) -> int:
        return total + event.by

    def reply(self, command: int, events: Sequence[Counted]) -> int:
        return self.state


def count() -> None:
    with ActorSystem.open("counters.db") as system:
        print(system.actor(Counter, "visits").ask(4))
