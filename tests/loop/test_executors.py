"""Executors of somebody's own: what they are given, what they may return, and how it is recorded."""

# What agents are made of is anybody's, and here it is lambdas mostly.
# pyright: reportUnknownLambdaType=none, reportUnknownArgumentType=none, reportUnknownVariableType=none
# pyright: reportUnknownMemberType=none

from __future__ import annotations

import asyncio
import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from reenact.loop import (
    AgentContext,
    AgentRuntime,
    AgentState,
    Done,
    HumanPromptRequired,
    StepResult,
    fold,
    from_json,
    to_json,
)
from tests.loop.support import Play, Scripted, a_call, streaming

OWN = {"type": "own", "what": 5}


def own(executor: Any, *more: Any, **initial: Any) -> Play:  # noqa: ANN401
    """Return a conversation after a step in which the executor had its turn."""
    play = Play(Scripted([[OWN, *more]], executors={"own": executor}), **initial)
    play.step()
    assert fold(play.state.events, play.initial) == play.state
    assert from_json(to_json(play.state)) == play.state
    return play


def test_an_executor_is_given_the_instruction_the_state_and_the_context() -> None:
    given: list[Any] = []

    async def executor(*arguments: Any) -> Any:  # noqa: ANN401
        given.append(arguments)
        return [], arguments[1]

    own(executor)

    instruction, state, context = given[0]
    assert instruction is not None
    assert instruction == OWN
    assert (state.status, state.step_count) == ("running", 1)
    assert (type(context), context.phase) == (AgentContext, "init")


def test_an_executor_for_a_built_in_instruction_is_given_a_value_with_the_names_of_both() -> None:
    given: list[Any] = []

    def executor(instruction: Any, state: AgentState, context: AgentContext) -> Any:  # noqa: ANN401
        given.append(instruction)
        return [], state

    asked = {"type": "request_human_approve", "pendingToolsCalling": [a_call()]}
    odd = {"type": "request_human_approve", "mine": 1}
    Play(Scripted([[asked, odd]], executors={"request_human_approve": executor})).step()

    assert given[0].pending_tool_calls == given[0]["pendingToolsCalling"] == [a_call()]
    assert given[0].get("type") == "request_human_approve"
    assert given[0].get("mine", 2) == 2
    assert given[1] is odd


@pytest.mark.parametrize("shape", ["pair", "list", "triple", "result", "mapping", "documents"])
def test_an_executor_may_return_what_a_step_does(shape: str) -> None:
    def executor(instruction: Any, state: AgentState, context: Any) -> Any:  # noqa: ANN401
        events = [{"type": "counted", "howMany": 3}]
        changed = state.replace(metadata={"a": 1})
        told = AgentContext("user_input", {"b": 2})
        match shape:
            case "pair":
                return events, changed
            case "list":
                return [events, changed]
            case "triple":
                return events, changed, told
            case "result":
                shown: Any = events
                return StepResult(shown, changed, told)
            case "mapping":
                return {"events": events, "new_state": changed, "next_context": told}
            case _:
                return {
                    "events": events,
                    "newState": changed,
                    "nextContext": {"phase": "user_input", "payload": {"b": 2}},
                }

    play = own(executor)

    assert (play.kinds, play.event.how_many, play.event.step) == (["counted"], 3, 1)
    assert play.state.metadata == {"a": 1}
    if shape not in ("pair", "list"):
        assert play.result.next_context is not None
        assert (play.result.next_context.phase, play.result.next_context.payload) == ("user_input", {"b": 2})


def test_a_context_may_come_without_a_state() -> None:
    play = own(lambda instruction, state, context: ([], None, {"phase": "error"}))

    assert play.state.phase == "error"


@pytest.mark.parametrize(
    "returned", [None, 5, [], ([],), (5, None), ([], {"status": "done"}), ([5], None), ([{}], None)]
)
def test_what_is_not_events_and_a_state_is_an_error(returned: object) -> None:
    play = own(lambda *_: returned)

    assert play.error.startswith("InvalidOutcomeError: ")
    assert play.state.status == "error"


@pytest.mark.parametrize(
    "returned",
    [
        ([{"type": "x", "it": object()}], None),
        ([], None, {"phase": "nowhere"}),
        ([], None, 5),
        ([Done(reason="x", final_state={"no": "state"})], None),
        ([], AgentRuntime.create_initial_state().replace(ledger=object())),
    ],
)
def test_what_cannot_be_recorded_is_an_error(returned: object) -> None:
    play = own(lambda *_: returned)

    assert play.error.startswith("InvalidOutcomeError: ")


def test_events_that_have_a_meaning_have_it_also_as_mappings() -> None:
    events = [
        {"type": "done", "reason": "mine", "finalState": AgentRuntime.create_initial_state("x")},
        {"type": "error", "error": ValueError("mine")},
        {"type": "human_prompt_required", "prompt": "Why?"},
    ]

    play = own(lambda instruction, state, context: (events, state))

    assert [type(event).__name__ for event in play.result.events] == ["Done", "Failed", "HumanPromptRequired"]
    assert play.event.final_state.session_id == "x"
    assert play.events[1].error == {"type": "ValueError", "message": "mine"}
    assert play.events[2].session_id == "s"


def test_an_event_that_only_bears_a_known_name_is_somebodys_own() -> None:
    play = own(lambda instruction, state, context: ([{"type": "tool_pending", "toolCalls": [a_call()]}], state))

    assert (play.event.type, play.event.tool_calls) == ("tool_pending", [a_call()])
    assert not hasattr(play.event, "ids")


def test_returning_the_state_that_was_given_lets_the_events_tell_everything() -> None:
    play = own(lambda instruction, state, context: ([{"type": "done", "reason": "mine"}], state))

    assert (play.state.status, play.event.final_state.status) == ("done", "done")


def test_another_state_is_recorded_whatever_the_events_tell() -> None:
    def executor(instruction: Any, state: AgentState, context: Any) -> Any:  # noqa: ANN401
        changes: dict[str, Any] = {
            "status": "interrupted",
            "messages": [{"role": "user", "content": "new"}, *state.messages[1:]],
            "error": ValueError("mine"),
            "cost": 3,
            "pending_prompt": {"prompt": "Why?"},
        }
        changed = dataclasses.replace(state, **changes)
        return [{"type": "done", "reason": "mine"}], changed

    before = [{"role": "user", "content": "old"}, {"role": "user", "content": "same"}]
    play = own(executor, messages=before)

    assert (play.state.status, play.state.cost) == ("interrupted", 3.0)
    assert play.state.messages == [{"role": "user", "content": "new"}, before[1]]
    assert play.state.error == {"type": "ValueError", "message": "mine"}
    assert play.state.pending_prompt == {"prompt": "Why?"}


def test_messages_that_are_added_are_recorded_as_such() -> None:
    def executor(instruction: Any, state: AgentState, context: Any) -> Any:  # noqa: ANN401
        return [], state.replace(messages=[*state.messages, {"role": "assistant", "content": "b"}])

    play = own(executor, OWN, messages=[{"role": "user", "content": "a"}])

    assert [event.changes["messages"]["keep"] for event in play.events] == [1, 2]
    assert [message.content for message in play.state.messages] == ["a", "b", "b"]


def test_calls_that_an_executor_makes_pending_can_be_approved_and_rejected() -> None:
    def executor(instruction: Any, state: AgentState, context: Any) -> Any:  # noqa: ANN401
        calls = [a_call("a"), a_call("b")]
        return [], state.replace(status="waiting_for_human_input", pending_tool_calls=calls)

    play = own(executor)
    play.agent.tools = {"tool": lambda _: "ok"}

    play.step(a_call("a"))
    play.take(play.runtime.reject_tool_call(play.state, "b", "no"))

    assert play.answers[0] == '"ok"'
    assert (len(play.answers), play.state.status) == (2, "running")
    assert fold(play.state.events, play.initial) == play.state


def test_a_state_that_waits_for_nothing_we_know_of_can_be_interrupted_and_resumed() -> None:
    play = own(lambda instruction, state, context: ([], state.replace(status="waiting_for_human_input")))

    play.step()
    assert play.error.startswith("WaitingForHumanError")
    play.take(play.runtime.interrupt(play.state))
    play.take(play.runtime.resume(play.state))

    assert play.state.status == "running"


def test_a_state_that_is_interrupted_without_a_reason_can_be_resumed() -> None:
    play = own(lambda instruction, state, context: ([], state.replace(status="interrupted")))

    play.take(play.runtime.resume(play.state))

    assert play.state.status == "running"


def test_a_question_asked_after_the_end_is_not_asked() -> None:
    asked = HumanPromptRequired(session_id="s", prompt="Why?")

    play = own(lambda instruction, state, context: ([Done(reason="mine"), asked], state))

    assert (play.state.status, play.state.pending_prompt) == ("done", None)


def test_a_new_asking_about_a_call_takes_the_place_of_the_old_one() -> None:
    def executor(instruction: Any, state: AgentState, context: Any) -> Any:  # noqa: ANN401
        calls: list[Any] = [{"id": id_, "name": "tool", "arguments": {}} for id_ in ("a", "b")]
        asked = [{"type": "human_approve_required", "calls": [call]} for call in (*calls, calls[0])]
        return asked, state

    play = own(executor)

    assert [call.id for call in play.state.pending_tool_calls] == ["b", "a"]
    assert play.state.pending_tool_calls[0] == a_call("b")


def test_an_approved_call_is_run_by_the_executor_in_effect() -> None:
    given: list[Any] = []

    def executor(instruction: Any, state: AgentState, context: AgentContext) -> Any:  # noqa: ANN401
        given.append((instruction.tool_call, context.phase))
        return [{"type": "tool_result", "id": instruction.tool_call.id, "result": "mine"}], state

    play = Play(Scripted([[]], executors={"call_tool": executor}))
    play.step(a_call("a"))

    assert given == [(a_call("a"), "init")]
    assert play.answers == ['"mine"']


def test_an_executor_may_leave_the_work_to_a_built_in_one() -> None:
    async def delegating(instruction: Any, state: AgentState, context: AgentContext) -> Any:  # noqa: ANN401
        events, new_state = await built_in(instruction, state, context)
        return [*events, {"type": "also"}], new_state

    agent = Scripted([{"type": "call_llm"}], executors={"call_llm": delegating})
    play = Play(agent, {"model_runtime": streaming({"content": "Hello"})})
    built_in: Any = AgentRuntime(Scripted([[]]), {"model_runtime": streaming({"content": "Hello"})}).executors[
        "call_llm"
    ]

    play.step()

    assert play.kinds == ["llm_start", "llm_stream", "llm_result", "also"]
    assert fold(play.state.events, play.initial) == play.state


def test_a_built_in_executor_can_be_called_by_itself() -> None:
    runtime = AgentRuntime(Scripted([[]]))
    state = AgentRuntime.create_initial_state()

    finish: Any = runtime.executors["finish"]
    events, new_state = asyncio.run(finish({"type": "finish", "reason": "enough"}, state, None))

    assert [event.reason for event in events] == ["enough"]
    assert (new_state.status, new_state.step_count) == ("done", 1)


def test_a_built_in_executor_called_by_itself_raises_what_failed() -> None:
    model = streaming({"usage": {"input_tokens": 5}}, ConnectionError("dead"))
    executor: Any = AgentRuntime(Scripted([[]]), {"model_runtime": model}).executors["call_llm"]
    state = AgentRuntime.create_initial_state()

    with pytest.raises(ConnectionError, match="dead"):
        asyncio.run(executor({"type": "call_llm"}, state, None))


def test_the_table_of_executors_cannot_be_changed_and_shows_what_the_agent_has_now() -> None:
    agent = Scripted([[]])
    runtime = AgentRuntime(agent)
    table: Any = runtime.executors

    with pytest.raises(TypeError):
        table["finish"] = print
    agent.executors = {"finish": print}

    assert runtime.executors["finish"] is print
    assert SimpleNamespace(**runtime.executors).call_llm.__name__ == "call_llm"
