"""Cleaning up behind consumers, clocks that jump, and two servers that want the same log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from reenact import Retention, Runtime, Subscription
from reenact.testing import ManualClock
from tests.domain.stream.grammar import Heard
from tests.logs import log_at
from tests.reliability.serving import Process, reenact_serve
from tests.reliability.tap import Tap, TapFactory, chunks
from tests.reliability.truth import deltas_of, kept, taken
from tests.reliability.wire import PATIENCE
from tests.runtime.conftest import furnish

KEEPING = Retention(deltas=timedelta(hours=48), consumers=timedelta(hours=24), every=timedelta(days=36_500))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def runtime(log: str, tap: Tap, clock: ManualClock) -> Iterator[Runtime]:
    """A runtime with the container `c`, the image `i`, and a clock that the test moves."""
    with Runtime.open(log, environment=TapFactory(tap), synchronous="OFF", clock=clock, retention=KEEPING) as runtime:
        furnish(runtime)
        tap.open()
        yield runtime


def test_who_is_behind_when_deltas_are_compacted_is_told_and_misses_nothing_else(
    runtime: Runtime, agent: str, clock: ManualClock
) -> None:
    with (
        runtime.events.subscribe("s", "in the middle") as middle,
        runtime.events.subscribe("s", "at the end") as end,
        runtime.events.stream("s", after=0) as open_one,
    ):
        _say(runtime, agent, "100 deltas")
        before = {"at the begin": list[Heard](), "in the middle": _deltas(middle, 50), "at the end": _deltas(end, 100)}
        held = _deltas(open_one, 20)
        original = kept(runtime)
        middle.ack()
        end.ack()
        clock.advance(49 * 3600)

        assert runtime.events.compact().deltas > 0

        held += taken(open_one.take(10_000))
    for name, heard in before.items():
        with runtime.events.subscribe("s", name) as subscription:
            _check(heard + taken(subscription.take(10_000)), original)
    _check(held, original)
    with runtime.events.stream("s", after=0) as anew:
        fresh = taken(anew.take(10_000))
    _check(fresh, original)
    assert deltas_of(fresh) == []
    assert [event.data["message"]["content"][0]["text"] for event in fresh if event.type == "assistant_message"] == [
        "".join(chunks(100))
    ]


def test_deltas_of_a_turn_that_is_not_finished_are_kept_however_old(
    runtime: Runtime, agent: str, tap: Tap, clock: ManualClock
) -> None:
    tap.shut()
    with runtime.events.stream("s", after=0) as events:
        runtime.agents.receive(agent, "100 deltas")
        tap.allow(50)
        _deltas(events, 50)
        clock.advance(100 * 3600)

        runtime.events.compact()

        tap.open()
        _deltas(events, 50)
    assert deltas_of(kept(runtime))[:100] == chunks(100)


def test_a_consumer_that_was_away_for_long_begins_anew_and_one_that_is_there_does_not(
    runtime: Runtime, agent: str, clock: ManualClock
) -> None:
    _say(runtime, agent, "10 deltas")
    with runtime.events.subscribe("s", "there") as there:
        with runtime.events.subscribe("s", "away") as away:
            for subscription in (there, away):
                _deltas(subscription, 5)
                subscription.ack()
        clock.advance(25 * 3600)

        assert runtime.events.compact().consumers == 1

    with runtime.events.subscribe("s", "there") as there, runtime.events.subscribe("s", "away") as away:
        assert there.cursor > 5
        assert away.cursor == 0


def test_clocks_that_jump_neither_lose_nor_reorder_events(
    runtime: Runtime, agent: str, tap: Tap, clock: ManualClock
) -> None:
    tap.shut()
    jumps = [-86_400, 7 * 86_400, -3_600, 1, -7 * 86_400, 365 * 86_400]
    with runtime.events.subscribe("s", "client", after=0) as subscription:
        runtime.agents.receive(agent, "70 deltas")
        heard = list[Heard]()
        for jump in jumps:
            clock.set(clock() + jump * 1_000_000)
            tap.allow(10)
            heard += _deltas(subscription, 10)
            subscription.ack()
            runtime.events.compact()
        tap.open()
        heard += _deltas(subscription, 10)
        acknowledged = subscription.cursor
        subscription.ack()

    assert heard == kept(runtime)[: len(heard)]
    assert [event.cursor for event in heard] == list(range(1, len(heard) + 1))
    assert deltas_of(heard) == chunks(70)
    with runtime.events.subscribe("s", "client") as again:
        assert again.cursor == acknowledged


def test_a_log_that_is_served_is_not_served_again(tmp_path: Path) -> None:
    log = log_at(tmp_path / "agents.db")

    with reenact_serve(log) as first:
        with Process(["reenact", "serve", "--db", log, "--port", "0"], {"MOCK_LLM": "true"}) as second:
            assert second.wait() == 2
            assert f"process {first.pid}" in second.errors
        assert first.terminate() == 0


def _check(heard: list[Heard], original: list[Heard]) -> None:
    """Hold what was heard against what happened: of what is missing it was told, and that is nothing but deltas."""
    place = 0
    for event in heard:
        if event.type == "deltas_compacted":
            first, last = event.data["first_cursor"], event.data["last_cursor"]
            assert first <= place + 1 <= last == event.cursor
            assert {one.type for one in original[first - 1 : last]} == {"text_delta"}
            place = last
        else:
            assert event == original[place]
            place += 1
    assert place == len(original)


def _say(runtime: Runtime, agent: str, text: str) -> None:
    """Send a message, and return when its turn is over."""
    turn_id = runtime.agents.receive(agent, text)
    with runtime.events.stream("s", after=0) as events:
        assert any(event.type == "turn_completed" and event.context.turn_id == turn_id for event in events)


def _deltas(subscription: Subscription, count: int) -> list[Heard]:
    """Return what the subscription hands out, up to and with so many deltas."""
    heard: list[Heard] = []
    while len(deltas_of(heard)) < count:
        event = subscription.next(PATIENCE)
        assert event is not None
        heard += taken([event])
    return heard
