"""Actors that fail where a test wants it, in a system whose time a test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias

import msgspec

from reenact.actors.kernel import (
    ActorContext,
    ActorSystem,
    DeadLetter,
    EventSourcedActor,
    PooledActor,
    Reference,
    Supervision,
)
from reenact.actors.kernel.declared import Announcement
from reenact.actors.kernel.mailbox import Mailbox
from reenact.actors.kernel.timetable import SECOND
from reenact.domain.errors import ReenactError
from reenact.testing.clock import ManualClock, wait_until
from reenact.testing.faulty_journal import FaultyJournal
from tests.kernel.account import Diary
from tests.kernel.memory import MemoryJournal

RESTART = Supervision(max_restarts=3, within=1000.0, min_backoff=1.0, max_backoff=8.0)
STOP = Supervision(strategy="stop")
ESCALATE = Supervision(strategy="escalate")
LONGER_THAN_ANY_BACKOFF = 10.0


class Stumbled(ZeroDivisionError):
    """What a hook raises that was told to."""


class Refused(ReenactError):
    code = "refused"


class Add(msgspec.Struct, frozen=True):
    amount: int


class Trip(msgspec.Struct, frozen=True):
    """Add 1, and have the hook of this name raise meanwhile."""

    hook: str
    error: type[BaseException] = Stumbled


class Look(msgspec.Struct, frozen=True):
    """Reply the state; records nothing."""


class Do(msgspec.Struct, frozen=True):
    """Do something with the actor itself, on its worker; the reply is what that returns. Records nothing."""

    what: Callable[[Any], Any]


def _fall_over(_: object) -> None:
    raise Stumbled("message")


FALL_OVER = Do(_fall_over)


class Obedient(PooledActor):
    """Does what it is told."""

    def on_receive(self, message: Do) -> object:
        return message.what(self)


class Added(msgspec.Struct, frozen=True):
    amount: int


class Tripped(msgspec.Struct, frozen=True):
    hook: str


Command: TypeAlias = Add | Trip | Look | Do
Event: TypeAlias = Added | Tripped


class Person(EventSourcedActor[int, Command, Event]):
    """Adds up; writes down in a diary what happens to it; falls over in a hook if a command or the class says so."""

    initial = 0
    trips: ClassVar[dict[str, type[BaseException]]] = {}
    """Hooks that have no command, or that are to raise at each."""

    poison: ClassVar[set[int]] = set()
    """Amounts that `evolve` cannot bear."""

    def __init__(self, context: ActorContext, diary: Diary) -> None:
        super().__init__(context)
        self.diary = diary
        self.done: Any = None
        self._trip("__init__")
        self.write("made")

    @staticmethod
    def decide(state: int, command: Command) -> Sequence[Event]:
        match command:
            case Add(amount=amount) if amount < 0:
                raise Refused("people do not get less")
            case Add(amount=amount):
                return (Added(amount),)
            case Trip(hook="decide", error=error):
                raise error("decide")
            case Trip(hook=hook):
                return (Tripped(hook),)
            case Look() | Do():
                return ()

    @staticmethod
    def evolve(state: int, event: Event) -> int:
        match event:
            case Added(amount=amount):
                return state + amount
            case Tripped(hook="evolve"):
                raise Stumbled("evolve")
            case Tripped():
                return state + 1

    def on_start(self) -> None:
        self._trip("on_start")
        self.write("started")

    def on_recovered(self) -> Sequence[Command]:
        self._trip("on_recovered")
        self.write("recovered", self.state, self.version)
        return ()

    def prepare(self, command: Command) -> Command:
        self._trip("prepare", command)
        self.done = command.what(self) if isinstance(command, Do) else None
        return command

    def announce(
        self, command: Command, before: int, events: tuple[Event, ...], after: int, recorded_at: int
    ) -> Announcement:
        self._trip("announce", command)
        return (), ()

    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        self._trip("on_committed", command)

    def reply(self, command: Command, events: tuple[Event, ...]) -> Any:  # noqa: ANN401 - any
        self._trip("reply", command)
        return self.done if isinstance(command, Do) else self.state

    def on_dead_letter(self, command: Command, refusal: ReenactError) -> None:
        self._trip("on_dead_letter")
        self.write("dead letter", command)

    def on_lost(self, error: Exception) -> None:
        self._trip("on_lost")
        self.write("lost", error)

    def on_child_failed(self, child: Any, error: Exception) -> None:  # noqa: ANN401 - a Reference or an ActorRef
        self._trip("on_child_failed")
        self.write("child failed", child, error)

    def can_passivate(self) -> bool:
        self._trip("can_passivate")
        return True

    def on_failure(self, exception_type: object, exception_value: BaseException | None, traceback: object) -> None:
        self._trip("on_failure")
        self.write("failed", exception_value)

    def on_stop(self) -> None:
        self._trip("on_stop")
        self.write("stopped")

    def write(self, what: str, *details: object) -> None:
        self.diary.append((what, self.context.id, *details))

    def _trip(self, hook: str, command: Command | None = None) -> None:
        if hook in self.trips:
            raise self.trips[hook](hook)
        if isinstance(command, Trip) and command.hook == hook:
            raise command.error(hook)


@contextmanager
def kept_busy(tell: Callable[[Do], None]) -> Generator[None]:
    """Have an actor handle one message for as long as this lasts."""
    busy, let_go = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        busy.set()
        assert let_go.wait(60)

    tell(Do(hold))
    assert busy.wait(60)
    try:
        yield
    finally:
        let_go.set()


def wait_until_idle(mailbox: object) -> None:
    """Wait until no thread runs the actor: a worker that has replied would take the next message, too."""
    assert isinstance(mailbox, Mailbox)
    wait_until(lambda: not mailbox._held.locked(), what="the worker to leave the actor")


class Nursery:
    """A system on a faulty journal, under a clock that the test moves; everything in it is written down."""

    def __init__(self, *, workers: int = 2, stepwise: bool = False) -> None:
        self.memory = MemoryJournal(stepwise=stepwise)
        self.journal = FaultyJournal(self.memory)
        self.clock = ManualClock()
        self.diary = Diary()
        self.letters: list[DeadLetter] = []
        self.system = ActorSystem(self.journal, clock=self.clock, workers=workers)
        self.system.on_dead_letter(self.letters.append)

    def person(
        self,
        name: str = "person",
        supervision: Supervision | None = None,
        base: type[Person] = Person,
        id_: str = "a",
        **attributes: object,
    ) -> Reference[Command, Any]:
        """Return one of a class of people of its own."""
        return self.system.actor(self.person_class(name, supervision, base, **attributes), id_)

    def person_class(
        self,
        name: str = "person",
        supervision: Supervision | None = None,
        base: type[Person] = Person,
        **attributes: object,
    ) -> type[Person]:
        """Return a class of people of its own, known to the system."""
        fresh: dict[str, object] = {"trips": {}, "poison": set[int]()}
        kind = type(name, (base,), {**fresh, "category": name, "supervision": supervision, **attributes})
        assert issubclass(kind, Person)
        self.system.register(kind, lambda context: kind(context, self.diary))
        return kind

    def wait_for(self, what: str, count: int = 1) -> list[tuple[Any, ...]]:
        """Wait until the diary has so many entries of this, and return them."""
        wait_until(lambda: len(self.diary.told(what)) >= count, what=f"{count} x {what!r}")
        return self.diary.told(what)

    def wait_for_backoff(self) -> None:
        """Wait until somebody waits for the time of a start."""
        wait_until(self.is_backing_off, what="a backoff")

    def is_backing_off(self) -> bool:
        soon = self.clock.elapsed() + int(LONGER_THAN_ANY_BACKOFF * SECOND)  # later comes what is remembered for long
        timetable = self.system.timetable
        with timetable._changed:  # what is seen is then done when the clock is moved
            return any(entry.is_to_come and due <= soon for due, _, entry in timetable._entries)

    def pass_backoff(self) -> None:
        """Wait until somebody waits for the time of a start, and let that time come."""
        self.wait_for_backoff()
        self.clock.advance(LONGER_THAN_ANY_BACKOFF)

    def recorded(self, stream: str) -> list[Event]:
        return [recorded.event for recorded in self.memory.read(stream)]

    def reasons(self) -> list[tuple[str, object, str]]:
        """Return the dead letters: to whom, what, and of which kind the reason is."""
        return [(letter.recipient, letter.message, type(letter.reason).__name__) for letter in self.letters]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.journal.calm()
        self.system.close()
        self.journal.close()
