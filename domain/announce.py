"""What subscribers hear of a decision: each event of a session's log, told as events of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from reenact.domain import events as heard
from reenact.domain.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    MessageAccepted,
    Turn,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.messages import Message, Said, instant
from reenact.domain.session import Session, SessionCreated, SessionDeleted, SessionEvent, evolve


def announce(session: Session, events: Sequence[SessionEvent]) -> Iterator[tuple[heard.Context, heard.EventData]]:
    """Yield what is heard of the events, in order, each with what it is about; `session` is as it was before them."""
    for event in events:
        after = evolve(session, event)
        yield from _tell(session, after, event)
        session = after


def _tell(before: Session, after: Session, event: SessionEvent) -> Iterator[tuple[heard.Context, heard.EventData]]:
    match event:
        case SessionCreated():
            created = heard.SessionCreated(
                session_id=event.session_id, container_id=event.container_id, image_id=event.image_id
            )
            yield about(after), created
        case AgentStarted():
            yield about(after), heard.AgentStarted(agent_id=event.agent_id)
        case MessageAccepted():
            yield _of_question(before, event), heard.UserMessage(message=question(event))
        case TurnStarted():
            yield from _started(before, after, event)
        case TurnInterrupted():
            yield of_turn(before), heard.Interrupted(reason=event.reason)
        case TurnFailed():
            failure = event.failure
            told = heard.StreamError(type=failure.type, message=failure.message, retryable=failure.retryable)
            yield of_turn(before), told
        case AnswerRecorded():
            yield of_turn(before), heard.AssistantMessage(message=answer(event))
        case TurnCompleted():
            yield from _completed(before, after, event)
        case AgentStopped():
            yield from _stopped(before, event)
        case SessionDeleted():
            yield about(before), heard.SessionDeleted(session_id=event.session_id)
        case _:
            assert_never(event)


def question(event: MessageAccepted) -> Message:
    """Return the user's message that was accepted."""
    return Message(
        id=event.message_id, role="user", content=event.content, created_at=instant(event.at), turn_id=event.turn_id
    )


def question_of(turn: Turn, said: Said) -> Message:
    """Return the user's message that the turn is about, as it was said in the conversation."""
    return Message(
        id=turn.message_id, role="user", content=said.content, created_at=instant(turn.asked_at), turn_id=turn.id
    )


def answer(event: AnswerRecorded) -> Message:
    """Return the model's message that was recorded."""
    return Message(
        id=event.message_id,
        role="assistant",
        content=event.content,
        created_at=instant(event.at),
        turn_id=event.turn_id,
        stop_reason=event.stop_reason,
        partial=event.partial,
        usage=event.usage or None,
    )


def about(session: Session) -> heard.Context:
    """Return the context of what concerns the session and its live agent, but no turn."""
    return heard.Context(
        container_id=session.container_id,
        image_id=session.image_id,
        session_id=session.id,
        agent_id=None if session.agent is None else session.agent.id,
    )


def of_turn(session: Session) -> heard.Context:
    """Return the context of what concerns the turn under way."""
    turn = session.turn
    if turn is None:
        return about(session)
    return heard.Context(
        container_id=session.container_id,
        image_id=session.image_id,
        session_id=session.id,
        agent_id=None if session.agent is None else session.agent.id,
        turn_id=turn.id,
        correlation_id=turn.id,
        causation_id=turn.message_id,
    )


def _of_question(session: Session, event: MessageAccepted) -> heard.Context:
    return heard.Context(
        container_id=session.container_id,
        image_id=session.image_id,
        session_id=session.id,
        agent_id=None if session.agent is None else session.agent.id,
        turn_id=event.turn_id,
        correlation_id=event.turn_id,
        causation_id=event.request_id,
    )


def _started(before: Session, after: Session, event: TurnStarted) -> Iterator[tuple[heard.Context, heard.EventData]]:
    context = of_turn(after)
    message_id = after.turn.message_id if after.turn is not None else ""
    yield context, heard.TurnStarted(turn_id=event.turn_id, message_id=message_id)
    if before.agent is not None:
        yield context, heard.AgentStateChanged(previous=before.agent.state(before.turn), current="thinking")


def _completed(
    before: Session, after: Session, event: TurnCompleted
) -> Iterator[tuple[heard.Context, heard.EventData]]:
    begun = before.turn is not None and before.turn.id == event.turn_id
    context = (
        of_turn(before)
        if begun
        else heard.Context(
            container_id=before.container_id,
            image_id=before.image_id,
            session_id=before.id,
            agent_id=None if before.agent is None else before.agent.id,
            turn_id=event.turn_id,
            correlation_id=event.turn_id,
        )
    )
    if event.failure is not None:
        failure = event.failure
        told = heard.ErrorMessage(type=failure.type, message=failure.message, retryable=failure.retryable)
        yield context, told
    if begun and after.agent is not None:
        yield context, heard.AgentStateChanged(previous=event.from_state, current=after.agent.state(None))
    yield (
        context,
        heard.TurnCompleted(
            turn_id=event.turn_id,
            outcome=event.outcome,
            stop_reason=event.stop_reason,
            usage=event.usage,
            duration=event.duration,
        ),
    )


def _stopped(before: Session, event: AgentStopped) -> Iterator[tuple[heard.Context, heard.EventData]]:
    context = about(before)
    if before.agent is not None:
        yield context, heard.AgentStateChanged(previous=before.agent.state(before.turn), current="stopped")
    yield context, heard.AgentStopped(agent_id=event.agent_id, reason=event.reason)
