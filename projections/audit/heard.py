"""What a session's subscribers were told, entry by entry, as its feed keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from reenact.domain.announce import of_turn
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
from reenact.domain.session import Session
from reenact.projections.log import Row

Deviation: TypeAlias = tuple[Literal["stream", "feed", "snapshot", "timer"], int, str, int | None]
"""What it is about, the version or cursor, what is wrong, and the position in the log if it is about an event."""

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


class DeviatesError(Exception):
    """A feed, or the stream that it follows from, is not as it can have been written."""

    def __init__(self, deviation: Deviation) -> None:
        super().__init__(deviation)
        self.deviation = deviation


def in_stream(row: Row, problem: str) -> DeviatesError:
    """Return what is raised about an event."""
    return DeviatesError(("stream", row.version, problem, row.position))


def in_feed(cursor: int, problem: str, row: Row | None = None) -> DeviatesError:
    """Return what is raised about an entry, which should be one that follows from the event of the row."""
    return DeviatesError(("feed", cursor, problem, None if row is None else row.position))


class _Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    type: str
    at: int
    data: msgspec.Raw


class _Segment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    context: Context
    entries: list[_Entry]


_decode = msgspec.msgpack.Decoder(list[_Segment]).decode
_compacted = msgspec.msgpack.Decoder(DeltasCompacted).decode
_encode = msgspec.msgpack.Encoder().encode


class Told:
    """What is kept of what subscribers were told, entry by entry."""

    def __init__(self, rows: Iterator[Stretch], *, is_redacted: bool = False) -> None:
        """Read the rows as they are asked for; if something is redacted, what entries say is taken for true."""
        self._is_redacted = is_redacted
        self._segments = _segments_of(rows)
        self._context = Context()
        self._entries: list[_Entry] = []
        self._cursors: Sequence[int] = ()
        self._said = _SAID
        self._index = 0
        self.has_begun = False
        """Whether anything was passed over."""
        self._load()

    def is_next(self, at: int, context: Context, data: EventData) -> bool:
        """Return whether this is what comes next."""
        if not self._entries:
            return False
        entry = self._entries[self._index]
        if entry.type != data.event_type or entry.at != at or self._context != context:
            return False
        if self._is_redacted:
            return True
        encoded = _encode(data)
        return bytes(entry.data) == encoded or _equal(type(data), entry.data, encoded)

    def must_be(self, row: Row, heard: Sequence[tuple[Context, EventData]]) -> None:
        """Pass over what is heard of the event; nothing else may be between it."""
        for context, data in heard:
            if not self.is_next(row.recorded_at, context, data):
                stands = self._entries[self._index].type if self._entries else "nothing"
                problem = f"{stands} stands where {data.event_type} follows from version {row.version}"
                raise in_feed(self._cursor, problem, row)
            self.has_begun = True
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
                if entry.type == wanted and until is not None and self.is_next(recorded_at, *until):
                    return
                if entry.type not in said and not _begins_to_respond(entry):
                    return
                self.has_begun = True
                index += 1
            self._load()

    def must_end(self) -> None:
        """Raise if there is more."""
        if self._entries:
            raise in_feed(self._cursor, f"{self._entries[self._index].type} follows from no event")

    @property
    def _cursor(self) -> int:
        return self._cursors[self._index] if self._index < len(self._cursors) else self._end

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
            raise in_feed(row.first_cursor, f"the row cannot be decoded: {error}") from error
        if cursor != row.first_cursor + row.count:
            raise in_feed(row.first_cursor, f"the row holds {cursor - row.first_cursor} cursors, not {row.count}")


def _with_gaps(segment: _Segment, cursor: int) -> Iterator[int]:
    """Yield the cursor of each entry, and in the end the one behind: what stands for a gap has all of its cursors."""
    for entry in segment.entries:
        yield cursor
        if entry.type == _COMPACTED:
            gap = _compacted(entry.data)
            if gap.first_cursor != cursor or gap.last_cursor < cursor:
                raise in_feed(cursor, "what was compacted does not stand in its place")
            cursor = gap.last_cursor
        cursor += 1
    yield cursor


def _begins_to_respond(entry: _Entry) -> bool:
    return entry.type == _STATE_CHANGED and _equal(AgentStateChanged, entry.data, _encode(_RESPONDS))


_RESPONDS: Final = AgentStateChanged(previous="thinking", current="responding")


def _equal(kind: type[EventData], stored: msgspec.Raw, encoded: bytes) -> bool:
    """Return whether both say the same; what was written earlier may lack fields that have a default today."""
    try:
        return msgspec.msgpack.decode(stored, type=kind) == msgspec.msgpack.decode(encoded, type=kind)
    except msgspec.MsgspecError:
        return False
