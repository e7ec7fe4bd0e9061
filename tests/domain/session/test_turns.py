"""How a turn goes on with calls of tools, with people, and within its limits."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from reenact.domain.conversation import summary_message
from reenact.domain.errors import AgentNotFoundError, CallNotPendingError, StaleApprovalError
from reenact.domain.growing_set import GrowingSet
from reenact.domain.loop.events import (
    HumanResponded,
    ToolApproved,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.loop.ledger import CostLimit, Spent
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import OpaqueBlock, Said, TextBlock, ToolResultBlock, ToolUseBlock, Usage
from reenact.domain.session.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    Failure,
    ReceivedAnswer,
    ResultsRecorded,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnStarted,
    UnrecordedUsage,
)
from reenact.domain.session.commands import Compress, Delete, Report
from reenact.domain.session.state import Session, SessionEvent, evolve, for_model
from reenact.domain.session.turns import COST_LIMIT, MAX_STEPS, NO_TOOLS, REJECTED, REPEATED
from tests.domain.session.examples import ANSWER, CREATED, IDLE, session
from tests.domain.session.loops import (
    ASKED,
    AT,
    BOTH_RUN,
    CAREFUL,
    FREE,
    HALF_WAITING,
    LOOK,
    PAY,
    PRICED,
    QUESTION,
    RUNNING,
    TWO_WAIT,
    USAGE,
    VERY_CAREFUL,
    WAITING,
    after,
    approve,
    asks,
    believe,
    decide,
    finish,
    interrupt,
    receive,
    reject,
    report,
    respond,
    resume,
    run,
    says,
    stop,
)
from tests.domain.session.policies import FIRST_IS_ASKED, PAY_IS_DENIED

NO_HANDS = Rules(runs_tools=False)
BROKEN = Failure("storage_error", "no space", retryable=True)


def kinds(events: tuple[SessionEvent, ...]) -> list[str]:
    return [type(event).__name__ for event in events]


def the_end(events: tuple[SessionEvent, ...]) -> TurnCompleted:
    (completed,) = [event for event in events if isinstance(event, TurnCompleted)]
    return completed


def results(session: Session) -> tuple[ToolResultBlock, ...]:
    return tuple(block for block in session.conversation[-1].content if isinstance(block, ToolResultBlock))


# Calls and results


def test_an_answer_that_asks_for_tools_starts_them() -> None:
    assert decide(ASKED, finish(asks(LOOK, PAY, text="Let me see"))) == (
        AnswerRecorded("t1", "m1", (TextBlock("Let me see"), LOOK, PAY), "tool_use", False, {}, "m", AT),  # noqa: FBT003 - as stored
        ToolsRequested("t1", "responding"),
        ToolStarted(id="a", name="look"),
        ToolStarted(id="b", name="pay"),
    )


def test_the_model_is_asked_again_when_the_last_call_is_answered() -> None:
    half = after(BOTH_RUN, report("b", {"paid": 1}))

    assert decide(half, report("a")) == (
        ToolResult(id="a", name="look", result="sunny"),
        ResultsRecorded("t1", "r-a", (ToolResultBlock("a", "sunny"), ToolResultBlock("b", '{"paid":1}')), AT),
        StepStarted("t1", 2, AT),
    )


def test_the_results_are_the_next_message_of_the_conversation() -> None:
    told = after(RUNNING, report("a"))

    assert list(told.conversation)[-2:] == [
        Said("assistant", (LOOK,)),
        Said("user", (ToolResultBlock("a", "sunny"),)),
    ]
    assert for_model(told) == told.conversation


def test_the_turn_ends_with_the_answer_that_asks_for_nothing() -> None:
    told = after(RUNNING, report("a"))

    events = decide(told, finish(says("It is sunny")))

    assert kinds(events) == ["AnswerRecorded", "TurnCompleted"]
    assert the_end(events).outcome == "completed"
    assert believe(told, events).turn is None


@pytest.mark.parametrize(
    "late",
    [
        report("b"),
        report("nobody"),
        report("a", turn_id="t0"),
    ],
)
def test_a_report_of_what_does_not_run_changes_nothing(late: Report) -> None:
    assert decide(RUNNING, late) == ()


def test_a_second_report_of_the_same_call_changes_nothing() -> None:
    half = after(BOTH_RUN, report("a", "first"))

    assert decide(half, report("a", "second")) == ()
    assert decide(after(half, report("b")), report("a", "third")) == ()
    assert decide(ASKED, report("a")) == ()
    assert decide(WAITING, report("b")) == ()


def test_a_failed_call_does_not_discard_the_results_of_the_others() -> None:
    failed = msgspec.structs.replace(report("b", "no money"), is_error=True)

    told = after(BOTH_RUN, failed, report("a"))

    assert results(told) == (ToolResultBlock("a", "sunny"), ToolResultBlock("b", "no money", is_error=True))


def test_a_denied_call_is_answered_beside_those_that_run() -> None:
    events = decide(ASKED, finish(asks(PAY, ToolUseBlock("c", "send", {})), Rules(policies=PAY_IS_DENIED)))

    denied, started = events[2:]
    assert isinstance(denied, ToolResult)
    assert (denied.id, denied.is_error, denied.ran, denied.denied) == ("b", True, False, True)
    assert started == ToolStarted(id="c", name="send")


def test_when_all_calls_are_denied_the_model_is_told_at_once() -> None:
    events = decide(ASKED, finish(asks(PAY), Rules(policies=PAY_IS_DENIED)))

    assert kinds(events) == ["AnswerRecorded", "ToolsRequested", "ToolResult", "ResultsRecorded", "StepStarted"]


def test_tool_use_without_calls_ends_the_turn() -> None:
    assert kinds(decide(ASKED, finish(asks(TextBlock("I was going to"))))) == ["AnswerRecorded", "TurnCompleted"]


@pytest.mark.parametrize("stop_reason", ["end_turn", "max_tokens", "refusal", "pause_turn"])
def test_calls_of_an_answer_that_ends_otherwise_are_not_run(stop_reason: str) -> None:
    cut = msgspec.structs.replace(asks(LOOK), stop_reason=stop_reason)

    events = decide(ASKED, finish(cut))

    assert kinds(events) == ["AnswerRecorded", "TurnCompleted"]
    assert the_end(events).stop_reason == stop_reason


@pytest.mark.parametrize("text", ["I ca", ""])
def test_a_refusal_is_marked_so_that_its_turn_is_not_sent_again(text: str) -> None:
    refusal = msgspec.structs.replace(says(text), stop_reason="refusal")

    told = after(RUNNING, report("a"), finish(refusal))

    assert told.conversation[-1] == Said("assistant", (TextBlock(text),) if text else (), refused=True)
    assert not any(said.refused for said in list(told.conversation)[:-1])


def test_an_environment_without_tools_ends_the_turn_with_the_calls() -> None:
    events = decide(ASKED, finish(asks(LOOK), NO_HANDS))

    assert kinds(events) == ["AnswerRecorded", "TurnCompleted"]
    assert (the_end(events).outcome, the_end(events).stop_reason) == ("completed", "tool_use")


def test_calls_without_an_id_or_with_one_that_was_used_before_get_one_of_their_own() -> None:
    calls = (LOOK, msgspec.structs.replace(PAY, id=""), TextBlock("and"), msgspec.structs.replace(LOOK, id=" "), LOOK)

    first = after(ASKED, finish(asks(*calls)))

    assert first.round is not None
    assert [call.id for call in first.round.calls] == ["a", "m1_1", "m1_3", "m1_4"]
    assert [call.name for call in first.round.calls] == ["look", "pay", "look", "look"]
    assert first.conversation[-1].content[2] == TextBlock("and")

    told = after(first, *(report(call.id) for call in first.round.calls))
    again = after(told, finish(asks(LOOK, ToolUseBlock("m1_0", "pay", {}), ToolUseBlock("c", "send", {}))))

    assert again.round is not None
    assert [call.id for call in again.round.calls] == ["m1_2", "m1_0", "c"]
    assert len(again.known_calls) == 7


class Long(GrowingSet):
    """So many ids that nobody goes through them for one answer."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all ids are read")


def test_an_id_that_was_used_before_is_replaced_without_reading_all_earlier_ones() -> None:
    session = msgspec.structs.replace(ASKED, known_calls=Long((frozenset({"a", "m1_0"}),)))

    again = after(session, finish(asks(LOOK)))

    assert again.round is not None
    assert [call.id for call in again.round.calls] == ["m1_1"]
    assert "m1_1" in again.known_calls


def test_a_late_report_of_an_earlier_round_is_not_taken_for_a_new_call_of_the_same_id() -> None:
    again = after(RUNNING, report("a"), finish(asks(LOOK, message_id="m2"), results_id="r2"))

    assert decide(again, report("a", "late")) == ()
    assert decide(again, report("m2_0")) != ()


# People


def test_a_call_that_needs_approval_ends_the_turn_as_waiting() -> None:
    events = decide(ASKED, finish(asks(PAY), CAREFUL))

    assert kinds(events)[2:] == ["HumanApproveRequired", "ToolPending", "TurnCompleted"]
    assert (the_end(events).outcome, the_end(events).stop_reason) == ("waiting", "waiting")
    waiting = believe(ASKED, events)
    assert waiting.turn is None
    assert waiting.agent is not None
    assert waiting.agent.state(None, waiting.round) == "waiting_for_human_input"


def test_calls_that_need_nobody_run_while_others_wait() -> None:
    events = decide(HALF_WAITING, report("a", rules=CAREFUL))

    assert HALF_WAITING.turn is not None
    assert HALF_WAITING.turn.activity == "tool_executing"
    assert kinds(events) == ["ToolResult", "TurnCompleted"]
    assert the_end(events).outcome == "waiting"


def test_messages_queue_while_a_call_waits() -> None:
    assert kinds(decide(WAITING, receive("t2"))) == ["MessageAccepted"]


def test_an_approved_call_runs_in_a_new_turn() -> None:
    approved, continued, started = decide(WAITING, approve("b"))

    assert isinstance(approved, ToolApproved)
    assert continued == TurnContinued("t7", AT)
    assert started == ToolStarted(id="b", name="pay")


def test_what_runs_after_an_edit_is_what_was_edited() -> None:
    events = decide(WAITING, approve("b", arguments={"amount": 9}))

    assert kinds(events) == ["ToolEdited", "ToolApproved", "TurnContinued", "ToolStarted"]
    edited = believe(WAITING, events)
    assert edited.round is not None
    assert edited.round.calls[0].arguments == {"amount": 9}
    assert edited.conversation[-1].content == (PAY,)


def test_an_approval_while_others_run_starts_the_call_in_the_same_turn() -> None:
    assert kinds(decide(HALF_WAITING, approve("b"))) == ["ToolApproved", "ToolStarted"]


def test_a_continued_turn_ends_as_waiting_when_only_people_can_go_on() -> None:
    one = after(TWO_WAIT, approve("a", VERY_CAREFUL))

    events = decide(one, report("a", rules=VERY_CAREFUL, turn_id="t7"))

    assert kinds(events) == ["ToolResult", "TurnCompleted"]
    assert (the_end(events).turn_id, the_end(events).outcome) == ("t7", "waiting")


def test_the_results_go_back_when_the_last_decision_is_made() -> None:
    one = after(TWO_WAIT, approve("a", VERY_CAREFUL), report("a", rules=VERY_CAREFUL, turn_id="t7"))
    other = msgspec.structs.replace(reject("b", VERY_CAREFUL), turn_id="t8")

    events = decide(one, other)

    assert kinds(events) == ["ToolRejected", "ToolResult", "TurnContinued", "ResultsRecorded", "StepStarted"]
    assert [block.tool_use_id for block in results(believe(one, events))] == ["a", "b"]
    assert events[-1] == StepStarted("t8", 1, AT)


def test_a_rejection_begins_no_turn_while_others_are_undecided() -> None:
    events = decide(TWO_WAIT, reject("a", VERY_CAREFUL))

    assert kinds(events) == ["ToolRejected", "ToolResult"]


def test_the_model_is_told_of_a_rejection() -> None:
    events = decide(WAITING, reject("b"))

    assert kinds(events) == ["ToolRejected", "ToolResult", "TurnContinued", "ResultsRecorded", "StepStarted"]
    assert results(believe(WAITING, events))[0].is_error


def test_a_rejection_that_does_not_go_on_leaves_the_agent_idle_and_takes_up_what_waits() -> None:
    queued = after(WAITING, receive("t2"))

    events = decide(queued, reject("b", resume=False))

    assert kinds(events) == ["ToolRejected", "ToolResult", "ResultsRecorded", "TurnStarted"]
    assert events[2:] == (ResultsRecorded(None, "r7", results(believe(queued, events[:3])), AT), TurnStarted("t2", AT))


def test_a_rejection_that_does_not_go_on_ends_the_turn_under_way() -> None:
    events = decide(HALF_WAITING, reject("b", resume=False))

    assert kinds(events) == [
        "ToolRejected",
        "ToolResult",
        "TurnInterrupted",
        "ToolResult",
        "ResultsRecorded",
        "TurnCompleted",
    ]
    assert (the_end(events).outcome, the_end(events).stop_reason) == ("interrupted", REJECTED)


def test_the_answer_to_a_question_is_the_result_of_the_call() -> None:
    events = decide(QUESTION, respond("q", "this one"))

    assert events[:2] == (
        HumanResponded(id="q", value="this one"),
        ToolResult(id="q", name="ask_user", result="this one", ran=False),
    )
    assert results(believe(QUESTION, events)) == (ToolResultBlock("q", "this one"),)
    assert kinds(events)[2:] == ["TurnContinued", "ResultsRecorded", "StepStarted"]


@pytest.mark.parametrize("state", [IDLE, ASKED, RUNNING, QUESTION])
def test_what_does_not_wait_cannot_be_approved(state: Session) -> None:
    with pytest.raises(CallNotPendingError):
        decide(state, approve("q"))


def test_nobody_decides_for_an_agent_that_is_not_there() -> None:
    stopped = after(WAITING, stop())

    for decision in (approve("b"), reject("b"), respond("b", "x")):
        with pytest.raises(AgentNotFoundError):
            decide(stopped, decision)


@pytest.mark.parametrize(("arguments", "follows"), [(None, "ToolStarted"), ({"amount": 9}, "HumanApproveRequired")])
def test_what_was_approved_once_as_it_is_need_not_be_asked_about_again(
    arguments: dict[str, int] | None, follows: str
) -> None:
    rules = Rules(policies=FIRST_IS_ASKED)
    waiting = after(ASKED, finish(asks(PAY), rules))
    approved = after(waiting, approve("b", rules, arguments=arguments), report("b", rules=rules, turn_id="t7"))

    events = decide(approved, finish(asks(PAY, message_id="m2"), rules, turn_id="t7"))

    assert kinds(events)[2] == follows


# Interrupts, stops, restarts


def test_an_interrupt_answers_what_runs_and_says_that_it_may_have_taken_effect() -> None:
    events = decide(after(RUNNING, receive("t2")), interrupt())

    assert kinds(events) == ["TurnInterrupted", "ToolResult", "ResultsRecorded", "TurnCompleted", "TurnStarted"]
    told = events[1]
    assert isinstance(told, ToolResult)
    assert (told.is_error, told.ran) == (True, True)
    assert told.result == "look: interrupted (user); it is not known whether it took effect"
    assert the_end(events).outcome == "interrupted"


def test_an_interrupt_answers_what_waits_and_goes_on_with_the_queue() -> None:
    queued = after(WAITING, receive("t2"))

    events = decide(queued, interrupt())

    assert kinds(events) == ["ToolResult", "ResultsRecorded", "TurnStarted"]
    assert results(believe(queued, events[:2])) == (
        ToolResultBlock("b", "pay was not run: interrupted (user)", is_error=True),
    )
    assert decide(believe(WAITING, decide(WAITING, interrupt())), interrupt()) == ()


@pytest.mark.parametrize("so_far", [asks(LOOK), asks(LOOK, text="Let me see")])
def test_an_answer_that_asked_for_tools_just_before_is_kept_and_its_calls_are_answered(so_far: ReceivedAnswer) -> None:
    events = decide(ASKED, interrupt(so_far))

    assert kinds(events) == [
        "TurnInterrupted",
        "AnswerRecorded",
        "ToolsRequested",
        "ToolResult",
        "ResultsRecorded",
        "TurnCompleted",
    ]
    answer = events[1]
    assert isinstance(answer, AnswerRecorded)
    assert (answer.stop_reason, answer.partial) == ("tool_use", False)
    assert the_end(events).from_state == ("responding" if so_far.responding else "thinking")


def test_a_stop_keeps_waiting_what_waits() -> None:
    events = decide(WAITING, stop())

    assert events == (AgentStopped("a", "destroyed"),)
    assert believe(WAITING, events).round == WAITING.round


def test_a_stop_answers_what_runs_and_keeps_waiting_what_waits() -> None:
    events = decide(HALF_WAITING, stop())

    assert kinds(events) == ["TurnInterrupted", "ToolResult", "TurnCompleted", "AgentStopped"]
    stopped = believe(HALF_WAITING, events)
    assert stopped.round is not None
    assert [call.id for call in stopped.round.at("waiting")] == ["b"]


def test_a_session_that_runs_again_waits_on_as_long_as_the_policies_are_the_same() -> None:
    stopped = after(WAITING, stop(), run(CAREFUL))

    assert decide(after(WAITING, stop()), run(CAREFUL)) == (AgentStarted("b"),)
    assert kinds(decide(stopped, approve("b"))) == ["ToolApproved", "TurnContinued", "ToolStarted"]


def test_other_policies_ask_again_when_the_session_runs_again() -> None:
    stopped = after(WAITING, stop())

    events = decide(stopped, run(VERY_CAREFUL))

    assert kinds(events) == ["AgentStarted", "HumanApproveRequired"]
    again = believe(stopped, events)
    with pytest.raises(StaleApprovalError):
        decide(again, approve("b", CAREFUL))
    assert kinds(decide(again, approve("b", VERY_CAREFUL))) == ["ToolApproved", "TurnContinued", "ToolStarted"]


def test_what_other_policies_deny_goes_back_to_the_model_when_the_session_runs_again() -> None:
    stopped = after(WAITING, stop())

    events = decide(stopped, run(Rules(policies=PAY_IS_DENIED)))

    assert kinds(events) == ["AgentStarted", "ToolResult", "TurnContinued", "ResultsRecorded", "StepStarted"]
    assert events[2] == TurnContinued("t8", AT)


def test_a_question_waits_on_under_any_policies() -> None:
    stopped = after(QUESTION, stop())

    assert decide(stopped, run(VERY_CAREFUL)) == (AgentStarted("b"),)


def test_a_deletion_answers_what_waits() -> None:
    events = decide(WAITING, Delete(session_id="s", at=AT, results_id="r8"))

    assert kinds(events) == ["ToolResult", "ResultsRecorded", "AgentStopped", "SessionDeleted"]
    assert believe(WAITING, events).round is None
    stopped = after(WAITING, stop())
    assert kinds(decide(stopped, Delete(session_id="s", at=AT))) == ["ToolResult", "ResultsRecorded", "SessionDeleted"]


def test_after_a_crash_an_idempotent_call_runs_again() -> None:
    assert decide(RUNNING, resume(Rules(idempotent=("look",)))) == (ToolStarted(id="a", name="look", attempt=2),)


def test_after_a_crash_the_outcome_of_any_other_call_is_unknown_and_the_model_is_told_so() -> None:
    events = decide(RUNNING, resume())

    assert kinds(events) == ["ToolResult", "ResultsRecorded", "StepStarted"]
    assert "it is not known whether it took effect" in str(results(believe(RUNNING, events))[0].content)


def test_after_a_crash_the_turn_waits_if_only_people_can_go_on() -> None:
    events = decide(HALF_WAITING, resume(CAREFUL))

    assert kinds(events) == ["ToolResult", "TurnCompleted"]
    assert the_end(events).outcome == "waiting"


def test_after_a_crash_under_other_policies_people_are_asked_again() -> None:
    events = decide(HALF_WAITING, resume(VERY_CAREFUL))

    assert kinds(events) == ["ToolResult", "HumanApproveRequired", "TurnCompleted"]
    approved = decide(believe(HALF_WAITING, events), approve("b", VERY_CAREFUL))
    assert kinds(approved) == ["ToolApproved", "TurnContinued", "ToolStarted"]


@pytest.mark.parametrize("state", [IDLE, ASKED, WAITING, BOTH_RUN])
def test_only_a_turn_with_calls_is_resumed(state: Session) -> None:
    other = msgspec.structs.replace(resume(), turn_id="t0")

    assert decide(state, other if state is BOTH_RUN else resume()) == ()


def test_a_log_that_failed_under_calls_fails_the_turn() -> None:
    events = decide(HALF_WAITING, finish(ReceivedAnswer(failure=BROKEN, untold=True), CAREFUL))

    assert kinds(events) == ["ToolResult", "ToolResult", "ResultsRecorded", "TurnFailed", "TurnCompleted"]
    assert (the_end(events).outcome, the_end(events).failure) == ("failed", BROKEN)
    assert decide(HALF_WAITING, finish(ANSWER, CAREFUL)) == ()


def test_in_an_environment_without_tools_what_was_approved_is_not_run_and_the_turn_fails() -> None:
    no_hands = msgspec.structs.replace(CAREFUL, runs_tools=False)

    events = decide(WAITING, approve("b", no_hands))

    assert kinds(events) == [
        "ToolApproved",
        "ToolResult",
        "TurnContinued",
        "ResultsRecorded",
        "TurnFailed",
        "TurnCompleted",
    ]
    assert the_end(events).failure == NO_TOOLS
    assert results(believe(WAITING, events))[0].content == "pay was not run: this environment runs no tools"


def test_in_an_environment_without_tools_nothing_is_run_again() -> None:
    no_hands = Rules(idempotent=("look",), runs_tools=False)

    assert kinds(decide(RUNNING, resume(no_hands))) == ["ToolResult", "ResultsRecorded", "TurnFailed", "TurnCompleted"]


# Limits


def test_the_last_step_runs_no_calls() -> None:
    two = Rules(max_steps=2)
    second = after(RUNNING, report("a", rules=two))

    events = decide(second, finish(asks(PAY), two))

    assert kinds(events)[2:] == ["ToolResult", "ResultsRecorded", "TurnCompleted"]
    assert (the_end(events).outcome, the_end(events).stop_reason) == ("completed", MAX_STEPS)
    assert "the limit of 2 steps is reached" in str(results(believe(second, events))[0].content)


def test_a_limit_that_was_lowered_since_holds_for_the_next_step() -> None:
    events = decide(RUNNING, report("a", rules=Rules(max_steps=1)))

    assert kinds(events) == ["ToolResult", "ResultsRecorded", "TurnCompleted"]
    assert the_end(events).stop_reason == MAX_STEPS


def test_no_limit_of_steps_is_none() -> None:
    state, rules = ASKED, Rules(max_steps=None, max_repeats=None)

    for number in range(1, 200):
        call = ToolUseBlock(f"c{number}", "look", {})
        state = after(state, finish(asks(call), rules), report(f"c{number}", rules=rules))

    assert state.turn is not None
    assert state.turn.steps == 200


def repeated(times: int, *, result: str = "sunny", rules: Rules = FREE) -> Session:
    state = ASKED
    for number in range(times):
        call = ToolUseBlock(f"c{number}", "look", {"at": "a"})
        state = after(state, finish(asks(call), rules), report(f"c{number}", result, rules))
    return state


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_same_calls_with_the_same_results_are_not_run_again_and_again(most: int) -> None:
    rules = Rules(max_repeats=most)
    again = finish(asks(ToolUseBlock("z", "look", {"at": "a"})), rules)

    allowed, stopped = decide(repeated(most - 1, rules=rules), again), decide(repeated(most, rules=rules), again)

    assert kinds(allowed)[2:] == ["ToolStarted"]
    assert kinds(stopped)[2:] == ["ToolResult", "ResultsRecorded", "TurnCompleted"]
    assert (the_end(stopped).outcome, the_end(stopped).stop_reason) == ("completed", REPEATED)


def test_other_calls_or_other_results_are_no_repetition() -> None:
    twice = repeated(2, rules=Rules(max_repeats=2))
    different = after(repeated(1), finish(asks(ToolUseBlock("y", "look", {"at": "a"}))), report("y", "rainy"))
    again, rules = asks(ToolUseBlock("z", "look", {"at": "a"})), Rules(max_repeats=2)
    unlimited = Rules(max_repeats=None)

    assert kinds(decide(twice, finish(asks(ToolUseBlock("z", "look", {"at": "b"})), rules)))[2:] == ["ToolStarted"]
    assert kinds(decide(different, finish(again, rules)))[2:] == ["ToolStarted"]
    assert kinds(decide(repeated(9, rules=unlimited), finish(again, unlimited)))[2:] == ["ToolStarted"]


def spend(limit: CostLimit | None, *, usage: Usage = USAGE) -> tuple[Rules, Session]:
    rules = msgspec.structs.replace(PRICED, cost_limit=limit)
    return rules, after(ASKED, finish(asks(LOOK, usage=usage), rules))


def test_what_a_turn_costs_is_what_its_answers_and_its_tools_cost() -> None:
    rules, state = spend(None)

    told = after(state, report("a", rules=rules))
    events = decide(told, finish(says("sunny", usage=USAGE), rules))

    assert (the_end(events).usage, the_end(events).cost) == ({"input_tokens": 4}, 4.5)
    done = believe(told, events)
    assert done.ledger.models == {"m": Spent(2, {"input_tokens": 4}, 4.0)}
    assert done.ledger.tools == {"look": Spent(1, {}, 0.5)}


def test_an_answer_that_says_nothing_is_paid_for_all_the_same() -> None:
    rules, state = spend(None)
    told = after(state, report("a", rules=rules))

    events = decide(told, finish(says("", usage=USAGE), rules))

    assert events == (
        msgspec.structs.replace(
            the_end(events), usage={"input_tokens": 4}, cost=4.5, unsaid=UnrecordedUsage("m", {"input_tokens": 2}, 2.0)
        ),
    )
    assert believe(told, events).ledger.models == {"m": Spent(2, {"input_tokens": 4}, 4.0)}
    nameless = TurnCompleted("t1", "completed", "x", {}, 0, "thinking", unsaid=UnrecordedUsage(None, {}, None))
    assert evolve(ASKED, nameless).ledger.models == {"": Spent(1, {}, 0.0, 1)}


def test_what_is_not_priced_is_not_known() -> None:
    events = decide(ASKED, finish(says("Hi", usage=USAGE)))

    assert the_end(events).cost is None
    assert believe(ASKED, events).ledger.models["m"].unpriced == 1


@pytest.mark.parametrize(("on_exceeded", "outcome"), [("stop", "completed"), ("interrupt", "interrupted")])
def test_beyond_the_cost_limit_no_call_is_run(on_exceeded: str, outcome: str) -> None:
    limit = msgspec.convert({"max_total": 1.9, "on_exceeded": on_exceeded}, CostLimit)
    rules = msgspec.structs.replace(PRICED, cost_limit=limit)

    events = decide(ASKED, finish(asks(LOOK, usage=USAGE), rules))

    cut = ["TurnInterrupted"] if outcome == "interrupted" else []
    assert kinds(events)[2:] == ["ToolResult", "ResultsRecorded", *cut, "TurnCompleted"]
    assert (the_end(events).outcome, the_end(events).stop_reason) == (outcome, COST_LIMIT)
    assert "cost limit" in str(results(believe(ASKED, events))[0].content)


def test_at_the_cost_limit_everything_goes_on() -> None:
    rules, state = spend(CostLimit(2.5))

    assert kinds(decide(state, report("a", rules=rules)))[-1] == "StepStarted"


def test_beyond_the_cost_limit_the_model_is_not_asked_again() -> None:
    rules, state = spend(CostLimit(2.4))

    events = decide(state, report("a", rules=rules))

    assert kinds(events) == ["ToolResult", "ResultsRecorded", "TurnCompleted"]
    assert the_end(events).stop_reason == COST_LIMIT
    assert the_end(events).from_state == "tool_executing"


def test_beyond_the_cost_limit_each_message_ends_its_turn_at_once() -> None:
    rules, state = spend(CostLimit(2.4))
    queued = after(state, receive("t2", rules), receive("t3", rules))

    events = decide(queued, report("a", rules=rules))

    assert kinds(events)[2:] == ["TurnCompleted", *["TurnStarted", "TurnCompleted"] * 2]
    done = believe(queued, events)
    assert kinds(decide(done, receive("t4", rules))) == ["MessageAccepted", "TurnStarted", "TurnCompleted"]


def test_a_limit_that_warns_does_so_once() -> None:
    rules, state = spend(CostLimit(1.0, "warn"))

    events = decide(state, report("a", rules=rules))

    assert kinds(events) == ["ToolResult", "ResultsRecorded", "Warning", "StepStarted"]
    (warning,) = [event for event in events if isinstance(event, LimitWarning)]
    assert warning.reason == COST_LIMIT
    assert warning.message == "2.5 were spent, more than the limit of 1"
    told = after(believe(state, events), finish(asks(PAY), rules))
    assert kinds(decide(told, report("b", rules=rules))) == ["ToolResult", "ResultsRecorded", "StepStarted"]


# Compression


def compress(kept: int, summary: str = "so far", *, turn_id: str = "t1") -> Compress:
    return Compress(turn_id=turn_id, summary=summary, kept=kept, usage=USAGE, model="m", at=AT, rules=PRICED)


def test_what_the_api_used_for_its_own_tools_is_not_the_length_of_the_conversation() -> None:
    ran = OpaqueBlock({"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {}})
    found = OpaqueBlock({"type": "code_execution_tool_result", "tool_use_id": "s", "content": {}})

    told = after(ASKED, finish(asks(ran, found, LOOK, usage={"input_tokens": 120_000})))

    assert told.context_tokens == 60_000


def test_the_model_is_given_the_summary_in_place_of_what_it_sums_up() -> None:
    long = after(RUNNING, report("a"))

    events = decide(long, compress(0))

    assert events == (ContextCompressed("t1", "so far", 3, USAGE, "m", 2.0, AT),)
    short = believe(long, events)
    assert list(for_model(short)) == [summary_message("so far")]
    assert len(short.conversation) == 3
    assert short.context_tokens == 0
    assert short.turn is not None
    assert (short.turn.usage, short.turn.cost) == ({"input_tokens": 2}, 2.0)
    assert short.ledger.models["m"] == Spent(2, {"input_tokens": 2}, 2.0, 1)


def test_results_stay_with_their_calls() -> None:
    long = after(RUNNING, report("a"))

    short = after(long, compress(1))

    assert list(for_model(short)) == [summary_message("so far"), *list(long.conversation)[1:]]


def test_a_second_summary_takes_the_place_of_the_first() -> None:
    long = after(RUNNING, report("a"), compress(1), finish(asks(PAY)), report("b"))

    short = after(long, compress(2, "all of it"))

    assert list(for_model(short)) == [summary_message("all of it"), *list(long.conversation)[3:]]
    assert decide(short, compress(3)) == ()
    assert decide(short, compress(4)) == ()


@pytest.mark.parametrize(
    ("state", "command"),
    [
        (IDLE, compress(0)),
        (ASKED, compress(0, turn_id="t0")),
        (ASKED, compress(0, " ")),
        (ASKED, compress(1)),
        (ASKED, compress(-1)),
        (RUNNING, compress(0)),
    ],
)
def test_a_summary_that_does_not_fit_is_not_taken_in(state: Session, command: Compress) -> None:
    assert decide(state, command) == ()


# History that no decision makes any more


def test_history_without_a_turn_or_a_round_can_be_folded_too() -> None:
    idle = session(CREATED)
    lonely: tuple[SessionEvent, ...] = (
        AnswerRecorded("t0", "m", (TextBlock("Hi"),), "end_turn", False, USAGE, None, 1, 2.0),  # noqa: FBT003 - as stored
        ToolStarted(id="a", name="look"),
        ToolResult(id="a", name="look"),
        StepStarted("t0", 2, 1),
        ContextCompressed("t0", "so far", 1, {}, None, None, 1),
        ToolsRequested("t0", "thinking"),
        ToolApproved(id="nobody", digest="d"),
        ToolResult(id="nobody", name="look", cost=1.0),
    )

    folded = believe(idle, lonely)

    assert folded.turn is None
    assert folded.ledger.cost == 3.0
    assert folded.ledger.tools == {"look": Spent(1, {}, 1.0)}


def test_a_decision_of_a_person_shows_in_what_follows_from_it() -> None:
    said: tuple[SessionEvent, ...] = (ToolRejected(id="b", reason="no"), HumanResponded(id="b", value=1))

    assert believe(WAITING, said) == WAITING


def test_a_call_that_is_rejected_again_and_again_is_not_asked_about_for_ever() -> None:
    state = ASKED
    for number in range(3):
        call = msgspec.structs.replace(PAY, id=f"c{number}")
        answer = asks(call, message_id=f"m{number}")
        no = msgspec.structs.replace(reject(call.id), turn_id=f"t{number + 2}")
        state = after(state, finish(answer, CAREFUL, turn_id=f"t{number + 1}"), no)

    again = asks(msgspec.structs.replace(PAY, id="z"), message_id="m9")
    stopped = decide(state, finish(again, CAREFUL, turn_id="t4"))

    assert the_end(stopped).stop_reason == REPEATED
