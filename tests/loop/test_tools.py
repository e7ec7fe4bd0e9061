"""Tools run at the same time, in any way they are written, and their failures are told."""

# What agents are made of is anybody's, and here it is lambdas mostly.
# pyright: reportUnknownLambdaType=none, reportUnknownArgumentType=none, reportUnknownVariableType=none
# pyright: reportUnknownMemberType=none

from __future__ import annotations

import asyncio
import contextvars
import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from reenact.actors.environment.tools.running import in_thread
from reenact.loop import AgentRuntime, Policy
from tests.loop.support import Play, Scripted, a_call

WHO = contextvars.ContextVar("WHO", default="nobody")


def described(run: Any, **spec: Any) -> Any:  # noqa: ANN401
    said = {"name": "tool", "cost": None, "intervention": None, "timeout": None, **spec}
    return SimpleNamespace(run=run, spec=SimpleNamespace(**said))


def test_a_tool_is_called_with_an_object_of_its_own() -> None:
    given: list[Any] = []

    def tool(arguments: dict[str, Any]) -> None:
        arguments["more"] = True
        given.append(arguments)

    play = Play(Scripted([[]], tools={"tool": tool}))
    play.step(a_call(arguments='{"list": [1, {"deep": null}]}'))

    assert given == [{"list": [1, {"deep": None}], "more": True}]
    assert (type(given[0]), type(given[0]["list"])) == (dict, list)


@pytest.mark.parametrize("arguments", ["", "{}", {}])
def test_no_arguments_are_an_empty_object(arguments: object) -> None:
    tool = Mock(return_value=1)
    play = Play(Scripted([[]], tools={"tool": tool}))

    play.step(a_call(arguments=arguments))

    tool.assert_called_once_with({})


@pytest.mark.parametrize(
    "tool",
    [
        lambda _: {"result": 42},
        Mock(return_value={"result": 42}),
        AsyncMock(return_value={"result": 42}),
        described(lambda _: {"result": 42}),
        described(AsyncMock(return_value={"result": 42})),
    ],
)
def test_a_tool_may_be_written_in_any_way(tool: object) -> None:
    play = Play(Scripted([[]], tools={"tool": tool}))

    play.step(a_call())

    assert play.event.result == {"result": 42}
    assert play.state.messages == [{"role": "tool", "tool_call_id": "c1", "content": '{"result":42}'}]


def test_described_tools_may_come_as_a_list() -> None:
    play = Play(Scripted([[]], tools=[described(lambda _: 1, name="one", cost=2)]))

    play.step(a_call(name="one"))

    assert (play.event.result, play.state.cost) == (1, 2.0)


def test_both_shapes_of_a_call_run() -> None:
    tool = Mock(return_value="sunny °C")
    play = Play(Scripted([[]], tools={"tool": tool}))

    play.step({"type": "tool_use", "id": "t1", "name": "tool", "input": {"city": "Beijing"}})

    tool.assert_called_once_with({"city": "Beijing"})
    assert play.state.messages == [{"role": "tool", "tool_call_id": "t1", "content": '"sunny °C"'}]


def test_tools_of_a_batch_run_at_the_same_time_also_those_that_block() -> None:
    meeting = threading.Barrier(12, timeout=60)
    calls = [a_call(str(number)) for number in range(12)]
    play = Play(
        Scripted([{"type": "call_tools_batch", "toolsCalling": calls}], tools={"tool": lambda _: meeting.wait()})
    )

    play.step()

    assert [event.id for event in play.events] == [call["id"] for call in calls]
    assert sorted(event.result for event in play.events) == list(range(12))
    assert not any(event.is_error for event in play.events)


def test_one_failing_tool_of_a_batch_takes_nothing_from_its_siblings() -> None:
    def fails(_: object) -> None:
        msg = "it broke"
        raise ValueError(msg)

    calls = [a_call("a", "good"), a_call("b", "bad"), a_call("c", "nowhere"), a_call("d", "odd"), a_call("e", "good")]
    tools = {"good": lambda _: "ok", "bad": fails, "odd": lambda _: object()}
    play = Play(Scripted([{"type": "call_tools_batch", "toolsCalling": calls}], tools=tools))

    play.step()

    assert play.kinds == ["tool_result"] * 5
    assert [(event.id, event.is_error, event.ran) for event in play.events] == [
        ("a", False, True),
        ("b", True, True),
        ("c", True, False),
        ("d", True, True),
        ("e", False, True),
    ]
    assert [event.result for event in play.events[:3]] == ["ok", "it broke", "Tool not found: nowhere"]
    assert play.events[3].result.startswith("what odd returned is not a JSON value: ")
    assert play.answers[1] == '"it broke"'
    assert (play.state.status, play.result.next_context and play.result.next_context.phase) == (
        "running",
        "tools_batch_result",
    )


def test_an_empty_batch_does_nothing() -> None:
    play = Play(Scripted([{"type": "call_tools_batch", "toolsCalling": []}]))

    play.step()

    assert play.kinds == ["step_completed"]


@pytest.mark.parametrize("given", ["instruction", "input"])
@pytest.mark.parametrize("name", ["tool", "nowhere"])
def test_a_single_call_that_fails_is_an_error_or_an_answer_as_is_configured(given: str, name: str) -> None:
    def fails(_: object) -> None:
        msg = "it broke"
        raise ValueError(msg)

    call = a_call(name=name)
    message = "it broke" if name == "tool" else "Tool not found: nowhere"
    agent = Scripted([{"type": "call_tool", "toolCall": call}], tools={"tool": fails})
    failing, feeding_back = Play(agent), Play(agent, {"on_tool_error": "feedback"})

    for play in (failing, feeding_back):
        play.step(call if given == "input" else None)

    assert (failing.kinds, failing.event.error.message) == (["error"], message)
    assert (failing.state.status, failing.state.messages) == ("error", [])
    assert (feeding_back.kinds, feeding_back.event.is_error, feeding_back.event.result) == (
        ["tool_result"],
        True,
        message,
    )
    assert (feeding_back.state.status, feeding_back.answers) == ("running", [f'"{message}"'])


def test_a_failed_tool_is_paid_for_if_it_ran() -> None:
    def fails(_: object) -> None:
        raise ValueError

    play = Play(Scripted([[]], tools={"tool": described(fails, cost=0.5)}))

    play.step(a_call())

    assert (play.error, play.state.cost) == ("ValueError: ValueError", 0.5)
    assert play.state.ledger.tools["tool"].calls == 1


def test_a_tool_that_takes_too_long_fails() -> None:
    async def sleeps(_: object) -> None:
        await asyncio.Event().wait()

    play = Play(Scripted([[]], tools={"tool": described(sleeps, timeout=0.01)}))

    play.step(a_call())

    assert play.error == "ToolTimeoutError: tool did not return within 0.01 seconds"


def test_a_time_out_of_the_tools_own_is_its_own() -> None:
    async def times_out(_: object) -> None:
        raise TimeoutError("mine")

    play = Play(Scripted([[]], tools={"tool": described(times_out, timeout=60)}))

    play.step(a_call())

    assert play.error == "TimeoutError: mine"


def test_the_policy_of_a_described_tool_holds_unless_the_configuration_has_another() -> None:
    def play(**config: Any) -> Play:  # noqa: ANN401
        tools = {"tool": described(lambda _: 1, intervention="required")}
        return Play(Scripted([{"type": "call_tool", "toolCall": a_call()}], tools=tools), config)

    own, other = play(), play(policies={"tool": Policy("never")})

    own.step()
    other.step()

    assert own.kinds == ["human_approve_required", "tool_pending"]
    assert other.kinds == ["tool_result"]


def test_tools_that_are_added_later_count_with_their_policies() -> None:
    agent = Scripted([{"type": "call_tool", "toolCall": a_call()}], tools={})
    play = Play(agent)
    agent.tools = {"tool": described(lambda _: 1, intervention="always")}

    play.step()

    assert play.state.status == "waiting_for_human_input"


def test_a_tool_on_a_thread_knows_the_context_it_was_called_in() -> None:
    play = Play(Scripted([[]], tools={"tool": lambda _: WHO.get()}))
    token = WHO.set("me")

    try:
        play.step(a_call())
    finally:
        WHO.reset(token)

    assert play.event.result == "me"


def test_a_function_that_raises_stop_iteration_fails_like_any_other() -> None:
    play = Play(Scripted([[]], tools={"tool": lambda _: next(iter([]))}))

    play.step(a_call())

    assert play.error == "RuntimeError: the function raised StopIteration"


def test_nobody_waits_for_a_thread_of_a_step_that_was_cancelled() -> None:
    go_on, over = threading.Event(), threading.Event()

    def blocks(_: object) -> None:
        go_on.wait(60)
        over.set()

    async def converse() -> None:
        runtime = AgentRuntime(Scripted([[]], tools={"tool": blocks}))
        step = asyncio.create_task(runtime.step(AgentRuntime.create_initial_state(), a_call()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        go_on.set()
        await asyncio.to_thread(over.wait, 20)
        await asyncio.sleep(0)

    asyncio.run(converse())

    assert over.is_set()


def test_a_thread_that_outlives_its_loop_ends_in_silence() -> None:
    go_on = threading.Event()
    before = set(threading.enumerate())

    async def converse() -> None:
        task = asyncio.create_task(in_thread(lambda: go_on.wait(60), "the test"))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(converse())
    (left,) = set(threading.enumerate()) - before
    go_on.set()
    left.join(60)

    assert not left.is_alive()


@pytest.mark.parametrize("result", [float("nan"), {"x": [float("inf")]}])
def test_a_result_that_json_does_not_have_is_a_failure_of_the_tool(result: object) -> None:
    play = Play(Scripted([[]], tools={"tool": lambda _: result}))

    play.step(a_call(arguments="{}"))

    (event,) = play.events
    assert event.type == "error"
    assert "not a JSON number" in event.error.message
