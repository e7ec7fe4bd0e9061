"""A session as it was at a position of the log: all of it, for programs, and as a page for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from reenact.domain.agent import AgentStarted
from reenact.domain.errors import SessionNotFoundError, reading
from reenact.domain.events import AgentState
from reenact.domain.history import ToolCallInfo, UsageInfo, usage_info
from reenact.domain.loop.rounds import Call
from reenact.domain.messages import Block, Message, Usage, instant, text_of
from reenact.domain.people import PendingCall
from reenact.domain.plain import is_sayable
from reenact.domain.session_state import BranchPoint, Session, Summary
from reenact.projections.audit.api import AuditedLog
from reenact.projections.audit.entries import fields_of, name_of
from reenact.projections.audit.history import History, believe, history_of, stream_of
from reenact.projections.audit.page import page_of
from reenact.projections.audit.telling import Told
from reenact.projections.log import Row


class LastEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The last of a session's events that is told of; of a branch, it may be one that it shares with its origin."""

    position: int
    stream: str
    version: int
    type: str
    time: datetime


class AgentShown(msgspec.Struct, frozen=True, kw_only=True):
    """The live agent, and what it was at as far as the log knows."""

    id: str
    state: AgentState
    started_at: datetime


class TurnShown(msgspec.Struct, frozen=True, kw_only=True):
    """The turn under way; the model was asked `step` times in it, and `usage` and `cost` are those of its answers."""

    id: str
    message_id: str
    accepted_at: datetime
    started_at: datetime
    step: int
    usage: Usage
    cost: float | None


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that waits for its turn."""

    id: str
    turn_id: str
    content: tuple[Block, ...]
    accepted_at: datetime

    @property
    def text(self) -> str:
        """The text of the message."""
        return text_of(self.content)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it was behind its `last` event up to the position that was asked for; `events` counts them.

    `origin` is where it branches off from, `messages` are those that were said, `calls` all that were asked for, and
    `pending` those that waited for a person, each with the digest that an approval is bound to. `summary` is what the
    model was given in place of the first messages, `context_tokens` how long the conversation was for it, and `warned`
    whether it had been said that the cost limit is exceeded. `rules` are those that held, None if none are recorded.
    """

    session_id: str
    container_id: str
    image_id: str
    image_revision: int
    origin: BranchPoint | None
    created_at: datetime
    deleted: bool
    last: LastEvent
    events: int
    agent: AgentShown | None
    turn: TurnShown | None
    queue: tuple[QueuedMessage, ...]
    messages: tuple[Message, ...]
    calls: tuple[ToolCallInfo, ...]
    pending: tuple[PendingCall, ...]
    usage: UsageInfo
    summary: Summary | None
    context_tokens: int
    warned: bool
    rules: dict[str, Any] | None

    def text(self) -> str:
        """Return it as a page that people read, with local times; of very long messages the beginning."""
        return page_of(self)


def shown(log: AuditedLog, session_id: str, *, at: int | None = None) -> Shown:
    """Return the session as it was at the position of the log, now if it is None; it may have been deleted.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: the session begins behind the position, or the log ends before it.
        LogUnusableError: the log has lost what the session branches off from, or holds what cannot have happened.
    """
    history = past_of(log, session_id, at=at)
    with reading(f"session {session_id!r}"):
        return shown_of(session_id, history)


def past_of(log: AuditedLog, session_id: str, *, at: int | None = None) -> History:
    """Return the session's history up to the position, all of it if it is None, whatever the id is made of.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: the session begins behind the position, or the log ends before it.
        LogUnusableError: the log has lost what the session branches off from.
    """
    if not is_sayable(session_id):
        raise SessionNotFoundError(session_id)
    return history_of(log, session_id, until=at)


def shown_of(session_id: str, history: History) -> Shown:
    """Return the session as it was when this was its history."""
    session, agent_since = Session(), history[0]
    for row in history:
        session = believe(session, row)
        if isinstance(row.event, AgentStarted):
            agent_since = row
    told = Told(session_id, history)
    own = next((row for row in history if row.stream == stream_of(session_id)), history[-1])
    return Shown(
        session_id=session_id,
        container_id=session.container_id,
        image_id=session.image_id,
        image_revision=session.image_revision,
        origin=_origin(session, history),
        created_at=instant(own.recorded_at),
        deleted=session.deleted,
        last=last_of(history[-1]),
        events=len(history),
        agent=_agent(session, instant(agent_since.recorded_at)),
        turn=_turn(session),
        queue=tuple(
            QueuedMessage(id=one.message_id, turn_id=one.turn_id, content=one.content, accepted_at=instant(one.at))
            for one in session.queue
        ),
        messages=tuple(told.messages),
        calls=tuple(told.calls),
        pending=_pending(session_id, session, told),
        usage=usage_info(session_id, session.ledger.models, session.ledger.tools),
        summary=session.summary,
        context_tokens=session.context_tokens,
        warned=session.warned,
        rules=None if session.rules is None else fields_of(session.rules),
    )


def last_of(row: Row) -> LastEvent:
    """Return what is told of a session's last event."""
    return LastEvent(
        position=row.position,
        stream=row.stream,
        version=row.version,
        type=name_of(row.event),
        time=instant(row.recorded_at),
    )


def _origin(session: Session, history: History) -> BranchPoint | None:
    if session.origin is None:
        return None
    stream, version = stream_of(session.origin.session_id), session.origin.version
    position = next(row.position for row in history if row.stream == stream and row.version == version)
    return BranchPoint(session_id=session.origin.session_id, position=position, version=version)


def _agent(session: Session, since: datetime) -> AgentShown | None:
    agent = session.agent
    if agent is None:
        return None
    return AgentShown(id=agent.id, state=agent.state(session.turn, session.round), started_at=since)


def _turn(session: Session) -> TurnShown | None:
    turn = session.turn
    if turn is None:
        return None
    return TurnShown(
        id=turn.id,
        message_id=turn.message_id,
        accepted_at=instant(turn.asked_at),
        started_at=instant(turn.at),
        step=turn.steps,
        usage=turn.usage,
        cost=turn.cost,
    )


def _pending(session_id: str, session: Session, told: Told) -> tuple[PendingCall, ...]:
    waiting: Sequence[Call] = () if session.round is None else session.round.at("waiting")
    agent_id = None if session.agent is None else session.agent.id
    return tuple(_waiting(call, told.call(call.id), session_id, agent_id) for call in waiting)


def _waiting(call: Call, info: ToolCallInfo, session_id: str, agent_id: str | None) -> PendingCall:
    question = call.question
    return PendingCall(
        id=call.id,
        session_id=session_id,
        agent_id=agent_id,
        turn_id=info.turn_id,
        kind=call.kind,
        name=call.name,
        arguments=call.arguments,
        digest=call.digest,
        reason=call.reason,
        prompt=None if question is None else question.prompt,
        options=None if question is None else question.options,
        multi=question is not None and question.multi,
        since=info.asked_at or info.started_at or instant(0),
    )
