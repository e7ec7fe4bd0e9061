"""An environment without an outside world: it answers from scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakSet

from reenact.actors.environment.api import EnvironmentConfig, OnEvent
from reenact.actors.environment.model import ModelEnvironment
from reenact.actors.environment.scenarios import PREDEFINED, MockEvent, MockScenario, Script
from reenact.domain.errors import UnknownScenarioError
from reenact.domain.messages import Said

_MILLISECONDS = 1000


class MockScenarios:
    """The scenarios that mocks can play, and which of them is chosen; shared by all mocks of a factory."""

    def __init__(self, scenario: str = "default") -> None:
        self._scripts: dict[str, Callable[[Sequence[Said]], Iterable[MockEvent]]] = {}
        for name, predefined in PREDEFINED.items():
            self.define_scenario(name, predefined)
        self._chosen = scenario
        self.set_scenario(scenario)

    @property
    def scenario(self) -> str:
        """The name of the scenario that the next message is answered with."""
        return self._chosen

    def set_scenario(self, name: str) -> None:
        """Answer with this scenario, from the next message on, or raise `UnknownScenarioError`."""
        if name not in self._scripts:
            raise UnknownScenarioError(name, tuple(sorted(self._scripts)))
        self._chosen = name

    def define_scenario(self, name: str, scenario: Script) -> None:
        """Add a scenario, or replace the one of this name.

        It may be given as a scenario, as its events, or as a function from the conversation to its events.
        """
        if isinstance(scenario, MockScenario):
            scenario = scenario.events
        self._scripts[name] = scenario if callable(scenario) else _always(tuple(scenario))

    def events(self, messages: Sequence[Said]) -> Iterable[MockEvent]:
        """Return what the chosen scenario says to this conversation."""
        return self._scripts[self._chosen](messages)


def _always(events: tuple[MockEvent, ...]) -> Callable[[Sequence[Said]], Iterable[MockEvent]]:
    return lambda _messages: events


class MockClaudeDriver:
    """A driver that plays the chosen scenario. Without `delays` it waits for nothing."""

    def __init__(self, scenario: str | MockScenarios = "default", *, delays: bool = True) -> None:
        self._scenarios = MockScenarios(scenario) if isinstance(scenario, str) else scenario
        self._delays = delays

    def set_scenario(self, name: str) -> None:
        """Answer with this scenario, from the next message on, or raise `UnknownScenarioError`."""
        self._scenarios.set_scenario(name)

    def define_scenario(self, name: str, scenario: Script) -> None:
        """Add a scenario: a `MockScenario`, its events, or a function from the conversation to its events."""
        self._scenarios.define_scenario(name, scenario)

    async def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None = None,
        model: str | None = None,
        max_tokens: int | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        on_event: OnEvent,
    ) -> None:
        """Play the chosen scenario."""
        for event in self._scenarios.events(messages):
            if self._delays and event.delay:
                await asyncio.sleep(event.delay / _MILLISECONDS)
            on_event({"type": event.type, "data": event.data})

    def interrupt(self) -> None:
        """Do nothing: the cancellation of `send_message` ends the script."""


class MockLLMProvider:
    """Provides mock drivers, for `Runtime.open(..., llm_provider=MockLLMProvider())`. They share their scenarios."""

    name = "mock"

    def __init__(self, scenario: str = "default", *, delays: bool = True) -> None:
        self._scenarios = MockScenarios(scenario)
        self._delays = delays

    def set_scenario(self, name: str) -> None:
        """Let every driver answer with this scenario, from the next message on, or raise `UnknownScenarioError`."""
        self._scenarios.set_scenario(name)

    def define_scenario(self, name: str, scenario: Script) -> None:
        """Add a scenario: a `MockScenario`, its events, or a function from the conversation to its events."""
        self._scenarios.define_scenario(name, scenario)

    def provide(self) -> MockClaudeDriver:
        """Return a new driver."""
        return MockClaudeDriver(self._scenarios, delays=self._delays)


class MockEnvironment(ModelEnvironment):
    """An environment for one agent that answers from scripts."""

    def __init__(
        self, config: EnvironmentConfig, scenario: str | MockScenarios = "default", *, delays: bool = True
    ) -> None:
        self._scenarios = MockScenarios(scenario) if isinstance(scenario, str) else scenario
        super().__init__("mock", config, lambda: MockClaudeDriver(self._scenarios, delays=delays))

    def set_scenario(self, name: str) -> None:
        """Answer with this scenario, from the next message on, or raise `UnknownScenarioError`."""
        self._scenarios.set_scenario(name)

    def define_scenario(self, name: str, scenario: Script) -> None:
        """Add a scenario: a `MockScenario`, its events, or a function from the conversation to its events."""
        self._scenarios.define_scenario(name, scenario)


class MockEnvironmentFactory:
    """Makes mock environments; all of them, also those that live already, play the scenario that is chosen here.

    Raises:
        UnknownScenarioError: nobody defined the scenario.
    """

    def __init__(self, scenario: str = "default", *, delays: bool = True) -> None:
        self._scenarios = MockScenarios(scenario)
        self._delays = delays
        self._live: WeakSet[MockEnvironment] = WeakSet()

    def create(self, config: EnvironmentConfig) -> MockEnvironment:
        """Return a new environment, not yet connected."""
        environment = MockEnvironment(config, self._scenarios, delays=self._delays)
        self._live.add(environment)
        return environment

    def set_scenario(self, name: str) -> None:
        """Answer with this scenario, from the next message on, or raise `UnknownScenarioError`."""
        self._scenarios.set_scenario(name)

    def define_scenario(self, name: str, scenario: Script) -> None:
        """Add a scenario: a `MockScenario`, its events, or a function from the conversation to its events."""
        self._scenarios.define_scenario(name, scenario)

    def dispose(self) -> None:
        """Dispose of the environments that were made here. Idempotent; more can be made afterwards."""
        for environment in tuple(self._live):
            environment.dispose()
        self._live.clear()
