"""Scheduled messages through the public facades, against messages that are sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from bench.measure import Line, Sample, Workload, must
from reenact import Image, Runtime
from reenact.testing import ManualClock, MockEnvironmentFactory

MESSAGES: Final = 200
TO_COME: Final = 2_000
_START: Final = datetime(2030, 1, 1, tzinfo=UTC)


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured of schedules."""
    scale = 10 if quick else 1
    messages, to_come = MESSAGES // scale, TO_COME // scale
    lines = (
        Line("schedule a message", "ms", "create a session"),
        Line("answer a message that comes by itself", "ms", "that is sent"),
        Line(f"open a log with {to_come:,} messages to come", "ms", "with none"),
    )
    return [Workload(lines, lambda directory, _: _measure(directory, messages, to_come))]


def _measure(directory: Path, messages: int, to_come: int) -> Sequence[Sample]:
    clock, due = ManualClock(_START), _START + timedelta(hours=1)
    path = directory / "log.db"
    with _opened(path, clock) as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        sessions = [runtime.sessions.create("c", "i").id for _ in range(messages)]
        created = _milliseconds(lambda: [runtime.sessions.create("c", "i") for _ in range(messages)]) / messages
        agents = [runtime.sessions.run(session_id) for session_id in sessions]
        ended: SimpleQueue[object] = SimpleQueue()
        with runtime.events.on("turn_completed", ended.put):
            sent = _milliseconds(lambda: _send(runtime, agents, ended)) / messages
            schedule = runtime.agents.schedule
            scheduled = _milliseconds(lambda: [schedule(one, "Hello", at=due) for one in sessions]) / messages
            came = _milliseconds(lambda: _come(clock, messages, ended)) / messages
        must(runtime.agents.schedules() == [], "none is to come any more")
    with_none = _milliseconds(lambda: _opened(path, clock).close())
    with _opened(path, clock) as runtime:
        for number in range(to_come):
            runtime.agents.schedule(sessions[number % messages], "Hello", at=due + timedelta(days=1 + number))
    with_some = _milliseconds(lambda: _opened(path, clock).close())
    return (Sample(scheduled, created), Sample(came, sent), Sample(with_some, with_none))


def _opened(path: Path, clock: ManualClock) -> Runtime:
    return Runtime.open(path, environment=MockEnvironmentFactory(delays=False), clock=clock)


def _send(runtime: Runtime, agents: Sequence[str], ended: SimpleQueue[object]) -> None:
    for agent_id in agents:
        runtime.agents.receive(agent_id, "Hello")
    _wait_for(len(agents), ended)


def _come(clock: ManualClock, messages: int, ended: SimpleQueue[object]) -> None:
    clock.advance(3600)
    _wait_for(messages, ended)


def _wait_for(turns: int, ended: SimpleQueue[object]) -> None:
    for _ in range(turns):
        ended.get(timeout=60)


def _milliseconds(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - begun)
