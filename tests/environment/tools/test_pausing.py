"""A server that cannot be reached is left alone for a while, longer each time."""

from __future__ import annotations

import pytest

from reenact.actors.environment.tools.mcp.connection import FIRST_WAIT, LONGEST_WAIT, Backoff
from reenact.domain.tools import MCPServerError


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def error() -> MCPServerError:
    return MCPServerError("files", "could not be connected")


def waits(pause: Backoff, clock: Clock) -> float:
    """Return how many seconds the pause lasts from now on."""
    began = clock.now
    while True:
        try:
            pause.check()
        except MCPServerError:
            clock.now += 0.25
        else:
            return clock.now - began


def test_nothing_has_failed_yet() -> None:
    Backoff().check()


def test_until_the_pause_is_over_the_error_is_the_same(clock: Clock) -> None:
    pause, failed = Backoff(clock), error()

    pause.begin(failed)

    with pytest.raises(MCPServerError) as again:
        pause.check()
    assert again.value is failed
    clock.now += FIRST_WAIT
    pause.check()


def test_each_further_failure_is_followed_by_twice_the_pause_up_to_a_limit(clock: Clock) -> None:
    pause = Backoff(clock)
    lengths: list[float] = []

    for _ in range(9):
        pause.begin(error())
        lengths.append(waits(pause, clock))

    assert lengths == [1, 2, 4, 8, 16, 32, LONGEST_WAIT, LONGEST_WAIT, LONGEST_WAIT]


def test_who_hears_of_the_same_failure_waits_no_longer_for_it(clock: Clock) -> None:
    pause, failed = Backoff(clock), error()

    for _ in range(5):
        pause.begin(failed)

    assert waits(pause, clock) == FIRST_WAIT


def test_after_a_success_all_begins_anew(clock: Clock) -> None:
    pause = Backoff(clock)
    for _ in range(5):
        pause.begin(error())

    pause.end()

    pause.check()
    pause.begin(error())
    assert waits(pause, clock) == FIRST_WAIT
