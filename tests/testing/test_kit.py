"""The kit says what came of a command, and what was wrong on the way."""

from __future__ import annotations

import dataclasses
import functools
import gc
import threading
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from reenact.actors.journal.api import Recorded
from reenact.actors.kernel import ActorContext, EventSourcedActor, PooledActor
from reenact.domain.errors import ReenactError, StorageFullError
from reenact.testing import EventSourcedTestKit, FaultyJournal, ManualClock, ReplayError, Result
from tests.testing.account import (
    HOUR,
    Account,
    Audit,
    Balance,
    Command,
    Deposit,
    Deposited,
    Event,
    OverdrawnError,
    Release,
    Released,
    Reserve,
    Reserved,
    Withdraw,
    Withdrawn,
)

Kit = EventSourcedTestKit[Balance, Command, Event]
Expect = Callable[[Result[Balance, Command, Event]], object]


@pytest.fixture
def kit() -> Iterator[Kit]:
    with EventSourcedTestKit(Account) as kit:
        yield kit


def test_events_that_follow_from_a_command_are_told(kit: Kit) -> None:
    kit.given(Deposited(5)).when(Withdraw(3)).then(Withdrawn(3)).then_replied(2).then_state(Balance(2))


def test_a_refusal_is_told_with_its_values(kit: Kit) -> None:
    result = kit.given(Deposited(5)).when(Withdraw(6))

    result.then_refused(OverdrawnError, free=5, amount=6).then_state(Balance(5))
    assert result.events == ()


def test_a_question_has_no_events_and_an_answer(kit: Kit) -> None:
    kit.given(Deposited(5)).when(Audit()).then_nothing().then_replied(5)


def test_steps_can_be_chained(kit: Kit) -> None:
    kit.when(Deposit(5)).then(Deposited(5)).when(Withdraw(2)).then(Withdrawn(2)).advance(1).then_nothing()

    assert kit.history == (Deposited(5), Withdrawn(2))
    assert kit.state == Balance(3)


def test_ask_returns_the_reply_or_raises_the_refusal(kit: Kit) -> None:
    assert kit.ask(Deposit(5)) == 5
    with pytest.raises(OverdrawnError):
        kit.ask(Withdraw(6))


def test_events_may_be_given_between_commands(kit: Kit) -> None:
    kit.when(Deposit(5))

    kit.given(Withdrawn(4)).when(Audit()).then_replied(1)


UNEXPECTED: list[tuple[Expect, str]] = [
    (lambda result: result.then(Withdrawn(4)), r"when Withdraw.*\n  events\[0\].amount: 4 expected, there is 3"),
    (lambda result: result.then(Withdrawn(3), Withdrawn(3)), "events: tuple of 2 expected, there is tuple of 1"),
    (lambda result: result.then_nothing(), "events: tuple of 0 expected, there is tuple of 1"),
    (lambda result: result.then_refused(OverdrawnError), "Withdrawn.*, not refused with OverdrawnError"),
    (lambda result: result.then_replied(3), "the reply is 2, not 3"),
    (lambda result: result.then_state(Balance(3)), "state.amount: 3 expected, there is 2"),
]


@pytest.mark.parametrize(("expect", "message"), UNEXPECTED)
def test_what_was_not_expected_is_shown(kit: Kit, expect: Expect, message: str) -> None:
    result = kit.given(Deposited(5)).when(Withdraw(3))

    with pytest.raises(AssertionError, match=message):
        expect(result)


REFUSED: list[tuple[Expect, str]] = [
    (lambda result: result.then(Withdrawn(6)), "refused with OverdrawnError.*, not Withdrawn"),
    (lambda result: result.then_nothing(), "refused with OverdrawnError.*, not no events"),
    (lambda result: result.then_refused(StorageFullError), "not refused with StorageFullError"),
    (lambda result: result.then_refused(OverdrawnError, free=4), r"\['free'\]: 4 expected, there is 5"),
    (lambda result: result.then_replied(1), "refused with OverdrawnError.*, not 1"),
]


@pytest.mark.parametrize(("expect", "message"), REFUSED)
def test_a_refusal_that_was_not_expected_is_shown(kit: Kit, expect: Expect, message: str) -> None:
    result = kit.given(Deposited(5)).when(Withdraw(6))

    with pytest.raises(AssertionError, match=message):
        expect(result)


def test_a_timer_goes_off_when_its_time_has_come(kit: Kit) -> None:
    kit.given(Deposited(5)).when(Reserve(3)).then(Reserved(3, kit.clock() + HOUR))
    until = kit.clock() + HOUR
    assert [(timer.at, timer.command) for timer in kit.timers] == [(until, Release(until))]

    kit.advance(3599).then_nothing()

    kit.advance(1).then(Released(until)).then_state(Balance(5))
    assert kit.timers == ()


def test_a_timer_goes_off_after_a_restart(kit: Kit) -> None:
    kit.given(Deposited(5)).when(Reserve(3))

    kit.restart().advance(3600).then_state(Balance(5))


def test_a_timer_of_given_events_goes_off(kit: Kit) -> None:
    until = kit.clock() + HOUR
    kit.given(Deposited(5), Reserved(3, until))
    kit.advance(3599).then_nothing()

    kit.advance(1).then(Released(until))

    kit.given(Reserved(2, until))  # its time is over
    assert kit.history[-1] == Released(until)


def test_a_timer_that_goes_off_before_a_restart_is_no_change_by_it() -> None:
    clock = ManualClock()
    with EventSourcedTestKit(Account, clock=clock) as kit:
        kit.given(Deposited(5)).when(Reserve(3))
        clock.advance(3600)

        assert kit.restart().state == Balance(5)


def test_the_clock_can_be_brought_along() -> None:
    clock = ManualClock(start=1_000_000)
    with EventSourcedTestKit(Account, clock=clock) as kit:
        kit.given(Deposited(5)).when(Reserve(3)).then(Reserved(3, 1_000_000 + HOUR))


def test_a_factory_and_an_id_can_be_brought_along() -> None:
    mails: list[str] = []
    with EventSourcedTestKit(
        Account, "a1", factory=lambda context: Account(context, mails), effects=lambda: mails
    ) as kit:
        kit.given(Deposited(5)).when(Withdraw(3))

        assert kit.stream == "account/a1"
        assert mails == ["3 withdrawn"]


def test_nothing_changes_by_a_restart(kit: Kit) -> None:
    kit.given(Deposited(5)).when(Withdraw(3)).when(Audit())

    kit.restart()

    assert kit.history == (Deposited(5), Withdrawn(3))
    kit.when(Audit()).then_nothing().then_replied(2)


def test_a_failing_journal_refuses_and_nothing_is_recorded(kit: Kit) -> None:
    kit.given(Deposited(5))
    kit.journal.disk_full()

    kit.when(Withdraw(3)).then_refused(StorageFullError).then_state(Balance(5))

    kit.journal.space_again()
    kit.when(Withdraw(3)).then(Withdrawn(3))


def test_a_command_is_decided_again_when_another_writer_was_faster(kit: Kit) -> None:
    kit.given(Deposited(5)).when(Audit())
    kit.journal.conflict_next(Withdrawn(4))

    kit.when(Withdraw(3)).then_refused(OverdrawnError, free=1)

    assert kit.history == (Deposited(5), Withdrawn(4))


def test_an_older_version_of_an_event_is_read_as_todays(kit: Kit) -> None:
    kit.upcasts("withdrawn", version=1, fields=[3], becomes=Withdrawn(3, "")).check()


def test_an_older_version_without_an_example_is_missed(kit: Kit) -> None:
    with pytest.raises(ReplayError, match=r"no example:\n  'withdrawn', version 1"):
        kit.check()


@pytest.mark.parametrize(
    ("name", "version", "fields", "message"),
    [
        ("withdrawn", 1, [4], "event.amount: 3 expected, read is 4"),
        ("withdrawn", 1, ["three"], "cannot be read"),
        ("withdrawn", 3, [3, ""], "newer than version 2"),
        ("taken", 1, [3], "unknown type"),
    ],
)
def test_an_example_that_is_not_met_is_shown(
    kit: Kit, name: str, version: int, fields: list[object], message: str
) -> None:
    with pytest.raises(ReplayError, match=message):
        kit.upcasts(name, version=version, fields=fields, becomes=Withdrawn(3))


def test_a_given_event_that_evolve_does_not_stand_is_shown(kit: Kit) -> None:
    with pytest.raises(ReplayError, match=r"evolve raised ValueError.*Released"):
        kit.given(Released(1))

    assert kit.history == ()


def test_what_is_raised_and_is_no_refusal_comes_through(kit: Kit) -> None:
    with pytest.raises(AssertionError, match="Expected code to be unreachable"):
        kit.when("nonsense")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # what a test may get wrong


def test_a_kit_that_was_forgotten_ends_by_itself() -> None:
    before = set(threading.enumerate())
    kit = EventSourcedTestKit(Account)
    kit.when(Deposit(5))
    assert set(threading.enumerate()) - before

    del kit
    gc.collect()

    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("no_class", [PooledActor, Account.decide, None])
def test_what_is_no_class_of_event_sourced_actors_is_refused(no_class: Any) -> None:  # noqa: ANN401 - the mistake
    with pytest.raises(TypeError, match="must be a subclass of EventSourcedActor, not"):
        EventSourcedTestKit(no_class)


def test_a_step_compares_what_is_new_in_the_log_and_a_check_all_of_it(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins: list[int] = []
    read_all = FaultyJournal.read_all

    def counted(self: FaultyJournal, *, after: int = 0, limit: int = 1000) -> list[Recorded]:
        begins.append(after)
        return read_all(self, after=after, limit=limit)

    monkeypatch.setattr(FaultyJournal, "read_all", counted)

    kit.when(Deposit(5)).when(Deposit(6)).when(Audit()).when(Deposit(7))

    assert begins == [0, 1, 2, 2]
    kit.upcasts("withdrawn", version=1, fields=[3], becomes=Withdrawn(3, "")).check()
    assert begins[4:] == [3, 0]


def test_an_event_that_is_changed_after_it_was_written_is_found_by_a_check(kit: Kit) -> None:
    kit.when(Deposit(5)).when(Deposit(6))
    deposited = kit.journal.written[0].events[0]
    assert isinstance(deposited, Deposited)

    msgspec.structs.force_setattr(deposited, "amount", 7)

    with pytest.raises(ReplayError, match="the log does not hold what was written to it"):
        kit.check()


def test_a_factory_that_returns_no_actor_is_refused() -> None:
    def no_factory(_context: ActorContext) -> Any:  # noqa: ANN401 - the mistake
        return None

    with (
        EventSourcedTestKit(Account, factory=no_factory) as kit,
        pytest.raises(TypeError, match="the factory of Account returned None; it returns the actor"),
    ):
        kit.when(Audit())


@dataclasses.dataclass(frozen=True)
class Deposits:
    """A state that works out its sum when it is first asked for."""

    amounts: tuple[int, ...] = ()

    @functools.cached_property
    def total(self) -> int:
        return sum(self.amounts)


def test_a_cache_that_is_filled_is_no_change() -> None:
    def deposit(state: Deposits, command: Deposit) -> tuple[Deposited, ...]:
        return (Deposited(command.amount),) if state.total < 5 else ()

    def add(state: Deposits, event: Deposited) -> Deposits:
        return Deposits((*state.amounts, event.amount)) if state.total >= 0 else state

    class Caching(EventSourcedActor[Deposits, Deposit, Deposited]):
        events = MappingProxyType({"deposited": Deposited})
        initial = Deposits()
        decide = staticmethod(deposit)
        evolve = staticmethod(add)

        def reply(self, command: Deposit, events: tuple[Deposited, ...]) -> int:
            return self.state.total

    with EventSourcedTestKit(Caching) as kit:
        kit.when(Deposit(3)).then_replied(3).when(Deposit(4)).then_replied(7).when(Deposit(1)).then_nothing()
        kit.restart().check()


def test_any_class_can_be_tested_that_a_system_can_run() -> None:
    class Log(EventSourcedActor[int, int, Deposited]):
        initial = 0
        events = MappingProxyType({"deposited": Deposited})

        @staticmethod
        def decide(state: int, command: int) -> list[Deposited]:
            return [Deposited(command)] if command else []

        @staticmethod
        def evolve(state: int, event: Deposited) -> int:
            return state + event.amount

    with EventSourcedTestKit(Log) as kit:
        kit.when(3).then(Deposited(3)).when(0).then_nothing()
        assert kit.stream == "Log/test"
        assert issubclass(ReplayError, AssertionError)
        assert not issubclass(ReplayError, ReenactError)


@pytest.mark.parametrize(
    ("made", "returned"),
    [((Deposited(one) for one in (1,)), "generator"), (Deposited(1), "Deposited"), (None, "NoneType")],
)
def test_what_the_kernel_does_not_take_for_events_the_kit_does_not_take_either(
    made: Any,  # noqa: ANN401 - the mistake
    returned: str,
) -> None:
    class Log(EventSourcedActor[int, int, Deposited]):
        category = "log"
        initial = 0
        events = MappingProxyType({"deposited": Deposited})

        @staticmethod
        def decide(state: int, command: int) -> Any:  # noqa: ANN401 - the mistake
            return made

        @staticmethod
        def evolve(state: int, event: Deposited) -> int:
            return state + event.amount

    with EventSourcedTestKit(Log) as kit, pytest.raises(TypeError, match=f"returned {returned}; .* sequence of events"):
        kit.when(1)
