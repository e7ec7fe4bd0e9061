"""The statements behind the read model: each finds its rows by key, in the order of an index."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BindParameter, Select, Table, bindparam, func, literal, select, tuple_, union
from sqlalchemy.sql.elements import ColumnElement

from reenact.projections.statements import Statement
from reenact.projections.tables import AGENTS, CONTAINERS, IMAGES, MESSAGES, REVISIONS, SESSIONS, TURNS, USAGE

BEFORE_ALL: Final = 0
BEHIND_ALL: Final = (1 << 63) - 1

_id: Final[BindParameter[str]] = bindparam("id")
_limit: Final[BindParameter[int]] = bindparam("limit")


def _key_of(table: Table, default: int) -> ColumnElement[int]:
    """Return the key of the row with the id `after`, or the default if there is none."""
    found = select(table.c.position).where(table.c.id == bindparam("after")).limit(1).scalar_subquery()
    return func.coalesce(found, literal(default))


def _page(query: Select[*tuple[Any, ...]], table: Table) -> Select[*tuple[Any, ...]]:
    after = table.c.position > _key_of(table, BEFORE_ALL)
    return query.where(after).order_by(table.c.position).limit(_limit)


_containers = select(CONTAINERS.c.id, CONTAINERS.c.name, CONTAINERS.c.created_at)
CONTAINER: Final = Statement(_containers.where(CONTAINERS.c.id == _id))
ALL_CONTAINERS: Final = Statement(_page(_containers, CONTAINERS))

_newest = (REVISIONS.c.image_id == IMAGES.c.id) & (REVISIONS.c.revision == IMAGES.c.revision)
_images = select(
    IMAGES.c.id,
    REVISIONS.c.name,
    REVISIONS.c.model,
    REVISIONS.c.system_prompt,
    REVISIONS.c.max_tokens,
    IMAGES.c.revision,
    IMAGES.c.created_at,
).join_from(IMAGES, REVISIONS, _newest)
IMAGE: Final = Statement(_images.where(IMAGES.c.id == _id))
ALL_IMAGES: Final = Statement(_page(_images, IMAGES))
IMAGE_REVISION: Final = Statement(
    select(REVISIONS.c.name, REVISIONS.c.model, REVISIONS.c.system_prompt, REVISIONS.c.max_tokens).where(
        REVISIONS.c.image_id == _id, REVISIONS.c.revision == bindparam("which")
    )
)

_listed = SESSIONS.c.deleted_at.is_(None)
_sessions = select(
    SESSIONS.c.id, SESSIONS.c.container_id, SESSIONS.c.image_id, SESSIONS.c.image_revision, SESSIONS.c.created_at
).where(_listed)
SESSION: Final = Statement(_sessions.where(SESSIONS.c.id == _id))
SESSIONS_OF_CONTAINER: Final = Statement(_page(_sessions.where(SESSIONS.c.container_id == _id), SESSIONS))
NEWEST_SESSIONS: Final = Statement(
    _sessions.where(SESSIONS.c.position < _key_of(SESSIONS, BEHIND_ALL))
    .order_by(SESSIONS.c.position.desc())
    .limit(_limit)
)

_live = AGENTS.c.stopped_at.is_(None)
_agents = select(
    AGENTS.c.id,
    AGENTS.c.session_id,
    AGENTS.c.container_id,
    AGENTS.c.image_id,
    AGENTS.c.failed,
    AGENTS.c.turn_id,
    AGENTS.c.queued,
    AGENTS.c.started_at,
).where(_live)
AGENT: Final = Statement(_agents.where(AGENTS.c.id == _id))
LIVE_AGENTS: Final = Statement(_page(_agents, AGENTS))

_of_session = (SESSIONS.c.id == _id) & _listed
_messages = select(
    MESSAGES.c.id,
    MESSAGES.c.role,
    MESSAGES.c.content,
    MESSAGES.c.created_at,
    MESSAGES.c.turn_id,
    MESSAGES.c.stop_reason,
    MESSAGES.c.partial,
    MESSAGES.c.usage,
).select_from(SESSIONS.join(MESSAGES, MESSAGES.c.session == SESSIONS.c.position))
_in_order = MESSAGES.c.asked, MESSAGES.c.position
_behind = tuple_(*_in_order) > tuple_(bindparam("asked"), bindparam("position"))
MESSAGES_OF_SESSION: Final = Statement(_messages.where(_of_session, _behind).order_by(*_in_order).limit(_limit))
PLACE_OF_MESSAGE: Final = Statement(
    select(*_in_order)
    .join_from(TURNS, MESSAGES, (MESSAGES.c.session == TURNS.c.session) & (MESSAGES.c.asked == TURNS.c.position))
    .where(TURNS.c.id == bindparam("turn"), MESSAGES.c.id == _id)
    .order_by(*_in_order)
    .limit(1)
)
TURNS_OF_SESSION: Final = Statement(
    select(
        TURNS.c.id,
        TURNS.c.accepted_at,
        TURNS.c.started_at,
        TURNS.c.ended_at,
        TURNS.c.outcome,
        TURNS.c.stop_reason,
        TURNS.c.duration,
        TURNS.c.model,
        TURNS.c.usage,
        TURNS.c.failure,
    )
    .select_from(SESSIONS.join(TURNS, TURNS.c.session == SESSIONS.c.position))
    .where(_of_session, TURNS.c.position > _key_of(TURNS, BEFORE_ALL))
    .order_by(TURNS.c.position)
    .limit(_limit)
)
USAGE_OF_SESSION: Final = Statement(
    select(USAGE.c.model, USAGE.c.kind, USAGE.c.amount)
    .select_from(SESSIONS.join(USAGE, USAGE.c.session == SESSIONS.c.position))
    .where(_of_session)
    .order_by(USAGE.c.model, USAGE.c.kind)
)

_running = TURNS.c.started_at.is_not(None) & TURNS.c.ended_at.is_(None)
_at_work = union(select(AGENTS.c.session).where(_live), select(TURNS.c.session).where(_running)).subquery("at_work")
UNFINISHED: Final = Statement(
    select(SESSIONS.c.id).where(SESSIONS.c.position.in_(select(_at_work.c.session))).order_by(SESSIONS.c.position)
)
