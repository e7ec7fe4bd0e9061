"""Histories with the steps in which they were decided, to be decided once more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final, NamedTuple, TypeAlias

from reenact.domain.history.causes import cause_of
from reenact.domain.history.decision_replay import DecisionReplay
from reenact.domain.session.commands import Run, SessionCommand
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, SessionEvent, evolve
from tests.domain.session.examples import CREATE
from tests.domain.session.loops import AT
from tests.projections.histories import Step as Doing
from tests.projections.histories import World, play

STARTED: Final = (CREATE, Run(session_id="s", agent_id="a", at=AT))
"""What a session and its agent begin with."""


class Step(NamedTuple):
    """A command, and what was decided, all at once."""

    command: SessionCommand
    events: tuple[SessionEvent, ...]

    @property
    def cause(self) -> bytes:
        """The command as it is stored."""
        return cause_of(self.command, self.events)


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
    """Hold today's decisions against the steps."""
    retracing = DecisionReplay(Session() if begins is None else begins)
    for number, step in enumerate(steps, 1):
        assert retracing.follow(step.cause, step.events) is None, step
        assert retracing.steps == number, step
    assert retracing.session == session


def states_of(steps: Sequence[Step], begins: Session | None = None) -> list[Session]:
    """Return the state before each step."""
    session, states = Session() if begins is None else begins, list[Session]()
    for step in steps:
        states.append(session)
        for event in step.events:
            session = evolve(session, event)
    return states


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
