"""Finds the record after which a session branches off, in its own stream or in one that it continues."""

from __future__ import annotations

import hashlib
import sys

import msgspec

from reenact.actors.api.reading import Log
from reenact.actors.journal.api import Link
from reenact.actors.session.actor import SessionActor
from reenact.domain.children import ChildStarted
from reenact.domain.errors import InvalidInputError, LogUnusableError, SessionForgottenError, SessionNotFoundError
from reenact.domain.session.agent import ImageChanged
from reenact.domain.session.branching import before_last_message
from reenact.domain.session.state import SessionBranched, SessionCreated, SessionForgotten

_NOW = sys.maxsize
_ON_IMAGE = (SessionCreated, SessionBranched, ImageChanged)
_TAIL = 64
"""How many events are first searched for the last message; if it is not among them, more and more."""


class Point(msgspec.Struct, frozen=True):
    """A branch point: the session whose stream contains it, and the link of the last shared event."""

    session_id: str
    link: Link


def begun(log: Log, session_id: str) -> SessionCreated | SessionBranched:
    """Return the first event of the session, even if it is deleted.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        SessionForgottenError: it was forgotten.
    """
    stream = SessionActor.stream(session_id)
    rows = log.read_until(stream, 1) or log.read_until(stream, _NOW)
    event = rows[0].event if rows else None
    if isinstance(event, SessionForgotten):
        raise SessionForgottenError(session_id)
    if not isinstance(event, SessionCreated | SessionBranched):
        raise SessionNotFoundError(session_id)
    return event


def children_of(log: Log, session_id: str) -> set[str]:
    """Return the child sessions that the session has called itself, without those that it shares with another one."""
    rows = log.read(SessionActor.stream(session_id))
    return {row.event.child_id for row in rows if isinstance(row.event, ChildStarted)}


def point_at(log: Log, session_id: str, at: int) -> Point:
    """Return the branch point of the session at this log position.

    Before the beginning of a branch, the point is in the history that it shares.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: the session begins after the position, or the log ends before it.
    """
    if (head := log.head()) < at:
        raise InvalidInputError(f"there is no position {at}: the log ends at {head}")
    named, until = session_id, _NOW
    while True:
        event = begun(log, session_id)
        stream = SessionActor.stream(session_id)
        link = log.link_at(stream, at)
        if link is not None:
            shared = link if link.version <= until else log.link(stream, until)
            return Point(session_id, _require_link(shared, stream, until))
        if not isinstance(event, SessionBranched):
            first = _require_link(log.link(stream, 1), stream, 1)
            raise InvalidInputError(
                f"session {named!r} begins at position {first.position}, behind {at}; name a later one"
            )
        session_id, until = event.origin, event.version


def image_at(log: Log, point: Point) -> tuple[str, int]:
    """Return the image of the session at this point, with its revision; each stream begins with one."""
    history = log.read_until(SessionActor.stream(point.session_id), point.link.version)
    on = (row.event for row in reversed(history) if isinstance(row.event, _ON_IMAGE))
    event = next(on)
    return event.image_id, event.image_revision


def point_before_last_message(log: Log, point: Point) -> Point:
    """Return the point at or before the given one after which the last user message is queued and not yet taken up.

    Raises:
        InvalidInputError: there is no user message up to there.
        LogUnusableError: the log lacks the history from which the session branches off.
    """
    session_id, until, size = point.session_id, point.link.version, _TAIL
    while True:
        stream = SessionActor.stream(session_id)
        rows = log.read_until(stream, until, after=max(0, until - size))
        index = before_last_message([row.event for row in rows])
        if index is not None:
            version = rows[index].version
            return Point(session_id, _require_link(log.link(stream, version), stream, version))
        if size < until:
            size *= 8
            continue
        event = begun(log, session_id)
        if not isinstance(event, SessionBranched):
            raise InvalidInputError(
                "there is no earlier message of a user to take the place of; branch without a text, and send one"
            )
        session_id, until, size = event.origin, event.version, _TAIL


def derived_id(image_id: str, revision: int, model: str | None, system_prompt: str | None) -> str:
    """Return the id of the image derived from this one with another model and system prompt; it is deterministic."""
    told = msgspec.json.encode([image_id, revision, model, system_prompt])
    return f"img_{hashlib.blake2b(told, digest_size=13).hexdigest()}"


def _require_link(link: Link | None, stream: str, version: int) -> Link:
    if link is None:
        raise LogUnusableError(f"stream {stream!r} has no version {version}, which another one goes on with")
    return link
