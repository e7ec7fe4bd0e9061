"""What the projections need of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


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
