"""What is decided about calls that are child sessions, and what the family is told of it."""

from __future__ import annotations

from functools import reduce
from typing import Final

import msgspec
import pytest

from reenact.domain.children import (
    Budget,
    ChildEnded,
    ChildOrigin,
    ChildOutcome,
    ChildrenInterrupted,
    ChildStarted,
    OfferedAgent,
    Parent,
    child_id,
)
from reenact.domain.history.explanation import Outside, causes_of
from reenact.domain.loop.events import ToolResult, ToolStarted
from reenact.domain.loop.ledger import CostLimit, Price
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.session.agent import (
    AgentStarted,
    AgentStopped,
    ResultsRecorded,
    StepStarted,
    TurnCompleted,
    TurnStarted,
)
from reenact.domain.session.branching import waits
from reenact.domain.session.child_turns import FINISHED, PARENT, Start, family_commands, questions, received
from reenact.domain.session.commands import BranchSession, GiveUpChildren, Interrupt, ReportChild, SessionCommand
from reenact.domain.session.state import Session, SessionCreated, SessionEvent, evolve
from reenact.domain.session.turns import BUDGET, REJECTED
from tests.domain.history.retraced import Step, check_retraced
from tests.domain.session.examples import IDLE, accepted, session
from tests.domain.session.loops import (
    AT,
    PAY,
    after,
    asks,
    decide,
    finish,
    interrupt,
    receive,
    reject,
    report,
    says,
    stop,
)
from tests.domain.session.policies import PAY_IS_ASKED
from tests.domain.test_children import BORN
from tests.domain.test_children import PARENT as OF_PARENT

CALL: Final = ToolUseBlock("c1", "agent", {"prompt": "Why?"})
OTHER: Final = ToolUseBlock("c2", "agent", {"prompt": "How?"})
LOOK: Final = ToolUseBlock("l1", "look", {})
OFFERED: Final = OfferedAgent(name="agent", image_id="i", image_revision=1)
RULES: Final = Rules(policies=PAY_IS_ASKED, prices={"m": Price(1_000_000.0, 0.0)}, agents=(OFFERED,))


def calling(*calls: ToolUseBlock, rules: Rules = RULES) -> Session:
    """Return a session whose agent has called others."""
    return after(IDLE, receive("t1", rules), finish(asks(*calls), rules))


def told(state: Session, outcome: ChildOutcome, *, call: int = 0, steps: int = 1, at: int = AT) -> ReportChild:
    return ReportChild(
        child_id=state.children[call].id,
        outcome=outcome,
        stop_reason="end_turn",
        steps=steps,
        usage={"input_tokens": steps},
        cost=float(steps),
        version=4,
        cursor=7,
        digest="ab",
        at=at,
        result=f"it {outcome}",
        turn_id="t8",
        agent_id="b",
        rules=RULES,
        results_id="r9",
    )


def kinds(events: tuple[SessionEvent, ...]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_a_call_of_an_agent_starts_a_child_in_the_step_of_its_start() -> None:
    events = decide(after(IDLE, receive("t1", RULES)), finish(asks(CALL, LOOK), RULES))

    assert kinds(events)[2:] == ["ToolStarted", "ChildStarted", "ToolStarted"]


def test_the_end_of_a_child_is_the_result_of_the_call_and_the_model_is_asked_again() -> None:
    state = calling(CALL)

    events = decide(state, told(state, "completed"))

    assert kinds(events) == ["ChildEnded", "ToolResult", "ResultsRecorded", "StepStarted"]
    assert decide(reduce(evolve, events, state), told(state, "completed")) == ()


def test_what_is_told_by_a_stranger_is_nothing() -> None:
    state = calling(CALL)

    assert decide(IDLE, told(state, "completed")) == ()


def test_no_child_starts_when_nothing_is_left_to_spend() -> None:
    rules = Rules(prices=RULES.prices, agents=(OFFERED,), cost_limit=CostLimit(2.0))
    state = after(IDLE, receive("t1", rules))

    events = decide(state, finish(asks(CALL, usage={"input_tokens": 2}), rules))

    (result,) = [event for event in events if isinstance(event, ToolResult)]
    assert result.result == "agent was not run: nothing is left of the budget"
    assert kinds(events)[-1] == "StepStarted"


@pytest.mark.parametrize("budget", [Budget(steps=2), Budget(tokens=3)])
def test_of_several_children_those_start_for_which_something_is_left(budget: Budget) -> None:
    begun = session(SessionCreated("s", "c", "i", 1, OF_PARENT, budget), AgentStarted("a"))
    state = after(begun, receive("t1", RULES))

    events = decide(state, finish(asks(CALL, OTHER, usage={"input_tokens": 2}), RULES))

    assert [event.call_id for event in events if isinstance(event, ChildStarted)] == ["c1"]
    (result,) = [event for event in events if isinstance(event, ToolResult)]
    assert (result.id, result.result) == ("c2", "agent was not run: nothing is left of the budget")


def test_a_child_of_a_child_has_no_more_seconds_than_are_left() -> None:
    begun = session(BORN, AgentStarted("a"))
    state = after(begun, receive("t1", RULES))

    events = decide(state, finish(asks(CALL), RULES))

    (start,) = [event for event in events if isinstance(event, ChildStarted)]
    assert (start.budget, start.depth) == (Budget(seconds=60.0), OF_PARENT.depth + 1)


@pytest.mark.parametrize(("limit", "most"), [(CostLimit(9.0), 4.5), (CostLimit(9.0, "warn"), None)])
def test_a_limit_that_only_warns_reserves_nothing(limit: CostLimit, most: float | None) -> None:
    state = calling(CALL, rules=Rules(agents=(OFFERED,), cost_limit=limit))

    assert state.children[0].budget.cost == most


def test_an_interrupt_waits_for_the_children_and_for_nothing_else() -> None:
    state = calling(CALL, LOOK)
    events = decide(state, interrupt(rules=RULES))
    assert events == (ChildrenInterrupted("user", AT),)
    interrupted = reduce(evolve, events, state)

    assert decide(interrupted, interrupt(rules=RULES)) == ()
    assert kinds(decide(interrupted, report("l1", rules=RULES))) == ["ToolResult"]
    ended = decide(interrupted, told(interrupted, "interrupted"))
    assert kinds(ended) == [
        *("ChildEnded", "ToolResult", "TurnInterrupted", "ToolResult", "ResultsRecorded", "TurnCompleted"),
    ]
    assert decide(interrupted, GiveUpChildren(at=AT, rules=RULES))[0] == ChildEnded(
        "c1", state.children[0].id, "unknown", "silent", 0, {}, None, 0, 0, "", AT
    )


def test_nobody_is_given_up_who_was_not_interrupted() -> None:
    assert decide(calling(CALL), GiveUpChildren(at=AT, rules=RULES)) == ()


def test_a_person_who_stops_the_turn_interrupts_the_children() -> None:
    state = calling(CALL, PAY)

    events = decide(state, reject("b", RULES, resume=False))

    assert kinds(events) == ["ToolRejected", "ToolResult", "ChildrenInterrupted"]
    over = decide(reduce(evolve, events, state), told(state, "interrupted"))
    (completed,) = [event for event in over if isinstance(event, TurnCompleted)]
    assert (completed.outcome, completed.stop_reason) == ("interrupted", REJECTED)


def test_a_turn_with_waiting_children_waits_when_no_other_runs() -> None:
    state = calling(CALL, OTHER)

    first = reduce(evolve, decide(state, told(state, "waiting")), state)
    assert first.turn is not None
    second = decide(first, told(state, "waiting", call=1))

    assert kinds(second) == ["ChildEnded", "TurnCompleted"]
    waiting = reduce(evolve, second, first)
    assert kinds(decide(waiting, told(state, "waiting", steps=2))) == ["ChildEnded"]
    assert kinds(decide(waiting, told(state, "completed", steps=2))) == ["ChildEnded", "ToolResult"]


def test_an_agent_is_started_if_none_goes_on_with_the_call() -> None:
    state = calling(CALL)
    waiting = reduce(evolve, decide(state, told(state, "waiting")), state)
    stopped = reduce(evolve, decide(waiting, stop(rules=RULES)), waiting)

    events = decide(stopped, told(state, "completed", steps=2))

    assert kinds(events) == [
        *("ChildEnded", "AgentStarted", "ToolResult", "TurnContinued", "ResultsRecorded", "StepStarted"),
    ]


@pytest.mark.parametrize("call", [PAY, CALL])
def test_what_waits_without_an_agent_is_interrupted_by_the_parent(call: ToolUseBlock) -> None:
    begun = session(BORN, AgentStarted("a"))
    state = after(begun, receive("t1", RULES), finish(asks(call), RULES))
    if call is CALL:
        state = reduce(evolve, decide(state, told(state, "waiting")), state)
    stopped = after(state, stop(rules=RULES))
    assert stopped.ended is not None
    assert stopped.ended.outcome == "waiting"

    interrupted = after(stopped, Interrupt(agent_id=None, reason=PARENT, at=AT, rules=RULES, results_id="r9"))
    if call is CALL:
        report = received(interrupted, told(interrupted, "interrupted", steps=2), lambda prefix: f"{prefix}_new")
        assert (report.agent_id, report.turn_id) == ("", "trn_new")
        interrupted = after(interrupted, report)

    assert (interrupted.round, interrupted.interrupted, interrupted.agent) == (None, None, None)
    assert interrupted.ended is not None
    assert interrupted.ended.outcome == "interrupted"


def test_what_a_child_has_used_is_settled_when_its_call_has_long_been_answered() -> None:
    state = calling(CALL)
    stopped = reduce(evolve, decide(state, stop(rules=RULES)), state)

    (ended,) = decide(stopped, told(state, "interrupted", steps=3))

    assert isinstance(ended, ChildEnded)
    assert (ended.steps, ended.usage, ended.cost) == (3, {"input_tokens": 3}, 3.0)


def test_a_child_that_was_given_up_may_still_wait_for_a_person_and_complete() -> None:
    state = calling(CALL, OTHER)
    interrupted = after(state, interrupt(rules=RULES), GiveUpChildren(at=AT, rules=RULES))
    assert interrupted.children == ()
    assert [child.outcome for child in interrupted.past_children] == ["unknown", "unknown"]

    waiting = reduce(evolve, decide(interrupted, told(state, "waiting")), interrupted)
    assert [child.outcome for child in (*waiting.children, *waiting.past_children)] == ["waiting", "unknown"]
    completed = reduce(evolve, decide(waiting, told(state, "completed", steps=2)), waiting)
    settled = reduce(evolve, decide(completed, told(state, "completed", steps=3)), completed)

    assert settled.children == ()
    assert [(child.outcome, child.steps) for child in settled.past_children] == [("unknown", 0), ("completed", 3)]


def test_a_branch_does_not_wait_for_the_children_of_the_other_session() -> None:
    running = calling(CALL)
    waiting = reduce(evolve, decide(running, told(running, "waiting")), running)

    for state in (running, waiting):
        branched = after(state, msgspec.structs.replace(branching(state, waits=False), children=()))
        assert (branched.round, branched.turn, branched.children) == (None, None, ())


def branching(state: Session, *, waits: bool) -> BranchSession:
    """Return the command that branches off from the session and its first child, which waits for a person or works."""
    child = state.children[0]
    origin = ChildOrigin(
        session_id=child.id,
        version=4,
        digest="ab",
        position=9,
        at=AT,
        waits=waits,
        steps=child.steps,
        usage=child.usage,
    )
    return BranchSession(
        session_id="b",
        container_id="c",
        image_id="i",
        image_revision=1,
        origin="s",
        version=9,
        digest="",
        position=9,
        at=AT,
        left_at=AT,
        results_id="r5",
        children=(origin,),
    )


def test_a_branch_waits_for_a_branch_of_the_child_that_waits_for_a_person() -> None:
    running = calling(CALL)
    waiting = reduce(evolve, decide(running, told(running, "waiting")), running)

    command = branching(waiting, waits=True)
    events = decide(waiting, command)

    assert kinds(events) == ["SessionBranched", "ChildStarted"]
    branch = reduce(evolve, events, waiting)
    check_retraced([Step(command, events)], branch, begins=waiting)
    assert branch.round == waiting.round
    (child,) = branch.children
    assert child.id == child_id("b", "c1", 1, root="b") != waiting.children[0].id
    assert (child.outcome, child.steps, child.usage) == (None, 1, {"input_tokens": 1})
    reported = reduce(evolve, decide(branch, told(branch, "waiting")), branch)
    assert [child.outcome for child in reported.children] == ["waiting"]
    answered = reduce(evolve, decide(reported, told(reported, "completed", steps=3)), reported)
    assert (answered.round, answered.ledger.children.calls) == (None, 3)


@pytest.mark.parametrize("is_told", [False, True])
def test_a_call_is_given_up_in_a_branch_if_its_child_works_there(is_told: bool) -> None:  # noqa: FBT001 - a parameter
    state = calling(CALL)
    if is_told:  # somebody has decided since
        state = reduce(evolve, decide(state, told(state, "waiting")), state)

    events = decide(state, branching(state, waits=False))

    branch = reduce(evolve, events, state)
    assert (branch.round, branch.turn) == (None, None)
    (result,) = [event for event in events if isinstance(event, ToolResult)]
    assert result.is_error
    (child,) = branch.children
    sent = list(family_commands(branch, events, 0, new_id=lambda _: "", mark=lambda: (0, 0, ""), at=AT))
    assert [(letter.to, type(letter.command)) for letter in sent] == [(child.id, BranchSession), (child.id, Interrupt)]


def test_a_child_begins_as_the_branch_that_its_parent_says() -> None:
    running = calling(CALL)
    waiting = reduce(evolve, decide(running, told(running, "waiting")), running)
    events = decide(waiting, branching(waiting, waits=True))
    branch = reduce(evolve, events, waiting)
    mark = (2, 1, "cd")

    (sent,) = family_commands(branch, events, 0, new_id=lambda _: "", mark=lambda: mark, at=AT)
    (start,) = [Start(2, event.origin) for event in events if isinstance(event, ChildStarted)]
    (again,) = questions(branch, lambda: {branch.children[0].id: start}, new_id=str, mark=lambda: mark, at=AT)

    assert sent == again
    assert isinstance(sent.command, BranchSession)
    of = sent.command
    assert (of.session_id, of.origin, of.version, of.digest) == (branch.children[0].id, running.children[0].id, 4, "ab")
    assert (of.until, of.left_at, of.budget) == (9, AT, branch.children[0].budget)
    assert of.parent == Parent(session_id="b", version=2, call_id="c1", root="b", depth=1)


def test_a_branch_of_a_child_goes_on_as_a_child_once() -> None:
    child = session(BORN, AgentStarted("a"), accepted("t1"), TurnStarted("t1", 1))
    child = after(child, finish(asks(PAY), RULES))
    assert waits(child, ())
    parent = msgspec.structs.replace(OF_PARENT, session_id="b")
    command = msgspec.structs.replace(branching(calling(CALL), waits=True), session_id="child", origin="s", children=())
    command = msgspec.structs.replace(command, parent=parent, budget=Budget(steps=3))

    events = decide(child, command)
    branch = reduce(evolve, events, child)

    assert kinds(events) == ["SessionBranched"]
    assert (branch.parent, branch.budget, branch.ended, branch.seconds) == (
        parent,
        Budget(steps=3),
        child.ended,
        child.seconds,
    )
    assert decide(branch, command) == ()
    (report,) = family_commands(branch, events, 0, new_id=lambda _: "", mark=lambda: (1, 1, "cd"), at=AT)
    assert isinstance(report.command, ReportChild)
    assert (report.to, report.command.outcome) == ("b", "waiting")


@pytest.mark.parametrize("waits_below", [False, True])
def test_a_child_waits_if_its_own_child_does(waits_below: bool) -> None:  # noqa: FBT001 - a parameter
    child = session(BORN, AgentStarted("a"), accepted("t1"), TurnStarted("t1", 1))
    child = after(child, finish(asks(CALL), RULES))
    child = reduce(evolve, decide(child, told(child, "waiting")), child)
    (below,) = branching(child, waits=waits_below).children

    assert waits(child, (below,)) == waits_below
    assert not waits(child, ())


def test_a_child_at_work_does_not_wait() -> None:
    child = session(BORN, AgentStarted("a"), accepted("t1"), TurnStarted("t1", 1))

    assert not waits(child, ())
    assert not waits(after(child, finish(asks(PAY, LOOK), RULES)), ())


def test_children_end_with_the_agent_that_called_them() -> None:
    state = calling(CALL)
    events = decide(state, stop(rules=RULES))

    sent = list(
        family_commands(reduce(evolve, events, state), events, 9, new_id=lambda _: "", mark=lambda: (0, 0, ""), at=AT)
    )

    assert [(letter.to, letter.command) for letter in sent] == [
        (state.children[0].id, Interrupt(agent_id=None, reason=PARENT, at=AT))
    ]


def test_the_agent_of_a_child_stops_when_it_has_done_its_part_and_leaves_what_waits() -> None:
    begun = session(BORN, AgentStarted("a"), accepted("t1"), TurnStarted("t1", 1))
    state = after(begun, receive("t2", RULES))

    events = decide(state, finish(says("Done"), RULES))

    assert kinds(events) == ["AnswerRecorded", "TurnCompleted", "AgentStopped"]
    assert events[-1] == AgentStopped("a", FINISHED)
    assert len(reduce(evolve, events, state).queue) == 1


def test_a_budget_that_is_used_up_ends_the_turn() -> None:
    budget = Budget(steps=1)
    begun = session(SessionCreated("s", "c", "i", 1, OF_PARENT, budget), AgentStarted("a"))
    state = after(begun, receive("t1", RULES))

    events = decide(state, finish(asks(LOOK), RULES))

    assert not any(isinstance(event, ToolStarted | StepStarted) for event in events)
    (completed,) = [event for event in events if isinstance(event, TurnCompleted)]
    assert (completed.outcome, completed.stop_reason) == ("completed", BUDGET)
    assert any(isinstance(event, ResultsRecorded) for event in events)


def why(state: Session, *commands: SessionCommand) -> list[tuple[str, list[str], Outside | None]]:
    """Return what each event that follows from the commands follows from, by names."""
    steps: list[tuple[type[SessionCommand], tuple[SessionEvent, ...]]] = []
    for command in commands:
        steps.append((type(command), decide(state, command)))
        state = reduce(evolve, steps[-1][1], state)
    names = [type(event).__name__ for _, events in steps for event in events]
    return [
        (name, [names[place] for place in cause.places], cause.outside)
        for name, cause in zip(names, causes_of(steps), strict=True)
    ]


def test_an_interrupt_of_children_follows_from_the_turn_and_whoever_asked_for_it() -> None:
    begun = calling(CALL)

    found = why(
        IDLE,
        receive("t1", RULES),
        finish(asks(CALL), RULES),
        interrupt(rules=RULES),
        told(begun, "interrupted"),
    )

    assert ("ChildrenInterrupted", ["TurnStarted"], Outside("caller", "user")) in found
    assert ("ChildEnded", ["ChildStarted"], Outside("child", begun.children[0].id)) in found


def test_the_end_of_a_detached_child_is_why_its_message_comes() -> None:
    apart = msgspec.structs.replace(OFFERED, detached=True)
    rules = msgspec.structs.replace(RULES, agents=(apart,))
    begun = calling(CALL, rules=rules)

    found = why(
        IDLE,
        receive("t1", rules),
        finish(asks(CALL), rules),
        finish(says("Later."), rules),
        msgspec.structs.replace(told(begun, "completed"), content=(TextBlock("done"),), message_id="m8"),
    )

    assert found[-3:] == [
        ("ChildEnded", ["ChildStarted"], Outside("child", begun.children[0].id)),
        ("MessageAccepted", ["ChildEnded"], None),
        ("TurnStarted", ["MessageAccepted"], None),
    ]
