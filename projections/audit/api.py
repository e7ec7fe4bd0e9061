"""What an audit needs of a log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

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
