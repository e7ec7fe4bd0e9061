"""Sessions in each of the states that decisions look at, made of the events that lead there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from reenact.domain.messages import TextBlock
from reenact.domain.session.agent import AgentStarted, MessageAccepted, ReceivedAnswer, TurnCompleted, TurnStarted
from reenact.domain.session.commands import CreateSession, Delete, Finish, Interrupt, Receive, Run, Stop
from reenact.domain.session.state import Session, SessionCreated, SessionDeleted, SessionEvent, evolve

HELLO = (TextBlock("Hello"),)
ANSWER = ReceivedAnswer(
    message_id="m-answer", content=(TextBlock("Hi"),), stop_reason="end_turn", model="m", responding=True
)
PART = ReceivedAnswer(message_id="m-answer", content=(TextBlock("H"),), model="m", responding=True)


def session(*events: SessionEvent) -> Session:
    return replay(events)


def replay(events: Iterable[SessionEvent]) -> Session:
    return reduce(evolve, events, Session())


def accepted(turn_id: str) -> MessageAccepted:
    return MessageAccepted(turn_id, f"m-{turn_id}", HELLO, 1)


CREATED = SessionCreated("s", "c", "i", 1)
NEW = session()
IDLE_SESSION = session(CREATED)
IDLE = session(CREATED, AgentStarted("a"))
THINKING = session(CREATED, AgentStarted("a"), accepted("t1"), TurnStarted("t1", 1))
BUSY = session(CREATED, AgentStarted("a"), accepted("t1"), TurnStarted("t1", 1), accepted("t2"))
FAILED = session(
    CREATED,
    AgentStarted("a"),
    accepted("t1"),
    TurnStarted("t1", 1),
    TurnCompleted("t1", "failed", "error", {}, 0.0, "thinking"),
)
DELETED = session(CREATED, SessionDeleted("s"))

CREATE = CreateSession(session_id="s", container_id="c", image_id="i", image_revision=1)
RUN = Run(session_id="s", agent_id="b", at=2_000_001)
RECEIVE = Receive(agent_id="a", turn_id="t9", message_id="m-t9", content=HELLO, at=2_000_001)
FINISH = Finish(turn_id="t1", so_far=ANSWER, at=2_000_001)
INTERRUPT = Interrupt(agent_id="a", reason="user", at=2_000_001)
STOP = Stop(agent_id="a", reason="destroyed", at=2_000_001)
DELETE = Delete(session_id="s", at=2_000_001)
