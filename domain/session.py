"""A session: a conversation in a container, on an image, and the agent that is running it.

One stream holds both, so that one decision covers both: whether a message is accepted, whose turn it is, and what
becomes of a turn when the agent is destroyed or the session deleted.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias, assert_never

import msgspec

from reenact.domain.agent import (
    Agent,
    AgentEvent,
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    MessageAccepted,
    Queued,
    SoFar,
    StopReason,
    Turn,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.conversation import Conversation
from reenact.domain.errors import AgentNotFoundError, AlreadyExistsError, SessionNotFoundError
from reenact.domain.events import AgentState, Outcome
from reenact.domain.messages import Block, Said, is_blank


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A session as callers see it; it keeps the image's revision that it was created with."""

    id: str
    container_id: str
    image_id: str
    image_revision: int
    created_at: datetime


class SessionCreated(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The session exists."""

    session_id: str
    container_id: str
    image_id: str
    image_revision: int


class SessionDeleted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The session is in no list any more; its history stays."""

    session_id: str


SessionEvent: TypeAlias = SessionCreated | SessionDeleted | AgentEvent


class CreateSession(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Create the session."""

    session_id: str
    container_id: str
    image_id: str
    image_revision: int


class Run(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Start an agent under this id, unless one is live; it takes up what waits."""

    session_id: str
    agent_id: str
    at: int


class Receive(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Accept a message for the live agent."""

    agent_id: str
    turn_id: str
    message_id: str
    content: tuple[Block, ...]
    at: int
    request_id: str | None = None


class Finish(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The environment is done with the turn."""

    turn_id: str
    so_far: SoFar
    at: int


class Interrupt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """End the turn under way; the agent goes on with what waits."""

    agent_id: str
    reason: str
    at: int
    so_far: SoFar = SoFar()


class Stop(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """End the turn under way and the agent; what waits goes on waiting. Any agent, when `agent_id` is None."""

    agent_id: str | None
    reason: StopReason
    at: int
    so_far: SoFar = SoFar()


class Delete(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Stop the agent, if there is one, and delete the session."""

    session_id: str
    at: int
    so_far: SoFar = SoFar()


SessionCommand: TypeAlias = CreateSession | Run | Receive | Finish | Interrupt | Stop | Delete


class Session(msgspec.Struct, frozen=True):
    """What is known of a session; `conversation` holds what the model is given."""

    id: str | None = None
    container_id: str = ""
    image_id: str = ""
    image_revision: int = 0
    deleted: bool = False
    agent: Agent | None = None
    queue: tuple[Queued, ...] = ()
    turn: Turn | None = None
    conversation: Conversation = Conversation()


def decide(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:
    """Return what follows from the command, or refuse it.

    Raises:
        AlreadyExistsError: the session's id has been used.
        SessionNotFoundError: the session was never created, or is deleted.
        AgentNotFoundError: the agent named is not the live one.
    """
    match command:
        case CreateSession():
            return _create(session, command)
        case Run():
            return _run(session, command)
        case Receive():
            return _receive(session, command)
        case Finish():
            return _finish(session, command)
        case Interrupt():
            return _interrupt(session, command)
        case Stop():
            return _stop(session, command)
        case Delete():
            return _delete(session, command)
        case _:
            assert_never(command)


def evolve(session: Session, event: SessionEvent) -> Session:
    """Return the session as it is once the event has happened."""
    match event:
        case MessageAccepted():
            queued = Queued(event.turn_id, event.message_id, event.content, event.at)
            return msgspec.structs.replace(session, queue=(*session.queue, queued))
        case TurnStarted():
            return _take_up(session, event)
        case AnswerRecorded():
            said = session.conversation.plus(Said("assistant", event.content))
            return msgspec.structs.replace(session, conversation=said)
        case TurnCompleted():
            return _put_down(session, event)
        case TurnInterrupted() | TurnFailed():
            return session
        case AgentStarted():
            return msgspec.structs.replace(session, agent=Agent(event.agent_id))
        case AgentStopped():
            return msgspec.structs.replace(session, agent=None)
        case SessionCreated():
            return Session(event.session_id, event.container_id, event.image_id, event.image_revision)
        case SessionDeleted():
            return msgspec.structs.replace(session, deleted=True, queue=())
        case _:
            assert_never(event)


def _create(session: Session, command: CreateSession) -> tuple[SessionEvent, ...]:
    if session.id is not None:
        kind = "session"
        raise AlreadyExistsError(kind, session.id)
    return (SessionCreated(command.session_id, command.container_id, command.image_id, command.image_revision),)


def _run(session: Session, command: Run) -> tuple[SessionEvent, ...]:
    _must_exist(session, command.session_id)
    if session.agent is not None:
        return ()
    return (AgentStarted(command.agent_id), *_next_turn(session.queue, command.at))


def _receive(session: Session, command: Receive) -> tuple[SessionEvent, ...]:
    if session.agent is None or session.agent.id != command.agent_id:
        raise AgentNotFoundError(command.agent_id)
    accepted = MessageAccepted(command.turn_id, command.message_id, command.content, command.at, command.request_id)
    if session.turn is not None or session.queue:
        return (accepted,)
    return (accepted, TurnStarted(command.turn_id, command.at))


def _finish(session: Session, command: Finish) -> tuple[SessionEvent, ...]:
    if session.turn is None or session.turn.id != command.turn_id:
        return ()
    so_far = command.so_far
    outcome: Outcome = "completed" if so_far.failure is None else "failed"
    ended = _end_turn(session.turn, so_far, outcome, command.at)
    return (*ended, *_next_turn(session.queue, command.at))


def _interrupt(session: Session, command: Interrupt) -> tuple[SessionEvent, ...]:
    if session.agent is None or session.agent.id != command.agent_id:
        return ()
    return (
        *_cut_short(session, command.so_far, command.reason, command.at),
        *(_next_turn(session.queue, command.at) if session.turn is not None else ()),
    )


def _stop(session: Session, command: Stop) -> tuple[SessionEvent, ...]:
    agent = session.agent
    if agent is None or (command.agent_id is not None and agent.id != command.agent_id):
        return ()
    return (*_cut_short(session, command.so_far, command.reason, command.at), AgentStopped(agent.id, command.reason))


def _delete(session: Session, command: Delete) -> tuple[SessionEvent, ...]:
    _must_exist(session, command.session_id)
    reason: StopReason = "deleted"
    stopped = (AgentStopped(session.agent.id, reason),) if session.agent is not None else ()
    never_begun = tuple(
        TurnCompleted(queued.turn_id, "interrupted", "interrupted", {}, 0.0, "idle") for queued in session.queue
    )
    return (
        *_cut_short(session, command.so_far, reason, command.at),
        *never_begun,
        *stopped,
        SessionDeleted(command.session_id),
    )


def _must_exist(session: Session, session_id: str) -> None:
    if session.id is None or session.deleted:
        raise SessionNotFoundError(session_id)


def _next_turn(queue: tuple[Queued, ...], at: int) -> tuple[SessionEvent, ...]:
    return (TurnStarted(queue[0].turn_id, at),) if queue else ()


def _cut_short(session: Session, so_far: SoFar, reason: str, at: int) -> tuple[SessionEvent, ...]:
    turn = session.turn
    if turn is None:
        return ()
    if so_far.stop_reason is not None or so_far.failure is not None:  # it had ended by itself, just before
        return _end_turn(turn, so_far, "completed" if so_far.failure is None else "failed", at)
    return (TurnInterrupted(turn.id, reason), *_end_turn(turn, so_far, "interrupted", at))


def _end_turn(turn: Turn, so_far: SoFar, outcome: Outcome, at: int) -> tuple[SessionEvent, ...]:
    stop_reason = {"interrupted": "interrupted", "failed": "error"}.get(outcome) or so_far.stop_reason or "end_turn"
    from_state: AgentState = "responding" if so_far.responding else "thinking"
    duration = max(0, at - turn.at) / 1_000_000
    completed = TurnCompleted(turn.id, outcome, stop_reason, so_far.usage, duration, from_state, so_far.failure)
    untold = (TurnFailed(turn.id, so_far.failure),) if so_far.failure is not None and so_far.untold else ()
    if so_far.message_id is None or is_blank(so_far.content):
        return (*untold, completed)
    answer = AnswerRecorded(
        turn.id,
        so_far.message_id,
        so_far.content,
        stop_reason,
        outcome != "completed",
        so_far.usage,
        so_far.model,
        at,
    )
    return (*untold, answer, completed)


def _take_up(session: Session, event: TurnStarted) -> Session:
    message, *rest = session.queue
    return msgspec.structs.replace(
        session,
        queue=tuple(rest),
        turn=Turn(message.turn_id, message.message_id, message.at, event.at),
        agent=None if session.agent is None else Agent(session.agent.id),
        conversation=session.conversation.plus(Said("user", message.content)),
    )


def _put_down(session: Session, event: TurnCompleted) -> Session:
    if session.turn is None or session.turn.id != event.turn_id:
        return session
    agent = session.agent
    failed = event.outcome == "failed"
    return msgspec.structs.replace(session, turn=None, agent=None if agent is None else Agent(agent.id, failed))
