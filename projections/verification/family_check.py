"""The check of the links between a child session and the session that called it, in both directions.

A log may hold only one of the two, after an export without the family: such links are counted, and are not errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from reenact.domain.children import ChildEnded, ChildStarted, Parent
from reenact.domain.errors import LogUnusableError
from reenact.domain.session.child_calls import used
from reenact.domain.session.state import Session, SessionBranched, SessionCreated, child_of
from reenact.projections.explain.history import believe
from reenact.projections.log import Row, stream_of


class Records(Protocol):
    """Access to the rows of other streams."""

    def records(self, stream: str, *, after: int = 0) -> Iterator[Row]:
        """Yield the stream's events with a version above `after`."""
        ...

    def digest_at(self, stream: str, version: int) -> bytes | None:
        """Return the digest of the row with the event of that version, None if there is none."""
        ...


_Begun: TypeAlias = SessionCreated | SessionBranched


class Links:
    """The links from the events of one stream to other streams."""

    def __init__(self, records: Records, state_before: Callable[[Row], Session]) -> None:
        """Take the access to the rows on the other side of links, and to the state before a stream's first row."""
        self.missing = 0
        """How many of them lead to a session that is not in the log."""
        self._records = records
        self._state_before = state_before
        self._children: dict[str, _Replayed] = {}

    def problem_of(self, row: Row, before: Session, after: Session) -> str | None:
        """Return what is wrong with the event's links, None if nothing is, given the states before and after it."""
        match row.event:
            case SessionCreated(parent=parent) | SessionBranched(parent=parent) if parent is not None:
                return self._problem_with_parent(row, row.event, parent)
            case ChildStarted():
                return self._problem_with_child(row, row.event, before)
            case ChildEnded(version=version) if version:
                return self._problem_with_end(row.event, after)
            case _:
                return None

    def _problem_with_parent(self, row: Row, begun: _Begun, parent: Parent) -> str | None:
        stream = stream_of(parent.session_id)
        if self._is_missing(stream):
            return None
        calling = next(self._records.records(stream, after=parent.version - 1), None)
        if calling is None or not isinstance(calling.event, ChildStarted) or calling.version != parent.version:
            return f"version {parent.version} of {stream!r} does not start this child session"
        started = calling.event
        says = (*_identity(begun), begun.budget, parent.call_id, parent.depth)
        others = (*_expected_identity(started), started.budget, started.call_id, started.depth)
        return None if says == others and calling.position < row.position else f"{stream!r} has called another session"

    def _problem_with_child(self, row: Row, started: ChildStarted, calling: Session) -> str | None:
        first = next(self._records.records(stream_of(started.child_id)), None)
        if first is None:  # the child has not begun yet, if the process ended in between
            return None
        root = calling.id if calling.parent is None else calling.parent.root
        begun = first.event
        parent = begun.parent if isinstance(begun, SessionCreated | SessionBranched) else None
        names = parent and (parent.session_id, parent.version, parent.call_id, parent.root)
        if names != (calling.id, row.version, started.call_id, root):
            return f"the child session {started.child_id!r} does not begin with this call"
        return None

    def _problem_with_end(self, ended: ChildEnded, calling: Session) -> str | None:
        stream = stream_of(ended.child_id)
        if self._is_missing(stream):
            return None
        digest = self._records.digest_at(stream, ended.version)
        if digest is None or digest.hex() != ended.digest:
            there = "is another one" if digest else "is not there"
            return f"it tells of version {ended.version} of {stream!r}, which {there}"
        try:
            session = self._replayed(stream).at(ended.version)
        except LogUnusableError as error:
            return f"the child session cannot be read: {error}"
        told = child_of(calling, ended.child_id)
        if told is None:
            return "this session has not started that child"
        end, all_of = session.ended, used(session)
        if end is None or (end.outcome, end.stop_reason) != (ended.outcome, ended.stop_reason):
            return f"the child session has ended otherwise: {'not at all' if end is None else end.outcome}"
        is_same_cost = math.isclose(told.cost or 0.0, all_of.cost or 0.0, rel_tol=_NEARLY, abs_tol=_NEARLY)
        if (told.steps, told.usage) != (all_of.steps, all_of.usage) or not is_same_cost:
            return f"the child session has used {all_of}, and {told.steps, told.usage, told.cost} is settled"
        return None

    def _replayed(self, stream: str) -> _Replayed:
        """Return the child session of the stream; a branch begins with what it shares."""
        known = self._children.get(stream)
        if known is None:
            first = next(self._records.records(stream))
            known = _Replayed(self._state_before(first), self._records.records(stream))
            self._children[stream] = known
        return known

    def _is_missing(self, stream: str) -> bool:
        is_missing = next(self._records.records(stream), None) is None
        self.missing += is_missing
        return is_missing


def _identity(begun: _Begun) -> tuple[str | int, ...]:
    """Return which session has begun: on which image, or as the branch of which child."""
    if isinstance(begun, SessionCreated):
        return begun.session_id, begun.image_id, begun.image_revision
    return begun.session_id, begun.origin, begun.version, begun.digest


def _expected_identity(started: ChildStarted) -> tuple[str | int, ...]:
    origin = started.origin
    if origin is None:
        return started.child_id, started.image_id, started.image_revision
    return started.child_id, origin.session_id, origin.version, origin.digest


_NEARLY = 1e-6
"""The tolerance for costs that were added up in different orders."""


class _Replayed:
    """A child session, replayed from version to version."""

    def __init__(self, session: Session, rows: Iterator[Row]) -> None:
        self._rows = rows
        self._session = session
        self._version = 0

    def at(self, version: int) -> Session:
        """Return its state at the version, which must not be less than in the previous call."""
        while self._version < version and (row := next(self._rows, None)) is not None:
            self._session, self._version = believe(self._session, row), row.version
        return self._session
