"""What an audit needs of a log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from reenact.projections.log import Log, Row

STRETCH: Final = 20_000
"""So many positions are looked through in one go."""


class Progress(msgspec.Struct, frozen=True):
    """How far something that takes long has come: `done` of `total` in this phase, None if nobody can say."""

    phase: str
    done: int
    total: int | None = None


OnProgress: TypeAlias = Callable[[Progress], None]
"""Told of progress now and then, on the thread that does the work."""


class FeedEntry(Protocol):
    """One thing that subscribers have seen. `at` is microseconds since 1970-01-01 UTC; `data` is plain builtins."""

    @property
    def type(self) -> str:
        """Its type in the catalogue."""
        ...

    @property
    def at(self) -> int:
        """When it was."""
        ...

    @property
    def data(self) -> Any:  # noqa: ANN401 - plain data of any type
        """What it says."""
        ...


class FeedSegment(Protocol):
    """Entries that follow each other and share a context."""

    @property
    def context(self) -> dict[str, str]:
        """The session, agent and turn that they are of."""
        ...

    @property
    def entries(self) -> Sequence[FeedEntry]:
        """The entries."""
        ...


class Feed(Protocol):
    """One packed row of a topic's feed."""

    @property
    def first_cursor(self) -> int:
        """The cursor of its first entry; the others follow without holes."""
        ...

    @property
    def segments(self) -> Sequence[FeedSegment]:
        """What it holds."""
        ...


class AuditedLog(Log, Protocol):
    """A log that is open for reading, as any journal is."""

    def read_feed(self, topic: str, *, after: int = 0, limit: int = 1000) -> Sequence[Feed]:
        """Return up to `limit` feed rows that hold cursors above `after`; the first row may begin before it."""
        ...

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
