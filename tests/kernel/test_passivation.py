"""Who has been idle leaves memory; whoever has something to do stays, and nothing is lost in between."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from typing import Any

import pytest

from reenact.actors.kernel import ActorContext, ActorSystem
from reenact.actors.kernel.residents import Residents
from reenact.actors.kernel.timetable import Timetable
from reenact.testing.clock import ManualClock, wait_until
from tests.examples import chance_of
from tests.kernel.ledger import (
    Book,
    Command,
    CountingJournal,
    Event,
    Ledger,
    Look,
    Post,
    SnappingLedger,
)
from tests.kernel.memory import MemoryJournal
from tests.threads import at_once

# Idle time.


def test_who_is_idle_for_so_long_leaves_memory(journal: MemoryJournal, clock: ManualClock) -> None:
    with ActorSystem(journal, clock=clock, passivate_after=8) as system:
        system.actor(Ledger, "a").ask(Post(5))

        clock.advance(7.999_999)
        assert system.actor(Ledger, "b").ask(Look()).balance == 0
        assert system.live() == 2
        clock.advance(0.000_001)
        wait_until(lambda: system.live() == 1)

        assert system.actor(Ledger, "a").ask(Look()).balance == 5


@pytest.mark.parametrize("begun", range(8))
def test_who_is_idle_leaves_neither_too_early_nor_much_too_late(
    begun: int, journal: MemoryJournal, clock: ManualClock
) -> None:
    with ActorSystem(journal, clock=clock, passivate_after=8) as system:
        system.actor(Ledger, "first").ask(Look())
        clock.advance(begun)
        system.actor(Ledger, "a").ask(Look())
        cell = system._cells[Ledger, "a"]

        for _ in range(7):
            clock.advance(1)
        wait_until(cell.mailbox.empty)
        assert system._cells.get((Ledger, "a")) is cell
        for _ in range(5):
            clock.advance(1)

        wait_until(lambda: (Ledger, "a") not in system._cells)


def test_whoever_is_used_stays(journal: MemoryJournal, clock: ManualClock) -> None:
    made: list[str] = []

    def make(context: ActorContext) -> Ledger:
        made.append(context.id)
        return Ledger(context)

    with ActorSystem(journal, clock=clock, passivate_after=8) as system:
        system.register(Ledger, make)
        for _ in range(50):
            system.actor(Ledger, "a").ask(Look())
            clock.advance(5)

    assert made == ["a"]


def test_whoever_is_used_again_before_its_turn_is_over_stays(journal: MemoryJournal, clock: ManualClock) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    class Slow(Ledger):
        def reply(self, command: Command, events: tuple[Event, ...]) -> Book:
            begun.set()
            assert goes_on.wait(60)
            return super().reply(command, events)

    with ActorSystem(journal, clock=clock, passivate_after=8, workers=1) as system:
        slow = system.actor(Slow, "a")
        slow.ask_future(Look())
        assert begun.wait(60)
        clock.advance(7)
        last = slow.ask_future(Look())
        goes_on.set()
        last.get(timeout=60)

        clock.advance(1)
        system.actor(Slow, "b").ask(Look())  # the only worker has seen before whether the other one is to leave

        assert system.live() == 2


def test_without_a_limit_everybody_stays(journal: MemoryJournal, clock: ManualClock) -> None:
    with ActorSystem(journal, clock=clock) as system:
        for number in range(100):
            system.actor(Ledger, str(number)).ask(Look())
        clock.advance(1_000_000)

        assert system.live() == 100
        assert len(clock._watchers) == 1  # for timers only


def test_when_everybody_has_left_the_clock_is_not_asked_any_more(journal: MemoryJournal, clock: ManualClock) -> None:
    with ActorSystem(journal, clock=clock, passivate_after=8) as system:
        for _ in range(3):
            system.actor(SnappingLedger, "a").ask(Look())
            assert len(system.timetable._entries) >= 1
            for _ in range(4):
                clock.advance(4)
            wait_until(lambda: system.live() == 0)
            clock.advance(4)
            clock.advance(4)

            assert [entry for _, _, entry in system.timetable._entries if entry.is_to_come] == []


def test_whoever_has_left_can_be_forgotten(journal: MemoryJournal, clock: ManualClock) -> None:
    incarnations: list[weakref.ref[Ledger]] = []

    def make(context: ActorContext) -> Ledger:
        ledger = Ledger(context)
        incarnations.append(weakref.ref(ledger))
        return ledger

    with ActorSystem(journal, clock=clock, passivate_after=8) as system:
        system.register(Ledger, make)
        for _ in range(3):
            system.actor(Ledger, "a").ask(Post(1))
            clock.advance(12)
            clock.advance(12)
            wait_until(lambda: not system._cells)
        clock.advance(12)

        def are_forgotten() -> bool:
            gc.collect()
            return [ref() for ref in incarnations] == [None] * 3

        wait_until(are_forgotten)


@pytest.mark.parametrize(("idle", "limit"), [("1", None), (None, "1"), (None, 1.5)])
def test_limits_must_be_numbers(idle: Any, limit: Any, clock: ManualClock) -> None:  # noqa: ANN401 - the mistakes
    with pytest.raises(TypeError, match=r"passivate_after=.* and max_live=.* must be numbers"):
        Residents(Timetable(clock), idle=idle, limit=limit)


# Number.


def test_actors_beyond_the_limit_push_out_others_and_every_answer_is_right() -> None:
    peaks: list[int] = []

    def make(context: ActorContext) -> Ledger:
        peaks.append(system.live())
        return Ledger(context)

    with ActorSystem.in_memory(max_live=50, passivate_after=None) as system:
        system.register(Ledger, make)

        def post(thread: int) -> None:
            for _ in range(2):
                for number in range(thread, 1000, 2):
                    system.actor(Ledger, str(number)).ask(Post(number))

        at_once(post, threads=2)

        assert [system.actor(Ledger, str(number)).ask(Look()).balance for number in range(1000)] == [
            2 * number for number in range(1000)
        ]
        assert max(peaks) <= 80
        assert len(peaks) >= 2900
        wait_until(lambda: system.live() <= 50)


def test_a_flood_that_exceeds_the_limit_ebbs_away() -> None:
    clock = ManualClock()
    with ActorSystem.in_memory(clock=clock, max_live=20, passivate_after=None) as system:
        for number in range(1000):
            system.actor(Ledger, str(number)).tell(Post(1))
        wait_until(lambda: system.journal.head() == 1000)
        for number in range(1000):
            assert system.actor(Ledger, str(number)).ask(Look()).balance == 1

        def ebbs() -> bool:
            clock.advance(1)
            return system.live() <= 20

        wait_until(ebbs)


def test_those_beyond_the_limit_who_were_busy_leave_when_they_are_done(held: MemoryJournal, clock: ManualClock) -> None:
    with ActorSystem(held, clock=clock, max_live=2) as system:
        posting = [system.actor(Ledger, name).ask_future(Post(1)) for name in "abcdef"]
        held.wait_for_appends(6)
        assert system.live() == 6
        clock.advance(1)

        while held.commit():
            pass
        assert [future.get(timeout=60).balance for future in posting] == [1] * 6
        clock.advance(2)
        wait_until(lambda: system.live() == 2)
        clock.advance(4)
        assert [entry for _, _, entry in system.timetable._entries if entry.is_to_come] == []


def test_those_who_were_asked_and_stayed_are_asked_again(held: MemoryJournal, clock: ManualClock) -> None:
    with ActorSystem(held, clock=clock, max_live=1) as system:
        posting = system.actor(Ledger, "a").ask_future(Post(1))
        held.wait_for_appends()
        system.actor(Ledger, "b").ask(Look(), timeout=60)
        cell = system._cells[Ledger, "a"]
        wait_until(lambda: len(cell.mailbox) == 1)  # it is asked to leave, and then to do something
        looking = system.actor(Ledger, "a").ask_future(Look())
        clock.advance(0.5)

        held.commit()
        assert [posting.get(timeout=60).balance, looking.get(timeout=60).balance] == [1, 1]
        assert system.live() == 2
        clock.advance(0.5)

        wait_until(lambda: system.live() == 1)


def test_the_idlest_leave_first(journal: MemoryJournal, clock: ManualClock) -> None:
    with ActorSystem(journal, clock=clock, max_live=3) as system:
        for name in "abc":
            system.actor(Ledger, name).ask(Look())
            clock.advance(0.1)
        system.actor(Ledger, "a").ask(Look())

        system.actor(Ledger, "d").ask(Look())

        wait_until(lambda: sorted(id_ for _, id_ in system._cells) == ["a", "c", "d"])


# Who stays.


def test_who_must_not_leave_stays_until_it_may(journal: MemoryJournal, clock: ManualClock) -> None:
    class Busy(Ledger):
        def can_passivate(self) -> bool:
            return self.state.balance == 0

    with ActorSystem(journal, clock=clock, passivate_after=8, max_live=1) as system:
        busy, idle = system.actor(Busy, "busy"), system.actor(Busy, "idle")
        busy.ask(Post(1))
        idle.ask(Look())
        for _ in range(20):
            clock.advance(8)
        wait_until(lambda: system.live() == 1)
        assert list(system._cells) == [(Busy, "busy")]

        busy.ask(Post(-1))
        clock.advance(12)

        wait_until(lambda: system.live() == 0)


def test_who_cannot_even_say_whether_it_may_leave_has_failed_and_the_next_message_starts_it_again(
    journal: MemoryJournal, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Confused(Ledger):
        def can_passivate(self) -> bool:
            raise ZeroDivisionError

    with ActorSystem(journal, clock=clock, passivate_after=8) as system:
        confused = system.actor(Confused, "a")
        confused.ask(Post(1))
        clock.advance(8)
        wait_until(lambda: system.live() == 0)

        assert confused.ask(Look()).balance == 1
    assert "ledger/a has failed" in caplog.text


# What waits.


def test_who_waits_for_the_journal_is_not_cut_off(held: MemoryJournal, clock: ManualClock) -> None:
    made: list[str] = []

    def make(context: ActorContext) -> Ledger:
        made.append(context.id)
        return Ledger(context)

    with ActorSystem(held, clock=clock, passivate_after=8) as system:
        system.register(Ledger, make)
        ledger = system.actor(Ledger, "a")
        first = ledger.ask_future(Post(1))
        held.wait_for_appends()
        for _ in range(5):
            clock.advance(8)
        second = ledger.ask_future(Post(10))
        assert not first.done()

        held.commit()
        assert first.get(timeout=60).balance == 1
        held.wait_for_appends()
        held.commit()

        assert second.get(timeout=60).balance == 11
        assert made == ["a"]
        clock.advance(12)
        clock.advance(12)
        wait_until(lambda: system.live() == 0)
        assert ledger.ask(Look()).balance == 11


def test_who_is_asked_to_leave_after_it_has_left_does_not_come_back(journal: MemoryJournal, clock: ManualClock) -> None:
    actors: list[Ledger] = []

    def make(context: ActorContext) -> Ledger:
        actors.append(Ledger(context))
        return actors[-1]

    with ActorSystem(journal, clock=clock) as system:
        system.register(Ledger, make)
        system.actor(Ledger, "a").ask(Look())
        system.actor(Ledger, "a").stop()
        actors[0]._over = False  # as it looks to somebody who asks at that very moment

        actors[0].ask_to_leave()
        system.actor(Ledger, "a").stop()

        assert len(actors) == 1
        assert system.live() == 0


@pytest.mark.parametrize("kind", [Ledger, SnappingLedger])
def test_no_message_is_lost_while_actors_come_and_go(kind: type[Ledger]) -> None:
    threads, each, ledgers = 4, 250, 12
    sent: list[Counter[str]] = [Counter() for _ in range(threads)]
    with CountingJournal() as journal, ActorSystem(journal, max_live=2, passivate_after=0.002) as system:

        def post(thread: int) -> None:
            chance = chance_of(f"passivation {thread}")
            for number in range(each):
                name = str(chance.randrange(ledgers))
                sent[thread][name] += 1
                if number % 3:
                    system.actor(kind, name).tell(Post(1))
                else:
                    assert system.actor(kind, name).ask(Post(1)).balance >= 1

        at_once(post, threads)

        total = sum(sent, Counter[str]())
        for name in total:
            assert system.actor(kind, name).ask(Look()).balance == total[name]
        assert journal.head() == threads * each
        assert journal.recovered > 0
        wait_until(lambda: system.live() == 0)
