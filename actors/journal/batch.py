"""What one transaction will write: requests are checked against the heads, numbered, chained and packed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from reenact.actors.journal.api import Append, Committed, Entry, Outcome, Publication, Remembered, Segment, Snapshot
from reenact.actors.journal.aside import Aside
from reenact.actors.journal.chain import STREAM_GENESIS, event_digest, feed_digest
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.heads import Heads
from reenact.actors.journal.intake import refusal_of
from reenact.actors.journal.replacement import replace
from reenact.actors.journal.requests import (
    UNDER_WAY,
    Deleted,
    Intake,
    MarkDeletion,
    Marking,
    Other,
    Purge,
    Recovery,
    Replacement,
    Request,
    RequestDeletion,
    Row,
    Rows,
    Step,
)
from reenact.actors.journal.store import Changes, Store, Values
from reenact.domain.errors import ConflictError, RequestReusedError, StorageError

MOST_PACKED: Final = 500
"""A row of a feed that holds so many entries takes no more: whoever reads one has all of it in memory."""
MOST_BYTES: Final = 256 * 1024
"""A row that would be longer becomes several, as long as each has more than one entry."""
_encode = msgspec.msgpack.Encoder().encode
_Open: TypeAlias = list[tuple[dict[str, str], list[Entry]]]
"""Laid out as segments are, but open at the end."""


class Batch:
    """The effects of requests in their order, gathered inside one transaction and written together at its end."""

    def __init__(
        self,
        store: Store,
        heads: Heads,
        codec: EventCodec,
        *,
        position: int,
        refused: dict[str, StorageError],
    ) -> None:
        """Begin behind `position`, in the store's open transaction.

        `refused` holds the streams of which no step is accepted, and why.
        """
        self.position = position
        self.refused = dict(refused)
        self.publications: list[Publication] = []
        self.outcomes: list[Outcome] = []
        """What became of each request, in their order."""
        self._store = store
        self._heads = heads
        self._encode = codec.encode
        self._events: Values = []
        self._packings: dict[str, _Packing] = {}
        self._feed: Values = []
        self._sealed: Values = []
        self._seals: Values = []
        self._snapshots: dict[tuple[str, int], Row] = {}
        self._tracking: dict[str, int] = {}
        self._latest: dict[str, Snapshot] = {}
        self._due: dict[str, int | None] = {}
        self._purges = False
        self._requests: Sequence[Request] = ()
        self._aside: Aside | None = None

    @property
    def has_events(self) -> bool:
        """Whether the log's position moves."""
        return bool(self._events)

    def take_in(self, requests: Sequence[Request]) -> None:
        """Take requests in, or refuse them; whatever is raised here leaves the batch and the heads unusable."""
        self._requests = requests
        report, add_step = self.outcomes.append, self._add_step
        for request in requests:
            if not isinstance(request, Step):
                report(self._add_other(request))
            elif request.append.remembered is None:
                report(add_step(request.append))
            else:
                report(self._add_once(request.append, request.append.remembered))

    def changes(self) -> Changes:
        """Return what is to be written."""
        latest = self._latest
        feed = self._feed
        for topic, packing in self._packings.items():
            feed += self._seal(topic, packing)
        snapshots: Values = []
        for row in self._snapshots.values():
            snapshots += (row.stream, row.version, row.topic, row.state)
        for snapshot in latest.values():
            snapshots += (snapshot.stream, snapshot.version, snapshot.topic, snapshot.state)
        changes = Changes(
            position=self.position,
            events=self._events,
            feed=feed,
            purges=self._purges,
            replaced=list(latest),
            snapshots=snapshots,
            due=self._due,
            tracking=self._tracking,
            seals=self._seals,
            sealed=self._sealed,
        )
        if self._aside is not None:
            self._aside.fill(changes)
        return changes

    def _beside(self) -> Aside:
        # Most transactions have nothing of the kind.
        if self._aside is None:
            self._aside = Aside(self._store, self._requests)
        return self._aside

    def _add_other(self, request: Other) -> Outcome:
        match request:
            case Rows():
                return self._add_rows(request)
            case Intake():
                return self._take_in(request)
            case Recovery(stream=stream):
                self.refused.pop(stream, None)
                return Committed(self._heads.streams.get(stream)[0], self.position)
            case Purge():
                self._purges = True
                self._latest.clear()
                self._snapshots.clear()
            case Marking(marks=marks):
                self._beside().mark(marks)
            case MarkDeletion(consumers=consumers, before=before):
                return Deleted(0, self.position, self._beside().delete_marks(consumers, before))
            case RequestDeletion(ids=ids, before=before):
                return Deleted(0, self.position, self._beside().delete_requests(ids, before))
            case Replacement():
                refusal = replace(self._store, request)
                if refusal is not None:
                    return refusal
        return Committed(0, self.position)

    def _add_once(self, step: Append, request: Remembered) -> Outcome:
        # Whoever comes behind does not build upon what was done long ago: nothing but this step is refused.
        if step.stream not in self.refused and self._beside().remembers(request.id):
            return RequestReusedError(request.id)
        outcome = self._add_step(step)
        if isinstance(outcome, Committed):
            self._beside().remember(request)
        return outcome

    def _add_step(self, step: Append) -> Outcome:
        stream = step.stream
        if self.refused and stream in self.refused:
            return refused_again(self.refused[stream])
        version, digest = self._heads.streams.get(stream)
        if step.after is not None and step.after != version:
            conflict = self.refused[stream] = ConflictError(stream, step.after, version)
            return conflict
        if step.events:
            encoded_stream, position, cause = stream.encode(), self.position, step.cause
            for event in step.events:
                topic, state = self._encode(event, step.recorded_at)
                version += 1
                position += 1
                digest = event_digest(digest, encoded_stream, version, topic.encode(), state, cause=cause)
                self._events += (position, stream, version, topic, state, digest, cause)
                cause = None
            self.position = position
            self._heads.streams.move(stream, (version, digest))
        if step.snapshot is not None:
            self._replace_snapshots(step.snapshot)
        if step.due is not msgspec.UNSET:
            self._due[stream] = step.due
        for segment in step.kept:
            if segment.entries:
                self._keep(stream, segment)
        for segment in step.passing:
            if segment.entries:
                self.publications.append(Publication(None, None, segment))
        return Committed(version, self.position)

    def _replace_snapshots(self, snapshot: Snapshot) -> None:
        self._latest[snapshot.stream] = snapshot
        for key in [key for key in self._snapshots if key[0] == snapshot.stream]:
            del self._snapshots[key]

    def _keep(self, topic: str, segment: Segment) -> None:
        packing = self._packings.get(topic)
        if packing is None:
            packing = self._packings[topic] = _Packing(*self._heads.topics.get(topic))
        self.publications.append(Publication(topic, packing.add(segment), segment))
        if packing.count >= MOST_PACKED:
            self._feed += self._seal(topic, self._packings.pop(topic))

    def _seal(self, topic: str, packing: _Packing) -> Values:
        rows: Values = []
        cursor, digest = packing.first_cursor, packing.previous
        for count, segments in _rows_of(packing.segments, packing.count):
            digest = feed_digest(digest, topic.encode(), cursor, count, segments)
            rows += (topic, cursor, count, segments, digest)
            cursor += count
        self._heads.topics.move(topic, (cursor - 1, digest))
        return rows

    def _add_rows(self, rows: Rows) -> Outcome:
        conflict = self._find_conflict(rows)
        if conflict is not None:
            return conflict
        streams = self._heads.streams
        version = 0
        for row in rows.events:
            version = row.version
            self.position += 1
            _, digest = streams.get(row.stream)
            digest = event_digest(digest, row.stream.encode(), version, row.topic.encode(), row.state)
            self._events += (self.position, row.stream, version, row.topic, row.state, digest, None)
            streams.move(row.stream, (version, digest))
        self._snapshots.update({(row.stream, row.version): row for row in rows.snapshots})
        if rows.tracking is not None:
            name, seen = rows.tracking
            self._tracking[name] = seen
        return Committed(version, self.position)

    def _take_in(self, intake: Intake) -> Outcome:
        for topic in {row.topic for row in intake.rows} & self._packings.keys():
            self._feed += self._seal(topic, self._packings.pop(topic))
        refusal = refusal_of(intake, self._heads)
        if refusal is not None:
            return refusal
        for record in intake.events:
            self.position += 1
            content = (record.stream, record.version, record.topic, record.state, record.digest, record.cause)
            self._events += (self.position, *content)
            if record.seal is not None:
                self._seals += (record.stream, record.version, record.seal)
            self._heads.streams.move(record.stream, (record.version, record.digest))
        for row in intake.rows:
            cells = (row.topic, row.first_cursor, row.count, row.segments, row.digest)
            if row.seal is None:
                self._feed += cells
            else:
                self._sealed += (*cells, row.seal)
            self._heads.topics.move(row.topic, (row.last_cursor, row.digest))
        self._due.update({timer.stream: timer.due for timer in intake.timers})
        if intake.more or self._store.tracked(UNDER_WAY):
            self._tracking[UNDER_WAY] = int(intake.more)
        return Committed(0, self.position)

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
            if key in taken or key in self._snapshots or self._stands(row):
                return ConflictError(row.stream, row.version - 1, row.version)
            taken.add(key)
        if rows.tracking is not None:
            name, position = rows.tracking
            seen = self._tracking[name] if name in self._tracking else self._store.tracked(name)
            if seen is not None and position <= seen:
                return ConflictError(name, position - 1, seen)
        return None

    def _end(self, stream: str) -> int | None:
        """Return the version of the last event, which may be 0, or None if there is no event."""
        version, digest = self._heads.streams.get(stream)
        return None if digest == STREAM_GENESIS else version

    def _stands(self, row: Row) -> bool:
        """Return whether there is a snapshot at this version of the stream already."""
        latest = self._latest.get(row.stream)
        if latest is not None:
            return latest.version == row.version
        return not self._purges and self._store.has_snapshot(row.stream, row.version)


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
        self.segments: _Open = []

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


def _rows_of(segments: _Open, count: int) -> Iterator[tuple[int, bytes]]:
    """Yield the rows that hold the segments, each with the number of its entries."""
    encoded = _encode(segments)
    if len(encoded) <= MOST_BYTES or count == 1:
        yield count, encoded
        return
    first: _Open = []
    rest: _Open = []
    left = count // 2
    for context, entries in segments:
        if left > 0:
            first.append((context, entries[:left]))
        if len(entries) > left:
            rest.append((context, entries[max(left, 0) :]))
        left -= len(entries)
    yield from _rows_of(first, count // 2)
    yield from _rows_of(rest, count - count // 2)
