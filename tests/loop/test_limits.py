"""Limits stop, interrupt or warn, beyond what they allow and not at it."""

# What agents are made of is anybody's, and here it is lambdas mostly.
# pyright: reportUnknownLambdaType=none, reportUnknownArgumentType=none, reportUnknownVariableType=none
# pyright: reportUnknownMemberType=none

from __future__ import annotations

import math
from typing import Any

import pytest

from reenact.loop import AgentRuntime, CallLLM, CostLimit, Finish, Price, fold
from tests.loop.support import Play, Scripted, a_call, streaming

DEAR = {
    "model_runtime": streaming({"content": "Hello", "usage": {"input_tokens": 1_000_000}}),
    "prices": {"m": Price(1, 1)},
}
CALL = CallLLM({"model": "m"})


@pytest.mark.parametrize("max_steps", [0, -1, True, 1.5, "3"])
def test_a_number_of_steps_is_a_number_of_one_or_more(max_steps: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="max_steps must be a number of 1 or more"):
        AgentRuntime.create_initial_state(max_steps=max_steps)


@pytest.mark.parametrize("field", ["events", "pending_tool_calls"])
def test_what_comes_as_a_list_is_one(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} come as a list, not as 5"):
        AgentRuntime.create_initial_state().replace(**{field: 5})


@pytest.mark.parametrize("endless", [math.inf, CostLimit(math.inf), {"max_total": math.inf}])
def test_an_endless_cost_limit_is_none(endless: Any) -> None:  # noqa: ANN401
    assert AgentRuntime.create_initial_state(cost_limit=endless).cost_limit is None


def test_beyond_the_last_step_the_conversation_is_done() -> None:
    play = Play(Scripted([[]]), max_steps=2)

    play.step()
    play.step()
    assert play.state.status == "running"
    play.step()

    assert (play.kinds, play.event.reason) == (["done"], "max_steps_exceeded")
    assert (play.state.status, play.event.final_state.status) == ("done", "done")
    play.step()
    assert play.event.reason == "max_steps_exceeded"


def test_to_finish_is_always_possible_and_does_not_count() -> None:
    play = Play(Scripted([[], Finish("enough"), [], Finish("really"), []]), max_steps=2)

    reasons = [getattr(play.step().events[0], "reason", None) for _ in range(5)]

    assert reasons == [None, "enough", None, "really", "max_steps_exceeded"]


def test_a_finish_of_somebodys_own_does_not_count_either() -> None:
    agent = Scripted([Finish(), []], executors={"finish": lambda instruction, state, context: ([], state)})
    play = Play(agent, max_steps=1)

    play.step()
    play.step()
    play.step()

    assert [event.type for event in play.state.events] == ["step_completed", "step_completed", "done"]
    assert fold(play.state.events, play.initial) == play.state


def test_a_finish_that_fails_is_a_failure() -> None:
    play = Play(Scripted([Finish()], executors={"finish": lambda *_: 1 / 0}), max_steps=1)

    play.step()

    assert play.error == "ZeroDivisionError: division by zero"


def test_no_call_runs_beyond_the_last_step_and_those_that_wait_are_answered() -> None:
    tool: list[object] = []
    agent = Scripted([{"type": "request_human_approve", "pendingToolsCalling": [a_call("a"), a_call("b")]}])
    agent.tools = {"tool": tool.append}
    play = Play(agent, max_steps=1)

    play.step()
    play.step(a_call("a"))

    assert play.kinds == ["done", "tool_result", "tool_result"]
    assert (play.state.status, play.state.pending_tool_calls, tool) == ("done", [], [])
    assert len(play.answers) == 2
    assert fold(play.state.events, play.initial) == play.state


def test_answers_of_people_are_not_counted() -> None:
    play = Play(Scripted([{"type": "request_human_prompt", "prompt": "Why?"}, Finish()]), max_steps=1)

    play.step()
    play.take(play.runtime.respond(play.state, "because"))
    play.step()

    assert play.event.reason == "completed"


@pytest.mark.parametrize("limit", [1.0, {"max_total": 1}, {"maxTotal": 1, "onExceeded": "stop"}, CostLimit(1.0)])
def test_beyond_what_it_may_cost_the_conversation_stops(limit: Any) -> None:  # noqa: ANN401
    play = Play(Scripted([CALL]), DEAR, cost_limit=limit)

    play.step()
    assert (play.state.cost, play.state.status) == (1.0, "running")
    play.step()

    assert play.kinds == ["done", "llm_start", "llm_stream", "llm_result"]
    assert (play.event.reason, play.event.final_state.cost) == ("cost_limit_exceeded", 2.0)
    assert (play.state.status, play.state.cost, play.state.ledger.models["m"].calls) == ("done", 2.0, 2)
    assert fold(play.state.events, play.initial) == play.state


def test_beyond_what_it_may_cost_the_conversation_is_interrupted() -> None:
    limit = CostLimit(0.5, "interrupt")
    play = Play(Scripted([[CALL, CALL]]), DEAR, cost_limit=limit)

    play.step()

    assert play.kinds == ["interrupted", "llm_start", "llm_stream", "llm_result"]
    assert (play.state.status, play.state.cost) == ("interrupted", 1.0)
    play.take(play.runtime.resume(play.state, "go on"))
    assert play.state.status == "running"


def test_a_limit_that_warns_warns_once() -> None:
    play = Play(Scripted([CALL]), DEAR, cost_limit=CostLimit(0.5, "warn"))

    play.step()
    assert (play.kinds[-1], play.events[-1].reason) == ("warning", "cost_limit_exceeded")
    play.step()

    assert "warning" not in play.kinds
    assert play.state.status == "running"


def test_what_has_no_price_costs_nothing_that_is_known() -> None:
    play = Play(Scripted([CallLLM({"model": "other"})]), DEAR, cost_limit=CostLimit(0))

    play.step()

    assert (play.state.status, play.state.cost, play.state.ledger.models["other"].unpriced) == ("running", 0.0, 1)


def test_tools_cost_too_and_a_call_that_is_approved_is_paid_for() -> None:
    class Priced:
        cost = 2

        def __call__(self, arguments: object) -> str:
            return "ok"

    agent = Scripted([{"type": "request_human_approve", "pendingToolsCalling": [a_call("a"), a_call("b")]}])
    agent.tools = {"tool": Priced()}
    play = Play(agent, cost_limit=1)

    play.step()
    play.step(a_call("a"))

    assert play.kinds == ["done", "tool_result", "tool_result"]
    assert play.answers[0] == '"ok"'
    assert "it was not run" in play.answers[1]
    assert play.state.cost == 2.0


def test_who_is_asked_in_the_step_that_ends_a_conversation_is_answered_by_its_end() -> None:
    class Priced:
        cost = 2

        def __call__(self, arguments: object) -> str:
            return "ok"

    calls = [a_call("a", "free"), a_call("b", "asked")]
    agent = Scripted([{"type": "call_tools_batch", "toolsCalling": calls}], tools={"free": Priced(), "asked": Priced()})
    play = Play(agent, {"policies": {"asked": "required"}}, cost_limit=1)

    play.step()

    assert play.kinds == ["done", "tool_result", "human_approve_required", "tool_pending", "tool_result"]
    assert (play.state.status, play.state.pending_tool_calls) == ("done", [])
    assert fold(play.state.events, play.initial) == play.state


@pytest.mark.parametrize(
    "limit", [-1, {"max_total": "x"}, {"max_total": 1, "on_exceeded": "cry"}, "1", {}, float("nan")]
)
def test_a_limit_is_an_amount_and_what_is_done_beyond_it(limit: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="cost limit"):
        AgentRuntime.create_initial_state(cost_limit=limit)


@pytest.mark.parametrize(("told", "counted"), [([], False), ([{"type": "error", "error": ValueError("no")}], True)])
def test_a_finish_of_ones_own_counts_as_a_step_only_if_it_is_an_error(told: list[Any], counted: bool) -> None:  # noqa: FBT001
    play = Play(Scripted([{"type": "finish"}], executors={"finish": lambda *_: (told, None)}), max_steps=5)
    play.step()

    assert play.state.free_steps == (0 if counted else 1)
