"""What each event adds to the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, assert_never

import msgspec

from reenact.domain.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    MessageAccepted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.container import ContainerCreated
from reenact.domain.image import ImageRegistered
from reenact.domain.session import SessionCreated, SessionDeleted
from reenact.projections.log import Row
from reenact.projections.state import AgentRow, Changes, Conversing, TurnRow

MOST_TOKENS = 1 << 40
"""No turn has so many; sums of what is below stay far from SQLite's largest integer."""

OfConversation: TypeAlias = (
    AgentStarted
    | AgentStopped
    | AnswerRecorded
    | MessageAccepted
    | SessionDeleted
    | TurnCompleted
    | TurnInterrupted
    | TurnFailed
    | TurnStarted
)
OF_CONVERSATION = (
    MessageAccepted,
    TurnStarted,
    AnswerRecorded,
    TurnCompleted,
    AgentStarted,
    AgentStopped,
    TurnFailed,
    TurnInterrupted,
    SessionDeleted,
)

encode = msgspec.msgpack.Encoder().encode


class UnprojectedEventError(TypeError):
    """An event of the domain that no projector knows."""


def project(changes: Changes, conversations: dict[str, Conversing], row: Row) -> None:
    """Add to the changes what follows from the event, and move its conversation on.

    Events that are none of the domain's are of no concern here: actors of other kinds may share the log.

    Raises:
        KeyError: the event goes on with a conversation or a turn that is not among the `conversations`.
        UnprojectedEventError: the event is the domain's, but has no projector.
    """
    event = row.event
    if isinstance(event, SessionCreated):
        _create(changes, conversations, row, event)
    elif isinstance(event, OF_CONVERSATION):
        _go_on(changes, conversations[row.stream], row, event)
    elif isinstance(event, ContainerCreated):
        changes.containers.append((row.position, event.container_id, event.name, row.recorded_at))
    elif isinstance(event, ImageRegistered):
        _register(changes, row, event)
    elif type(event).__module__.startswith("reenact.domain."):
        raise UnprojectedEventError(f"{type(event).__name__} has no projector")


def _create(changes: Changes, conversations: dict[str, Conversing], row: Row, event: SessionCreated) -> None:
    conversations[row.stream] = Conversing(row.position, event.session_id, event.container_id, event.image_id)
    changes.sessions.append(
        (
            row.position,
            row.stream,
            event.session_id,
            event.container_id,
            event.image_id,
            event.image_revision,
            row.recorded_at,
            None,
        )
    )


def _register(changes: Changes, row: Row, event: ImageRegistered) -> None:
    image_id, revision, definition = event.image_id, event.revision, event.definition
    changes.images.append((row.position, image_id, revision, row.recorded_at))
    changes.revisions.append(
        (
            row.position,
            image_id,
            revision,
            definition.name,
            definition.model,
            definition.system_prompt,
            definition.max_tokens,
        )
    )


def _go_on(changes: Changes, session: Conversing, row: Row, event: OfConversation) -> None:
    match event:
        case MessageAccepted():
            _accept(changes, session, row, event)
        case TurnStarted():
            _take_up(changes, session, event)
        case AnswerRecorded():
            _answer(changes, session, row, event)
        case TurnCompleted():
            _put_down(changes, session, row, event)
        case TurnInterrupted() | TurnFailed():
            pass  # its completion follows, and says so
        case AgentStarted():
            session.agent = AgentRow(row.position, event.agent_id, row.recorded_at)
        case AgentStopped():
            if session.agent is not None:
                session.agent.stopped_at = row.recorded_at
                changes.agents[session.agent.position] = session.agent, session
                session.agent = None
            return
        case SessionDeleted():
            session.waiting = 0
            changes.deleted.append((row.recorded_at, session.position))
        case _:
            assert_never(event)
    if session.agent is not None:
        changes.agents[session.agent.position] = session.agent, session


def _accept(changes: Changes, session: Conversing, row: Row, event: MessageAccepted) -> None:
    position = row.position
    turn = TurnRow(position, event.turn_id, session.position, event.at)
    session.turns[event.turn_id] = changes.turns[position] = turn
    session.waiting += 1
    changes.messages.append(
        (
            position,
            session.position,
            position,
            event.message_id,
            "user",
            encode(event.content),
            event.at,
            event.turn_id,
            None,
            0,
            None,
        )
    )


def _take_up(changes: Changes, session: Conversing, event: TurnStarted) -> None:
    turn = session.turns[event.turn_id]
    turn.started_at = event.at
    changes.turns[turn.position] = turn
    session.waiting -= 1
    if session.agent is not None:
        session.agent.turn_id = event.turn_id
        session.agent.failed = False


def _answer(changes: Changes, session: Conversing, row: Row, event: AnswerRecorded) -> None:
    turn = session.turns[event.turn_id]
    turn.model = event.model
    changes.turns[turn.position] = turn
    changes.messages.append(
        (
            row.position,
            session.position,
            turn.position,
            event.message_id,
            "assistant",
            encode(event.content),
            event.at,
            event.turn_id,
            event.stop_reason,
            int(event.partial),
            encode(event.usage) if event.usage else None,
        )
    )


def _put_down(changes: Changes, session: Conversing, row: Row, event: TurnCompleted) -> None:
    turn = session.turns.pop(event.turn_id)
    turn.ended_at = row.recorded_at
    turn.outcome = event.outcome
    turn.stop_reason = event.stop_reason
    turn.duration = event.duration
    turn.usage = encode(event.usage) if event.usage else None
    turn.failure = None if event.failure is None else encode(event.failure)
    changes.turns[turn.position] = turn
    if turn.started_at is None:
        session.waiting -= 1
    elif session.agent is not None:
        session.agent.turn_id = None
        session.agent.failed = event.outcome == "failed"
    _count(changes.usage, session.position, turn.model or "", event.usage)


def _count(totals: dict[tuple[int, str, str], int], session: int, model: str, usage: Mapping[str, object]) -> None:
    for kind, amount in usage.items():
        if type(amount) is int and 0 < amount < MOST_TOKENS:
            key = (session, model, kind)
            totals[key] = totals.get(key, 0) + amount
