"""The tables that every get and list is served from.

The key of a row is the log position of the event that made it, so that keys grow with the log, lists page by key, and
a row knows where it comes from. A branch has rows of its own for what was open where it begins, under the same keys as
the session that it branches off from; what was over by then is looked up along its lineage. Times are microseconds
since 1970-01-01 UTC; whatever is nested is MessagePack.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text, literal_column

VERSION: Final = 4
"""Raised with every change to a table or to what a projector writes: files of another version are made again."""

METADATA: Final = MetaData()


def _key() -> Column[int]:
    return Column("position", Integer, primary_key=True, autoincrement=False)


PROGRESS: Final = Table(
    "progress",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("mark", Text, nullable=False),  # which event stands at that position: tells one log from another
    Column("version", Integer, nullable=False),
    Column("closed", Integer, nullable=False),  # whether the last writer took its leave
)

CONTAINERS: Final = Table(
    "containers",
    METADATA,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    Column("name", Text),
    Column("created_at", Integer, nullable=False),
)

IMAGES: Final = Table(
    "images",
    METADATA,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    Column("revision", Integer, nullable=False),  # the newest
    Column("created_at", Integer, nullable=False),
)

REVISIONS: Final = Table(
    "revisions",
    METADATA,
    _key(),
    Column("image_id", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("definition", LargeBinary, nullable=False),
    Index("revisions_of_image", "image_id", "revision", unique=True),
)

SESSIONS: Final = Table(
    "sessions",
    METADATA,
    _key(),
    Column("stream", Text, nullable=False, unique=True),
    Column("id", Text, nullable=False, unique=True),
    Column("container_id", Text, nullable=False),
    Column("image_id", Text, nullable=False),
    Column("image_revision", Integer, nullable=False),
    Column("created_at", Integer, nullable=False),
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
    _key(),
    Column("id", Text, nullable=False, index=True),
    Column("session", Integer, nullable=False),  # the key of its session
    Column("session_id", Text, nullable=False),
    Column("container_id", Text, nullable=False),
    Column("image_id", Text, nullable=False),
    Column("started_at", Integer, nullable=False),
    Column("stopped_at", Integer),
    Column("turn_id", Text),
    Column("activity", Text),  # what it is at in its turn
    Column("failed", Integer, nullable=False),
    Column("waits", Integer, nullable=False),  # whether a call waits for a person
    Column("queued", Integer, nullable=False),
)
Index("agents_live", AGENTS.c.session, AGENTS.c.position, sqlite_where=AGENTS.c.stopped_at.is_(None))
Index("agents_started", AGENTS.c.position, sqlite_where=AGENTS.c.stopped_at.is_(None))

MESSAGES: Final = Table(
    "messages",
    METADATA,
    _key(),
    Column("session", Integer, nullable=False),
    Column("asked", Integer, nullable=False),  # the key of the question, its own too: (asked, position) orders by turn
    Column("id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("created_at", Integer, nullable=False),
    Column("turn_id", Text),  # none, if the results of calls were given up while no turn was under way
    Column("stop_reason", Text),
    Column("partial", Integer, nullable=False),
    Column("usage", LargeBinary),
    Column("stop_sequence", Text),
    Column("stop_details", LargeBinary),
    Index("messages_in_order", "session", "asked", "position"),
)

TURNS: Final = Table(
    "turns",
    METADATA,
    # Where its question was accepted, or where it began after a person's decision.
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("session", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False, index=True),
    Column("asked", Integer, nullable=False),  # the key of the question that it is about
    Column("accepted_at", Integer, nullable=False),
    Column("started_at", Integer),
    Column("ended_at", Integer),
    Column("ended", Integer),  # the position of the event that ended it
    Column("outcome", Text),
    Column("stop_reason", Text),
    Column("duration", Float),  # seconds
    Column("steps", Integer, nullable=False),
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
    Column("position", Integer, primary_key=True, autoincrement=False),  # the key of the answer that asks for it
    Column("number", Integer, primary_key=True, autoincrement=False),  # its place among the calls of that answer
    Column("session", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("arguments", LargeBinary, nullable=False),
    Column("stage", Text, nullable=False),
    Column("kind", Text),  # what a person is asked for, if one is
    Column("digest", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("question", LargeBinary),
    Column("asked_at", Integer),
    Column("original", LargeBinary),  # the model's own arguments, if a person changed them
    Column("decision", Text),
    Column("decided_by", Text),
    Column("decided_at", Integer),
    Column("attempts", Integer, nullable=False),
    Column("started_at", Integer),
    Column("ended_at", Integer),
    Column("result", LargeBinary),
    Column("is_error", Integer, nullable=False),
    Column("ran", Integer, nullable=False),
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
    Column("session", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),  # `model` or `tool`
    Column("name", Text, primary_key=True),  # empty when unknown
    Column("calls", Integer, nullable=False),
    Column("usage", LargeBinary),  # the sums of its token counts
    Column("cost", Float, nullable=False),
    Column("unpriced", Integer, nullable=False),
    sqlite_with_rowid=False,
)
