"""Reenact through its public facades, with the mock for a model."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from bench.workload import deltas, question
from reenact import Image, Runtime
from reenact.domain.messages import Said
from reenact.events import Envelope
from reenact.testing import MockEnvironmentFactory, MockEvent


class Ours:
    """Every turn: two decisions, every delta kept and addressable by cursor, heard by a handler, projections behind."""

    name = "reenact"

    def __init__(self, path: Path, synchronous: Literal["FULL", "NORMAL"]) -> None:
        mock = MockEnvironmentFactory(delays=False)
        mock.define_scenario("bench", _answer)
        mock.set_scenario("bench")
        self._runtime = Runtime.open(path, environment=mock, synchronous=synchronous)
        self._sessions: dict[str, str] = {}
        self._done = threading.Semaphore(0)
        self._ended: SimpleQueue[str] | None = None
        self.heard = 0
        self._runtime.events.on("text_delta", self._hear)
        self._runtime.events.on("turn_completed", self._end)
        if self._runtime.containers.get("bench") is None:
            self._runtime.containers.create(container_id="bench")
            self._runtime.images.register(Image(id="bench"))

    def create(self, number: int) -> str:
        """Create one session, durably."""
        return self._runtime.sessions.create("bench", "bench", session_id=f"s{number:06d}").id

    def run(self, session: str) -> str:
        """Start the session's agent."""
        self._sessions[session] = self._runtime.sessions.run(session)
        return session

    def turn(self, session: str, number: int) -> str:
        """Ask and answer once; return when a handler has heard of the turn's durable end."""
        self._runtime.agents.receive(self._sessions[session], question(number))
        self._done.acquire()
        return "".join(deltas(number))

    def turns_at_once(self, sessions: list[str], turns: int) -> None:
        """Run so many turns in each session, all sessions at once."""
        self._ended = ended = SimpleQueue()
        left = {self._sessions[session]: turns - 1 for session in sessions}
        for agent in left:
            self._runtime.agents.receive(agent, question(0))
        for _ in range(len(sessions) * turns):
            agent = ended.get()
            if left[agent]:
                left[agent] -= 1
                self._runtime.agents.receive(agent, question(turns - left[agent] - 1))
        self._ended = None

    def history(self, session: str) -> int:
        """Return the number of the session's messages, having read them all."""
        return len(self._runtime.sessions.messages(session))

    def close(self) -> None:
        """Close the runtime."""
        self._runtime.close()

    def _hear(self, _event: Envelope) -> None:
        self.heard += 1

    def _end(self, event: Envelope) -> None:
        if self._ended is not None and event.context.agent_id is not None:
            self._ended.put(event.context.agent_id)
        else:
            self._done.release()


def _answer(messages: Sequence[Said]) -> Iterable[MockEvent]:
    number = int(messages[-1].text.split()[1])
    yield MockEvent("message_start")
    for delta in deltas(number):
        yield MockEvent("text_delta", data={"text": delta})
    yield MockEvent("message_stop")
