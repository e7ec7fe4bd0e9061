"""Builds the content of one transaction: checks requests against the stream ends, numbers, chains and packs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

import msgspec

from reenact.actors.journal.api import (
    Append,
    Committed,
    Derived,
    Entry,
    Outcome,
    Publication,
    Remembered,
    Segment,
    Snapshot,
)
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.fence import Epochs
from reenact.actors.journal.heads import Heads, refusal_of
from reenact.actors.journal.replacement import replace
from reenact.actors.journal.requests import (
    UNDER_WAY,
    Deleted,
    Deletion,
    Encoded,
    Foreign,
    Forgetting,
    Marking,
    Other,
    Purge,
    Recovery,
    Replacement,
    Request,
    RowImport,
    Step,
)
from reenact.actors.journal.side_table_changes import SideTableChanges
from reenact.actors.journal.store import Changes, Store
from reenact.actors.journal.vault import LOG, Key
from reenact.domain.chain import header_of, part_digest, row_digest
from reenact.domain.errors import ConflictError, LogLockedError, RequestReusedError, ShardMovedError, StorageError
from reenact.domain.stream.feed import pack_feed, pack_segments

MOST_PACKED = 500
"""How many announcements without events fill a row: a reader of one of them has the whole row in memory."""
MOST_BYTES = 256 * 1024
"""Longer rows are split, as long as each part has more than one announcement."""
_encode = msgspec.msgpack.Encoder().encode
_OpenSegments: TypeAlias = list[tuple[dict[str, str], list[Entry]]]
"""Like segments, but the lists can still grow."""


class Batch:
    """The effects of requests in order, collected within one transaction and written together at its end."""

    def __init__(
        self,
        store: Store,
        heads: Heads,
        codec: EventCodec,
        *,
        number: int,
        position: int,
        refused: dict[str, StorageError],
        epochs: Epochs | None = None,
    ) -> None:
        """Start after this row number and this event position, in the store's open transaction.

        `refused` maps the streams whose steps are refused to the reasons. With `epochs`, steps of shards that this node
        does not own are refused.
        """
        self.number = number
        self.position = position
        self.has_events = False
        """Whether the log's position advances."""
        self.rows = range(0)
        """The numbers of the rows, after they are written."""
        self.refused = refused.copy()
        self.publications: list[Publication] = []
        self.outcomes: list[Outcome] = []
        """The outcome of each request, in order."""
        self._store = store
        self._heads = heads
        self._encode = codec.encode
        self._vault = codec.vault if codec.vault is not None and codec.vault.has_ring else None
        self._codec = codec
        self.keys: dict[str, Key] = {}
        """Data keys that this batch writes; they may be in the log already."""
        self._changes = Changes(number, position, epochs=epochs)
        self._steps = self._changes.steps
        self._unwritten: dict[str, _PackedAnnouncements] = {}
        self._snapshots: dict[tuple[str, int], Encoded] = {}
        self._latest_snapshots: dict[str, Snapshot] = {}
        self._requests: Sequence[Request] = ()
        self._side_tables: SideTableChanges | None = None
        self._epochs = epochs

    def process(self, requests: Sequence[Request]) -> None:
        """Process requests, or refuse them; an exception here leaves the batch and the heads unusable."""
        self._requests = requests
        report, add_step = self.outcomes.append, self._add_step
        for request in requests:
            if not isinstance(request, Step):
                report(self._add_other(request))
            elif request.append.remembered is None:
                report(add_step(request.append))
            else:
                report(self._add_remembered(request.append, request.append.remembered))

    def changes(self) -> Changes:
        """Return the changes to write."""
        changes, latest = self._changes, self._latest_snapshots
        for stream in tuple(self._unwritten):
            self._write_packed(stream)
        for row in self._snapshots.values():
            changes.snapshots += (row.stream, row.version, row.topic, row.state)
        for snapshot in latest.values():
            state = _sealed(self._key_of(snapshot.stream), snapshot.state)
            changes.snapshots += (snapshot.stream, snapshot.version, snapshot.topic, state)
        for key in self.keys.values():
            if key.row is not None:
                changes.keys += (key.row.id, key.row.stream, key.row.wrapped)
        changes.number, changes.position = self.number, self.position
        changes.replaced, changes.ends = list(latest), self._heads.told
        if self._side_tables is not None:
            self._side_tables.fill(changes)
        return changes

    def shift(self, changes: Changes) -> None:
        """Correct the positions after the changes were written behind others that were not foreseen."""
        by, self.position = changes.position - self.position, changes.position
        self.outcomes = [
            msgspec.structs.replace(outcome, position=outcome.position + by)
            if isinstance(outcome, Committed)
            else outcome
            for outcome in self.outcomes
        ]

    def _side_table_changes(self) -> SideTableChanges:
        # Created on demand: most transactions have no such changes.
        if self._side_tables is None:
            self._side_tables = SideTableChanges(self._store, self._requests)
        return self._side_tables

    def _add_other(self, request: Other) -> Outcome:
        match request:
            case Foreign():
                return self._add_foreign(request)
            case RowImport():
                return self._add_intake(request)
            case Forgetting():
                return self._add_forgetting(request)
            case Recovery(stream=stream):
                if isinstance(self.refused, UnrecoveredStreams):
                    self.refused.trust(stream)
                self.refused.pop(stream, None)
                if self._epochs is not None:
                    self._epochs.recover(stream)
                return Committed(max(0, self._heads.get(stream)[0]), self.position)
            case Purge():
                self._changes.purges = True
                self._latest_snapshots.clear()
                self._snapshots.clear()
            case Marking(marks=marks):
                self._side_table_changes().mark(marks)
            case Deletion(table=table, keys=keys, before=before):
                return Deleted(0, self.position, self._side_table_changes().delete(table, keys, before))
            case Replacement(topic=topic):
                refusal = self._shard_moved_error([topic]) or replace(self._store, request, self._codec)
                if refusal is not None:
                    return refusal
        return Committed(0, self.position)

    def _add_remembered(self, step: Append, request: Remembered) -> Outcome:
        # Later steps were not decided on the earlier outcome: only this step is refused.
        if step.stream not in self.refused and self._side_table_changes().remembers(request.id):
            return RequestReusedError(request.id)
        outcome = self._add_step(step)
        if isinstance(outcome, Committed):
            self._remember(request, step.stream)
        return outcome

    def _remember(self, request: Remembered, stream: str) -> None:
        key = self._key_of(stream)
        if key is not None:
            digest, note = key.seal(request.digest), key.seal(request.note)
            request = msgspec.structs.replace(request, digest=digest, note=note)
        self._side_table_changes().remember(request)

    def _add_step(self, step: Append) -> Outcome:
        stream = step.stream
        if self.refused and stream in self.refused:
            return refused_again(self.refused[stream])
        if self._epochs is not None and not self._epochs.take_step(stream):
            return ShardMovedError(stream)
        version = max(0, self._heads.get(stream)[0])
        if step.after is not None and step.after != version:
            conflict = self.refused[stream] = ConflictError(stream, step.after, version)
            return conflict
        if step.events:
            version = self._add_events(step)
        else:
            for segment in step.kept:
                self._pack_announcement(stream, segment, step.recorded_at)
        if step.snapshot is not None:
            self._replace_snapshots(step.snapshot)
        if step.due is not msgspec.UNSET:
            self._changes.due[stream] = step.due
        for segment in step.passing:
            if segment.entries:
                self.publications.append(Publication(None, None, segment))
        return Committed(version, self.position)

    def _replace_snapshots(self, snapshot: Snapshot) -> None:
        self._latest_snapshots[snapshot.stream] = snapshot
        for key in [key for key in self._snapshots if key[0] == snapshot.stream]:
            del self._snapshots[key]

    def _add_forgetting(self, request: Forgetting) -> Outcome:
        """Write the last rows of the streams, with the log's key, and mark their own keys for destruction."""
        if request.remembered is not None:
            if self._side_table_changes().remembers(request.remembered.id):
                return RequestReusedError(request.remembered.id)
            self._remember(request.remembered, LOG)
        version = 0
        for step in request.steps:
            if self._epochs is not None:
                self._epochs.take(step.stream)
            self._write_packed(step.stream)
            self._changes.destroyed.append(step.stream)
            self._latest_snapshots.pop(step.stream, None)
            self._changes.due.pop(step.stream, None)
            version = self._add_events(step, self._key_of(LOG))
        return Committed(version, self.position)

    def _key_of(self, stream: str) -> Key | None:
        """Return the key for encrypting a stream, or None if the log is not encrypted."""
        if self._vault is None:
            return None
        key = self._vault.key_of(stream)
        if key.row is not None:
            self.keys[key.id] = key
        return key

    def _add_events(self, step: Append, key: Key | None = None) -> int:
        """Write a row with the events and all announcements collected so far; return the version of the last event."""
        stream, recorded_at, encode = step.stream, step.recorded_at, self._encode
        key = key or self._key_of(stream)
        pairs = [encode(event, recorded_at) for event in step.events]
        plain = _encode(pairs)
        events = plain if key is None else _encode([(topic, key.seal(state)) for topic, state in pairs])
        packing = self._unwritten.pop(stream, None)
        if packing is None and not step.kept:  # the most common case
            return self._write(stream, recorded_at, key, count=len(step.events), events=events, cause=step.cause)
        packing = packing or _PackedAnnouncements(self._heads.get(stream)[1])
        before, kept = packing.count, step.kept
        version, needs = (kept.version, kept.needs) if isinstance(kept, Derived) else (0, b"")
        for segment in step.kept:
            self._pack(stream, packing, segment, is_derived=version > 0)
        segments, count = packing.segments, packing.count
        beside = plain + needs
        feed = pack_feed(pack_segments(segments, stream, beside), version, needs) if count else None
        if before and feed is not None and len(feed) > MOST_BYTES:
            deltas, segments = _split_segments(segments, before)
            self._write_announced(stream, packing.recorded_at, deltas, before)
            count -= before
            feed = pack_feed(pack_segments(segments, stream, beside), version, needs) if count else None
        return self._write(
            stream, recorded_at, key, count=len(step.events), events=events, heard=count, feed=feed, cause=step.cause
        )

    def _pack_announcement(self, stream: str, segment: Segment, recorded_at: int) -> None:
        packing = self._unwritten.get(stream)
        if packing is None:
            packing = self._unwritten[stream] = _PackedAnnouncements(self._heads.get(stream)[1])
        packing.recorded_at = recorded_at
        self._pack(stream, packing, segment)
        if packing.count >= MOST_PACKED:
            self._write_packed(stream)

    def _pack(self, stream: str, packing: _PackedAnnouncements, segment: Segment, *, is_derived: bool = False) -> None:
        if segment.entries:
            cursor = packing.number(segment) if is_derived else packing.add(segment)
            self.publications.append(Publication(stream, cursor, segment))

    def _write_packed(self, stream: str) -> None:
        """Write the announcements collected for the stream, if there are any."""
        packing = self._unwritten.pop(stream, None)
        if packing is not None and packing.count:
            self._write_announced(stream, packing.recorded_at, packing.segments, packing.count)

    def _write_announced(self, stream: str, recorded_at: int, segments: _OpenSegments, count: int) -> None:
        key = self._key_of(stream)
        for heard, feed in _rows_of(stream, segments, count):
            self._write(stream, recorded_at, key, heard=heard, feed=feed)

    def _write(
        self,
        stream: str,
        recorded_at: int,
        key: Key | None,
        *,
        count: int = 0,
        events: bytes | None = None,
        heard: int = 0,
        feed: bytes | None = None,
        cause: bytes | None = None,
        version: int | None = None,
    ) -> int:
        """Write a row, and return the version of the stream's last event.

        `version` is that of the row's first event, by default the next one of the stream. With a key, `feed` and
        `cause` are encrypted here; the events are already encrypted one by one, except for their names.
        """
        cause, feed, key_id = _sealed(key, cause), _sealed(key, feed), "" if key is None else key.id
        last, last_cursor, previous = self._heads.get(stream)
        position, cursor = self.position + 1, last_cursor + 1
        if not count:
            version = last + 1
        elif version is None:
            version = max(0, last) + 1
        header = header_of(
            stream.encode(), recorded_at, version=version, count=count, cursor=cursor, heard=heard, key=key_id.encode()
        )
        digest = row_digest(previous, (part_digest(cause), part_digest(events), part_digest(feed)), header)
        self.number += 1
        self.position += count
        self.has_events = self.has_events or count > 0
        last = version + count - 1
        self._steps += (self.number, stream, recorded_at, version, position, count, cursor, heard, key_id or None)
        self._steps += (digest, cause, events, feed)
        self._heads.move(stream, (last, last_cursor + heard, digest))
        return last

    def _shard_moved_error(self, streams: Iterable[str]) -> ShardMovedError | None:
        """Return the error for the first of the streams that belongs to another node, or None."""
        epochs = self._epochs
        if epochs is None:
            return None
        return next((ShardMovedError(stream) for stream in streams if not epochs.take(stream)), None)

    def _add_foreign(self, request: Foreign) -> Outcome:
        streams = (each.stream for each in (*request.events, *request.snapshots))
        conflict = self._shard_moved_error(streams) or self._conflict_error(request)
        if conflict is not None:
            return conflict
        version = 0
        for stream, group in groupby(request.events, attrgetter("stream")):
            events = list(group)
            self._write_packed(stream)
            states = _encode([(event.topic, event.state) for event in events])
            version = self._write(stream, 0, None, count=len(events), events=states, version=events[0].version)
        self._snapshots.update({(each.stream, each.version): each for each in request.snapshots})
        if request.tracking is not None:
            name, seen = request.tracking
            self._changes.tracking[name] = seen
        return Committed(version, self.position)

    def _add_intake(self, intake: RowImport) -> Outcome:
        for stream in {row.stream for row in intake.rows} & self._unwritten.keys():
            self._write_packed(stream)
        streams = {*(row.stream for row in intake.rows), *(timer.stream for timer in intake.timers)}
        refusal = self._shard_moved_error(streams) or refusal_of(intake, self._heads)
        if refusal is not None:
            return refusal
        first = self.number + 1
        for row in intake.rows:
            end = self._heads.get(row.stream)
            self.number += 1
            self._changes.rows.append(
                msgspec.structs.replace(
                    row,
                    number=self.number,
                    position=self.position + 1,
                    version=row.version if row.count else end[0] + 1,
                    cursor=row.cursor if row.heard else end[1] + 1,
                    epoch=0,
                )
            )
            self.position += row.count
            self.has_events = self.has_events or row.count > 0
            self._heads.move(row.stream, row.end(end))
        # A timer that the log had of these streams follows from earlier rows; those of the export come last.
        self._changes.due.update(dict.fromkeys(row.stream for row in intake.rows))
        self._changes.due.update({timer.stream: timer.due for timer in intake.timers})
        for each in intake.keys:
            self._changes.keys += (each.id, each.stream, each.wrapped)
        under_way_since = self._store.tracked(UNDER_WAY)
        if intake.more or under_way_since:
            self._changes.tracking[UNDER_WAY] = (under_way_since or first) if intake.more else 0
        return Committed(0, self.position)

    def _conflict_error(self, request: Foreign) -> ConflictError | None:
        """Return the conflict that the events and snapshots have, if any; all are checked before any is accepted."""
        ends: dict[str, int] = {}
        for event in request.events:
            end = ends[event.stream] if event.stream in ends else self._heads.get(event.stream)[0]
            # A stream that another library has written may start at 0.
            if event.version != end + 1 and (end, event.version) != (-1, 1):
                return ConflictError(event.stream, event.version - 1, max(0, end))
            ends[event.stream] = event.version
        taken: set[tuple[str, int]] = set()
        for each in request.snapshots:
            key = (each.stream, each.version)
            if key in taken or key in self._snapshots or self._has_snapshot(each):
                return ConflictError(each.stream, each.version - 1, each.version)
            taken.add(key)
        if request.tracking is not None:
            name, position = request.tracking
            seen = self._changes.tracking[name] if name in self._changes.tracking else self._store.tracked(name)
            if seen is not None and position <= seen:
                return ConflictError(name, position - 1, seen)
        return None

    def _has_snapshot(self, snapshot: Encoded) -> bool:
        """Return whether the stream already has a snapshot at this version."""
        latest = self._latest_snapshots.get(snapshot.stream)
        if latest is not None:
            return latest.version == snapshot.version
        return not self._changes.purges and self._store.has_snapshot(snapshot.stream, snapshot.version)


def refused_again(error: StorageError) -> StorageError:
    """Return an error of the same kind for a step that comes after the refused one."""
    if isinstance(error, ConflictError):
        return ConflictError(error.stream, error.expected, error.actual)
    if isinstance(error, LogLockedError):
        return LogLockedError(error.path, error.pid, error.host)
    return type(error)(f"not recorded, because an earlier step of its stream was not: {error}")


class UnrecoveredStreams(dict[str, StorageError]):
    """Refuses steps of all streams that have not been recovered since another process may have written them."""

    def __init__(self, error: StorageError, recovered: frozenset[str] = frozenset()) -> None:
        """Refuse steps with this error."""
        super().__init__()
        self._error = error
        self._recovered = set(recovered)

    def __bool__(self) -> bool:
        """Return True: any stream may be refused."""
        return True

    def __contains__(self, stream: object) -> bool:
        """Return whether steps of the stream are refused."""
        return super().__contains__(stream) or stream not in self._recovered

    def __missing__(self, stream: str) -> StorageError:
        """Return the error with which they are refused."""
        return self._error

    def trust(self, stream: str) -> None:
        """Accept steps of the stream again."""
        self._recovered.add(stream)

    def copy(self) -> UnrecoveredStreams:
        """Return a copy."""
        copied = UnrecoveredStreams(self._error, frozenset(self._recovered))
        copied.update(self)
        return copied


def _sealed(key: Key | None, part: bytes | None) -> bytes | None:
    return part if key is None or part is None else key.seal(part)


class _PackedAnnouncements:
    """The announcements of a stream that a batch has not written yet."""

    __slots__ = ("count", "first_cursor", "recorded_at", "segments")

    def __init__(self, cursor: int) -> None:
        self.first_cursor = cursor + 1
        self.recorded_at = 0
        self.count = 0
        self.segments: _OpenSegments = []

    def add(self, segment: Segment) -> int:
        """Add the segment and return the cursor of its first entry."""
        segments, context = self.segments, segment.context
        if segments and (segments[-1][0] is context or segments[-1][0] == context):
            segments[-1][1].extend(segment.entries)
        else:
            segments.append((context, list(segment.entries)))
        return self.number(segment)

    def number(self, segment: Segment) -> int:
        """Assign cursors to the entries of the segment, and return the first one."""
        first_cursor = self.first_cursor + self.count
        self.count += len(segment.entries)
        return first_cursor


def _rows_of(stream: str, segments: _OpenSegments, count: int) -> Iterator[tuple[int, bytes]]:
    """Yield the encoded feed parts of the rows that hold the segments, each with its number of entries."""
    encoded = pack_feed(pack_segments(segments, stream))
    if len(encoded) <= MOST_BYTES or count == 1:
        yield count, encoded
        return
    first, rest = _split_segments(segments, count // 2)
    yield from _rows_of(stream, first, count // 2)
    yield from _rows_of(stream, rest, count - count // 2)


def _split_segments(segments: _OpenSegments, count: int) -> tuple[_OpenSegments, _OpenSegments]:
    """Split the segments after the first `count` entries."""
    first: _OpenSegments = []
    rest: _OpenSegments = []
    left = count
    for context, entries in segments:
        if left > 0:
            first.append((context, entries[:left]))
        if len(entries) > left:
            rest.append((context, entries[max(left, 0) :]))
        left -= len(entries)
    return first, rest
