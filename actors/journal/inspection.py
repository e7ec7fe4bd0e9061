"""What somebody who knows what events mean can find out about a stream, beside what its chain says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeAlias

from reenact.actors.journal.api import Recorded, Snapshot
from reenact.actors.journal.chain import Passed
from reenact.actors.journal.walk import Kind

Deviation: TypeAlias = tuple[Kind, int, str, int | None]
"""Kind, version or cursor, problem, and position in the log, as in a `Finding` about the stream."""


class Inspection(Protocol):
    """Looks at one stream after the other, and at all that is kept under the same name."""

    def knows(self, stream: str) -> bool:
        """Return whether it can say anything of the stream, or of one that should not be there."""
        ...

    def inspect(
        self,
        stream: str,
        rows: Iterator[Passed[Recorded]],
        snapshots: Iterator[Snapshot],
        due: int | None,
    ) -> Iterator[Deviation]:
        """Yield what does not follow from the events; there may be none of them, and the iterators are read once.

        The rows end before the first one that is not as it was written. `snapshots` come by version. `due` is when the
        stream is to be woken, if it is.
        """
        ...
