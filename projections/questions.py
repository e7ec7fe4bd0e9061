"""The statements behind the read model: each finds its rows by key, in the order of an index.

`compiled` has their text, which is what is executed.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BindParameter, Integer, Select, Table, bindparam, func, literal, select, tuple_, union
from sqlalchemy.sql.elements import ColumnElement

from reenact.projections.tables import (
    AGENTS,
    CALLS,
    CONTAINERS,
    IMAGES,
    IS_WAITING,
    MESSAGES,
    REVISIONS,
    SESSIONS,
    TURNS,
    USAGE,
)

BEFORE_ALL: Final = 0
BEHIND_ALL: Final = (1 << 63) - 1

_id: Final[BindParameter[str]] = bindparam("id")
_limit: Final[ColumnElement[int]] = func.coalesce(func.max(bindparam("limit", type_=Integer), 0), -1)


def _key_of(table: Table, default: int) -> ColumnElement[int]:
    """Return the key of the row with the id `after`, or the default if there is none."""
    found = select(table.c.position).where(table.c.id == bindparam("after")).limit(1).scalar_subquery()
    return func.coalesce(found, literal(default))


def _page(query: Select[*tuple[Any, ...]], table: Table) -> Select[*tuple[Any, ...]]:
    after = table.c.position > _key_of(table, BEFORE_ALL)
    return query.where(after).order_by(table.c.position).limit(_limit)


_containers = select(*CONTAINERS.c["id", "name", "created_at"])
CONTAINER: Final = _containers.where(CONTAINERS.c.id == _id)
ALL_CONTAINERS: Final = _page(_containers, CONTAINERS)

_newest = (REVISIONS.c.image_id == IMAGES.c.id) & (REVISIONS.c.revision == IMAGES.c.revision)
_images = select(IMAGES.c.id.label("image_id"), *IMAGES.c["revision", "created_at"], REVISIONS.c.definition).join_from(
    IMAGES, REVISIONS, _newest
)
IMAGE: Final = _images.where(IMAGES.c.id == _id)
ALL_IMAGES: Final = _page(_images, IMAGES)
IMAGE_REVISION: Final = select(REVISIONS.c.definition).where(
    REVISIONS.c.image_id == _id, REVISIONS.c.revision == bindparam("which")
)

_listed = SESSIONS.c.deleted_at.is_(None)
_origin = SESSIONS.alias("origin")
_sessions = (
    select(
        *SESSIONS.c["id", "container_id", "image_id", "image_revision", "created_at", "shared_until", "shared_version"],
        _origin.c.id.label("origin"),
    )
    .select_from(SESSIONS.outerjoin(_origin, _origin.c.position == SESSIONS.c.origin))
    .where(_listed)
)
SESSION: Final = _sessions.where(SESSIONS.c.id == _id)
SESSIONS_OF_CONTAINER: Final = _page(_sessions.where(SESSIONS.c.container_id == _id), SESSIONS)
_waits = SESSIONS.c.position.in_(select(CALLS.c.session).where(IS_WAITING))
_in_container = SESSIONS.c.container_id == _id
NEWEST_SESSIONS: Final = {
    (in_container, waiting): (
        _sessions.where(
            SESSIONS.c.position < _key_of(SESSIONS, BEHIND_ALL),
            *([_in_container] if in_container else []),
            *([] if waiting is None else [_waits if waiting else ~_waits]),
        )
        .order_by(SESSIONS.c.position.desc())
        .limit(_limit)
    )
    for in_container in (False, True)
    for waiting in (None, False, True)
}
"""Newest first: by whether those of one container are asked for, and whether such as wait for a person, or do not."""
SESSION_EVER: Final = select(SESSIONS.c.id).where(SESSIONS.c.id == _id)

_live = AGENTS.c.stopped_at.is_(None)
_agents = select(
    *AGENTS.c[
        "id",
        "session_id",
        "container_id",
        "image_id",
        "activity",
        "waits",
        "failed",
        "turn_id",
        "queued",
        "started_at",
    ]
).where(_live)
AGENT: Final = _agents.where(AGENTS.c.id == _id)
LIVE_AGENTS: Final = _page(_agents, AGENTS)

_of_session = (SESSIONS.c.id == _id) & _listed
ORIGIN_OF_SESSION: Final = select(SESSIONS.c.origin).where(_of_session)
"""Whether the session is a branch: what is asked of its history has one form for those that are, and one for others."""

_own = select(
    SESSIONS.c.position.label("session"),
    literal(BEHIND_ALL).label("asked"),
    literal(BEHIND_ALL).label("until"),
).where(_of_session)
_branch = _own.cte("lineage", recursive=True)
_lineage = _branch.union_all(
    select(SESSIONS.c.origin, SESSIONS.c.shared_asked, SESSIONS.c.shared_until)
    .join(_branch, SESSIONS.c.position == _branch.c.session)
    .where(SESSIONS.c.origin.is_not(None))
)
"""The session and all that it goes on with: up to which question, and up to which position, each counts."""
_is_own = _lineage.c.until == BEHIND_ALL

_messages = select(
    *MESSAGES.c[
        "id",
        "role",
        "content",
        "created_at",
        "turn_id",
        "stop_reason",
        "partial",
        "usage",
        "stop_sequence",
        "stop_details",
    ]
)
_in_order = MESSAGES.c.asked, MESSAGES.c.position
_behind = tuple_(*_in_order) > tuple_(bindparam("asked"), bindparam("position"))
MESSAGES_OF_SESSION: Final = (
    _messages.select_from(SESSIONS.join(MESSAGES, MESSAGES.c.session == SESSIONS.c.position))
    .where(_of_session, _behind)
    .order_by(*_in_order)
    .limit(_limit)
)
_messages_counting = (
    (MESSAGES.c.session == _lineage.c.session)
    & (MESSAGES.c.asked <= _lineage.c.asked)
    & (MESSAGES.c.position <= _lineage.c.until)
)
MESSAGES_OF_BRANCH: Final = (
    _messages.select_from(_lineage.join(MESSAGES, _messages_counting)).where(_behind).order_by(*_in_order).limit(_limit)
)
_created = MESSAGES.c.created_at == bindparam("at")
PLACE_OF_MESSAGE: Final = (
    select(*_in_order)
    .join_from(TURNS, MESSAGES, (MESSAGES.c.session == TURNS.c.session) & (MESSAGES.c.asked == TURNS.c.asked))
    .where(TURNS.c.id == bindparam("turn"), MESSAGES.c.id == _id, MESSAGES.c.turn_id == TURNS.c.id, _created)
    .order_by(*_in_order)
    .limit(1)
)
PLACE_OF_MESSAGE_OF_NO_TURN: Final = (
    select(*_in_order)
    .select_from(_lineage.join(MESSAGES, _messages_counting))
    .where(MESSAGES.c.id == bindparam("message"), MESSAGES.c.turn_id.is_(None), _created)
    .order_by(*_in_order)
    .limit(1)
)

_turns_in_order = TURNS.c.asked, TURNS.c.position
_place_of_turn = [
    func.coalesce(
        select(column).where(TURNS.c.id == bindparam("after")).limit(1).scalar_subquery(), literal(BEFORE_ALL)
    )
    for column in _turns_in_order
]
_question = MESSAGES.alias("question")
_turns = (
    select(
        *TURNS.c[
            "id",
            "accepted_at",
            "started_at",
            "ended_at",
            "outcome",
            "stop_reason",
            "duration",
            "steps",
            "model",
            "usage",
            "cost",
            "failure",
            "stop_sequence",
            "stop_details",
        ],
        _question.c.id.label("message_id"),
    )
    .where(tuple_(*_turns_in_order) > tuple_(*_place_of_turn))
    .order_by(*_turns_in_order)
    .limit(_limit)
)
_its_question = _question.c.position == TURNS.c.asked
TURNS_OF_SESSION: Final = _turns.select_from(
    SESSIONS.join(TURNS, TURNS.c.session == SESSIONS.c.position).join(_question, _its_question)
).where(_of_session)
TURN_BEGAN: Final = (
    select(SESSIONS.c.id, (TURNS.c.position == TURNS.c.asked).label("with_message"))
    .join_from(TURNS, SESSIONS, SESSIONS.c.position == TURNS.c.session)
    .where(TURNS.c.id == _id)
    .order_by(TURNS.c.position, TURNS.c.session)  # branches that have inherited the turn came later
    .limit(1)
)
_turns_counting = (
    (TURNS.c.session == _lineage.c.session)
    & (TURNS.c.asked <= _lineage.c.asked)
    & (_is_own | (TURNS.c.ended <= _lineage.c.until))
)
TURNS_OF_BRANCH: Final = _turns.select_from(_lineage.join(TURNS, _turns_counting).join(_question, _its_question))
USAGE_OF_SESSION: Final = (
    select(*USAGE.c["kind", "name", "calls", "usage", "cost", "unpriced"])
    .select_from(SESSIONS.join(USAGE, USAGE.c.session == SESSIONS.c.position))
    .where(_of_session)
    .order_by(USAGE.c.kind, USAGE.c.name)
)

_answer = MESSAGES.alias("answer")
_calls_in_order = CALLS.c.position, CALLS.c.number
_its_answer = _answer.c.position == CALLS.c.position
_of_calls = SESSIONS.join(CALLS, CALLS.c.session == SESSIONS.c.position).join(_answer, _its_answer)
_calls = select(
    *CALLS.c[
        "id",
        "name",
        "arguments",
        "stage",
        "result",
        "is_error",
        "ran",
        "cost",
        "attempts",
        "asked_at",
        "reason",
        "decision",
        "decided_by",
        "decided_at",
        "original",
        "started_at",
        "ended_at",
    ],
    _answer.c.turn_id,
    _answer.c.id.label("message_id"),
).order_by(*_calls_in_order)
CALLS_OF_SESSION: Final = _calls.select_from(_of_calls).where(_of_session)
_calls_counting = (CALLS.c.session == _lineage.c.session) & (_is_own | (CALLS.c.results <= _lineage.c.until))
CALLS_OF_BRANCH: Final = _calls.select_from(_lineage.join(CALLS, _calls_counting).join(_answer, _its_answer))
_pending = (
    select(
        *CALLS.c["id", "kind", "name", "arguments", "digest", "reason", "question"],
        CALLS.c.asked_at.label("since"),
        SESSIONS.c.id.label("session_id"),
        AGENTS.c.id.label("agent_id"),
        _answer.c.turn_id,
    )
    .select_from(_of_calls.outerjoin(AGENTS, (AGENTS.c.session == CALLS.c.session) & _live))
    .where(IS_WAITING, _listed)
    .order_by(*_calls_in_order)
)
PENDING: Final = _pending
PENDING_OF_SESSION: Final = _pending.where(SESSIONS.c.id == _id, CALLS.c.results.is_(None))
PENDING_OF_ID: Final = _pending.where(CALLS.c.id == _id)

_running = TURNS.c.started_at.is_not(None) & TURNS.c.ended_at.is_(None)
_at_work = union(select(AGENTS.c.session).where(_live), select(TURNS.c.session).where(_running)).subquery("at_work")
UNFINISHED: Final = (
    select(SESSIONS.c.id).where(SESSIONS.c.position.in_(select(_at_work.c.session))).order_by(SESSIONS.c.position)
)
