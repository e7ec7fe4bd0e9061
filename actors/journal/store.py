"""What the writer asks of whatever keeps a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from reenact.actors.journal.fence import Epochs
from reenact.actors.journal.seeking import HEARD_AT, Cells, Parameters, heard_at
from reenact.domain.chain import End, Row
from reenact.domain.errors import StorageError


class Reader(Protocol):
    """Reads what is durable, from any thread."""

    @property
    def name(self) -> str:
        """What messages call the log."""
        ...

    def select(self, query: str, parameters: Sequence[str | int | bytes]) -> list[Cells]:
        """Return the rows as tuples. The query is in SQLite's words; what keeps the log may have to spell it its way.

        Raises:
            RuntimeClosedError: the log is closed.
            StorageError: it cannot be read.
        """
        ...


Values: TypeAlias = list[int | str | bytes | None]
"""Rows one behind the other, each in the order of its table's columns.

A row of its own for each record, a tuple, would be one more thing for the garbage collector to look after.
"""

NEWEST_FIRST = "ORDER BY version DESC, cursor DESC"
"""The order of a stream's rows, from its last one on."""
LAST = f"""
    SELECT version + count - 1, cursor + heard - 1, digest FROM steps WHERE stream = ? {NEWEST_FIRST} LIMIT 1
"""  # noqa: S608 - ours
"""Where a stream ends."""
LAST_OF_ALL = "SELECT number, position + count - 1 FROM steps ORDER BY number DESC LIMIT 1"
"""Where the log ends."""
ROWS = f"""
    SELECT {{cells}} FROM steps
    WHERE stream = ? AND (version, cursor) >= {HEARD_AT} AND (version, cursor) <= {HEARD_AT}
    ORDER BY version, cursor
"""  # noqa: S608 - likewise
"""A stream's rows from the one with one cursor to that with another; see `rows_between`."""

STEP = (
    *("number", "stream", "recorded_at", "version", "position", "count", "cursor", "heard", "key"),
    *("digest", "cause", "events", "feed"),
)
"""What is written of a row that nothing was taken out of, in this order."""


def rows_between(stream: str, first_cursor: int, last_cursor: int) -> Parameters:
    """Return the parameters of `ROWS` for the rows between these cursors, and the one before."""
    return (stream, *heard_at(stream, first_cursor - 1), *heard_at(stream, last_cursor))


class Changes(msgspec.Struct):
    """What one transaction does to a log, in this order.

    `number` is that of the last row after it, and `position` that of the last event.
    """

    number: int
    position: int
    steps: Values
    """Rows, each as `STEP` says."""
    rows: Sequence[Row]
    """Rows that come from another log."""
    purges: bool
    """Whether all snapshots are deleted first."""
    replaced: list[str]
    """Streams whose snapshots are deleted."""
    snapshots: Values
    """Stream, version, topic, state."""
    due: dict[str, int | None]
    """When streams are to be woken, None for never."""
    tracking: dict[str, int]
    marks: Values = []
    """Topic, client id, cursor, time; each consumer once."""
    remembered: Values = []
    """Id, digest, note, time, proof; of requests that do not stand in the log."""
    keys: Values = []
    """Id, stream, wrapped; of data keys that may stand in the log already."""
    destroyed: Sequence[str] = ()
    """Streams whose data keys are destroyed, and whose snapshots and timers are deleted."""
    ends: Mapping[str, End] = {}
    """Where the streams ended that all this follows from, if the store `foresees`."""
    epochs: Epochs | None = None
    """The epochs that it is written in, if several nodes write the log."""


class DecideAgainError(Exception):
    """The log is not as it was when the batch was decided; nothing was written, and it is to be decided again.

    `past` are shards with epochs in which this node owns them no more.
    """

    def __init__(self, past: frozenset[tuple[int, int]] = frozenset()) -> None:
        super().__init__()
        self.past = past


class Store(Protocol):
    """A log as its writing thread sees it: one transaction at a time. Anything may be raised; `fault` says what it is.

    Between `begin` and `commit` or `roll_back` nobody else writes; or, if the store `foresees`, `commit` sees whether
    somebody has.
    """

    foresees: bool

    @property
    def name(self) -> str:
        """What messages call the log."""
        ...

    def begin(self) -> tuple[int, int, bool]:
        """Enter a transaction.

        Return the number of the last row, the position of the last event, and whether the log is as the last `commit`
        has left it.
        """
        ...

    def stream_ends(self, streams: Sequence[str]) -> Iterable[tuple[str, End]]:
        """Return streams with where they end; without those that have no rows."""
        ...

    def has_snapshot(self, stream: str, version: int) -> bool:
        """Return whether a snapshot of the stream stands at this version."""
        ...

    def tracked(self, name: str) -> int | None:
        """Return the position that a reader has seen."""
        ...

    def remembered(self, request_ids: Sequence[str]) -> Iterable[str]:
        """Return those of the requests that have taken effect and have not been forgotten."""
        ...

    def rows(self, stream: str, first_cursor: int, last_cursor: int) -> Sequence[Row]:
        """Return the stream's rows up to the one that begins at the last cursor or before, in their order.

        The first is the one with the last announcement before the first cursor, if there is one.
        """
        ...

    # What the following do is part of the transaction, and done before what `commit` writes.

    def replace(self, gone: Sequence[Row], row: Row) -> None:
        """Delete rows, and let the row, which has the number of one that stays, say what it says now."""
        ...

    def write_marks(self, marks: Values) -> None:
        """Let consumers have come as far as these say, or further if they already have."""
        ...

    def delete_marks(self, consumers: Sequence[tuple[str, str]], before: int) -> int:
        """Delete the marks of these consumers that were last said before the time; return how many they were."""
        ...

    def delete_requests(self, request_ids: Sequence[str], before: int) -> int:
        """Delete those of the requests that took effect before the time; return how many they were."""
        ...

    def commit(self, changes: Changes, meanwhile: Callable[[], None]) -> None:
        """Write the changes and leave the transaction; they are durable when this returns.

        A store that foresees may find other rows behind which they come. It then writes them there, and corrects number
        and position of `changes`.

        `meanwhile` is called before what takes longest: whoever it wakes has the interpreter while the disk is at work.

        Raises:
            DecideAgainError: what the changes follow from is not so any more.
        """
        ...

    def roll_back(self) -> bool:
        """Leave the transaction; return False if the log is out of reach, so that what became of it is unknown."""
        ...

    def was_taken_over(self) -> bool:
        """Return whether `begin` has just failed because others may have written any stream since the last `commit`.

        It is asked after a `begin` that failed; the next one goes on.
        """
        ...

    def fault(self, error: Exception) -> StorageError:
        """Return our error for what was raised; the original is its cause."""
        ...
