"""A session's history in its order, and what it adds up to at a position of the log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

import msgspec

from reenact.domain.errors import InvalidInputError, SessionNotFoundError
from reenact.domain.session import Session, SessionEvent, evolve
from reenact.projections.audit.api import AuditedLog
from reenact.projections.log import Row

History: TypeAlias = Sequence[Row]
_BEGINNING = Session()


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it was at a position of the log; `last` is the last of its events up to there."""

    session: Session
    last: Row


def stream_of(session_id: str) -> str:
    """Return the stream of a session."""
    return f"session/{session_id}"


def lineage_of(_log: AuditedLog, session_id: str) -> list[tuple[str, int | None]]:
    """Return the streams that the session's history is in, the oldest first, each up to a version or to its end."""
    return [(stream_of(session_id), None)]


def history_of(log: AuditedLog, session_id: str, *, until: int | None = None) -> History:
    """Return the session's events up to the position `until`, all if it is None, in their order.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: the session begins behind the position, or the log ends before it.
    """
    rows = log.read(stream_of(session_id))
    if not rows:
        raise SessionNotFoundError(session_id)
    if until is None:
        return rows
    head = log.head()
    if until > head:
        raise InvalidInputError(f"there is no position {until}: the log ends at {head}")
    until_then = [row for row in rows if row.position <= until]
    if not until_then:
        message = f"session {session_id!r} begins at position {rows[0].position}, behind {until}; name a later one"
        raise InvalidInputError(message)
    return until_then


def moment_of(log: AuditedLog, session_id: str, *, at: int | None = None) -> Moment:
    """Return the session as it was at the position, now if it is None.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: the session begins behind the position, or the log ends before it.
    """
    history = history_of(log, session_id, until=at)
    return Moment(session=reduce(_believe, history, _BEGINNING), last=history[-1])


def _believe(session: Session, row: Row) -> Session:
    event: SessionEvent = row.event  # type: ignore[assignment]  # a session's stream holds nothing else
    return evolve(session, event)
