"""What environments have said while answers came in, as a session's feed keeps it, held to the answers recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from reenact.domain.agent import AnswerRecorded, TurnCompleted
from reenact.domain.announce import of_turn
from reenact.domain.events import AgentStateChanged, Context, DeltasCompacted, TextDelta
from reenact.domain.feed import FeedPart
from reenact.domain.session import Session
from reenact.projections.audit.saying import COMPACTED, DELTAS, SAID, STARTS, Entry, Said
from reenact.projections.log import Row

Deviation: TypeAlias = tuple[Literal["stream", "feed", "snapshot", "timer"], int, str, int | None]
"""What it is about, the version or cursor, what is wrong, and the position in the log if it is about an event."""

_IN_SEALED: Final = (SAID - DELTAS) | {COMPACTED}
"""What of it may stand in a row that stands in place of others: it is there so that deltas are not."""
_TEXT: Final = frozenset({TextDelta.event_type, COMPACTED})


class DeviatesError(Exception):
    """A feed, or the stream that it follows from, is not as it can have been written."""

    def __init__(self, deviation: Deviation) -> None:
        super().__init__(deviation)
        self.deviation = deviation


def in_stream(row: Row, problem: str) -> DeviatesError:
    """Return what is raised about an event."""
    return DeviatesError(("stream", row.version, problem, row.position))


def in_feed(cursor: int, problem: str, row: Row | None = None) -> DeviatesError:
    """Return what is raised about an entry, or about what is announced of the event of the row."""
    return DeviatesError(("feed", cursor, problem, None if row is None else row.position))


class _Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    type: str
    at: int
    data: msgspec.Raw


class _Segment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    context: Context
    entries: list[_Entry]


Part: TypeAlias = FeedPart[_Segment]


def said(part: Part, cursor: int) -> Iterator[tuple[int, Context, _Entry]]:
    """Yield what was said, the first of which has the cursor; what stands for a gap has the last of its cursors.

    Raises:
        DeviatesError: a gap is not where it says.
    """
    for segment in part.segments:
        for entry in segment.entries:
            if entry.type == COMPACTED:
                gap = _compacted(entry.data)
                if gap.first_cursor != cursor or gap.last_cursor < cursor:
                    raise in_feed(cursor, "what was compacted does not stand in its place")
                cursor = gap.last_cursor
            yield cursor, segment.context, entry
            cursor += 1


decode_part: Final = msgspec.msgpack.Decoder(FeedPart[_Segment]).decode
_compacted: Final = msgspec.msgpack.Decoder(DeltasCompacted).decode
_changed: Final = msgspec.msgpack.Decoder(AgentStateChanged).decode
_STATE_CHANGED: Final = AgentStateChanged.event_type
_RESPONDS: Final = AgentStateChanged(previous="thinking", current="responding")


class Answers:
    """The answers of a session as they come in, row by row."""

    def __init__(self) -> None:
        self.is_redacted = False
        """Whether something was taken out of an event of the stream, so that what was said may say more, or less."""
        self.is_cut = False
        """Whether the log has failed while the answer came in, so that something of it may not be here."""
        self.is_open = False
        """Whether an answer may come in."""
        self.has_begun = False
        """Whether the feed has."""
        self.cursor = 1
        """That of what comes next."""
        self._said: list[Entry] | None = None
        self._is_there = False
        self._begun_at = 0
        self._responds = False
        self._awaits_text = False
        self._ended: Said | None = None

    def take(self, state: Session, part: Part, *, is_sealed: bool) -> None:
        """Take in what was said before the events of a row.

        Raises:
            DeviatesError: nobody can have said it.
        """
        context = of_turn(state) if self.is_open else None
        allowed = _IN_SEALED if is_sealed else SAID
        self.has_begun = True
        for cursor, about, entry in said(part, self.cursor):
            kind = entry.type
            is_said = kind in allowed and (not self._awaits_text or kind in _TEXT)
            if about != context or not (is_said or self._begins_to_respond(entry)):
                raise in_feed(self.cursor, f"{kind} follows from no event")
            if is_said:
                self._take(kind, entry.data)
            self.cursor = cursor + 1

    def begin(self) -> None:
        """From here on an answer may come in, which there may be nothing of before the feed begins."""
        self._said, self._ended, self._responds, self._begun_at = [], None, False, self.cursor
        self._is_there = self.has_begun
        self.is_cut = self._awaits_text = False

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
                self._begun_at = self.cursor
            said.append((kind, data))

    def _gathered(self, row: Row) -> Said:
        try:
            return Said(self._said or ())
        except (ValueError, RecursionError) as error:
            raise in_feed(self._begun_at, f"what was said cannot be decoded: {error}", row) from error

    def _begins_to_respond(self, entry: _Entry) -> bool:
        """Return whether this is where the text of the answer begins, which it does once."""
        if self._responds or self._awaits_text or entry.type != _STATE_CHANGED or not _is_response(entry.data):
            return False
        self._responds = self._awaits_text = True
        return True


def _is_response(data: msgspec.Raw) -> bool:
    try:
        return _changed(data) == _RESPONDS
    except (ValueError, RecursionError):
        return False
