"""The statements that move the tables on: what reads the open ends of conversations, and what writes a batch.

`compiled` has their text, which is what is executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Select, Table, bindparam, func, literal_column, select, update
from sqlalchemy.dialects.sqlite import Insert, insert

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
PROGRESS_OF: Final = select(PROGRESS.c.position).where(_of_name)
ADD_PROGRESS: Final = insert(PROGRESS)
SAY_CLOSED: Final = update(PROGRESS).where(_of_name).values(closed=bindparam("new_closed"))
MOVE: Final = (
    update(PROGRESS)
    .where(_of_name, PROGRESS.c.position == bindparam("from_position"))
    .values(position=bindparam("new_position"), mark=bindparam("new_mark"), closed=literal_column("0"))
)

ADD_CONTAINERS: Final = insert(CONTAINERS)
ADD_REVISIONS: Final = insert(REVISIONS)
ADD_SESSIONS: Final = insert(SESSIONS)
ADD_MESSAGES: Final = insert(MESSAGES)
DELETE_SESSIONS: Final = (
    update(SESSIONS)
    .where(SESSIONS.c.position == bindparam("at_position"))
    .values(deleted_at=bindparam("new_deleted_at"))
)


def _put(table: Table, keys: Sequence[str], moving: Sequence[str]) -> Insert:
    """Return what adds a row, or changes those columns that move in the one that is there."""
    new = insert(table)
    return new.on_conflict_do_update(index_elements=keys, set_={name: new.excluded[name] for name in moving})


PUT_IMAGES: Final = _put(IMAGES, ["id"], ["revision"])
PUT_USAGE: Final = _put(USAGE, ["session", "kind", "name"], ["calls", "usage", "cost", "unpriced"])
PUT_AGENTS: Final = _put(AGENTS, ["position"], AGENTS.c.keys()[7:])
PUT_TURNS: Final = _put(TURNS, ["position", "session"], TURNS.c.keys()[5:])
PUT_CALLS: Final = _put(CALLS, ["position", "number", "session"], CALLS.c.keys()[5:])

# All keys in one parameter: the text stays the same however many there are, and SQLite prepares it once.
_keys: Final[Select[tuple[Any]]] = select(func.json_each(bindparam("keys")).table_valued("value").c.value)
_taken_up = (
    select(func.max(TURNS.c.asked))
    .where(TURNS.c.session == SESSIONS.c.position, TURNS.c.started_at.is_not(None))
    .scalar_subquery()
)
SESSIONS_OF_STREAMS: Final = select(
    *SESSIONS.c["stream", "position", "id", "container_id", "image_id"],
    func.coalesce(_taken_up, SESSIONS.c.shared_asked, literal_column("0")),
).where(SESSIONS.c.stream.in_(_keys))
LIVE_AGENTS_OF: Final = select(AGENTS).where(AGENTS.c.stopped_at.is_(None), AGENTS.c.session.in_(_keys))
OPEN_TURNS_OF: Final = (
    select(TURNS, MESSAGES.c.content)
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
