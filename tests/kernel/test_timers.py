"""Timers that survive a restart: each wakes its actor at its time, whoever lives and whatever comes in between."""

from __future__ import annotations

import logging
import operator
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.kernel import ActorContext, ActorSystem, DeadLetter, PooledFuture, Reference, Timer, alarms
from reenact.actors.kernel.alarms import RETRY
from reenact.actors.kernel.timetable import Timetable
from reenact.domain.errors import StorageError
from reenact.testing.clock import ManualClock, wait_until
from tests.kernel.ledger import (
    NOON,
    SECOND,
    A,
    Book,
    Command,
    CountingJournal,
    Event,
    Forget,
    Ledger,
    Look,
    NotRungError,
    Post,
    Posted,
    Rang,
    Remind,
    Reminded,
    Ring,
    SilentLedger,
    SnappingLedger,
    evolve,
    rung,
    timers,
)
from tests.kernel.memory import MemoryJournal

IN_10 = NOON + 10 * SECOND
IN_20 = NOON + 20 * SECOND


class HeardLedger(Ledger):
    """A ledger that writes down what it is given, and does what a test wants done then."""

    def __init__(self, context: ActorContext, heard: list[Any], act: Callable[[Command], object] | None = None) -> None:
        super().__init__(context)
        self._heard = heard
        self._act = act

    def prepare(self, command: Command) -> Command:
        self._heard.append(command)
        if self._act is not None:
            self._act(command)
        return command

    def on_dead_letter(self, command: Command, refusal: Exception) -> None:
        self._heard.append(refusal)

    def on_lost(self, error: Exception) -> None:
        self._heard.append(error)


@contextmanager
def opened(
    journal: MemoryJournal,
    clock: ManualClock,
    kind: type[SilentLedger] = Ledger,
    factory: Callable[[ActorContext], SilentLedger] | None = None,
) -> Generator[ActorSystem]:
    with ActorSystem(journal, clock=clock) as system:
        system.register(kind, factory)
        yield system


def is_to_be_woken_again(system: ActorSystem) -> bool:
    """Return whether the timetable has a time at which the ledger A is woken again."""
    with system.timetable._changed:
        acts = [entry._act for _, _, entry in system.timetable._entries]
    return any(isinstance(act, partial) and act.func == system.alarms._wake_again and A in act.args for act in acts)


def ask(system: ActorSystem, command: Command, name: str = "a") -> Book:
    """Ask the ledger of this name, of whichever class the system knows as ledgers."""
    known = system._key_of(f"ledger/{name}")
    reference: Reference[Any, object] = system.actor(known[0] if known else Ledger, name)
    book = reference.ask(command, timeout=60)
    assert isinstance(book, Book)
    return book


def hearing(heard: list[Any], act: Callable[[Command], object] | None = None) -> Callable[[ActorContext], HeardLedger]:
    """Return what makes ledgers that write down there what they are given."""
    return lambda context: HeardLedger(context, heard, act)


# At its time.


def test_a_timer_fires_at_its_time_and_once(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))

        clock.advance(9.999_999)
        assert ask(system, Look()).rung == ()
        clock.advance(0.000_001)
        assert ask(system, Look()).rung == ("tea",)
        clock.advance(100)
        assert ask(system, Look()).rung == ("tea",)

    assert rung(journal) == ["tea"]
    assert journal.next_due(after=-1) is None


def test_timers_fire_in_the_order_of_their_times(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        for name, seconds in [("c", 30), ("a", 10), ("b", 20), ("a, too", 10)]:
            ask(system, Remind(name, NOON + seconds * SECOND))

        clock.advance(1000)

        assert ask(system, Look()).rung == ("a", "a, too", "b", "c")


def test_each_timer_is_found_though_others_come_before_and_behind(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        for name, seconds in [("c", 30), ("a", 10), ("d", 40), ("b", 20)]:
            ask(system, Remind("bell", NOON + seconds * SECOND), name)

        for name in "abcd":
            clock.advance(9.999_999)
            assert ask(system, Look(), name).rung == ()
            clock.advance(0.000_001)
            assert ask(system, Look(), name).rung == ("bell",)


def test_a_timer_in_the_past_fires_at_once(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("late", NOON - SECOND))
        wait_until(lambda: rung(journal) == ["late"])

        ask(system, Remind("at once", 0))
        wait_until(lambda: rung(journal) == ["late", "at once"])


def test_a_timer_fires_by_the_clock_of_the_machine() -> None:
    with ActorSystem.in_memory() as system:
        ledger = system.actor(Ledger, "a")

        for number in range(5):
            ledger.ask(Remind(str(number), system.clock() + number * 5000))

        wait_until(lambda: len(ledger.ask(Look()).rung) == 5)


def test_a_timer_that_moves_fires_at_its_new_time(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("later", IN_10))
        ask(system, Remind("later", IN_20))
        ask(system, Remind("sooner", IN_20), "b")
        ask(system, Remind("sooner", IN_10), "b")

        clock.advance(10)
        assert ask(system, Look()).rung == ()
        assert ask(system, Look(), "b").rung == ("sooner",)
        clock.advance(10)
        assert ask(system, Look()).rung == ("later",)
        assert ask(system, Look(), "b").rung == ("sooner",)


def test_a_timer_that_is_gone_does_not_fire(journal: MemoryJournal, clock: ManualClock) -> None:
    heard: list[Any] = []
    with opened(journal, clock, HeardLedger, hearing(heard)) as system:
        ask(system, Remind("tea", IN_10))
        ask(system, Forget("tea"))
        assert journal.next_due(after=-1) is None

        clock.advance(10)
        ask(system, Look())

    assert heard == [Remind("tea", IN_10), Forget("tea"), Look()]


def test_a_timer_that_another_one_removes_is_not_heard_of(journal: MemoryJournal, clock: ManualClock) -> None:
    class Alarm(Ledger):
        @staticmethod
        def evolve(book: Book, event: Event) -> Book:
            return Book(rung=(*book.rung, event.name)) if isinstance(event, Rang) else evolve(book, event)

    with opened(journal, clock, Alarm) as system:
        ask(system, Remind("first", IN_10))
        ask(system, Remind("second", IN_10))

        clock.advance(10)

        assert ask(system, Look()).rung == ("first",)
    assert rung(journal) == ["first"]


def test_a_timer_that_the_state_names_twice_fires_once(journal: MemoryJournal, clock: ManualClock) -> None:
    class Twice(Ledger):
        @staticmethod
        def timers(book: Book) -> Iterable[Timer[Command]]:
            return [*timers(book), *timers(book)]

    with opened(journal, clock, Twice) as system:
        ask(system, Remind("tea", IN_10))
        ask(system, Remind("idle", IN_10))

        clock.advance(10)

        assert ask(system, Look()).rung == ("tea",)


@pytest.mark.parametrize("at", [1.5, "noon", datetime(2030, 1, 1, tzinfo=UTC), None, 2**63, -(2**63) - 1])
def test_a_time_that_is_none_is_refused(at: Any) -> None:  # noqa: ANN401 - the mistake
    with pytest.raises(TypeError, match="microseconds"):
        Timer(at, Look())


def test_a_step_to_a_state_with_a_time_that_is_none_fails_and_changes_nothing(
    journal: MemoryJournal, clock: ManualClock
) -> None:
    class Hasty(Ledger):
        @staticmethod
        def timers(book: Book) -> Iterable[Timer[Command]]:
            soon: list[Timer[Command]] = []
            for name, at in book.reminders:
                soon.append(Timer(at / SECOND, Ring(name)))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            return soon

    with opened(journal, clock, Hasty) as system:
        with pytest.raises(TypeError, match="microseconds"):
            ask(system, Remind("tea", IN_10))

        assert ask(system, Post(1)).balance == 1
    assert [entry.event for entry in journal.read(A)] == [Posted(1)]


class SteppingLedger(Ledger):
    """A ledger whose three steps are all due from the beginning, one after the other."""

    @staticmethod
    def timers(book: Book) -> Iterable[Timer[Command]]:
        return [Timer(0, Ring(f"{len(book.rung)}"))] if len(book.rung) < 3 else []


def test_a_timer_that_leads_to_another_at_the_same_time_does_not_stand_still(
    journal: MemoryJournal, clock: ManualClock
) -> None:
    with opened(journal, clock, SteppingLedger) as system:
        ask(system, Post(1))

        wait_until(lambda: rung(journal) == ["0", "1", "2"])


# After a restart.


def test_timers_fire_after_a_restart_though_nobody_sends_anything(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))

    with opened(journal, clock) as system:
        assert system.live() == 0
        clock.advance(10)

        wait_until(lambda: rung(journal) == ["tea"])


@pytest.mark.parametrize("at", [IN_10, NOON, 1, 0, -5])
def test_what_became_due_while_nobody_was_there_fires_at_the_start(
    at: int, journal: MemoryJournal, clock: ManualClock
) -> None:
    with opened(journal, clock, SilentLedger) as system:
        ask(system, Remind("tea", at))
        journal._due[A] = at
    clock.advance(3600)

    with opened(journal, clock):
        wait_until(lambda: rung(journal) == ["tea"])


def test_timers_fire_after_a_crash(tmp_path: Path, clock: ManualClock) -> None:
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    with ActorSystem.open(tmp_path / "log.db", clock=clock) as system:
        system.actor(Ledger, "a").ask(Remind("tea", IN_10))
        system.actor(Ledger, "b").ask(Remind("tea", IN_20))
        for file in tmp_path.glob("log.db*"):
            shutil.copy(file, crashed)

    clock.set(IN_10)
    with ActorSystem.open(crashed / "log.db", clock=clock) as system:
        system.register(Ledger)

        wait_until(lambda: system.journal.head() == 3)
        clock.advance(10)
        wait_until(lambda: system.journal.head() == 4)
        assert [entry.event for entry in system.journal.read_all(after=2)] == [Rang("tea"), Rang("tea")]
        assert system.journal.next_due(after=-1) is None


def test_timers_wait_until_their_class_is_known(journal: MemoryJournal, clock: ManualClock) -> None:
    class Other(Ledger):
        category = "other"

    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))
    clock.advance(100)

    with opened(journal, clock, Other) as system:
        system.actor(Other, "a").ask(Remind("coffee", NOON))
        wait_until(lambda: rung(journal, "other/a") == ["coffee"])
        clock.advance(100)
        assert rung(journal) == []

        system.register(Ledger)

        wait_until(lambda: rung(journal) == ["tea"])


def test_a_reference_makes_a_class_known_as_well(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))
    clock.advance(100)

    with ActorSystem(journal, clock=clock) as system:
        system.actor(Ledger, "another one")

        wait_until(lambda: rung(journal) == ["tea"])


def test_one_more_class_fires_nothing_again(journal: MemoryJournal, clock: ManualClock) -> None:
    class Other(Ledger):
        category = "other"

    heard: list[Any] = []
    with opened(journal, clock, HeardLedger, hearing(heard)) as system:
        for name in ("tea", "idle", "refused"):
            ask(system, Remind(name, IN_10))
        clock.advance(10)

        system.register(Other)
        ask(system, Look())

    assert [command for command in heard if isinstance(command, Ring)] == [Ring("tea"), Ring("idle"), Ring("refused")]


def test_an_actor_that_has_left_memory_is_woken(journal: MemoryJournal, clock: ManualClock) -> None:
    with ActorSystem(journal, clock=clock, passivate_after=4) as system:
        ask(system, Remind("tea", IN_10))

        clock.advance(4)
        wait_until(lambda: system.live() == 0)
        clock.advance(6)

        wait_until(lambda: rung(journal) == ["tea"])


def test_an_actor_that_was_stopped_is_woken(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))
        system.actor(Ledger, "a").stop()

        clock.advance(10)

        wait_until(lambda: rung(journal) == ["tea"])


# Commands without an effect.


@pytest.mark.parametrize(("name", "reason"), [("idle", None), ("refused", NotRungError), ("broken", ZeroDivisionError)])
def test_a_timer_without_an_effect_fires_once_in_an_incarnation(
    name: str,
    reason: type[Exception] | None,
    journal: MemoryJournal,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[Any] = []
    letters: list[DeadLetter] = []
    caplog.set_level(logging.CRITICAL, "reenact.kernel")
    with opened(journal, clock, HeardLedger, hearing(heard)) as system:
        system.on_dead_letter(letters.append)
        ask(system, Remind(name, IN_10))

        clock.advance(10)
        ask(system, Post(1))
        clock.advance(100)
        ask(system, Post(1))
        assert heard.count(Ring(name)) == 1
        assert journal.next_due(after=-1) is None

        system.actor(HeardLedger, "a").stop()
        assert ask(system, Look()).balance == 2
        clock.advance(100)
        ask(system, Look())

    assert heard.count(Ring(name)) == 2
    assert [(letter.recipient, letter.message, type(letter.reason)) for letter in letters] == (
        [] if reason is None else [(A, Ring(name), reason)] * 2
    )


def test_a_timer_without_an_effect_is_tried_again_after_the_next_start(
    journal: MemoryJournal, clock: ManualClock
) -> None:
    heard: list[Any] = []
    with opened(journal, clock) as system:
        ask(system, Remind("idle", IN_10))
        ask(system, Remind("tea", IN_20))
        clock.advance(10)
        assert ask(system, Look()).rung == ()

    with opened(journal, clock, HeardLedger, hearing(heard)):
        assert heard == []
        clock.advance(10)

        wait_until(lambda: rung(journal) == ["tea"])
    assert heard == [Ring("idle"), Ring("tea")]


def test_of_a_timer_without_an_effect_nothing_is_committed(journal: MemoryJournal, clock: ManualClock) -> None:
    acts: list[tuple[Event, ...]] = []

    class Acting(Ledger):
        def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
            acts.append(events)

    with opened(journal, clock, Acting) as system:
        ask(system, Remind("idle", IN_10))
        clock.advance(10)
        ask(system, Look())

    assert acts == [(Reminded("idle", IN_10),)]


def test_a_timer_without_an_effect_holds_up_no_other(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        for name, at in [("idle", IN_10), ("tea", IN_20), ("refused", IN_20 - 1), ("coffee", IN_20 + 1)]:
            ask(system, Remind(name, at))

        clock.advance(10)
        assert ask(system, Look()).rung == ()
        clock.advance(10)
        assert ask(system, Look()).rung == ("tea",)
        clock.advance(0.000_001)
        assert ask(system, Look()).rung == ("tea", "coffee")


def test_a_timer_that_was_removed_and_set_again_fires_again(journal: MemoryJournal, clock: ManualClock) -> None:
    heard: list[Any] = []
    with opened(journal, clock, HeardLedger, hearing(heard)) as system:
        for command in (Remind("idle", IN_10), Forget("idle"), Remind("idle", IN_10)):
            ask(system, command)
            clock.advance(10)
        ask(system, Look())

    assert heard.count(Ring("idle")) == 2


def test_a_timer_whose_effect_leaves_it_standing_fires_once(journal: MemoryJournal, clock: ManualClock) -> None:
    class Stubborn(Ledger):
        @staticmethod
        def evolve(book: Book, event: Event) -> Book:
            return Book(0, book.reminders, (*book.rung, event.name)) if isinstance(event, Rang) else evolve(book, event)

    with opened(journal, clock, Stubborn) as system:
        ask(system, Remind("tea", IN_10))
        clock.advance(10)
        clock.advance(10)
        ask(system, Remind("coffee", IN_20))

        assert ask(system, Look()).rung == ("tea", "coffee")
        assert journal.next_due(after=-1) is None
        system.actor(Stubborn, "a").stop()
        assert ask(system, Look()).rung == ("tea", "coffee", "tea", "coffee")


# Many.


def count_wakes(system: ActorSystem) -> Counter[str]:
    counts: Counter[str] = Counter()
    wake = system.alarms._wake

    def counted(stream: str) -> PooledFuture[Any] | None:
        counts[stream] += 1
        return wake(stream)

    system.alarms._wake = counted
    return counts


def test_each_stream_is_woken_once_however_often_an_earlier_timer_was_set(
    journal: MemoryJournal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    look = journal.due

    def counted(*, after: int, until: int, limit: int = 1000) -> list[tuple[str, int]]:
        looks.append(clock.elapsed() // SECOND)
        return look(after=after, until=until, limit=limit)

    with opened(journal, clock) as system:
        woken = count_wakes(system)
        for number in range(20, 0, -1):
            ask(system, Remind("tea", NOON + number * SECOND), str(number))
        monkeypatch.setattr(journal, "due", counted)
        for _ in range(40):
            clock.advance(1)
        for number in range(1, 21):
            assert ask(system, Look(), str(number)).rung == ("tea",)

    assert woken == {f"ledger/{number}": 1 for number in range(1, 21)}
    assert looks == list(range(1, 21))


def test_streams_of_the_same_moment_are_all_woken_once(journal: MemoryJournal, clock: ManualClock) -> None:
    journal._due.update({str(number): IN_10 for number in range(35)})
    woken: list[str] = []

    alarms.Alarms(journal, Timetable(clock), clock, woken.append).begin()
    assert woken == []
    clock.advance(10)

    assert sorted(woken) == sorted(journal._due)


def test_who_says_late_when_it_is_to_be_woken_wakes_nobody_else(journal: MemoryJournal, clock: ManualClock) -> None:
    woken: list[str] = []
    streams = [f"ledger/{number}" for number in range(100)]
    journal._due.update(dict.fromkeys(streams, IN_10))
    watching = alarms.Alarms(journal, Timetable(clock), clock, woken.append)
    watching.begin()
    clock.advance(10)
    assert sorted(woken) == sorted(streams)

    for stream in streams:
        watching.hint(stream, IN_10)

    assert sorted(woken) == sorted(2 * streams)


def test_many_streams_of_a_real_log_are_woken(clock: ManualClock) -> None:
    count = 2500
    with ActorSystem.in_memory(clock=clock) as system:
        for number in range(count):
            system.actor(Ledger, str(number)).tell(Remind("tea", IN_10 if number % 5 else IN_10 + number))
        wait_until(lambda: system.journal.head() == count)

        clock.advance(100)

        wait_until(lambda: system.journal.head() == 2 * count)
        assert system.journal.next_due(after=-1) is None


# Failures.


def test_a_timer_that_cannot_be_recorded_fires_again_after_a_while(journal: MemoryJournal, clock: ManualClock) -> None:
    heard: list[Any] = []
    with opened(journal, clock, HeardLedger, hearing(heard)) as system:
        ask(system, Remind("tea", IN_10))
        heard.clear()
        journal.fail_next(StorageError("full"))
        journal.fail_next(StorageError("still full"))

        clock.advance(10)
        wait_until(lambda: is_to_be_woken_again(system) and system.live() == 0)
        clock.advance(RETRY / 2)
        assert heard.count(Ring("tea")) == 1
        clock.advance(RETRY / 2)
        wait_until(lambda: heard.count(Ring("tea")) == 2 and is_to_be_woken_again(system) and system.live() == 0)
        assert rung(journal) == []
        clock.advance(RETRY)
        wait_until(lambda: rung(journal) == ["tea"])

        clock.advance(100)
        ask(system, Look())
    assert heard.count(Ring("tea")) == 3


@pytest.mark.parametrize(("name", "rings"), [("tea", ("tea",)), ("idle", ())])
def test_while_a_timer_cannot_be_recorded_the_journal_is_not_pestered(
    name: str, rings: tuple[str, ...], counting: CountingJournal, clock: ManualClock
) -> None:
    journal = counting
    with opened(journal, clock) as system:
        ask(system, Remind(name, IN_10))
    clock.advance(100)
    journal.appended.clear()
    for _ in range(1000):
        journal.fail_next(StorageError("full"))

    with opened(journal, clock) as system:
        wait_until(lambda: is_to_be_woken_again(system) and not system._cells)
        assert len(journal.appended) == 1
        with pytest.raises(StorageError, match="full"):
            ask(system, Look())
        wait_until(lambda: not system._cells)
        assert len(journal.appended) == 2
        journal._failures.clear()

        assert ask(system, Look()).rung == rings


def test_a_stroke_that_cannot_be_recorded_is_repeated(journal: MemoryJournal, clock: ManualClock) -> None:
    """The command of a timer had no effect, and the log cannot take up that it was given."""
    heard: list[Any] = []
    with opened(journal, clock, HeardLedger, hearing(heard)) as system:
        ask(system, Remind("idle", IN_10))
        ask(system, Remind("tea", IN_20))
        journal.fail_next(StorageError("full"))

        clock.advance(10)
        wait_until(lambda: is_to_be_woken_again(system) and system.live() == 0)
        clock.advance(RETRY)
        wait_until(lambda: journal.next_due(after=-1) == IN_20)
        clock.advance(10)

        assert ask(system, Look()).rung == ("tea",)
    assert heard.count(Ring("idle")) == 2


def test_who_cannot_start_is_woken_again_and_less_and_less_often(
    journal: MemoryJournal, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[int] = []

    def factory(context: ActorContext) -> Ledger:
        made.append(clock.elapsed() // SECOND)
        if len(made) < 10:
            raise ZeroDivisionError
        return Ledger(context)

    caplog.set_level(logging.CRITICAL, "reenact.kernel")
    with opened(journal, clock) as system:
        ask(system, Remind("tea", NOON + 1))
    clock.advance(100)
    begun = clock.elapsed() // SECOND

    with opened(journal, clock, factory=factory) as system:
        for times in range(1, 10):
            wait_until(partial(is_to_be_woken_again, system))
            assert len(made) == times
            while len(made) == times and is_to_be_woken_again(system):
                clock.advance(1)

        wait_until(lambda: rung(journal) == ["tea"])
    assert [at - begun for at in made] == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


def test_a_history_that_cannot_be_read_at_first_is_read_later(
    journal: MemoryJournal, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "reenact.kernel")
    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))
    journal.fail_next_recovery(StorageError("for once"))

    with opened(journal, clock) as system:
        clock.advance(10)
        wait_until(lambda: is_to_be_woken_again(system))
        assert rung(journal) == []
        clock.advance(RETRY)

        wait_until(lambda: rung(journal) == ["tea"])


@pytest.mark.parametrize("failing", ["due", "next_due"])
def test_timers_that_cannot_be_read_at_first_are_read_later(
    failing: str,
    journal: MemoryJournal,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))

        def fail(**_: int) -> None:
            raise OSError("for once")

        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "reenact.kernel"):
            patch.setattr(journal, failing, fail)
            clock.advance(10)
        clock.advance(RETRY)

        wait_until(lambda: rung(journal) == ["tea"])
    assert "tried again" in caplog.text


def test_a_timer_that_is_set_during_a_look_for_a_later_one_is_not_missed(
    journal: MemoryJournal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("bell", NOON + SECOND), "first")
        ask(system, Remind("tea", IN_20), "b")
        looked = journal.next_due

        def look_slowly(*, after: int) -> int | None:
            found = looked(after=after)
            monkeypatch.setattr(journal, "next_due", looked)
            ask(system, Remind("tea", IN_10))
            return found

        monkeypatch.setattr(journal, "next_due", look_slowly)
        clock.advance(1)
        assert looked(after=-1) == IN_10

        clock.advance(9)
        assert ask(system, Look()).rung == ("tea",)


# The system closes.


class RestlessLedger(Ledger):
    """A ledger that is always due, as one that makes up for each second of the last years."""

    @staticmethod
    def timers(book: Book) -> Iterable[Timer[Command]]:
        return [Timer(NOON, Ring(f"{len(book.rung)}"))]


def test_an_actor_that_is_always_due_does_not_keep_the_system_open(journal: MemoryJournal, clock: ManualClock) -> None:
    made: list[RestlessLedger] = []

    def factory(context: ActorContext) -> RestlessLedger:
        made.append(RestlessLedger(context))
        return made[-1]

    with opened(journal, clock, RestlessLedger, factory) as system:
        ask(system, Look())
        wait_until(lambda: len(rung(journal)) > 3)

    assert len(made) == 1
    assert journal.next_due(after=NOON - 1) == NOON


# Another writer.


def test_a_time_that_another_writer_has_moved_is_set_right(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))
        journal.write(A, Reminded("tea", IN_20))
        journal._due[A] = IN_20

        ask(system, Remind("tea", IN_10))

        assert journal.next_due(after=-1) == IN_10
        clock.advance(10)
        assert ask(system, Look()).rung == ("tea",)


def test_a_timer_that_another_writer_was_faster_with_fires_once(journal: MemoryJournal, clock: ManualClock) -> None:
    heard: list[Any] = []

    def be_faster(command: Command) -> None:
        if isinstance(command, Ring) and len(heard) == 2:
            journal.write(A, Rang("tea"))

    with opened(journal, clock, HeardLedger, hearing(heard, be_faster)) as system:
        ask(system, Remind("tea", IN_10))

        clock.advance(10)

        assert ask(system, Look()).rung == ("tea",)
    assert rung(journal) == ["tea"]
    assert heard == [Remind("tea", IN_10), Ring("tea"), Look()]


@pytest.mark.parametrize("lives", [True, False])
def test_a_timer_without_an_effect_does_not_strike_out_what_another_writer_has_set(
    lives: bool,  # noqa: FBT001 - a case
    journal: MemoryJournal,
    clock: ManualClock,
) -> None:
    heard: list[Any] = []

    def interfere(command: Command) -> None:
        if isinstance(command, Ring) and heard.count(command) == 1 and command.name == "idle":
            journal.write(A, Reminded("tea", IN_20))
            journal._due[A] = IN_20

    with opened(journal, clock, HeardLedger, hearing(heard, interfere)) as system:
        ask(system, Remind("idle", IN_10))
        if not lives:
            system.actor(HeardLedger, "a").stop()

        clock.advance(10)
        wait_until(lambda: is_to_be_woken_again(system))
        clock.advance(RETRY)
        book = ask(system, Look())
        assert dict(book.reminders) == {"idle": IN_10, "tea": IN_20}
        clock.advance(10)

        assert ask(system, Look()).rung == ("tea",)


@pytest.mark.parametrize("lives", [True, False])
def test_a_timer_that_another_writer_does_not_let_through_fires_again_after_a_while(
    lives: bool,  # noqa: FBT001 - a case
    journal: MemoryJournal,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[Any] = []

    def interfere(command: Command) -> None:
        if isinstance(command, Ring) and heard.count(command) <= 4:
            journal.write(A, Posted(1))

    caplog.set_level(logging.CRITICAL, "reenact.kernel")
    with opened(journal, clock, HeardLedger, hearing(heard, interfere)) as system:
        ask(system, Remind("tea", IN_10))
        if not lives:
            system.actor(HeardLedger, "a").stop()

        clock.advance(10)
        wait_until(lambda: is_to_be_woken_again(system))
        assert rung(journal) == []
        clock.advance(RETRY)

        wait_until(lambda: rung(journal) == ["tea"])
    assert heard.count(Ring("tea")) == 5


# The clock is set.


def test_a_timer_waits_for_a_clock_that_is_set_back(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))

        clock.set(NOON - 3600 * SECOND)
        clock.advance(3609.999_999)
        assert ask(system, Look()).rung == ()
        clock.advance(0.000_001)

        assert ask(system, Look()).rung == ("tea",)


def test_a_timer_is_noticed_within_a_minute_when_the_clock_is_set_forward(
    journal: MemoryJournal, clock: ManualClock
) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("tea", NOON + 3600 * SECOND))

        clock.set(NOON + 3600 * SECOND)
        clock.advance(60)

        assert ask(system, Look()).rung == ("tea",)


def test_a_new_timer_does_not_wait_for_one_that_was_planned_by_an_earlier_setting(
    journal: MemoryJournal, clock: ManualClock
) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("tea", NOON + 50 * SECOND))
        clock.set(NOON + 3600 * SECOND)

        ask(system, Remind("coffee", clock() + 10 * SECOND), "b")
        clock.advance(10)

        assert ask(system, Look(), "b").rung == ("coffee",)


def test_a_timer_set_after_the_clock_was_set_back_fires(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_20))
        clock.advance(20)
        ask(system, Look())

        clock.set(NOON)
        ask(system, Remind("coffee", IN_10))
        clock.advance(10)

        assert ask(system, Look()).rung == ("tea", "coffee")


@pytest.mark.parametrize("lives", [True, False])
def test_a_timer_is_not_lost_if_the_clock_is_set_back_before_the_actor_looks_at_it(
    lives: bool,  # noqa: FBT001 - a case
    journal: MemoryJournal,
) -> None:
    class Wavering(ManualClock):
        """Tells the alarms that it is time, and then everybody else that it is not yet."""

        wavers = False

        def __call__(self) -> int:
            is_late = self.wavers and threading.current_thread() is not threading.main_thread()
            return super().__call__() - (SECOND if is_late else 0)

    wavering = Wavering(NOON)
    with opened(journal, wavering) as system:
        ask(system, Remind("tea", IN_10))
        if not lives:
            system.actor(Ledger, "a").stop()
        wavering.wavers = True
        wavering.advance(10)
        assert ask(system, Look()).rung == ()

        wavering.wavers = False
        wavering.advance(1)

        assert ask(system, Look()).rung == ("tea",)


# Classes that change.


def test_a_class_that_begins_to_wait_is_woken_once_it_has_lived(journal: MemoryJournal, clock: ManualClock) -> None:
    with opened(journal, clock, SilentLedger) as system:
        ask(system, Remind("tea", IN_10))
        ask(system, Remind("tea", IN_10), "b")
    assert journal.next_due(after=-1) is None

    with opened(journal, clock) as system:
        ask(system, Look())
        ask(system, Post(1), "b")
        assert journal._due == {A: IN_10, "ledger/b": IN_10}
        system.actor(Ledger, "a").stop()
        clock.advance(10)

        wait_until(lambda: rung(journal) == ["tea"] and rung(journal, "ledger/b") == ["tea"])


def test_a_class_that_waits_longer_than_it_did_is_woken_at_the_new_time(
    journal: MemoryJournal, clock: ManualClock
) -> None:
    class Patient(Ledger):
        @staticmethod
        def timers(book: Book) -> Iterable[Timer[Command]]:
            return [Timer(timer.at + 10 * SECOND, timer.command) for timer in timers(book)]

    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))

    with opened(journal, clock, Patient):
        clock.advance(10)
        wait_until(lambda: journal.next_due(after=-1) == IN_20)
        assert rung(journal) == []
        clock.advance(10)

        wait_until(lambda: rung(journal) == ["tea"])


def test_a_class_that_waits_no_more_is_woken_once_and_then_left_alone(
    journal: MemoryJournal, clock: ManualClock
) -> None:
    class Other(Ledger):
        category = "other"

    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))
    clock.advance(10)

    with opened(journal, clock, SilentLedger) as system:
        system.register(Other)
        wait_until(lambda: journal.next_due(after=-1) is None)
    assert rung(journal) == []


def test_a_state_that_waits_from_the_beginning_is_woken_once_it_has_lived(
    journal: MemoryJournal, clock: ManualClock
) -> None:
    class Waiting(Ledger):
        initial = Book(reminders=(("tea", IN_10),))

    with opened(journal, clock, Waiting) as system:
        assert ask(system, Look()).rung == ()
        clock.advance(10)

        assert ask(system, Look()).rung == ("tea",)


def test_what_is_done_first_may_take_the_reason_to_wait(journal: MemoryJournal, clock: ManualClock) -> None:
    class Forgetful(Ledger):
        def on_recovered(self) -> Sequence[Command]:
            return (Forget("tea"),)

    with opened(journal, clock) as system:
        ask(system, Remind("tea", IN_10))
        ask(system, Remind("coffee", IN_10))

    with opened(journal, clock, Forgetful):
        clock.advance(10)
        wait_until(lambda: rung(journal) == ["coffee"])


# What the log says.

names = st.sampled_from(["a", "b", "idle", "refused"])
ledgers = st.sampled_from(["x", "y"])
deeds = st.lists(
    st.one_of(
        st.tuples(st.just("remind"), ledgers, names, st.integers(-3, 9)),
        st.tuples(st.just("forget"), ledgers, names),
        st.tuples(st.just("post"), ledgers),
        st.tuples(st.just("fail"), ledgers),
        st.tuples(st.just("advance"), st.integers(0, 5)),
        st.tuples(st.just("stop"), ledgers),
        st.tuples(st.just("restart")),
        st.tuples(st.just("purge")),
    ),
    max_size=25,
)


class Story:
    """Two ledgers, and what a naive reading says: who waits for what, and what has rung."""

    def __init__(self, journal: MemoryJournal, kind: type[Ledger]) -> None:
        self.journal = journal
        self.clock = ManualClock(NOON)
        self.kind = kind
        self.system = self.opened()
        self.reminders: dict[str, dict[str, int]] = {"x": {}, "y": {}}
        self.rung: dict[str, list[str]] = {"x": [], "y": []}

    def opened(self) -> ActorSystem:
        system = ActorSystem(self.journal, clock=self.clock)
        system.register(self.kind)
        return system

    def ask(self, ledger: str, command: Command) -> Book:
        return ask(self.system, command, ledger)

    def due(self) -> dict[str, int]:
        """Let everything ring whose time has come, and return when each ledger is to be woken."""
        waiting: dict[str, int] = {}
        for ledger, reminders in self.reminders.items():
            for name, at in list(reminders.items()):
                if at <= self.clock() and name in "ab":
                    del reminders[name]
                    self.rung[ledger].append(name)
            times = [at for at in reminders.values() if at > self.clock()]
            if times:
                waiting[f"ledger/{ledger}"] = min(times)
        return waiting

    def do(self, deed: tuple[Any, ...]) -> None:
        match deed:
            case ("remind", ledger, name, seconds):
                at = self.clock() + seconds * SECOND
                self.ask(ledger, Remind(name, at))
                self.reminders[ledger][name] = at
            case ("forget", ledger, name):
                self.ask(ledger, Forget(name))
                self.reminders[ledger].pop(name, None)
            case ("post", ledger):
                self.ask(ledger, Post(1))
            case ("fail", ledger):
                for each in self.reminders:  # so that nothing is under way that could fail in its place
                    self.ask(each, Look())
                self.journal.fail_next(StorageError("for once"))
                with pytest.raises(StorageError):
                    self.ask(ledger, Post(1))
            case ("advance", seconds):
                self.clock.advance(seconds)
            case ("stop", ledger):
                self.system.actor(self.kind, ledger).stop()
            case ("purge",):
                self.journal.delete_snapshots()
            case _:
                self.system.close()
                self.system = self.opened()


@given(deeds=deeds, kind=st.sampled_from([Ledger, SnappingLedger]))
def test_the_log_says_of_each_stream_when_it_is_to_be_woken(deeds: list[tuple[Any, ...]], kind: type[Ledger]) -> None:
    with MemoryJournal() as journal:
        story = Story(journal, kind)
        try:
            for deed in deeds:
                story.do(deed)
                due = story.due()
                wait_until(partial(operator.eq, journal._due, due))
                assert journal.next_due(after=-1) == min(due.values(), default=None)
            for ledger, reminders in story.reminders.items():
                book = story.ask(ledger, Look())
                assert dict(book.reminders) == reminders
                assert sorted(book.rung) == sorted(story.rung[ledger])
        finally:
            story.system.close()
