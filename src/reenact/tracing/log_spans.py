"""Makes the spans of all sessions of a log, in the order in which they ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reenact.domain.children import ChildStarted, Parent
from reenact.domain.image import Definition, ImageRegistered
from reenact.domain.session.state import SessionCreated
from reenact.projections.explain.entries import is_session
from reenact.projections.log import AuditedLog, Row, shared_before, stream_of
from reenact.tracing.spans import Span
from reenact.tracing.turns import SessionTurns

_MOST_HELD = 10_000
"""The number of sessions, and of image revisions, that are held in memory; others are read again from the log."""
_PAGE = 1000


class LogSpans:
    """Makes spans of events, from any place in the log on: a session's earlier events are read from the log."""

    def __init__(self, log: AuditedLog, *, content: bool) -> None:
        self._log = log
        self._content = content
        self._sessions: dict[str, SessionTurns] = {}
        self._definitions: dict[tuple[str, int], Definition | None] = {}

    def of(self, rows: Sequence[Row]) -> Iterator[Span]:
        """Yield the spans that end with these events, which follow those of the last call.

        Raises:
            LogUnusableError: the log has lost the history from which a session branches off.
        """
        for row in rows:
            if is_session(row.stream):
                yield from self._turns_of(row).apply(row)

    def forget(self) -> None:
        """Drop all sessions, as if no events had been given."""
        self._sessions.clear()

    def _turns_of(self, row: Row) -> SessionTurns:
        turns = self._sessions.pop(row.stream, None) or self._replayed(row)
        if len(self._sessions) >= _MOST_HELD:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[row.stream] = turns
        return turns

    def _replayed(self, row: Row) -> SessionTurns:
        """Return the session as it was before the event."""
        turns = SessionTurns(self._definition, content=self._content)
        first = row if row.version == 1 else self._log.find(stream=row.stream, limit=1)[0]
        if isinstance(first.event, SessionCreated) and first.event.parent is not None:
            self._link_to_parent(turns, first.event.parent)
        for before in (*shared_before(self._log, first), *self._pages(row)):
            for one in before:
                for _ in turns.apply(one):
                    pass  # they have been sent
        return turns

    def _link_to_parent(self, turns: SessionTurns, parent: Parent) -> None:
        """Link the session to the call of its parent that started it, if the log has that call."""
        stream, version = stream_of(parent.session_id), parent.version
        known = self._sessions.get(stream)
        call = None if known is None else known.call(parent.call_id)
        if call is not None:
            turns.is_called_by(call, detached=False)
            return
        started = self._log.find(stream=stream, after_version=version - 1, until_version=version, limit=1)
        if started and isinstance(started[0].event, ChildStarted):
            call = self._replayed(started[0]).call(parent.call_id)
            if call is not None:
                turns.is_called_by(call, detached=started[0].event.detached)

    def _pages(self, row: Row) -> Iterator[Sequence[Row]]:
        after, until = 0, row.version - 1
        while after < until:
            page = self._log.find(stream=row.stream, after_version=after, until_version=until, limit=_PAGE)
            if not page:
                return
            yield page
            after = page[-1].version

    def _definition(self, image_id: str, revision: int) -> Definition | None:
        key = image_id, revision
        if key not in self._definitions:
            if len(self._definitions) >= _MOST_HELD:
                self._definitions.clear()
            found = self._log.find(
                stream=f"image/{image_id}", after_version=revision - 1, until_version=revision, limit=1
            )
            event = found[0].event if found else None
            self._definitions[key] = event.definition if isinstance(event, ImageRegistered) else None
        return self._definitions[key]
