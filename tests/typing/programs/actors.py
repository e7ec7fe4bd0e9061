"""Actors, as users write them: with events, state, commands and replies, timers and children, and without a log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never, assert_type

import pykka

from reenact import (
    ActorContext,
    ActorSystem,
    Event,
    EventSourcedActor,
    PooledActor,
    Reference,
    Supervision,
    Timer,
)
from reenact.testing import EventSourcedTestKit, Result


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


@dataclass(frozen=True)
class Reserve:
    seats: int
    until: int


@dataclass(frozen=True)
class Expire:
    pass


class Reserved(Event, frozen=True):
    seats: int
    until: int


class Expired(Event, frozen=True):
    pass


Command: TypeAlias = Reserve | Expire
Happened: TypeAlias = Reserved | Expired


@dataclass(frozen=True)
class Seats:
    free: int = 100
    until: int | None = None


class Show(EventSourcedActor[Seats, Command, Happened]):
    """Says nothing of its replies: they are its events."""

    initial = Seats()
    events = {"reserved": Reserved, "expired": Expired}
    snapshot_every = 100
    supervision = Supervision()

    def __init__(self, context: ActorContext, mails: list[str]) -> None:
        super().__init__(context)
        self.mails = mails

    @staticmethod
    def decide(seats: Seats, command: Command) -> Sequence[Happened]:
        match command:
            case Reserve():
                return (Reserved(command.seats, command.until),)
            case Expire():
                return (Expired(),)
            case _:
                assert_never(command)

    @staticmethod
    def evolve(seats: Seats, event: Happened) -> Seats:
        if isinstance(event, Reserved):
            return replace(seats, free=seats.free - event.seats, until=event.until)
        return Seats()

    @staticmethod
    def timers(seats: Seats) -> Iterable[Timer[Expire]]:
        return () if seats.until is None else (Timer(seats.until, Expire()),)

    @staticmethod
    def to_snapshot(seats: Seats) -> tuple[int, int | None]:
        return seats.free, seats.until

    @staticmethod
    def from_snapshot(stored: tuple[int, int | None]) -> Seats:
        return Seats(*stored)

    def on_committed(self, command: Command, events: tuple[Happened, ...]) -> None:
        assert_type(self.state, Seats)
        visits = self.context.child(Counter, "visits")
        assert_type(visits, Reference[int, int])
        visits.tell(1)
        visits.tell(Expire())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        self.mails.append(f"{self.context.id}: {self.state.free}")


class Printer(PooledActor):
    def __init__(self, copies: int, *, paper: str = "A4") -> None:
        super().__init__()
        self.copies = copies
        self.paper = paper

    def on_receive(self, message: object) -> str:
        return f"{message} on {self.paper}" * self.copies


def count() -> None:
    with ActorSystem.open("counters.db") as system:
        visits = system.actor(Counter, "visits")
        assert_type(visits, Reference[int, int])
        assert_type(visits.ask(4), int)
        assert_type(visits.ask_future(4).get(), int)
        print(visits.ask(4) + 1)
        visits.ask("4")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        hand_on(visits)


def hand_on(to: Reference[int]) -> None:
    """Take any actor that takes numbers, whatever it replies."""
    to.tell(3)
    assert_type(to.ask(3), object)


def check() -> None:
    with EventSourcedTestKit(Counter) as kit:
        assert_type(kit.given(Counted(1)).ask(4), int)
        assert_type(kit.when(4), Result[int, int, Counted])
        assert_type(kit.state, int)
        kit.ask("4")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        check_more(kit)
    with EventSourcedTestKit(Show, factory=lambda context: Show(context, [])) as shows:
        shows.given(Reserved(2, until=5)).when(Expire()).then(Expired())
        for event in shows.ask(Reserve(2, until=5)):
            print(event)


def check_more(kit: EventSourcedTestKit[int, int, Counted]) -> None:
    """Take a kit of any such actor, whatever it replies."""
    assert_type(kit.ask(3), object)


async def reserve(mails: list[str]) -> None:
    with ActorSystem.in_memory() as system:
        system.register(Show, lambda context: Show(context, mails))
        show = system.actor(Show, "tonight")
        for event in await show.ask_async(Reserve(2, until=5)):
            print(event)
        show.tell(Reserved(2, 5))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        system.actor(Printer, "a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def plain(system: ActorSystem) -> None:
    printer = system.start(Printer, 2, paper="A5")
    assert_type(printer, pykka.ActorRef[Printer])
    system.start(Printer, "2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    system.start(Printer)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


asyncio.run(reserve([]))
