"""What a request asks for happens once, however often it is sent, and whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

import msgspec
import pytest

from reenact.actors.journal.api import Entry, Remembered, Segment
from reenact.actors.kernel import ActorSystem, EventSourcedActor, Reference, Timer
from reenact.actors.kernel.declared import Announcement
from reenact.actors.kernel.profile import StoredNames
from reenact.domain.errors import ConflictError, ReenactError, RequestReusedError, StorageFullError
from reenact.testing.clock import ManualClock
from reenact.testing.faulty_journal import CrashedError, FaultyJournal
from tests.kernel.ledger import NOON, SECOND, CountingJournal
from tests.kernel.memory import MemoryJournal
from tests.threads import at_once


class Pay(msgspec.Struct, frozen=True):
    """Pay in; nothing has no events. `request` is what asks for it."""

    amount: int
    request: str | None = None


class Wait(msgspec.Struct, frozen=True):
    """Pay nothing, under this request, at this time."""

    at: int
    request: str


class Paid(msgspec.Struct, frozen=True, array_like=True):
    amount: int


class Awaited(msgspec.Struct, frozen=True, array_like=True):
    at: int
    request: str


Command: TypeAlias = Pay | Wait
Event: TypeAlias = Paid | Awaited


class Till(msgspec.Struct, frozen=True):
    sum: int = 0
    awaited: tuple[tuple[int, str], ...] = ()


class TooMuchError(ReenactError):
    code = "too_much"


def decide(till: Till, command: Command) -> Sequence[Event]:
    match command:
        case Wait(at=at, request=request):
            return (Awaited(at, request),)
        case Pay(amount=0):
            return ()
        case Pay(amount=amount):
            if amount > 100:
                raise TooMuchError
            return (Paid(amount),)


def evolve(till: Till, event: Event) -> Till:
    match event:
        case Paid(amount=amount):
            return Till(till.sum + amount, till.awaited)
        case Awaited(at=at, request=request):
            return Till(till.sum, (*till.awaited, (at, request)))


class PlainTill(EventSourcedActor[Till, Command, Event]):
    """Carries out whatever it is sent."""

    category = "till"
    initial = Till()
    events: ClassVar[StoredNames] = {"paid": Paid, "awaited": Awaited}
    decide = staticmethod(decide)
    evolve = staticmethod(evolve)
    acted: ClassVar[list[object]] = []

    def announce(
        self, command: Command, before: Till, events: tuple[Event, ...], after: Till, recorded_at: int
    ) -> Announcement:
        return (Segment({}, (Entry("sum", recorded_at, after.sum),)),), ()

    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        self.acted.append(events)

    def reply(self, command: Command, events: tuple[Event, ...]) -> int:
        return self.state.sum


class OnceTill(PlainTill):
    """Carries out what bears a request once."""

    def remember(self, command: Command, events: tuple[Event, ...], after: Till, recorded_at: int) -> Remembered | None:
        if not isinstance(command, Pay) or command.request is None:
            return None
        return Remembered(command.request, b"digest", str(after.sum).encode(), recorded_at)


class TimedTill(OnceTill):
    """Pays nothing when it is time."""

    snapshot_every = 2

    @staticmethod
    def timers(till: Till) -> Iterable[Timer[Command]]:
        return [Timer(at, Pay(0, request)) for at, request in till.awaited]


class Shop:
    """Tills on a journal that can be told to fail."""

    def __init__(self) -> None:
        self.memory = CountingJournal()
        self.journal = FaultyJournal(self.memory)
        self.clock = ManualClock(NOON)
        self.letters: list[tuple[object, str]] = []
        self.open()

    def open(self) -> None:
        self.system = ActorSystem(self.journal, clock=self.clock)
        self.system.on_dead_letter(lambda letter: self.letters.append((letter.message, type(letter.reason).__name__)))
        for kind in (PlainTill, OnceTill, TimedTill):
            kind.acted.clear()

    def reopen(self) -> None:
        self.system.close()
        if self.journal.crashed:
            self.journal.come_back()
        self.open()

    def till(self, name: str = "a", kind: type[PlainTill] = OnceTill) -> Reference[Command]:
        self.system.register(kind)
        return self.system.actor(kind, name)

    def recorded(self, name: str = "a") -> list[Event]:
        return [recorded.event for recorded in self.memory.read(f"till/{name}")]


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    yield shop
    shop.journal.calm()
    shop.system.close()
    shop.memory.close()


def test_the_request_is_recorded_in_the_step_that_carries_it_out(shop: Shop) -> None:
    assert shop.till().ask(Pay(5, "r")) == 5

    (step,) = shop.memory.appended
    assert step.events == (Paid(5),)
    assert step.remembered == Remembered("r", b"digest", b"5", NOON)
    assert shop.memory.remembered("r") == step.remembered


def test_a_class_that_remembers_nothing_records_as_it_always_did(shop: Shop) -> None:
    shop.till(kind=PlainTill).ask(Pay(5, "r"))
    shop.till(kind=PlainTill).ask(Pay(0, "s"))

    assert [step.remembered for step in shop.memory.appended] == [None]


def test_a_command_that_bears_no_request_is_recorded_as_it_always_was(shop: Shop) -> None:
    shop.till().ask(Pay(5))
    shop.till().ask(Pay(0))

    assert [(step.events, step.remembered) for step in shop.memory.appended] == [((Paid(5),), None)]


def test_a_request_that_changes_nothing_is_recorded_all_the_same(shop: Shop) -> None:
    till = shop.till()
    till.ask(Pay(5))

    assert till.ask(Pay(0, "r")) == 5

    step = shop.memory.appended[-1]
    assert (step.after, step.events, step.kept, step.passing) == (1, (), (), ())
    assert shop.memory.remembered("r") == Remembered("r", b"digest", b"5", NOON)
    assert OnceTill.acted == [(Paid(5),)]
    assert till.ask(Pay(1)) == 6


def test_the_same_request_again_is_refused_and_the_actor_goes_on(shop: Shop) -> None:
    till = shop.till()
    till.ask(Pay(5, "r"))
    live = shop.system.live()

    with pytest.raises(RequestReusedError, match="'r'"):
        till.ask(Pay(5, "r"))
    with pytest.raises(RequestReusedError, match="'r'"):
        till.ask(Pay(0, "r"))

    assert shop.recorded() == [Paid(5)]
    assert till.ask(Pay(1, "s")) == 6
    assert shop.system.live() == live
    assert OnceTill.acted == [(Paid(5),), (Paid(1),)]


def test_a_refused_request_is_not_remembered(shop: Shop) -> None:
    with pytest.raises(TooMuchError):
        shop.till().ask(Pay(101, "r"))

    assert shop.till().ask(Pay(1, "r")) == 1


def test_told_again_it_is_a_dead_letter(shop: Shop) -> None:
    till = shop.till()
    till.tell(Pay(5, "r"))
    till.tell(Pay(5, "r"))

    assert till.ask(Pay(0)) == 5
    assert shop.letters == [(Pay(5, "r"), "RequestReusedError")]


def test_what_waits_behind_a_refused_request_is_handled(shop: Shop) -> None:
    till = shop.till()
    till.ask(Pay(5, "r"))
    shop.journal.hold()
    again, other = till.ask_future(Pay(5, "r")), till.ask_future(Pay(2))
    shop.journal.wait_until_held()

    shop.journal.release()

    with pytest.raises(RequestReusedError):
        again.get(timeout=60)
    assert other.get(timeout=60) == 7


def test_of_many_who_ask_at_once_one_is_served(shop: Shop) -> None:
    served: list[object] = []
    refused: list[str] = []

    def pay(number: int) -> None:
        try:
            served.append(shop.till("ab"[number % 2]).ask(Pay(5, "r")))
        except RequestReusedError as error:
            refused.append(error.request_id)

    at_once(pay, threads=8)

    assert (served, refused) == ([5], ["r"] * 7)
    assert shop.recorded("a") + shop.recorded("b") == [Paid(5)]


def test_overtaken_by_another_writer_it_is_remembered_as_it_was_decided_in_the_end(shop: Shop) -> None:
    till = shop.till()
    till.ask(Pay(1))
    shop.journal.overtake("till/a", Paid(50))

    assert till.ask(Pay(5, "r")) == 56

    assert shop.memory.remembered("r") == Remembered("r", b"digest", b"56", NOON)


def test_overtaken_by_another_writer_one_that_changes_nothing_is_remembered_too(shop: Shop) -> None:
    till = shop.till()
    till.ask(Pay(1))
    shop.journal.overtake("till/a", Paid(50))

    assert till.ask(Pay(0, "r")) == 51

    assert shop.memory.remembered("r") == Remembered("r", b"digest", b"51", NOON)


@pytest.mark.parametrize("amount", [0, 5])
def test_before_a_crash_it_has_not_happened_and_can_be_asked_again(shop: Shop, amount: int) -> None:
    shop.journal.crash_before_next_append()
    with pytest.raises(CrashedError):
        shop.till().ask(Pay(amount, "r"))
    shop.reopen()

    assert shop.memory.remembered("r") is None
    assert shop.till().ask(Pay(amount, "r")) == amount


@pytest.mark.parametrize("amount", [0, 5])
def test_after_a_crash_that_nobody_was_told_of_it_does_not_happen_again(shop: Shop, amount: int) -> None:
    shop.journal.crash_after_next_append()
    with pytest.raises(CrashedError):
        shop.till().ask(Pay(amount, "r"))
    shop.reopen()

    with pytest.raises(RequestReusedError):
        shop.till().ask(Pay(amount, "r"))

    assert shop.memory.remembered("r") == Remembered("r", b"digest", str(amount).encode(), NOON)
    assert shop.till().ask(Pay(0)) == amount


def test_a_full_disk_remembers_nothing(shop: Shop) -> None:
    shop.journal.disk_full()
    with pytest.raises(StorageFullError):
        shop.till().ask(Pay(0, "r"))
    shop.journal.space_again()

    assert shop.till().ask(Pay(0, "r")) == 0


def test_a_timer_that_carries_out_a_request_does_so_once(shop: Shop) -> None:
    till = shop.till(kind=TimedTill)
    till.ask(Wait(NOON + SECOND, "r"))

    shop.clock.advance(2)
    assert till.ask(Pay(0)) == 0

    assert shop.memory.remembered("r") == Remembered("r", b"digest", b"0", NOON + 2 * SECOND)
    till.stop()
    assert till.ask(Pay(3)) == 3
    assert [step.remembered.id for step in shop.memory.appended if step.remembered] == ["r", "r"]
    assert shop.letters == [(Pay(0, "r"), "RequestReusedError")]


def test_a_snapshot_is_taken_with_it(shop: Shop) -> None:
    till = shop.till(kind=TimedTill)
    till.ask(Pay(1, "r"))
    till.ask(Pay(2, "s"))

    taken = shop.memory.snapshot("till/a")

    assert taken is not None
    assert taken.version == 2
    assert shop.memory.remembered("s") is not None


def _returning(what: object) -> Callable[..., Any]:
    return lambda *_: what


def test_what_raises_while_it_is_remembered_is_the_askers(shop: Shop) -> None:
    def stumble(*_: object) -> None:
        raise ZeroDivisionError

    kind = type("Stumbling", (OnceTill,), {"category": "stumbling", "remember": stumble})

    with pytest.raises(ZeroDivisionError):
        shop.till(kind=kind).ask(Pay(1, "r"))

    assert shop.memory.appended == []


@pytest.mark.parametrize("amount", [0, 5])
def test_something_else_than_a_request_is_the_classes_mistake(shop: Shop, amount: int) -> None:
    kind = type("Wrong", (OnceTill,), {"category": "wrong", "remember": _returning("r")})

    with pytest.raises(TypeError, match=r"Wrong.remember returned 'r' for Pay; it returns a Remembered, or None"):
        shop.till(kind=kind).ask(Pay(amount, "r"))


def test_a_conflict_that_does_not_end_is_no_request_carried_out(shop: Shop) -> None:
    till = shop.till()
    for _ in range(4):
        shop.journal.conflict_next()

    with pytest.raises(ConflictError):
        till.ask(Pay(5, "r"))

    assert shop.memory.remembered("r") is None
    assert till.ask(Pay(5, "r")) == 5


def test_a_system_tells_what_was_carried_out_until_it_is_forgotten() -> None:
    clock = ManualClock(NOON)
    with ActorSystem.in_memory(clock=clock) as system:
        system.actor(OnceTill, "a").ask(Pay(5, "r"))
        clock.advance(1)
        system.actor(OnceTill, "b").ask(Pay(0, "s"))

        assert system.remembered("r") == Remembered("r", b"digest", b"5", NOON)
        assert system.remembered("t") is None

        assert system.forget_requests(before=NOON + SECOND) == 1
        assert system.remembered("r") is None
        assert system.remembered("s") == Remembered("s", b"digest", b"0", NOON + SECOND)
        assert system.actor(OnceTill, "a").ask(Pay(5, "r")) == 10


def test_a_journal_of_ones_own_may_remember_nothing() -> None:
    with MemoryJournal() as journal, ActorSystem(journal) as system:
        with pytest.raises(TypeError, match="MemoryJournal remembers no requests"):
            system.remembered("r")
        with pytest.raises(TypeError, match="MemoryJournal remembers no requests"):
            system.forget_requests(before=NOON)
