"""The statements that move the tables on: what reads the open ends of conversations, and what writes a batch.

`compiled` has their text, which is what is executed.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BindParameter, Select, bindparam, func, insert, literal_column, select, update
from sqlalchemy.dialects import sqlite

from reenact.projections.state import FIXED_OF_CALL
from reenact.projections.tables import (
    AGENTS,
    CALLS,
    CONTAINERS,
    IMAGES,
    MESSAGES,
    PROGRESS,
    REVISIONS,
    SESSIONS,
    TURNS,
    USAGE,
)

_of_name = PROGRESS.c.name == bindparam("of_name")
PROGRESS_OF: Final = select(PROGRESS.c.position, PROGRESS.c.mark, PROGRESS.c.version, PROGRESS.c.closed).where(_of_name)
ADD_PROGRESS: Final = insert(PROGRESS)
SAY_CLOSED: Final = update(PROGRESS).where(_of_name).values(closed=bindparam("new_closed"))
MOVE: Final = (
    update(PROGRESS)
    .where(_of_name, PROGRESS.c.position == bindparam("from_position"))
    .values(position=bindparam("new_position"), mark=bindparam("new_mark"), closed=literal_column("0"))
)

_at: Final[BindParameter[int]] = bindparam("at_position")
_of: Final[BindParameter[int]] = bindparam("of_session")

ADD_CONTAINERS: Final = insert(CONTAINERS)
ADD_REVISIONS: Final = insert(REVISIONS)
ADD_SESSIONS: Final = insert(SESSIONS)
ADD_MESSAGES: Final = insert(MESSAGES)
ADD_TURNS: Final = insert(TURNS)
ADD_AGENTS: Final = insert(AGENTS)
ADD_CALLS: Final = insert(CALLS)

_new_image = sqlite.insert(IMAGES)
PUT_IMAGES: Final = _new_image.on_conflict_do_update(
    index_elements=["id"], set_={"revision": _new_image.excluded.revision}
)
_new_usage = sqlite.insert(USAGE)
PUT_USAGE: Final = _new_usage.on_conflict_do_update(
    index_elements=["session", "kind", "name"],
    set_={name: _new_usage.excluded[name] for name in ("calls", "usage", "cost", "unpriced")},
)
DELETE_SESSIONS: Final = (
    update(SESSIONS).where(SESSIONS.c.position == _at).values(deleted_at=bindparam("new_deleted_at"))
)
_turn_columns: Final = (
    "started_at",
    "ended_at",
    "ended",
    "outcome",
    "stop_reason",
    "duration",
    "steps",
    "answer",
    "model",
    "usage",
    "cost",
    "failure",
    "stop_sequence",
    "stop_details",
)
MOVE_TURNS: Final = (
    update(TURNS)
    .where(TURNS.c.position == _at, TURNS.c.session == _of)
    .values({name: bindparam(f"new_{name}") for name in _turn_columns})
)
_agent_columns: Final = ("stopped_at", "turn_id", "activity", "failed", "waits", "queued")
MOVE_AGENTS: Final = (
    update(AGENTS).where(AGENTS.c.position == _at).values({name: bindparam(f"new_{name}") for name in _agent_columns})
)
_call_columns: Final = CALLS.c.keys()[FIXED_OF_CALL:]
MOVE_CALLS: Final = (
    update(CALLS)
    .where(CALLS.c.position == _at, CALLS.c.number == bindparam("at_number"), CALLS.c.session == _of)
    .values({name: bindparam(f"new_{name}") for name in _call_columns})
)

# All keys in one parameter: the text stays the same however many there are, and SQLite prepares it once.
_keys: Final[Select[tuple[Any]]] = select(func.json_each(bindparam("keys")).table_valued("value").c.value)
_taken_up = (
    select(func.max(TURNS.c.asked))
    .where(TURNS.c.session == SESSIONS.c.position, TURNS.c.started_at.is_not(None))
    .scalar_subquery()
)
SESSIONS_OF_STREAMS: Final = select(
    SESSIONS.c.stream,
    SESSIONS.c.position,
    SESSIONS.c.id,
    SESSIONS.c.container_id,
    SESSIONS.c.image_id,
    func.coalesce(_taken_up, SESSIONS.c.shared_asked, literal_column("0")),
).where(SESSIONS.c.stream.in_(_keys))
LIVE_AGENTS_OF: Final = select(
    AGENTS.c.session,
    AGENTS.c.position,
    AGENTS.c.id,
    AGENTS.c.started_at,
    AGENTS.c.turn_id,
    AGENTS.c.activity,
    AGENTS.c.failed,
).where(AGENTS.c.stopped_at.is_(None), AGENTS.c.session.in_(_keys))
OPEN_TURNS_OF: Final = (
    select(
        TURNS.c.position,
        TURNS.c.id,
        TURNS.c.session,
        TURNS.c.asked,
        TURNS.c.accepted_at,
        TURNS.c.started_at,
        TURNS.c.steps,
        TURNS.c.answer,
        TURNS.c.model,
        TURNS.c.usage,
        TURNS.c.cost,
        MESSAGES.c.content,
    )
    .join_from(TURNS, MESSAGES, MESSAGES.c.position == TURNS.c.answer, isouter=True)
    .where(TURNS.c.ended_at.is_(None), TURNS.c.session.in_(_keys))
    .order_by(TURNS.c.session, TURNS.c.position)
)
OPEN_CALLS_OF: Final = (
    select(CALLS, MESSAGES.c.asked)
    .join_from(CALLS, MESSAGES, MESSAGES.c.position == CALLS.c.position)
    .where(CALLS.c.results.is_(None), CALLS.c.session.in_(_keys))
    .order_by(CALLS.c.session, CALLS.c.position, CALLS.c.number)
)
USAGE_OF: Final = select(USAGE).where(USAGE.c.session.in_(_keys))
