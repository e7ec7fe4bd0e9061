"""The interfaces between writer or reader and the storage of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from reenact.actors.journal.fence import Epochs
from reenact.actors.journal.seeking import HEARD_AT, Cells, Parameters, heard_at
from reenact.domain.chain import End, Row
from reenact.domain.errors import StorageError


class Reader(Protocol):
    """Reads durable records, from any thread."""

    @property
    def name(self) -> str:
        """The log's name, as error messages show it."""
        ...

    def select(self, query: str, parameters: Sequence[str | int | bytes]) -> list[Cells]:
        """Return the rows as tuples. The query is in SQLite's dialect, which other storage translates.

        Raises:
            RuntimeClosedError: the log is closed.
            StorageError: the log cannot be read.
        """
        ...


Values: TypeAlias = list[int | str | bytes | None]
"""The values of all rows in one list, each row in the order of its table's columns.

A tuple for each row would be one more object for the garbage collector.
"""

SideTable: TypeAlias = Literal["consumers", "requests"]
"""A table beside the steps whose old rows are deleted."""

NEWEST_FIRST = "ORDER BY version DESC, cursor DESC"
"""The order of a stream's rows, last one first."""
LAST = f"""
    SELECT version + count - 1, cursor + heard - 1, digest FROM steps WHERE stream = ? {NEWEST_FIRST} LIMIT 1
"""  # noqa: S608 - ours
"""The end of a stream."""
LAST_OF_ALL = "SELECT number, position + count - 1 FROM steps ORDER BY number DESC LIMIT 1"
"""The end of the log."""
ROWS = f"""
    SELECT {{cells}} FROM steps
    WHERE stream = ? AND (version, cursor) >= {HEARD_AT} AND (version, cursor) <= {HEARD_AT}
    ORDER BY version, cursor
"""  # noqa: S608 - likewise
"""A stream's rows from the one with the first cursor to the one with the last; see `rows_between`."""

STEP = (
    *("number", "stream", "recorded_at", "version", "position", "count", "cursor", "heard", "key"),
    *("digest", "cause", "events", "feed"),
)
"""The columns that are written for a new row, in this order."""


def rows_between(stream: str, first_cursor: int, last_cursor: int) -> Parameters:
    """Return the parameters of `ROWS` for the rows between these cursors, and the one before."""
    return (stream, *heard_at(stream, first_cursor - 1), *heard_at(stream, last_cursor))


class Changes(msgspec.Struct):
    """The changes of one transaction to a log, in this order.

    `number` is that of the last row afterwards, and `position` that of the last event.
    """

    number: int
    position: int
    steps: Values = []
    """Rows with the columns of `STEP`."""
    rows: list[Row] = []
    """Rows imported from another log."""
    purges: bool = False
    """Whether all snapshots are deleted first."""
    replaced: list[str] = []
    """Streams whose snapshots are deleted."""
    snapshots: Values = []
    """Stream, version, topic, state."""
    due: dict[str, int | None] = {}
    """The times at which streams are to be woken, None for never."""
    tracking: dict[str, int] = {}
    marks: Values = []
    """Topic, client id, cursor, time; one for each consumer."""
    remembered: Values = []
    """Id, digest, note, time, proof, of requests that are not in the log yet."""
    keys: Values = []
    """Id, stream, wrapped key, of data keys that may be in the log already."""
    destroyed: list[str] = []
    """Streams whose data keys are destroyed, and whose snapshots and timers are deleted."""
    ends: Mapping[str, End] = {}
    """The stream ends on which all this is based, if the store `foresees`."""
    epochs: Epochs | None = None
    """The epochs in which it is written, if several nodes write the log."""


class DecideAgainError(Exception):
    """The log has changed since the batch was decided; nothing was written, and it must be decided again.

    `past` are shards, with epochs in which this node no longer owns them.
    """

    def __init__(self, past: frozenset[tuple[int, int]] = frozenset()) -> None:
        super().__init__()
        self.past = past


class Store(Protocol):
    """The storage of a log for its writing thread: one transaction at a time. `fault` translates any exception.

    Between `begin` and `commit` or `roll_back` no other process writes; or, if the store `foresees`, `commit` detects
    whether one has.
    """

    foresees: bool

    @property
    def name(self) -> str:
        """The log's name, as error messages show it."""
        ...

    def begin(self) -> tuple[int, int, bool]:
        """Begin a transaction.

        Return the number of the last row, the position of the last event, and whether the log is as the last `commit`
        left it.
        """
        ...

    def stream_ends(self, streams: Sequence[str]) -> Iterable[tuple[str, End]]:
        """Return the ends of the streams that have rows."""
        ...

    def has_snapshot(self, stream: str, version: int) -> bool:
        """Return whether there is a snapshot of the stream at this version."""
        ...

    def tracked(self, name: str) -> int | None:
        """Return the last position of a reader."""
        ...

    def remembered(self, request_ids: Sequence[str]) -> Iterable[str]:
        """Return those of the requests that have taken effect and have not been forgotten."""
        ...

    def rows(self, stream: str, first_cursor: int, last_cursor: int) -> Sequence[Row]:
        """Return the stream's rows up to the one that begins at or before the last cursor, in order.

        The first is the one with the last announcement before the first cursor, if there is one.
        """
        ...

    # The following methods are part of the transaction, and take effect before what `commit` writes.

    def replace(self, gone: Sequence[Row], row: Row) -> None:
        """Delete the rows, and replace the row that has the same number."""
        ...

    def write_marks(self, marks: Values) -> None:
        """Record the progress of consumers, without going back."""
        ...

    def delete(self, table: SideTable, keys: Sequence[tuple[str, ...]], before: int) -> int:
        """Delete those of the rows with these keys that are from before the time; return their number."""
        ...

    def commit(self, changes: Changes, meanwhile: Callable[[], None]) -> None:
        """Write the changes and end the transaction; they are durable when this returns.

        A store that `foresees` may find further rows in the log. It then writes the changes after them, and corrects
        number and position in `changes`. `meanwhile` is called before the slowest part: the threads it wakes can run
        while the disk is busy.

        Raises:
            DecideAgainError: the basis of the changes no longer holds.
        """
        ...

    def roll_back(self) -> bool:
        """End the transaction; return False if the log cannot be reached, so that the outcome is unknown."""
        ...

    def was_taken_over(self) -> bool:
        """Return whether `begin` has just failed because others may have written any stream since the last `commit`.

        Called after a failed `begin`; the next `begin` continues.
        """
        ...

    def fault(self, error: Exception) -> StorageError:
        """Return the library's error for an exception, with the exception as its cause."""
        ...
