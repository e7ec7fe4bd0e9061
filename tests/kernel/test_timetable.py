"""Acts at their times: each once, in order, none after the end."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import ClassVar

import pytest

from reenact.actors.kernel import ActorSystem
from reenact.actors.kernel.timetable import ControlledClock, Timetable, elapsed, microseconds
from reenact.testing.clock import ManualClock, wait_until
from tests.kernel.ledger import (
    NOON,
    SECOND,
    Command,
    Event,
    Ledger,
    Look,
    Post,
)
from tests.kernel.memory import MemoryJournal
from tests.threads import at_once


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "reenact-timetable"]


def test_acts_are_done_in_the_order_of_their_times(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    done: list[tuple[str, int]] = []

    timetable.after(3, lambda: done.append(("third", clock.elapsed())))
    timetable.after(1, lambda: done.append(("first", clock.elapsed())))
    timetable.after(2, lambda: done.append(("second", clock.elapsed())))
    timetable.after(2, lambda: done.append(("second, too", clock.elapsed())))
    clock.advance(0.999_999)
    assert done == []
    clock.advance(0.000_001)
    assert done == [("first", SECOND)]
    clock.advance(9)

    assert [name for name, _ in done] == ["first", "second", "second, too", "third"]


def test_whoever_moves_a_controlled_clock_does_what_is_due(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    by: list[threading.Thread] = []
    timetable.after(1, lambda: by.append(threading.current_thread()))

    clock.advance(1)

    assert by == [threading.current_thread()]
    assert threads() == []
    timetable.close()


def test_setting_a_clock_lets_no_time_pass(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    done: list[str] = []
    timetable.after(10, lambda: done.append("done"))

    clock.set(NOON + 3600 * SECOND)
    assert done == []
    clock.set(NOON - 3600 * SECOND)
    clock.advance(10)

    assert done == ["done"]


def test_what_is_due_at_once_on_a_controlled_clock_is_done_before_after_returns(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    done: list[str] = []

    timetable.after(0, lambda: done.append("now"))
    timetable.after(-1, lambda: done.append("long ago"))

    assert done == ["now", "long ago"]


def test_an_act_may_plan_another_one(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    done: list[int] = []

    def again() -> None:
        done.append(clock.elapsed())
        timetable.after(1, again)

    timetable.after(1, again)
    for _ in range(3):
        clock.advance(1)

    assert done == [SECOND, 2 * SECOND, 3 * SECOND]


def test_what_is_cancelled_is_not_done(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    done: list[str] = []
    entry = timetable.after(1, lambda: done.append("done"))

    assert entry.cancel()
    assert not entry.cancel()
    clock.advance(1)

    assert done == []


def test_it_is_too_late_to_cancel_what_has_begun(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    cancelled: list[bool] = []
    entry = timetable.after(1, lambda: cancelled.append(entry.cancel()))

    clock.advance(1)

    assert cancelled == [False]
    assert not entry.cancel()


def test_an_entry_runs_once_whoever_runs_it(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    done: list[int] = []
    for number in range(1000):
        timetable.after(1, partial(done.append, number))

    at_once(lambda _: clock.advance(1), threads=4)

    assert sorted(done) == list(range(1000))


def test_timeouts_that_are_called_off_do_not_pile_up(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    kept = [timetable.after(3600, lambda: None) for _ in range(100)]

    for _ in range(10_000):
        timetable.after(3600, lambda: None).cancel()

    assert len(timetable._entries) <= 2 * len(kept) + 64
    assert all(entry.is_to_come for entry in kept)
    assert {entry for _, _, entry in timetable._entries} >= set(kept)


def test_an_act_that_raises_harms_no_other(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    timetable = Timetable(clock)
    done: list[str] = []
    timetable.after(1, lambda: 1 // 0)
    timetable.after(1, lambda: done.append("done"))

    with caplog.at_level(logging.ERROR, logger="reenact.kernel"):
        clock.advance(1)

    assert done == ["done"]
    assert "ZeroDivisionError" in caplog.text


def test_nothing_is_done_once_it_is_closed(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    done: list[str] = []
    timetable.after(1, lambda: done.append("planned before"))

    timetable.close()
    timetable.close()
    timetable.after(0, lambda: done.append("planned after"))
    clock.advance(2)

    assert done == []


def test_a_clock_is_watched_no_longer_than_there_is_something_to_be_done(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    assert not clock._watchers

    timetable.after(1, lambda: None)
    timetable.after(1, lambda: None)
    assert len(clock._watchers) == 1
    timetable.close()

    assert not clock._watchers


def test_an_act_may_close_it_and_is_the_last(clock: ManualClock) -> None:
    timetable = Timetable(clock)
    done: list[str] = []
    timetable.after(1, timetable.close)
    timetable.after(1, lambda: done.append("after the end"))

    clock.advance(1)

    assert done == []


@pytest.mark.parametrize("controlled", [False, True])
def test_closing_waits_for_what_is_being_done(
    controlled: bool,  # noqa: FBT001 - a case
    clock: ManualClock,
) -> None:
    timetable = Timetable(clock if controlled else microseconds)
    begun, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def act() -> None:
        begun.set()
        assert go_on.wait(60)
        order.append("done")

    timetable.after(0.000_001, act)
    mover = threading.Thread(target=clock.advance, args=(1,))
    mover.start()
    assert begun.wait(60)

    def close() -> None:
        timetable.close()
        order.append("closed")

    closing = threading.Thread(target=close)
    closing.start()
    while not timetable._closed:
        threading.Event().wait(0.001)
    closing.join(0.02)
    go_on.set()
    closing.join()
    mover.join()

    assert order == ["done", "closed"]


def test_there_is_no_thread_until_something_is_to_be_done_and_none_after_the_end() -> None:
    timetable = Timetable(microseconds)
    assert threads() == []

    timetable.after(3600, lambda: None)
    timetable.after(3600, lambda: None)
    assert len(threads()) == 1
    timetable.close()

    assert threads() == []


def test_the_thread_wakes_for_what_is_due_before_what_it_waits_for() -> None:
    timetable = Timetable(microseconds)
    done: list[int] = []
    came = threading.Event()
    timetable.after(3600, lambda: done.append(3600))
    begun = elapsed()

    def act() -> None:
        done.append(elapsed() - begun)
        came.set()

    timetable.after(0.02, act)

    assert came.wait(60)
    assert len(done) == 1
    assert done[0] >= 20_000
    timetable.close()


def test_the_thread_survives_an_act_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    timetable = Timetable(microseconds)
    came = threading.Event()

    with caplog.at_level(logging.CRITICAL, logger="reenact.kernel"):
        timetable.after(0, lambda: 1 // 0)
        timetable.after(0, came.set)

        assert came.wait(60)
    timetable.close()


def test_what_nobody_lives_to_see_does_not_end_the_thread() -> None:
    timetable = Timetable(microseconds)
    came = threading.Event()
    timetable.after(float("inf"), lambda: None)
    timetable.after(1e12, lambda: None)

    timetable.after(0.001, came.set)

    assert came.wait(60)
    timetable.close()


def test_a_thread_of_the_timetable_may_close_it() -> None:
    timetable = Timetable(microseconds)

    timetable.after(0, timetable.close)
    for thread in threads():
        thread.join()

    assert timetable._closed


def test_many_threads_plan_and_each_act_is_done_once() -> None:
    timetable = Timetable(microseconds)
    done: list[tuple[int, int]] = []
    all_done = threading.Event()

    def act(thread: int, number: int) -> None:
        done.append((thread, number))
        if len(done) == 2000:
            all_done.set()

    def plan(thread: int) -> None:
        for number in range(500):
            timetable.after(number % 7 / 1000, partial(act, thread, number))

    at_once(plan, threads=4)

    assert all_done.wait(60)
    assert sorted(done) == [(thread, number) for thread in range(4) for number in range(500)]
    timetable.close()


def test_the_clock_is_controlled_if_it_can_be_moved_and_watched() -> None:
    assert isinstance(ManualClock(NOON), ControlledClock)
    assert not isinstance(microseconds, ControlledClock)
    assert Timetable(microseconds).elapsed is elapsed


# Messages that an actor sends to itself, later.


class Sleeper(Ledger):
    """Posts what it is told to post, and once more an hour later."""

    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        if command == Post(1):
            self.calls_off = self.context.schedule(3600, Post(10))


class Forgetter(Sleeper):
    """Calls that off at the next command."""

    cancelled: ClassVar[list[bool]] = []

    def prepare(self, command: Command) -> Command:
        if command == Post(2):
            self.cancelled.append(self.calls_off())
        return command


def test_a_scheduled_message_comes_once(journal: MemoryJournal, clock: ManualClock) -> None:
    with ActorSystem(journal, clock=clock) as system:
        ledger = system.actor(Sleeper, "a")
        ledger.ask(Post(1))

        clock.advance(3599)
        assert ledger.ask(Look()).balance == 1
        clock.advance(1)
        assert ledger.ask(Look()).balance == 11
        clock.advance(7200)
        assert ledger.ask(Look()).balance == 11


def test_a_scheduled_message_can_be_called_off_until_it_comes(journal: MemoryJournal, clock: ManualClock) -> None:
    with ActorSystem(journal, clock=clock) as system:
        ledger = system.actor(Forgetter, "a")
        ledger.ask(Post(1))
        clock.advance(1800)
        ledger.ask(Post(2))
        ledger.ask(Post(2))
        clock.advance(7200)
        assert ledger.ask(Look()).balance == 5

        ledger.ask(Post(1))
        clock.advance(3600)
        ledger.ask(Post(2))

        assert Forgetter.cancelled == [True, False, False]


def test_a_scheduled_message_starts_an_actor_that_has_left_memory(journal: MemoryJournal, clock: ManualClock) -> None:
    with ActorSystem(journal, clock=clock, passivate_after=60) as system:
        system.actor(Sleeper, "a").ask(Post(1))
        clock.advance(60)
        wait_until(lambda: system.live() == 0)

        clock.advance(3540)

        wait_until(lambda: journal.head() == 2)


def test_a_scheduled_message_does_not_survive_a_restart(journal: MemoryJournal, clock: ManualClock) -> None:
    with ActorSystem(journal, clock=clock) as system:
        system.actor(Sleeper, "a").ask(Post(1))

    with ActorSystem(journal, clock=clock) as system:
        clock.advance(3600)

        assert system.actor(Sleeper, "a").ask(Look()).balance == 1
