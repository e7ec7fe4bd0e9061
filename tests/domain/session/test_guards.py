"""What guards are asked, and what follows from what they have said."""

from __future__ import annotations

from functools import reduce
from typing import TypeAlias

import pytest

from reenact.domain.children import OfferedAgent
from reenact.domain.errors import AgentNotFoundError, CallNotPendingError, ConfigurationError
from reenact.domain.guards import GuardChecked, GuardInput, Guards, GuardVerdict, guards_of, of_point, refusal_in
from reenact.domain.history.causes import cause_of, read_cause
from reenact.domain.history.decision_replay import DecisionReplay
from reenact.domain.history.explanation import Cause, Outside, causes_of
from reenact.domain.image import Image, define, rules_of
from reenact.domain.loop.events import ToolApproved, ToolResult, ToolStarted
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.session.agent import (
    AnswerRecorded,
    MessageAccepted,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnStarted,
)
from reenact.domain.session.commands import Approve, BranchSession, Finish, PassAnswer, Receive, SessionCommand
from reenact.domain.session.decide import decide as decide_by_rules
from reenact.domain.session.guarding import Question, questions
from reenact.domain.session.state import Session, SessionBranched, SessionEvent, evolve
from reenact.domain.session.turns import ANSWER_REFUSED
from reenact.domain.stream import events as heard
from tests.domain.session.announced import announced
from tests.domain.session.examples import HELLO, IDLE, THINKING
from tests.domain.session.loops import (
    AT,
    CAREFUL,
    FREE,
    LOOK,
    PAY,
    after,
    approve,
    asks,
    decide,
    finish,
    interrupt,
    receive,
    report,
    says,
)

Guarded: TypeAlias = Receive | BranchSession | PassAnswer | Finish | Approve
"""A command that carries what guards have said."""
ALL = Guards(message=("short",), call=("cheap",), answer=("polite", "true"))
WAITING = after(IDLE, receive("t1", CAREFUL), finish(asks(LOOK, PAY), CAREFUL), report("a", rules=CAREFUL))


def on_message(verdict: GuardVerdict = "passed", turn_id: str = "t1") -> GuardChecked:
    return GuardChecked("message", "short", verdict, "" if verdict == "passed" else "too long", turn_id, f"m-{turn_id}")


def on_call(call_id: str, verdict: GuardVerdict = "passed", turn_id: str | None = "t1") -> GuardChecked:
    return GuardChecked("call", "cheap", verdict, "" if verdict == "passed" else "too dear", turn_id, call_id=call_id)


def on_answer(verdict: GuardVerdict = "passed", name: str = "polite") -> GuardChecked:
    return GuardChecked("answer", name, verdict, "" if verdict == "passed" else "rude", "t1", "m9")


def received(*checked: GuardChecked) -> Receive:
    command = receive("t1")
    return Receive(
        agent_id=command.agent_id,
        turn_id="t1",
        message_id="m-t1",
        content=HELLO,
        at=AT,
        checked=checked,
    )


def answered(*checked: GuardChecked, text: str = "Hi") -> Finish:
    return Finish(turn_id="t1", so_far=says(text), at=AT, results_id="r1", checked=checked)


def asked(*calls: ToolUseBlock, checked: tuple[GuardChecked, ...] = ()) -> Finish:
    return Finish(turn_id="t1", so_far=asks(*calls), at=AT, rules=FREE, results_id="r1", checked=checked)


def branched(*checked: GuardChecked) -> BranchSession:
    return BranchSession(
        session_id="b",
        container_id="c",
        image_id="other",
        image_revision=1,
        origin="s",
        version=2,
        digest="",
        position=2,
        at=AT,
        left_at=AT,
        edit=(TextBlock("Instead"),),
        ids=(("t5", "m5"),),
        checked=checked,
    )


def of(session: Session, command: SessionCommand, guards: Guards = ALL) -> list[Question]:
    return list(questions(session, command, guards))


def names(asked: list[Question]) -> list[str]:
    return [one.name for one in asked]


# What an image says of its guards.


def test_guards_are_named_by_an_image_as_themselves_or_as_a_mapping() -> None:
    plain = define(Image(guards={"message": ["short"], "call": ["cheap"], "answer": ["polite", "true"]}), "i")

    assert plain.guards == define(Image(guards=ALL), "i").guards == ALL
    assert rules_of(plain, {}, 0).guards == ALL


@pytest.mark.parametrize("none", [None, Guards(), {}, {"message": ()}])
def test_guards_that_name_nobody_are_none(none: object) -> None:
    assert guards_of(none, "image 'i'") is None


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (["short"], r"guards of image 'i' must be Guards, or a mapping with its fields, not \['short'\]"),
        ({"messages": ["short"]}, "unknown field `messages`"),
        ({"message": "short"}, "Expected `array`, got `str`"),
        (Guards(message=(3,)), "Expected `str`, got `int`"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (Guards(message=("short",), hold=True), "hold answers back, and none is asked about answers; name one"),
    ],
)
def test_what_cannot_be_guards_is_told_at_once(wrong: object, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        guards_of(wrong, "image 'i'")


def test_the_first_that_refuses_is_the_refusal() -> None:
    checked = (on_message(), on_call("a", "refused"), on_call("b", "refused"))

    assert refusal_in(checked) == checked[1]
    assert refusal_in(checked[:1]) is None
    assert of_point(checked, "call") == checked[1:]


def test_what_a_guard_has_said_is_recorded_with_what_it_was_asked_about() -> None:
    about = GuardInput(
        point="call", session_id="s", image_id="i", turn_id="t1", call_id="a", tool="look", arguments={"at": 1}
    )

    assert Question("cheap", about).verdict(None) == on_call("a")
    assert Question("cheap", about).verdict("too dear") == on_call("a", "refused")
    assert about.text == ""


# What they are asked.


def test_each_guard_of_messages_is_asked_about_a_message_once() -> None:
    (question,) = of(IDLE, received())

    assert question.name == "short"
    assert question.about == GuardInput(
        point="message", session_id="s", image_id="i", turn_id="t1", message_id="m-t1", content=HELLO
    )
    assert question.about.text == "Hello"
    assert of(IDLE, received(on_message())) == []


def test_a_message_is_asked_about_again_by_other_guards_that_an_image_has_by_then() -> None:
    other = Guards(message=("short", "kind"))

    assert names(of(IDLE, received(on_message()), other)) == ["kind"]
    assert of(IDLE, received(on_message("refused")), other) == []


def test_no_guard_is_asked_about_a_message_to_an_agent_that_is_not_there() -> None:
    assert of(after(IDLE, interrupt()), Receive(agent_id="b", turn_id="t", message_id="m", content=HELLO, at=AT)) == []


def test_the_message_that_a_branch_begins_with_is_for_the_guards_of_its_image() -> None:
    (question,) = of(IDLE, branched())

    assert (question.about.session_id, question.about.image_id) == ("b", "other")
    assert question.about.text == "Instead"
    assert of(IDLE, branched(GuardChecked("message", "short", "passed"))) == []


def test_each_guard_of_answers_is_asked_about_a_whole_answer() -> None:
    of_answer = of(THINKING, answered())

    assert names(of_answer) == ["polite", "true"]
    assert {(one.about.turn_id, one.about.message_id, one.about.text) for one in of_answer} == {("t1", "m9", "Hi")}
    assert of(THINKING, answered(on_answer(), on_answer(name="true"))) == []
    passed = after(THINKING, PassAnswer(turn_id="t1", at=AT, checked=(on_answer(), on_answer(name="true"))))
    assert of(passed, answered()) == []
    assert names(of(passed, finish(says("Hi", message_id="m8")))) == ["polite", "true"]
    assert of(THINKING, answered(), Guards(message=("short",))) == []


@pytest.mark.parametrize("end", [answered(text=""), finish(says("Hi"), turn_id="t0")])
def test_no_guard_is_asked_about_an_answer_that_says_nothing_or_is_late(end: Finish) -> None:
    assert of(THINKING, end) == []


def test_calls_are_asked_about_after_the_answer_that_asks_for_them() -> None:
    told = asked(LOOK, PAY)
    assert names(of(THINKING, told)) == ["polite", "true"]

    of_calls = of(THINKING, asked(LOOK, PAY, checked=(on_answer(), on_answer(name="true"))))

    assert [(one.name, one.about.call_id, one.about.tool, one.about.arguments) for one in of_calls] == [
        ("cheap", "a", "look", {}),
        ("cheap", "b", "pay", {"amount": 1}),
    ]
    assert {one.about.turn_id for one in of_calls} == {"t1"}
    assert of(THINKING, asked(LOOK, PAY, checked=(on_answer(), on_call("a"), on_call("b")))) == []
    assert of(THINKING, asked(LOOK, checked=(on_answer("refused"),))) == []


def test_guards_are_asked_about_a_call_of_a_detached_child_which_is_answered_at_once() -> None:
    apart = OfferedAgent(name="helper", image_id="other", image_revision=1, detached=True)
    call = ToolUseBlock("c", "helper", {"prompt": "Watch."})

    (question,) = of(THINKING, finish(asks(call), Rules(agents=(apart,))), Guards(call=("cheap",)))

    assert (question.about.turn_id, question.about.call_id, question.about.tool) == ("t1", "c", "helper")
    assert question.about.arguments == {"prompt": "Watch."}


def test_no_guard_is_asked_about_a_call_that_a_policy_keeps_from_running() -> None:
    guards = Guards(call=("cheap",))

    assert [one.about.call_id for one in of(THINKING, finish(asks(LOOK, PAY), CAREFUL), guards)] == ["a"]


def test_guards_are_asked_about_a_call_as_a_person_has_approved_it() -> None:
    (question,) = of(WAITING, approve("b", arguments={"amount": 2}))

    assert (question.about.call_id, question.about.arguments) == ("b", {"amount": 2})
    assert of(WAITING, approve("b"), Guards(message=("short",))) == []


def test_an_approval_that_is_refused_anyway_asks_nobody() -> None:
    with pytest.raises(CallNotPendingError):
        of(WAITING, approve("a"))


def test_other_commands_ask_nobody() -> None:
    assert of(THINKING, interrupt()) == []


# What follows.


def test_a_message_that_guards_let_pass_is_accepted_behind_what_they_said() -> None:
    events = decide(IDLE, received(on_message()))

    assert events[0] == on_message()
    assert [type(event) for event in events[1:]] == [MessageAccepted, TurnStarted]


def test_of_a_message_that_is_refused_there_is_the_verdict_alone() -> None:
    events = decide(IDLE, received(on_message("refused")))

    assert events == (on_message("refused"),)
    assert reduce(evolve, events, IDLE) == IDLE


def test_a_message_to_nobody_is_refused_as_ever() -> None:
    with pytest.raises(AgentNotFoundError):
        decide(after(IDLE), Receive(agent_id="b", turn_id="t", message_id="m", content=HELLO, at=AT))


def test_what_guards_said_of_the_message_stands_in_the_branch_that_begins_with_it() -> None:
    checked = GuardChecked("message", "short", "passed")

    events = decide(IDLE, branched(checked))

    assert [type(event) for event in events] == [SessionBranched, GuardChecked, MessageAccepted]
    assert events[1] == checked


def test_an_answer_that_guards_let_pass_is_recorded_behind_what_they_said() -> None:
    events = decide(THINKING, answered(on_answer(), on_answer(name="true")))

    assert [type(event) for event in events] == [GuardChecked, GuardChecked, AnswerRecorded, TurnCompleted]


def test_a_turn_whose_answer_is_refused_fails_without_the_answer() -> None:
    command = Finish(turn_id="t1", so_far=says("Hi", usage={"input_tokens": 3}), at=AT, checked=(on_answer("refused"),))

    checked, failed, completed = decide(THINKING, command)

    assert checked == on_answer("refused")
    assert isinstance(failed, TurnFailed)
    assert isinstance(completed, TurnCompleted)
    assert (completed.outcome, completed.stop_reason) == ("failed", ANSWER_REFUSED)
    assert completed.failure == failed.failure
    assert failed.failure.message == "guard 'polite' refuses the answer: rude"
    assert completed.unsaid is not None
    assert completed.usage == completed.unsaid.usage == {"input_tokens": 3}
    assert len(after(THINKING, command).conversation) == 1


def test_the_next_message_is_taken_up_when_an_answer_is_refused() -> None:
    busy = after(THINKING, receive("t2"))

    assert isinstance(decide(busy, answered(on_answer("refused")))[-1], TurnStarted)


def test_no_call_of_an_answer_that_is_refused_is_run() -> None:
    events = decide(THINKING, asked(LOOK, checked=(on_answer("refused"),)))

    assert [type(event) for event in events] == [GuardChecked, TurnFailed, TurnCompleted]


def test_a_call_that_is_refused_is_answered_with_the_reason_beside_those_that_run() -> None:
    checked = (on_call("a"), on_call("b", "refused"))

    events = decide(THINKING, asked(LOOK, PAY, checked=checked))

    refused = ToolResult(
        id="b",
        name="pay",
        result="pay was not run: guard 'cheap' refuses it: too dear",
        is_error=True,
        ran=False,
        denied=True,
    )
    assert events[2:] == (checked[0], checked[1], refused, ToolStarted(id="a", name="look", attempt=1))


def test_the_model_is_told_at_once_when_all_calls_are_refused() -> None:
    events = decide(THINKING, asked(LOOK, checked=(on_call("a", "refused"),)))

    assert isinstance(events[-1], StepStarted)
    assert not any(isinstance(event, ToolStarted) for event in events)


def test_a_call_that_a_person_approved_and_a_guard_refuses_is_not_run() -> None:
    checked = (on_call("b", "refused", None),)
    command = Approve(call_id="b", turn_id="t7", at=AT, rules=CAREFUL, results_id="r7", checked=checked)

    events = decide(WAITING, command)

    assert [type(event) for event in events[:4]] == [ToolApproved, GuardChecked, ToolResult, TurnContinued]
    assert not any(isinstance(event, ToolStarted) for event in events)


def test_what_guards_said_of_a_call_that_was_denied_since_is_not_recorded() -> None:
    command = Finish(turn_id="t1", so_far=asks(PAY), at=AT, rules=CAREFUL, results_id="r", checked=(on_call("b"),))

    assert not any(isinstance(event, GuardChecked) for event in decide(THINKING, command))


def test_an_answer_passes_before_it_is_told_in_its_turn_alone() -> None:
    checked = (on_answer(), on_answer(name="true"))
    in_round = after(THINKING, finish(asks(LOOK)))

    assert decide(THINKING, PassAnswer(turn_id="t1", at=AT, checked=checked)) == checked
    assert decide(THINKING, PassAnswer(turn_id="t2", at=AT, checked=checked)) == ()
    assert decide(IDLE, PassAnswer(turn_id="t1", at=AT, checked=checked)) == ()
    assert decide(in_round, PassAnswer(turn_id="t1", at=AT, checked=checked)) == ()


# What the log has of it, and tells.


@pytest.mark.parametrize(
    ("before", "command"),
    [
        (IDLE, received(on_message())),
        (IDLE, received(on_message("refused"))),
        (IDLE, branched(GuardChecked("message", "short", "passed"))),
        (THINKING, PassAnswer(turn_id="t1", at=AT, checked=(on_answer(),))),
        (THINKING, asked(LOOK, PAY, checked=(on_answer(), on_call("a"), on_call("b", "refused")))),
        (THINKING, answered(on_answer("refused"))),
        (
            WAITING,
            Approve(call_id="b", turn_id="t7", at=AT, rules=CAREFUL, results_id="r7", checked=(on_call("b"),)),
        ),
    ],
)
def test_what_guards_have_said_is_decided_again_from_the_log_and_nobody_is_asked(
    before: Session, command: Guarded
) -> None:
    events = decide_by_rules(before, command)
    cause = cause_of(command, events)

    assert b"checked" not in cause
    rules = FREE if isinstance(command, PassAnswer | BranchSession) else command.rules
    read = read_cause(cause).command(events, rules)
    assert isinstance(read, type(command))
    assert read.checked == command.checked
    replay = DecisionReplay(before)
    assert replay.follow(cause, events) is None
    assert replay.undecided == 0


def test_a_message_without_guards_is_stored_as_ever() -> None:
    events = decide(IDLE, received())

    assert cause_of(received(), events) == b"\x92\xa9receive:1\x81\xa8agent_id\xa1a"


def test_each_verdict_is_heard_of_in_the_turn_that_it_is_about() -> None:
    (verdict, message, *_) = announced(IDLE, decide(IDLE, received(on_message())))
    (refused,) = announced(IDLE, decide(IDLE, received(on_message("refused"))))
    (passed,) = announced(THINKING, (on_answer(),))
    (of_branch, _) = announced(Session(), decide(IDLE, branched(GuardChecked("message", "short", "passed"))))[1:]

    assert isinstance(verdict[1], heard.GuardChecked)
    assert (verdict[0].turn_id, verdict[0].agent_id) == (message[0].turn_id, "a")
    assert refused[1] == heard.GuardChecked(
        point="message", name="short", verdict="refused", reason="too long", turn_id="t1", message_id="m-t1"
    )
    assert (passed[0].turn_id, passed[0].causation_id) == ("t1", "m-t1")
    assert (of_branch[0].session_id, of_branch[0].turn_id) == ("b", None)


def causes(*steps: tuple[Session, SessionCommand]) -> list[tuple[type[SessionEvent], Cause]]:
    told = [(type(command), decide(session, command)) for session, command in steps]
    events = [event for _, of_step in told for event in of_step]
    return list(zip(map(type, events), causes_of(told), strict=True))


def test_a_message_is_accepted_because_of_the_verdict() -> None:
    verdict, accepted, _ = causes((IDLE, received(on_message())))

    assert verdict == (GuardChecked, Cause((), Outside("guard", "short")))
    assert accepted == (MessageAccepted, Cause((0,), Outside("message")))


def test_a_call_runs_or_is_answered_because_of_the_verdict() -> None:
    checked = (on_answer(), on_call("a"), on_call("b", "refused"))
    told = causes((IDLE, received()), (THINKING, asked(LOOK, PAY, checked=checked)))

    assert [(kind, cause.places, cause.outside) for kind, cause in told[2:]] == [
        (GuardChecked, (1,), Outside("guard", "polite")),
        (AnswerRecorded, (1, 2), Outside("model", "m")),
        (ToolsRequested, (3,), None),
        (GuardChecked, (4,), Outside("guard", "cheap")),
        (GuardChecked, (4,), Outside("guard", "cheap")),
        (ToolResult, (6,), None),
        (ToolStarted, (4, 5), None),
    ]


def test_a_turn_fails_because_of_the_verdict() -> None:
    told = causes((IDLE, received()), (THINKING, answered(on_answer("refused"))))

    assert [(kind, cause.places, cause.outside) for kind, cause in told[2:]] == [
        (GuardChecked, (1,), Outside("guard", "polite")),
        (TurnFailed, (2,), None),
        (TurnCompleted, (3,), None),
    ]
