"""Histories with the steps in which they were decided, to be decided once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reenact.domain.retracing import Retracing
from reenact.domain.session import Session, SessionCommand, SessionEvent, evolve


class Step(NamedTuple):
    """A command, and what was decided, all at once."""

    command: SessionCommand
    events: tuple[SessionEvent, ...]


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
