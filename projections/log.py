"""What projections and audits need of a log, and the streams in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import takewhile
from typing import Final, Protocol, TypeAlias

import msgspec

from reenact.domain.errors import LogUnusableError
from reenact.domain.session import SessionBranched


class Row(Protocol):
    """An event where it stands in the log. `recorded_at` is microseconds since 1970-01-01 UTC."""

    @property
    def stream(self) -> str:
        """The stream that it is in."""
        ...

    @property
    def version(self) -> int:
        """Its place in the stream, from 1."""
        ...

    @property
    def position(self) -> int:
        """Its place in the log."""
        ...

    @property
    def recorded_at(self) -> int:
        """When it was recorded."""
        ...

    @property
    def event(self) -> object:
        """What happened."""
        ...

    @property
    def cause(self) -> bytes | None:
        """The command that its step followed from, as it is stored, if it begins one for which there is one."""
        ...


class Log(Protocol):
    """One global order over the events of all streams."""

    def read_all(self, *, after: int, limit: int) -> Sequence[Row]:
        """Return up to `limit` events with a position above `after`, in the order of their positions."""
        ...

    def read(self, stream: str, *, after: int = 0) -> Sequence[Row]:
        """Return the stream's events with a version above `after`."""
        ...

    def head(self) -> int:
        """Return the position of the last event, 0 if there is none."""
        ...


STRETCH: Final = 20_000
"""So many positions are looked through in one go."""


class Progress(msgspec.Struct, frozen=True):
    """How far something that takes long has come: `done` of `total` in this phase, None if nobody can say."""

    phase: str
    done: int
    total: int | None = None


OnProgress: TypeAlias = Callable[[Progress], None]
"""Told of progress now and then, on the thread that does the work."""


class AuditedLog(Log, Protocol):
    """A log that is open for reading, as any journal is."""

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
        """Return up to `limit` events that fit every condition, in their order or `backwards`, decoding no others.

        They have a position above `after`, `until` included, and are of the stream, with such versions, if one is
        named; `names` are stored names without versions, any if there are none. `since` and `before` are when they
        were recorded, in microseconds since 1970-01-01 UTC. Whoever looks at a long log for few events asks for some
        positions at a time.
        """
        ...

    def nearest(self, position: int, *, backwards: bool = False) -> int | None:
        """Return the next position above this one that has an event, or the last one up to it; None if none has."""
        ...


def stretches(log: AuditedLog, after: int, until: int, *, backwards: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the positions above `after`, `until` included, in parts that are looked through soon, whatever fits.

    Each is a first position, not included, and a last one. Gaps are left out: a damaged log can have large ones.
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


def stream_of(session_id: str) -> str:
    """Return the stream of a session."""
    return f"session/{session_id}"


def shared_before(log: Log, first: Row) -> list[Sequence[Row]]:
    """Return the history before a session's own first event, stream by stream; nothing, unless it is a branch.

    Raises:
        LogUnusableError: the log does not have it.
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
