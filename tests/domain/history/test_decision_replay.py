"""Histories that are decided once more: today's code decides what was recorded, or it is said where not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.domain.container import CreateContainer
from reenact.domain.history.causes import cause_of
from reenact.domain.history.decision_replay import Decide, DecisionReplay, Divergence, difference
from reenact.domain.loop.events import (
    HumanApproveRequired,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolStarted,
)
from reenact.domain.marks import mark
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.session.agent import (
    AgentStarted,
    AnswerRecorded,
    MessageAccepted,
    ResultsRecorded,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.session.commands import Finish, SessionCommand
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, SessionEvent, evolve
from tests.domain.history.retraced import STARTED, Remembering, Step, check_retraced, events_of, played, states_of, told
from tests.domain.session.examples import HELLO
from tests.domain.session.loops import AT, CAREFUL, LOOK, PAY, approve, asks, finish, receive, report, says
from tests.examples import examples
from tests.projections.histories import Step as Doing
from tests.projections.histories import steps as doings


class Changed(NamedTuple):
    """A step whose events are not those that were recorded with its command."""

    cause: bytes | None
    events: Sequence[Any]


def first_divergence(
    steps: Sequence[Step | Changed], begins: Session | None = None, decide: Decide = decide
) -> tuple[int, Divergence] | None:
    """Return the step at which today's code parts from the history, and how."""
    retracing = DecisionReplay(Session() if begins is None else begins, decide=decide)
    for number, step in enumerate(steps):
        divergence = retracing.follow(step.cause, step.events)
        if divergence is not None:
            return number, divergence
    return None


def followed(steps: Sequence[Step]) -> DecisionReplay:
    """Return what has followed the steps, none of which is decided otherwise."""
    retracing = DecisionReplay()
    assert [retracing.follow(step.cause, step.events) for step in steps] == [None] * len(steps)
    return retracing


@settings(max_examples=examples(150))
@given(doings)
def test_what_was_decided_is_decided_again(chosen: list[Doing]) -> None:
    world = played(chosen)

    for session_id, steps in world.steps.items():
        check_retraced(steps, world.sessions[session_id], begins=world.begins[session_id])


def test_a_branch_is_decided_again_from_what_it_shares() -> None:
    world = Remembering()
    world.create("a")
    world.run("a")
    for _ in range(3):
        world.say("a")
    world.branch("a", "b")
    world.branch("a", "c", edit="Instead")
    world.branch("a", "d", at=2)

    assert [event for step in world.steps["b"] for event in step.events if isinstance(event, TurnInterrupted)]
    for session_id in "bcd":
        check_retraced(world.steps[session_id], world.sessions[session_id], begins=world.begins[session_id])


FOLLOWING = (TurnStarted, TurnContinued, TurnCompleted, StepStarted, ResultsRecorded, ToolsRequested, ToolStarted)
"""Events that today's code decides by itself: nothing from outside could be in their place, or could be left out."""


@settings(max_examples=examples(100))
@given(doings, st.integers(0))
def test_a_step_of_which_an_event_was_dropped_is_found(chosen: list[Doing], number: int) -> None:
    world = played(chosen)
    places = [
        (session_id, at, place)
        for session_id, steps in world.steps.items()
        for at, step in enumerate(steps)
        for place, event in enumerate(step.events)
        if len(step.events) > 1 and isinstance(event, FOLLOWING)
    ]
    session_id, at, place = places[number % len(places)]
    steps: list[Step | Changed] = [*world.steps[session_id]]
    events = steps[at].events
    steps[at] = Changed(steps[at].cause, [*events[:place], *events[place + 1 :]])

    found = first_divergence(steps, world.begins[session_id])

    assert found is not None
    assert found[0] == at
    assert found[1].place <= place


@settings(max_examples=examples(100))
@given(doings, st.integers(0))
def test_a_step_into_which_an_event_was_put_is_found(chosen: list[Doing], number: int) -> None:
    world = played(chosen)
    places = [
        (session_id, at, place, event)
        for session_id, steps in world.steps.items()
        for at, step in enumerate(steps)
        for place, event in enumerate(step.events)
        if isinstance(event, FOLLOWING)
    ]
    session_id, at, place, event = places[number % len(places)]
    steps: list[Step | Changed] = [*world.steps[session_id]]
    events = steps[at].events
    steps[at] = Changed(steps[at].cause, [*events[: place + 1], event, *events[place + 1 :]])

    found = first_divergence(steps, world.begins[session_id])

    assert found is not None
    assert found[0] == at


ALTERED: dict[type, dict[str, Any]] = {
    TurnStarted: {"turn_id": "another"},
    StepStarted: {"step": 77},
    ResultsRecorded: {"content": ()},
    ToolStarted: {"attempt": 77},
    ToolPending: {"ids": ("another",)},
    ToolsRequested: {"from_state": "waiting_for_human_input"},
}


@settings(max_examples=examples(100))
@given(doings, st.integers(0))
def test_a_step_in_which_an_event_was_altered_is_found(chosen: list[Doing], number: int) -> None:
    world = played(chosen)
    places = [
        (session_id, at, place, event)
        for session_id, steps in world.steps.items()
        for at, step in enumerate(steps)
        for place, event in enumerate(step.events)
        if type(event) in ALTERED
    ]
    session_id, at, place, event = places[number % len(places)]
    steps: list[Step | Changed] = [*world.steps[session_id]]
    events = steps[at].events
    altered = msgspec.structs.replace(event, **ALTERED[type(event)])
    steps[at] = Changed(steps[at].cause, [*events[:place], altered, *events[place + 1 :]])

    found = first_divergence(steps, world.begins[session_id])

    assert found is not None
    assert found[0] == at


def _forgets_the_queue(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:
    events = decide(session, command)
    return events[:-1] if isinstance(command, Finish) and isinstance(events[-1], TurnStarted) else events


def _counts_wrongly(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:
    return tuple(
        msgspec.structs.replace(event, step=event.step + 1) if isinstance(event, StepStarted) else event
        for event in decide(session, command)
    )


def _starts_in_another_order(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:
    events = decide(session, command)
    started = [event for event in events if isinstance(event, ToolStarted)]
    return (*(event for event in events if event not in started), *reversed(started))


def _breaks_on_results(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:
    events = decide(session, command)
    if any(isinstance(event, ResultsRecorded) for event in events):
        raise KeyError("planted")
    return events


@pytest.mark.parametrize("buggy", [_forgets_the_queue, _counts_wrongly, _starts_in_another_order, _breaks_on_results])
@settings(max_examples=examples(30))
@given(chosen=doings)
def test_code_that_decides_otherwise_is_found_at_the_first_step_that_it_would_change(
    buggy: Decide, chosen: list[Doing]
) -> None:
    world = played(chosen)

    for session_id, steps in world.steps.items():
        states = states_of(steps, world.begins[session_id])
        changed = [at for at, step in enumerate(steps) if not _same(buggy, states[at], step)]
        found = first_divergence(steps, world.begins[session_id], buggy)
        assert (None if found is None else found[0]) == (changed[0] if changed else None)


def _same(buggy: Decide, session: Session, step: Step) -> bool:
    try:
        return buggy(session, step.command) == step.events
    except KeyError:
        return False


def test_the_first_field_that_differs_is_named() -> None:
    *before, last = told(*STARTED, receive("t1"), finish(asks(LOOK)), report("a"))
    events: list[Any] = [*last.events]
    results = next(event for event in events if isinstance(event, ResultsRecorded))
    other = msgspec.structs.replace(results.content[0], content="rainy")
    place = events.index(results)
    events[place] = msgspec.structs.replace(results, content=(other,))

    divergence = followed(before).follow(last.cause, events)

    assert divergence is not None
    assert (divergence.place, divergence.recorded) == (place, events[place])
    assert divergence.decided == results
    assert divergence.field == "content.0.content"
    assert divergence.command == last.command
    assert "content.0.content of results-recorded" in divergence.problem


def test_what_todays_code_would_have_gone_on_with_is_told() -> None:
    *before, last = told(*STARTED, receive("t1"))

    divergence = followed(before).follow(last.cause, last.events[:-1])

    assert divergence is not None
    assert (divergence.place, divergence.recorded) == (len(last.events) - 1, None)
    assert isinstance(divergence.decided, TurnStarted)
    assert "nothing more was recorded" in divergence.problem


def test_what_todays_code_does_not_go_on_with_is_told() -> None:
    first, second = told(*STARTED)

    divergence = followed([first]).follow(second.cause, [*second.events, TurnStarted("t1", AT)])

    assert divergence is not None
    assert divergence.recorded == TurnStarted("t1", AT)
    assert divergence.decided is None
    assert "decides nothing more" in divergence.problem


def test_a_command_that_comes_to_nothing_today_is_told() -> None:
    steps = told(*STARTED)

    divergence = followed(steps).follow(steps[-1].cause, [AgentStarted("b")])

    assert divergence is not None
    assert divergence.recorded == AgentStarted("b")
    assert "decides nothing more" in divergence.problem


ADD = cause_of(CreateContainer(container_id="c", name=None), [])


@pytest.mark.parametrize(
    ("cause", "problem"),
    [
        (None, "no command was recorded with it"),
        (b"\xc1", "a command cannot be decoded"),
        (msgspec.msgpack.encode(["receive:2", {}]), "unknown form 'receive:2'"),
        (msgspec.msgpack.encode(["receive:1", {"content": 7}]), "a command cannot be decoded"),
        (msgspec.msgpack.encode(["receive:1", {"another": 7}]), "a command cannot be decoded"),
        (msgspec.msgpack.encode(["receive:1", {}]), "the record lacks the agent_id of the command 'receive:1'"),
        (ADD, "CreateContainer is not a command of a session"),
    ],
)
def test_a_step_without_a_command_that_can_be_decided_is_no_traceback(cause: bytes | None, problem: str) -> None:
    *before, last = told(*STARTED, receive("t1"))

    divergence = followed(before).follow(cause, last.events)

    assert divergence is not None
    assert (divergence.place, divergence.recorded) == (0, last.events[0])
    assert problem in divergence.problem


def test_a_refusal_of_today_is_told() -> None:
    retracing = followed(told(*STARTED, receive("t1"), finish(asks(PAY), CAREFUL)))
    events = (ToolApproved(id="unheard of", digest="d"),)

    divergence = retracing.follow(cause_of(approve("unheard of"), events), events)

    assert divergence is not None
    assert divergence.problem.startswith("today's code refuses it: CallNotPendingError")
    assert divergence.decided is None


def test_an_event_that_todays_code_cannot_take_in_is_found_and_the_error_named() -> None:
    *before, last = told(*STARTED, receive("t1"))

    def breaking(session: Session, event: SessionEvent) -> Session:
        if isinstance(event, TurnStarted):
            raise LookupError("planted")  # noqa: TRY004 - any error will do
        return evolve(session, event)

    retracing = DecisionReplay(evolve=breaking)
    for step in before:
        assert retracing.follow(step.cause, step.events) is None
    divergence = retracing.follow(last.cause, last.events)

    assert divergence is not None
    assert divergence.problem == "today's code cannot take in what was recorded: LookupError: planted"


def test_paths_go_through_values_of_any_kind() -> None:
    one = AnswerRecorded("t", "m", HELLO, "end_turn", partial=False, usage={"input_tokens": 1}, model=None, at=AT)

    assert difference(one, msgspec.structs.replace(one, usage={"input_tokens": 2})) == "usage.input_tokens"
    assert difference(one, msgspec.structs.replace(one, usage={"input_tokens": 1, "more": 2})) == "usage.more"
    assert difference(one, msgspec.structs.replace(one, content=())) == "content.0"
    assert difference(one, one) == ""
    assert difference(one, AgentStarted("a")) == ""
    assert difference("ab", "ac") == ""


def without_arguments(event: Any) -> Any:  # noqa: ANN401 - of its type
    """Return the event as it leaves when all arguments are taken out."""
    gone, replace = {"redacted": mark("field")}, msgspec.structs.replace
    match event:
        case AnswerRecorded():
            content = [replace(one, input=gone) if isinstance(one, ToolUseBlock) else one for one in event.content]
            return replace(event, content=tuple(content))
        case HumanApproveRequired():
            calls = [replace(call, arguments=gone, digest=mark("field")) for call in event.calls]
            return replace(event, calls=tuple(calls))
        case ToolEdited():
            return replace(event, original=gone, edited=gone)
        case ToolApproved():
            return replace(event, digest=mark("field"))
        case _:
            return event


REDACTED = (receive("t1"), finish(asks(PAY, LOOK), CAREFUL), report("a", rules=CAREFUL), approve("b"))


def redacted(steps: Sequence[Step]) -> list[Changed]:
    return [Changed(step.cause, [without_arguments(event) for event in step.events]) for step in steps]


def test_what_was_taken_out_of_a_history_makes_no_difference() -> None:
    steps = told(*STARTED, *REDACTED, report("b", rules=CAREFUL, turn_id="t7"))
    retracing = DecisionReplay()

    found = [retracing.follow(step.cause, step.events) for step in redacted(steps)]

    assert found == [None] * len(steps)
    assert (retracing.steps, retracing.undecided) == (len(steps), 0)


def test_an_approval_of_a_digest_that_was_taken_out_is_decided_again() -> None:
    asked = told(*STARTED, receive("t1"), finish(asks(PAY), CAREFUL))
    call = next(event for event in events_of(asked) if isinstance(event, HumanApproveRequired)).calls[0]
    steps = told(*(step.command for step in asked), msgspec.structs.replace(approve("b"), digest=call.digest))
    retracing = DecisionReplay()

    found = [retracing.follow(step.cause, step.events) for step in redacted(steps)]

    assert found == [None] * len(steps)
    assert retracing.undecided == 0


def test_steps_that_follow_from_what_was_taken_out_are_counted_and_passed_by() -> None:
    steps = told(*STARTED, *REDACTED[:-1], approve("b", arguments={"amount": 7}))
    edits = [event for event in events_of(steps) if isinstance(event, ToolEdited)]
    retracing = DecisionReplay()

    found = [retracing.follow(step.cause, step.events) for step in redacted(steps)]

    assert len(edits) == 1
    assert found == [None] * len(steps)
    assert (retracing.steps, retracing.undecided) == (len(steps), 1)


@pytest.mark.parametrize("kind", [TurnStarted, ToolsRequested, TurnCompleted, AnswerRecorded])
def test_a_divergence_is_found_also_where_something_else_was_taken_out(kind: type) -> None:
    steps = told(*STARTED, receive("t1"), finish(says("well")), receive("t2"), finish(asks(PAY), turn_id="t2"))
    changed = [
        Changed(
            step.cause,
            [
                msgspec.structs.replace(event, content=(TextBlock(mark("field")),))
                if isinstance(event, MessageAccepted) or (isinstance(event, AnswerRecorded) and event.turn_id == "t1")
                else event
                for event in step.events
            ],
        )
        for step in steps
    ]
    assert first_divergence(changed) is None
    number, place = next(
        (number, place)
        for number, step in enumerate(changed)
        for place, event in enumerate(step.events)
        if isinstance(event, kind)
    )
    changes: dict[type, dict[str, Any]] = {
        TurnStarted: {"turn_id": "another"},
        ToolsRequested: {"from_state": "waiting_for_human_input"},
        TurnCompleted: {"from_state": "executing"},
        AnswerRecorded: {"cost": 7.0},
    }
    events: list[Any] = [*changed[number].events]
    events[place] = msgspec.structs.replace(events[place], **changes[kind])
    changed[number] = Changed(changed[number].cause, events)

    found = first_divergence(changed)

    assert found is not None
    assert (found[0], found[1].place) == (number, place)


def test_a_fault_of_todays_code_is_told() -> None:
    steps = told(*STARTED, receive("t1"), finish(asks(PAY, LOOK), CAREFUL))

    def faulty(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:
        if isinstance(command, Finish):
            raise ZeroDivisionError("planted")
        return decide(session, command)

    found = first_divergence(steps, decide=faulty)

    assert found is not None
    assert found[0] == len(steps) - 1
    assert found[1].problem == "today's code cannot decide about Finish: ZeroDivisionError: planted"
