"""What agents of these tests live in: a model that does as it is told, and tools whose effects outlive the process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from reenact import Image, KeyRing, Runtime, tool
from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.feed.retention import Retention
from reenact.actors.session.ports import Recovery
from reenact.domain.messages import Said, ToolResultBlock
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy
from reenact.testing import MockEvent
from tests.logs import log_at
from tests.runtime.gated import HOLD, GatedFactory, text

IDEMPOTENT = {"look", "peek"}
"""The tools that may run twice; `pay` and `send` may not, nor `buy`, which waits for a person."""

RING = "ring.keys"
"""The file of the key ring."""

NOTHING_KEPT = Retention(deltas=timedelta(0), every=timedelta(hours=1))


class Effect(NamedTuple):
    """One run of a tool."""

    name: str
    call_id: str
    key: str


class World:
    """The tools and the model around the log in a directory, which is encrypted if there is a key ring beside it.

    Models `hold` in the middle if they are told to.
    """

    def __init__(self, directory: Path, *, holds: bool = True) -> None:
        self.log = log_at(directory / "agents.db")
        ring = directory / RING
        self.keys = KeyRing.file(ring) if ring.exists() else None
        self._effects = directory / "effects"
        self._file = os.open(self._effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._holds = holds
        self.factory = GatedFactory()
        self.factory.scenarios.define_scenario("world", self._model)
        self.factory.set_scenario("world")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._file)

    def opened(self, recovery: Recovery = "close", kind: type[Runtime] = Runtime) -> Runtime:
        """Open the log; what a killed process has written needs no disk to outlive it."""
        return kind.open(
            self.log,
            environment=self.factory,
            tools=self.tools(),
            recovery=recovery,
            synchronous="OFF",
            retention=NOTHING_KEPT,
            keys=self.keys,
        )

    def tools(self) -> tuple[Any, ...]:
        """Return tools of each kind: plain and coroutine functions, idempotent and not."""

        def pay(n: int, context: ToolContext) -> str:
            return self._do("pay", n, context)

        async def send(n: int, context: ToolContext) -> str:
            return self._do("send", n, context)

        def peek(n: int, context: ToolContext) -> str:
            return self._do("peek", n, context)

        async def look(n: int, context: ToolContext) -> str:
            return self._do("look", n, context)

        def buy(n: int, context: ToolContext) -> str:
            return self._do("buy", n, context)

        return tool(pay), tool(send), tool(peek, idempotent=True), tool(look, idempotent=True), tool(buy)

    @property
    def effects(self) -> list[Effect]:
        """What the tools have done, in every process so far."""
        return [Effect(*json.loads(line)) for line in self._effects.read_text().splitlines()]

    def _do(self, name: str, n: int, context: ToolContext) -> str:
        told = (name, context.call_id, context.idempotency_key)
        os.write(self._file, (json.dumps(told) + "\n").encode())
        return f"{name} {n}"

    def _model(self, said: Sequence[Said]) -> Iterator[MockEvent]:
        """Answer in two parts, each committed by itself; or ask for the tools that the message names, then tell."""
        asked = said[-1].text
        results = [block for block in said[-1].content if isinstance(block, ToolResultBlock)]
        yield MockEvent("message_start")
        if results or not asked.startswith("use "):
            yield text(f"you said {asked}")
            if asked == "hold" and self._holds:
                yield HOLD
            yield text("; ".join(str(result.content) for result in results) or ".")
            yield MockEvent("message_stop", data={"stop_reason": "end_turn"})
            return
        for n, name in enumerate(asked.split()[1:]):
            call_id = f"{name}-{os.urandom(4).hex()}"
            yield MockEvent("tool_call", data={"id": call_id, "name": name, "input": {"n": n}})
        yield MockEvent("message_stop", data={"stop_reason": "tool_use"})


def furnished_in(directory: Path, *, is_encrypted: bool = False) -> Path:
    """Make a log with a container, an image and a session in the directory, and return that."""
    if is_encrypted:
        KeyRing.generate(directory / RING)
    with World(directory) as world, world.opened() as runtime:
        furnish(runtime, world)
    return directory


def furnish(runtime: Runtime, world: World) -> None:
    """Create the container `c`, the image `i` and the session `s`."""
    runtime.containers.create(container_id="c")
    policies = Policies(tools={"buy": Policy("required")})
    runtime.images.register(Image(id="i", tools=world.tools(), policies=policies))
    runtime.sessions.create("c", "i", session_id="s")
