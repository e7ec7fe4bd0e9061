"""The tables that every get and list is answered from, and the statements that read and write them.

The key of a row is the log position of the event that created it, so that keys grow with the log, lists page by key,
and each row can be traced to its event. A branch has its own copies of the rows that were open where it begins, under
the same keys as in the session that it branches off from; rows completed by then are looked up along its lineage. Times
are microseconds since 1970-01-01 UTC; nested values are MessagePack.

The columns of a table are the fields of its row in `rows`. `compiled` has all this as SQL text, which is what is
executed: `python -m tests.projections.compiled` generates it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from msgspec import inspect
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    Connection,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    Table,
    Text,
    bindparam,
    delete,
    event,
    func,
    literal,
    literal_column,
    select,
    text,
    tuple_,
    union,
    update,
)
from sqlalchemy.dialects.sqlite import Insert, insert
from sqlalchemy.sql.elements import ColumnElement

from reenact.projections.read_model.rows import (
    ActivityRow,
    AgentRow,
    AnswerRow,
    CallEndRow,
    CallRow,
    ContainerRow,
    DecisionRow,
    ImageRow,
    MessageRow,
    ProgressRow,
    RevisionRow,
    ScheduleRow,
    SessionRow,
    TurnEndRow,
    TurnRow,
    UsageRow,
)

VERSION = 12
"""Increase it with every change to a table or to the output of a projector: files of another version are rebuilt."""

METADATA = MetaData()
"""The tables of rows."""

OWN = MetaData()
"""The progress table of SQLite files; a PostgreSQL schema has the one that users' projections have, too."""

# PostgreSQL compares texts byte by byte, as SQLite does, whatever the database's locale.
_INTEGER = Integer().with_variant(BigInteger(), "postgresql")
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
_STORED: Final[dict[type[inspect.Type], Integer | LargeBinary | Float[float] | Text]] = {
    inspect.BoolType: _INTEGER,
    inspect.BytesType: LargeBinary(),
    inspect.FloatType: Float(),
    inspect.IntType: _INTEGER,
    inspect.LiteralType: _TEXT,
    inspect.StrType: _TEXT,
}


def _table(
    name: str,
    row: type[msgspec.Struct],
    *keys: str,
    without: str = "",
    unique: Collection[str] = (),
    index: Collection[str] = (),
    metadata: MetaData = METADATA,
) -> Table:
    """Return the table with the row's fields as columns, except the one that exists only in memory."""
    columns: list[Column[object]] = []
    for field in msgspec.structs.fields(row):
        if field.name == without:
            continue
        kind = inspect.type_info(field.type)
        kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
        columns.append(
            Column(
                field.name,
                _STORED[type(kinds[0])],
                primary_key=field.name in keys,
                autoincrement=False,
                nullable=len(kinds) > 1,
                unique=field.name in unique or None,
                index=field.name in index or None,
            )
        )
    return Table(name, metadata, *columns, sqlite_with_rowid=len(keys) == 1)


def _partial(name: str, *columns: Column[object], where: ColumnElement[bool], using: str = "btree") -> None:
    Index(name, *columns, sqlite_where=where, postgresql_where=where, postgresql_using=using)


PROGRESS = _table("progress", ProgressRow, "name", metadata=OWN)
CONTAINERS = _table("containers", ContainerRow, "position", unique=["id"])
IMAGES = _table("images", ImageRow, "position", unique=["id"])
REVISIONS = _table("revisions", RevisionRow, "position")
SESSIONS = _table("sessions", SessionRow, "position", unique=["stream", "id"])
ACTIVITY = _table("activity", ActivityRow, "session")
SCHEDULES = _table("schedules", ScheduleRow, "position")
AGENTS = _table("agents", AgentRow, "position", index=["id"])
MESSAGES = _table("messages", MessageRow, "position")
ANSWERS = _table("answers", AnswerRow, "position")
TURN_ENDS = _table("turn_ends", TurnEndRow, "position")
CALL_ENDS = _table("call_ends", CallEndRow, "position")
DECISIONS = _table("decisions", DecisionRow, "position")
TURNS = _table("turns", TurnRow, "position", "session", without="counted", index=["id"])
CALLS = _table("calls", CallRow, "position", "number", "session", without="asked")
USAGE = _table("usage", UsageRow, "session", "kind", "name")


def _is_not_postgresql(*_: object, dialect: Dialect, **__: object) -> bool:
    return dialect.name != "postgresql"


# The names of models and tools may have any length: PostgreSQL indexes their digest, since its B-trees take at most
# about 2,700 bytes.
USAGE.primary_key.ddl_if(callable_=_is_not_postgresql)
DIGEST_OF_NAME = r"sha256(decode(replace(name, '\', '\\'), 'escape'))"


@event.listens_for(USAGE, "after_create")
def _index_digests(_usage: Table, connection: Connection, **_options: object) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"CREATE UNIQUE INDEX usage_of_name ON usage (session, kind, {DIGEST_OF_NAME})"))


_id: Final[BindParameter[str]] = bindparam("id")
_limit: Final[ColumnElement[int]] = func.coalesce(func.max(bindparam("limit", type_=Integer), 0), -1)
_listed = SESSIONS.c.deleted_at.is_(None)
_live = AGENTS.c.stopped_at.is_(None)
_in_order = MESSAGES.c.asked, MESSAGES.c.position
_turns_in_order = TURNS.c.asked, TURNS.c.position
_calls_in_order = CALLS.c.position, CALLS.c.number
_waiting = CALLS.c.stage == literal_column("'waiting'")

Index("revisions_of_image", REVISIONS.c.image_id, REVISIONS.c.revision, unique=True)
_partial("sessions_listed", SESSIONS.c.position, where=_listed)
_partial("sessions_of_container", SESSIONS.c.container_id, SESSIONS.c.position, where=_listed)
_partial("sessions_branched", SESSIONS.c.origin, SESSIONS.c.position, where=SESSIONS.c.origin.is_not(None))
_partial("sessions_called", SESSIONS.c.parent, SESSIONS.c.position, where=SESSIONS.c.parent.is_not(None))
_partial("schedules_due", SCHEDULES.c.due, SCHEDULES.c.position, where=SCHEDULES.c.due.is_not(None))
_partial("schedules_of_session", SCHEDULES.c.session, SCHEDULES.c.id, where=SCHEDULES.c.due.is_not(None))
_partial("agents_live", AGENTS.c.session, AGENTS.c.position, where=_live)
_partial("agents_started", AGENTS.c.position, where=_live)
Index("messages_in_order", MESSAGES.c.session, *_in_order)
# For the sums of costs by day and model; PostgreSQL computes them without it, and its B-trees take no long names.
OF_SQLITE = Index(
    "answers_of_day",
    *ANSWERS.c["day", "model", "session", "at", "tokens_in", "tokens_out", "tokens_cached", "cost"],
).ddl_if(callable_=_is_not_postgresql)
Index("turns_of_session", TURNS.c.session, *_turns_in_order)
_partial("turns_open", TURNS.c.session, TURNS.c.position, where=TURNS.c.ended_at.is_(None))
Index("calls_of_session", CALLS.c.session, *_calls_in_order)
_partial("calls_open", CALLS.c.session, *_calls_in_order, where=CALLS.c.results.is_(None))
_partial("calls_waiting", *_calls_in_order, where=_waiting)
# Ids of calls come from models and may have any length, like the names above.
_partial("calls_waiting_by_id", CALLS.c.id, where=_waiting, using="hash")

# The queries of the read model: each finds its rows by key, in the order of an index.

BEFORE_ALL = 0
BEHIND_ALL = (1 << 63) - 1


def _place_after(column: Column[int], default: int) -> ColumnElement[int]:
    """Return the column's value in the row with the id `after`, or the default if there is none."""
    found = select(column).where(column.table.c.id == bindparam("after")).limit(1).scalar_subquery()
    return func.coalesce(found, literal(default))


def _but(table: Table, *names: str) -> list[Column[object]]:
    return [column for column in table.c if column.name not in names]


def _page(query: Select[*tuple[object, ...]], table: Table) -> Select[*tuple[object, ...]]:
    after = table.c.position > _place_after(table.c.position, BEFORE_ALL)
    return query.where(after).order_by(table.c.position).limit(_limit)


_containers = select(*CONTAINERS.c["id", "name", "created_at"])
CONTAINER = _containers.where(CONTAINERS.c.id == _id)
ALL_CONTAINERS = _page(_containers, CONTAINERS)

_newest = (REVISIONS.c.image_id == IMAGES.c.id) & (REVISIONS.c.revision == IMAGES.c.revision)
_images = select(IMAGES.c.id.label("image_id"), *IMAGES.c["revision", "created_at"], REVISIONS.c.definition).join_from(
    IMAGES, REVISIONS, _newest
)
IMAGE = _images.where(IMAGES.c.id == _id)
ALL_IMAGES = _page(_images, IMAGES)
IMAGE_REVISION = select(REVISIONS.c.definition).where(
    REVISIONS.c.image_id == _id, REVISIONS.c.revision == bindparam("which")
)

_KNOWN = ("container_id", "image_id", "image_revision", "created_at", "deleted_at", "forgotten_at")
_origin = SESSIONS.alias("origin")
_sessions = (
    select(
        *_but(SESSIONS, "position", "stream", "deleted_at", "origin", "shared_asked"),
        _origin.c.id.label("origin"),
    )
    .select_from(SESSIONS.outerjoin(_origin, _origin.c.position == SESSIONS.c.origin))
    .where(_listed)
)
SESSION = _sessions.where(SESSIONS.c.id == _id)
SESSIONS_OF_CONTAINER = _page(_sessions.where(SESSIONS.c.container_id == _id), SESSIONS)
SCHEDULES_DUE = (
    select(*_but(SCHEDULES, "position", "session"), SESSIONS.c.id.label("session_id"))
    .join_from(SCHEDULES, SESSIONS, SESSIONS.c.position == SCHEDULES.c.session)
    .where(_listed, SCHEDULES.c.due.is_not(None))
    .order_by(SCHEDULES.c.due, SCHEDULES.c.position)
)
SCHEDULES_OF_SESSION = SCHEDULES_DUE.where(SESSIONS.c.id == _id)
KNOWN_SESSION = select(*SESSIONS.c[_KNOWN]).where(SESSIONS.c.id == _id)
_kin = SESSIONS.alias("kin")
KIN = (
    select(_kin.c.id)
    .join_from(
        SESSIONS,
        _kin,
        (_kin.c.origin == SESSIONS.c.position) | (_kin.c.parent == SESSIONS.c.id) | (_kin.c.id == SESSIONS.c.parent),
    )
    .where(SESSIONS.c.id == _id, _kin.c.forgotten_at.is_(None))
)
"""The sessions that depend on one: its branches, its children, and the session that called it."""
_waits = SESSIONS.c.position.in_(select(CALLS.c.session).where(_waiting))
_of: Final[dict[str, list[ColumnElement[bool]]]] = {
    "all": [],
    "container": [SESSIONS.c.container_id == _id],
    "parent": [SESSIONS.c.parent == _id],
}
NEWEST_SESSIONS = {
    (of, waiting): (
        _sessions.where(
            SESSIONS.c.position < _place_after(SESSIONS.c.position, BEHIND_ALL),
            *conditions,
            *([] if waiting is None else [_waits if waiting else ~_waits]),
        )
        .order_by(SESSIONS.c.position.desc())
        .limit(_limit)
    )
    for of, conditions in _of.items()
    for waiting in (None, False, True)
}
"""Newest first: all sessions, those of a container, or the children of a session; with or without waiting calls."""
SESSION_EVER = select(SESSIONS.c.id).where(SESSIONS.c.id == _id)

_agents = select(*_but(AGENTS, "position", "session", "stopped_at")).where(_live)
AGENT = _agents.where(AGENTS.c.id == _id)
LIVE_AGENTS = _page(_agents, AGENTS)

_of_session = (SESSIONS.c.id == _id) & _listed
ORIGIN_OF_SESSION = select(SESSIONS.c.origin).where(_of_session)
"""Whether the session is a branch: queries on its history have one form for branches, and one for other sessions."""

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
"""The session and those it inherits from, each with the last question and position that belong to its history."""
_is_own = _lineage.c.until == BEHIND_ALL

_messages = select(*_but(MESSAGES, "position", "session", "asked"))
_behind = tuple_(*_in_order) > tuple_(bindparam("asked"), bindparam("position"))
MESSAGES_OF_SESSION = (
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
MESSAGES_OF_BRANCH = (
    _messages.select_from(_lineage.join(MESSAGES, _messages_counting)).where(_behind).order_by(*_in_order).limit(_limit)
)
_created = MESSAGES.c.created_at == bindparam("at")
PLACE_OF_MESSAGE = (
    select(*_in_order)
    .join_from(TURNS, MESSAGES, (MESSAGES.c.session == TURNS.c.session) & (MESSAGES.c.asked == TURNS.c.asked))
    .where(TURNS.c.id == bindparam("turn"), MESSAGES.c.id == _id, MESSAGES.c.turn_id == TURNS.c.id, _created)
    .order_by(*_in_order)
    .limit(1)
)
PLACE_OF_MESSAGE_OF_NO_TURN = (
    select(*_in_order)
    .select_from(_lineage.join(MESSAGES, _messages_counting))
    .where(MESSAGES.c.id == bindparam("message"), MESSAGES.c.turn_id.is_(None), _created)
    .order_by(*_in_order)
    .limit(1)
)

_place_of_turn = [_place_after(column, BEFORE_ALL) for column in _turns_in_order]
_question = MESSAGES.alias("question")
_turns = (
    select(
        *_but(TURNS, "position", "session", "asked", "ended", "answer"),
        _question.c.id.label("message_id"),
    )
    .where(tuple_(*_turns_in_order) > tuple_(*_place_of_turn))
    .order_by(*_turns_in_order)
    .limit(_limit)
)
_its_question = _question.c.position == TURNS.c.asked
TURNS_OF_SESSION = _turns.select_from(
    SESSIONS.join(TURNS, TURNS.c.session == SESSIONS.c.position).join(_question, _its_question)
).where(_of_session)
TURN_BEGAN = (
    select(SESSIONS.c.id, (TURNS.c.position == TURNS.c.asked).label("with_message"))
    .join_from(TURNS, SESSIONS, SESSIONS.c.position == TURNS.c.session)
    .where(TURNS.c.id == _id)
    .order_by(TURNS.c.position, TURNS.c.session)  # branches that inherited the turn came later
    .limit(1)
)
_turns_counting = (
    (TURNS.c.session == _lineage.c.session)
    & (TURNS.c.asked <= _lineage.c.asked)
    & (_is_own | (TURNS.c.ended <= _lineage.c.until))
)
TURNS_OF_BRANCH = _turns.select_from(_lineage.join(TURNS, _turns_counting).join(_question, _its_question))
USAGE_OF_SESSION = (
    select(*_but(USAGE, "session"))
    .select_from(SESSIONS.join(USAGE, USAGE.c.session == SESSIONS.c.position))
    .where(_of_session)
    .order_by(USAGE.c.kind, USAGE.c.name)
)

_answer = MESSAGES.alias("answer")
_its_answer = _answer.c.position == CALLS.c.position
_of_calls = SESSIONS.join(CALLS, CALLS.c.session == SESSIONS.c.position).join(_answer, _its_answer)
_calls = select(
    *_but(CALLS, "position", "number", "session", "kind", "digest", "question", "results", "started", "decided"),
    _answer.c.turn_id,
    _answer.c.id.label("message_id"),
).order_by(*_calls_in_order)
CALLS_OF_SESSION = _calls.select_from(_of_calls).where(_of_session)
_calls_counting = (CALLS.c.session == _lineage.c.session) & (_is_own | (CALLS.c.results <= _lineage.c.until))
CALLS_OF_BRANCH = _calls.select_from(_lineage.join(CALLS, _calls_counting).join(_answer, _its_answer))
PENDING = (
    select(
        *CALLS.c["id", "kind", "name", "arguments", "digest", "reason", "question"],
        CALLS.c.asked_at.label("since"),
        SESSIONS.c.id.label("session_id"),
        AGENTS.c.id.label("agent_id"),
        _answer.c.turn_id,
    )
    .select_from(_of_calls.outerjoin(AGENTS, (AGENTS.c.session == CALLS.c.session) & _live))
    .where(_waiting, CALLS.c.kind != literal_column("'child'"), _listed)
    .order_by(*_calls_in_order)
)
_own_id = select(SESSIONS.c.id).where(SESSIONS.c.id == _id).cte("below", recursive=True)
_child = SESSIONS.alias("child")
_below = _own_id.union_all(select(_child.c.id).join(_own_id, _child.c.parent == _own_id.c.id))
PENDING_OF_SESSION = PENDING.where(SESSIONS.c.id.in_(select(_below.c.id)), CALLS.c.results.is_(None))
PENDING_OF_ID = PENDING.where(CALLS.c.id == _id)
_caller = SESSIONS.alias("caller")
CALLER = (
    select(SESSIONS.c.parent, _caller.c.image_id, SESSIONS.c.parent_call)
    .join_from(SESSIONS, _caller, _caller.c.id == SESSIONS.c.parent, isouter=True)
    .where(SESSIONS.c.id == _id, SESSIONS.c.parent.is_not(None))
)
"""The session that called this one, its image, and the call."""

_running = TURNS.c.started_at.is_not(None) & TURNS.c.ended_at.is_(None)
_child_begins = (
    CALLS.c.results.is_(None)
    & (CALLS.c.stage == literal_column("'running'"))
    & (CALLS.c.kind == literal_column("'child'"))
)
_at_work = union(
    select(AGENTS.c.session).where(_live),
    select(TURNS.c.session).where(_running),
    select(CALLS.c.session).where(_child_begins),
).subquery("at_work")
UNFINISHED = (
    select(SESSIONS.c.id).where(SESSIONS.c.position.in_(select(_at_work.c.session))).order_by(SESSIONS.c.position)
)


# The statements that move the tables: their values are positional.

_of_name = PROGRESS.c.name == bindparam("of_name", unique=True)
PROGRESS_OF = select(PROGRESS.c.position).where(_of_name)
ADD_PROGRESS = insert(PROGRESS)
RECORD_CLOSED = update(PROGRESS).where(_of_name).values(closed=bindparam("new_closed"))
MOVE = (
    update(PROGRESS)
    .where(_of_name, PROGRESS.c.position == bindparam("from_position"))
    .values(position=bindparam("new_position"), mark=bindparam("new_mark"), closed=literal_column("0"))
)

ADD_CONTAINERS = insert(CONTAINERS)
ADD_REVISIONS = insert(REVISIONS)
ADD_SESSIONS = insert(SESSIONS)
ADD_SCHEDULES = insert(SCHEDULES)
ADD_MESSAGES = insert(MESSAGES)
ADD_ANSWERS = insert(ANSWERS)
ADD_TURN_ENDS = insert(TURN_ENDS)
ADD_CALL_ENDS = insert(CALL_ENDS)
ADD_DECISIONS = insert(DECISIONS)
_change_session = update(SESSIONS).where(SESSIONS.c.position == bindparam("at_position"))
DELETE_SESSIONS = _change_session.values(deleted_at=bindparam("new_deleted_at"))
_OF_SESSIONS = (ACTIVITY, SCHEDULES, AGENTS, MESSAGES, ANSWERS, TURN_ENDS, CALL_ENDS, DECISIONS, TURNS, CALLS, USAGE)
FORGET = (
    *(
        delete(table).where(
            table.c.session == select(SESSIONS.c.position).where(SESSIONS.c.id == bindparam("of_id")).scalar_subquery()
        )
        for table in _OF_SESSIONS
    ),
    delete(SESSIONS).where(SESSIONS.c.id == bindparam("of_id")),
)
"""Delete all rows of a session by its id; the session's own row, by which the others are found, comes last."""
RESCHEDULE = (
    update(SCHEDULES)
    .where(SCHEDULES.c.session == bindparam("of_session"), SCHEDULES.c.id == bindparam("of_id"))
    .where(SCHEDULES.c.due.is_not(None))  # the condition of the index
    .values(due=bindparam("new_due"))
)
SWITCH_SESSIONS = _change_session.values(
    image_id=bindparam("new_image_id"), image_revision=bindparam("new_image_revision")
)


def _put(table: Table, keys: Sequence[str], moving: Sequence[str]) -> Insert:
    """Return the statement that adds a row, or updates the `moving` columns of the existing one."""
    new = insert(table)
    return new.on_conflict_do_update(index_elements=keys, set_={name: new.excluded[name] for name in moving})


PUT_IMAGES = _put(IMAGES, ["id"], ["revision"])
PUT_ACTIVITY = _put(ACTIVITY, ["session"], ACTIVITY.c.keys()[1:])
PUT_USAGE = _put(USAGE, ["session", "kind", "name"], ["calls", "usage", "cost", "unpriced"])
PUT_AGENTS = _put(AGENTS, ["position"], ["image_id", *AGENTS.c.keys()[7:]])
PUT_TURNS = _put(TURNS, ["position", "session"], TURNS.c.keys()[5:])
PUT_CALLS = _put(CALLS, ["position", "number", "session"], CALLS.c.keys()[5:])

# All keys are one parameter: the statement does not depend on their number, and SQLite prepares it once.
_keys: Final[Select[tuple[object]]] = select(
    func.json_each(bindparam("keys", unique=True)).table_valued("value").c.value
)
_taken_up = (
    select(func.max(TURNS.c.asked))
    .where(TURNS.c.session == SESSIONS.c.position, TURNS.c.started_at.is_not(None))
    .scalar_subquery()
)
SESSIONS_OF_STREAMS = select(
    *SESSIONS.c["stream", "position", "id", "container_id", "image_id"],
    func.coalesce(_taken_up, SESSIONS.c.shared_asked, literal_column("0")),
    ACTIVITY,
).where(ACTIVITY.c.session == SESSIONS.c.position, SESSIONS.c.stream.in_(_keys))
LIVE_AGENTS_OF = select(AGENTS).where(_live, AGENTS.c.session.in_(_keys))
OPEN_TURNS_OF = (
    select(TURNS, MESSAGES.c.content)
    .join_from(TURNS, MESSAGES, MESSAGES.c.position == TURNS.c.answer, isouter=True)
    .where(TURNS.c.ended_at.is_(None), TURNS.c.session.in_(_keys))
    .order_by(TURNS.c.session, TURNS.c.position)
)
OPEN_CALLS_OF = (
    select(CALLS, MESSAGES.c.asked)
    .join_from(CALLS, MESSAGES, MESSAGES.c.position == CALLS.c.position)
    .where(CALLS.c.results.is_(None), CALLS.c.session.in_(_keys))
    .order_by(CALLS.c.session, *_calls_in_order)
)
USAGE_OF = select(USAGE).where(USAGE.c.session.in_(_keys))
