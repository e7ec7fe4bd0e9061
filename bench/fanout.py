"""One session followed by a hundred subscribers in the same process, against queues of the standard library."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

from bench.measure import Line, Workload, at_least, must, versus
from reenact import Image, Runtime
from reenact.actors.environment.api import OnEvent
from reenact.domain.messages import Said
from reenact.events import MessageStop, TextDelta

SUBSCRIBERS: Final = 100
THREADS: Final = 4
_AT_ONCE: Final = 50

Follow: TypeAlias = Callable[[Runtime, threading.Barrier, int], int]


def workloads(deltas: int) -> list[Workload]:
    """Return what is measured."""
    return [
        _workload("async for", "asyncio.Queue", _follow_on_loop, _asyncio_queues, deltas),
        _workload(f"take, {THREADS} threads", "SimpleQueue", _take_on_threads, _simple_queues, deltas),
    ]


def _workload(name: str, peer: str, follow: Follow, bare: Callable[[int], float], deltas: int) -> Workload:
    line = Line(f"fan-out in process to {SUBSCRIBERS}, {name}", "deliveries/s", peer, at_least(1_000_000))
    return Workload((line,), versus(lambda directory: _ours(directory, follow, deltas), lambda _: bare(deltas)))


def _ours(directory: Path, follow: Follow, deltas: int) -> float:
    with Runtime.open(directory / "bench.db", llm_provider=_Provider(), synchronous="NORMAL") as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        runtime.sessions.create("c", "i", session_id="s")
        agent = runtime.sessions.run("s")
        following = threading.Barrier(2)
        with ThreadPoolExecutor(1) as aside:
            received = aside.submit(follow, runtime, following, deltas)
            following.wait()
            begun = time.perf_counter()
            runtime.agents.receive(agent, str(deltas))
            count = received.result()
            took = time.perf_counter() - begun
    must(count == SUBSCRIBERS * deltas, "every subscriber has every delta")
    return count / took


def _follow_on_loop(runtime: Runtime, following: threading.Barrier, deltas: int) -> int:
    async def one() -> int:
        count = 0
        with runtime.events.stream("s") as events:
            async for event in events:
                if event.type == "text_delta":
                    count += 1
                    if count == deltas:
                        break
        return count

    async def all_of_them() -> int:
        tasks = [asyncio.create_task(one()) for _ in range(SUBSCRIBERS)]
        await asyncio.sleep(0)
        following.wait()
        return sum(await asyncio.gather(*tasks))

    return asyncio.run(all_of_them())


def _take_on_threads(runtime: Runtime, following: threading.Barrier, deltas: int) -> int:
    def some(number: int) -> int:
        subscriptions = [runtime.events.stream("s") for _ in range(number, SUBSCRIBERS, THREADS)]
        ready.wait()
        counts = [0] * len(subscriptions)
        while min(counts) < deltas:
            for place, subscription in enumerate(subscriptions):
                counts[place] += sum(event.type == "text_delta" for event in subscription.take())
            if min(counts) < deltas:
                slowest = counts.index(min(counts))
                event = subscriptions[slowest].next(timeout=1)
                counts[slowest] += event is not None and event.type == "text_delta"
        for subscription in subscriptions:
            subscription.unsubscribe()
        return sum(counts)

    ready = threading.Barrier(THREADS + 1)
    with ThreadPoolExecutor(THREADS) as threads:
        parts = [threads.submit(some, number) for number in range(THREADS)]
        ready.wait()
        following.wait()
        return sum(part.result() for part in parts)


def _asyncio_queues(deltas: int) -> float:
    async def one(queue: asyncio.Queue[int]) -> int:
        count = 0
        while count < deltas:
            await queue.get()
            count += 1
        return count

    async def all_of_them() -> float:
        queues = [asyncio.Queue[int]() for _ in range(SUBSCRIBERS)]
        tasks = [asyncio.create_task(one(queue)) for queue in queues]
        begun = time.perf_counter()
        for number in range(deltas):
            for queue in queues:
                queue.put_nowait(number)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        count = sum(await asyncio.gather(*tasks))
        return count / (time.perf_counter() - begun)

    return asyncio.run(all_of_them())


def _simple_queues(deltas: int) -> float:
    def some(mine: Sequence[SimpleQueue[int]]) -> int:
        return sum(queue.get() >= 0 for _ in range(deltas) for queue in mine)

    queues = [SimpleQueue[int]() for _ in range(SUBSCRIBERS)]
    with ThreadPoolExecutor(THREADS) as threads:
        parts = [threads.submit(some, queues[number::THREADS]) for number in range(THREADS)]
        begun = time.perf_counter()
        for number in range(deltas):
            for queue in queues:
                queue.put(number)
        count = sum(part.result() for part in parts)
        return count / (time.perf_counter() - begun)


class _Driver:
    async def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, Any]],
        on_event: OnEvent,
    ) -> None:
        for number in range(int(messages[-1].text)):
            on_event(TextDelta(text="x" * 24))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        on_event(MessageStop())

    def interrupt(self) -> None:
        """The cancellation of `send_message` ends the answer."""


class _Provider:
    name = "bench"

    def provide(self) -> _Driver:
        return _Driver()
