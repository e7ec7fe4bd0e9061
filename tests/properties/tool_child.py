"""A program whose agent pays with a tool for as long as it lives; to be killed.

A run of a tool is a line in the file of effects, `[name, call id, key]`, written before it returns. It says
`said, turn id` for each message.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from reenact import Image, Runtime
from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.tool import tool
from reenact.actors.session.ports import Recovery
from reenact.domain.messages import Said, ToolResultBlock
from reenact.testing import MockEnvironmentFactory, MockEvent, Reporter


class Tools:
    """Tools whose effects outlive the process."""

    def __init__(self, effects: str | os.PathLike[str]) -> None:
        self._effects = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def close(self) -> None:
        os.close(self._effects)

    def all(self) -> tuple[Any, ...]:
        def pay(n: int, context: ToolContext) -> str:
            return self._do("pay", n, context)

        async def look(n: int, context: ToolContext) -> str:
            return self._do("look", n, context)

        return (tool(pay), tool(look, idempotent=True))

    def _do(self, name: str, n: int, context: ToolContext) -> str:
        told = [name, context.call_id, context.idempotency_key]
        os.write(self._effects, (json.dumps(told) + "\n").encode())
        return f"{name} {n}"


def factory() -> MockEnvironmentFactory:
    """Return a model that asks for all tools, and then tells what came of them."""
    numbers = count(1)

    def script(said: Sequence[Said]) -> Iterator[MockEvent]:
        results = [block for block in said[-1].content if isinstance(block, ToolResultBlock)]
        yield MockEvent("message_start")
        if results:
            yield MockEvent("text_delta", data={"text": "; ".join(str(result.content) for result in results)})
            yield MockEvent("message_stop", data={"stop_reason": "end_turn"})
            return
        n = next(numbers)
        for name in ("pay", "look"):
            yield MockEvent("tool_call", data={"id": f"{name}_{len(said)}_{n}", "name": name, "input": {"n": n}})
        yield MockEvent("message_stop", data={"stop_reason": "tool_use"})

    mock = MockEnvironmentFactory(delays=False)
    mock.define_scenario("pays", script)
    mock.set_scenario("pays")
    return mock


def pay_on(reporter: Reporter, log: str, effects: Path, recovery: Recovery) -> None:
    tools = Tools(effects)
    runtime = Runtime.open(log, environment=factory(), recovery=recovery, synchronous="OFF", tools=tools.all())
    if runtime.sessions.get("s") is None:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i", tools=tools.all()))
        runtime.sessions.create("c", "i", session_id="s")
    agent_id = runtime.sessions.run("s")
    completed = threading.Semaphore(0)
    runtime.events.on("turn_completed", lambda _: completed.release())
    while True:
        reporter.say("said", runtime.agents.receive(agent_id, "Pay, and look"))
        completed.acquire()


def effects_in(path: Path) -> list[tuple[str, str, str]]:
    """Return the runs: tool, call, key."""
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
