"""Histories with the steps in which they were decided, to be decided once more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple, TypeAlias

from reenact.domain.retracing import Retracing
from reenact.domain.session import Run, Session, SessionCommand, SessionEvent, decide, evolve
from tests.domain.examples import CREATE
from tests.domain.loops import AT

STARTED: Final = (CREATE, Run(session_id="s", agent_id="a", at=AT))
"""What a session and its agent begin with."""


class Step(NamedTuple):
    """A command, and what was decided, all at once."""

    command: SessionCommand
    events: tuple[SessionEvent, ...]


Steps: TypeAlias = list[Step]


def told(*commands: SessionCommand) -> Steps:
    """Return the steps that follow from the commands, of a session that is new."""
    session, steps = Session(), Steps()
    for command in commands:
        steps.append(Step(command, decide(session, command)))
        session = reduce(evolve, steps[-1].events, session)
    return steps


def events_of(steps: Sequence[Step]) -> list[SessionEvent]:
    return [event for step in steps for event in step.events]


def check_retraced(steps: Sequence[Step], session: Session, *, begins: Session | None = None) -> None:
    """Hold today's decisions against the steps: each is one, also where nobody says where one ends."""
    begins = Session() if begins is None else begins
    retracing = Retracing(begins)
    for number, step in enumerate(steps, 1):
        assert retracing.follow(step.events) is None, step
        assert retracing.steps == number, step
    assert retracing.session == session

    retracing = Retracing(begins)
    assert retracing.follow([event for step in steps for event in step.events]) is None
    assert retracing.session == session


def states_of(steps: Sequence[Step], begins: Session | None = None) -> list[Session]:
    """Return the state before each step."""
    session, states = Session() if begins is None else begins, list[Session]()
    for step in steps:
        states.append(session)
        for event in step.events:
            session = evolve(session, event)
    return states
