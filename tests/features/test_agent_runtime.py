"""Steps of the agent runtime's feature."""

# ruff: noqa: ANN401 - what runners, tools and models are given and give is anybody's

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import FrozenInstanceError, dataclass, field
from datetime import UTC
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact.loop import AgentContext, AgentRuntime, AgentState, StepResult, fold, to_json

scenarios("agent_runtime.feature")

WEATHER = {"temperature": 25, "condition": "sunny"}


def a_call(call_id: str, tool: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}


class Agent:
    """Does what `decide` says, and notes what its runner and its tools are given."""

    def __init__(self) -> None:
        self.decide: Callable[[AgentContext, AgentState], Any] = lambda context, state: {"type": "finish"}
        self.tools: dict[str, Any] = {}
        self.executors: dict[str, Any] = {}
        self.runs: list[AgentContext] = []
        self.calls: dict[str, list[Any]] = {}

    async def runner(self, context: AgentContext, state: AgentState) -> Any:
        self.runs.append(context)
        return self.decide(context, state)

    def add_tool(self, name: str, result: Any) -> None:
        async def tool(arguments: dict[str, Any]) -> Any:
            self.calls.setdefault(name, []).append(arguments)
            return result

        self.tools[name] = tool


@dataclass
class Talk:
    """A conversation in the making."""

    agent: Agent = field(default_factory=Agent)
    config: dict[str, Any] = field(default_factory=dict[str, Any])
    initial: AgentState = field(default_factory=lambda: AgentRuntime.create_initial_state("test-session"))
    states: list[AgentState] = field(default_factory=list[AgentState])
    results: list[StepResult] = field(default_factory=list[StepResult])
    told: str = ""

    @property
    def runtime(self) -> AgentRuntime:
        return AgentRuntime(self.agent, self.config)

    @property
    def state(self) -> AgentState:
        return self.results[-1].new_state if self.results else self.initial

    @property
    def result(self) -> StepResult:
        return self.results[-1]

    def step(self, given: Any = None) -> None:
        self.told = to_json(self.state)
        self.states.append(self.state)
        self.results.append(self.runtime.run_step(self.state, given))

    @property
    def events(self) -> Sequence[Any]:
        """The last step's events, of whatever type a scenario expects."""
        return self.result.events

    @property
    def answer(self) -> Any:
        (event,) = [event for event in self.events if event.type == "llm_result"]
        return event.result


@pytest.fixture
def talk() -> Talk:
    return Talk()


def asks(talk: Talk, instruction: Any) -> None:
    talk.agent.decide = lambda context, state: instruction


@given("a basic agent")
def a_basic_agent(talk: Talk) -> None:
    asks(talk, {"type": "finish"})


def custom(whose: str) -> Callable[..., Any]:
    def executor(instruction: Any, state: AgentState, context: AgentContext) -> Any:
        return [{"type": "done", "reason": whose}], state

    executor.__name__ = whose
    return executor


@given(parsers.parse('a custom "{kind}" executor in the configuration'))
def a_custom_executor(talk: Talk, kind: str) -> None:
    talk.config["executors"] = {kind: custom("configuration")}


@given(parsers.parse('a custom "{kind}" executor of the agent'))
def an_executor_of_the_agent(talk: Talk, kind: str) -> None:
    talk.agent.executors = {kind: custom("agent")}


@given(parsers.parse('the instruction "{kind}" is executed by {who}'))
def who_executes(talk: Talk, kind: str, who: str) -> None:
    if "configuration" in who:
        a_custom_executor(talk, kind)
    if "agent" in who:
        an_executor_of_the_agent(talk, kind)


@given(parsers.parse('an agent with the tool "{name}" that returns {result}'))
def an_agent_with_a_tool(talk: Talk, name: str, result: str) -> None:
    talk.agent.add_tool(name, json.loads(result))


@given(parsers.parse('an agent that asks to finish with the reason "{reason}"'))
def an_agent_that_finishes(talk: Talk, reason: str) -> None:
    asks(talk, {"type": "finish", "reason": reason})


@given(parsers.parse('an agent that raises "{message}"'))
def an_agent_that_raises(talk: Talk, message: str) -> None:
    def decide(context: AgentContext, state: AgentState) -> Any:
        raise RuntimeError(message)

    talk.agent.decide = decide


@given("an agent that asks to call the model")
def an_agent_that_calls_the_model(talk: Talk) -> None:
    asks(talk, {"type": "call_llm", "payload": {"messages": []}})


@given("no model is configured")
def no_model(talk: Talk) -> None:
    assert "model_runtime" not in talk.config


@given(parsers.parse('a model that streams "{one}", "{two}" and "{three}"'))
def a_streaming_model(talk: Talk, one: str, two: str, three: str) -> None:
    talk.config["model_runtime"] = streaming({"content": one}, {"content": two}, {"content": three})


@given(parsers.parse('a model that says "{text}" and calls "{tool}" as "{call_id}"'))
def a_calling_model(talk: Talk, text: str, tool: str, call_id: str) -> None:
    talk.config["modelRuntime"] = streaming({"content": text}, {"tool_calls": [a_call(call_id, tool)]})


def streaming(*chunks: dict[str, Any]) -> Callable[[Any], AsyncIterator[dict[str, Any]]]:
    async def model_runtime(payload: Any) -> AsyncIterator[dict[str, Any]]:
        for chunk in chunks:
            yield chunk

    return model_runtime


@given(parsers.parse('an agent that asks for approval of the call "{call_id}" of "{tool}"'))
def an_agent_that_asks_for_approval(talk: Talk, call_id: str, tool: str) -> None:
    asks(talk, {"type": "request_human_approve", "pendingToolsCalling": [a_call(call_id, tool)]})


@given(parsers.parse('an agent that asks a person "{prompt}" with the metadata {metadata}'))
def an_agent_that_asks(talk: Talk, prompt: str, metadata: str) -> None:
    asks(talk, {"type": "request_human_prompt", "prompt": prompt, "metadata": json.loads(metadata)})


@given(parsers.parse('an agent that asks a person to "{prompt}" from:'))
def an_agent_that_lets_select(talk: Talk, prompt: str, datatable: list[list[str]]) -> None:
    asks(talk, {"type": "request_human_select", "prompt": prompt, "options": options_in(datatable), "multi": False})


def options_in(datatable: list[list[str]]) -> list[dict[str, str]]:
    return [{"label": label, "value": value} for label, value in datatable[1:]]


@given(parsers.parse('an agent in which {what} fails with "{message}"'))
def something_fails(talk: Talk, what: str, message: str) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError(message)

    match what:
        case "the runner":
            talk.agent.decide = fail
        case "an executor":
            asks(talk, {"type": "finish"})
            talk.agent.executors = {"finish": fail}
        case "the model":
            asks(talk, {"type": "call_llm"})
            talk.config["model_runtime"] = fail
        case _:
            asks(talk, {"type": "call_tool", "toolCall": a_call("call_123", "broken")})
            talk.agent.tools = {"broken": fail}


@given("an agent with a weather tool that decides by what has happened")
def a_weather_agent(talk: Talk) -> None:
    def decide(context: AgentContext, state: AgentState) -> Any:
        if context.phase == "llm_result":
            calls = context.payload["result"]["tool_calls"]
            return {"type": "request_human_approve", "pendingToolsCalling": calls} if calls else {"type": "finish"}
        return {"type": "call_llm", "payload": {"messages": state.messages}}

    talk.agent.decide = decide
    talk.agent.add_tool("get_weather", WEATHER)


@given("a model that knows when to ask for the weather")
def a_weather_model(talk: Talk) -> None:
    async def model_runtime(payload: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        last = payload["messages"][-1]
        if last["role"] == "tool":
            weather = json.loads(last["content"])
            yield {"content": f"It is {weather['temperature']}°C and {weather['condition']} in Beijing."}
        else:
            yield {"content": "Let me look."}
            yield {"tool_calls": [a_call("call_weather", "get_weather", '{"city": "Beijing"}')]}

    talk.config["model_runtime"] = model_runtime


@when("I create an AgentRuntime")
@when("I create an AgentRuntime without a configuration")
def i_create_a_runtime(talk: Talk) -> None:
    assert talk.runtime.agent is talk.agent


@when("I make a step")
def i_make_a_step(talk: Talk) -> None:
    talk.step()


@when(parsers.parse("I make {count:d} steps"))
def i_make_steps(talk: Talk, count: int) -> None:
    for _ in range(count):
        talk.step()


@when(parsers.parse('I make a step with the call "{call_id}" of "{tool}" with {arguments}'))
def i_make_a_step_with_a_call(talk: Talk, call_id: str, tool: str, arguments: str) -> None:
    talk.step(a_call(call_id, tool, arguments))


@when(parsers.parse('the user asks "{text}"'))
def the_user_asks(talk: Talk, text: str) -> None:
    talk.initial = AgentRuntime.create_initial_state("test-session", [{"role": "user", "content": text}])


@when("I approve the pending call")
def i_approve(talk: Talk) -> None:
    talk.step(talk.state.pending_tool_calls[0])


@when(parsers.parse('I create an initial state for the session "{session_id}"'))
def i_create_a_state(talk: Talk, session_id: str) -> None:
    talk.initial = AgentRuntime.create_initial_state(session_id=session_id)


@when(parsers.parse('I create an initial state for the session "{session_id}" with the message "{text}" of the user'))
def i_create_a_state_with_a_message(talk: Talk, session_id: str, text: str) -> None:
    talk.initial = AgentRuntime.create_initial_state(session_id, messages=[{"role": "user", "content": text}])


@when(parsers.parse("I create {count:d} initial states without a session id"))
def i_create_states(talk: Talk, count: int) -> None:
    talk.states = [AgentRuntime.create_initial_state() for _ in range(count)]


@when(parsers.parse("I make steps of {count:d} sessions at the same time"))
def i_make_steps_at_the_same_time(talk: Talk, count: int) -> None:
    talk.states = [AgentRuntime.create_initial_state(f"session-{number}") for number in range(count)]

    async def steps() -> list[StepResult]:
        runtime = talk.runtime
        return await asyncio.gather(
            *(runtime.step(state, a_call(f"call of {state.session_id}", "calculator")) for state in talk.states)
        )

    talk.results = asyncio.run(steps())


@then("the runtime should have all built-in executors")
def all_executors(talk: Talk) -> None:
    assert {"call_tools_batch", "compress_context"} < set(AgentRuntime(talk.agent).executors)


@then("the executors should include:")
def the_executors_include(talk: Talk, datatable: list[list[str]]) -> None:
    executors = AgentRuntime(talk.agent).executors

    assert all(callable(executors[name]) for (name,) in datatable[1:])


@then(parsers.parse('the "{kind}" executor should be {whose}'))
def the_executor_is(talk: Talk, kind: str, whose: str) -> None:
    tables = {"the agent's": talk.agent.executors, "the configuration's": talk.config.get("executors", {})}
    runtime = talk.runtime
    expected = tables[whose][kind] if whose in tables else runtime._built_in[kind]

    assert runtime.executors[kind] is expected


@then("the other built-in executors should be unchanged")
def the_others_are_unchanged(talk: Talk) -> None:
    runtime = talk.runtime

    assert {name for name, each in runtime.executors.items() if each is runtime._built_in[name]} == {
        *runtime._built_in
    } - {"finish"}


@then(parsers.parse('the configuration\'s "{kind}" executor should not be used'))
def the_executor_is_not_used(talk: Talk, kind: str) -> None:
    talk.step()

    assert talk.events[0].reason == "agent"


@then(parsers.parse('the tool "{name}" should have been called with {arguments}'))
def the_tool_was_called(talk: Talk, name: str, arguments: str) -> None:
    assert talk.agent.calls[name] == [json.loads(arguments)]


@then(parsers.parse('the first event should be the tool result of "{call_id}" with {result}'))
def the_first_event_is_a_result(talk: Talk, call_id: str, result: str) -> None:
    event = talk.events[0]

    assert (event.type, event.id, event.result) == ("tool_result", call_id, json.loads(result))


@then(parsers.parse('the messages should contain the answer {content} to "{call_id}"'))
def the_messages_contain(talk: Talk, content: str, call_id: str) -> None:
    assert {"role": "tool", "tool_call_id": call_id, "content": content} in talk.state.messages


@then("the agent's runner should have been called once")
def the_runner_was_called(talk: Talk) -> None:
    assert [context.phase for context in talk.agent.runs] == ["init"]


@then(parsers.parse('the events should be "{kinds}"'))
def the_events_are(talk: Talk, kinds: str) -> None:
    assert [event.type for event in talk.events] == kinds.split(", ")


@then("the history should contain the events of the step")
def the_history_contains(talk: Talk) -> None:
    assert talk.events
    assert all(event in talk.state.events for event in talk.events)


@then(parsers.parse('the error message should contain "{text}"'))
def the_error_contains(talk: Talk, text: str) -> None:
    error = talk.events[-1].error

    assert text in error.message
    assert isinstance(error.exception, Exception)


@then(parsers.parse('the status should be "{status}"'))
def the_status_is(talk: Talk, status: str) -> None:
    assert talk.state.status == status


@then(parsers.parse('the state should hold the error "{message}"'))
def the_state_holds_the_error(talk: Talk, message: str) -> None:
    assert talk.state.error == {"type": "RuntimeError", "message": message}


@then(parsers.parse('the model\'s answer should be "{text}" without tool calls'))
def the_whole_answer_is(talk: Talk, text: str) -> None:
    assert talk.answer == {"content": text, "tool_calls": []}


@then(parsers.parse('the model\'s answer should be "{text}"'))
def the_answer_is(talk: Talk, text: str) -> None:
    assert talk.answer["content"] == text


@then(parsers.parse('the model\'s answer should call "{tool}" as "{call_id}"'))
def the_answer_calls(talk: Talk, tool: str, call_id: str) -> None:
    assert talk.answer["tool_calls"] == [a_call(call_id, tool)]


@then(parsers.parse('the first event should name the session "{session_id}"'))
def the_first_event_names_the_session(talk: Talk, session_id: str) -> None:
    assert talk.events[0].session_id == session_id


@then(parsers.parse('the pending calls should be "{call_id}"'))
def the_pending_calls_are(talk: Talk, call_id: str) -> None:
    assert talk.state.pending_tool_calls == [a_call(call_id, "test_tool")]


@then(parsers.parse('the first event should ask "{prompt}" with the metadata {metadata}'))
def the_first_event_asks(talk: Talk, prompt: str, metadata: str) -> None:
    event = talk.events[0]

    assert (event.prompt, event.metadata) == (prompt, json.loads(metadata))
    assert talk.state.pending_prompt == {"prompt": prompt, "metadata": json.loads(metadata)}


@then(parsers.parse('the first event should ask "{prompt}" with one choice of:'))
def the_first_event_lets_select(talk: Talk, prompt: str, datatable: list[list[str]]) -> None:
    event = talk.events[0]

    assert (event.prompt, event.multi) == (prompt, False)
    assert event.options == options_in(datatable)
    assert talk.state.pending_select == {"prompt": prompt, "options": options_in(datatable), "multi": False}


@then(parsers.parse('the first event should hold the final state with the reason "{reason}"'))
def the_first_event_holds_the_final_state(talk: Talk, reason: str) -> None:
    event = talk.events[0]

    assert event.reason == reason
    assert event.final_state == talk.state.replace(events=[])
    assert event.final_state.status == "done"


@then(parsers.parse('the state should be of the session "{session_id}"'))
def the_state_is_of(talk: Talk, session_id: str) -> None:
    assert talk.state.session_id == session_id


@then("the state should have no messages")
def no_messages(talk: Talk) -> None:
    assert talk.state.messages == []


@then(parsers.parse('the initial status should be "{status}"'))
def the_initial_status_is(talk: Talk, status: str) -> None:
    assert talk.initial.status == status


@then("the times of creation and last modification should be set")
def the_times_are_set(talk: Talk) -> None:
    assert talk.initial.created_at.tzinfo is UTC
    assert talk.initial.last_modified == talk.initial.created_at


@then(parsers.parse('the state should have the message "{text}" of the user'))
def the_state_has_the_message(talk: Talk, text: str) -> None:
    assert talk.state.messages == [{"role": "user", "content": text}]


@then("the model should have called for the weather tool")
def the_model_calls_for_weather(talk: Talk) -> None:
    assert [call["function"]["name"] for call in talk.answer["tool_calls"]] == ["get_weather"]


@then(parsers.parse("there should be {count:d} pending call"))
def pending_calls(talk: Talk, count: int) -> None:
    assert len(talk.state.pending_tool_calls) == count


@then(parsers.parse('the model\'s answer should contain "{text}"'))
def the_answer_contains(talk: Talk, text: str) -> None:
    assert text in talk.answer["content"]


@then("the conversation should be the fold of its events")
def the_conversation_is_the_fold(talk: Talk) -> None:
    assert fold(talk.state.events, talk.initial) == talk.state


@then("the history should be the events of all steps in order")
def the_history_is_all_events(talk: Talk) -> None:
    assert talk.state.events == [event for result in talk.results for event in result.events]


@then("the state before the step should be what it was")
def the_state_before_is_what_it_was(talk: Talk) -> None:
    assert to_json(talk.states[-1]) == talk.told
    assert talk.states[-1].messages == talk.states[-1].events == []


@then("the new state should be another one")
def the_new_state_is_another(talk: Talk) -> None:
    assert talk.state is not talk.states[-1]
    assert talk.state != talk.states[-1]


@then("it should be impossible to change the state, its messages or its history")
def a_state_cannot_be_changed(talk: Talk) -> None:
    state: Any = talk.state

    with pytest.raises(FrozenInstanceError):
        state.status = "done"
    with pytest.raises(TypeError, match="cannot be changed"):
        state.messages[0]["content"] = "Bye"
    with pytest.raises(AttributeError):
        state.messages.append({})
    with pytest.raises(AttributeError):
        state.events.append({})


@then("each should have a session id of its own")
def ids_of_their_own(talk: Talk) -> None:
    assert all(state.session_id for state in talk.states)
    assert len({state.session_id for state in talk.states}) == len(talk.states)


@then("each session should have its own events and messages")
def sessions_are_apart(talk: Talk) -> None:
    for state, result in zip(talk.states, talk.results, strict=True):
        assert result.new_state.session_id == state.session_id
        assert result.new_state.events == result.events
        assert [getattr(event, "id", "") for event in result.events] == [f"call of {state.session_id}"]
        assert [message["tool_call_id"] for message in result.new_state.messages] == [f"call of {state.session_id}"]
