"""The thread of a client: calls in order, and nothing left when it ends."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from reenact import RuntimeClosedError
from reenact.client.thread import ClientThread, reject, resolve


def test_calls_are_made_in_order_until_the_work_ends_and_none_after() -> None:
    made: list[int] = []
    end = asyncio.Event()
    thread = ClientThread(end.wait)

    for number in range(100):
        thread.call(made.append, number)
    thread.call(end.set)
    thread.join()

    assert made == list(range(100))
    with pytest.raises(RuntimeClosedError):
        thread.call(made.append, 100)


def test_what_the_work_began_ends_with_it() -> None:
    ended: list[str] = []

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    tasks: list[asyncio.Task[None]] = []

    async def work() -> None:
        tasks.append(asyncio.ensure_future(for_ever()))
        await asyncio.sleep(0)

    ClientThread(work).join()

    assert ended == ["cancelled"]


def test_a_future_that_nobody_wants_any_more_is_left_alone() -> None:
    cancelled: Future[int] = Future()
    cancelled.cancel()
    done: Future[int] = Future()

    resolve(cancelled, 1)
    reject(cancelled, ValueError())
    resolve(done, 1)
    reject(done, ValueError())

    assert cancelled.cancelled()
    assert done.result() == 1
