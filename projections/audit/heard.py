"""What a session's subscribers were told, entry by entry, as its feed keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from reenact.domain.agent import AnswerRecorded, TurnCompleted
from reenact.domain.announce import of_turn
from reenact.domain.events import AgentStateChanged, Context, DeltasCompacted, EventData, TextDelta
from reenact.domain.session import Session
from reenact.projections.audit.marked import agree
from reenact.projections.audit.saying import COMPACTED, DELTAS, SAID, STARTS, Entry, Said
from reenact.projections.log import Row

Deviation: TypeAlias = tuple[Literal["stream", "feed", "snapshot", "timer"], int, str, int | None]
"""What it is about, the version or cursor, what is wrong, and the position in the log if it is about an event."""

_STATE_CHANGED: Final = AgentStateChanged.event_type
_IN_SEALED: Final = (SAID - DELTAS) | {COMPACTED}
"""What of it may stand in a row that stands in place of others: it is there so that deltas are not."""
_TEXT: Final = frozenset({TextDelta.event_type, COMPACTED})


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
_changed = msgspec.msgpack.Decoder(AgentStateChanged).decode
_encode = msgspec.msgpack.Encoder().encode


class Told:
    """What is kept of what subscribers were told, entry by entry."""

    def __init__(self, rows: Iterator[Stretch]) -> None:
        self.is_redacted = False
        """Whether something was taken out of an event of the stream, so that its copies may say more, or less."""
        self.is_cut = False
        """Whether the log has failed while the answer came in, so that something of it may not be here."""
        self.has_begun: bool = False
        """Whether anything was passed over."""
        self._segments = _segments_of(rows)
        self._context = Context()
        self._entries: list[_Entry] = []
        self._cursors: Sequence[int] = ()
        self._allowed = SAID
        self._is_sealed = False
        self._index = 0
        self._said: list[Entry] | None = None
        self._is_there: bool = False
        self._begun_at = 0
        self._responds = False
        self._awaits_text = False
        self._ended: Said | None = None
        self._load()

    def is_next(self, at: int, context: Context, data: EventData) -> bool:
        """Return whether this is what comes next."""
        if not self._entries:
            return False
        entry = self._entries[self._index]
        if entry.type != data.event_type or entry.at != at or self._context != context:
            return False
        encoded = _encode(data)
        try:
            if bytes(entry.data) == encoded or _equal(type(data), entry.data, encoded):
                return True
            return (self._is_sealed or self.is_redacted) and agree(_plain(entry.data), _plain(encoded))
        except (ValueError, RecursionError):  # it is no such entry
            return False

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

    def begin(self) -> None:
        """From here on an answer may come in, which there may be nothing of before the feed begins."""
        self._said, self._ended, self._responds, self._begun_at = [], None, False, self._cursor
        self._is_there = self.has_begun
        self.is_cut = self._awaits_text = False

    def pass_by(self, state: Session, recorded_at: int, until: tuple[Context, EventData] | None) -> None:
        """Pass over what the environment of the turn under way may have said, up to what is heard of the next event."""
        context, wanted = of_turn(state), None if until is None else until[1].event_type
        while self._entries and self._context == context:
            entries, allowed, said, awaits = self._entries, self._allowed, self._said, self._awaits_text
            begin = self._index
            for index in range(begin, len(entries)):
                entry = entries[index]
                kind = entry.type
                if kind in DELTAS and kind in allowed and (not awaits or kind in _TEXT):  # most of them
                    if said is not None:
                        said.append((kind, entry.data))
                    awaits = False
                    continue
                self._index, self._awaits_text, self.has_begun = index, awaits, self.has_begun or index > begin
                if kind == wanted and until is not None and self.is_next(recorded_at, *until):
                    return
                if kind in allowed and (not awaits or kind in _TEXT):
                    self._take(kind, entry.data)
                elif not self._begins_to_respond(entry):
                    return
                awaits = self._awaits_text
            self.has_begun, self._awaits_text = True, awaits
            self._load()

    def must_be_answered(self, state: Session, row: Row, answer: AnswerRecorded) -> None:
        """Hold what was said to the answer, if all of it stands here."""
        if self._said is not None and not (self._said or self._is_there):
            self._said = None
        if self._said is not None:
            said = self._ended = self._gathered(row)
            problem = said.unlike(answer, state.known_calls, is_redacted=self.is_redacted, is_cut=self.is_cut)
            if problem is not None:
                raise in_feed(self._begun_at, problem, row)
            self._said = None

    def must_be_completed(self, row: Row, completed: TurnCompleted) -> None:
        """Hold what was said to how the turn has ended."""
        is_answered, said = self._said is None, self._ended
        if self._said is not None:
            said, self._said = self._gathered(row), None
        self._ended = None
        problem = None
        if said is not None:
            problem = said.unlike_end(completed, is_redacted=self.is_redacted, is_answered=is_answered)
        if problem is not None:
            raise in_feed(self._begun_at, problem, row)

    def _take(self, kind: str, data: msgspec.Raw) -> None:
        said, self._awaits_text = self._said, False
        if said is not None:
            if kind == STARTS:  # another attempt, of which alone the answer is made
                said.clear()
                self._begun_at = self._cursor
            said.append((kind, data))

    def _gathered(self, row: Row) -> Said:
        try:
            return Said(self._said or ())
        except (ValueError, RecursionError) as error:
            raise in_feed(self._begun_at, f"what was said cannot be decoded: {error}", row) from error

    def _begins_to_respond(self, entry: _Entry) -> bool:
        """Return whether this is where the text of the answer begins, which it does once."""
        if self._responds or entry.type != _STATE_CHANGED or not _is_response(entry.data):
            return False
        self._responds = self._awaits_text = True
        return True

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
            self._allowed = _IN_SEALED if is_sealed else SAID
            self._is_sealed = is_sealed
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
        except (ValueError, RecursionError) as error:
            raise in_feed(row.first_cursor, f"the row cannot be decoded: {error}") from error
        if cursor != row.first_cursor + row.count:
            raise in_feed(row.first_cursor, f"the row holds {cursor - row.first_cursor} cursors, not {row.count}")


def _with_gaps(segment: _Segment, cursor: int) -> Iterator[int]:
    """Yield the cursor of each entry, and in the end the one behind: what stands for a gap has all of its cursors."""
    for entry in segment.entries:
        yield cursor
        if entry.type == COMPACTED:
            gap = _compacted(entry.data)
            if gap.first_cursor != cursor or gap.last_cursor < cursor:
                raise in_feed(cursor, "what was compacted does not stand in its place")
            cursor = gap.last_cursor
        cursor += 1
    yield cursor


_RESPONDS: Final = AgentStateChanged(previous="thinking", current="responding")


def _is_response(data: msgspec.Raw) -> bool:
    try:
        return _changed(data) == _RESPONDS
    except (ValueError, RecursionError):
        return False


def _equal(kind: type[EventData], stored: msgspec.Raw, encoded: bytes) -> bool:
    """Return whether both say the same; what was written earlier may lack fields that have a default today."""
    return msgspec.msgpack.decode(stored, type=kind) == msgspec.msgpack.decode(encoded, type=kind)


def _plain(encoded: bytes | msgspec.Raw) -> object:
    return msgspec.msgpack.decode(encoded)
