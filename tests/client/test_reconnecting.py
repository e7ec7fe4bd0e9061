"""How long to wait before the next attempt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.client.dialing import Reconnect


def test_without_chance_a_wait_is_twice_as_long_after_each_failure_up_to_the_longest() -> None:
    reconnect = Reconnect(first=0.5, longest=5.0, chance=lambda: 1.0)

    assert [reconnect.delay(failures) for failures in range(6)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


@given(st.floats(0, 1), st.integers(0, 10**9))
def test_chance_takes_any_part_of_it(chance: float, failures: int) -> None:
    whole, part = Reconnect(chance=lambda: 1.0), Reconnect(chance=lambda: chance)

    assert part.delay(failures) == pytest.approx(chance * whole.delay(failures))
    assert 0 <= part.delay(failures) <= 10


def test_the_first_attempt_comes_soon() -> None:
    assert Reconnect().delay(0) <= 0.1
