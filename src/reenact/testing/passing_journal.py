"""A journal that hands everything on to another one: a base for those that change one thing or another."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from reenact.actors.journal.api import Append, Done, FeedRow, Journal, Recorded, Snapshot
from reenact.actors.journal.codec import EventCodec


class PassingJournal:
    """Keeps the promise of `Journal` by leaving it to the journal behind it, which it closes with itself."""

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

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
