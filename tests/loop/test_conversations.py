"""Any conversation, with anything going wrong in it, is the fold of its events; and no call escapes the policy."""

# What agents are made of is anybody's, and here it is lambdas mostly.
# pyright: reportUnknownLambdaType=none, reportUnknownArgumentType=none, reportUnknownVariableType=none
# pyright: reportUnknownMemberType=none
# ruff: noqa: ANN401 - what runners, tools and models are given and give is anybody's

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.domain.loop.events import AgentEvent
from reenact.loop import (
    AgentRuntime,
    AgentRuntimeConfig,
    AgentState,
    CallLLM,
    CompressContext,
    CostLimit,
    Failed,
    Finish,
    HumanApproveRequired,
    LLMResult,
    NotResumableError,
    Policies,
    Policy,
    Price,
    StepResult,
    ToolResult,
    fold,
    from_json,
    to_json,
)
from reenact.testing.portrait import differences, portrait
from tests.examples import examples

IDS = st.sampled_from("abc")
NAMES = st.sampled_from(["free", "slow", "priced", "fails", "odd", "guarded", "once", "forbidden", "nowhere"])
ARGUMENTS = st.sampled_from(["", "{}", '{"x":1}', '{"x":true}', "[]", "{", "null"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda each: st.lists(each, max_size=2) | st.dictionaries(st.text(), each, max_size=2),
    max_leaves=4,
)
GARBAGE = st.one_of(JSON, st.just(object()), st.just({"type": "call_tool"}), st.just({"role": 5}), st.just("\ud800"))


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    id_, name, arguments = draw(IDS), draw(NAMES), draw(ARGUMENTS)
    if draw(st.booleans()):
        return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"type": "tool_use", "id": id_, "name": name, "input": {"x": 2}}


def instructions() -> st.SearchStrategy[Any]:
    several = st.lists(calls(), max_size=3)
    options = st.lists(st.sampled_from(["red", "blue"]), max_size=3)
    return st.one_of(
        st.builds(lambda model: CallLLM({"model": model}), st.sampled_from(["cheap", "unknown", "breaks", "rubbish"])),
        st.builds(lambda call: {"type": "call_tool", "toolCall": call}, calls()),
        st.builds(lambda those: {"type": "call_tools_batch", "toolsCalling": those}, several),
        st.builds(lambda those: {"type": "request_human_approve", "pendingToolsCalling": those}, several),
        st.builds(lambda told: {"type": "request_human_prompt", "prompt": "Why?", "metadata": told}, JSON),
        st.builds(
            lambda those, multi: {"type": "request_human_select", "prompt": "Which?", "options": those, "multi": multi},
            options,
            st.booleans(),
        ),
        st.builds(lambda summary: CompressContext(keep=1, summary=summary), st.none() | st.text(max_size=3)),
        st.just(Finish("enough")),
        st.just({"type": "own"}),
        GARBAGE,
    )


ACTIONS = st.one_of(
    st.tuples(st.just("step"), st.lists(instructions(), max_size=3) | instructions()),
    st.tuples(st.just("step"), st.lists(instructions(), max_size=3)),
    st.tuples(st.just("step"), st.just({"type": "own"}) | st.just([{"type": "own"}, CallLLM({"model": "cheap"})])),
    st.tuples(st.just("raise"), st.sampled_from([ValueError("no"), SystemExit(3), asyncio.CancelledError()])),
    st.tuples(st.just("say"), st.text(max_size=3)),
    st.tuples(st.just("approve"), st.none() | ARGUMENTS | calls()),
    st.tuples(st.just("reject"), st.booleans()),
    st.tuples(st.just("respond"), st.sampled_from(["red", "green", ["red"], [], 5])),
    st.tuples(st.just("interrupt"), st.booleans()),
    st.tuples(st.just("resume"), st.none() | st.just({"phase": "user_input"})),
    st.tuples(st.just("hand"), GARBAGE),
)
SEEN = st.lists(
    st.builds(lambda it: {"type": "seen", "it": it}, JSON) | st.just({"type": "done"}) | st.just(Finish()), max_size=2
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["running", "done", "interrupted", "waiting_for_human_input", "error"]),
        "metadata": st.dictionaries(st.text(), JSON, max_size=2),
        "cost": st.floats(0, 3),
        "error": st.just(ValueError("its own")),
        "messages": st.lists(st.builds(lambda text: {"role": "user", "content": text}, st.text()), max_size=2),
        "pending_tool_calls": st.lists(calls(), max_size=1),
    },
)
OWN = st.sampled_from(["given", "changed", "odd"]).flatmap(
    lambda kind: st.tuples(SEEN, st.just("given") if kind == "given" else CHANGES) if kind != "odd" else GARBAGE
)


@dataclass
class Agent:
    """Does what it is told to, and notes which tools ran while a person had just approved something."""

    own: Any
    asked: Any = None
    approving: bool = False
    ran: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])

    async def runner(self, context: Any, state: AgentState) -> Any:
        if isinstance(self.asked, BaseException):
            raise self.asked
        return self.asked

    @property
    def tools(self) -> Mapping[str, Any]:
        class Priced:
            cost = 0.25

            def __call__(self, arguments: dict[str, Any]) -> Any:
                return note("priced", arguments)

        note = self.note

        async def slow(arguments: dict[str, Any]) -> Any:
            await asyncio.sleep(0)
            return self.note("slow", arguments)

        def fails(arguments: dict[str, Any]) -> Any:
            self.note("fails", arguments)
            msg = "it broke"
            raise ValueError(msg)

        plain = {
            name: lambda arguments, name=name: self.note(name, arguments)
            for name in ("free", "guarded", "once", "forbidden")
        }
        return {**plain, "slow": slow, "fails": fails, "priced": Priced(), "odd": lambda _: object()}

    def note(self, name: str, arguments: dict[str, Any]) -> Any:
        self.ran.append((name, self.approving))
        arguments["changed"] = True
        return {"from": name}

    @property
    def executors(self) -> Mapping[str, Any]:
        def own(instruction: Any, state: AgentState, context: Any) -> Any:
            match self.own:
                case (events, dict(changes)):
                    return events, state.replace(**changes)
                case (events, "given"):
                    return events, state
                case _:
                    return self.own

        return {"own": own}


async def model(payload: dict[str, Any]) -> AsyncIterator[Any]:
    yield {"content": "Hello", "usage": {"input_tokens": 100, "output_tokens": 7}}
    if payload.get("model") == "breaks":
        msg = "the line is dead"
        raise ConnectionError(msg)
    if payload.get("model") == "rubbish":
        yield {"content": 5}
    yield {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "free", "arguments": "{}"}}]}


def ticking() -> Iterator[datetime]:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    while True:
        now += timedelta(seconds=1)
        yield now


async def act(runtime: AgentRuntime, agent: Agent, state: AgentState, kind: str, told: Any) -> StepResult:
    agent.asked, agent.approving = None, False
    match kind:
        case "step" | "raise":
            agent.asked = told
            return await runtime.step(state)
        case "say":
            agent.asked = []
            return await runtime.step(state, told)
        case "approve":
            agent.approving = True
            call: Any = told if isinstance(told, dict) else pending(state)
            if isinstance(told, str) and "function" in call:
                call = {**call, "function": {**call["function"], "arguments": told}}
            return await runtime.approve_tool_call(state, call)
        case "reject":
            return runtime.reject_tool_call(state, pending(state), "no", resume=told)
        case "respond":
            return runtime.respond(state, told)
        case "interrupt":
            return runtime.interrupt(state, "stop", told)
        case "resume":
            if state.status == "interrupted" and (not state.interruption or state.interruption.can_resume):
                resumed: Any = runtime.resume(state, "on", told)
                result: StepResult = await resumed
                return result
            with pytest.raises(NotResumableError):
                runtime.resume(state, "on", told)
            return await runtime.step(state, {"type": "function", "id": "z"})
        case _:
            return await runtime.step(state, told)


def pending(state: AgentState) -> Mapping[str, Any]:
    a_call = {"id": "z", "type": "function", "function": {"name": "free", "arguments": "{}"}}
    return state.pending_tool_calls[0] if state.pending_tool_calls else a_call


def naive_cost(state: AgentState) -> float:
    return sum(getattr(event, "cost", None) or 0.0 for event in state.events)


def naive_pending(state: AgentState) -> list[str]:
    waiting: list[str] = []
    for event in state.events:
        match event:
            case HumanApproveRequired():
                ids = [call.id for call in event.calls]
                waiting = [id_ for id_ in waiting if id_ not in ids] + ids
            case ToolResult():
                waiting = [id_ for id_ in waiting if id_ != event.id]
            case Failed(call_id=str(id_)):
                waiting = [each for each in waiting if each != id_]
            case _:
                pass
    return waiting


@settings(deadline=None, max_examples=examples(100))
@given(
    actions=st.lists(ACTIONS, max_size=12),
    own=OWN,
    on_tool_error=st.sampled_from(["fail", "feedback"]),
    appended=st.booleans(),
    max_steps=st.none() | st.integers(1, 6),
    cost_limit=st.none()
    | st.builds(CostLimit, st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from(["stop", "interrupt", "warn"])),
)
def test_a_conversation_is_the_fold_of_its_events_whatever_happens(  # noqa: PLR0917 - drawn
    actions: list[tuple[str, Any]],
    own: Any,
    on_tool_error: Any,
    appended: bool,  # noqa: FBT001 - drawn
    max_steps: int | None,
    cost_limit: CostLimit | None,
) -> None:
    agent = Agent(own)
    policies = Policies(tools={"guarded": Policy("required"), "once": Policy("first")}, deny=("forbidden",))
    config = AgentRuntimeConfig(
        model_runtime=model,
        policies=policies,
        prices={"cheap": Price(1000, 2000), "breaks": Price(1000, 1000)},
        on_tool_error=on_tool_error,
        append_assistant_message=appended,
        clock=ticking().__next__,
    )
    runtime = AgentRuntime(agent, config)
    initial = runtime.create_initial_state(
        "s", [{"role": "user", "content": "hi"}], max_steps=max_steps, cost_limit=cost_limit
    )

    async def converse() -> None:
        state = initial
        for kind, told in actions:
            before, text = portrait(state, "state"), to_json(state)
            result = await act(runtime, agent, state, kind, told)
            assert differences(before, portrait(state, "state")) == []
            assert to_json(state) == text
            check(initial, state, result)
            state = result.new_state
        changed = any(event.changes for event in state.events)
        if not changed:
            assert state.cost == pytest.approx(naive_cost(state))
            assert state.ledger.cost == pytest.approx(naive_cost(state))
            assert [call.id for call in state.pending_tool_calls] == naive_pending(state)

    asyncio.run(converse())

    assert "forbidden" not in [name for name, _ in agent.ran]
    assert all(approved for name, approved in agent.ran if name == "guarded")


def check(initial: AgentState, before: AgentState, result: StepResult) -> None:
    state = result.new_state
    assert isinstance(state, AgentState)
    assert all(isinstance(event, AgentEvent) for event in state.events)
    assert list(state.events) == [*before.events, *result.events]
    assert fold(state.events, initial) == state
    assert fold(result.events, before) == state
    text = to_json(state)
    json.loads(text)
    assert from_json(text) == state
    assert to_json(from_json(text)) == text
    assert from_json(to_json(result.events)) == result.events
    assert all(event.timestamp is not None for event in result.events)
    counted = [event for event in result.events if isinstance(event, ToolResult)]
    assert len({event.id for event in counted}) == len(counted) or len(result.events) > 1
    if not any(event.changes for event in result.events):
        answers = [
            message["tool_call_id"] for message in state.messages[len(before.messages) :] if message["role"] == "tool"
        ]
        if not any(event.type == "compression_complete" for event in result.events):
            assert answers == [event.id for event in counted]
    if isinstance(result.events[0] if result.events else None, LLMResult):
        assert result.events[0].step == state.step_count
