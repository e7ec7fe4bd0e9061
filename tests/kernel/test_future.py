"""A future is set once, wakes everybody who waits, and calls back."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from queue import Full
from typing import Any

import pykka
import pytest

from reenact.actors.kernel import PooledFuture
from reenact.actors.kernel.pool import WorkerPool
from reenact.domain.errors import RuntimeClosedError


def test_everybody_who_waits_gets_the_value() -> None:
    future: PooledFuture[int] = PooledFuture()
    got: list[int] = []
    waiters = [threading.Thread(target=lambda: got.append(future.get())) for _ in range(3)]
    for waiter in waiters:
        waiter.start()

    future.set(1)
    for waiter in waiters:
        waiter.join()

    assert got == [1, 1, 1]


def test_who_waits_too_long_is_told_so_and_may_ask_again() -> None:
    future: PooledFuture[int] = PooledFuture()

    with pytest.raises(pykka.Timeout):
        future.get(timeout=0.001)
    future.set(1)

    assert future.get(timeout=0) == 1


def test_a_future_is_set_once() -> None:
    future: PooledFuture[int] = PooledFuture()
    future.set(1)

    with pytest.raises(Full):
        future.set(2)
    with pytest.raises(Full):
        future.fail(ZeroDivisionError())
    with pytest.raises(Full):
        future.set_get_hook(lambda _: 2)

    assert future.get() == 1


def test_an_exception_is_raised_each_time_it_is_asked_for() -> None:
    future: PooledFuture[int] = PooledFuture()
    try:
        _ = 1 / 0
    except ZeroDivisionError:
        future.set_exception()

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            future.get()


def test_callbacks_are_called_once_before_or_after() -> None:
    future: PooledFuture[int] = PooledFuture()
    heard: list[Any] = []
    future.add_done_callback(lambda done: heard.append(("first", done.get())))
    future.add_done_callback(lambda done: heard.append(("second", done.get())))

    future.set(1)
    future.add_done_callback(lambda done: heard.append(("late", done.get())))

    assert heard == [("first", 1), ("second", 1), ("late", 1)]


def test_pykkas_combinators_work() -> None:
    one: PooledFuture[Iterable[int]] = PooledFuture()
    other: PooledFuture[Iterable[int]] = PooledFuture()
    one.set([1, 2, 3])
    other.set([4])

    assert one.filter(lambda number: number > 1).get() == [2, 3]
    assert one.map(sum).get() == 6
    assert one.join(other).get() == [[1, 2, 3], [4]]
    assert one.reduce(lambda total, number: total + number, 0).get() == 6


def test_a_computed_future_never_calls_back_and_says_so() -> None:
    future: PooledFuture[int] = PooledFuture()
    future.set_get_hook(lambda _: 1)

    with pytest.raises(TypeError, match="calls back"):
        future.add_done_callback(lambda _: None)
    assert future.get() == 1


def test_a_pool_needs_a_worker() -> None:
    with pytest.raises(ValueError, match="at least one"):
        WorkerPool(0)


def test_a_closed_pool_takes_no_work() -> None:
    pool = WorkerPool()
    pool.close()
    pool.close()

    with pytest.raises(RuntimeClosedError):
        pool.submit(_Nothing())


def test_work_that_breaks_does_not_break_its_worker(caplog: pytest.LogCaptureFixture) -> None:
    pool = WorkerPool(workers=1)
    done = _Nothing()

    pool.submit(_Broken())
    pool.submit(done)

    assert done.ran.wait(60)
    pool.close()
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]


def test_a_spare_worker_goes_home_when_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.actors.kernel.pool._SPARE_TIMEOUT", 0.01)
    pool = WorkerPool(workers=1)
    waiting = _Waiting()
    spare = _Nothing()

    pool.enter(somebody := object())
    pool.submit(waiting)
    pool.submit(spare)
    assert spare.ran.wait(60)
    waiting.future.set(None)
    assert waiting.ran.wait(60)
    threads = list(pool._threads)

    while all(thread.is_alive() for thread in threads):
        threads[0].join(0.01)
    assert len(threads) == 2
    assert sum(thread.is_alive() for thread in threads) == 1
    pool.leave(somebody)
    pool.close()


class _Waiting:
    def __init__(self) -> None:
        self.ran = threading.Event()
        self.future: PooledFuture[None] = PooledFuture()

    def run(self) -> None:
        self.future.get()
        self.ran.set()


class _Nothing:
    def __init__(self) -> None:
        self.ran = threading.Event()

    def run(self) -> None:
        self.ran.set()


class _Broken:
    def run(self) -> None:
        raise SystemExit
