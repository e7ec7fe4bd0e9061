"""A journal that keeps every promise but durability, and that a test can hold still."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Self

from msgspec import UNSET

from reenact.actors.journal.api import (
    Append,
    Committed,
    Done,
    FeedRow,
    Outcome,
    Recorded,
    Remembered,
    Segment,
    Snapshot,
)
from reenact.domain.errors import ConflictError, RequestReusedError, RuntimeClosedError, StorageError


class MemoryJournal:
    """Commits on a thread of its own; or, if it is stepwise, one append for each `commit()` of the test."""

    def __init__(self, *, stepwise: bool = False) -> None:
        self._changed = threading.Condition()
        self._log: list[Recorded] = []
        self._versions: dict[str, int] = {}
        self._feed: dict[str, list[FeedRow]] = {}
        self._under_way: deque[tuple[Append, Done]] = deque()
        self._fenced: set[str] = set()
        self._failures: deque[Exception] = deque()
        self._recovery_failures: deque[Exception] = deque()
        self._closed = False
        self._snapshots: dict[str, Snapshot] = {}
        self._due: dict[str, int] = {}
        self._remembered: dict[str, Remembered] = {}
        self._thread = None if stepwise else threading.Thread(target=self._commit_all, name="memory-journal")
        if self._thread is not None:
            self._thread.start()

    def append(self, step: Append, done: Done) -> None:
        with self._changed:
            if self._closed:
                raise RuntimeClosedError("the journal is closed")
            self._under_way.append((step, done))
            self._changed.notify_all()

    def recover(self, stream: str, *, after: int = -1) -> list[Recorded]:
        with self._changed:
            self._changed.wait_for(lambda: all(step.stream != stream for step, _ in self._under_way))
            if self._recovery_failures:
                raise self._recovery_failures.popleft()
            self._fenced.discard(stream)
        return self.read(stream, after=after)

    def read(self, stream: str, *, after: int = 0) -> list[Recorded]:
        with self._changed:
            return [recorded for recorded in self._log if recorded.stream == stream and recorded.version > after]

    def read_all(self, *, after: int = 0, limit: int = 1000) -> list[Recorded]:
        with self._changed:
            return self._log[after : after + limit]

    def read_feed(self, topic: str, *, after: int = 0, limit: int = 1000) -> list[FeedRow]:
        with self._changed:
            rows = self._feed.get(topic, [])
            return [row for row in rows if row.first_cursor + _count(row.segments) - 1 > after][:limit]

    def read_feed_backwards(self, topic: str) -> Iterator[FeedRow]:
        with self._changed:
            rows = list(self._feed.get(topic, []))
        return reversed(rows)

    def snapshot(self, stream: str) -> Snapshot | None:
        with self._changed:
            return self._snapshots.get(stream)

    def snapshots(self, *, after: str = "", limit: int = 1000) -> list[Snapshot]:
        with self._changed:
            return [self._snapshots[stream] for stream in sorted(self._snapshots) if stream > after][:limit]

    def delete_snapshots(self) -> None:
        with self._changed:
            self._snapshots.clear()

    def due(self, *, after: int, until: int, limit: int = 1000) -> list[tuple[str, int]]:
        with self._changed:
            rows = sorted((due, stream) for stream, due in self._due.items() if after < due <= until)
            return [(stream, due) for due, stream in rows[:limit]]

    def next_due(self, *, after: int) -> int | None:
        with self._changed:
            return min((due for due in self._due.values() if due > after), default=None)

    def remembered(self, request_id: str) -> Remembered | None:
        with self._changed:
            return self._remembered.get(request_id)

    def head(self) -> int:
        with self._changed:
            return len(self._log)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        while self.commit():
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # For tests.

    def commit(self) -> bool:
        """Take the oldest append under way to its end; return False if there is none."""
        with self._changed:
            if not self._under_way:
                return False
            step, done = self._under_way[0]
            outcome = self._write(step)
        with self._changed:
            self._under_way.popleft()
            self._changed.notify_all()
        done(outcome)
        return True

    def wait_for_appends(self, count: int = 1) -> None:
        """Wait until this many appends are under way."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._under_way) >= count, timeout=60)

    def under_way(self) -> int:
        with self._changed:
            return len(self._under_way)

    def fail_next(self, error: Exception) -> None:
        """Have the next append fail."""
        with self._changed:
            self._failures.append(error)

    def fail_next_recovery(self, error: Exception) -> None:
        """Have the next recovery fail."""
        with self._changed:
            self._recovery_failures.append(error)

    def write(self, stream: str, *events: object) -> None:
        """Add events, as another owner of the stream would."""
        with self._changed:
            self._record(Append(stream, None, 0, events))

    def _commit_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._under_way or self._closed)
                if not self._under_way:
                    return
            self.commit()

    def _write(self, step: Append) -> Outcome:
        version = self._version(step.stream)
        if step.stream in self._fenced:
            return StorageError(f"stream {step.stream!r} must be read again")
        if self._failures:
            self._fenced.add(step.stream)
            return self._failures.popleft()
        if step.after is not None and step.after != version:
            self._fenced.add(step.stream)
            return ConflictError(step.stream, step.after, version)
        if step.remembered is not None and step.remembered.id in self._remembered:
            return RequestReusedError(step.remembered.id)
        self._record(step)
        self._keep(step)
        if step.remembered is not None:
            self._remembered[step.remembered.id] = step.remembered
        if step.snapshot is not None:
            self._snapshots[step.stream] = step.snapshot
        if step.due is None:
            self._due.pop(step.stream, None)
        elif step.due is not UNSET:
            self._due[step.stream] = step.due
        return Committed(version + len(step.events), len(self._log))

    def _record(self, step: Append) -> None:
        stream, cause = step.stream, step.cause
        for version, event in enumerate(step.events, self._version(stream) + 1):
            self._versions[stream] = version
            position = len(self._log) + 1
            self._log.append(Recorded(stream, version, position, step.recorded_at, event, cause=cause))
            cause = None

    def _keep(self, step: Append) -> None:
        if step.kept:
            rows = self._feed.setdefault(step.stream, [])
            cursor = rows[-1].first_cursor + _count(rows[-1].segments) if rows else 1
            rows.append(FeedRow(step.stream, cursor, tuple(step.kept)))

    def _version(self, stream: str) -> int:
        return self._versions.get(stream, 0)


def _count(segments: tuple[Segment, ...]) -> int:
    return sum(len(segment.entries) for segment in segments)
