"""A process whose agent pays with a tool, to be killed: by itself at a point that it was told, or by its parent.

Arguments: the log, the file of effects, `close` or `resume`, and the point. A run of a tool is a line in the file of
effects, `[name, call id, key]`, written before it returns. On standard output: `["said", turn id]` for each message.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from reenact import Image, Runtime
from reenact.actors.environment.tools.context import ToolContext
from reenact.actors.environment.tools.tool import tool
from reenact.actors.journal.api import Append, Done, Publication
from reenact.actors.session import Recovery
from reenact.domain.loop.events import ToolStarted
from reenact.domain.loop.policy import Policies, Policy
from reenact.domain.messages import Said, ToolResultBlock
from reenact.testing import MockEnvironmentFactory, MockEvent
from tests.runtime.witness import journal_of

POINTS = (
    "before the intent",
    "after the intent",
    "before the effect",
    "after the effect",
    "after the outcome",
    "in the next answer",
    "while waiting",
)
_COMMITS = {"after the intent": "tool_started", "after the outcome": "tool_result", "while waiting": "turn_completed"}


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()  # until it arrives


class Tools:
    """Tools whose effects outlive the process."""

    def __init__(self, effects: str | os.PathLike[str], point: str = "") -> None:
        self._effects = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._point = point

    def close(self) -> None:
        os.close(self._effects)

    def all(self) -> tuple[Any, ...]:
        def pay(n: int, context: ToolContext) -> str:
            return self._do("pay", n, context)

        async def look(n: int, context: ToolContext) -> str:
            return self._do("look", n, context)

        async def send(n: int, context: ToolContext) -> str:
            return self._do("send", n, context)

        return (tool(pay), tool(look, idempotent=True), tool(send))

    def _do(self, name: str, n: int, context: ToolContext) -> str:
        if self._point == "before the effect":
            kill()
        told = [name, context.call_id, context.idempotency_key]
        os.write(self._effects, (json.dumps(told) + "\n").encode())
        if self._point == "after the effect":
            kill()
        return f"{name} {n}"


def model(point: str) -> Callable[[Sequence[Said]], Iterable[MockEvent]]:
    """Return a model that asks for all tools, and then tells what came of them."""
    numbers = count(1)

    def script(said: Sequence[Said]) -> Iterator[MockEvent]:
        results = [block for block in said[-1].content if isinstance(block, ToolResultBlock)]
        yield MockEvent("message_start")
        if results:
            if point == "in the next answer":
                kill()
            yield MockEvent("text_delta", data={"text": "; ".join(str(result.content) for result in results)})
            yield MockEvent("message_stop", data={"stop_reason": "end_turn"})
            return
        n = next(numbers)
        asked = ("send",) if point == "while waiting" else ("pay", "look")
        for name in asked:
            yield MockEvent("tool_call", data={"id": f"{name}_{len(said)}_{n}", "name": name, "input": {"n": n}})
        yield MockEvent("message_stop", data={"stop_reason": "tool_use"})

    return script


def factory(point: str = "") -> MockEnvironmentFactory:
    mock = MockEnvironmentFactory(delays=False)
    mock.define_scenario("pays", model(point))
    mock.set_scenario("pays")
    return mock


def kill_at(runtime: Runtime, point: str) -> None:
    """Have the process end when the log does what the point says."""
    if point == "before the intent":
        append = runtime._system.append

        def hand_over(step: Append, done: Done) -> None:
            if any(isinstance(event, ToolStarted) for event in step.events):
                kill()
            append(step, done)

        runtime._system.append = hand_over
    elif point in _COMMITS:
        writer = journal_of(runtime).writer

        def listen(publications: Sequence[Publication]) -> None:
            told = [entry.type for publication in publications for entry in publication.segment.entries]
            if _COMMITS[point] in told:
                kill()

        writer._listener = listen


def live(log: str, effects: str, recovery: Recovery, point: str) -> None:
    tools = Tools(effects, point)
    runtime = Runtime.open(log, environment=factory(point), recovery=recovery, tools=tools.all())
    if runtime.sessions.get("s") is None:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i", tools=tools.all(), policies=Policies(tools={"send": Policy("required")})))
        runtime.sessions.create("c", "i", session_id="s")
    agent_id = runtime.sessions.run("s")
    kill_at(runtime, point)
    completed = threading.Semaphore(0)
    runtime.events.on("turn_completed", lambda _: completed.release())
    while True:
        sys.stdout.write(json.dumps(["said", runtime.agents.receive(agent_id, "Pay, and look")]) + "\n")
        sys.stdout.flush()
        completed.acquire()


def effects_in(path: Path) -> list[tuple[str, str, str]]:
    """Return the runs: tool, call, key."""
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    live(sys.argv[1], sys.argv[2], "resume" if sys.argv[3] == "resume" else "close", sys.argv[4])
