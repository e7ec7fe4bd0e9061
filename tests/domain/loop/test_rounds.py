"""The calls of one answer: what policies say of each, what people decide, and what becomes of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reenact.domain.errors import CallNotPendingError, InvalidAnswerError, StaleApprovalError
from reenact.domain.loop import rounds
from reenact.domain.loop.asking import Question
from reenact.domain.loop.events import (
    AskedCall,
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    Option,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.rounds import Call, Round, RoundEvent
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import ToolResultBlock
from reenact.domain.plain import Json
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import call_digest
from tests.domain.session.policies import (
    ALL_IS_ASKED,
    ANYTHING_GOES,
    FIRST_IS_ASKED,
    PAY_IS_ASKED,
    PAY_IS_DENIED,
    PAY_IS_LIMITED,
)

LOOK = Call("a", "look", {})
PAY = Call("b", "pay", {"amount": 1})
ASK = Call("q", "ask_user", {"prompt": "Which?"})
SELECT = Call("s", "ask_user", {"prompt": "Which?", "options": ["x", "y"], "multi": True})
EMPTY = frozenset[str]()


def digest(call: Call, policies: Policies) -> str:
    return call_digest(call.name, call.arguments, policies.revision)


def judged(policies: Policies, *calls: Call, asked: frozenset[str] = EMPTY) -> tuple[Round, tuple[RoundEvent, ...]]:
    round_ = Round(calls)
    events = rounds.judged(round_, by(policies), asked, session_id="s")
    return rounds.fold(round_, events), events


def by(policies: Policies) -> Rules:
    return Rules(policies=policies)


def waiting(policies: Policies, *calls: Call) -> Round:
    return judged(policies, *calls)[0]


def started(round_: Round) -> Round:
    return rounds.fold(round_, rounds.started(round_))


def stages(round_: Round) -> dict[str, str]:
    return {call.id: call.stage for call in round_.calls}


def test_what_nothing_forbids_is_ready_to_run() -> None:
    round_, events = judged(ANYTHING_GOES, LOOK, PAY)

    assert events == ()
    assert stages(round_) == {"a": "ready", "b": "ready"}
    assert not round_.at("waiting")
    assert rounds.started(round_) == (ToolStarted(id="a", name="look"), ToolStarted(id="b", name="pay"))


def test_a_person_is_asked_about_the_exact_call() -> None:
    round_, events = judged(PAY_IS_ASKED, LOOK, PAY)

    required, pending = events
    assert isinstance(required, HumanApproveRequired)
    (asked,) = required.calls
    assert (required.session_id, required.revision) == ("s", PAY_IS_ASKED.revision)
    assert (asked.id, asked.name, asked.arguments, asked.digest) == (
        "b",
        "pay",
        PAY.arguments,
        digest(PAY, PAY_IS_ASKED),
    )
    assert asked.reason
    assert pending == ToolPending(ids=("b",))
    assert stages(round_) == {"a": "ready", "b": "waiting"}


def test_a_denied_call_is_answered_and_nobody_is_asked() -> None:
    round_, events = judged(PAY_IS_DENIED, PAY)

    (told,) = events
    assert isinstance(told, ToolResult)
    assert (told.id, told.name, told.is_error, told.ran) == ("b", "pay", True, False)
    assert str(told.result).startswith("pay was not run: ")
    assert round_.is_answered


@pytest.mark.parametrize("policies", [ANYTHING_GOES, ALL_IS_ASKED])
@pytest.mark.parametrize("name", ["pay", "ask_user"])
def test_a_call_that_cannot_be_read_never_runs_and_nobody_is_asked(policies: Policies, name: str) -> None:
    round_, events = judged(policies, Call("b", name, {"INVALID_JSON": '{"amount": '}))

    (told,) = events
    assert isinstance(told, ToolResult)
    assert (told.is_error, told.ran, told.denied) == (True, False, False)
    assert "cannot be read as a JSON object" in str(told.result)
    assert round_.is_answered


def test_what_was_approved_before_need_not_be_asked_about_again() -> None:
    known = frozenset({call_digest("pay", {"amount": 1})})
    other = msgspec.structs.replace(PAY, id="c", arguments={"amount": 2})

    round_, _ = judged(FIRST_IS_ASKED, PAY, other, asked=known)

    assert stages(round_) == {"b": "ready", "c": "waiting"}


def test_questions_are_put_to_a_person() -> None:
    round_, events = judged(ANYTHING_GOES, ASK, SELECT)

    assert events == (
        HumanPromptRequired(session_id="s", prompt="Which?", id="q"),
        HumanSelectRequired(
            session_id="s", prompt="Which?", options=(Option("x", "x"), Option("y", "y")), multi=True, id="s"
        ),
        ToolPending(ids=("q", "s")),
    )
    assert stages(round_) == {"q": "waiting", "s": "waiting"}
    assert [(call.kind, call.question) for call in round_.calls] == [
        ("prompt", Question("Which?")),
        ("select", Question("Which?", (Option("x", "x"), Option("y", "y")), True)),  # noqa: FBT003 - as stored
    ]


def test_a_call_that_asks_nothing_is_answered_with_what_is_wrong() -> None:
    round_, events = judged(ANYTHING_GOES, Call("q", "ask_user", {}))

    (told,) = events
    assert isinstance(told, ToolResult)
    assert (told.is_error, told.ran) == (True, False)
    assert "`prompt`" in str(told.result)
    assert round_.is_answered


def test_questions_can_be_denied_too() -> None:
    round_, _ = judged(Policies(deny=("ask_user",)), ASK)

    assert round_.is_answered
    assert round_.calls[0].is_error


def test_an_approved_call_runs_as_it_was_asked_about() -> None:
    round_ = waiting(PAY_IS_ASKED, PAY)

    events = rounds.approved(round_, "b", by(PAY_IS_ASKED), digest=digest(PAY, PAY_IS_ASKED), by="ann")

    assert events == (ToolApproved(id="b", digest=digest(PAY, PAY_IS_ASKED), by="ann"),)
    assert rounds.started(rounds.fold(round_, events)) == (ToolStarted(id="b", name="pay"),)


def test_an_edited_call_runs_as_it_was_edited() -> None:
    round_ = waiting(PAY_IS_ASKED, PAY)

    events = rounds.approved(round_, "b", by(PAY_IS_ASKED), arguments={"amount": 9}, by="ann")

    edited = msgspec.structs.replace(PAY, arguments={"amount": 9})
    assert events == (
        ToolEdited(id="b", original={"amount": 1}, edited={"amount": 9}, by="ann"),
        ToolApproved(id="b", digest=digest(edited, PAY_IS_ASKED), by="ann"),
    )
    (call,) = rounds.fold(round_, events).calls
    assert (call.arguments, call.stage, call.digest) == ({"amount": 9}, "ready", digest(edited, PAY_IS_ASKED))


@pytest.mark.parametrize(("arguments", "edits"), [({"amount": 1}, 0), ({"amount": True}, 1), ({"amount": 1.5}, 1)])
def test_the_same_arguments_are_no_edit(arguments: dict[str, Any], edits: int) -> None:
    events = rounds.approved(waiting(PAY_IS_ASKED, PAY), "b", by(PAY_IS_ASKED), arguments=arguments)

    assert sum(isinstance(event, ToolEdited) for event in events) == edits


def test_an_edited_call_that_is_denied_does_not_run() -> None:
    round_ = waiting(PAY_IS_LIMITED, PAY)

    edited, told = rounds.approved(round_, "b", by(PAY_IS_LIMITED), arguments={"amount": 9})

    assert isinstance(edited, ToolEdited)
    assert isinstance(told, ToolResult)
    assert (told.is_error, told.ran) == (True, False)
    assert str(told.result).startswith("pay was not run with the edited arguments: ")


@pytest.mark.parametrize("digest_", ["", "0" * 64])
def test_an_approval_of_another_call_does_not_hold(digest_: str) -> None:
    with pytest.raises(StaleApprovalError, match="'b'"):
        rounds.approved(waiting(PAY_IS_ASKED, PAY), "b", by(PAY_IS_ASKED), digest=digest_)


def test_an_approval_under_other_policies_does_not_hold() -> None:
    round_ = waiting(PAY_IS_ASKED, PAY)

    with pytest.raises(StaleApprovalError, match="policies") as refusal:
        rounds.approved(round_, "b", by(ANYTHING_GOES), digest=digest(PAY, PAY_IS_ASKED))

    assert refusal.value.call_id == "b"


@pytest.mark.parametrize("call_id", ["a", "q", "nobody", ""])
def test_only_what_waits_for_approval_can_be_approved(call_id: str) -> None:
    with pytest.raises(CallNotPendingError) as refusal:
        rounds.approved(waiting(PAY_IS_ASKED, LOOK, PAY, ASK), call_id, by(PAY_IS_ASKED))

    assert refusal.value.call_id == call_id


def test_an_approval_is_given_once() -> None:
    round_ = waiting(PAY_IS_ASKED, PAY)
    round_ = rounds.fold(round_, rounds.approved(round_, "b", by(PAY_IS_ASKED)))

    with pytest.raises(CallNotPendingError, match="decided already"):
        rounds.approved(round_, "b", by(PAY_IS_ASKED))


@pytest.mark.parametrize(
    ("call", "reason", "said"),
    [
        (PAY, "too much", "pay was not run: it was rejected: too much"),
        (PAY, "", "pay was not run: it was rejected"),
        (ASK, "ask somebody else", "ask_user was not run: it was rejected: ask somebody else"),
    ],
)
def test_a_rejected_call_is_answered_with_the_reason(call: Call, reason: str, said: str) -> None:
    round_ = waiting(PAY_IS_ASKED, call)

    events = rounds.rejected(round_, call.id, reason, by="ann")

    assert events == (
        ToolRejected(id=call.id, reason=reason, by="ann"),
        ToolResult(id=call.id, name=call.name, result=said, is_error=True, ran=False),
    )
    assert rounds.fold(round_, events).is_answered


def test_only_what_waits_can_be_rejected() -> None:
    with pytest.raises(CallNotPendingError):
        rounds.rejected(waiting(PAY_IS_ASKED, LOOK), "a", "no")


@pytest.mark.parametrize(("call", "value"), [(ASK, "that one"), (SELECT, ["y"]), (SELECT, [])])
def test_a_question_is_answered_with_what_a_person_says(call: Call, value: Json) -> None:
    round_ = waiting(ANYTHING_GOES, call)

    events = rounds.responded(round_, call.id, value, by="ann")

    assert events == (
        HumanResponded(id=call.id, value=value, by="ann"),
        ToolResult(id=call.id, name="ask_user", result=value, ran=False),
    )
    assert rounds.fold(round_, events).is_answered


def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays() -> None:
    with pytest.raises(InvalidAnswerError):
        rounds.responded(waiting(ANYTHING_GOES, SELECT), "s", ["z"])


def test_an_approval_is_no_question() -> None:
    with pytest.raises(CallNotPendingError, match="it waits for approval"):
        rounds.responded(waiting(PAY_IS_ASKED, PAY), "b", "yes")
    with pytest.raises(CallNotPendingError, match="it waits for an answer"):
        rounds.approved(waiting(PAY_IS_ASKED, ASK), "q", by(PAY_IS_ASKED))


def test_the_results_are_in_the_order_of_the_calls() -> None:
    round_ = started(Round((LOOK, PAY)))

    half = rounds.evolve(round_, ToolResult(id="b", name="pay", result={"paid": 1}))
    whole = rounds.evolve(half, ToolResult(id="a", name="look", result="no", is_error=True))

    assert half.results() == (ToolResultBlock("b", '{"paid":1}'),)
    assert (half.runs, half.is_answered) == (True, False)
    assert whole.results() == (ToolResultBlock("a", "no", is_error=True), ToolResultBlock("b", '{"paid":1}'))
    assert (whole.runs, whole.is_answered) == (False, True)


def test_the_same_calls_with_the_same_results_come_to_the_same() -> None:
    def came_to(*results: ToolResult, calls: tuple[Call, ...] = (LOOK, PAY)) -> tuple[str, str]:
        round_ = rounds.fold(Round(calls), results)
        return round_.digest(), round_.outcome()

    once = came_to(ToolResult(id="a", result=1), ToolResult(id="b", result=2))
    again = came_to(ToolResult(id="b", result=2), ToolResult(id="a", result=1))
    others = came_to(ToolResult(id="a", result=1), ToolResult(id="b", result=2, is_error=True))
    renamed = tuple(msgspec.structs.replace(call, id=call.id * 2) for call in (LOOK, PAY))
    new_ids = came_to(ToolResult(id="aa", result=1), ToolResult(id="bb", result=2), calls=renamed)

    assert once == again == new_ids
    assert others[0] == once[0]
    assert others[1] != once[1]
    assert came_to(calls=(PAY, LOOK))[0] != came_to(calls=(LOOK, PAY))[0]


def test_what_is_given_up_says_whether_it_may_have_taken_effect() -> None:
    ran = started(Round((LOOK,)))
    round_ = Round((*ran.calls, PAY))

    lost, never = rounds.given_up(round_, "interrupted", stages={"running", "ready"})

    assert lost == ToolResult(
        id="a",
        name="look",
        result="look: interrupted; it is not known whether it took effect",
        is_error=True,
    )
    assert never == ToolResult(id="b", name="pay", result="pay was not run: interrupted", is_error=True, ran=False)
    assert rounds.given_up(round_, "interrupted", stages={"waiting", "answered"}) == ()


def test_a_call_that_is_answered_or_not_there_begins_no_child() -> None:
    round_ = Round((msgspec.structs.replace(LOOK, stage="answered"), PAY))

    assert rounds.with_child(round_, "a") == round_ == rounds.with_child(round_, "x", waits=True)
    assert [call.kind for call in rounds.with_child(round_, "b").calls] == [LOOK.kind, "child"]


def test_other_policies_ask_again_about_what_waits_or_deny_it() -> None:
    round_ = waiting(ALL_IS_ASKED, LOOK, PAY, ASK)

    denied, required = rounds.judged_anew(round_, by(PAY_IS_DENIED), session_id="s")

    assert isinstance(denied, ToolResult)
    assert (denied.id, denied.is_error) == ("b", True)
    assert isinstance(required, HumanApproveRequired)
    assert [(call.id, call.digest) for call in required.calls] == [("a", digest(LOOK, PAY_IS_DENIED))]
    after = rounds.fold(round_, (denied, required))
    assert (after.revision, stages(after)) == (
        PAY_IS_DENIED.revision,
        {"a": "waiting", "b": "answered", "q": "waiting"},
    )


def test_what_other_policies_would_let_run_still_waits() -> None:
    round_ = waiting(PAY_IS_ASKED, PAY)

    (required,) = rounds.judged_anew(round_, by(ANYTHING_GOES), session_id="s")

    assert isinstance(required, HumanApproveRequired)
    assert [call.id for call in required.calls] == ["b"]


def test_a_question_is_not_asked_again_and_a_denial_alone_asks_nothing() -> None:
    assert rounds.judged_anew(waiting(ANYTHING_GOES, ASK), by(PAY_IS_ASKED), session_id="s") == ()
    (denied,) = rounds.judged_anew(waiting(PAY_IS_ASKED, PAY), by(PAY_IS_DENIED), session_id="s")
    assert isinstance(denied, ToolResult)


def test_after_a_crash_only_what_is_idempotent_runs_again() -> None:
    round_ = started(Round((LOOK, PAY)))

    lost, again = rounds.resumed(round_, by(ANYTHING_GOES), EMPTY, {"look"}, session_id="s")

    assert again == ToolStarted(id="a", name="look", attempt=2)
    assert isinstance(lost, ToolResult)
    assert (lost.id, lost.is_error, lost.ran) == ("b", True, True)
    assert "it is not known whether it took effect" in str(lost.result)
    assert rounds.fold(round_, (lost, again)).call("a") == msgspec.structs.replace(LOOK, stage="running", attempts=2)


def test_what_lacks_some_of_its_arguments_does_not_run_again() -> None:
    redacted = msgspec.structs.replace(LOOK, arguments={"at": "[redacted: field]"})

    (lost,) = rounds.resumed(started(Round((redacted,))), by(ANYTHING_GOES), EMPTY, {"look"}, session_id="s")

    assert isinstance(lost, ToolResult)
    assert lost.is_error


def test_what_was_approved_runs_again_after_a_crash_and_is_not_asked_about() -> None:
    round_ = waiting(PAY_IS_ASKED, PAY)
    round_ = started(rounds.fold(round_, rounds.approved(round_, "b", by(PAY_IS_ASKED), arguments={"amount": 9})))

    assert rounds.resumed(round_, by(PAY_IS_ASKED), EMPTY, {"pay"}, session_id="s") == (
        ToolStarted(id="b", name="pay", attempt=2),
    )


def test_after_a_crash_policies_that_have_changed_are_asked_before_anything_runs_again() -> None:
    round_ = waiting(PAY_IS_ASKED, PAY, LOOK)
    round_ = started(rounds.fold(round_, rounds.approved(round_, "b", by(PAY_IS_ASKED))))

    asked_again = rounds.resumed(round_, by(ALL_IS_ASKED), EMPTY, {"pay", "look"}, session_id="s")
    denied = rounds.resumed(round_, by(PAY_IS_DENIED), EMPTY, {"pay"}, session_id="s")

    required, pending = asked_again
    assert isinstance(required, HumanApproveRequired)
    assert [call.id for call in required.calls] == ["b", "a"]
    assert pending == ToolPending(ids=("b", "a"))
    assert stages(rounds.fold(round_, asked_again)) == {"b": "waiting", "a": "waiting"}
    lost = [event for event in denied if isinstance(event, ToolResult)]
    assert [(told.id, told.is_error, told.ran) for told in lost] == [("b", True, True), ("a", True, True)]
    assert "it was not run again" in str(lost[0].result)


def test_after_a_crash_people_are_asked_again_about_what_waited_if_the_policies_have_changed() -> None:
    round_ = started(waiting(PAY_IS_ASKED, LOOK, PAY))

    lost, required = rounds.resumed(round_, by(ALL_IS_ASKED), EMPTY, EMPTY, session_id="s")
    (only_lost,) = rounds.resumed(round_, by(PAY_IS_ASKED), EMPTY, EMPTY, session_id="s")

    assert isinstance(lost, ToolResult)
    assert lost == only_lost
    assert isinstance(required, HumanApproveRequired)
    assert (required.revision, [call.id for call in required.calls]) == (ALL_IS_ASKED.revision, ["b"])


def test_a_round_takes_note_of_what_happens_to_its_calls_only() -> None:
    assert ToolPending(ids=()).type == "tool_pending"
    assert rounds.evolve(Round((LOOK,)), ToolStarted(id="nobody", name="look")) == Round((LOOK,))


def test_what_people_are_asked_about_is_told_with_its_reason() -> None:
    asked = AskedCall("a", "look", {}, "d", "because")

    round_ = rounds.evolve(Round((LOOK,)), HumanApproveRequired(session_id="s", calls=(asked,), revision="r"))

    assert round_.call("a") == msgspec.structs.replace(LOOK, digest="d", reason="because")
    assert round_.call("nobody") is None
    assert round_.revision == "r"


def test_a_call_that_is_not_the_one_that_was_asked_about_cannot_be_approved() -> None:
    asked = waiting(PAY_IS_ASKED, PAY)
    altered = Round(
        (msgspec.structs.replace(asked.calls[0], arguments={"amount": "[redacted: field]"}),), asked.revision
    )

    for arguments in (None, {"amount": 1}):
        with pytest.raises(StaleApprovalError, match="redacted"):
            rounds.approved(altered, "b", by(PAY_IS_ASKED), arguments=arguments)
    moved = rounds.under(altered, PAY_IS_LIMITED)
    with pytest.raises(StaleApprovalError, match="redacted"):
        rounds.approved(moved, "b", by(PAY_IS_LIMITED))
    assert rounds.rejected(altered, "b", "no")
