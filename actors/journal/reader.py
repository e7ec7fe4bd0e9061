"""What a journal asks of whatever lets it read a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Reader(Protocol):
    """Reads what is durable, from any thread."""

    @property
    def name(self) -> str:
        """What messages call the log."""
        ...

    def select(self, query: str, parameters: Sequence[str | int | bytes]) -> list[Any]:
        """Return the rows as tuples. The query is in SQLite's words; what keeps the log may have to spell it its way.

        Raises:
            RuntimeClosedError: the log is closed.
            StorageError: it cannot be read.
        """
        ...
