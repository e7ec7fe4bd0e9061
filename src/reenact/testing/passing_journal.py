"""A journal that hands everything on to another one: a base for those that change one thing or another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import Self

from reenact.actors.journal.api import (
    Append,
    ChainedJournal,
    Done,
    FeedJournal,
    FeedRow,
    Journal,
    Link,
    Mark,
    Recorded,
    Remembered,
    Segment,
    Snapshot,
)
from reenact.actors.journal.codec import EventCodec


class PassingJournal:
    """Keeps the promise of `Journal` by leaving it to the journal behind it, which it closes with itself.

    Those of `FeedJournal` and `ChainedJournal` it keeps if the one behind does; if not, each of their methods raises a
    TypeError.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def journal(self) -> Journal:
        """The journal behind this one."""
        return self._journal

    @property
    def codec(self) -> EventCodec | None:
        """What the journal behind this one encodes events with, if it says so; for `ActorSystem(codec=...)`."""
        codec: EventCodec | None = getattr(self._journal, "codec", None)
        return codec

    def append(self, step: Append, done: Done) -> None:
        """Make the step durable."""
        self._journal.append(step, done)

    def recover(self, stream: str, *, after: int = -1) -> list[Recorded]:
        """Wait for what is under way, and accept steps of the stream again."""
        return self._journal.recover(stream, after=after)

    def read(self, stream: str, *, after: int = 0) -> list[Recorded]:
        """Return the stream's events with a version above `after`."""
        return self._journal.read(stream, after=after)

    def read_all(self, *, after: int = 0, limit: int = 1000) -> list[Recorded]:
        """Return events of all streams."""
        return self._journal.read_all(after=after, limit=limit)

    def read_feed(self, topic: str, *, after: int = 0, limit: int = 1000) -> list[FeedRow]:
        """Return feed rows of the topic."""
        return self._journal.read_feed(topic, after=after, limit=limit)

    def read_feed_backwards(self, topic: str) -> Iterator[FeedRow]:
        """Yield the topic's feed rows, the newest first."""
        return self._journal.read_feed_backwards(topic)

    def snapshot(self, stream: str) -> Snapshot | None:
        """Return the last snapshot of the stream."""
        return self._journal.snapshot(stream)

    def snapshots(self, *, after: str = "", limit: int = 1000) -> list[Snapshot]:
        """Return the last snapshots of streams."""
        return self._journal.snapshots(after=after, limit=limit)

    def delete_snapshots(self) -> None:
        """Delete the snapshots of all streams."""
        self._journal.delete_snapshots()

    def due(self, *, after: int, until: int, limit: int = 1000) -> list[tuple[str, int]]:
        """Return the streams that are to be woken in this time."""
        return self._journal.due(after=after, until=until, limit=limit)

    def next_due(self, *, after: int) -> int | None:
        """Return the next time at which a stream is to be woken."""
        return self._journal.next_due(after=after)

    def head(self) -> int:
        """Return the position of the last durable event."""
        return self._journal.head()

    def feed_end(self, topic: str) -> int:
        """Return the last cursor of the topic's feed."""
        return self._feeds().feed_end(topic)

    def acknowledge(self, marks: Sequence[Mark], done: Done) -> None:
        """Record how far consumers have come."""
        self._feeds().acknowledge(marks, done)

    def mark(self, topic: str, client_id: str) -> Mark | None:
        """Return how far the consumer has come."""
        return self._feeds().mark(topic, client_id)

    def marks(self, topic: str) -> list[Mark]:
        """Return how far the topic's consumers have come."""
        return self._feeds().marks(topic)

    def forget_marks(self, *, before: int, keep: Collection[tuple[str, str]] = ()) -> int:
        """Delete the marks that were last said before that time."""
        return self._feeds().forget_marks(before=before, keep=keep)

    def remembered(self, request_id: str) -> Remembered | None:
        """Return the request if it has taken effect."""
        return self._feeds().remembered(request_id)

    def forget_requests(self, *, before: int) -> int:
        """Delete what took effect before that time."""
        return self._feeds().forget_requests(before=before)

    def replace_feed(self, topic: str, first_cursor: int, last_cursor: int, segments: Sequence[Segment]) -> None:
        """Put one row in place of others."""
        self._feeds().replace_feed(topic, first_cursor, last_cursor, segments)

    def stale_feeds(self, *, after: int, limit: int = 1000) -> list[tuple[int, str, int]]:
        """Return feed rows that are not sealed, the oldest first."""
        return self._feeds().stale_feeds(after=after, limit=limit)

    def link(self, stream: str, version: int) -> Link | None:
        """Return the record of this version."""
        return self._chain().link(stream, version)

    def link_at(self, stream: str, position: int) -> Link | None:
        """Return the stream's last record up to the position."""
        return self._chain().link_at(stream, position)

    def read_until(self, stream: str, version: int, *, after: int = -1) -> list[Recorded]:
        """Return the stream's events up to this version."""
        return self._chain().read_until(stream, version, after=after)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _feeds(self) -> FeedJournal:
        if not isinstance(self._journal, FeedJournal):
            raise TypeError(f"{type(self._journal).__name__} keeps nothing beside its feeds")
        return self._journal

    def _chain(self) -> ChainedJournal:
        if not isinstance(self._journal, ChainedJournal):
            raise TypeError(f"{type(self._journal).__name__} keeps no chain")
        return self._journal
