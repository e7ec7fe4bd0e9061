"""A naive reading of a history: every answer from all events, again each time, and no state between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

from reenact.domain.agent import (
    AgentInfo,
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    MessageAccepted,
    TurnCompleted,
    TurnStarted,
)
from reenact.domain.announce import answer, question
from reenact.domain.container import ContainerCreated, ContainerInfo
from reenact.domain.events import AgentState
from reenact.domain.image import ImageInfo, ImageRegistered
from reenact.domain.messages import Message, instant
from reenact.domain.session import SessionCreated, SessionDeleted, SessionInfo
from tests.projections.histories import Recorded

E = TypeVar("E")
Rows = Sequence[Recorded]


def of(rows: Rows, kind: type[E]) -> Iterator[tuple[Recorded, E]]:
    """Yield the events of the kind, each with its row."""
    for row in rows:
        if isinstance(row.event, kind):
            yield row, row.event


def containers(rows: Rows) -> list[ContainerInfo]:
    return [
        ContainerInfo(id=event.container_id, name=event.name, created_at=instant(row.recorded_at))
        for row, event in of(rows, ContainerCreated)
    ]


def images(rows: Rows) -> list[ImageInfo]:
    newest = {event.image_id: event for _, event in of(rows, ImageRegistered)}
    return [
        ImageInfo(
            id=event.image_id,
            name=newest[event.image_id].definition.name,
            model=newest[event.image_id].definition.model,
            system_prompt=newest[event.image_id].definition.system_prompt,
            max_tokens=newest[event.image_id].definition.max_tokens,
            revision=newest[event.image_id].revision,
            created_at=instant(row.recorded_at),
        )
        for row, event in of(rows, ImageRegistered)
        if event.revision == 1
    ]


def sessions(rows: Rows) -> list[SessionInfo]:
    deleted = {event.session_id for _, event in of(rows, SessionDeleted)}
    return [
        SessionInfo(
            id=event.session_id,
            container_id=event.container_id,
            image_id=event.image_id,
            image_revision=event.image_revision,
            created_at=instant(row.recorded_at),
        )
        for row, event in of(rows, SessionCreated)
        if event.session_id not in deleted
    ]


def agents(rows: Rows) -> list[AgentInfo]:
    stopped = {event.agent_id for _, event in of(rows, AgentStopped)}
    return [_agent(rows, row, event) for row, event in of(rows, AgentStarted) if event.agent_id not in stopped]


def _agent(rows: Rows, start: Recorded, event: AgentStarted) -> AgentInfo:
    session = next(created for row, created in of(rows, SessionCreated) if row.stream == start.stream)
    mine = [row for row in rows if row.stream == start.stream]
    since = [row for row in mine if row.position > start.position]
    over = {done.turn_id for _, done in of(mine, TurnCompleted)}
    begun = {started.turn_id for _, started in of(mine, TurnStarted)}
    under_way = [started.turn_id for _, started in of(since, TurnStarted) if started.turn_id not in over]
    outcomes = [done.outcome for _, done in of(since, TurnCompleted)]
    state: AgentState = "thinking" if under_way else "error" if outcomes[-1:] == ["failed"] else "idle"
    return AgentInfo(
        id=event.agent_id,
        session_id=session.session_id,
        container_id=session.container_id,
        image_id=session.image_id,
        state=state,
        turn_id=under_way[0] if under_way else None,
        queued=sum(accepted.turn_id not in begun | over for _, accepted in of(mine, MessageAccepted)),
        started_at=instant(start.recorded_at),
    )


def messages(rows: Rows, session_id: str) -> list[Message]:
    mine = _of_session(rows, session_id)
    return [
        message
        for _, asked in of(mine, MessageAccepted)
        for message in [
            question(asked),
            *(answer(said) for _, said in of(mine, AnswerRecorded) if said.turn_id == asked.turn_id),
        ]
    ]


def outcomes(rows: Rows, session_id: str) -> list[tuple[str, str | None, str | None]]:
    mine = _of_session(rows, session_id)
    ends = {done.turn_id: done for _, done in of(mine, TurnCompleted)}
    return [
        (asked.turn_id, ends[asked.turn_id].outcome, ends[asked.turn_id].stop_reason)
        if asked.turn_id in ends
        else (asked.turn_id, None, None)
        for _, asked in of(mine, MessageAccepted)
    ]


def usage(rows: Rows, session_id: str) -> dict[tuple[str | None, str], int]:
    mine = _of_session(rows, session_id)
    models = {said.turn_id: said.model for _, said in of(mine, AnswerRecorded)}
    totals: Counter[tuple[str | None, str]] = Counter()
    for _, done in of(mine, TurnCompleted):
        for kind in ("input_tokens", "output_tokens"):
            totals[models.get(done.turn_id), kind] += done.usage.get(kind, 0)
    return dict(+totals)


def unfinished(rows: Rows) -> list[str]:
    over = {done.turn_id for _, done in of(rows, TurnCompleted)}
    stopped = {event.agent_id for _, event in of(rows, AgentStopped)}
    at_work = {row.stream for row, started in of(rows, TurnStarted) if started.turn_id not in over}
    at_work |= {row.stream for row, event in of(rows, AgentStarted) if event.agent_id not in stopped}
    return [created.session_id for row, created in of(rows, SessionCreated) if row.stream in at_work]


def _of_session(rows: Rows, session_id: str) -> list[Recorded]:
    if session_id not in {session.id for session in sessions(rows)}:
        return []
    stream = next(row.stream for row, created in of(rows, SessionCreated) if created.session_id == session_id)
    return [row for row in rows if row.stream == stream]
