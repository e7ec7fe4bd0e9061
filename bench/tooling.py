"""Turns with tools through the public facades, against hand-written sqlite3 that commits as often.

The model asks for two calls, a plain function and a coroutine function; both run; it answers in 20 deltas. Each step is
durable before the next: the question, the answer with the calls, their results, the last answer.

Or the model calls another agent, which answers in 20 deltas in a child session, and then answers itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench.measure import Line, Workload, must, versus
from bench.ours import Ours
from bench.product import Sync, at_once, one_session
from bench.raw import Raw
from bench.workload import deltas, question
from reenact import Image, Said, ToolResultBlock, agent_tool
from reenact.actors.environment.api import LLMDriver, LLMProvider, OnEvent
from reenact.actors.environment.tools.tool import tool
from reenact.events import Envelope, MessageStop, TextDelta, ToolCall

CALLS: Final = 2
_PASSED_ON: Final = " (passed on)"


@tool
def plain(number: int) -> dict[str, int]:
    """Answer at once."""
    return {"number": number}


@tool
async def waiting(number: int) -> dict[str, int]:
    """Answer at once, on the loop."""
    return {"number": number}


class OursWithTools(Ours):
    """Every call: its intent is durable before it runs, its outcome after; subscribers receive both."""

    def provider(self) -> LLMProvider:
        """Return what provides the model."""
        return _Provider()

    def image(self) -> Image:
        """Return the agents' definition."""
        return Image(id="bench", tools=(plain, waiting))

    def history(self, session: str) -> int:
        """Return the number of questions and last answers, having read all messages."""
        messages = self._runtime.sessions.messages(session)
        results = sum(isinstance(block, ToolResultBlock) for message in messages for block in message.content)
        must(results == CALLS * len(messages) // 4, "every call is answered")
        return len(messages) // 2


class OursWithChildren(Ours):
    """Every call is a child session: it begins, answers and ends, and its parent records what it used."""

    def provider(self) -> LLMProvider:
        """Return what provides the model."""
        return _Provider(_CallingDriver)

    def image(self) -> Image:
        """Return the agents' definition, which calls itself."""
        return Image(id="bench", tools=(agent_tool("bench", description="Answers."),))

    def _hear(self, event: Envelope) -> None:
        if event.context.session_id in self._sessions:
            super()._hear(event)

    def _end(self, event: Envelope) -> None:
        if event.context.session_id in self._sessions:
            super()._end(event)

    def history(self, session: str) -> int:
        """Return the number of questions and last answers, having read all messages."""
        messages = self._runtime.sessions.messages(session)
        results = sum(isinstance(block, ToolResultBlock) for message in messages for block in message.content)
        must(results == len(messages) // 4, "every call is answered")
        return len(messages) // 2


class RawWithChildren(Raw):
    """Six commits a turn: the question to the other agent and its answer are rows of their own."""

    def turn(self, session: str, number: int) -> str:
        """Ask, call, and answer; return the answer, which is durable."""
        self._insert(session, number, "user", question(number))
        self._insert(session, number, "calls", json.dumps([{"name": "bench", "number": number}]))
        self._insert(session, number, "child user", question(number))
        said = "".join(deltas(number))
        self._insert(session, number, "child assistant", said)
        self._insert(session, number, "results", json.dumps([said]))
        answer = "".join(self._hear(delta) for delta in deltas(number))
        self._insert(session, number, "assistant", answer)
        return answer

    def history(self, session: str) -> int:
        """Return the number of questions and last answers, having read all rows."""
        return super().history(session) // 3

    def _hear(self, delta: str) -> str:
        self.heard += 1
        return delta


class RawWithTools(Raw):
    """Four commits a turn."""

    def turn(self, session: str, number: int) -> str:
        """Ask, call, and answer; return the answer, which is durable."""
        self._insert(session, number, "user", question(number))
        self._insert(session, number, "calls", json.dumps([{"name": name, "number": number} for name in ("a", "b")]))
        self._insert(session, number, "results", json.dumps([{"number": number} for _ in range(CALLS)]))
        answer = "".join(self._hear(delta) for delta in deltas(number))
        self._insert(session, number, "assistant", answer)
        return answer

    def history(self, session: str) -> int:
        """Return the number of questions and last answers, having read all rows."""
        return super().history(session) // 2

    def _hear(self, delta: str) -> str:
        self.heard += 1
        return delta


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
        last = messages[-1]
        if any(isinstance(block, ToolResultBlock) for block in last.content):
            number = int(messages[-3].text.split()[1])
            for delta in deltas(number):
                on_event(TextDelta(text=delta))
            on_event(MessageStop())
        else:
            number = int(last.text.split()[1])
            for name in (plain.spec.name, waiting.spec.name):
                on_event(ToolCall(id=f"{name}_{number}", name=name, input={"number": number}))
            on_event(MessageStop(stop_reason="tool_use"))

    def interrupt(self) -> None:
        """Nothing is ever under way for long."""


class _CallingDriver:
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
        last = messages[-1]
        has_result = any(isinstance(block, ToolResultBlock) for block in last.content)
        asked = messages[-3].text if has_result else last.text
        number = int(asked.split()[1])
        if has_result or asked.endswith(_PASSED_ON):
            for delta in deltas(number):
                on_event(TextDelta(text=delta))
            on_event(MessageStop())
        else:
            on_event(ToolCall(id=f"c_{number}", name="bench", input={"prompt": f"{asked}{_PASSED_ON}"}))
            on_event(MessageStop(stop_reason="tool_use"))

    def interrupt(self) -> None:
        """Nothing is ever under way for long."""


class _Provider:
    name = "bench"

    def __init__(self, driver: type[LLMDriver] = _Driver) -> None:
        self._driver = driver

    def provide(self) -> LLMDriver:
        return self._driver()


Sides: TypeAlias = tuple[type[Ours], type[Raw]]
TOOLS: Final[Sides] = (OursWithTools, RawWithTools)
CHILDREN: Final[Sides] = (OursWithChildren, RawWithChildren)


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured of turns with tools."""
    scale = 10 if quick else 1
    return [
        _workload("one session, 200 turns of two calls, FULL", "FULL", 200 // scale, 0),
        _workload("one session, 200 turns of two calls, NORMAL", "NORMAL", 200 // scale, 0),
        _workload("100 sessions at once, turns of two calls, FULL", "FULL", 20 // scale, 100),
        _workload("one session, 100 turns of a child session, FULL", "FULL", 100 // scale, 0, sides=CHILDREN),
    ]


def _workload(name: str, sync: Sync, turns: int, sessions: int, *, sides: Sides = TOOLS) -> Workload:
    our, their = sides
    figure = at_once(sessions, turns) if sessions else one_session(turns)

    def ours(directory: Path) -> float:
        return figure(our, directory / "bench.db", sync)

    def raw(directory: Path) -> float:
        return figure(their, directory / "bench.db", sync)

    return Workload((Line(name, "turns/s", Raw.name),), versus(ours, raw))
