"""Buckets let through what their rate allows; a room holds what it has room for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import ConfigurationError
from reenact.server import Limits
from reenact.server.limits import Bucket, Room

PAUSES = st.lists(st.floats(0, 3), max_size=40)


@given(pauses=PAUSES, rate=st.floats(0.5, 50), burst=st.integers(1, 10))
def test_a_bucket_lets_through_no_more_than_the_burst_and_the_rate(
    pauses: list[float], rate: float, burst: int
) -> None:
    now = [0.0]
    bucket = Bucket(rate, burst, lambda: now[0])
    let_through = 0

    for pause in pauses:
        now[0] += pause
        let_through += bucket.try_take() == 0

    assert let_through <= burst + rate * now[0] + 1e-6
    assert let_through >= min(len(pauses), burst)


@given(pauses=PAUSES, rate=st.floats(0.5, 50), burst=st.integers(1, 10))
def test_whoever_waits_as_long_as_the_bucket_says_keeps_to_the_rate(
    pauses: list[float], rate: float, burst: int
) -> None:
    now = [0.0]
    bucket = Bucket(rate, burst, lambda: now[0])

    for number, pause in enumerate(pauses, start=1):
        now[0] += pause
        now[0] += bucket.take()
        assert number <= burst + rate * now[0] + 1e-6


def test_a_bucket_says_when_there_is_a_token_again() -> None:
    now = [0.0]
    bucket = Bucket(2.0, 1, lambda: now[0])
    bucket.try_take()

    wait = bucket.try_take()
    now[0] += wait

    assert wait == 0.5
    assert bucket.try_take() == 0.0


def test_a_room_is_entered_when_there_is_room() -> None:
    async def story() -> list[str]:
        room, heard = Room(2, 100), list[str]()

        async def enter(name: str, size: int) -> None:
            await room.enter(size)
            heard.append(name)

        await enter("large", 500)  # alone, whatever its size
        waiting = [asyncio.ensure_future(enter(name, size)) for name, size in (("a", 40), ("b", 40), ("c", 40))]
        await asyncio.sleep(0)
        heard.append("-")
        room.leave(500)
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0)
        heard.append("-")
        room.leave(40)
        await asyncio.gather(*waiting)
        return heard

    assert asyncio.run(story()) == ["large", "-", "a", "b", "-", "c"]


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["rate", "message_size", "connections", "stall_timeout"])
def test_a_limit_is_a_number_above_0(name: str, value: float) -> None:
    settings: dict[str, Any] = {name: value}

    with pytest.raises(ConfigurationError, match=name):
        Limits(**settings)
