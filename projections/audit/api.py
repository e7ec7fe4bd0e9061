"""What an audit needs of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from reenact.projections.log import Log


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
