"""Whether what subscribers were told is what the events say: each session's feed against what follows from its log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from reenact.domain.agent import ContextCompressed, MessageAccepted, StepStarted, TurnStarted
from reenact.domain.announce import of_turn, told
from reenact.domain.container import ContainerCreated
from reenact.domain.errors import LogUnusableError
from reenact.domain.events import (
    AgentStateChanged,
    Context,
    DeltasCompacted,
    EventData,
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCall,
    ToolResult,
)
from reenact.domain.image import ImageRegistered
from reenact.domain.session import Session, SessionBranched, evolve
from reenact.domain.stored import STORED
from reenact.projections.audit.history import believe, stream_of
from reenact.projections.log import Row

Deviation: TypeAlias = tuple[Literal["stream", "feed", "snapshot", "timer"], int, str, int | None]
"""What it is about, the version or cursor, what is wrong, and the position in the log if it is about an event."""

_KINDS: Final = {
    "container": frozenset({ContainerCreated}),
    "image": frozenset({ImageRegistered}),
    "session": frozenset(STORED.values()) - {ContainerCreated, ImageRegistered},
}
"""The events that streams hold, by the first part of their names."""

_STATE_CHANGED: Final = AgentStateChanged.event_type
_COMPACTED: Final = DeltasCompacted.event_type
_SAID: Final = frozenset(
    kind.event_type
    for kind in (
        *(MessageStart, MessageDelta, MessageStop, TextDelta, ThinkingStart, ThinkingDelta, ThinkingEnd),
        *(ToolCall, InputJsonDelta, ToolResult, StreamError),
    )
)
"""What an environment may say while its answer comes in."""
_SAID_AND_COMPACTED: Final = _SAID | {_COMPACTED}

_BEGIN: Final = (TurnStarted, StepStarted)
_GO_ON: Final = (MessageAccepted, ContextCompressed)
"""Events behind which an answer begins to come in, and those that it goes on behind; any other ends it."""


class Stretch(Protocol):
    """One packed row of a feed, still encoded."""

    @property
    def first_cursor(self) -> int:
        """The cursor of its first entry."""
        ...

    @property
    def count(self) -> int:
        """How many cursors it holds."""
        ...

    @property
    def segments(self) -> bytes:
        """What it holds."""
        ...

    @property
    def is_sealed(self) -> bool:
        """Whether it stands in place of others."""
        ...


class Kept(Protocol):
    """A snapshot."""

    @property
    def version(self) -> int:
        """Of which version it is."""
        ...


class Records(Protocol):
    """Records of other streams."""

    def records(self, stream: str) -> Iterator[Row]:
        """Yield the stream's events."""
        ...

    def digest_at(self, stream: str, version: int) -> bytes | None:
        """Return the digest of a record, None if it is not there."""
        ...


class Conversations:
    """Looks at one stream of a log of sessions after the other."""

    def __init__(self, records: Records) -> None:
        """Look up in the records what a branch shares with other sessions."""
        self._records = records

    def knows(self, stream: str) -> bool:
        """Return True: a log of sessions holds nothing else."""
        return True

    def inspect(
        self,
        stream: str,
        events: Iterator[Row],
        feed: Iterator[Stretch],
        snapshots: Iterator[Kept],
        due: int | None,
    ) -> Iterator[Deviation]:
        """Yield what does not follow from the events of the stream.

        The feed holds what is announced of each event, in their order, and between it what the environment has said
        while an answer came in. Sessions take no snapshots and are not woken.
        """
        try:
            self._compare(stream, events, _Feed(feed))
        except _DeviatesError as error:
            yield error.deviation
        for snapshot in snapshots:
            yield "snapshot", snapshot.version, "nothing of this kind takes snapshots", None
        if due is not None:
            yield "timer", due, "nothing of this kind is woken", None

    def _compare(self, stream: str, events: Iterator[Row], kept: _Feed) -> None:
        category, _, name = stream.partition("/")
        kinds = _KINDS.get(category, frozenset())
        state = Session()
        is_open = False
        for row in events:
            event = row.event
            if type(event) not in kinds:
                raise _in_stream(row, f"a stream of this name holds no {type(event).__name__}")
            if category != "session":
                continue
            if row.version == 1:
                state = self._beginning(row, name)
            try:
                after = evolve(state, event)  # type: ignore[arg-type]  # one of the session's
                heard = list(told(state, after, event))  # type: ignore[arg-type]  # likewise
            except Exception as error:
                raise _in_stream(row, f"it does not follow from what precedes it: {error!r:.200}") from error
            if heard:
                if is_open:
                    kept.pass_by(state, row.recorded_at, heard[0])
                kept.must_be(row, heard)
            is_open = isinstance(event, _BEGIN) or (is_open and isinstance(event, _GO_ON))
            state = after
        if is_open:
            kept.pass_by(state, 0, None)
        kept.must_end()

    def _beginning(self, row: Row, name: str) -> Session:
        """Return the state before the first event; that of a branch is what it shares with other sessions."""
        event = row.event
        if getattr(event, "session_id", None) != name:
            raise _in_stream(row, "it is not how this session begins")
        if not isinstance(event, SessionBranched):
            return Session()
        lineage: list[tuple[str, int]] = []
        branch: SessionBranched | None = event
        while branch is not None:
            stream, version = stream_of(branch.origin), branch.version
            digest = self._records.digest_at(stream, version)
            if digest is None or digest.hex() != branch.digest:
                problem = "which is another one" if digest else "which is not there"
                raise _in_stream(row, f"it branches off from version {version} of {stream!r}, {problem}")
            lineage.append((stream, version))
            branch = self._branched(row, stream)
        return reduce(
            believe, (one for stream, until in reversed(lineage) for one in self._read(row, stream, until)), Session()
        )

    def _branched(self, row: Row, stream: str) -> SessionBranched | None:
        first = next(self._read(row, stream, None), None)
        return first.event if first is not None and isinstance(first.event, SessionBranched) else None

    def _read(self, row: Row, stream: str, until: int | None) -> Iterator[Row]:
        try:
            for one in self._records.records(stream):
                if until is not None and one.version > until:
                    return
                yield one
        except LogUnusableError as error:
            raise _in_stream(row, f"what it branches off from cannot be read: {error}") from error


class _DeviatesError(Exception):
    def __init__(self, deviation: Deviation) -> None:
        super().__init__(deviation)
        self.deviation = deviation


def _in_stream(row: Row, problem: str) -> _DeviatesError:
    return _DeviatesError(("stream", row.version, problem, row.position))


def _in_feed(cursor: int, problem: str, row: Row | None = None) -> _DeviatesError:
    return _DeviatesError(("feed", cursor, problem, None if row is None else row.position))


class _Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    type: str
    at: int
    data: msgspec.Raw


class _Segment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    context: Context
    entries: list[_Entry]


_decode = msgspec.msgpack.Decoder(list[_Segment]).decode
_compacted = msgspec.msgpack.Decoder(DeltasCompacted).decode
_changed = msgspec.msgpack.Decoder(AgentStateChanged).decode
_encode = msgspec.msgpack.Encoder().encode


class _Feed:
    """What is kept of what subscribers were told, entry by entry."""

    def __init__(self, rows: Iterator[Stretch]) -> None:
        self._segments = _segments_of(rows)
        self._context = Context()
        self._entries: list[_Entry] = []
        self._cursors: Sequence[int] = ()
        self._said = _SAID
        self._index = 0
        self._load()

    def must_be(self, row: Row, heard: Sequence[tuple[Context, EventData]]) -> None:
        """Pass over what is heard of the event; nothing else may be between it."""
        for context, data in heard:
            if not self._is(row.recorded_at, context, data):
                stands = self._entries[self._index].type if self._entries else "nothing"
                problem = f"{stands} stands where {data.event_type} follows from version {row.version}"
                raise _in_feed(self._cursor, problem, row)
            self._index += 1
            if self._index == len(self._entries):
                self._load()

    def pass_by(self, state: Session, recorded_at: int, until: tuple[Context, EventData] | None) -> None:
        """Pass over what the environment of the turn under way may have said, up to what is heard of the next event."""
        context, wanted = of_turn(state), None if until is None else until[1].event_type
        while self._entries and self._context == context:
            index, entries, said = self._index, self._entries, self._said
            count = len(entries)
            while index < count:
                entry = entries[index]
                self._index = index
                if entry.type == wanted and until is not None and self._is(recorded_at, *until):
                    return
                if entry.type not in said and not _begins_to_respond(entry):
                    return
                index += 1
            self._load()

    def must_end(self) -> None:
        """Raise if there is more."""
        if self._entries:
            raise _in_feed(self._cursor, f"{self._entries[self._index].type} follows from no event")

    @property
    def _cursor(self) -> int:
        return self._cursors[self._index] if self._index < len(self._cursors) else self._end

    def _is(self, at: int, context: Context, data: EventData) -> bool:
        if not self._entries:
            return False
        entry = self._entries[self._index]
        if entry.type != data.event_type or entry.at != at or self._context != context:
            return False
        encoded = _encode(data)
        return bytes(entry.data) == encoded or _equal(type(data), entry.data, encoded)

    def _load(self) -> None:
        self._end = self._cursors[-1] + 1 if self._cursors else 1
        self._entries, self._cursors, self._index = [], (), 0
        for segment, cursors, is_sealed in self._segments:
            self._context, self._entries, self._cursors = segment.context, segment.entries, cursors
            self._said = _SAID_AND_COMPACTED if is_sealed else _SAID
            if segment.entries:
                return


def _segments_of(rows: Iterator[Stretch]) -> Iterator[tuple[_Segment, Sequence[int], bool]]:
    """Yield the segments, each with the cursors of its entries, and whether its row stands in place of others."""
    for row in rows:
        cursor = row.first_cursor
        try:
            segments = _decode(row.segments)
            for segment in segments:
                cursors: Sequence[int] = range(cursor, cursor + len(segment.entries))
                cursor += len(segment.entries)
                if row.is_sealed:
                    *cursors, cursor = _with_gaps(segment, cursors[0] if cursors else cursor)
                yield segment, cursors, row.is_sealed
        except msgspec.MsgspecError as error:
            raise _in_feed(row.first_cursor, f"the row cannot be decoded: {error}") from error
        if cursor != row.first_cursor + row.count:
            raise _in_feed(row.first_cursor, f"the row holds {cursor - row.first_cursor} cursors, not {row.count}")


def _with_gaps(segment: _Segment, cursor: int) -> Iterator[int]:
    """Yield the cursor of each entry, and in the end the one behind: what stands for a gap has all of its cursors."""
    for entry in segment.entries:
        yield cursor
        if entry.type == _COMPACTED:
            gap = _compacted(entry.data)
            if gap.first_cursor != cursor or gap.last_cursor < cursor:
                raise _in_feed(cursor, "what was compacted does not stand in its place")
            cursor = gap.last_cursor
        cursor += 1
    yield cursor


def _begins_to_respond(entry: _Entry) -> bool:
    return entry.type == _STATE_CHANGED and _changed(entry.data) == _RESPONDS


_RESPONDS: Final = AgentStateChanged(previous="thinking", current="responding")


def _equal(kind: type[EventData], stored: msgspec.Raw, encoded: bytes) -> bool:
    """Return whether both say the same; what was written earlier may lack fields that have a default today."""
    return msgspec.msgpack.decode(stored, type=kind) == msgspec.msgpack.decode(encoded, type=kind)
