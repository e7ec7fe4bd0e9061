"""Handlers on event loops: the same order, and nobody is held up by a coroutine, a cancelled task or a closed loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from reenact.actors.feed.handlers import REST, Handler, Registration
from reenact.actors.feed.hub import Feed
from reenact.domain.stream.events import Envelope
from reenact.testing import wait_until
from tests.feed.test_handlers import PATIENCE, say, text


class Loop:
    """An event loop on a thread of its own."""

    def __init__(self, feed: Feed) -> None:
        self.loop = asyncio.new_event_loop()
        self._feed = feed
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def on(self, handler: Handler) -> Registration:
        return self._feed.handlers.add("text_delta", handler, loop=self.loop)

    def event(self) -> asyncio.Event:
        """An event that tasks of the loop can wait for."""
        made: Future[asyncio.Event] = Future()
        self.loop.call_soon_threadsafe(lambda: made.set_result(asyncio.Event()))
        return made.result(PATIENCE)

    def set(self, event: asyncio.Event) -> None:
        self.loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(PATIENCE)
            self.loop.close()


@pytest.fixture
def one(feed: Feed) -> Iterator[Loop]:
    loop = Loop(feed)
    yield loop
    feed.close()
    loop.close()


@pytest.fixture
def other(feed: Feed) -> Iterator[Loop]:
    loop = Loop(feed)
    yield loop
    feed.close()
    loop.close()


def test_each_event_is_handled_on_all_loops_and_threads_before_the_next(feed: Feed, one: Loop, other: Loop) -> None:
    calls: list[tuple[str, str, object]] = []

    async def pause(event: Envelope) -> None:
        await asyncio.sleep(0)
        calls.append(("one", text(event), asyncio.get_running_loop()))

    async def go_on(event: Envelope) -> None:
        calls.append(("other", text(event), asyncio.get_running_loop()))

    one.on(pause)
    feed.handlers.add("text_delta", lambda event: calls.append(("thread", text(event), None)))
    other.on(go_on)
    one.on(lambda event: calls.append(("plain", text(event), asyncio.get_running_loop())))

    say(feed, *map(str, range(50)))
    feed.close()

    assert calls == [
        call
        for number in map(str, range(50))
        for call in (
            ("one", number, one.loop),
            ("thread", number, None),
            ("other", number, other.loop),
            ("plain", number, one.loop),
        )
    ]


@pytest.mark.parametrize("beside", ["thread", "same loop", "other loop"])
def test_a_coroutine_that_does_not_return_holds_up_nobody_for_long_and_misses_nothing(
    feed: Feed, one: Loop, other: Loop, beside: str
) -> None:
    gate = one.event()
    slow: list[str] = []
    quick: list[str] = []

    async def hold_up(event: Envelope) -> None:
        if text(event) == "1":
            await gate.wait()
        slow.append(text(event))

    one.on(hold_up)
    loop = {"thread": None, "same loop": one.loop, "other loop": other.loop}[beside]
    feed.handlers.add("text_delta", lambda event: quick.append(text(event)), loop=loop)
    say(feed, "0", "1", "2", "3", "4")

    wait_until(lambda: quick == ["0", "1", "2", "3", "4"], PATIENCE)
    assert slow == ["0"]
    one.set(gate)
    say(feed, "5")
    feed.close()
    assert slow == quick == ["0", "1", "2", "3", "4", "5"]


def test_a_loop_that_is_busy_holds_up_nobody_for_long(feed: Feed, one: Loop) -> None:
    gate = threading.Event()
    heard: list[str] = []
    late: list[str] = []
    one.on(lambda event: late.append(text(event)))
    feed.handlers.add("text_delta", lambda event: heard.append(text(event)))
    one.loop.call_soon_threadsafe(gate.wait, PATIENCE)

    say(feed, "0", "1")

    wait_until(lambda: heard == ["0", "1"], PATIENCE)
    assert not late
    gate.set()
    feed.close()
    assert late == ["0", "1"]


def test_a_handler_whose_task_is_cancelled_hears_the_next_event(
    feed: Feed, one: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    async def hear(event: Envelope) -> None:
        heard.append(text(event))
        if text(event) == "1":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(PATIENCE)

    one.on(hear)
    with caplog.at_level(logging.ERROR, "reenact.events"):
        say(feed, "0", "1", "2")
        feed.close()

    assert heard == ["0", "1", "2"]
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == ["a handler of 'text_delta' raised"]


def test_handlers_of_a_closed_loop_are_called_no_more_and_the_others_go_on(
    feed: Feed, one: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    late: list[str] = []
    one.on(lambda event: late.append(text(event)))
    feed.handlers.add("text_delta", lambda event: heard.append(text(event)))
    say(feed, "0")
    wait_until(lambda: heard == ["0"], PATIENCE)
    one.close()

    with caplog.at_level(logging.ERROR, "reenact.events"):
        say(feed, "1", "2")
        feed.close()

    assert heard == ["0", "1", "2"]
    assert late == ["0"]
    assert [record.getMessage() for record in caplog.records] == [
        "handlers whose event loop was closed are no longer called"
    ]


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_loop_is_left_to_others_between_many_events(feed: Feed, one: Loop, *, is_slow: bool) -> None:
    heard: list[str] = []
    between: list[int] = []
    gate, all_heard = threading.Event(), threading.Event()

    def hear(event: Envelope) -> None:
        heard.append(text(event))
        if len(heard) == 1:
            gate.wait(PATIENCE)
            asyncio.get_running_loop().call_soon(lambda: between.append(len(heard)))
        if len(heard) == 3 * REST:
            all_heard.set()

    registration = one.on(hear)
    say(feed, "first")
    wait_until(lambda: bool(heard), PATIENCE)
    say(feed, *map(str, range(3 * REST - 1)))
    if is_slow:
        wait_until(lambda: registration.alone, PATIENCE)
    gate.set()

    assert all_heard.wait(PATIENCE)
    assert between
    assert between[0] <= REST
