"""People approve, edit, reject, answer, interrupt and resume; the policy says when they are asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reenact.loop import (
    AgentRuntime,
    CallLLM,
    CallTool,
    InvalidStateError,
    NotResumableError,
    Policies,
    Policy,
    RequestHumanApprove,
    Rule,
    from_json,
    path,
    state_from_json,
    to_json,
)
from tests.loop.support import Play, Scripted, a_call, ask_about, events_of, run_call, run_calls, streaming

PROMPT = {"type": "request_human_prompt", "prompt": "Why?", "metadata": {"urgent": True}}
TOOL_USE = {"type": "tool_use", "id": "c1", "name": "tool", "input": {"x": 1}}


def select(*, multi: bool = False) -> dict[str, Any]:
    options = [{"label": "Red", "value": "r"}, {"label": "Both", "value": {"r": 1}}, {"label": "Blue", "value": 3}]
    return {"type": "request_human_select", "prompt": "Which?", "options": options, "multi": multi}


class Noted:
    """A tool that notes what it is called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, arguments: Any) -> str:  # noqa: ANN401
        self.calls.append(arguments)
        return "ok"


def waiting(*calls: dict[str, Any], **config: Any) -> tuple[Play, Noted]:  # noqa: ANN401
    """Return a conversation that waits for the approval of the calls."""
    tool = Noted()
    agent = Scripted([{"type": "request_human_approve", "pendingToolsCalling": [*calls]}, []], tools={"tool": tool})
    play = Play(agent, config)
    play.step()
    assert play.kinds == ["human_approve_required", "tool_pending"]
    return play, tool


def test_an_approved_call_runs_and_the_state_waits_for_the_others() -> None:
    play, tool = waiting(a_call("a", arguments='{"x":1}'), a_call("b"))

    play.step(a_call("a", arguments='{"x": 1}'))

    assert (play.kinds, play.event.id, tool.calls) == (["tool_result"], "a", [{"x": 1}])
    assert (play.state.status, [call.id for call in play.state.pending_tool_calls]) == (
        "waiting_for_human_input",
        ["b"],
    )
    assert play.result.next_context is None

    then = play.step(play.state.pending_tool_calls[0])

    assert (play.state.status, play.state.pending_tool_calls) == ("running", [])
    assert then.next_context == {"phase": "tool_result", "payload": play.state.payload, "session": play.state.session}


def test_what_is_asked_about_is_the_call_as_it_was_written() -> None:
    play, tool = waiting(TOOL_USE)

    assert play.event.pending_tool_calls == (TOOL_USE,)
    assert play.state.pending_tool_calls == [TOOL_USE]
    asyncio.run(play.runtime.approve_tool_call(play.state, TOOL_USE))
    assert tool.calls == [{"x": 1}]


def test_approving_twice_runs_the_call_once() -> None:
    play, tool = waiting(a_call("a"))

    play.step(a_call("a"))
    once = play.state
    play.step(a_call("a"))

    assert play.error.startswith("CallNotPendingError: call 'a' cannot be decided like that")
    assert len(tool.calls) == 1
    assert play.state.replace(events=once.events) == once


def test_approving_one_of_those_before_while_another_is_pending_is_refused() -> None:
    play, tool = waiting(a_call("a"), a_call("b"))

    play.step(a_call("a"))
    play.step(a_call("a"))

    assert play.error.startswith("CallNotPendingError")
    assert (len(tool.calls), play.state.status) == (1, "waiting_for_human_input")


@pytest.mark.parametrize("given", [a_call("z"), a_call("a", name="other"), a_call("a", arguments="[]"), None, "yes"])
def test_what_is_no_decision_about_a_pending_call_changes_nothing(given: object) -> None:
    play, tool = waiting(a_call("a"))
    before = play.state

    play.step(given)

    assert play.kinds == ["error"]
    assert play.event.refused
    assert play.state.replace(events=before.events) == before
    assert tool.calls == []


def test_an_edited_call_is_recorded_and_runs_as_edited() -> None:
    play, tool = waiting(TOOL_USE)

    play.step({**TOOL_USE, "input": {"x": True}})

    assert play.kinds == ["tool_edited", "tool_result"]
    assert (play.event.original, play.event.edited) == ({"x": 1}, {"x": True})
    assert tool.calls == [{"x": True}]


def test_an_edit_passes_the_policy_again() -> None:
    policies = {"tools": {"tool": {"rules": [{"when": {"path": "/etc"}, "mode": "deny"}]}}}
    play, tool = waiting(a_call("a"), policies=policies)

    play.step(a_call("a", arguments='{"path": "/etc"}'))

    assert play.kinds == ["tool_edited", "tool_result"]
    assert play.events[1].is_error
    assert "was not run with the edited arguments" in play.events[1].result
    assert (tool.calls, play.state.status) == ([], "running")


def test_an_approved_call_that_fails_is_decided_and_the_error_told() -> None:
    play, _ = waiting(a_call("a", name="nowhere"), a_call("b"))

    play.step(a_call("a", name="nowhere"))

    assert (play.kinds, play.error) == (["error"], "ToolNotFoundError: Tool not found: nowhere")
    assert (play.state.status, [call.id for call in play.state.pending_tool_calls]) == ("error", ["b"])
    play.step(a_call("b"))
    assert play.kinds == ["tool_result"]


def test_an_approval_holds_under_the_policies_of_today() -> None:
    play, tool = waiting(a_call("a", name="tool"), a_call("b"))
    denying = AgentRuntime(play.agent, {"deny": ["tool"]})
    asking = AgentRuntime(play.agent, {"policies": {"tool": "always"}})

    denied, approved = denying.run_step(play.state, a_call("a")), asking.run_step(play.state, a_call("a"))

    assert events_of(denied)[0].is_error
    assert not events_of(approved)[0].is_error
    assert len(tool.calls) == 1


def test_a_call_that_nobody_asked_about_runs_when_it_is_handed_in_unless_it_is_denied() -> None:
    tool = Noted()
    agent = Scripted([[]], tools={"tool": tool})
    asked = Play(agent, {"policies": {"tool": "always"}})
    denied = Play(agent, {"policies": Policies(deny=("tool",))})

    asked.step(a_call())
    denied.step(a_call())

    assert (asked.kinds, denied.kinds, len(tool.calls)) == (["tool_result"], ["tool_result"], 1)
    assert denied.event.is_error
    assert "was not run" in denied.answers[0]


@pytest.mark.parametrize("by", ["id", "call"])
def test_a_rejected_call_is_answered_and_the_model_sees_why(by: str) -> None:
    play, tool = waiting(a_call("a"))

    play.take(play.runtime.reject_tool_call(play.state, "a" if by == "id" else a_call("a"), "too risky"))

    assert play.kinds == ["tool_rejected", "tool_result"]
    assert (play.event.id, play.event.reason) == ("a", "too risky")
    assert (play.state.status, tool.calls) == ("running", [])
    assert "too risky" in play.answers[0]


def test_a_rejection_may_interrupt_the_conversation() -> None:
    play, _ = waiting(a_call("a"))

    play.take(play.runtime.reject_tool_call(play.state, "a", resume=False))
    assert (play.kinds[-1], play.state.status) == ("interrupted", "interrupted")
    play.take(play.runtime.resume(play.state))

    assert play.state.status == "running"


def test_a_rejected_call_does_not_count_as_approved() -> None:
    tool = Noted()
    agent = Scripted([{"type": "call_tool", "toolCall": a_call()}], tools={"tool": tool})
    play = Play(agent, {"policies": {"tool": "first"}})

    play.step()
    play.take(play.runtime.reject_tool_call(play.state, "c1", "no"))
    play.step()
    assert play.state.status == "waiting_for_human_input"
    play.step(a_call())
    play.step()

    assert (play.kinds, len(tool.calls)) == (["tool_result"], 2)


@pytest.mark.parametrize("call", ["z", a_call("z"), {"id": 5}, 5])
def test_what_is_not_pending_cannot_be_rejected(call: Any) -> None:  # noqa: ANN401
    play, _ = waiting(a_call("a"))

    play.take(play.runtime.reject_tool_call(play.state, call, "no"))

    assert (play.kinds, play.event.refused, play.state.status) == (["error"], True, "waiting_for_human_input")


def test_only_the_answer_is_taken_while_a_question_waits() -> None:
    play = Play(Scripted([PROMPT]))
    play.step()

    play.step(a_call())

    assert play.error.startswith("WaitingForHumanError: a question waits for its answer")
    assert play.state.status == "waiting_for_human_input"


def test_a_question_is_answered_with_text_which_becomes_a_message() -> None:
    play = Play(Scripted([PROMPT, []]))
    play.step()
    assert play.state.pending_prompt == {"prompt": "Why?", "metadata": {"urgent": True}}

    play.take(play.runtime.respond(play.state, "because"))

    assert (play.kinds, play.event.value) == (["human_responded"], "because")
    assert (play.state.status, play.state.pending_prompt) == ("running", None)
    assert play.state.messages == [{"role": "user", "content": "because"}]


@pytest.mark.parametrize(
    ("multi", "value", "said"),
    [
        (False, "r", "r"),
        (False, "Red", "r"),
        (False, 3, "3"),
        (False, {"r": 1}, '{"r":1}'),
        (True, [3, "r"], '[3,"r"]'),
        (True, [], "[]"),
    ],
)
def test_a_selection_is_answered_with_what_can_be_selected(multi: bool, value: object, said: str) -> None:  # noqa: FBT001
    play = Play(Scripted([select(multi=multi)]))
    play.step()

    play.take(play.runtime.respond(play.state, value))

    assert (play.state.status, play.state.pending_select) == ("running", None)
    assert play.state.messages == [{"role": "user", "content": said}]


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        (PROMPT, ""),
        (PROMPT, 5),
        (PROMPT, "\ud800"),
        (select(), "green"),
        (select(), ["r"]),
        (select(multi=True), "r"),
        (select(multi=True), ["r", "r"]),
        (select(multi=True), ["green"]),
    ],
)
def test_another_answer_is_refused_and_the_question_goes_on_waiting(asked: dict[str, Any], value: object) -> None:
    play = Play(Scripted([asked]))
    play.step()
    before = play.state

    play.take(play.runtime.respond(play.state, value))

    assert (play.kinds, play.event.refused) == (["error"], True)
    assert play.state.replace(events=before.events) == before


def test_nothing_can_be_answered_that_nobody_asked() -> None:
    play = Play(Scripted([[]]))

    play.take(play.runtime.respond(play.state, "yes"))

    assert play.error == "InvalidAnswerError: no question waits for an answer"


def test_an_interrupted_conversation_does_nothing_until_it_is_resumed() -> None:
    play, tool = waiting(a_call("a"))

    play.take(play.runtime.interrupt(play.state, "lunch"))
    interrupted = play.state
    assert (play.kinds, play.event.reason, play.event.can_resume) == (["interrupted"], "lunch", True)
    assert (interrupted.status, interrupted.interruption and interrupted.interruption["reason"]) == (
        "interrupted",
        "lunch",
    )
    for result in (
        play.runtime.run_step(interrupted),
        play.runtime.run_step(interrupted, a_call("a")),
        play.runtime.respond(interrupted, "yes"),
        play.runtime.reject_tool_call(interrupted, "a"),
    ):
        assert events_of(result)[0].error.type == "StillInterruptedError"
        assert result.new_state.replace(events=interrupted.events) == interrupted

    play.take(play.runtime.resume(play.state, "back"))

    assert (play.kinds, play.event.reason, play.event.resumed_from) == (["resumed"], "back", 1)
    assert (play.state.status, play.state.interruption) == ("waiting_for_human_input", None)
    play.step(a_call("a"))
    assert len(tool.calls) == 1


def test_a_conversation_resumes_with_a_context() -> None:
    play = Play(Scripted([[], []]))
    play.take(play.runtime.interrupt(play.state, "lunch"))

    play.take(asyncio.run(play.runtime.resume(play.state, "back", {"phase": "user_input", "payload": 1})))

    assert play.kinds == ["resumed", "step_completed"]
    assert play.agent.seen[0][0].payload == 1
    assert list(play.state.events)[1:] == list(play.result.events)


def test_what_was_interrupted_for_good_and_what_was_not_interrupted_cannot_be_resumed() -> None:
    play = Play(Scripted([[]]))

    with pytest.raises(NotResumableError, match="this one is idle"):
        play.runtime.resume(play.state)
    play.take(play.runtime.interrupt(play.state, "enough", can_resume=False))
    with pytest.raises(NotResumableError, match="interrupted for good: enough"):
        play.runtime.resume(play.state)


def test_interrupting_what_is_done_changes_nothing() -> None:
    play = Play(Scripted([{"type": "finish"}]))
    play.step()
    before = play.state

    result = play.runtime.interrupt(before, "too late")

    assert (result.events, result.new_state) == ([], before)


@pytest.mark.parametrize("reason", [5, "\ud800"])
def test_a_reason_is_text(reason: Any) -> None:  # noqa: ANN401
    play = Play(Scripted([[]]))

    play.take(play.runtime.interrupt(play.state, reason))

    assert play.error.startswith("InvalidInputError: a reason ")
    assert play.state.status == "idle"


def test_what_takes_no_time_can_be_awaited_too() -> None:
    play = Play(Scripted([[]]))

    async def awaited() -> object:
        return await result

    result = play.runtime.interrupt(play.state)

    assert asyncio.run(awaited()) is result


def test_the_policy_decides_before_a_call_runs() -> None:
    tool = Noted()
    calls = [a_call(name, name) for name in ("free", "asked", "once", "denied", "allowed", "always")]
    tools = dict.fromkeys(("free", "asked", "once", "denied", "allowed", "always"), tool)
    policies = {"asked": Policy(), "once": "first", "allowed": "required", "always": "always"}
    config = {"policies": policies, "allow": ["allowed", "always"], "deny": ["denied"]}
    play = Play(Scripted([{"type": "call_tools_batch", "toolsCalling": calls}], tools=tools), config)

    play.step()

    assert play.kinds == ["tool_result"] * 3 + ["human_approve_required", "tool_pending"]
    assert [(event.id, event.is_error) for event in play.events[:3]] == [
        ("free", False),
        ("denied", True),
        ("allowed", False),
    ]
    assert [call.id for call in play.state.pending_tool_calls] == ["asked", "once", "always"]
    assert (len(tool.calls), play.state.status) == (2, "waiting_for_human_input")


def test_whoever_asks_for_approval_does_not_get_past_the_deny_list() -> None:
    calls = [a_call("a", "denied"), a_call("b", "tool")]
    play = Play(Scripted([RequestHumanApprove([*calls])]), {"deny": ["denied"]})  # type: ignore[list-item]  # mappings are taken too  # pyright: ignore[reportArgumentType]

    play.step()

    assert play.kinds == ["tool_result", "human_approve_required", "tool_pending"]
    assert [call.id for call in play.state.pending_tool_calls] == ["b"]


def test_first_asks_once_for_the_same_name_and_arguments() -> None:
    tool = Noted()
    agent = Scripted([CallTool({**a_call()})], tools={"tool": tool})  # type: ignore[arg-type]  # a mapping is taken too  # pyright: ignore[reportArgumentType]
    play = Play(agent, {"policies": {"tool": "first"}})

    play.step()
    play.step(a_call())
    play.step()
    assert len(tool.calls) == 2
    agent.script = [{"type": "call_tool", "toolCall": a_call(arguments='{"other": 1}')}]
    play.step()

    assert play.state.status == "waiting_for_human_input"


def test_a_waiting_state_outlives_the_process() -> None:
    play, tool = waiting(TOOL_USE)

    state = state_from_json(to_json(play.state))
    result = play.runtime.run_step(state, state.pending_tool_calls[0])

    assert (tool.calls, result.new_state.status) == ([{"x": 1}], "running")


def test_only_what_is_a_state_can_be_decided_about() -> None:
    play = Play(Scripted([[]]))
    nothing: Any = None

    with pytest.raises(InvalidStateError):
        play.runtime.respond(nothing, "yes")


@pytest.mark.parametrize("made_by", ["person", "runner", "batch"])
def test_a_call_that_has_its_answer_cannot_be_handed_in_again_until_the_model_asks_for_it_again(made_by: str) -> None:
    tool = Noted()
    calls: dict[str, Any] = {
        "person": [],
        "runner": run_call(a_call("a")),
        "batch": run_calls(a_call("a")),
    }
    model = streaming({"tool_calls": [a_call("a")]})
    play = Play(Scripted([calls[made_by], CallLLM({})], tools={"tool": tool}), {"model_runtime": model})

    play.step(a_call("a") if made_by == "person" else None)
    play.state = from_json(to_json(play.state))
    play.step(a_call("a"))

    assert play.error.startswith("CallNotPendingError: call 'a' cannot be decided like that")
    assert (play.event.refused, len(tool.calls), len(play.answers)) == (True, 1, 1)
    while play.kinds[-1] != "llm_result":
        play.step()
    play.step(a_call("a"))
    assert (play.kinds, len(tool.calls)) == (["tool_result"], 2)


def test_policies_follow_links_as_those_of_a_runtime_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "work" / "link").symlink_to(tmp_path / "secret")
    monkeypatch.chdir(tmp_path / "work")
    rules = (Rule({"path": path(f"{tmp_path}/secret")}, "deny"), Rule({"path": path(f"{tmp_path}/work/**")}, "allow"))
    config = {"policies": {"tool": Policy(rules=rules)}}
    tool = Noted()

    def play(name: str, *script: object) -> Play:
        made = Play(
            Scripted([*script, run_call(a_call(arguments={"path": name}))], tools={"tool": tool}),
            config,
        )
        made.step()
        return made

    assert play("plain").kinds == ["tool_result"]
    assert play("other/../plain").event.is_error is False
    for name in ("link", f"{tmp_path}/work/link", "./x/../link"):
        denied = play(name)
        assert "was not run: rules[0] of its policy denies it" in denied.answers[0]
        handed_in = Play(denied.agent, config)
        handed_in.step(a_call(arguments={"path": name}))
        assert handed_in.event.is_error
    waiting_for = play("plain", ask_about(a_call(arguments={"path": "plain"})))
    waiting_for.step(a_call(arguments={"path": "link"}))
    assert waiting_for.kinds == ["tool_edited", "tool_result"]
    assert "was not run with the edited arguments" in waiting_for.answers[0]
    assert len(tool.calls) == 2
