"""A session's history as pages read it: its events are numbered from 1, and read one window at a time."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import msgspec

from reenact.domain.errors import InvalidInputError, LogUnusableError, SessionForgottenError, SessionNotFoundError
from reenact.domain.plain import can_be_id
from reenact.domain.session.state import SessionBranched, SessionForgotten
from reenact.projections.log import AuditedLog, Row, stream_of

SIZE = 200
"""The number of events on a page."""
AROUND = 100
"""The number of further events that are read on each side, to which those of the page may be related."""


class Part(NamedTuple):
    """The events of a stream that belong to a history: the versions up to `last`, with numbers after `before`."""

    stream: str
    before: int
    last: int


class Window(msgspec.Struct, frozen=True):
    """Some events of a history, with the numbers `first` to `last`, of `count`.

    `rows` are these and the events around them; `shown` are the indexes of the window's own.
    """

    rows: list[Row]
    first: int
    last: int
    count: int
    shown: range

    @property
    def own(self) -> list[Row]:
        """The events of the window itself."""
        return self.rows[self.shown.start : self.shown.stop]

    @property
    def is_end(self) -> bool:
        """Whether the window is at the end of the history."""
        return self.last == self.count

    def part(self, first: int, last: int) -> Window:
        """Return a smaller window of these events."""
        begin = self.shown.start + first - self.first
        return msgspec.structs.replace(self, first=first, last=last, shown=range(begin, begin + last - first + 1))


class History:
    """The events of a session up to the log's present end; a branch begins with those shared with its origin."""

    def __init__(self, log: AuditedLog, session_id: str) -> None:
        """Find the places of the events, without reading them.

        Raises:
            SessionNotFoundError: there is no such session in the log.
            SessionForgottenError: it was forgotten.
            LogUnusableError: the log has lost the history from which the session branches off.
        """
        if not can_be_id(session_id):
            raise SessionNotFoundError(session_id)
        self._log = log
        self.session_id = session_id
        stream = stream_of(session_id)
        last = log.find(stream=stream, backwards=True, limit=1)
        if not last:
            raise SessionNotFoundError(session_id)
        if isinstance(last[0].event, SessionForgotten):
            raise SessionForgottenError(session_id)
        streams = [(stream, last[0].version)]
        self.begun = begun = self._first(stream)
        """The first event of the session itself."""
        while isinstance(branched := begun.event, SessionBranched):
            stream = stream_of(branched.origin)
            origin = self._first(stream)
            if origin.position >= begun.position:
                raise LogUnusableError(f"{begun.stream!r} branches off from {stream!r}, which begins later; verify it")
            streams.append((stream, branched.version))
            begun = origin
        self.parts: list[Part] = []
        """The parts in streams, from the oldest on."""
        self.count = 0
        for name, versions in reversed(streams):
            self.parts.append(Part(name, self.count, versions))
            self.count += versions

    def rows(self, first: int, last: int) -> list[Row]:
        """Return the events with these numbers.

        Raises:
            LogUnusableError: one of them is not in the log.
        """
        found: list[Row] = []
        for part in self.parts:
            low, high = max(first - 1 - part.before, 0), min(last - part.before, part.last)
            if low < high:
                found += self._log.find(stream=part.stream, after_version=low, until_version=high, limit=high - low)
        if len(found) != max(0, min(last, self.count) - max(first, 1) + 1):
            raise LogUnusableError(f"events of session {self.session_id!r} are missing; verify the log")
        return found

    def number_at(self, position: int) -> int:
        """Return the number of the last event up to the position of the log.

        Raises:
            InvalidInputError: the session begins after it, or the log ends before it.
        """
        head = self._log.head()
        if position > head:
            raise InvalidInputError(f"there is no position {position}: the log ends at {head}")
        number = bisect_right(range(1, self.count + 1), position, key=lambda number: self.row(number).position)
        if number == 0:
            begin = self.row(1).position
            raise InvalidInputError(f"session {self.session_id!r} begins at position {begin}, behind {position}")
        return number

    def row(self, number: int) -> Row:
        """Return the event of that number."""
        return self.rows(number, number)[0]

    def until(self, number: int, *, size: int = SIZE) -> Window:
        """Return a window that ends with the event of that number, or later if fewer than `size` events come before."""
        last = min(self.count, max(number, size))
        return self.between(max(1, last - size + 1), last)

    def between(self, first: int, last: int, *, behind: int = AROUND) -> Window:
        """Return the window of these events; at most `behind` events after it are read as well."""
        low, high = max(1, first - AROUND), min(self.count, last + behind)
        shown = range(first - low, last - low + 1)
        return Window(self.rows(low, high), first, last, self.count, shown)

    def _first(self, stream: str) -> Row:
        rows = self._log.find(stream=stream, limit=1)
        if not rows:
            raise LogUnusableError(f"the log does not have the beginning of {stream!r}; verify it")
        return rows[0]
