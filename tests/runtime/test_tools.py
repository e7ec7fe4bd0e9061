"""Agents that use tools, from the message to the last answer, through restarts and people."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reenact import (
    AsyncRuntime,
    ConfigurationError,
    Image,
    Policies,
    Policy,
    Price,
    Rule,
    Runtime,
    Said,
    ToolResultBlock,
    ToolUnavailableError,
    ToolUseBlock,
)
from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.tool import Tool, tool
from reenact.domain.policy.matchers import path
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory, MockEvent, wait_until
from tests.logs import copy_log
from tests.runtime.conftest import Open
from tests.runtime.witness import PATIENCE, Ears, at_every_commit


def results_in(said: Sequence[Said]) -> list[ToolResultBlock]:
    return [*said[-1].tool_results]


def asks(
    *calls: tuple[str, str, dict[str, Any]], then: str = "done"
) -> Callable[[Sequence[Said]], Iterable[MockEvent]]:
    """A model that asks for the calls, all at once, and says what came of them."""

    def script(said: Sequence[Said]) -> Iterator[MockEvent]:
        yield MockEvent("message_start")
        results = results_in(said)
        if results:
            told = "; ".join(f"{'!' if result.is_error else ''}{result.content}" for result in results)
            yield MockEvent("text_delta", data={"text": f"{then}: {told}"})
            yield MockEvent("message_stop", data={"stop_reason": "end_turn"})
        else:
            for id_, name, arguments in calls:
                yield MockEvent("tool_call", data={"id": id_, "name": name, "input": arguments})
            yield MockEvent("message_stop", data={"stop_reason": "tool_use"})

    return script


@pytest.fixture
def factory() -> MockEnvironmentFactory:
    return MockEnvironmentFactory(delays=False)


def running(runtime: Runtime, image: Image) -> str:
    runtime.containers.create(container_id="c")
    runtime.images.register(image)
    runtime.sessions.create("c", "i", session_id="s")
    return runtime.sessions.run("s")


@tool
def get_weather(city: str) -> dict[str, Any]:
    """What the weather is like."""
    return {"city": city, "sky": "clear"}


WEATHER = Image(id="i", tools=(get_weather,))


def test_the_results_of_a_tool_go_back_to_the_model_which_answers(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    factory.define_scenario("weather", asks(("c1", "get_weather", {"city": "Beijing"})))
    factory.set_scenario("weather")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", tools=(get_weather,)))

    turn = runtime.agents.receive(agent, "What is the weather in Beijing?")

    (completed,) = ears.wait("turn_completed")
    assert completed.data["outcome"] == "completed"
    assert [event.type for event in ears.heard if event.context.turn_id == turn] == [
        "user_message",
        "turn_started",
        "agent_state_changed",
        "message_start",
        "tool_call",
        "message_stop",
        "assistant_message",
        "agent_state_changed",
        "tool_started",
        "tool_result",
        "tool_result_message",
        "agent_state_changed",
        "step_started",
        "message_start",
        "agent_state_changed",
        "text_delta",
        "message_stop",
        "assistant_message",
        "agent_state_changed",
        "turn_completed",
    ]
    assert [event.data["current"] for event in ears.of("agent_state_changed")] == [
        "thinking",
        "tool_executing",
        "thinking",
        "responding",
        "idle",
    ]
    assert [message.role for message in runtime.sessions.messages("s")][-1] == "assistant"
    assert runtime.sessions.messages("s")[-1].text == 'done: {"city":"Beijing","sky":"clear"}'


def test_the_calls_of_one_answer_run_at_the_same_time_and_their_results_keep_the_order_of_the_calls(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    both = threading.Barrier(2)

    @tool
    def first() -> str:
        both.wait(PATIENCE)
        return "one"

    @tool
    async def second() -> str:
        await asyncio.to_thread(both.wait, PATIENCE)
        return "two"

    factory.define_scenario("both", asks(("c1", "first", {}), ("c2", "second", {})))
    factory.set_scenario("both")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", tools=(first, second)))

    runtime.agents.receive(agent, "go")

    ears.wait("turn_completed")
    assert runtime.sessions.messages("s")[-1].text == "done: one; two"


def test_a_tool_that_raises_tells_the_model_so_and_harms_nobody(opened: Open, factory: MockEnvironmentFactory) -> None:
    @tool
    def broken() -> str:
        message = "no such file"
        raise FileNotFoundError(message)

    factory.define_scenario("broken", asks(("c1", "broken", {}), ("c2", "get_weather", {"city": "Rome"})))
    factory.set_scenario("broken")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", tools=(broken, get_weather)))

    runtime.agents.receive(agent, "go")

    (completed,) = ears.wait("turn_completed")
    assert completed.data["outcome"] == "completed"
    told = runtime.sessions.messages("s")[-1].text
    assert "!FileNotFoundError: no such file" in told
    assert '"city":"Rome"' in told


class UnsetContext(logging.Filter):
    """A filter that reads what only the threads of requests have."""

    def filter(self, record: logging.LogRecord) -> bool:
        raise LookupError(record.name)


@pytest.fixture
def broken_logging() -> Iterator[None]:
    handler = logging.StreamHandler()
    handler.addFilter(UnsetContext())
    loggers = [logging.getLogger(f"reenact.{name}") for name in ("tools", "environment")]
    for logger in loggers:
        logger.addHandler(handler)
    yield
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.mark.usefixtures("broken_logging")
def test_a_turn_ends_although_what_fails_in_it_cannot_be_logged(opened: Open, factory: MockEnvironmentFactory) -> None:
    @tool
    def broken() -> str:
        message = "no such file"
        raise FileNotFoundError(message)

    def broken_model(_: Sequence[Said]) -> Iterable[MockEvent]:
        message = "no model"
        raise KeyError(message)

    factory.define_scenario("tool", asks(("c1", "broken", {})))
    factory.define_scenario("model", broken_model)
    runtime = opened(environment=factory)

    factory.set_scenario("tool")
    answer = runtime.ask("go", image=Image(id="i", tools=(broken,)), timeout=PATIENCE)
    assert answer.text == "done: !broken could not be run: LookupError('reenact.tools')"
    factory.set_scenario("model")
    failed = runtime.ask("go", session=answer.session_id, timeout=PATIENCE)
    assert failed.outcome == "failed"


def test_an_interrupt_ends_the_turn_while_a_tool_runs_and_its_late_result_is_not_heard(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    started, release = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        started.set()
        release.wait(PATIENCE)
        return "late"

    factory.define_scenario("slow", asks(("c1", "slow", {})))
    factory.set_scenario("slow")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", tools=(slow,)))
    runtime.agents.receive(agent, "go")
    assert started.wait(PATIENCE)

    runtime.agents.interrupt(agent)
    release.set()

    (completed,) = ears.wait("turn_completed")
    assert completed.data["outcome"] == "interrupted"
    (result,) = ears.of("tool_result")
    assert result.data["is_error"]
    assert "not known whether it took effect" in str(result.data["result"])


def test_a_function_that_replaces_another_one_of_its_image_is_logged_once(
    opened: Open, factory: MockEnvironmentFactory, caplog: pytest.LogCaptureFixture
) -> None:
    def of(user: str) -> Tool[[], str]:
        @tool
        def whose() -> str:
            return user

        return whose

    factory.define_scenario("whose", asks(("c1", "whose", {})))
    factory.set_scenario("whose")
    runtime = opened(environment=factory)
    eve = of("eve")

    texts = [runtime.ask("go", image=Image(id="i", tools=(each,))).text for each in (of("ann"), of("bob"), eve, eve)]

    assert texts == ["done: ann", "done: bob", "done: eve", "done: eve"]
    assert [record.getMessage() for record in caplog.records if record.name == "reenact.tools"] == [
        "all sessions of image 'i' get another function for their tool whose"
    ]


def test_a_tool_is_told_whose_call_it_runs(opened: Open, factory: MockEnvironmentFactory) -> None:
    contexts: list[ToolContext] = []

    @tool
    def whose(context: ToolContext) -> str:
        contexts.append(context)
        return "yours"

    factory.define_scenario("whose", asks(("c1", "whose", {})))
    factory.set_scenario("whose")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", tools=(whose,)))

    turn = runtime.agents.receive(agent, "go")

    ears.wait("turn_completed")
    (context,) = contexts
    assert (context.session_id, context.agent_id, context.turn_id, context.call_id) == ("s", agent, turn, "c1")


def test_a_plain_function_may_ask_another_agent_and_a_coroutine_function_is_told_to_be_one(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    @tool
    def wait(question: str) -> str:
        return runtime.ask(question, image=Image(id="asked")).text

    @tool
    async def block(question: str) -> str:
        return runtime.ask(question, image=Image(id="asked")).text

    def script(said: Sequence[Said]) -> Iterable[MockEvent]:
        if said[0].text == "why?":
            return [MockEvent("text_delta", data={"text": "because"}), MockEvent("message_stop")]
        return calls(said)

    calls = asks(("c1", "wait", {"question": "why?"}), ("c2", "block", {"question": "why?"}))
    factory.define_scenario("script", script)
    factory.set_scenario("script")
    runtime = opened(environment=factory)

    answer = runtime.ask("go", image=Image(id="asker", tools=(wait, block)))

    assert answer.text.startswith("done: because; !DeadlockError: ")
    assert answer.text.endswith(
        "a tool or a guard that calls a Runtime has to be a plain function, or await an AsyncRuntime"
    )


def test_a_call_of_an_answer_that_was_cut_is_not_run(opened: Open, factory: MockEnvironmentFactory) -> None:
    def cut(_: Sequence[Said]) -> Iterable[MockEvent]:
        return [
            MockEvent("tool_call", data={"id": "c1", "name": "get_weather", "input": {"city": "Rome"}}),
            MockEvent("message_stop", data={"stop_reason": "max_tokens"}),
        ]

    factory.define_scenario("cut", cut)
    factory.set_scenario("cut")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", tools=(get_weather,)))

    runtime.agents.receive(agent, "go")

    (completed,) = ears.wait("turn_completed")
    assert completed.data["stop_reason"] == "max_tokens"
    assert ears.of("tool_started") == []


def test_a_loop_that_repeats_itself_is_stopped_and_says_why(opened: Open, factory: MockEnvironmentFactory) -> None:
    def again(_: Sequence[Said]) -> Iterable[MockEvent]:
        return [
            MockEvent("tool_call", data={"id": "c1", "name": "get_weather", "input": {"city": "Rome"}}),
            MockEvent("message_stop", data={"stop_reason": "tool_use"}),
        ]

    factory.define_scenario("again", again)
    factory.set_scenario("again")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", tools=(get_weather,)))

    runtime.agents.receive(agent, "go")

    (completed,) = ears.wait("turn_completed")
    assert completed.data["stop_reason"] == "repeated_tool_calls"
    assert len(ears.of("tool_started")) == 3
    assert "3 times in a row" in str(ears.of("tool_result")[-1].data["result"])


def test_a_turn_asks_the_model_no_more_often_than_it_may(opened: Open, factory: MockEnvironmentFactory) -> None:
    numbers = iter(range(100))

    def on_and_on(_: Sequence[Said]) -> Iterable[MockEvent]:
        city = f"city {next(numbers)}"
        return [
            MockEvent("tool_call", data={"id": "c1", "name": "get_weather", "input": {"city": city}}),
            MockEvent("message_stop", data={"stop_reason": "tool_use"}),
        ]

    factory.define_scenario("on", on_and_on)
    factory.set_scenario("on")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", tools=(get_weather,), max_steps=3))

    runtime.agents.receive(agent, "go")

    (completed,) = ears.wait("turn_completed")
    assert completed.data["stop_reason"] == "max_steps_exceeded"
    assert len(ears.of("message_stop")) == 3
    assert len(ears.of("tool_started")) == 2


@pytest.mark.parametrize("model", ["m", None])
def test_a_cost_limit_that_counts_no_model_is_logged_once_for_its_image(
    opened: Open, factory: MockEnvironmentFactory, caplog: pytest.LogCaptureFixture, model: str | None
) -> None:
    image = Image(id="i", model=model, cost_limit=1.0)

    with opened(environment=factory) as unpriced:
        for _ in range(2):
            unpriced.ask("Hi", image=image)
    with opened(environment=factory, prices={"m": Price(3, 15)}) as priced:
        priced.ask("Hi", image=image)

    told = (
        "the cost limit of image 'i' does not count its model, which has no price: Runtime.open(prices={%r: …}), "
        "or --price on the command line"
    )
    messages = [record.getMessage() for record in caplog.records if record.name == "reenact.runtime"]
    assert messages == [told % (model or "the-model")]


def test_a_tool_whose_function_nobody_has_handed_in_is_told_of_as_missing(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    factory.define_scenario("weather", asks(("c1", "get_weather", {"city": "Rome"})))
    factory.set_scenario("weather")
    first = opened(environment=factory)
    running(first, Image(id="i", tools=(get_weather,)))
    first.close()
    runtime = opened(environment=factory)
    ears = Ears(runtime)

    runtime.agents.receive(runtime.sessions.run("s"), "go")

    ears.wait("turn_completed")
    assert "get_weather cannot be run" in runtime.sessions.messages("s")[-1].text


def test_functions_handed_in_at_opening_stand_behind_the_tools_of_images(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    factory.define_scenario("weather", asks(("c1", "get_weather", {"city": "Rome"})))
    factory.set_scenario("weather")
    first = opened(environment=factory)
    running(first, Image(id="i", tools=(get_weather,)))
    first.close()
    runtime = opened(environment=factory, tools=[get_weather])
    ears = Ears(runtime)

    runtime.agents.receive(runtime.sessions.run("s"), "go")

    ears.wait("turn_completed")
    assert '"sky":"clear"' in runtime.sessions.messages("s")[-1].text


def test_a_conversation_that_is_too_long_is_summarised_and_kept_in_the_log(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    asked: list[list[str]] = []

    def script(said: Sequence[Said]) -> Iterator[MockEvent]:
        asked.append([one.text for one in said])
        summarised = "<conversation>" in said[0].text
        yield MockEvent("text_delta", data={"text": "THE SUMMARY" if summarised else f"answer {len(asked)}"})
        yield MockEvent("message_delta", data={"usage": {"input_tokens": 900, "output_tokens": 200}})
        yield MockEvent("message_stop")

    factory.define_scenario("long", script)
    factory.set_scenario("long")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", compress_at=1000))

    for number, question in enumerate(("one", "two"), start=1):
        runtime.agents.receive(agent, question)
        ears.wait("turn_completed", count=number)

    assert len(asked) == 3
    assert "THE SUMMARY" in asked[2][0]
    assert asked[2][-1] == "two"
    (compressed,) = ears.of("context_compressed")
    assert compressed.data["summary"] == "THE SUMMARY"
    assert [message.text for message in runtime.sessions.messages("s")] == ["one", "answer 1", "two", "answer 3"]


@pytest.mark.parametrize("raises", [False, True], ids=["an error", "an exception"])
def test_a_conversation_whose_summary_fails_goes_on_as_it_is(
    opened: Open,
    factory: MockEnvironmentFactory,
    caplog: pytest.LogCaptureFixture,
    raises: bool,  # noqa: FBT001 - a value
) -> None:
    def script(said: Sequence[Said]) -> Iterator[MockEvent]:
        if "<conversation>" not in said[0].text:
            yield MockEvent("text_delta", data={"text": " ".join(one.text for one in said if one.role == "user")})
            yield MockEvent("message_delta", data={"usage": {"input_tokens": 1100}})
            yield MockEvent("message_stop")
        elif raises:
            raise ConnectionError("no summary today")
        else:
            yield MockEvent("error", data={"message": "no summary today"})

    factory.define_scenario("long", script)
    factory.set_scenario("long")
    runtime = opened(environment=factory)
    agent = running(runtime, Image(id="i", compress_at=1000))

    first, second = (runtime.turns.wait(runtime.agents.receive(agent, question)) for question in ("one", "two"))

    assert (first.text, second.text) == ("one", "one two")
    assert [record.getMessage() for record in caplog.records if "no summary today" in record.getMessage()]


def test_a_use_block_without_an_id_is_given_one(opened: Open, factory: MockEnvironmentFactory) -> None:
    def nameless(said: Sequence[Said]) -> Iterable[MockEvent]:
        if results_in(said):
            return [MockEvent("text_delta", data={"text": "ok"}), MockEvent("message_stop")]
        call = MockEvent("tool_call", data={"name": "get_weather", "input": {"city": "Rome"}})
        return [call, call, MockEvent("message_stop", data={"stop_reason": "tool_use"})]

    factory.define_scenario("nameless", nameless)
    factory.set_scenario("nameless")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", tools=(get_weather,)))

    runtime.agents.receive(agent, "go")

    ears.wait("turn_completed")
    calls = [
        block
        for message in runtime.sessions.messages("s")
        for block in message.content
        if isinstance(block, ToolUseBlock)
    ]
    assert len({call.id for call in calls} - {""}) == 2


def test_an_image_that_the_api_would_refuse_is_told_of_as_a_failure_of_its_tool(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    @tool
    def shot() -> list[dict[str, Any]]:
        source = {"type": "base64", "media_type": "image/jpg", "data": "iVBORw0KGgo="}
        return [{"type": "image", "source": source}]

    factory.define_scenario("shot", asks(("c1", "shot", {})))
    factory.set_scenario("shot")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", tools=(shot,)))

    runtime.agents.receive(agent, "go")

    ears.wait("turn_completed")
    assert "!shot returned a result" in runtime.sessions.messages("s")[-1].text


@pytest.mark.usefixtures("decided_otherwise")
def test_a_link_out_of_what_is_allowed_is_not_followed_unasked(
    opened: Open, factory: MockEnvironmentFactory, tmp_path: Path
) -> None:
    @tool
    def read(path: str) -> str:
        return Path(path).read_text()

    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "plain").write_text("plain")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "work" / "link").symlink_to(tmp_path / "secret")
    inside = path(f"{tmp_path}/work/**")
    policies = Policies(tools={"read": Policy("required", rules=(Rule({"path": inside}, "allow"),))})
    factory.define_scenario(
        "read",
        asks(("c1", "read", {"path": f"{tmp_path}/work/plain"}), ("c2", "read", {"path": f"{tmp_path}/work/link"})),
    )
    factory.set_scenario("read")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, Image(id="i", tools=(read,), policies=policies))

    runtime.agents.receive(agent, "go")

    (completed,) = ears.wait("turn_completed")
    assert completed.data["outcome"] == "waiting"
    assert [event.data["id"] for event in ears.of("tool_started")] == ["c1"]
    assert [call.id for call in runtime.agents.pending()] == ["c2"]


@pytest.mark.parametrize("tools", [get_weather, "get_weather", None, (7,)])
def test_what_are_no_tools_is_refused_by_name(opened: Open, factory: MockEnvironmentFactory, tools: Any) -> None:  # noqa: ANN401 - not what it should be
    runtime = opened(environment=factory)

    with pytest.raises(ConfigurationError, match="tool"):
        runtime.images.register(Image(id="i", tools=tools))


def is_idle(runtime: Runtime) -> bool:
    return all(agent.state == "idle" for agent in runtime.agents.list())


@pytest.mark.parametrize(
    "known", [{"tools": [get_weather]}, {"default_image": WEATHER}], ids=["tools", "default image"]
)
def test_whenever_the_process_ends_a_resumed_turn_goes_on_to_its_end(
    opened: Open, log: str, factory: MockEnvironmentFactory, known: dict[str, Any]
) -> None:
    factory.define_scenario("weather", asks(("c1", "get_weather", {"city": "Rome"})))
    factory.set_scenario("weather")
    runtime = opened(environment=factory)
    ears = Ears(runtime)
    agent = running(runtime, WEATHER)
    copies: list[str] = []
    at_every_commit(runtime, lambda count: copies.append(copy_log(log, str(count))))
    turn = runtime.agents.receive(agent, "go")
    ears.wait("turn_completed")
    runtime.close()

    for copy in copies:
        again = opened(copy, environment=factory, recovery="resume", **known)
        wait_until(partial(is_idle, again), timeout=PATIENCE)
        (ended,) = [one for one in again.sessions.turns("s") if one.id == turn]
        assert ended.outcome == "completed"
        assert "is not there" not in again.sessions.messages("s")[-1].text
        again.close()

    assert len(copies) > 4


def at_once(runtime: Runtime, _: str) -> None:
    runtime.agents.approve("c1")


def by_request(runtime: Runtime, _: str) -> None:
    runtime.request("agent_approve_request", {"call_id": "c1"})


def over_http(runtime: Runtime, _: str) -> None:
    with Server(runtime) as server, Runtime.connect(server.url) as remote:
        remote.agents.approve("c1")


def awaited(runtime: Runtime, log: str) -> None:
    async def approve() -> None:
        async with await AsyncRuntime.open(log, environment=MockEnvironmentFactory()) as another:
            await another.agents.approve("c1", arguments={"city": "Pisa"})

    runtime.close()
    asyncio.run(approve())


@pytest.mark.parametrize("approve", [at_once, by_request, over_http, awaited])
def test_a_call_whose_function_is_not_there_cannot_be_approved_and_goes_on_waiting(
    opened: Open, log: str, factory: MockEnvironmentFactory, approve: Callable[[Runtime, str], None]
) -> None:
    factory.define_scenario("weather", asks(("c1", "get_weather", {"city": "Rome"})))
    factory.set_scenario("weather")
    first = opened(environment=factory)
    agent = running(first, Image(id="i", tools=(get_weather,), policies={"get_weather": "required"}))
    Ears(first).wait("turn_completed", turn_id=first.agents.receive(agent, "go"))
    first.close()

    without = opened(environment=factory)
    with pytest.raises(ToolUnavailableError, match=r"get_weather cannot be approved: .* tools=") as refused:
        approve(without, log)
    without.close()

    assert refused.value.tool == "get_weather"
    runtime = opened(environment=factory, tools=[get_weather])
    ears, (call,) = Ears(runtime), runtime.agents.pending()
    ears.wait("turn_completed", turn_id=runtime.agents.approve(call))
    assert '"city":"Rome"' in runtime.sessions.messages("s")[-1].text
