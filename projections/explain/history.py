"""The history of a session, through the sessions it branches off from, and its state at a position of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import TypeAlias, TypeGuard

import msgspec

from reenact.domain.container import ContainerCreated
from reenact.domain.errors import InvalidInputError, LogUnusableError, SessionNotFoundError, reading
from reenact.domain.history.causes import read_cause
from reenact.domain.history.explanation import Cause, causes_of
from reenact.domain.history.stored import STORED
from reenact.domain.image import ImageRegistered
from reenact.domain.plain import can_be_id, check_id, check_position
from reenact.domain.session.state import Session, SessionEvent, evolve
from reenact.projections.log import Log, Row, shared_before, stream_of

History: TypeAlias = Sequence[Row]
_BEGINNING = Session()
SESSION_EVENTS = frozenset(STORED.values()) - {ContainerCreated, ImageRegistered}
"""The types of events in streams of sessions."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A session at a position of the log; `last` is the last of its events up to there."""

    session: Session
    last: Row


def lineage_of(log: Log, session_id: str) -> list[tuple[str, int | None]]:
    """Return the streams of the session's history, oldest first, its own last.

    Each comes with the version of its last event that belongs to the history, None for the session's own.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        LogUnusableError: the log lacks a session that this one branches off from.
    """
    *shared, own = _lineage(log, session_id)
    return [*((part[0].stream, part[-1].version) for part in shared), (own[0].stream, None)]


def history_of(log: Log, session_id: str, *, until: int | None = None) -> History:
    """Return the session's events in order, up to and including the position `until`, all if it is None.

    Those of a branch begin with the events that it shares with the session it branches off from.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: the session begins after the position, or the log ends before it.
        LogUnusableError: the log lacks a session that this one branches off from.
    """
    if until is not None:
        check_position("at", until)
    rows = [row for part in _lineage(log, session_id) for row in part]
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


def moment_of(log: Log, session_id: str, *, at: int | None = None) -> Moment:
    """Return the session's state at the position, now if it is None.

    At a position before a branch begins, it is the state of the session that it branches off from.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: the session begins after the position, or the log ends before it.
        LogUnusableError: the log lacks a session that this one branches off from.
    """
    history = history_of(log, session_id, until=at)
    return Moment(session=reduce(believe, history, _BEGINNING), last=history[-1])


def steps_of(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the rows of a history, or of a stream, grouped by the steps in which they were recorded."""
    step: list[Row] = []
    for row in rows:
        if step and (row.cause is not None or row.stream != step[0].stream):
            yield step
            step = []
        step.append(row)
    if step:
        yield step


def causes_in(rows: Sequence[Row]) -> list[Cause]:
    """Return the cause of each event of a history, or of a part of one."""
    return causes_of(
        (None if step[0].cause is None else read_cause(step[0].cause).kind, [event_of(row) for row in step])
        for step in steps_of(rows)
    )


def believe(session: Session, row: Row) -> Session:
    """Return the session after the event of the row.

    Raises:
        LogUnusableError: it is not an event of a session, or is impossible in this state.
    """
    with reading(f"event {row.version} of {row.stream!r}"):
        return evolve(session, event_of(row))


def event_of(row: Row) -> SessionEvent:
    """Return the event of the row.

    Raises:
        LogUnusableError: it is not an event of a session.
    """
    if not is_of_session(row.event):
        message = f"event {row.version} of {row.stream!r} is a {type(row.event).__name__}, which no session has"
        raise LogUnusableError(f"{message}; verify the log")
    return row.event


def is_of_session(event: object) -> TypeGuard[SessionEvent]:
    """Return whether the event is one that streams of sessions hold."""
    return type(event) in SESSION_EVENTS


def _lineage(log: Log, session_id: str) -> list[History]:
    check_id("session_id", session_id)
    rows = log.read(stream_of(session_id)) if can_be_id(session_id) else ()
    if not rows:
        raise SessionNotFoundError(session_id)
    return [*shared_before(log, rows[0]), rows]
