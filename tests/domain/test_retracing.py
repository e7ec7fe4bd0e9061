"""Histories that are decided once more: what today's code would decide is what was recorded, or it is said where not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.domain import session as sessions
from reenact.domain.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    Failure,
    MessageAccepted,
    ResultsRecorded,
    RulesRecorded,
    SoFar,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.container import ContainerCreated
from reenact.domain.errors import ReenactError
from reenact.domain.loop.events import ToolApproved, ToolPending, ToolResult, ToolStarted
from reenact.domain.loop.ledger import Price
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import TextBlock
from reenact.domain.retracing import Decide, Divergence, Retracing, difference
from reenact.domain.session import (
    CreateSession,
    Finish,
    Interrupt,
    Receive,
    Run,
    Session,
    SessionCommand,
    SessionEvent,
    Stop,
    decide,
    evolve,
)
from tests.domain.examples import ANSWER, CREATE, HELLO
from tests.domain.loops import AT, CAREFUL, LOOK, PAY, PRICED, USAGE, approve, asks, finish, receive, reject, report
from tests.domain.retraced import Step, check_retraced, states_of
from tests.projections.histories import Step as Doing
from tests.projections.histories import World, play, stream_of
from tests.projections.histories import steps as doings

Steps: TypeAlias = list[Step]


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
            events = tuple(row.event for row in self.log.rows[before:])
            self.steps.setdefault(session_id, []).append(Step(command, events))  # type: ignore[arg-type]  # a session's
        return head


def played(chosen: Sequence[Doing]) -> Remembering:
    world = Remembering()
    world.create("a", "x")
    world.create("b", "y")
    world.run("a")
    world.say("a")
    play(chosen, world)
    return world


def told(*commands: SessionCommand) -> Steps:
    """Return the steps that follow from the commands, of a session that is new."""
    session, steps = Session(), Steps()
    for command in commands:
        steps.append(Step(command, decide(session, command)))
        session = reduce(evolve, steps[-1].events, session)
    return steps


def events_of(steps: Sequence[Step]) -> list[SessionEvent]:
    return [event for step in steps for event in step.events]


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


STARTED = (CREATE, Run(session_id="s", agent_id="a", at=AT))


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
