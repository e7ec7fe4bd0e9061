"""An event-sourced actor of one's own, with everything that one can have: effects, timers, snapshots, requests."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias, assert_never

import msgspec

from reenact import ActorSystem, KeyRing
from reenact.actors.journal.api import Remembered
from reenact.actors.journal.codec import Event as BaseEvent
from reenact.actors.kernel import ActorContext, EventSourcedActor, Timer
from reenact.testing import ManualClock, Reporter, effect, wait_until

DAY = 86_400
SECOND = 1_000_000
LETTERS = 5
RING = "ring.keys"


class Post(msgspec.Struct, frozen=True):
    """Take a letter, once for each request; `at` is filled in by the office."""

    letter: str
    request: str
    at: int = 0


class NoteDelivery(msgspec.Struct, frozen=True):
    letter: str


class Remind(msgspec.Struct, frozen=True):
    letter: str


Command: TypeAlias = Post | NoteDelivery | Remind


class Posted(BaseEvent, frozen=True):
    letter: str
    reminded_at: int


class Delivered(BaseEvent, frozen=True):
    letter: str


class Reminded(BaseEvent, frozen=True):
    letter: str


Event: TypeAlias = Posted | Delivered | Reminded


class Letters(msgspec.Struct, frozen=True):
    """Letters that were taken, those that are not delivered, and when whom to remind."""

    taken: tuple[str, ...] = ()
    here: tuple[str, ...] = ()
    reminders: tuple[tuple[int, str], ...] = ()


def decide(state: Letters, command: Command) -> Sequence[Event]:
    match command:
        case Post(letter=letter, at=at):
            return (Posted(letter, at + DAY * SECOND),)
        case NoteDelivery(letter=letter):
            return (Delivered(letter),) if letter in state.here else ()
        case Remind(letter=letter):
            return (Reminded(letter),) if any(other == letter for _, other in state.reminders) else ()
        case _:
            assert_never(command)


def evolve(state: Letters, event: Event) -> Letters:
    match event:
        case Posted(letter=letter, reminded_at=at):
            return Letters((*state.taken, letter), (*state.here, letter), (*state.reminders, (at, letter)))
        case Delivered(letter=letter):
            return msgspec.structs.replace(state, here=tuple(other for other in state.here if other != letter))
        case Reminded(letter=letter):
            return msgspec.structs.replace(
                state, reminders=tuple(other for other in state.reminders if other[1] != letter)
            )
        case _:
            assert_never(event)


def timers(state: Letters) -> tuple[Timer[Command], ...]:
    return tuple(Timer(at, Remind(letter)) for at, letter in state.reminders)


class PostOffice(EventSourcedActor[Letters, Command, Event]):
    """Delivers each letter that it takes, again after a crash unless it knows of the delivery."""

    category = "post-office"
    initial = Letters()
    events = MappingProxyType({"posted": Posted, "delivered": Delivered, "reminded": Reminded})
    decide = staticmethod(decide)
    evolve = staticmethod(evolve)
    timers = staticmethod(timers)
    snapshot_every = 3

    def __init__(self, context: ActorContext, deliver: Callable[[str], object]) -> None:
        super().__init__(context)
        self._deliver = deliver

    def on_recovered(self) -> Sequence[Command]:
        return [self._out(letter) for letter in self.state.here]

    def prepare(self, command: Command) -> Command:
        return msgspec.structs.replace(command, at=self.context.clock()) if isinstance(command, Post) else command

    def remember(
        self, command: Command, events: tuple[Event, ...], after: Letters, recorded_at: int
    ) -> Remembered | None:
        if not isinstance(command, Post):
            return None
        return Remembered(command.request, b"", command.letter.encode(), recorded_at)

    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        for event in events:
            if isinstance(event, Posted):
                self.context.me.tell(self._out(event.letter))

    def reply(self, command: Command, events: tuple[Event, ...]) -> int:
        return len(self.state.taken)

    def _out(self, letter: str) -> NoteDelivery:
        self._deliver(letter)
        return NoteDelivery(letter)


def delivered_in(file: Path) -> list[str]:
    """Return the letters that have arrived, each as often as it has."""
    return file.read_text().split() if file.exists() else []


def opened(log: str, arrivals: Path, clock: ManualClock) -> ActorSystem:
    """Return a system with an office that delivers into the file; its log is encrypted if a key ring is beside it."""

    @effect
    def deliver(letter: str) -> None:
        with arrivals.open("a") as file:
            file.write(f"{letter}\n")
            file.flush()
            os.fsync(file.fileno())

    ring = arrivals.with_name(RING)
    system = ActorSystem.open(log, synchronous="OFF", clock=clock, keys=KeyRing.file(ring) if ring.exists() else None)
    system.register(PostOffice, partial(PostOffice, deliver=deliver))
    return system


def post(reporter: Reporter, log: str, arrivals: Path) -> None:
    """Post letters, and let a day pass before the last one."""
    clock = ManualClock()
    with opened(log, arrivals, clock) as system:
        office = system.actor(PostOffice, "o")
        for number in range(LETTERS):
            if number == LETTERS - 1:
                clock.advance(DAY)
            taken = office.ask(Post(f"letter-{number}", f"r{number}"))
            reporter.say("taken", number, taken)
        stream = PostOffice.stream("o")
        wait_until(lambda: not PostOffice.replay(system.journal.read(stream)).here, what="deliveries")


def vanish(reporter: Reporter) -> None:
    """Tell where a log is that is gone when it is closed, and where another one is that has been."""
    with ActorSystem.in_memory() as system:
        reporter.say(getattr(system.journal, "path", ""))
        threading.Event().wait()


def go_on(reporter: Reporter, log: str, arrivals: Path) -> None:
    """Start the office again, which delivers what it does not know to be delivered."""
    with opened(log, arrivals, ManualClock()) as system:
        office = system.actor(PostOffice, "o")
        reporter.say("up", office.ask(NoteDelivery("none")))
