"""What the writer asks of whatever keeps a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from reenact.domain.errors import StorageError

Values: TypeAlias = list[int | str | bytes | None]
"""Rows one behind the other, each in the order of its table's columns.

A row of its own for each record, a tuple, would be one more thing for the garbage collector to look after.
"""

FeedCells: TypeAlias = tuple[int, int, bytes, bytes, bytes | None]
"""Of a row of a feed the first cursor, count, segments, digest and seal."""

End: TypeAlias = tuple[str, int, bytes]
"""A stream with its last version, or a topic with its last cursor, and the digest of the record that holds it."""


class Changes(msgspec.Struct):
    """What one transaction does to a log, in this order. `position` is that of the last event after it."""

    position: int
    events: Values
    """Position, stream, version, topic, state, digest, cause."""
    feed: Values
    """Topic, first cursor, count, segments, digest."""
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
    seals: Values = []
    """Stream, version, seal; of redacted events."""
    sealed: Values = []
    """Topic, first cursor, count, segments, digest, seal; of rows of feeds that come sealed."""
    remembered: Values = []
    """Id, digest, note, time, proof; of requests that do not stand in the log."""


class Store(Protocol):
    """A log as its writing thread sees it: one transaction at a time. Anything may be raised; `fault` says what it is.

    Between `begin` and `commit` or `roll_back` nobody else writes.
    """

    @property
    def name(self) -> str:
        """What messages call the log."""
        ...

    def begin(self) -> tuple[int, bool]:
        """Enter a transaction.

        Return the position of the last event, and whether the log is as the last `commit` has left it.
        """
        ...

    def stream_ends(self, streams: Sequence[str]) -> Iterable[End]:
        """Return where the streams end; without those that have no events."""
        ...

    def feed_ends(self, topics: Sequence[str]) -> Iterable[End]:
        """Return where the feeds of the topics end; without those that have no rows."""
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

    def feed_rows(self, topic: str, first_cursor: int, last_cursor: int) -> Sequence[FeedCells]:
        """Return the topic's rows that begin between these cursors, in their order, and before them the one before."""
        ...

    # What the following do is part of the transaction, and done before what `commit` writes.

    def replace_rows(
        self, topic: str, first_cursor: int, last_row: int, *, count: int, segments: bytes, sealed: bytes
    ) -> None:
        """Delete the topic's rows from `first_cursor` on, to the one that begins at `last_row`: it takes their place.

        It keeps its digest, and its place among the rows that were written.
        """
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

        `meanwhile` is called before what takes longest: whoever it wakes has the interpreter while the disk is at work.
        """
        ...

    def roll_back(self) -> bool:
        """Leave the transaction; return False if the log is out of reach, so that what became of it is unknown."""
        ...

    def fault(self, error: Exception) -> StorageError:
        """Return our error for what was raised; the original is its cause."""
        ...
