"""The tables that every get and list is served from.

The key of a row is the log position of the event that made it, so that keys grow with the log, lists page by key, and
a row knows where it comes from. A branch has rows of its own for what was open where it begins, under the same keys as
the session that it branches off from; what was over by then is looked up along its lineage. Times are microseconds
since 1970-01-01 UTC; whatever is nested is MessagePack.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text, literal_column
from sqlalchemy.types import TypeEngine

VERSION: Final = 4
"""Raised with every change to a table or to what a projector writes: files of another version are made again."""

METADATA: Final = MetaData()


def _key(name: str, kind: type[TypeEngine[Any]] = Integer) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _integer(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def _text(name: str, *, index: bool | None = None, unique: bool | None = None) -> Column[str]:
    return Column(name, Text, nullable=False, index=index, unique=unique)


def _binary(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


PROGRESS: Final = Table(
    "progress",
    METADATA,
    _key("name", Text),
    _integer("position"),
    _text("mark"),  # which event stands at that position: tells one log from another
    _integer("version"),
    _integer("closed"),  # whether the last writer took its leave
)

CONTAINERS: Final = Table(
    "containers",
    METADATA,
    _key("position"),
    _text("id", unique=True),
    Column("name", Text),
    _integer("created_at"),
)

IMAGES: Final = Table(
    "images",
    METADATA,
    _key("position"),
    _text("id", unique=True),
    _integer("revision"),  # the newest
    _integer("created_at"),
)

REVISIONS: Final = Table(
    "revisions",
    METADATA,
    _key("position"),
    _text("image_id"),
    _integer("revision"),
    _binary("definition"),
    Index("revisions_of_image", "image_id", "revision", unique=True),
)

SESSIONS: Final = Table(
    "sessions",
    METADATA,
    _key("position"),
    _text("stream", unique=True),
    _text("id", unique=True),
    _text("container_id"),
    _text("image_id"),
    _integer("image_revision"),
    _integer("created_at"),
    Column("deleted_at", Integer),
    Column("origin", Integer),  # the key of the session that it branches off from
    Column("shared_until", Integer),  # the position of the last event that both share
    Column("shared_version", Integer),  # its version
    Column("shared_asked", Integer),  # the key of the last question that was taken up by then; 0 if there is none
)
Index("sessions_listed", SESSIONS.c.position, sqlite_where=SESSIONS.c.deleted_at.is_(None))
Index(
    "sessions_of_container",
    SESSIONS.c.container_id,
    SESSIONS.c.position,
    sqlite_where=SESSIONS.c.deleted_at.is_(None),
)

AGENTS: Final = Table(
    "agents",
    METADATA,
    _key("position"),
    _text("id", index=True),
    _integer("session"),  # the key of its session
    _text("session_id"),
    _text("container_id"),
    _text("image_id"),
    _integer("started_at"),
    Column("stopped_at", Integer),
    Column("turn_id", Text),
    Column("activity", Text),  # what it is at in its turn
    _integer("failed"),
    _integer("waits"),  # whether a call waits for a person
    _integer("queued"),
)
Index("agents_live", AGENTS.c.session, AGENTS.c.position, sqlite_where=AGENTS.c.stopped_at.is_(None))
Index("agents_started", AGENTS.c.position, sqlite_where=AGENTS.c.stopped_at.is_(None))

MESSAGES: Final = Table(
    "messages",
    METADATA,
    _key("position"),
    _integer("session"),
    _integer("asked"),  # the key of the question, its own too: (asked, position) orders by turn
    _text("id"),
    _text("role"),
    _binary("content"),
    _integer("created_at"),
    Column("turn_id", Text),  # none, if the results of calls were given up while no turn was under way
    Column("stop_reason", Text),
    _integer("partial"),
    Column("usage", LargeBinary),
    Column("stop_sequence", Text),
    Column("stop_details", LargeBinary),
    Index("messages_in_order", "session", "asked", "position"),
)

TURNS: Final = Table(
    "turns",
    METADATA,
    # Where its question was accepted, or where it began after a person's decision.
    _key("position"),
    _key("session"),
    _text("id", index=True),
    _integer("asked"),  # the key of the question that it is about
    _integer("accepted_at"),
    Column("started_at", Integer),
    Column("ended_at", Integer),
    Column("ended", Integer),  # the position of the event that ended it
    Column("outcome", Text),
    Column("stop_reason", Text),
    Column("duration", Float),  # seconds
    _integer("steps"),
    Column("answer", Integer),  # the key of the last message of the model in it
    Column("model", Text),
    Column("usage", LargeBinary),
    Column("cost", Float),
    Column("failure", LargeBinary),
    Column("stop_sequence", Text),
    Column("stop_details", LargeBinary),
    Index("turns_of_session", "session", "asked", "position"),
    sqlite_with_rowid=False,
)
Index("turns_open", TURNS.c.session, TURNS.c.position, sqlite_where=TURNS.c.ended_at.is_(None))

CALLS: Final = Table(
    "calls",
    METADATA,
    _key("position"),  # the key of the answer that asks for it
    _key("number"),  # its place among the calls of that answer
    _key("session"),
    _text("id"),
    _text("name"),
    _binary("arguments"),
    _text("stage"),
    Column("kind", Text),  # what a person is asked for, if one is
    _text("digest"),
    _text("reason"),
    Column("question", LargeBinary),
    Column("asked_at", Integer),
    Column("original", LargeBinary),  # the model's own arguments, if a person changed them
    Column("decision", Text),
    Column("decided_by", Text),
    Column("decided_at", Integer),
    _integer("attempts"),
    Column("started_at", Integer),
    Column("ended_at", Integer),
    Column("result", LargeBinary),
    _integer("is_error"),
    _integer("ran"),
    Column("cost", Float),
    Column("results", Integer),  # the key of the message in which its result went back to the model
    Index("calls_of_session", "session", "position", "number"),
    sqlite_with_rowid=False,
)
IS_WAITING: Final = CALLS.c.stage == literal_column("'waiting'")
Index("calls_open", CALLS.c.session, CALLS.c.position, CALLS.c.number, sqlite_where=CALLS.c.results.is_(None))
Index("calls_waiting", CALLS.c.position, CALLS.c.number, sqlite_where=IS_WAITING)
Index("calls_waiting_by_id", CALLS.c.id, sqlite_where=IS_WAITING)

USAGE: Final = Table(
    "usage",
    METADATA,
    _key("session"),
    _key("kind", Text),  # `model` or `tool`
    _key("name", Text),  # empty when unknown
    _integer("calls"),
    Column("usage", LargeBinary),  # the sums of its token counts
    Column("cost", Float, nullable=False),
    _integer("unpriced"),
    sqlite_with_rowid=False,
)
