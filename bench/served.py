"""Reenact's server on a log, with a model of a given rate, in a process of its own.

Orders: `{"say": {"sessions": N, "turns": N, "count": N, "rate": N}}` lets that many sessions answer that many times, in
`count` deltas each time, at `rate` a second (0: as fast as it can), and reports when all turns have ended.
`{"resident": true}` asks for its memory.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from bench.children import given, order, report, resident
from reenact import Image, Runtime
from reenact.actors.environment.api import OnEvent
from reenact.domain.messages import Said
from reenact.events import Envelope, MessageStop, TextDelta
from reenact.server import Limits, Server

_AT_ONCE: Final = 100
_TEXT: Final = 24
"""Characters of a delta; the first 19 are the time."""


def main(log: str, sessions: int, synchronous: Literal["FULL", "NORMAL"]) -> None:
    """Serve until standard input ends."""
    completed = threading.Semaphore(0)

    def complete(_event: Envelope) -> None:
        completed.release()

    with Runtime.open(log, llm_provider=PacedProvider(), synchronous=synchronous) as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        names = [runtime.sessions.create("c", "i", session_id=f"s{number:03d}").id for number in range(sessions)]
        runtime.events.on("turn_completed", complete)
        with Server(runtime, limits=Limits(subscriptions=1000)) as server:
            agents = [runtime.sessions.run(name) for name in names]
            gc.collect()
            gc.freeze()  # as `reenact serve` does
            report(url=server.url)
            while (told := order()) is not None:
                match told:
                    case {"say": how}:
                        chosen = agents[: how["sessions"]]
                        for _ in range(how["turns"]):
                            for agent in chosen:
                                runtime.agents.receive(agent, f"{how['count']} {how['rate']}")
                            for _ in chosen:
                                completed.acquire()
                        report(said=how["turns"] * how["count"] * len(chosen))
                    case _:
                        report(resident=resident())


class PacedDriver:
    """Answers in as many deltas, and at the rate, as the message says; each begins with the time of its report."""

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
        count, rate = map(int, messages[-1].text.split())
        due = time.perf_counter()
        for number in range(count):
            on_event(TextDelta(text=f"{time.monotonic_ns()}".ljust(_TEXT)))
            if rate:
                due += 1 / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            elif number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        on_event(MessageStop())

    def interrupt(self) -> None:
        """The cancellation of `send_message` ends the answer."""


class PacedProvider:
    """Provides paced drivers."""

    name = "bench"

    def provide(self) -> PacedDriver:
        """Return a new driver."""
        return PacedDriver()


if __name__ == "__main__":
    main(**given())
