"""What would be otherwise under other rules: each recorded decision by itself, and nothing under those recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.domain.history.what_if import Otherwise, RuleOverrides, WhatIf
from reenact.domain.image import Definition
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanPromptRequired,
    HumanSelectRequired,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.loop.ledger import CostLimit, Price
from reenact.domain.loop.rules import Rules
from reenact.domain.marks import mark
from reenact.domain.messages import ToolUseBlock
from reenact.domain.policy.judge import Policies, judge
from reenact.domain.policy.rules import Policy, Rule
from reenact.domain.session import turns
from reenact.domain.session.agent import AnswerRecorded, Failure, ReceivedAnswer, ToolsRequested, TurnCompleted
from reenact.domain.session.commands import BranchSession, Compress, Delete, Finish, SessionCommand
from reenact.domain.session.state import Session, SessionEvent, evolve
from reenact.domain.tools import ToolSpec
from tests.domain.history.retraced import STARTED, Step, played, told
from tests.domain.session.loops import (
    ASK,
    AT,
    CAREFUL,
    FREE,
    LOOK,
    PAY,
    PRICED,
    USAGE,
    approve,
    asks,
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
from tests.domain.session.policies import ALL_IS_ASKED, ANYTHING_GOES, EACH, PAY_IS_ASKED, PAY_IS_DENIED, PAY_IS_LIMITED
from tests.examples import examples
from tests.projections.histories import RULES
from tests.projections.histories import Step as Doing
from tests.projections.histories import steps as doings

LIMITS = {turns.MAX_STEPS, turns.COST_LIMIT, turns.REPEATED}


def followed(
    steps: Sequence[Step], instead: RuleOverrides, begins: Session | None = None
) -> tuple[list[Otherwise], WhatIf]:
    """Return what would be otherwise in the steps, at positions from 1 on, and what followed them."""
    history, found, position = WhatIf(instead), list[Otherwise](), 1
    history.session = begins or Session()
    for step in steps:
        found += history.follow(step.cause, position, step.events)
        position += len(step.events)
    return found, history


def otherwise(instead: RuleOverrides, *commands: SessionCommand) -> list[Otherwise]:
    return followed(told(*STARTED, *commands), instead)[0]


def brief(found: Sequence[Otherwise]) -> list[tuple[str | None, str, str]]:
    """Return which calls or turns would be otherwise, and how: a decision and the limit behind it."""

    def ruled(one: Any) -> str:  # noqa: ANN401 - of either side
        return f"{one.decision} {one.limit}" if one.limit else str(one.decision)

    return [(one.call_id or one.turn_id, ruled(one.recorded), ruled(one.decided)) for one in found]


ASKS_FOR_TWO = (receive("t1"), finish(asks(LOOK, PAY)))


def test_calls_that_ran_would_be_asked_about_or_denied() -> None:
    asked = otherwise(RuleOverrides(policies=PAY_IS_ASKED), *ASKS_FOR_TWO)
    denied = otherwise(RuleOverrides(policies=PAY_IS_DENIED), *ASKS_FOR_TWO)

    assert brief(asked) == [("b", "run", "ask")]
    assert (asked[0].tool, asked[0].arguments, asked[0].turn_id) == ("pay", {"amount": 1}, "t1")
    assert asked[0].recorded.reason == "no policy is set for it"
    assert asked[0].decided.reason == "its policy asks about it"
    assert brief(denied) == [("a", "run", "ask"), ("b", "run", "deny")]
    assert denied[1].decided.reason == "the deny list forbids it"


def test_the_position_is_that_of_what_was_decided() -> None:
    steps = told(*STARTED, *ASKS_FOR_TWO)
    events = [event for step in steps for event in step.events]

    (found,), _ = followed(steps, RuleOverrides(policies=PAY_IS_ASKED))

    assert events[found.position - 1] == ToolStarted(id="b", name="pay")


def test_rules_that_replace_others_in_the_middle_hold_from_there_on() -> None:
    first, second = told(*STARTED, *ASKS_FOR_TWO), RuleOverrides(policies=PAY_IS_DENIED)
    history = WhatIf(RuleOverrides(policies=ANYTHING_GOES))

    for step in first[:-1]:
        assert history.follow(step.cause, 1, step.events) == []
    history.hold(second)

    assert brief(history.follow(first[-1].cause, 1, first[-1].events)) == [("a", "run", "ask"), ("b", "run", "deny")]


def test_calls_that_people_were_asked_about_would_run_or_be_denied() -> None:
    waits = (receive("t1", CAREFUL), finish(asks(PAY), CAREFUL))

    assert brief(otherwise(RuleOverrides(policies=ANYTHING_GOES), *waits)) == [("b", "ask", "run")]
    assert brief(otherwise(RuleOverrides(policies=PAY_IS_DENIED), *waits)) == [("b", "ask", "deny")]


def test_calls_that_were_denied_would_run() -> None:
    denying = Rules(policies=PAY_IS_DENIED)

    found = otherwise(RuleOverrides(policies=ANYTHING_GOES), receive("t1", denying), finish(asks(PAY), denying))

    assert brief(found) == [("b", "deny", "run")]
    assert found[0].recorded.reason == "the deny list forbids it"


def test_a_call_is_judged_by_what_people_had_approved_by_then() -> None:
    again = ToolUseBlock("c", "pay", {"amount": 1})
    first = RuleOverrides(policies=Policies(tools={"pay": Policy("first")}, deny=()))
    approved = (
        receive("t1", CAREFUL),
        finish(asks(PAY), CAREFUL),
        approve("b"),
        report("b", "ok", CAREFUL, turn_id="t7"),
    )

    found = otherwise(first, *approved, finish(asks(again), CAREFUL, turn_id="t7"))

    assert brief(found) == [("c", "ask", "run")]
    assert found[0].decided.reason == "a person has approved the same call before"
    assert found[0].turn_id == "t7"


def test_a_question_to_a_person_would_be_denied() -> None:
    asked = (receive("t1"), finish(asks(ASK)), respond("q", "Yes"))

    assert brief(otherwise(RuleOverrides(policies=Policies(deny=("ask_user",))), *asked)) == [("q", "ask", "deny")]
    assert otherwise(RuleOverrides(policies=PAY_IS_DENIED), *asked) == []


def test_what_a_person_made_of_a_call_is_judged_again() -> None:
    waits = (receive("t1", CAREFUL), finish(asks(PAY), CAREFUL))
    edited = approve("b", arguments={"amount": 9})

    found = otherwise(RuleOverrides(policies=PAY_IS_LIMITED), *waits, edited)
    strict = Rules(policies=PAY_IS_LIMITED)
    denied = otherwise(
        RuleOverrides(policies=PAY_IS_ASKED),
        receive("t1", strict),
        finish(asks(PAY), strict),
        approve("b", strict, arguments={"amount": 9}),
    )

    assert brief(found) == [("b", "run", "deny")]
    assert found[0].arguments == {"amount": 9}
    assert found[0].turn_id == "t7"
    assert found[0].decided.reason == "rules[0] of its policy denies it for its `amount`"
    assert brief(denied) == [("b", "deny", "run")]


def test_an_approval_alone_judges_nothing() -> None:
    found = otherwise(
        RuleOverrides(policies=ALL_IS_ASKED), receive("t1", CAREFUL), finish(asks(PAY), CAREFUL), approve("b")
    )

    assert found == []


@pytest.mark.parametrize(
    ("instead", "expected"),
    [(PAY_IS_DENIED, ["deny"]), (PAY_IS_ASKED, []), (ANYTHING_GOES, [])],
    ids=["denied", "those they were asked by", "waits all the same"],
)
def test_calls_that_were_judged_again_since_the_policies_had_changed_are(
    instead: Policies, expected: list[str]
) -> None:
    steps = told(
        *STARTED,
        receive("t1", CAREFUL),
        finish(asks(PAY), CAREFUL),
        stop(rules=CAREFUL),
        run(Rules(policies=ALL_IS_ASKED)),
    )
    first = sum(len(step.events) for step in steps[:-1])

    found, _ = followed(steps, RuleOverrides(policies=instead))

    assert [one.decided.decision for one in found if one.position > first] == expected
    assert {one.turn_id for one in found} <= {"t1"}


def test_calls_that_ran_again_after_a_crash_are_judged_again() -> None:
    lasting = Rules(idempotent=("look",), policies=ANYTHING_GOES)
    crashed = (receive("t1", lasting), finish(asks(LOOK, PAY), lasting), resume(lasting))

    found = otherwise(RuleOverrides(policies=ALL_IS_ASKED), *crashed)

    assert brief(found) == [("a", "run", "ask"), ("b", "run", "ask"), ("a", "run", "ask")]


def test_an_approved_call_runs_again_after_a_crash_without_being_judged() -> None:
    lasting = Rules(idempotent=("look",), policies=ALL_IS_ASKED)
    crashed = (receive("t1", lasting), finish(asks(LOOK), lasting), approve("a", lasting))
    resumed = msgspec.structs.replace(resume(lasting), turn_id="t7")

    found = otherwise(RuleOverrides(policies=Policies(tools={"look": Policy("always")}, deny=())), *crashed, resumed)

    assert found == []


def test_calls_that_a_limit_kept_from_running_are_not_judged() -> None:
    limited = Rules(max_steps=1)

    assert otherwise(RuleOverrides(policies=PAY_IS_DENIED), receive("t1", limited), finish(asks(PAY), limited)) == []


def test_calls_that_were_cut_short_are_not_judged() -> None:
    assert otherwise(RuleOverrides(policies=PAY_IS_DENIED), receive("t1"), interrupt(asks(PAY))) == []


def test_arguments_that_were_taken_out_leave_a_call_undecided() -> None:
    hidden = ToolUseBlock("b", "pay", {"amount": mark("field")})

    found, history = followed(
        told(*STARTED, receive("t1"), finish(asks(LOOK, hidden))), RuleOverrides(policies=ALL_IS_ASKED)
    )

    assert brief(found) == [("a", "run", "ask")]
    assert (history.decisions, history.undecided) == (2, 1)


def test_a_call_that_the_log_does_not_explain_is_undecided() -> None:
    """A link had led elsewhere, say, or a release denies more than the last one did."""
    *before, last = told(*STARTED, receive("t1"), finish(asks(PAY)))
    denied = tuple(
        ToolResult(id=event.id, name=event.name, result="no", is_error=True, ran=False)
        if isinstance(event, ToolStarted)
        else event
        for event in last.events
    )

    found, history = followed([*before, Step(last.command, denied)], RuleOverrides(policies=PAY_IS_ASKED))

    assert found == []
    assert (history.decisions, history.undecided) == (1, 1)


def test_a_step_that_is_refused_today_is_undecided() -> None:
    *before, last = told(*STARTED, receive("t1", CAREFUL), finish(asks(PAY), CAREFUL), approve("b", arguments={"n": 1}))
    history = WhatIf(RuleOverrides(policies=PAY_IS_DENIED))
    for step in before[:-1]:
        history.follow(step.cause, 1, step.events)

    unasked = [event for event in before[-1].events if not isinstance(event, HumanApproveRequired)]
    history.follow(before[-1].cause, 1, unasked)
    decided = history.undecided
    assert history.follow(last.cause, 1, last.events) == []
    assert history.undecided > decided


def test_a_step_without_its_command_is_undecided() -> None:
    *before, last = told(*STARTED, *ASKS_FOR_TWO)
    history = WhatIf(RuleOverrides(policies=ALL_IS_ASKED))
    for step in before:
        history.follow(step.cause, 1, step.events)

    assert history.follow(None, 1, last.events) == []
    assert (history.decisions, history.undecided) == (2, 2)


def test_nothing_is_otherwise_where_nothing_is_given() -> None:
    found, history = followed(told(*STARTED, *ASKS_FOR_TWO), RuleOverrides())

    assert (found, history.decisions) == ([], 0)


# Limits


TWO_ROUNDS = (receive("t1"), finish(asks(LOOK)), report("a"), finish(asks(PAY, message_id="m2")), report("b"))


def test_a_turn_would_end_earlier_and_what_became_of_it_later_is_not_looked_at() -> None:
    found = otherwise(RuleOverrides(max_steps=1), *TWO_ROUNDS, finish(says("Hi"), turn_id="t1"))

    assert brief(found) == [("t1", "go_on", "stop max_steps_exceeded")]
    assert found[0].decided.reason == "the limit of 1 steps is reached"
    assert found[0].recorded.reason == "no limit is reached"
    assert (found[0].call_id, found[0].tool, found[0].arguments) == (None, None, None)


def test_a_turn_that_a_limit_ended_would_go_on() -> None:
    limited = Rules(max_steps=1)

    found = otherwise(
        RuleOverrides(max_steps=None), receive("t1", limited), finish(asks(LOOK), limited), receive("t2", limited)
    )

    assert brief(found) == [("t1", "stop max_steps_exceeded", "go_on")]


def test_a_turn_whose_results_are_all_there_would_go_on() -> None:
    limited = Rules(max_steps=1)
    run = (receive("t1"), finish(asks(LOOK)), report("a", rules=limited))

    assert brief(otherwise(RuleOverrides(max_steps=2), *run)) == [("t1", "stop max_steps_exceeded", "go_on")]


def test_calls_that_are_repeated_would_be_stopped_earlier() -> None:
    def again(number: int) -> ToolUseBlock:
        return ToolUseBlock(f"c{number}", "look", {})

    commands: list[SessionCommand] = [receive("t1")]
    for number in range(3):
        commands += [finish(asks(again(number), message_id=f"m{number}")), report(f"c{number}")]

    assert brief(otherwise(RuleOverrides(max_repeats=1), *commands)) == [("t1", "go_on", "stop repeated_tool_calls")]
    assert otherwise(RuleOverrides(max_repeats=4), *commands) == []


COSTLY = (
    receive("t1", PRICED),
    finish(asks(LOOK, usage=USAGE), PRICED),
    report("a", rules=PRICED),
    finish(says("Hi", usage=USAGE), PRICED),
    receive("t2", PRICED),
)
"""Two answers at 2 and a call at 0.5."""


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (CostLimit(1.0), [("t1", "go_on", "stop cost_limit_exceeded"), ("t2", "go_on", "stop cost_limit_exceeded")]),
        (CostLimit(2.4, "interrupt"), [(t, "go_on", "interrupt cost_limit_exceeded") for t in ("t1", "t2")]),
        (CostLimit(3.0), [("t2", "go_on", "stop cost_limit_exceeded")]),
        (CostLimit(5.0), []),
        (CostLimit(1.0, "warn"), [("t1", "go_on", "warn cost_limit_exceeded")]),
        (None, []),
    ],
)
def test_a_turn_would_end_when_its_session_had_cost_so_much(
    limit: CostLimit | None, expected: list[tuple[str, str, str]]
) -> None:
    assert brief(otherwise(RuleOverrides(cost_limit=limit), *COSTLY)) == expected


def test_a_limit_that_stopped_would_interrupt_or_warn() -> None:
    limited = msgspec.structs.replace(PRICED, cost_limit=CostLimit(1.0))
    costly = (receive("t1", limited), finish(asks(LOOK, usage=USAGE), limited))

    assert brief(otherwise(RuleOverrides(cost_limit=CostLimit(1.0, "interrupt")), *costly)) == [
        ("t1", "stop cost_limit_exceeded", "interrupt cost_limit_exceeded")
    ]
    assert brief(otherwise(RuleOverrides(cost_limit=CostLimit(9.0, "interrupt")), *costly)) == [
        ("t1", "stop cost_limit_exceeded", "go_on")
    ]


def test_a_warning_would_come_earlier_or_not_at_all() -> None:
    warned = msgspec.structs.replace(PRICED, cost_limit=CostLimit(2.2, "warn"))
    costly = (receive("t1", warned), finish(asks(LOOK, usage=USAGE), warned), report("a", rules=warned))

    assert brief(otherwise(RuleOverrides(cost_limit=None), *costly)) == [("t1", "warn cost_limit_exceeded", "go_on")]
    assert otherwise(RuleOverrides(cost_limit=CostLimit(1.0, "warn")), *costly) == []
    assert otherwise(RuleOverrides(cost_limit=CostLimit(2.4, "warn")), *costly) == []


def test_prices_change_what_a_session_has_cost() -> None:
    limited = msgspec.structs.replace(PRICED, cost_limit=CostLimit(4.0, "stop"))
    costly = [msgspec.structs.replace(command, rules=limited) for command in COSTLY]
    dearer, cheaper = Price(3_000_000.0, 0.0), Price(500_000.0, 0.0)

    assert brief(otherwise(RuleOverrides(prices={"m": dearer}), *costly)) == [
        ("t1", "go_on", "stop cost_limit_exceeded")
    ]
    assert brief(otherwise(RuleOverrides(prices={"m": cheaper}), *costly)) == [
        ("t2", "stop cost_limit_exceeded", "go_on")
    ]
    assert otherwise(RuleOverrides(prices={"another": dearer}), *costly) == []


def test_what_was_never_said_and_what_summed_up_have_a_price_too() -> None:
    limited = msgspec.structs.replace(PRICED, cost_limit=CostLimit(9.0))
    summed = Compress(turn_id="t2", summary="s", kept=1, usage=USAGE, model="m", at=AT, rules=limited)
    unsaid = ReceivedAnswer(message_id="m1", stop_reason="end_turn", usage=USAGE, model="m")
    commands = (receive("t1", limited), finish(unsaid, limited), receive("t2", limited), summed, receive("t3", limited))
    ends = (finish(says("Hi"), limited, turn_id="t2"),)

    found = otherwise(RuleOverrides(prices={"m": Price(3_000_000.0, 0.0)}), *commands, *ends)

    assert brief(found) == [("t3", "go_on", "stop cost_limit_exceeded")]
    assert found[0].decided.reason == "12 were spent, more than the limit of 9"


def test_tools_of_another_definition_cost_what_it_says() -> None:
    tool = ToolSpec(name="look", cost=5.0, intervention="required")
    definition = Definition("i", tools=(tool,), cost_limit=CostLimit(6.0), policies=Policies(deny=("pay",)))
    instead = RuleOverrides(prices={"m": Price(1_000_000.0, 0.0)}).by(definition)

    found = otherwise(instead, *COSTLY)

    assert brief(found) == [
        ("a", "run", "ask"),
        ("t1", "go_on", "stop cost_limit_exceeded"),
        ("t2", "go_on", "stop cost_limit_exceeded"),
    ]
    assert instead.max_steps == definition.max_steps


def test_limits_are_not_looked_at_where_a_turn_is_cut_short_or_fails() -> None:
    failure = ReceivedAnswer(failure=Failure("overloaded_error", "busy"))
    delete = Delete(session_id="s", at=AT, so_far=ReceivedAnswer(), rules=FREE, results_id="r8")
    runs = (receive("t1"), finish(asks(LOOK)))
    ways: list[tuple[SessionCommand, ...]] = [
        (receive("t1"), interrupt(asks(LOOK))),
        (*runs, finish(failure)),
        (*runs, delete),
    ]

    for commands in ways:
        steps = told(*STARTED, *commands)
        history = WhatIf(RuleOverrides(max_steps=1))
        for step in steps[:-1]:
            history.follow(step.cause, 1, step.events)
        assert history.follow(steps[-1].cause, 1, steps[-1].events) == []
    stopped = (receive("t1", CAREFUL), finish(asks(PAY), CAREFUL), reject("b", resume=False))
    assert brief(otherwise(RuleOverrides(max_steps=1), *stopped)) == [("t1", "go_on", "stop max_steps_exceeded")]


# Random histories


def rules_kept(chosen: Sequence[Doing]) -> list[Doing]:
    """Return the steps but for those by which other rules hold."""
    return [step for step in chosen if step[0] != "rules"]


@settings(max_examples=examples(40))
@given(doings)
def test_under_the_recorded_rules_nothing_would_be_otherwise(chosen: list[Doing]) -> None:
    world, rules = played(rules_kept(chosen)), RULES["x"]
    instead = RuleOverrides(
        policies=rules.policies,
        max_steps=rules.max_steps,
        max_repeats=rules.max_repeats,
        cost_limit=rules.cost_limit,
        prices=rules.prices,
        costs=rules.costs,
    )

    for session_id, steps in world.steps.items():
        found, history = followed(steps, instead, world.begins[session_id])
        assert found == []
        assert history.undecided == 0
        assert history.session == world.sessions[session_id]


def fact(events: Sequence[SessionEvent], call_id: str) -> str:
    """Return what became of a call in the step in which it was asked for."""
    for event in events:
        match event:
            case HumanApproveRequired() if call_id in [call.id for call in event.calls]:
                return "ask"
            case HumanPromptRequired(id=id_) | HumanSelectRequired(id=id_) if id_ == call_id:
                return "ask"
            case ToolStarted(id=id_) if id_ == call_id:
                return "run"
            case _:
                pass
    return "deny"


modes = st.sampled_from(["never", "first", "required", "always"])


def with_rules_of_pay(tools: Mapping[str, Policy], deny: tuple[str, ...], amount: int) -> Policies:
    pay = Policy("required", (Rule({"amount": amount}, "deny"), Rule({}, "never")))
    return Policies(tools={**tools, "pay": pay}, deny=deny)


random_policies = st.one_of(
    st.sampled_from(EACH),
    st.builds(
        with_rules_of_pay,
        st.dictionaries(st.sampled_from(["send", "search"]), st.builds(Policy, modes)),
        st.sampled_from([(), ("search",), ("ask_user", "s*")]),
        st.sampled_from([3, 4]),
    ),
)


@settings(max_examples=examples(60))
@given(doings, random_policies)
def test_calls_are_judged_as_the_policies_judge_each_of_them(chosen: list[Doing], policies: Policies) -> None:
    world = played(chosen)

    for session_id, steps in world.steps.items():
        session, history = world.begins[session_id], WhatIf(RuleOverrides(policies=policies))
        history.session = session
        for step in steps:
            found = {one.call_id: one.decided.decision for one in history.follow(step.cause, 1, step.events)}
            asked = session.asked
            session = reduce(evolve, step.events, session)
            answers = [event for event in step.events if isinstance(event, AnswerRecorded)]
            if not isinstance(step.command, Finish) or not any(isinstance(one, ToolsRequested) for one in step.events):
                continue
            calls = [block for block in answers[0].content if isinstance(block, ToolUseBlock)]
            became = {call.id: fact(step.events, call.id) for call in calls}
            if set(became.values()) == {"deny"}:
                continue  # perhaps by a limit
            for call in calls:
                decision: str = judge(policies, call.name, call.input, asked).decision
                if call.name == "ask_user" and decision != "deny":
                    decision = became[call.id]
                assert found.pop(call.id, became[call.id]) == decision
            assert found == {}


@settings(max_examples=examples(60))
@given(doings)
def test_without_limits_just_those_turns_would_go_on_that_a_limit_ended(chosen: list[Doing]) -> None:
    world = played(chosen)

    for session_id, steps in world.steps.items():
        found, _ = followed(
            steps, RuleOverrides(max_steps=None, max_repeats=None, cost_limit=None), world.begins[session_id]
        )
        events = [event for step in steps if not isinstance(step.command, BranchSession) for event in step.events]
        ended = [one for one in events if isinstance(one, TurnCompleted) and one.stop_reason in LIMITS]
        warned = [event for event in events if isinstance(event, LimitWarning)]

        assert {one.decided.decision for one in found} <= {"go_on"}
        assert [(one.turn_id, one.recorded.limit) for one in found if one.recorded.decision != "warn"] == [
            (one.turn_id, one.stop_reason) for one in ended
        ]
        assert sum(one.recorded.decision == "warn" for one in found) == len(warned)
