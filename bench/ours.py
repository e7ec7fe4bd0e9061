"""Reenact through its public facades, with a model that answers at once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from bench.workload import deltas, question
from reenact import Image, Runtime
from reenact.actors.environment.api import LLMProvider, OnEvent
from reenact.domain.messages import Said
from reenact.events import Envelope, MessageStop, TextDelta


class Ours:
    """Every turn: two decisions, every delta stored under a cursor and handled, projections kept up to date."""

    name = "reenact"

    def __init__(self, path: Path, synchronous: Literal["FULL", "NORMAL"]) -> None:
        self._runtime = self.open(path, synchronous)
        self._sessions: dict[str, str] = {}
        self._done = threading.Semaphore(0)
        self._ended: dict[str, threading.Semaphore] = {}
        self.heard = 0
        self.hear()
        if self._runtime.containers.get("bench") is None:
            self._runtime.containers.create(container_id="bench")
            self._runtime.images.register(self.image())

    def hear(self) -> None:
        """Subscribe the handlers."""
        self._runtime.events.on("text_delta", self._hear)
        self._runtime.events.on("turn_completed", self._end)

    def open(self, path: Path, synchronous: Literal["FULL", "NORMAL"]) -> Runtime:
        """Open the runtime."""
        return Runtime.open(path, llm_provider=self.provider(), synchronous=synchronous)

    def provider(self) -> LLMProvider:
        """Return the provider of the model."""
        return Provider()

    def image(self) -> Image:
        """Return the agents' definition."""
        return Image(id="bench")

    def create(self, number: int) -> str:
        """Create one session, durably."""
        return self._runtime.sessions.create("bench", "bench", session_id=f"s{number:06d}").id

    def run(self, session: str) -> str:
        """Start the session's agent."""
        self._sessions[session] = self._runtime.sessions.run(session)
        return session

    def turn(self, session: str, number: int) -> str:
        """Ask and answer once; return when a handler has received the durable end of the turn."""
        self._runtime.agents.receive(self._sessions[session], question(number))
        self._done.acquire()
        return "".join(deltas(number))

    def turns_at_once(self, sessions: list[str], turns: int) -> None:
        """Run the turns in each session, all sessions at once."""

        def converse(session: str) -> None:
            agent = self._sessions[session]
            for number in range(turns):
                self._runtime.agents.receive(agent, question(number))
                self._ended[agent].acquire()

        self._ended = {self._sessions[session]: threading.Semaphore(0) for session in sessions}
        with ThreadPoolExecutor(len(sessions)) as threads:
            list(threads.map(converse, sessions))
        self._ended = {}

    def history(self, session: str) -> int:
        """Return the number of the session's messages, having read them all."""
        return len(self._runtime.sessions.messages(session))

    def close(self) -> None:
        """Close the runtime."""
        self._runtime.close()

    def _hear(self, _event: Envelope) -> None:
        self.heard += 1

    def _end(self, event: Envelope) -> None:
        self._ended.get(event.context.agent_id or "", self._done).release()


class _Driver:
    """A model without a network, which only reports its deltas."""

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
        for delta in deltas(int(messages[-1].text.split()[1])):
            on_event(TextDelta(text=delta))
        on_event(MessageStop())

    def interrupt(self) -> None:
        """Do nothing, since no answer takes long."""


class Provider:
    """Provides a model that answers at once."""

    name = "bench"

    def provide(self) -> _Driver:
        """Return a new driver."""
        return _Driver()
