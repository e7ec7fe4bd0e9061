"""What a step does with what it is given and with what the runner returns."""

# What agents are made of is anybody's, and here it is lambdas mostly.
# pyright: reportUnknownLambdaType=none, reportUnknownArgumentType=none, reportUnknownVariableType=none
# pyright: reportUnknownMemberType=none

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from reenact import DeadlockError
from reenact.loop import (
    AgentContext,
    AgentRuntime,
    AgentState,
    CallLLM,
    CompressContext,
    Finish,
    InvalidStateError,
    StepResult,
    fold,
)
from tests.loop.support import Play, Scripted, a_call, events_of, streaming

HI = {"role": "user", "content": "hi"}


def test_the_runner_may_take_the_state_alone_or_the_context_too() -> None:
    def alone(state: AgentState) -> Finish:
        return Finish(state.session_id)

    def both(context: AgentContext, state: AgentState) -> Finish:
        return Finish(f"{context.phase} of {state.session_id}")

    def any_number(*given: Any) -> Finish:  # noqa: ANN401
        return Finish(str(len(given)))

    def optional(state: AgentState, verbose: bool = False) -> Finish:  # noqa: FBT001, FBT002
        return Finish(f"{type(state).__name__} {verbose}")

    def optional_state(context: AgentContext, state: AgentState | None = None) -> Finish:
        return Finish(f"{context.phase} {state is None}")

    class Unsigned:
        __signature__ = "none"

        def __call__(self, *given: Any) -> Finish:  # noqa: ANN401
            return Finish(str(len(given)))

    async def later(state: AgentState) -> Finish:
        return Finish("later")

    reasons = [
        events_of(AgentRuntime({"runner": runner}).run_step(AgentRuntime.create_initial_state("s")))[0].reason
        for runner in (alone, both, any_number, optional, optional_state, Unsigned(), later)
    ]

    assert reasons == ["s", "init of s", "2", "AgentState False", "init False", "2", "later"]


def test_a_runner_without_parameters_is_given_the_state_and_fails_for_it() -> None:
    def nothing() -> list[Any]:
        return []

    play = Play(Scripted([[]]))
    vars(play.agent)["runner"] = nothing

    play.step()

    assert play.error.startswith("TypeError: ")


def test_the_context_tells_what_has_just_happened() -> None:
    play = Play(
        Scripted(
            [
                CallLLM({"model": "m"}),
                {"type": "call_tool", "toolCall": a_call()},
                {"type": "call_tools_batch", "toolsCalling": [a_call("a"), a_call("b")]},
                [],
                {"type": "request_human_prompt", "prompt": "Why?"},
                [],
                {"type": "nothing"},
                [],
            ],
            tools={"tool": lambda _: 1},
        ),
        {"model_runtime": streaming({"content": "Hello"})},
        messages=[HI],
    )

    for _ in range(5):
        play.step()
    play.take(play.runtime.respond(play.state, "because"))
    for _ in range(3):
        play.step()

    told = [context for context, _ in play.agent.seen]
    assert [context.phase for context in told] == [
        "init",
        "llm_result",
        "tool_result",
        "tools_batch_result",
        "tools_batch_result",
        "human_response",
        "human_response",
        "error",
    ]
    assert told[1].payload == {
        "result": {"content": "Hello", "tool_calls": []},
        "has_tool_calls": False,
        "tool_calls": [],
    }
    assert told[2].payload == {"id": "c1", "name": "tool", "result": 1, "is_error": False}
    assert [each["id"] for each in told[3].payload["results"]] == ["a", "b"]
    assert told[5].payload == {"value": "because"}
    assert told[7].payload["error"]["message"] == "No executor found for instruction type: nothing"
    assert told[0].session == {"session_id": "s", "message_count": 1, "status": "idle", "step_count": 0}
    assert told[7].session == {"session_id": "s", "message_count": 5, "status": "error", "step_count": 7}


def test_the_next_context_is_what_the_next_runner_is_told() -> None:
    play = Play(Scripted([CallLLM(), []]), {"model_runtime": streaming({"content": "Hello"})})

    result = play.step()
    play.step()

    assert play.agent.seen[1][0] == result.next_context
    assert play.agent.seen[1][1] is result.new_state


@pytest.mark.parametrize("given", [AgentContext("user_input", {"a": 1}), {"phase": "user_input", "payload": {"a": 1}}])
def test_a_context_that_is_given_goes_to_the_runner(given: object) -> None:
    play = Play(Scripted([[]]))

    play.step(given)

    assert play.agent.seen[0][0] == {"phase": "user_input", "payload": {"a": 1}, "session": play.initial.session}


@pytest.mark.parametrize("given", ["Hello", {"role": "user", "content": "Hello"}])
def test_a_message_that_is_given_is_added_before_the_runner_decides(given: object) -> None:
    play = Play(Scripted([[]]))

    play.step(given)

    context, state = play.agent.seen[0]
    assert play.kinds == ["message_added"]
    assert play.state.messages == state.messages == [{"role": "user", "content": "Hello"}]
    assert (context.phase, context.payload) == ("user_input", {"message": {"role": "user", "content": "Hello"}})
    assert context.session == {**play.initial.session, "message_count": 1}


def test_a_user_who_speaks_after_the_end_is_told_to_the_runner() -> None:
    play = Play(Scripted([Finish(), []]))

    play.step()
    play.state = play.state.replace(messages=[HI])
    play.step()

    assert play.agent.seen[1][0].phase == "user_input"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (5, "InvalidInputError: a step is given a call of a tool, a context, a message or nothing; not 5"),
        ({"phase": "nowhere"}, "InvalidInputError: this is not a context: "),
        ({"role": ""}, "InvalidInputError: a message must be a mapping with a `role`, not {'role': ''}"),
        ("\ud800", "InvalidInputError: a message is not a JSON value: "),
        ({"type": "function"}, "InvalidToolCallError: a call of a tool needs an `id`"),
        (a_call(arguments="[]"), "InvalidToolCallError: the arguments of tool must be an object of JSON, not []"),
    ],
)
def test_what_means_nothing_is_an_error(given: object, error: str) -> None:
    play = Play(Scripted([[]]))

    play.step(given)

    assert play.kinds == ["error"]
    assert play.error.startswith(error)
    assert (play.state.status, play.agent.seen) == ("error", [])


def test_only_a_state_can_be_stepped_from() -> None:
    runtime = AgentRuntime(Scripted([[]]))
    state: Any = {"session_id": "s"}

    with pytest.raises(InvalidStateError, match="create_initial_state"):
        runtime.run_step(state)
    with pytest.raises(InvalidStateError):
        runtime.interrupt(state)
    with pytest.raises(InvalidStateError):
        runtime.resume(state)


def test_an_empty_list_is_a_step_that_does_nothing() -> None:
    play = Play(Scripted([[]]))

    play.step()
    play.step()

    assert play.kinds == ["step_completed"]
    assert (play.state.status, play.state.step_count) == ("running", 2)
    assert [event.step for event in play.state.events] == [1, 2]


@pytest.mark.parametrize("returned", [None, "finish", 5, {"kind": "finish"}, SimpleNamespace(type=3), [None]])
def test_what_is_no_instruction_is_an_error(returned: object) -> None:
    play = Play(Scripted([returned]))

    play.step()

    assert play.error.startswith("InvalidInstructionError: a runner returns instructions, which have a `type`")


@pytest.mark.parametrize("kind", ["nothing", "callLLM", ""])
def test_an_unknown_instruction_is_named(kind: str) -> None:
    play = Play(Scripted([{"type": kind}]))

    play.step()

    assert play.kinds == ["error"]
    assert kind in play.error


def test_after_a_failure_the_conversation_goes_on() -> None:
    play = Play(Scripted([{"type": "nothing"}, Finish("enough")]))

    play.step()
    assert play.state.error == {
        "type": "ExecutorNotFoundError",
        "message": "No executor found for instruction type: nothing",
    }
    play.step()

    assert (play.state.status, play.state.error) == ("done", None)


def test_what_earlier_instructions_did_is_kept_when_a_later_one_fails() -> None:
    agent = Scripted([[{"type": "call_tool", "toolCall": a_call()}, CallLLM()]], tools={"tool": lambda _: "ok"})
    play = Play(agent, {"model_runtime": streaming({"content": "Hel"}, ConnectionError("the line is dead"))})

    play.step()

    assert play.kinds == ["tool_result", "error"]
    assert play.error == "ConnectionError: the line is dead"
    assert play.answers == ['"ok"']


@pytest.mark.parametrize(
    "ending",
    [
        Finish(),
        {"type": "request_human_prompt", "prompt": "Why?"},
        {"type": "request_human_approve", "pendingToolsCalling": [a_call("other")]},
        {"type": "nothing"},
    ],
)
def test_nothing_is_executed_after_an_end_a_wait_or_a_failure(ending: object) -> None:
    calls: list[object] = []
    play = Play(Scripted([[ending, {"type": "call_tool", "tool_call": a_call()}]], tools={"tool": calls.append}))

    play.step()

    assert calls == []


def test_whoever_is_not_async_makes_steps_too_but_not_inside_of_a_loop() -> None:
    runtime = AgentRuntime(Scripted([Finish()]))
    state = AgentRuntime.create_initial_state()

    async def inside() -> None:
        with pytest.raises(DeadlockError, match="await step instead"):
            runtime.run_step(state)

    asyncio.run(inside())
    assert runtime.run_step(state).new_state.status == "done"


def test_a_cancellation_goes_through_and_all_else_is_an_event() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def converse() -> StepResult:
        started = asyncio.Event()

        async def waits(_: object) -> None:
            started.set()
            await asyncio.Event().wait()

        state = AgentRuntime.create_initial_state()
        step = asyncio.create_task(AgentRuntime(Scripted([[]], tools={"tool": waits})).step(state, a_call()))
        await started.wait()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        return await AgentRuntime({"runner": lambda state: cancelled()}).step(state)

    result = asyncio.run(converse())

    assert events_of(result)[0].error == {"type": "AbortedError", "message": "it cancelled itself"}


@pytest.mark.parametrize("what", ["runner", "tool", "model"])
def test_nobody_ends_the_process_from_within_a_step(what: str) -> None:
    def leave(*_: object) -> None:
        raise SystemExit(3)

    agent = {"runner": leave if what == "runner" else lambda state: CallLLM(), "tools": {"tool": leave}}
    runtime = AgentRuntime(agent, {"model_runtime": leave})

    result = runtime.run_step(AgentRuntime.create_initial_state(), a_call() if what == "tool" else None)

    assert events_of(result)[0].error.message == "it called for the end of the process, with 3"


def test_context_is_compressed_with_a_summary_that_is_given() -> None:
    messages = [{"role": "system", "content": "Be kind."}, *({"role": "user", "content": str(n)} for n in range(5))]
    play = Play(Scripted([CompressContext(keep=2, summary="0 to 2")]), messages=messages)

    play.step()

    assert play.kinds == ["compression_complete"]
    assert [message["content"] for message in play.state.messages] == [
        "Be kind.",
        "Summary of the conversation so far:\n0 to 2",
        "3",
        "4",
    ]
    assert play.event.replaced == tuple(messages[1:4])
    assert fold(play.state.events, play.initial) == play.state


def test_context_is_compressed_with_a_summary_by_the_model_and_paid_for() -> None:
    asked: list[Any] = []

    async def model(payload: Any) -> Any:  # noqa: ANN401
        asked.append(payload)
        return {"content": "all", "usage": {"input_tokens": 1_000_000}}

    instruction = {"type": "compress_context", "keep": 0, "prompt": "Sum up.", "payload": {"model": "m"}}
    play = Play(
        Scripted([instruction]), {"model_runtime": model, "prices": {"m": {"input": 3, "output": 1}}}, messages=[HI]
    )

    play.step()

    assert asked == [{"model": "m", "messages": [HI, {"role": "user", "content": "Sum up."}]}]
    assert play.state.messages == [{"role": "user", "content": "Summary of the conversation so far:\nall"}]
    assert (play.state.cost, play.state.ledger.models["m"].calls) == (3.0, 1)


def test_nothing_to_compress_is_no_reason_to_ask_a_model() -> None:
    play = Play(Scripted([CompressContext()]), messages=[HI])

    play.step()

    assert (play.kinds, play.event.summary) == (["compression_complete"], None)
    assert play.state.messages == [HI]
