"""What one transaction will write: requests are checked against the heads, numbered, chained and packed."""

from __future__ import annotations

import sqlite3

import msgspec

from reenact.actors.journal.api import Append, Committed, Done, Entry, Outcome, Publication, Segment, Snapshot
from reenact.actors.journal.chain import STREAM_GENESIS, event_digest, feed_digest
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.heads import Heads
from reenact.actors.journal.insertion import Insertion
from reenact.actors.journal.requests import Recovery, Request, Row, Rows, Step
from reenact.domain.errors import ConflictError, StorageError

_INSERT_EVENTS = Insertion("stored_events", columns=6)
_INSERT_FEED = Insertion("feed", columns=5)
_INSERT_SNAPSHOTS = Insertion("stored_snapshots", columns=4)
_SELECT_SNAPSHOT = "SELECT 1 FROM stored_snapshots WHERE originator_id = ? AND originator_version = ?"
_SELECT_TRACKING = "SELECT notification_id FROM tracking WHERE application_name = ?"
_DELETE_SNAPSHOTS = "DELETE FROM stored_snapshots"
_DELETE_SNAPSHOT = f"{_DELETE_SNAPSHOTS} WHERE originator_id = ?"
_DELETE_TIMER = "DELETE FROM timers WHERE stream = ?"
_UPSERT_TIMER = "INSERT INTO timers VALUES (?, ?) ON CONFLICT (stream) DO UPDATE SET due = excluded.due"
_UPSERT_TRACKING = """
    INSERT INTO tracking VALUES (?, ?)
    ON CONFLICT (application_name) DO UPDATE SET notification_id = excluded.notification_id
"""

_encode = msgspec.msgpack.Encoder().encode


class Batch:
    """The effects of requests in their order, gathered inside one transaction and written together at its end."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        heads: Heads,
        codec: EventCodec,
        *,
        position: int,
        refused: dict[str, StorageError],
    ) -> None:
        """Begin behind `position`, in the connection's open transaction.

        `refused` holds the streams of which no step is accepted, and why.
        """
        self.position = position
        self.refused = dict(refused)
        self.publications: list[Publication] = []
        self.reports: list[tuple[Done, Outcome]] = []
        self._connection = connection
        self._heads = heads
        self._encode = codec.encode
        self._events: list[tuple[int, str, int, str, bytes, bytes]] = []
        self._packings: dict[str, _Packing] = {}
        self._snapshots: dict[tuple[str, int], Row] = {}
        self._tracking: dict[str, int] = {}
        self._latest: dict[str, Snapshot] = {}
        self._due: dict[str, int | None] = {}
        self._purges = False

    def add(self, request: Request) -> None:
        """Take a request in, or refuse it; whatever is raised here leaves the batch and the heads unusable."""
        outcome: Outcome
        if isinstance(request, Step):
            outcome = self._add_step(request.append)
        elif isinstance(request, Rows):
            outcome = self._add_rows(request)
        elif isinstance(request, Recovery):
            self.refused.pop(request.stream, None)
            outcome = Committed(self._heads.stream(request.stream)[0], self.position)
        else:
            self._purges = True
            self._latest.clear()
            self._snapshots.clear()
            outcome = Committed(0, self.position)
        self.reports.append((request.done, outcome))

    @property
    def has_events(self) -> bool:
        """Whether the log's position moves."""
        return bool(self._events)

    def write(self) -> None:
        """Write everything into the open transaction."""
        _INSERT_EVENTS.run(self._connection, self._events)
        _INSERT_FEED.run(self._connection, [self._seal(*item) for item in self._packings.items()])
        self._write_snapshots()
        if self._due:
            self._write_timers()
        if self._tracking:
            self._connection.executemany(_UPSERT_TRACKING, self._tracking.items())

    def _write_snapshots(self) -> None:
        if self._purges:
            self._connection.execute(_DELETE_SNAPSHOTS)
        if self._latest:
            self._connection.executemany(_DELETE_SNAPSHOT, [(stream,) for stream in self._latest])
        taken: list[Row | Snapshot] = [*self._snapshots.values(), *self._latest.values()]
        _INSERT_SNAPSHOTS.run(self._connection, [(one.stream, one.version, one.topic, one.state) for one in taken])

    def _write_timers(self) -> None:
        due = [(stream, at) for stream, at in self._due.items() if at is not None]
        never = [(stream,) for stream, at in self._due.items() if at is None]
        self._connection.executemany(_UPSERT_TIMER, due)
        self._connection.executemany(_DELETE_TIMER, never)

    def _add_step(self, step: Append) -> Outcome:
        stream = step.stream
        if self.refused and stream in self.refused:
            return refused_again(self.refused[stream])
        version, digest = self._heads.stream(stream)
        if step.after is not None and step.after != version:
            conflict = self.refused[stream] = ConflictError(stream, step.after, version)
            return conflict
        if step.events:
            encoded_stream = stream.encode()
            for event in step.events:
                topic, state = self._encode(event, step.recorded_at)
                version += 1
                self.position += 1
                digest = event_digest(digest, encoded_stream, version, topic.encode(), state)
                self._events.append((self.position, stream, version, topic, state, digest))
            self._heads.move_stream(stream, version, digest)
        if step.snapshot is not None:
            self._latest[stream] = step.snapshot
        if step.due is not msgspec.UNSET:
            self._due[stream] = step.due
        for segment in step.kept:
            if segment.entries:
                self._keep(stream, segment)
        for segment in step.passing:
            if segment.entries:
                self.publications.append(Publication(None, None, segment))
        return Committed(version, self.position)

    def _keep(self, topic: str, segment: Segment) -> None:
        packing = self._packings.get(topic)
        if packing is None:
            packing = self._packings[topic] = _Packing(*self._heads.topic(topic))
        self.publications.append(Publication(topic, packing.add(segment), segment))

    def _seal(self, topic: str, packing: _Packing) -> tuple[str, int, int, bytes, bytes]:
        segments = _encode(packing.segments)
        digest = feed_digest(packing.previous, topic.encode(), packing.first_cursor, packing.count, segments)
        self._heads.move_topic(topic, packing.first_cursor + packing.count - 1, digest)
        return topic, packing.first_cursor, packing.count, segments, digest

    def _add_rows(self, rows: Rows) -> Outcome:
        conflict = self._find_conflict(rows)
        if conflict is not None:
            return conflict
        version = 0
        for row in rows.events:
            version = row.version
            self.position += 1
            _, digest = self._heads.stream(row.stream)
            digest = event_digest(digest, row.stream.encode(), version, row.topic.encode(), row.state)
            self._events.append((self.position, row.stream, version, row.topic, row.state, digest))
            self._heads.move_stream(row.stream, version, digest)
        self._snapshots.update({(row.stream, row.version): row for row in rows.snapshots})
        if rows.tracking is not None:
            name, seen = rows.tracking
            self._tracking[name] = seen
        return Committed(version, self.position)

    def _find_conflict(self, rows: Rows) -> ConflictError | None:
        """Return what forbids the rows; all of them are looked at before any is taken in."""
        ends: dict[str, int | None] = {}
        for row in rows.events:
            end = ends[row.stream] if row.stream in ends else self._end(row.stream)
            if row.version not in ((0, 1) if end is None else (end + 1,)):
                return ConflictError(row.stream, row.version - 1, end or 0)
            ends[row.stream] = row.version
        taken: set[tuple[str, int]] = set()
        for row in rows.snapshots:
            key = (row.stream, row.version)
            if key in taken or key in self._snapshots or self._connection.execute(_SELECT_SNAPSHOT, key).fetchone():
                return ConflictError(row.stream, row.version - 1, row.version)
            taken.add(key)
        if rows.tracking is not None:
            name, position = rows.tracking
            seen = self._seen(name)
            if seen is not None and position <= seen:
                return ConflictError(name, position - 1, seen)
        return None

    def _end(self, stream: str) -> int | None:
        """Return the version of the last event, which may be 0, or None if there is no event."""
        version, digest = self._heads.stream(stream)
        return None if digest == STREAM_GENESIS else version

    def _seen(self, name: str) -> int | None:
        if name in self._tracking:
            return self._tracking[name]
        row: tuple[int] | None = self._connection.execute(_SELECT_TRACKING, (name,)).fetchone()
        return row[0] if row else None


def refused_again(error: StorageError) -> StorageError:
    """Return an error of the same kind for a step that comes behind the refused one."""
    if isinstance(error, ConflictError):
        return ConflictError(error.stream, error.expected, error.actual)
    return type(error)(f"not recorded, because an earlier step of its stream was not: {error}")


class _Packing:
    """The row of a topic's feed that a batch is filling."""

    __slots__ = ("count", "first_cursor", "previous", "segments")

    def __init__(self, cursor: int, previous: bytes) -> None:
        self.first_cursor = cursor + 1
        self.previous = previous
        self.count = 0
        # Laid out as segments are, but open at the end.
        self.segments: list[tuple[dict[str, str], list[Entry]]] = []

    def add(self, segment: Segment) -> int:
        """Pack the segment and return the cursor of its first entry."""
        first_cursor = self.first_cursor + self.count
        segments, context = self.segments, segment.context
        if segments and (segments[-1][0] is context or segments[-1][0] == context):
            segments[-1][1].extend(segment.entries)
        else:
            segments.append((context, list(segment.entries)))
        self.count += len(segment.entries)
        return first_cursor
