"""An environment that answers from scripts, without the outside world."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final, TypeAlias
from weakref import WeakSet

import msgspec
import pykka

from reenact.actors.environment.api import EnvironmentConfig, Interruptible, OnEvent, SystemBusProducer
from reenact.actors.environment.model import EffectorActor, ModelEffector, ModelEnvironment, ModelReceptor
from reenact.domain.errors import UnknownScenarioError
from reenact.domain.messages import Said
from reenact.domain.output import OutputSpec, example_of
from reenact.domain.plain import is_mapping
from reenact.domain.stream.events import StreamData


class MockEvent(msgspec.Struct, frozen=True):
    """One event of a script: its type, the milliseconds to wait before it, and its data."""

    type: str
    delay: float = 0
    data: Mapping[str, object] | None = None
    """The event's data. An `output` is emitted as text: its `value`, or an example that fits the expected schema."""


class MockScenario(msgspec.Struct, frozen=True):
    """A script: the events with which the mock answers any message."""

    name: str
    events: Sequence[MockEvent]


Call: TypeAlias = tuple[str, Mapping[str, object]]
"""A tool call: the name and the arguments."""
Script: TypeAlias = MockScenario | Iterable[MockEvent] | Callable[[Sequence[Said]], Iterable[MockEvent]]
"""A scenario, its events alone, or a function that makes them from the conversation."""


def _text(text: str, delay: float = 0) -> MockEvent:
    return MockEvent("text_delta", delay, {"text": text})


def _tool(arguments: object, delay: float = 0) -> MockEvent:
    return MockEvent("tool_call", delay, {"name": "bash", "input": arguments})


def _answer(name: str, *events: MockEvent) -> MockScenario:
    return MockScenario(name, (MockEvent("message_start", 10), *events, MockEvent("message_stop", 10)))


def _hundred_chunks(name: str) -> MockScenario:
    chunks = (_text(f"chunk-{number} ", 5) for number in range(100))
    return MockScenario(name, (*chunks, MockEvent("message_stop", 10)))


def _error(name: str, delay: float, **data: str) -> MockScenario:
    return MockScenario(name, (MockEvent("message_start", 10), MockEvent("error", delay, data)))


PREDEFINED_SCENARIOS: Final[Mapping[str, MockScenario]] = MappingProxyType(
    {
        "default": _answer("Simple text response", _text("Hello", 10), _text(" from", 10), _text(" mock!", 10)),
        "simple-text": _answer("simple-text", _text("Hi", 10)),
        "with-thinking": _answer(
            "Response with thinking",
            MockEvent("thinking_start", 5),
            _text("Let me analyze...", 10),
            MockEvent("thinking_end", 5),
            _text("Answer", 10),
        ),
        "with-tool": _answer(
            "Tool use scenario",
            _text("Let me check", 10),
            _tool({"command": "ls"}, 20),
            _text("I found files", 10),
        ),
        "with-tool-use": _answer(
            "with-tool-use",
            _tool("ls", 10),
            MockEvent("tool_result", 10, {"output": "file1.txt\nfile2.txt"}),
            _text("I see 2 files", 10),
        ),
        "structured-output": _answer("structured-output", MockEvent("output", 10)),
        "error": _error("Error scenario", 20, message="Rate limit exceeded"),
        "rate-limit-error": _error("rate-limit-error", 10, code="rate_limit_exceeded"),
        "long-stream": _hundred_chunks("100 text deltas for reliability testing"),
        "long-response": _hundred_chunks("long-response"),
    }
)
"""The scenarios that every mock has.

Documents that list no delays imply 10 ms for each event. Where an `error` has only a `code`, that is its type.
"""


_MILLISECONDS = 1000


class MockScenarios:
    """The scenarios that mocks can play, and the chosen one; shared by all mocks of a factory.

    Given scenarios are added to the predefined ones, and replace those of the same name.
    """

    def __init__(self, scenario: str = "default", scenarios: Mapping[str, Script] | None = None) -> None:
        self._scripts: dict[str, Callable[[Sequence[Said]], Iterable[MockEvent]]] = {}
        for name, script in {**PREDEFINED_SCENARIOS, **(scenarios or {})}.items():
            self.define_scenario(name, script)
        self._replies: deque[tuple[MockEvent, ...]] = deque()
        self._chosen = scenario
        self.set_scenario(scenario)

    def set_scenario(self, name: str) -> None:
        """Answer with this scenario, from the next message on, or raise `UnknownScenarioError`."""
        if name not in self._scripts:
            raise UnknownScenarioError(name, tuple(sorted(self._scripts)))
        self._chosen = name

    def define_scenario(self, name: str, scenario: Script) -> None:
        """Add a scenario, or replace the one of this name.

        It may be given as a scenario, as its events, or as a function that makes its events from the conversation.
        """
        if isinstance(scenario, MockScenario):
            scenario = scenario.events
        self._scripts[name] = scenario if callable(scenario) else _always(tuple(scenario))

    def reply(self, text: str | None, tools: Sequence[Call]) -> None:
        """Answer one more request with this text and these calls, before the scenario answers again."""
        self._replies.append(_reply(text, tools))

    def events(self, messages: Sequence[Said]) -> Iterable[MockEvent]:
        """Return the next reply, or else the events with which the chosen scenario answers this conversation."""
        return self._replies.popleft() if self._replies else self._scripts[self._chosen](messages)


def _output(event: MockEvent, output: OutputSpec | None) -> MockEvent:
    value = (event.data or {}).get("value")
    if event.data is None and output is not None:
        value = example_of(output.schema)
    return MockEvent("text_delta", data={"text": msgspec.json.encode(value).decode()})


def _reply(text: str | None, tools: Sequence[Call]) -> tuple[MockEvent, ...]:
    texts = () if text is None else (_text(text),)
    calls = (MockEvent("tool_call", data={"name": name, "input": arguments}) for name, arguments in tools)
    return (*texts, *calls, MockEvent("message_stop", data={"stop_reason": "tool_use" if tools else "end_turn"}))


def _always(events: tuple[MockEvent, ...]) -> Callable[[Sequence[Said]], Iterable[MockEvent]]:
    return lambda _messages: events


def _checked(event: object) -> MockEvent:
    if not isinstance(event, MockEvent):
        raise TypeError(f"a scenario is made of MockEvent, not of {event!r:.100}")
    if is_mapping(event.delay):
        raise TypeError(f"the delay of a MockEvent is a number of milliseconds, not {event.delay!r:.100}; write data=…")
    return event


class _Scripted:
    """Plays scenarios; without `delays`, as fast as possible.

    Raises:
        UnknownScenarioError: the scenario is not defined.
    """

    def __init__(
        self,
        scenario: str = "default",
        scenarios: Mapping[str, Script] | MockScenarios | None = None,
        *,
        delays: bool = True,
    ) -> None:
        self._scenarios = scenarios if isinstance(scenarios, MockScenarios) else MockScenarios(scenario, scenarios)
        self._delays = delays

    def set_scenario(self, name: str) -> None:
        """Answer with this scenario, from the next message on, or raise `UnknownScenarioError`."""
        self._scenarios.set_scenario(name)

    def define_scenario(self, name: str, scenario: Script) -> None:
        """Add a scenario: a `MockScenario`, its events, or a function that makes its events from the conversation."""
        self._scenarios.define_scenario(name, scenario)

    def reply(self, text: str | None = None, *, tools: Sequence[Call] = ()) -> None:
        """Answer one more request with this text and these tool calls, each given by its name and its arguments.

        Replies are given in the order of the calls of this method, whoever asks; then the scenario answers again.
        """
        self._scenarios.reply(text, tools)


class MockClaudeDriver(_Scripted, Interruptible):
    """A driver that plays the chosen scenario; without `delays`, as fast as possible.

    Raises:
        UnknownScenarioError: the scenario is not defined.
    """

    def takes_output(self, output: OutputSpec, model: str | None) -> bool:
        """Return True: a script may emit any answer."""
        return True

    async def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None = None,
        model: str | None = None,
        max_tokens: int | None = None,
        tools: Sequence[Mapping[str, object]] = (),
        on_event: OnEvent,
        output: OutputSpec | None = None,
    ) -> None:
        """Play the chosen scenario."""
        with self.working():
            for event in map(_checked, self._scenarios.events(messages)):
                if self._delays and event.delay:
                    await asyncio.sleep(event.delay / _MILLISECONDS)
                said = _output(event, output) if event.type == "output" else event
                on_event({"type": said.type, "data": said.data})


class MockLLMProvider(_Scripted):
    """Provides mock drivers, for `Runtime.open(..., llm_provider=MockLLMProvider())`. They share their scenarios."""

    name = "mock"

    def provide(self) -> MockClaudeDriver:
        """Return a new driver."""
        return MockClaudeDriver(scenarios=self._scenarios, delays=self._delays)


class MockReceptor(ModelReceptor):
    """The receptor of a mock: emits the events of the script, and those passed to `emit`."""

    _producer: SystemBusProducer | None = None

    def connect(self, producer: SystemBusProducer) -> None:
        """Emit to this producer from now on."""
        self._producer = producer
        super().connect(producer)

    def emit(self, event: StreamData | Mapping[str, object]) -> None:
        """Emit an event in the agent's current turn; it is dropped between turns and before `connect`."""
        if self._producer is not None:
            self._producer.emit(event)


class MockEffector(ModelEffector):
    """The effector of a mock: it receives the turns and plays the chosen scenario."""

    def __init__(self, actor: pykka.ActorRef[EffectorActor], scenarios: MockScenarios) -> None:
        super().__init__(actor)
        self._scenarios = scenarios

    def set_scenario(self, name: str) -> None:
        """Answer with this scenario, from the next message on, or raise `UnknownScenarioError`."""
        self._scenarios.set_scenario(name)

    def dispose(self) -> None:
        """End the subscriptions. Idempotent."""
        self.disconnect()


class MockEnvironment(_Scripted, ModelEnvironment):
    """An environment for one agent that answers from scripts.

    Raises:
        UnknownScenarioError: the scenario is not defined.
    """

    def __init__(
        self,
        config: EnvironmentConfig,
        scenario: str = "default",
        scenarios: Mapping[str, Script] | MockScenarios | None = None,
        *,
        delays: bool = True,
    ) -> None:
        _Scripted.__init__(self, scenario, scenarios, delays=delays)
        ModelEnvironment.__init__(
            self, "mock", config, lambda: MockClaudeDriver(scenarios=self._scenarios, delays=delays)
        )
        self._mock_receptor = MockReceptor(self._receptor_actor)
        self._mock_effector = MockEffector(self._effector_actor, self._scenarios)

    @property
    def receptor(self) -> MockReceptor:
        """The receptor, which emits the mock's events."""
        return self._mock_receptor

    @property
    def effector(self) -> MockEffector:
        """The effector, which receives the agent's turns."""
        return self._mock_effector


class MockEnvironmentFactory(_Scripted):
    """Makes mock environments; all of them, including existing ones, play the scenario that is chosen here.

    Raises:
        UnknownScenarioError: the scenario is not defined.
    """

    @cached_property
    def _live(self) -> WeakSet[MockEnvironment]:
        return WeakSet()

    def create(self, config: EnvironmentConfig) -> MockEnvironment:
        """Return a new environment, not yet connected."""
        environment = MockEnvironment(config, scenarios=self._scenarios, delays=self._delays)
        self._live.add(environment)
        return environment

    def dispose(self) -> None:
        """Dispose of the environments that this factory has made. Idempotent; it can make more afterwards."""
        for environment in tuple(self._live):
            environment.dispose()
        self._live.clear()
