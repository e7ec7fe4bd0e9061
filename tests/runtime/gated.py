"""A mock that stops in the middle of an answer until the test lets it go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from reenact import EnvironmentConfig, Runtime
from reenact.actors.environment.api import OnEvent
from reenact.actors.environment.mock import MockScenarios
from reenact.actors.environment.model import ModelEnvironment
from reenact.actors.kernel.context import Key
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.system import ActorSystem
from reenact.domain.messages import Said
from reenact.testing import MockEvent, MockScenario
from tests.runtime.witness import PATIENCE


def text(words: str) -> MockEvent:
    return MockEvent("text_delta", data={"text": words})


HOLD = MockEvent("hold")
"""Stands in a script where the mock waits for the gate."""

STOP = MockEvent("message_stop")
HELD = MockScenario("held", (text("Once"), HOLD, text(" upon"), STOP))
HELD_SILENT = MockScenario("held-silent", (MockEvent("message_start"), HOLD, STOP))
BLANK = MockScenario("blank", (MockEvent("message_start"), text(" "), STOP))
BREAKING_OFF = MockScenario("breaking-off", (text("Half an"), MockEvent("error", data={"message": "The line broke"})))


class Gate:
    """Holds whoever passes through it until it is opened, which lets through those who wait at that moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def waiting(self) -> int:
        """How many wait."""
        with self._lock:
            return len(self._waiting)

    async def passed(self) -> None:
        waiting = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiting.append(waiting)
        try:
            await waiting[1].wait()
        finally:
            with self._lock:
                self._waiting.remove(waiting)

    def open(self) -> None:
        with self._lock:
            for loop, passed in self._waiting:
                loop.call_soon_threadsafe(passed.set)


class GatedDriver:
    """Plays the chosen scenario, and waits at the gate where the script says so."""

    def __init__(self, scenarios: MockScenarios, gate: Gate) -> None:
        self._scenarios = scenarios
        self._gate = gate

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
        for event in self._scenarios.events(messages):
            if event is HOLD:
                await self._gate.passed()
            else:
                on_event({"type": event.type, "data": event.data or {}})

    def interrupt(self) -> None:
        """The cancellation of `send_message` ends the script."""


class GatedFactory:
    """Makes environments around gated drivers that share their scenarios and the gate."""

    def __init__(self, scenario: str = "default") -> None:
        self.gate = Gate()
        self.scenarios = MockScenarios()
        for extra in (HELD, HELD_SILENT, BLANK, BREAKING_OFF):
            self.scenarios.define_scenario(extra.name, extra)
        self.scenarios.set_scenario(scenario)

    def create(self, config: EnvironmentConfig) -> ModelEnvironment:
        return ModelEnvironment("gated", config, lambda: GatedDriver(self.scenarios, self.gate))

    def set_scenario(self, name: str) -> None:
        self.scenarios.set_scenario(name)


@contextmanager
def closed_while_starting(runtime: Runtime, monkeypatch: pytest.MonkeyPatch, session_id: str) -> Generator[None]:
    """The agent that the block starts in the session gets its environment once the runtime is about to be closed."""
    stopping = threading.Event()
    create, ask_to_stop = GatedFactory.create, ActorSystem._ask_to_stop
    closing = threading.Thread(target=runtime.close, daemon=True)

    def create_late(factory: GatedFactory, config: EnvironmentConfig) -> ModelEnvironment:
        if closing.ident is None:
            closing.start()
        assert stopping.wait(PATIENCE)
        return create(factory, config)

    def ask_to_stop_first(system: ActorSystem, key: Key) -> PooledFuture[None]:
        stopped = ask_to_stop(system, key)
        if key[1] == session_id:
            stopping.set()
        return stopped

    with monkeypatch.context() as patch:
        patch.setattr(GatedFactory, "create", create_late)
        patch.setattr(ActorSystem, "_ask_to_stop", ask_to_stop_first)
        yield
        closing.join(PATIENCE)
        assert not closing.is_alive()
