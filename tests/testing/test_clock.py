"""The clock, the ids and the waiting of a test."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime
from typing import Any

import pytest

from reenact.actors.kernel import ControlledClock
from reenact.testing import ManualClock, SequentialIds, wait_until

NOON = datetime(2031, 6, 1, 12, tzinfo=UTC)


def test_the_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(start=5)

    assert (clock(), clock(), clock.elapsed()) == (5, 5, 0)


def test_time_passes_in_seconds_and_is_told_in_microseconds() -> None:
    clock = ManualClock(start=0)

    clock.advance(1.5)
    clock.advance(0.000001)

    assert (clock(), clock.elapsed()) == (1_500_001, 1_500_001)


def test_time_does_not_pass_backwards() -> None:
    with pytest.raises(ValueError, match=r"not by 1 seconds"):
        ManualClock().advance(-1)


def test_a_clock_that_is_set_back_lets_no_time_pass() -> None:
    clock = ManualClock(start=NOON)
    noon = clock()
    clock.advance(60)

    clock.set(NOON)

    assert (clock(), clock.elapsed()) == (noon, 60_000_000)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        ManualClock(start=datetime(2031, 6, 1))  # noqa: DTZ001 - that is the mistake


@pytest.mark.parametrize("wrong", [1.9e9, "2031-06-01", date(2031, 6, 1)])
def test_what_is_not_a_time_is_refused(wrong: Any) -> None:  # noqa: ANN401 - the mistake
    with pytest.raises(TypeError, match="is not a time: give whole microseconds since 1970, or a datetime"):
        ManualClock(start=wrong)
    with pytest.raises(TypeError, match="is not a time"):
        ManualClock().set(wrong)


def test_whoever_watches_is_called_after_each_move_until_it_has_enough() -> None:
    clock, seen = ManualClock(start=0), list[int]()
    unwatch = clock.watch(lambda: seen.append(clock()))

    clock.advance(1)
    clock.set(7)
    unwatch()
    clock.advance(1)

    assert seen == [1_000_000, 7]


def test_the_kernel_knows_that_the_clock_is_moved_by_hand() -> None:
    assert isinstance(ManualClock(), ControlledClock)
    assert repr(ManualClock(start=NOON)) == "<ManualClock 2031-06-01T12:00:00+00:00>"


def test_ids_are_counted_for_each_prefix() -> None:
    ids = SequentialIds()

    assert [ids("ses"), ids("agt"), ids("ses")] == ["ses_0001", "agt_0001", "ses_0002"]


def test_waiting_ends_with_what_was_waited_for() -> None:
    found: list[str] = []
    event = threading.Event()

    def find() -> None:
        event.wait(60)
        found.append("it")

    thread = threading.Thread(target=find)
    thread.start()
    event.set()

    assert wait_until(lambda: found, what="it") == ["it"]
    thread.join()


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(AssertionError, match=r"waited 0.01 seconds for the end, in vain; it was \[\] at the end"):
        wait_until(list, timeout=0.01, what="the end")


def test_a_wait_does_not_sleep_by_a_function_that_tests_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("time.sleep")
    conditions = iter([False, False, True])

    assert wait_until(lambda: next(conditions))
