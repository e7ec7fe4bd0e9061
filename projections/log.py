"""The interface to a log that projections and audits use, and helpers for the streams in it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Final, Protocol, TypeAlias

import msgspec

from reenact.domain.errors import LogUnusableError
from reenact.domain.history.stored import STORED
from reenact.domain.plain import can_be_id
from reenact.domain.session.state import SessionBranched


class Row(Protocol):
    """An event with its place in the log. `recorded_at` is microseconds since 1970-01-01 UTC."""

    @property
    def stream(self) -> str:
        """The stream of the event."""
        ...

    @property
    def version(self) -> int:
        """The event's version in the stream, from 1."""
        ...

    @property
    def position(self) -> int:
        """The event's position in the log."""
        ...

    @property
    def recorded_at(self) -> int:
        """When the event was recorded."""
        ...

    @property
    def event(self) -> object:
        """The event."""
        ...

    @property
    def is_behind_forgotten(self) -> bool:
        """Whether forgotten events come before it, in the order of reading."""
        ...

    @property
    def cause(self) -> bytes | None:
        """The stored command that led to its step, if it is the first event of a step with a recorded command."""
        ...


class Log(Protocol):
    """The events of all streams in one global order."""

    def read_all(self, *, after: int, limit: int) -> Sequence[Row]:
        """Return up to `limit` events with a position above `after`, in the order of their positions."""
        ...

    def read(self, stream: str, *, after: int = 0) -> Sequence[Row]:
        """Return the stream's events with a version above `after`."""
        ...

    def head(self) -> int:
        """Return the position of the last event, 0 if there is none."""
        ...


_NAMES: Final[Mapping[type, str]] = {kind: name for name, kind in STORED.items()}

STRETCH = 20_000
"""The number of positions that are searched in one go."""


class Progress(msgspec.Struct, frozen=True):
    """The progress of a long operation: `done` of `total` in this phase; `total` is None if unknown."""

    phase: str
    done: int
    total: int | None = None


OnProgress: TypeAlias = Callable[[Progress], None]
"""A callback for progress, called on the thread that does the work."""


class AuditedLog(Log, Protocol):
    """A log open for reading, with search; every journal is one."""

    def find(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        after_version: int = 0,
        until_version: int | None = None,
        names: Collection[str] = (),
        since: int | None = None,
        before: int | None = None,
        backwards: bool = False,
        limit: int = 1000,
    ) -> Sequence[Row]:
        """Return up to `limit` events that meet every condition, in order or `backwards`; no others are decoded.

        Their positions are above `after`, up to and including `until`; if a stream is given, they are of this stream,
        with versions above `after_version`, up to and including `until_version`. `names` are stored names without
        versions; empty matches all. They were recorded at or after `since` and before `before`, in microseconds since
        1970-01-01 UTC. To find few events in a long log, search a limited range of positions at a time.
        """
        ...

    def nearest(self, position: int, *, backwards: bool = False) -> int | None:
        """Return the next position with an event above this one or, backwards, the last one up to it; None if none."""
        ...


class InMemoryRow(msgspec.Struct, frozen=True, gc=False):
    """An event with the place that it had in a log."""

    stream: str
    version: int
    position: int
    recorded_at: int
    event: object
    cause: bytes | None
    is_behind_forgotten: bool = False


class InMemoryLog:
    """A log in memory, with events at their original positions; it implements `AuditedLog`."""

    def __init__(self, rows: Sequence[Row], head: int) -> None:
        """Take the events in the order of their positions."""
        self._rows = rows
        self._positions = [row.position for row in rows]
        self._head = head
        self._streams: dict[str, list[Row]] = {}
        for row in rows:
            self._streams.setdefault(row.stream, []).append(row)

    def read(self, stream: str, *, after: int = 0) -> Sequence[Row]:
        """Return the stream's events with a version above `after`."""
        return [row for row in self._streams.get(stream, ()) if row.version > after]

    def read_all(self, *, after: int = 0, limit: int = 1000) -> Sequence[Row]:
        """Return up to `limit` events with a position above `after`, in the order of their positions."""
        first = bisect_right(self._positions, after)
        return self._rows[first : first + limit]

    def find(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        after_version: int = 0,
        until_version: int | None = None,
        names: Collection[str] = (),
        since: int | None = None,
        before: int | None = None,
        backwards: bool = False,
        limit: int = 1000,
    ) -> Sequence[Row]:
        """Return up to `limit` events that meet every condition, as `AuditedLog` describes."""
        rows = self._rows if stream is None else self._streams.get(stream, ())
        fitting = (
            row
            for row in (reversed(rows) if backwards else rows)
            if after < row.position <= (row.position if until is None else until)
            and after_version < row.version <= (row.version if until_version is None else until_version)
            and (not names or name_of(row.event) in names)
            and (since is None or row.recorded_at >= since)
            and (before is None or row.recorded_at < before)
        )
        return list(islice(fitting, limit))

    def nearest(self, position: int, *, backwards: bool = False) -> int | None:
        """Return the next position with an event above this one or, backwards, the last one up to it; None if none."""
        above = bisect_right(self._positions, position)
        if backwards:
            return self._positions[above - 1] if above else None
        return self._positions[above] if above < len(self._positions) else None

    def head(self) -> int:
        """Return the position of the log's last event."""
        return self._head

    def streams(self) -> Iterator[str]:
        """Yield the names of the streams, in the order of their first events."""
        yield from self._streams


def name_of(event: object) -> str:
    """Return the stored name of the event, or the name of its class if it is not an event of a runtime."""
    return _NAMES.get(type(event), type(event).__name__)


def stretches(log: AuditedLog, after: int, until: int, *, backwards: bool = False) -> Iterator[tuple[int, int]]:
    """Yield ranges of positions above `after`, up to and including `until`, each short enough to be searched quickly.

    The first position of each range is exclusive, the last inclusive. Gaps are skipped: a damaged log can have large
    ones.
    """
    while after < until:
        nearest = log.nearest(until if backwards else after, backwards=backwards)
        if nearest is None or not after < nearest <= until:
            return
        if backwards:
            until = max(after, nearest - STRETCH)
            yield until, nearest
        else:
            after = min(until, nearest - 1 + STRETCH)
            yield nearest - 1, after


def has_stream(log: AuditedLog, stream: str) -> bool:
    """Return whether the log has events of the stream; its name may be any text."""
    return can_be_id(stream) and bool(log.find(stream=stream, limit=1))


def stream_of(session_id: str) -> str:
    """Return the stream of a session."""
    return f"session/{session_id}"


def shared_before(log: Log, first: Row) -> list[Sequence[Row]]:
    """Return the history before a session's own first event, stream by stream; empty unless it is a branch.

    Raises:
        LogUnusableError: the log lacks that history.
    """
    return list(_backwards(log, first))[::-1]


def _backwards(log: Log, first: Row) -> Iterator[Sequence[Row]]:
    while isinstance(branched := first.event, SessionBranched):
        stream, version = stream_of(branched.origin), branched.version
        rows = list(takewhile(lambda row: row.version <= version, log.read(stream)))  # noqa: B023 - taken at once
        if not rows or rows[-1].version != version or rows[-1].position >= first.position:
            message = f"{first.stream!r} branches off from {stream!r} at version {version}, which is not there"
            raise LogUnusableError(f"{message}; verify the log")
        yield rows
        first = rows[0]
