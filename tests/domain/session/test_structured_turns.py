"""How a turn goes on whose answer must fit a schema: it is asked for again, and fails when it was asked for often."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.history.causes import read_cause
from reenact.domain.history.explanation import Outside, causes_of
from reenact.domain.loop.ledger import CostLimit
from reenact.domain.loop.rules import Rules
from reenact.domain.marks import mark
from reenact.domain.messages import Block, TextBlock
from reenact.domain.output import INVALID, OutputSpec
from reenact.domain.session.agent import (
    AnswerRecorded,
    Failure,
    MessageAccepted,
    OutputAccepted,
    OutputRejected,
    ReceivedAnswer,
    StepStarted,
    TurnCompleted,
    TurnFailed,
)
from reenact.domain.session.commands import BranchSession, Finish, Receive, SessionCommand
from reenact.domain.session.state import Session, SessionEvent, for_model
from reenact.domain.session.turns import COST_LIMIT, MAX_STEPS
from reenact.domain.stream import events as heard
from tests.domain.history.retraced import STARTED, check_retraced, events_of, told
from tests.domain.session.announced import announced
from tests.domain.session.examples import HELLO, IDLE
from tests.domain.session.loops import (
    AT,
    LOOK,
    PAY,
    PRICED,
    USAGE,
    after,
    approve,
    asks,
    decide,
    finish,
    interrupt,
    receive,
    report,
    says,
    stop,
)
from tests.domain.session.policies import PAY_IS_ASKED

NUMBER = OutputSpec(
    name="number",
    schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    retries=2,
)
STRUCTURED = Rules(output=NUMBER)
GOOD = '{"n": 5}'
BAD = '{"n": "five"}'
FAULT = '`n` must be an integer; got "five"'
AGAIN = True


def kinds(events: tuple[SessionEvent, ...]) -> list[str]:
    return [type(event).__name__ for event in events]


def wanting(output: OutputSpec | None = NUMBER, turn_id: str = "t1") -> Receive:
    return msgspec.structs.replace(receive(turn_id), output=output)


ASKED = after(IDLE, wanting())
"""The model is asked for a number."""


def rejected(attempt: int, *, again: bool, message_id: str = "m9") -> OutputRejected:
    return OutputRejected("t1", message_id, attempt, (FAULT,), again, "responding", AT)


def test_an_answer_that_fits_is_accepted() -> None:
    events = decide(ASKED, finish(says(GOOD)))

    assert kinds(events) == ["AnswerRecorded", "OutputAccepted", "TurnCompleted"]
    assert events[1] == OutputAccepted("t1", "m9")


def test_an_answer_that_does_not_fit_is_kept_and_asked_for_again() -> None:
    assert decide(ASKED, finish(says(BAD))) == (
        AnswerRecorded("t1", "m9", (TextBlock(BAD),), "end_turn", False, {}, "m", AT),  # noqa: FBT003 - as stored
        rejected(1, again=True),
        StepStarted("t1", 2, AT),
    )


def test_the_model_is_given_its_answer_and_what_is_wrong_with_it() -> None:
    given_back = for_model(after(ASKED, finish(says(BAD))))

    assert [said.role for said in given_back] == ["user", "assistant", "user"]
    assert given_back[1].text == BAD
    assert FAULT in given_back[2].text


def test_what_never_fits_fails_the_turn_and_is_not_asked_for_again() -> None:
    twice = after(ASKED, finish(says(BAD)), finish(says(BAD)))

    events = decide(twice, finish(says(BAD)))

    failure = Failure(INVALID, "the answer does not fit what was asked for, after 3 attempts")
    assert kinds(events) == ["AnswerRecorded", "OutputRejected", "TurnFailed", "TurnCompleted"]
    assert events[1:3] == (rejected(3, again=False), TurnFailed("t1", failure))
    assert events[3] == TurnCompleted("t1", "failed", INVALID, {}, 0.0, "responding", failure)
    assert for_model(after(twice, finish(says(BAD))))[-1].text == BAD


def test_so_often_as_the_output_says() -> None:
    once = after(IDLE, wanting(msgspec.structs.replace(NUMBER, retries=0)))

    assert kinds(decide(once, finish(says(BAD))))[-1] == "TurnCompleted"


def test_what_the_image_says_holds_for_messages_that_say_nothing() -> None:
    plain = after(IDLE, receive("t1", STRUCTURED))
    other = OutputSpec(name="text", schema={"type": "object", "required": ["s"]})

    assert kinds(decide(plain, finish(says(BAD), STRUCTURED)))[-1] == "StepStarted"
    assert kinds(decide(after(IDLE, wanting(other)), finish(says('{"s": 1}'), STRUCTURED)))[1] == "OutputAccepted"


def test_the_next_turn_begins_with_no_attempt_behind_it() -> None:
    failed = after(ASKED, *[finish(says(BAD))] * 3, wanting(turn_id="t2"))

    (_, one, *_) = decide(failed, finish(says(BAD), turn_id="t2"))

    assert isinstance(one, OutputRejected)
    assert one.attempt == 1


def test_the_next_message_begins_when_the_turn_has_failed() -> None:
    queued = after(ASKED, finish(says(BAD)), finish(says(BAD)), receive("t2"))

    assert kinds(decide(queued, finish(says(BAD))))[-1] == "TurnStarted"


@pytest.mark.parametrize("stop_reason", ["refusal", "max_tokens", "model_context_window_exceeded", "pause_turn"])
def test_what_is_refused_or_cut_off_is_not_asked_for_again(stop_reason: str) -> None:
    cut = msgspec.structs.replace(says("I can"), stop_reason=stop_reason)

    events = decide(ASKED, finish(cut))

    assert kinds(events) == ["AnswerRecorded", "TurnCompleted"]
    assert isinstance(events[1], TurnCompleted)
    assert (events[1].outcome, events[1].stop_reason) == ("completed", stop_reason)


def test_an_answer_without_a_word_is_asked_for_again() -> None:
    events = decide(ASKED, finish(says("")))

    assert kinds(events) == ["AnswerRecorded", "OutputRejected", "StepStarted"]
    assert isinstance(events[1], OutputRejected)
    assert (events[1].errors, events[1].from_state) == (("the answer has no text",), "thinking")


def test_a_failure_of_the_environment_is_none_of_the_answer() -> None:
    broken = ReceivedAnswer(message_id="m9", content=(TextBlock(BAD),), failure=Failure("api_error", "down"), model="m")

    assert kinds(decide(ASKED, finish(broken))) == ["AnswerRecorded", "TurnCompleted"]
    assert kinds(decide(ASKED, finish(ReceivedAnswer()))) == ["TurnCompleted"]


def test_an_answer_that_asks_for_tools_is_none_yet() -> None:
    running = after(ASKED, finish(asks(LOOK, text="Let me see")))

    assert kinds(decide(running, report("a")))[-1] == "StepStarted"
    assert "OutputAccepted" in kinds(decide(after(running, report("a")), finish(says(GOOD))))


def test_attempts_count_on_when_a_person_has_decided() -> None:
    careful = Rules(policies=PAY_IS_ASKED)
    waiting = after(ASKED, finish(says(BAD)), finish(says(BAD)), finish(asks(PAY), careful))
    goes_on = after(waiting, approve("b"), report("b", rules=careful, turn_id="t7"))

    events = decide(goes_on, finish(says(BAD), careful, turn_id="t7"))

    assert isinstance(events[1], OutputRejected)
    assert (events[1].attempt, events[1].again) == (3, False)


def test_an_environment_that_hears_of_no_further_step_is_not_asked_again() -> None:
    assert kinds(decide(ASKED, finish(says(BAD), Rules(runs_tools=False))))[1:] == [
        "OutputRejected",
        "TurnFailed",
        "TurnCompleted",
    ]


def test_limits_hold_for_attempts_too() -> None:
    few, poor = Rules(max_steps=1), msgspec.structs.replace(PRICED, cost_limit=CostLimit(1.0))

    by_steps = decide(ASKED, finish(says(BAD), few))[-1]
    by_cost = decide(ASKED, finish(says(BAD, usage=USAGE), poor))[-1]

    assert isinstance(by_steps, TurnCompleted)
    assert isinstance(by_cost, TurnCompleted)
    assert (by_steps.stop_reason, by_cost.stop_reason) == (MAX_STEPS, COST_LIMIT)


def test_every_attempt_is_paid_for() -> None:
    ended = decide(after(ASKED, finish(says(BAD, usage=USAGE), PRICED)), finish(says(GOOD, usage=USAGE), PRICED))[-1]

    assert isinstance(ended, TurnCompleted)
    assert (ended.usage, ended.cost) == ({"input_tokens": 4}, 4.0)


@pytest.mark.parametrize("ends", [interrupt, stop])
def test_an_answer_that_had_come_when_the_turn_was_cut_short_is_accepted_or_rejected(ends: Any) -> None:  # noqa: ANN401
    fits, does_not = decide(ASKED, ends(says(GOOD))), decide(ASKED, ends(says(BAD)))

    assert kinds(fits)[:3] == ["AnswerRecorded", "OutputAccepted", "TurnCompleted"]
    assert kinds(does_not)[:4] == ["TurnInterrupted", "AnswerRecorded", "OutputRejected", "TurnCompleted"]
    assert does_not[2] == rejected(1, again=False)


def test_a_part_of_an_answer_is_neither() -> None:
    part = msgspec.structs.replace(says('{"n"'), stop_reason=None)

    assert kinds(decide(ASKED, interrupt(part))) == ["TurnInterrupted", "AnswerRecorded", "TurnCompleted"]


def test_a_branch_asks_for_what_its_messages_asked_for() -> None:
    waiting = after(IDLE, receive("t0"), wanting())
    edit: tuple[Block, ...] = (TextBlock("Another number?"),)

    branched = decide(waiting, branching(edit))[-1]

    assert isinstance(branched, MessageAccepted)
    assert (branched.content, branched.output) == (edit, NUMBER)
    assert decide(waiting, branching(None))[-1] == MessageAccepted("b1", "mb", HELLO, AT, None, NUMBER)


def branching(edit: tuple[Block, ...] | None) -> BranchSession:
    return BranchSession(
        session_id="branch",
        container_id="c",
        image_id="i",
        image_revision=1,
        origin="s",
        version=5,
        digest="",
        position=5,
        at=AT,
        left_at=AT,
        edit=edit,
        ids=(("b1", "mb"),),
    )


# What is heard, and why


def test_a_rejection_is_heard_before_the_model_is_asked_again() -> None:
    told_of = [data for _, data in announced(ASKED, decide(ASKED, finish(says(BAD))))]

    assert [data.event_type for data in told_of] == [
        "assistant_message",
        "output_rejected",
        "agent_state_changed",
        "step_started",
    ]
    assert told_of[1] == heard.OutputRejected(turn_id="t1", message_id="m9", attempt=1, errors=(FAULT,), again=AGAIN)
    assert told_of[2] == heard.AgentStateChanged(previous="responding", current="thinking")


def test_an_accepted_answer_is_heard_with_its_value() -> None:
    told_of = [data for _, data in announced(ASKED, decide(ASKED, finish(says(GOOD))))]

    assert told_of[1] == heard.OutputAccepted(turn_id="t1", message_id="m9", output={"n": 5})


def test_a_value_that_was_taken_out_of_the_log_is_not_heard() -> None:
    answer, *others = decide(ASKED, finish(says(GOOD)))
    redacted = msgspec.structs.replace(answer, content=(TextBlock(mark("field")),))

    told_of = [data for _, data in announced(ASKED, (redacted, *others))]

    assert told_of[1] == heard.OutputAccepted(turn_id="t1", message_id="m9", output=None)


def test_each_step_of_a_repair_follows_from_the_one_before() -> None:
    steps = told(*STARTED, wanting(), *[finish(says(BAD))] * 3, wanting(turn_id="t2"), finish(says(GOOD), turn_id="t2"))
    events = events_of(steps)
    causes = causes_of([(type(step.command), step.events) for step in steps])
    found = [
        (type(event).__name__, [type(events[place]).__name__ for place in cause.places], cause.outside)
        for event, cause in zip(events, causes, strict=True)
    ]

    model = Outside("model", "m")
    assert found[4:] == [
        ("AnswerRecorded", ["TurnStarted"], model),
        ("OutputRejected", ["AnswerRecorded"], None),
        ("StepStarted", ["OutputRejected"], None),
        ("AnswerRecorded", ["StepStarted"], model),
        ("OutputRejected", ["AnswerRecorded"], None),
        ("StepStarted", ["OutputRejected"], None),
        ("AnswerRecorded", ["StepStarted"], model),
        ("OutputRejected", ["AnswerRecorded"], None),
        ("TurnFailed", ["OutputRejected"], None),
        ("TurnCompleted", ["TurnFailed"], None),
        ("MessageAccepted", [], Outside("message")),
        ("TurnStarted", ["MessageAccepted"], None),
        ("AnswerRecorded", ["TurnStarted"], model),
        ("OutputAccepted", ["AnswerRecorded"], None),
        ("TurnCompleted", ["OutputAccepted"], None),
    ]


# Whatever comes


ANSWERS = st.sampled_from([GOOD, BAD, "", "no JSON", f"Well:\n{GOOD}", "[1", '{"n": 1.0}'])
ENDS = st.sampled_from(["finish", "finish", "finish", "refusal", "max_tokens", "interrupt", "fail", "tools"])


@given(st.lists(st.tuples(ENDS, ANSWERS), max_size=12), st.integers(0, 3), st.booleans())
def test_a_turn_ends_with_the_first_answer_that_fits_or_when_it_was_asked_for_often_enough(
    answers: list[tuple[str, str]],
    retries: int,
    from_image: bool,  # noqa: FBT001 - drawn
) -> None:
    output = msgspec.structs.replace(NUMBER, retries=retries)
    rules = Rules(output=output, max_steps=None) if from_image else Rules(max_steps=None)
    commands: list[SessionCommand] = [*STARTED, wanting(None if from_image else output)]
    session, attempts, expected = after(Session(), *commands), 0, ""
    for how, text in answers:
        if session.turn is None:
            break
        call = f"c{len(commands)}"
        command = answered(how, text, rules, call)
        commands.append(command)
        session = after(session, command)
        if how == "tools":
            commands.append(report(call, rules=rules))
            session = after(session, commands[-1])
        elif how in ("interrupt", "fail", "refusal", "max_tokens") or "5" in text or "1.0" in text:
            expected = how
        else:
            attempts += 1
            expected = "invalid" if attempts > retries else ""
        assert (session.turn is None) == bool(expected)

    steps = told(*commands)
    events = events_of(steps)
    found = [event for event in events if isinstance(event, OutputRejected)]
    assert [event.attempt for event in found if event.again] == list(range(1, 1 + sum(one.again for one in found)))
    assert len([one for one in found if one.again]) <= retries
    if expected == "invalid":
        assert [event.again for event in found] == [True] * retries + [False]
    assert any(isinstance(event, OutputAccepted) for event in events) == is_accepted(expected, events)
    check_retraced(steps, session)
    for step in steps:
        assert read_cause(step.cause).command(step.events, rules) == step.command or not isinstance(
            step.command, Finish
        )


def is_accepted(expected: str, events: list[SessionEvent]) -> bool:
    last = [event for event in events if isinstance(event, AnswerRecorded)]
    fits = bool(last) and any(good in str(last[-1].content) for good in ("5}", "1.0}"))
    return expected in ("finish", "interrupt") and fits and not last[-1].partial


def answered(how: str, text: str, rules: Rules, call: str) -> SessionCommand:
    match how:
        case "interrupt":
            return interrupt(says(text), rules)
        case "fail":
            return finish(ReceivedAnswer(failure=Failure("api_error", "down"), message_id="m9"), rules)
        case "tools":
            return finish(asks(msgspec.structs.replace(LOOK, id=call)), rules)
        case "refusal" | "max_tokens":
            return finish(msgspec.structs.replace(says(text), stop_reason=how), rules)
        case _:
            return finish(says(text), rules)
