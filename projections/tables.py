"""The tables that every get and list is served from.

The key of a row is the log position of the event that made it, so that keys grow with the log, lists page by key, and
a row knows where it comes from. Times are microseconds since 1970-01-01 UTC; whatever is nested is MessagePack.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text

VERSION: Final = 1
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
    Column("name", Text, nullable=False),
    Column("model", Text),
    Column("system_prompt", Text),
    Column("max_tokens", Integer),
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
    Column("failed", Integer, nullable=False),
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
    Column("turn_id", Text, nullable=False),
    Column("stop_reason", Text),
    Column("partial", Integer, nullable=False),
    Column("usage", LargeBinary),
    Index("messages_in_order", "session", "asked", "position"),
)

TURNS: Final = Table(
    "turns",
    METADATA,
    _key(),  # where its question was accepted
    Column("id", Text, nullable=False, index=True),
    Column("session", Integer, nullable=False),
    Column("accepted_at", Integer, nullable=False),
    Column("started_at", Integer),
    Column("ended_at", Integer),
    Column("outcome", Text),
    Column("stop_reason", Text),
    Column("duration", Float),  # seconds
    Column("model", Text),
    Column("usage", LargeBinary),
    Column("failure", LargeBinary),
    Index("turns_of_session", "session", "position"),
)
Index("turns_open", TURNS.c.session, TURNS.c.position, sqlite_where=TURNS.c.ended_at.is_(None))
Index(
    "turns_running",
    TURNS.c.session,
    sqlite_where=TURNS.c.started_at.is_not(None) & TURNS.c.ended_at.is_(None),
)

USAGE: Final = Table(
    "usage",
    METADATA,
    Column("session", Integer, primary_key=True, autoincrement=False),
    Column("model", Text, primary_key=True),  # empty when unknown
    Column("kind", Text, primary_key=True),  # `input_tokens`, `output_tokens`, …
    Column("amount", Integer, nullable=False),
    sqlite_with_rowid=False,
)
