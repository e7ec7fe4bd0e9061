from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from reenact import Image, Runtime
from reenact.actors.environment.api import Environment, EnvironmentConfig, EnvironmentFactory, LLMDriver, LLMProvider
from reenact.actors.environment.mock import PREDEFINED_SCENARIOS, Script
from reenact.actors.environment.model import ProviderEnvironmentFactory
from reenact.domain.errors import UnknownScenarioError
from reenact.domain.messages import Said
from reenact.domain.stream.events import TextDelta
from reenact.testing import (
    MockClaudeDriver,
    MockEffector,
    MockEnvironment,
    MockEnvironmentFactory,
    MockEvent,
    MockLLMProvider,
    MockReceptor,
    MockScenario,
)
from tests.environment.support import HELLO, PATIENCE, Bus, plain, until

CHUNKS = [("text_delta", {"text": f"chunk-{number} "}) for number in range(100)]
BASH = {"name": "bash", "input": {"command": "ls"}}
SCENARIOS: dict[str, list[tuple[str, object]]] = {
    "default": [
        ("message_start", {}),
        ("text_delta", {"text": "Hello"}),
        ("text_delta", {"text": " from"}),
        ("text_delta", {"text": " mock!"}),
        ("message_stop", {}),
    ],
    "simple-text": [("message_start", {}), ("text_delta", {"text": "Hi"}), ("message_stop", {})],
    "structured-output": [("message_start", {}), ("text_delta", {"text": "null"}), ("message_stop", {})],
    "with-thinking": [
        ("message_start", {}),
        ("thinking_start", {}),
        ("text_delta", {"text": "Let me analyze..."}),
        ("thinking_end", {}),
        ("text_delta", {"text": "Answer"}),
        ("message_stop", {}),
    ],
    "with-tool": [
        ("message_start", {}),
        ("text_delta", {"text": "Let me check"}),
        ("tool_call", BASH),
        ("text_delta", {"text": "I found files"}),
        ("message_stop", {}),
    ],
    "with-tool-use": [
        ("message_start", {}),
        ("tool_call", {"name": "bash", "input": "ls"}),
        ("tool_result", {"result": "file1.txt\nfile2.txt"}),
        ("text_delta", {"text": "I see 2 files"}),
        ("message_stop", {}),
    ],
    "error": [("message_start", {}), ("error", {"message": "Rate limit exceeded", "retryable": True})],
    "rate-limit-error": [
        ("message_start", {}),
        ("error", {"type": "rate_limit_exceeded", "message": "rate_limit_exceeded", "retryable": True}),
    ],
    "long-stream": [*CHUNKS, ("message_stop", {})],
    "long-response": [*CHUNKS, ("message_stop", {})],
}
DELAYS = {
    "default": [10, 10, 10, 10, 10],
    "with-thinking": [10, 5, 10, 5, 10, 10],
    "with-tool": [10, 10, 20, 10, 10],
    "error": [10, 20],
    "long-stream": [5] * 100 + [10],
}


@pytest.fixture
def factory() -> Iterator[MockEnvironmentFactory]:
    factory = MockEnvironmentFactory(delays=False)
    yield factory
    factory.dispose()


def connected(factory: EnvironmentFactory, config: EnvironmentConfig) -> Bus:
    bus = Bus()
    bus.connect(factory.create(config))
    return bus


def test_the_mocks_are_what_the_protocols_ask_for(factory: MockEnvironmentFactory, config: EnvironmentConfig) -> None:
    environment = factory.create(config)

    assert isinstance(environment, Environment)
    assert environment.name == "mock"
    assert isinstance(factory, EnvironmentFactory)
    assert isinstance(MockClaudeDriver(), LLMDriver)
    assert isinstance(MockLLMProvider(), LLMProvider)
    assert MockLLMProvider().name == "mock"


@pytest.mark.parametrize("scenario", sorted(PREDEFINED_SCENARIOS))
def test_each_predefined_scenario_says_exactly_this(
    scenario: str, factory: MockEnvironmentFactory, config: EnvironmentConfig
) -> None:
    factory.set_scenario(scenario)

    events = connected(factory, config).answer("trn_1")

    assert plain(events) == SCENARIOS[scenario]


@pytest.mark.parametrize("scenario", sorted(DELAYS))
def test_the_delays_are_those_of_the_documents(scenario: str) -> None:
    assert [event.delay for event in PREDEFINED_SCENARIOS[scenario].events] == DELAYS[scenario]


def test_delays_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(MockClaudeDriver("error").send_message(messages=HELLO, on_event=lambda _: None))

    assert slept == [0.01, 0.02]


@pytest.mark.parametrize("make", [MockEnvironmentFactory, MockClaudeDriver, MockLLMProvider])
def test_an_unknown_scenario_is_refused_at_once(make: type[MockClaudeDriver]) -> None:
    with pytest.raises(UnknownScenarioError, match="rate-limit-error"):
        make("no such scenario")
    mock = make("default")
    with pytest.raises(UnknownScenarioError) as refused:
        mock.set_scenario("nor such")

    assert refused.value.name == "nor such"
    assert "default" in refused.value.known


def test_a_scenario_holds_for_environments_that_live_already(
    factory: MockEnvironmentFactory, config: EnvironmentConfig
) -> None:
    bus = connected(factory, config)
    first = bus.answer("trn_1")

    factory.set_scenario("simple-text")
    second = bus.answer("trn_2")

    assert TextDelta(text="Hello") in first
    assert TextDelta(text="Hi") in second


def test_a_scenario_can_be_defined_in_three_ways(factory: MockEnvironmentFactory, config: EnvironmentConfig) -> None:
    def echo(messages: Sequence[Said]) -> Iterable[MockEvent]:
        yield MockEvent("text_delta", data={"text": messages[-1].text})
        yield MockEvent("message_stop")

    bye = (MockEvent("text_delta", data={"text": "bye"}), MockEvent("message_stop"))
    factory.define_scenario("scenario", MockScenario("any name", bye))
    factory.define_scenario("events", bye)
    factory.define_scenario("function", echo)
    bus = connected(factory, config)

    for name, text in (("scenario", "bye"), ("events", "bye"), ("function", "Hello")):
        factory.set_scenario(name)
        assert TextDelta(text=text) in bus.answer(name)


def test_one_environment_may_be_scripted_by_itself(config: EnvironmentConfig) -> None:
    environment, bus = MockEnvironment(config, delays=False), Bus()
    bus.connect(environment)

    environment.define_scenario("mine", [MockEvent("text_delta", data={"text": "mine"}), MockEvent("message_stop")])
    environment.set_scenario("mine")

    assert TextDelta(text="mine") in bus.answer("trn_1")
    environment.dispose()


def test_a_provider_of_mocks_makes_environments(config: EnvironmentConfig) -> None:
    provider, bus = MockLLMProvider("simple-text", delays=False), Bus()
    provider.define_scenario("more", [MockEvent("text_delta", data={"text": "more"}), MockEvent("message_stop")])
    environment = ProviderEnvironmentFactory(provider).create(config)
    bus.connect(environment)

    first = bus.answer("trn_1")
    provider.set_scenario("more")
    second = bus.answer("trn_2")

    assert TextDelta(text="Hi") in first
    assert TextDelta(text="more") in second
    environment.dispose()


def test_an_interrupt_ends_the_script(config: EnvironmentConfig) -> None:
    factory = MockEnvironmentFactory()
    hour = 3_600_000
    factory.define_scenario("slow", [MockEvent("message_start"), MockEvent("text_delta", hour, {"text": "late"})])
    factory.define_scenario("quick", [MockEvent("message_stop")])
    factory.set_scenario("slow")
    bus = connected(factory, config)
    bus.start("trn_1")
    bus.wait("trn_1", len)

    bus.complete("trn_1")
    factory.set_scenario("quick")
    bus.answer("trn_2")

    assert plain(bus.events("trn_1")) == [("message_start", {})]
    factory.dispose()


def test_an_interrupt_reaches_a_driver_in_the_middle_of_a_delay() -> None:
    hour = 3_600_000
    driver, heard = MockClaudeDriver(), list[object]()
    driver.define_scenario("slow", [MockEvent("message_start"), MockEvent("message_stop", hour)])
    driver.set_scenario("slow")

    async def converse() -> asyncio.Task[None]:
        task = asyncio.create_task(driver.send_message(messages=HELLO, on_event=heard.append))
        await until(lambda: heard)
        await asyncio.to_thread(driver.interrupt)
        await asyncio.wait((task,), timeout=PATIENCE)
        return task

    assert asyncio.run(converse()).cancelled()
    assert heard == [{"type": "message_start", "data": None}]


def test_the_driver_alone_can_be_scripted() -> None:
    driver, heard = MockClaudeDriver(delays=False), list[object]()
    driver.define_scenario("one", [MockEvent("message_stop")])
    driver.set_scenario("one")

    asyncio.run(driver.send_message(messages=HELLO, on_event=heard.append))
    driver.interrupt()

    assert heard == [{"type": "message_stop", "data": None}]


def test_replies_are_given_one_after_the_other_and_then_the_scenario_answers() -> None:
    mock = MockEnvironmentFactory("simple-text", delays=False)

    mock.reply("Let me look.", tools=[("look", {"at": "a"}), ("look", {"at": "b"})])
    mock.reply("I see.")
    with Runtime.in_memory(environment=mock) as runtime:
        looked = runtime.ask("What is there?", image=Image(id="i", tools=(look,)))
        answer = runtime.ask("And now?", session=looked.session_id)
        messages = runtime.sessions.messages(looked.session_id)

    assert (looked.text, looked.stop_reason, answer.text) == ("I see.", "end_turn", "Hi")
    assert messages[1].text == "Let me look."
    assert [result.content for result in messages[2].tool_results] == ["a, from here", "b, from here"]


def look(at: str) -> str:
    """Look at something."""
    return f"{at}, from here"


def test_a_reply_is_the_next_answer_whichever_session_asks() -> None:
    provider = MockLLMProvider("simple-text", delays=False)
    provider.reply("first")
    provider.reply("second")

    with Runtime.in_memory(llm_provider=provider) as runtime:
        answers = [runtime.ask(question).text for question in "abc"]

    assert answers == ["first", "second", "Hi"]


def test_a_scenario_of_something_else_than_events_says_what_it_is_made_of() -> None:
    event: Any = {"type": "message_stop"}
    driver = MockClaudeDriver("mine", {"mine": [event]})

    with pytest.raises(TypeError, match=r"a scenario is made of MockEvent, not of \{'type'"):
        asyncio.run(driver.send_message(messages=HELLO, on_event=lambda event: None))


def test_data_in_the_place_of_the_delay_is_told_to_be_named() -> None:
    data: Any = {"text": "Hi"}
    driver = MockClaudeDriver("mine", {"mine": [MockEvent("text_delta", data)]})

    with pytest.raises(TypeError, match=r"a number of milliseconds, not \{'text': 'Hi'\}; write data=…"):
        asyncio.run(driver.send_message(messages=HELLO, on_event=lambda event: None))


MINE: dict[str, Script] = {"mine": [MockEvent("text_delta", data={"text": "mine"}), MockEvent("message_stop")]}


@pytest.mark.parametrize("make", [MockEnvironmentFactory, MockLLMProvider, MockClaudeDriver])
def test_scenarios_can_be_handed_in(make: type[MockEnvironmentFactory]) -> None:
    mock = make("mine", MINE)
    mock.set_scenario("default")

    with pytest.raises(UnknownScenarioError, match="mine"):
        make("yours", MINE)


def test_the_pair_of_a_mock_can_be_told_what_to_say(config: EnvironmentConfig) -> None:
    environment, bus = MockEnvironment(config, "mine", MINE, delays=False), Bus()
    environment.receptor.emit({"type": "text_delta", "data": {"text": "nobody hears"}})
    bus.connect(environment)

    environment.effector.set_scenario("simple-text")
    first = bus.answer("trn_1")
    environment.receptor.emit(TextDelta(text="beside the script"))
    environment.effector.dispose()
    environment.effector.dispose()

    assert isinstance(environment.receptor, MockReceptor)
    assert isinstance(environment.effector, MockEffector)
    assert TextDelta(text="Hi") in first
    assert bus.events(None) == [TextDelta(text="beside the script")]
    assert bus.handlers == {}
    environment.dispose()
    environment.dispose()


def test_a_factory_disposes_of_environments_that_live_and_can_make_more(config: EnvironmentConfig) -> None:
    factory, first, second = MockEnvironmentFactory("simple-text", delays=False), Bus(), Bus()
    first.connect(factory.create(config))

    factory.dispose()
    factory.dispose()
    second.connect(factory.create(config))

    assert first.handlers == {}
    assert TextDelta(text="Hi") in second.answer("trn_1")
    factory.dispose()
