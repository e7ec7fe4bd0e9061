"""Histories that are decided once more: today's code decides what was recorded, or it is said where not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.domain.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    MessageAccepted,
    ResultsRecorded,
    RulesRecorded,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.container import ContainerCreated
from reenact.domain.loop.events import (
    HumanApproveRequired,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.rules import Rules
from reenact.domain.marks import mark
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.retracing import Decide, Divergence, Retracing, difference
from reenact.domain.session import (
    Delete,
    Finish,
    Interrupt,
    Report,
    Session,
    SessionCommand,
    SessionEvent,
    Stop,
    decide,
    evolve,
)
from tests.domain.examples import HELLO
from tests.domain.loops import AT, CAREFUL, LOOK, PAY, PRICED, approve, asks, finish, receive, report, says
from tests.domain.retraced import STARTED, Step, Steps, check_retraced, events_of, states_of, told
from tests.projections.histories import Step as Doing
from tests.projections.histories import World, play
from tests.projections.histories import steps as doings


class Remembering(World):
    """A world that knows which of its events were decided together."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[str, Steps] = {}
        self.begins: dict[str, Session] = {}

    def tell(self, session_id: str, command: SessionCommand) -> int:
        before = self.log.head()
        state = self.sessions.get(session_id, Session())
        head = super().tell(session_id, command)
        if head > before:
            self.begins.setdefault(session_id, state)
            events: Any = tuple(row.event for row in self.log.rows[before:])
            self.steps.setdefault(session_id, []).append(Step(command, events))
        return head


def played(chosen: Sequence[Doing]) -> Remembering:
    world = Remembering()
    world.create("a", "x")
    world.create("b", "y")
    world.run("a")
    world.say("a")
    play(chosen, world)
    return world


def first_divergence(
    steps: Sequence[Sequence[SessionEvent]], begins: Session | None = None, decide: Decide = decide
) -> tuple[int, Divergence] | None:
    """Return the step at which today's code parts from the history, and how."""
    retracing = Retracing(Session() if begins is None else begins, decide=decide)
    for number, events in enumerate(steps):
        divergence = retracing.follow(events)
        if divergence is not None:
            return number, divergence
    return None


@settings(max_examples=150)
@given(doings)
def test_what_was_decided_is_decided_again(chosen: list[Doing]) -> None:
    world = played(chosen)

    for session_id, steps in world.steps.items():
        check_retraced(steps, world.sessions[session_id], begins=world.begins[session_id])


@settings(max_examples=60)
@given(doings)
def test_a_history_from_before_rules_were_recorded_is_decided_by_those_that_are_told(chosen: list[Doing]) -> None:
    world = played([doing for doing in chosen if doing[0] != "rules" and " " not in doing[0]])

    for steps in world.steps.values():
        retracing = Retracing(rules=world.rules)
        for step in steps:
            without = [event for event in step.events if not isinstance(event, RulesRecorded)]
            assert retracing.follow(without) is None
        assert retracing.session.rules is None


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


@settings(max_examples=100)
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
    steps: list[Sequence[SessionEvent]] = [step.events for step in world.steps[session_id]]
    steps[at] = [*steps[at][:place], *steps[at][place + 1 :]]

    found = first_divergence(steps, world.begins[session_id])

    assert found is not None
    assert found[0] == at
    assert found[1].place <= place


@settings(max_examples=100)
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
    steps: list[Sequence[SessionEvent]] = [step.events for step in world.steps[session_id]]
    steps[at] = [*steps[at][: place + 1], event, *steps[at][place + 1 :]]

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


@settings(max_examples=100)
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
    steps: list[Sequence[SessionEvent]] = [step.events for step in world.steps[session_id]]
    altered = msgspec.structs.replace(event, **ALTERED[type(event)])
    steps[at] = [*steps[at][:place], altered, *steps[at][place + 1 :]]

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
@settings(max_examples=30)
@given(chosen=doings)
def test_code_that_decides_otherwise_is_found_at_the_first_step_that_it_would_change(
    buggy: Decide, chosen: list[Doing]
) -> None:
    world = played(chosen)

    for session_id, steps in world.steps.items():
        states = states_of(steps, world.begins[session_id])
        changed = [at for at, step in enumerate(steps) if not _same(buggy, states[at], step)]
        found = first_divergence([step.events for step in steps], world.begins[session_id], buggy)
        assert (None if found is None else found[0]) == (changed[0] if changed else None)


def _same(buggy: Decide, session: Session, step: Step) -> bool:
    try:
        return buggy(session, step.command) == step.events
    except KeyError:
        return False


def test_the_first_field_that_differs_is_named() -> None:
    steps = told(*STARTED, receive("t1"), finish(asks(LOOK)), report("a"))
    events = events_of(steps)
    results = next(event for event in events if isinstance(event, ResultsRecorded))
    other = msgspec.structs.replace(results.content[0], content="rainy")
    events[events.index(results)] = msgspec.structs.replace(results, content=(other,))

    divergence = Retracing().follow(events)

    assert divergence is not None
    assert divergence.place == len(events) - 2
    assert divergence.recorded == events[-2]
    assert divergence.decided == results
    assert divergence.field == "content.0.content"
    assert divergence.command == steps[-1].command
    assert "content.0.content of results-recorded" in divergence.problem


def test_what_todays_code_would_have_gone_on_with_is_told() -> None:
    events = events_of(told(*STARTED, receive("t1")))[:-1]

    divergence = Retracing().follow(events)

    assert divergence is not None
    assert (divergence.place, divergence.recorded) == (len(events), None)
    assert isinstance(divergence.decided, TurnStarted)
    assert "nothing more was recorded" in divergence.problem


def test_what_todays_code_does_not_go_on_with_is_told() -> None:
    first, second = told(*STARTED)

    divergence = Retracing().follow([*first.events, *second.events, TurnStarted("t1", AT)])

    assert divergence is not None
    assert divergence.recorded == TurnStarted("t1", AT)
    assert divergence.decided is None
    assert "nothing that can be asked" in divergence.problem


def test_a_command_that_comes_to_nothing_today_is_told() -> None:
    events = [*events_of(told(*STARTED)), AgentStarted("b")]

    divergence = Retracing().follow(events)

    assert divergence is not None
    assert divergence.recorded == AgentStarted("b")
    assert "decides nothing more" in divergence.problem


@pytest.mark.parametrize(
    "event",
    [
        ContextCompressed("t1", "in short", 1, {}, None, None, AT),
        ToolResult(id="a", name="look", result="sunny"),
        TurnCompleted("t1", "completed", "end_turn", {}, 0.0, "thinking"),
        TurnInterrupted("t1", "user"),
        AgentStopped("a", "tired"),
        ToolPending(ids=("a",)),
        ToolRejected(id="a", reason="no"),
        MessageAccepted("t1", "m1", HELLO, AT),
        ContainerCreated("c", None),
    ],
)
def test_an_event_that_cannot_come_first_is_no_traceback(event: Any) -> None:  # noqa: ANN401 - one is foreign
    divergence = Retracing().follow([event])

    assert divergence is not None
    assert (divergence.place, divergence.recorded) == (0, event)


def test_a_refusal_of_today_is_told() -> None:
    events = events_of(told(*STARTED, receive("t1"), finish(asks(PAY), CAREFUL)))
    retracing = Retracing()
    assert retracing.follow(events) is None

    divergence = retracing.follow([ToolApproved(id="unheard of", digest="d")])

    assert divergence is not None
    assert divergence.problem.startswith("today's code refuses it: CallNotPendingError")
    assert divergence.decided is None


def test_rules_alone_are_no_step() -> None:
    divergence = Retracing().follow([RulesRecorded(PRICED.held)])

    assert divergence is not None
    assert divergence.recorded == RulesRecorded(PRICED.held)


def test_an_event_that_todays_code_cannot_take_in_is_found_and_the_error_named() -> None:
    events = events_of(told(*STARTED, receive("t1")))

    def breaking(session: Session, event: SessionEvent) -> Session:
        if isinstance(event, TurnStarted):
            raise LookupError("planted")  # noqa: TRY004 - any error will do
        return evolve(session, event)

    divergence = Retracing(evolve=breaking).follow(events)

    assert divergence is not None
    assert divergence.place == 2
    assert divergence.problem == "today's code cannot take in what was recorded: LookupError: planted"


def test_a_way_that_does_not_lead_on_is_left_for_one_that_does() -> None:
    """Here a decision can take too much away from what comes next, in two ways that lead to the same end."""
    calls = (LOOK, PAY, ToolUseBlock("c", "look", {"at": "c"}))
    before = told(*STARTED, receive("t1"), finish(asks(*calls)))
    results = told(*(step.command for step in before), report("a"), report("b"), report("c"))[-3:]
    answers = [event for event in events_of(results) if isinstance(event, ToolResult)]

    def greedy(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:
        if isinstance(command, Report) and command.rules.runs_tools:
            return tuple(answers[["a", "b", "c"].index(command.call_id) :])
        if isinstance(command, Report):
            return decide(session, msgspec.structs.replace(command, rules=Rules()))
        return decide(session, command)

    retracing = Retracing(decide=greedy)

    assert retracing.follow(events_of([*before, *results])) is None
    assert retracing.steps == len(before) + len(results)


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


def test_what_was_taken_out_of_a_history_makes_no_difference() -> None:
    steps = told(*STARTED, *REDACTED, report("b", rules=CAREFUL, turn_id="t7"))
    retracing = Retracing()

    found = [retracing.follow([without_arguments(event) for event in step.events]) for step in steps]

    assert found == [None] * len(steps)
    assert (retracing.steps, retracing.undecided) == (len(steps), 0)


def test_steps_that_follow_from_what_was_taken_out_are_counted_and_passed_by() -> None:
    steps = told(*STARTED, *REDACTED[:-1], approve("b", arguments={"amount": 7}))
    edits = [event for event in events_of(steps) if isinstance(event, ToolEdited)]
    retracing = Retracing()

    found = retracing.follow([without_arguments(event) for event in events_of(steps)])

    assert len(edits) == 1
    assert found is None
    assert (retracing.steps, retracing.undecided) == (len(steps), 1)


@pytest.mark.parametrize("kind", [TurnStarted, ToolsRequested, TurnCompleted, AnswerRecorded])
def test_a_divergence_is_found_also_where_something_else_was_taken_out(kind: type) -> None:
    steps = told(*STARTED, receive("t1"), finish(says("well")), receive("t2"), finish(asks(PAY), turn_id="t2"))
    events = [
        msgspec.structs.replace(event, content=(TextBlock(mark("field")),))
        if isinstance(event, MessageAccepted) or (isinstance(event, AnswerRecorded) and event.turn_id == "t1")
        else event
        for event in events_of(steps)
    ]
    assert Retracing().follow(events) is None
    place = next(place for place, event in enumerate(events) if isinstance(event, kind))
    changes: dict[type, dict[str, Any]] = {
        TurnStarted: {"turn_id": "another"},
        ToolsRequested: {"from_state": "waiting_for_human_input"},
        TurnCompleted: {"from_state": "executing"},
        AnswerRecorded: {"cost": 7.0},
    }
    events[place] = msgspec.structs.replace(events[place], **changes[kind])

    divergence = Retracing().follow(events)

    assert divergence is not None
    assert divergence.place == place


def test_a_fault_of_todays_code_is_told_and_not_what_would_have_led_farther() -> None:
    steps = told(*STARTED, receive("t1"), finish(asks(PAY, LOOK), CAREFUL))

    def faulty(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:
        if isinstance(command, Finish):
            raise ZeroDivisionError("planted")
        if isinstance(command, Interrupt | Stop | Delete):  # which come into question, too
            return (*steps[-1].events[:-1], TurnStarted("another", AT))
        return decide(session, command)

    divergence = Retracing(decide=faulty).follow(events_of(steps))

    assert divergence is not None
    assert divergence.problem == "today's code cannot decide about Finish: ZeroDivisionError: planted"
    assert divergence.place == len(events_of(steps[:-1]))
