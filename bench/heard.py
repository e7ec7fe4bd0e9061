"""The time from the report of a delta until a handler in the same process receives it, durable."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from typing import Final

from bench.measure import Line, Sample, Workload, at_most, must
from bench.served import PacedProvider
from reenact import Image, Runtime
from reenact.events import Envelope, TextDelta

_RATE: Final = 5_000
_TIME: Final = 19
"""Characters of the time with which a delta begins."""
_NANOSECONDS: Final = 1_000_000


def workloads(deltas: int) -> list[Workload]:
    """Return what is measured."""
    one, many = f"{_RATE:,} deltas/s, one session: a handler", f"{_RATE:,} deltas/s, 100 sessions: a handler"
    return [
        _workload(1, deltas, (Line(f"{one}, p50", "ms", "", at_most(0.4)), Line(f"{one}, p99", "ms", "", at_most(2)))),
        _workload(100, deltas, (Line(f"{many}, p50", "ms"), Line(f"{many}, p99", "ms"))),
    ]


def _workload(sessions: int, deltas: int, lines: tuple[Line, ...]) -> Workload:
    return Workload(lines, lambda directory, _: _measure(directory, sessions, deltas))


def _measure(directory: Path, sessions: int, deltas: int) -> Sequence[Sample]:
    delays: list[int] = []
    completed = threading.Semaphore(0)

    def hear(event: Envelope[TextDelta]) -> None:
        delays.append(time.monotonic_ns() - int(event.data.text[:_TIME]))

    with Runtime.open(directory / "bench.db", llm_provider=PacedProvider(), synchronous="NORMAL") as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        names = [runtime.sessions.create("c", "i", session_id=f"s{number}").id for number in range(sessions)]
        agents = [runtime.sessions.run(name) for name in names]
        runtime.events.on("text_delta", hear)
        runtime.events.on("turn_completed", lambda _: completed.release())
        for agent in agents:
            runtime.agents.receive(agent, f"{deltas // sessions} {_RATE // sessions}")
        for _ in agents:
            completed.acquire()
    must(len(delays) == deltas, "the handler has every delta")
    percentiles = quantiles(delays, n=100)
    return [Sample(percentiles[percent - 1] / _NANOSECONDS) for percent in (50, 99)]
