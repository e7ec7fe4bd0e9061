"""Actors asked from an asyncio loop: the reply is awaited, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from reenact.actors.kernel import PooledActor, PooledFuture, Reference
from reenact.domain.errors import MailboxFullError, RequestTimeoutError, RuntimeClosedError
from tests.kernel.nursery import Add, Do, Look, Nursery, kept_busy

T = TypeVar("T")
LIMIT = 10.0
Asking = Callable[[Reference[Any], object], Awaitable[Any]]
ASKING: dict[str, Asking] = {
    "ask_async": lambda person, command: person.ask_async(command),
    "ask_future": lambda person, command: person.ask_future(command),
    "a computed future": lambda person, command: person.ask_future(command).map(lambda reply: reply),
}


class Echo(PooledActor):
    """Answers when it is let."""

    def answer(self, gate: threading.Event) -> bool:
        return gate.wait(LIMIT)


@pytest.mark.parametrize("asking", ASKING.values(), ids=ASKING)
def test_the_loop_goes_on_while_a_reply_is_awaited(home: Nursery, asking: Asking) -> None:
    person = home.person()
    gate, begun = threading.Event(), threading.Event()

    def wait(_: object) -> bool:
        begun.set()
        return gate.wait(LIMIT)

    async def story() -> object:
        asked = asyncio.create_task(_awaited(asking(person, Do(wait))))
        await asyncio.to_thread(begun.wait, LIMIT)
        gate.set()  # which a blocked loop never comes to
        return await asked

    assert asyncio.run(story()) is True


def test_what_a_proxy_returns_may_be_awaited(home: Nursery) -> None:
    gate = threading.Event()
    proxy = home.system.start(Echo).proxy()

    async def story() -> list[Any]:
        asyncio.get_running_loop().call_soon(gate.set)
        return await asyncio.gather(*(_awaited(proxy.answer(gate)) for _ in range(3)))

    assert asyncio.run(story()) == [True] * 3


@pytest.mark.parametrize("asking", ASKING.values(), ids=ASKING)
def test_an_error_is_raised_where_the_reply_is_awaited(home: Nursery, asking: Asking) -> None:
    person = home.person()

    with pytest.raises(ZeroDivisionError):
        asyncio.run(_awaited(asking(person, Do(lambda _: 1 // 0))))
    assert asyncio.run(_awaited(asking(person, Add(2)))) == 2


def test_who_waits_no_longer_takes_nothing_back(home: Nursery) -> None:
    person = home.person()
    gate = threading.Event()

    async def story() -> None:
        held = person.ask_future(Do(lambda _: gate.wait(LIMIT)))
        with pytest.raises(RequestTimeoutError, match=r"0\.01 seconds"):
            await person.ask_async(Add(1), timeout=0.01)
        cancelled = asyncio.create_task(person.ask_async(Add(2)))
        await asyncio.sleep(0)
        cancelled.cancel()
        gate.set()
        assert await held is True
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(story())

    assert person.ask(Look()) == 3


def test_a_loop_that_is_closed_meanwhile_harms_nobody(home: Nursery, caplog: pytest.LogCaptureFixture) -> None:
    future: PooledFuture[int] = PooledFuture()
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(_awaited(future))
    loop.run_until_complete(asyncio.sleep(0, loop))
    waiting.cancel()
    loop.run_until_complete(asyncio.wait([waiting]))
    loop.close()

    future.set(1)

    assert caplog.records == []


def test_what_cannot_be_sent_is_refused_at_once(home: Nursery) -> None:
    kind = home.person_class(mailbox_limit=1)
    person = home.system.actor(kind, "a")
    with kept_busy(person.tell):
        waits = person.ask_future(Add(1))
        with pytest.raises(MailboxFullError):
            asyncio.run(person.ask_async(Add(1)))
    assert waits.get() == 1
    home.system.close()
    with pytest.raises(RuntimeClosedError):
        asyncio.run(person.ask_async(Add(1)))


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
