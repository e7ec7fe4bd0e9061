from __future__ import annotations

import asyncio
import contextvars
import errno
import functools
import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from reenact.actors.kernel import event_loop
from reenact.actors.kernel.event_loop import EventLoopThread
from reenact.domain.errors import RuntimeClosedError
from reenact.testing import wait_until
from tests.environment.support import PATIENCE
from tests.threads import at_once


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    loop = EventLoopThread()
    yield loop
    loop.close()


async def wait_for_ever(started: threading.Event, clean_up: Callable[[], object]) -> None:
    started.set()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await asyncio.sleep(0)
        clean_up()


def test_no_thread_runs_before_there_is_work() -> None:
    before = set(threading.enumerate())

    loop = EventLoopThread()
    assert set(threading.enumerate()) <= before
    loop.close()

    assert set(threading.enumerate()) <= before


def test_work_runs_on_one_thread_that_is_not_the_callers(loop: EventLoopThread) -> None:
    threads: list[threading.Thread] = []

    async def work() -> None:
        threads.append(threading.current_thread())

    loop.spawn(work()).result(PATIENCE)
    loop.spawn(work()).result(PATIENCE)

    assert threads[0] is threads[1] is not threading.current_thread()


def test_work_sees_no_context_variables_of_whoever_spawns_it(loop: EventLoopThread) -> None:
    user = contextvars.ContextVar("user", default="nobody")
    seen: list[str] = []

    async def work() -> None:
        seen.append(user.get())

    user.set("ada")
    loop.spawn(work()).result(PATIENCE)

    assert seen == ["nobody"]


def test_a_loop_is_idle_unless_work_is_under_way_whoever_gave_it(loop: EventLoopThread) -> None:
    was_idle = loop.is_idle

    working = loop.spawn(wait_for_ever(threading.Event(), lambda: None))

    assert (was_idle, loop.is_idle) == (True, False)
    working.cancel()
    wait_until(lambda: loop.is_idle)


def test_what_work_raises_stands_in_its_future(loop: EventLoopThread) -> None:
    async def work() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        loop.spawn(work()).result(PATIENCE)


def test_cancelling_the_future_cancels_the_task(loop: EventLoopThread) -> None:
    started, cleaned = threading.Event(), threading.Event()
    future = loop.spawn(wait_for_ever(started, cleaned.set))
    assert started.wait(PATIENCE)

    future.cancel()

    assert cleaned.wait(PATIENCE)


def test_closing_runs_the_clean_up_of_what_it_cancels_and_ends_the_thread(loop: EventLoopThread) -> None:
    before = set(threading.enumerate())
    started, cleaned = threading.Event(), threading.Event()
    loop.spawn(wait_for_ever(started, cleaned.set))
    assert started.wait(PATIENCE)

    loop.close()
    loop.close()

    assert cleaned.is_set()
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("start", ["from another thread", "on the loop"])
def test_work_that_nobody_else_refers_to_is_not_collected(loop: EventLoopThread, start: str) -> None:
    started, cleaned = threading.Event(), threading.Event()
    if start == "on the loop":
        loop.call(functools.partial(loop.run, wait_for_ever(started, cleaned.set)))
    else:
        loop.spawn(wait_for_ever(started, cleaned.set))
    assert started.wait(PATIENCE)

    gc.collect()

    assert not cleaned.is_set()
    loop.close()
    assert cleaned.is_set()


def test_closing_does_not_interrupt_a_clean_up_that_is_under_way(loop: EventLoopThread) -> None:
    cleaning, cleaned = threading.Event(), threading.Event()
    started = threading.Event()

    async def work() -> None:
        go_on = asyncio.Event()
        try:
            started.set()
            await asyncio.get_running_loop().create_future()
        finally:
            cleaning.set()
            asyncio.get_running_loop().call_later(0.05, go_on.set)
            await go_on.wait()
            cleaned.set()

    future = loop.spawn(work())
    assert started.wait(PATIENCE)
    future.cancel()
    assert cleaning.wait(PATIENCE)

    loop.close()

    assert cleaned.is_set()


def test_work_that_ignores_its_cancellation_does_not_hold_up_closing(caplog: pytest.LogCaptureFixture) -> None:
    loop, started = EventLoopThread(grace=0.02), threading.Event()

    async def work() -> None:
        started.set()
        for _ in range(2):
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                continue
        await asyncio.sleep(0.05)

    loop.spawn(work())
    assert started.wait(PATIENCE)

    loop.close()

    assert "ignores its cancellation" in caplog.text


def test_nothing_can_be_spawned_once_it_is_closed(loop: EventLoopThread) -> None:
    async def work() -> None: ...

    loop.close()

    with pytest.raises(RuntimeClosedError):
        loop.spawn(work())


def test_work_may_close_the_loop_that_it_runs_on() -> None:
    loop, ended = EventLoopThread(), threading.Event()

    async def work() -> None:
        loop.close()
        ended.set()

    loop.spawn(work())

    assert ended.wait(PATIENCE)
    loop.close()


def test_work_that_was_spawned_just_before_the_end_still_cleans_up(loop: EventLoopThread) -> None:
    cleaned: list[int] = []

    async def child(number: int) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cleaned.append(number)

    async def work(number: int) -> None:
        task = asyncio.create_task(child(number))
        await child(number)
        await task

    for number in range(20):
        loop.spawn(work(number))
    loop.close()

    assert sorted(cleaned) == sorted([*range(20), *range(20)])


def test_a_loop_that_cannot_be_made_is_told_to_whoever_asks_and_made_when_it_can_be(
    loop: EventLoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()

    async def work() -> None:
        done.set()

    with monkeypatch.context() as patch:
        patch.setattr("reenact.actors.kernel.event_loop.asyncio.SelectorEventLoop", out_of_descriptors)
        with pytest.raises(OSError, match="Too many open files"):
            loop.spawn(work())
    with monkeypatch.context() as patch:
        patch.setattr("reenact.actors.kernel.event_loop.threading.Thread.start", out_of_threads)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            loop.spawn(work())

    loop.spawn(work()).result(PATIENCE)
    assert done.is_set()


def out_of_descriptors(_selector: object) -> asyncio.AbstractEventLoop:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def out_of_threads(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_what_is_to_be_done_after_a_round_is_done_once_behind_all_that_was_handed_over(loop: EventLoopThread) -> None:
    done: list[str] = []
    over = threading.Event()

    def end() -> None:
        done.append("end")
        over.set()

    def call(word: str) -> None:
        done.append(word)
        loop.after_round(end)

    def begin() -> None:
        for word in ("a", "b"):
            loop.call(lambda word=word: call(word))  # type: ignore[misc]

    loop.call(begin)

    assert over.wait(PATIENCE)
    assert done == ["a", "b", "end"]


def test_what_is_to_be_done_after_a_round_is_done_soon_if_a_coroutine_asks(loop: EventLoopThread) -> None:
    over = threading.Event()

    async def ask() -> None:
        loop.after_round(over.set)

    loop.spawn(ask()).result(PATIENCE)

    assert over.wait(PATIENCE)


def test_what_is_to_be_done_after_a_round_is_done_at_once_while_the_loop_ends() -> None:
    loop = EventLoopThread()
    started, done = threading.Event(), threading.Event()
    loop.spawn(wait_for_ever(started, lambda: loop.after_round(done.set)))
    assert started.wait(PATIENCE)

    loop.close()

    assert done.is_set()


class PatchedSelector(event_loop._Selector):
    """A selector on top of gevent's instead of Python's, which has a `_ready` of its own."""

    _ready = None


def test_a_loop_runs_on_the_selector_that_gevent_puts_in_the_place_of_pythons(
    loop: EventLoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "_Selector", PatchedSelector)

    called = threading.Event()
    loop.call(called.set)

    assert called.wait(PATIENCE)


def test_a_loop_that_waits_is_woken_by_what_another_thread_hands_over(loop: EventLoopThread) -> None:
    on(loop, lambda: None)  # it runs, and has nothing to do

    for _ in range(100):
        on(loop, lambda: None)


def test_who_is_interrupted_while_it_wakes_the_loop_leaves_it_to_the_next(
    loop: EventLoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(loop, lambda: None)
    made: list[str] = []

    with monkeypatch.context() as patch:

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(socket.socket, "send", interrupted)
        while not made:  # it may still be awake
            try:
                on(loop, lambda: None)
            except KeyboardInterrupt:
                made.append("interrupted")

    on(loop, lambda: made.append("woken"))
    assert made == ["interrupted", "woken"]


def test_what_the_loop_hands_over_to_itself_is_called_in_the_next_round(loop: EventLoopThread) -> None:
    done: list[str] = []
    over = threading.Event()

    async def work() -> None:
        loop.call(lambda: done.append("the first"))
        loop.call(lambda: done.append("the second"))
        loop.after_round(lambda: done.append("after the round"))
        done.append("the task")

    loop.spawn(work()).result(PATIENCE)
    loop.call(over.set)

    assert over.wait(PATIENCE)
    assert done == ["the task", "the first", "the second", "after the round"]


def test_calls_from_many_threads_are_all_made_each_thread_s_in_order(loop: EventLoopThread) -> None:
    made: dict[int, list[int]] = {thread: [] for thread in range(4)}

    def hand_over(thread: int) -> None:
        for number in range(500):
            loop.call(functools.partial(made[thread].append, number))

    at_once(hand_over, threads=4)
    on(loop, lambda: None)

    assert made == {thread: list(range(500)) for thread in made}


def on(loop: EventLoopThread, function: Callable[[], object]) -> None:
    """Return when the loop's thread has called the function."""
    over = threading.Event()
    loop.call(function)
    loop.call(over.set)
    assert over.wait(PATIENCE)


def test_between_commits_a_call_is_made_at_once(loop: EventLoopThread) -> None:
    threads: list[threading.Thread] = []

    loop.call_between_commits(lambda: threads.append(threading.current_thread()))

    assert threads == [threading.current_thread()]


def test_calls_wait_for_the_end_of_a_commit_whoever_makes_them(loop: EventLoopThread) -> None:
    made: list[str] = []
    over = threading.Event()
    on(loop, loop.commit_begins)

    on(loop, lambda: loop.call_between_commits(lambda: made.append("the loop's")))
    loop.call_between_commits(lambda: made.append("another thread's"))
    loop.call_between_commits(over.set)
    on(loop, lambda: None)
    assert made == []

    loop.commit_is_over()

    assert over.wait(PATIENCE)
    assert made == ["the loop's", "another thread's"]
    loop.call_between_commits(lambda: made.append("later"))
    assert made[2:] == ["later"]


def test_after_a_commit_there_is_a_rest_that_is_as_long(loop: EventLoopThread) -> None:
    resting = threading.Event()
    on(loop, loop.commit_begins)
    on(loop, lambda: loop.call_between_commits(resting.set))
    began = time.monotonic()
    time.sleep(0.02)  # what the commit takes
    ended = time.monotonic()

    loop.commit_is_over()

    assert resting.wait(PATIENCE)
    assert time.monotonic() - ended >= min(ended - began, event_loop._LONGEST_PAUSE)


def test_a_loop_that_was_held_up_since_the_end_of_a_commit_need_not_rest(
    loop: EventLoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    def rest(seconds: float, _then: Callable[[], object]) -> None:
        rests.append(seconds)

    async def commit() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", rest)
        loop.commit_begins()
        began = time.monotonic()
        loop.commit_is_over()
        rested = 2 * time.monotonic() - began
        while time.monotonic() <= rested:
            pass

    loop.spawn(commit()).result(PATIENCE)
    on(loop, lambda: None)  # the loop has been told that the commit is over

    assert rests == [0]


def test_a_task_that_wakes_when_the_rest_is_over_reports_before_the_next_commit(loop: EventLoopThread) -> None:
    made: list[str] = []
    over = threading.Event()

    def begin_next() -> None:
        made.append("the next commit")
        loop.commit_begins()

    async def report() -> None:
        began = asyncio.get_running_loop().time()
        loop.commit_begins()
        loop.call_between_commits(begin_next)
        loop.commit_is_over()
        loop.call(lambda: hold_up(began))
        await asyncio.sleep(1e-6)
        loop.call_between_commits(lambda: made.append("the report"))
        loop.call_between_commits(over.set)

    def hold_up(began: float) -> None:
        """Hold up the loop until the rest and the task's sleep are both over."""
        asyncio_loop = asyncio.get_running_loop()
        rested = 2 * asyncio_loop.time() - began
        while asyncio_loop.time() <= rested:
            pass

    loop.spawn(report())

    assert over.wait(PATIENCE)
    assert made == ["the next commit", "the report"]


def test_a_call_that_fails_does_not_keep_the_next_from_being_made(loop: EventLoopThread) -> None:
    over = threading.Event()
    gone: list[str] = []
    on(loop, loop.commit_begins)
    on(loop, lambda: loop.call_between_commits(gone.pop))
    on(loop, lambda: loop.call_between_commits(over.set))

    loop.commit_is_over()

    assert over.wait(PATIENCE)


def test_a_commit_may_end_after_the_loop() -> None:
    loop = EventLoopThread()
    on(loop, loop.commit_begins)
    loop.close()

    loop.commit_is_over()
