"""The check of a session's feed, snapshots and branch points against the events of its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate, takewhile
from typing import Literal, Protocol, TypeAlias

import msgspec

from reenact.domain.chain import Passed
from reenact.domain.children import ChildEnded
from reenact.domain.container import ContainerCreated
from reenact.domain.errors import LogTooNewError, LogUnusableError
from reenact.domain.guards import GuardChecked
from reenact.domain.image import ImageRegistered
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.marks import equal_except_marks
from reenact.domain.session import child_turns
from reenact.domain.session.agent import (
    AnswerRecorded,
    ContextCompressed,
    HandoverRequested,
    MessageAccepted,
    MessageScheduled,
    RulesRecorded,
    ScheduleCancelled,
    ScheduleFired,
    StepStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from reenact.domain.session.announce import TODAY, of_turn, version_of
from reenact.domain.session.state import SNAPSHOT_VERSION, Session, SessionBranched, evolve, session_from_snapshot
from reenact.domain.stream.events import AgentStateChanged, Context, DeltasCompacted, TextDelta
from reenact.domain.stream.feed import Entry, FeedPart, unpack_feed
from reenact.projections.explain.history import SESSION_EVENTS, believe, is_of_session
from reenact.projections.log import Row, stream_of
from reenact.projections.verification.answer_check import COMPACTED, DELTAS, SAID, STARTS, StreamedAnswer, same
from reenact.projections.verification.family_check import Links, Records

Deviation: TypeAlias = tuple[Literal["stream", "feed", "snapshot", "timer"], int, str, int | None]
"""The kind of record, its version or cursor, the problem, and the position in the log if it is an event."""

_IN_SEALED = (SAID - DELTAS) | {COMPACTED}
"""Stream events that may be in a row that replaces others: such a row exists to drop deltas."""
_TEXT = frozenset({TextDelta.event_type, COMPACTED})


class DeviatesError(Exception):
    """A feed, or the stream from which it follows, cannot have been written like this."""

    def __init__(self, deviation: Deviation) -> None:
        super().__init__(deviation)
        self.deviation = deviation


def in_stream(row: Row, problem: str) -> DeviatesError:
    """Return the exception for an event."""
    return DeviatesError(("stream", row.version, problem, row.position))


def in_feed(cursor: int, problem: str, row: Row | None = None) -> DeviatesError:
    """Return the exception for an entry, or for an announcement of the event of the row."""
    return DeviatesError(("feed", cursor, problem, None if row is None else row.position))


def said(part: FeedPart, cursor: int) -> Iterator[tuple[int, Context, Entry]]:
    """Yield the entries with their cursors, from `cursor` on; the entry of a gap has the last of its cursors.

    Raises:
        DeviatesError: a gap is not at its cursor.
        msgspec.ValidationError: a context or a gap cannot be decoded.
    """
    for segment in part.segments:
        context = msgspec.convert(segment.context, Context)
        for entry in segment.entries:
            if entry.type == COMPACTED:
                gap = msgspec.convert(entry.data, DeltasCompacted)
                if gap.first_cursor != cursor or gap.last_cursor < cursor:
                    raise in_feed(cursor, "the compacted part is not in its place")
                cursor = gap.last_cursor
            yield cursor, context, entry
            cursor += 1


_STATE_CHANGED = AgentStateChanged.event_type
_RESPONDS = AgentStateChanged(previous="thinking", current="responding")


class IncomingAnswers:
    """Checks the streamed answers of a session, row by row."""

    def __init__(self) -> None:
        self.is_redacted = False
        """Whether an event of the stream was redacted, so that streamed and recorded content may differ."""
        self.is_cut = False
        """Whether the log failed during the answer, so that stream events may be missing."""
        self.is_open = False
        """Whether an answer may be in progress."""
        self.has_begun = False
        """Whether the feed has begun."""
        self.cursor = 1
        """The next cursor."""
        self._said: list[tuple[str, object]] | None = None
        self._is_there = False
        self._begun_at = 0
        self._responds = False
        self._awaits_text = False
        self._ended: StreamedAnswer | None = None

    def take(self, state: Session, part: FeedPart, *, is_sealed: bool) -> None:
        """Check the stream events that come before the events of a row.

        Raises:
            DeviatesError: no environment can have sent them.
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
        """Start to expect an answer; before the beginning of the feed, its events may be missing."""
        self._said, self._ended, self._responds, self._begun_at = [], None, False, self.cursor
        self._is_there = self.has_begun
        self.is_cut = self._awaits_text = False

    def must_be_answered(self, state: Session, row: Row, answer: AnswerRecorded) -> None:
        """Compare the recorded answer with the streamed one, if all of that is here."""
        if self._said or (self._said is not None and self._is_there):
            self._ended = streamed = self._streamed_answer(row)
            problem = streamed.unlike(answer, state.known_calls, is_redacted=self.is_redacted, is_cut=self.is_cut)
            if problem is not None:
                raise in_feed(self._begun_at, problem, row)
        self._said = None

    def must_be_completed(self, row: Row, completed: TurnCompleted) -> None:
        """Compare the end of the turn with the streamed events."""
        is_answered = self._said is None
        streamed = self._ended if is_answered else self._streamed_answer(row)
        self._said = self._ended = None
        if streamed is not None:
            problem = streamed.unlike_end(completed, is_redacted=self.is_redacted, is_answered=is_answered)
            if problem is not None:
                raise in_feed(self._begun_at, problem, row)

    def _take(self, kind: str, data: object) -> None:
        said, self._awaits_text = self._said, False
        if said is not None:
            if kind == STARTS:  # a new attempt: the answer consists of the last one
                said.clear()
                self._begun_at = self.cursor
            said.append((kind, data))

    def _streamed_answer(self, row: Row) -> StreamedAnswer:
        try:
            return StreamedAnswer(self._said or ())
        except (ValueError, RecursionError) as error:
            raise in_feed(self._begun_at, f"what was said cannot be decoded: {error}", row) from error

    def _begins_to_respond(self, entry: Entry) -> bool:
        """Return whether the entry announces the answer's first text, which happens once."""
        if self._responds or self._awaits_text or entry.type != _STATE_CHANGED:
            return False
        if msgspec.convert(entry.data, AgentStateChanged) != _RESPONDS:
            return False
        self._responds = self._awaits_text = True
        return True


_KINDS = {
    "container": frozenset({ContainerCreated}),
    "image": frozenset({ImageRegistered}),
    "session": SESSION_EVENTS,
}
"""The types of events in streams, by the first part of the stream's name."""

_BEGIN_ANSWER = (TurnStarted, StepStarted)
_SCHEDULING = (MessageScheduled, ScheduleCancelled, ScheduleFired)
_CHECKING = (RulesRecorded, GuardChecked, LimitWarning)
_CONTINUE_ANSWER = (MessageAccepted, ChildEnded, ContextCompressed, *_CHECKING, HandoverRequested, *_SCHEDULING)
"""Events after which an answer begins to arrive, and those during which it continues; any other ends it."""


def _times_of(session: Session) -> tuple[int | None, ...]:
    """Return the possible times of the session's timer: for its next message, or also for children that do not end."""
    to_come = [one.due for one in session.schedules]
    deadline = None if session.budget is None else child_turns.deadline(session)
    if session.interrupted is not None:
        deadline = session.interrupted.at + child_turns.patience(session)
    return min(to_come, default=None), min((*to_come, *(() if deadline is None else (deadline,))), default=None)


class Snapshot(Protocol):
    """A snapshot."""

    @property
    def version(self) -> int:
        """The version of the state."""
        ...

    @property
    def topic(self) -> str:
        """The form in which it is stored."""
        ...

    @property
    def state(self) -> bytes:
        """The stored state."""
        ...


class InspectedRow(Row, Protocol):
    """An event that is inspected."""

    @property
    def is_redacted(self) -> bool:
        """Whether the event was redacted."""
        ...


class Conversations:
    """Checks the streams of a log of sessions, one after the other."""

    def __init__(self, records: Records) -> None:
        """Take the access to rows that a branch shares with other sessions, and to those of families."""
        self.begun_later = 0
        """Sessions whose feeds begin later than they do: after an import without feeds, or if a whole feed is lost."""
        self.kin_missing = 0
        """Links to parents and children that are not in the log, after an export without the family."""
        self._records = records

    def knows(self, stream: str) -> bool:
        """Return True: a log of sessions holds no other streams."""
        return True

    def inspect(
        self,
        stream: str,
        rows: Iterator[Passed[InspectedRow]],
        snapshots: Iterator[Snapshot],
        due: int | None,
    ) -> Iterator[Deviation]:
        """Yield the deviations from what follows from the events of the stream.

        From some event on, the feed holds the announcements of each event, in order, and between them the stream events
        of answers, which must agree with the recorded answers. A session has a timer for its next scheduled message.
        """
        kept = {snapshot.version: snapshot for snapshot in snapshots}
        wrong: dict[int, str] = {}
        if not stream.startswith("session/"):
            wrong = dict.fromkeys(kept, "nothing of this kind takes snapshots")
        times: tuple[int | None, ...] = (due,)
        try:
            times = _times_of(self._compare(stream, rows, kept, wrong))
        except DeviatesError as error:
            yield error.deviation
        for version, problem in wrong.items():
            yield "snapshot", version, problem, None
        if due not in times:
            problem = "nothing is to come" if times[0] is None else f"a message is to come at {times[0]}"
            yield "timer", due or 0, problem, None

    def _compare(
        self,
        stream: str,
        rows: Iterator[Passed[InspectedRow]],
        snapshots: Mapping[int, Snapshot],
        wrong: dict[int, str],
    ) -> Session:
        """Compare the feed and the snapshots with the events of the stream; return the session's last state."""
        answers, state, begins_later = IncomingAnswers(), Session(), False
        links = Links(self._records, lambda first: self._state_before(first, first.stream.partition("/")[2]))
        kinds = _KINDS.get(stream.partition("/")[0], frozenset())
        for passed in rows:
            for row in passed.events:
                if type(row.event) not in kinds:
                    raise in_stream(row, f"a stream of this name holds no {type(row.event).__name__}")
            step = [row for row in passed.events if is_of_session(row.event)]
            if step and step[0].version == 1:
                state = self._state_before(step[0], stream.partition("/")[2])
            states = list(accumulate(step, _evolved, initial=state))
            begins_later = _is_unannounced(stream, state, step, passed, answers) or begins_later
            for row, before, after in zip(step, states, states[1:], strict=False):
                self._compare_answer(answers, before, row)
                problem = links.problem_of(row, before, after)
                if problem is not None:
                    raise in_stream(row, problem)
                answers.is_open = isinstance(row.event, _BEGIN_ANSWER) or (
                    answers.is_open and isinstance(row.event, _CONTINUE_ANSWER)
                )
                if row.version in snapshots:
                    problem = _problem_of(snapshots[row.version], after)
                    if problem is not None:
                        wrong[row.version] = problem
            state = states[-1]
        self.begun_later += begins_later
        self.kin_missing += links.missing
        return state

    def _compare_answer(self, answers: IncomingAnswers, state: Session, row: Row) -> None:
        """Compare the stream events with the recorded event; `state` is that before the event."""
        match row.event:
            case TurnStarted() | StepStarted():
                answers.begin()
            case TurnFailed():
                answers.is_cut = True
            case AnswerRecorded() as answer:
                answers.must_be_answered(state, row, answer)
            case TurnCompleted() as completed if state.turn is not None and state.turn.id == completed.turn_id:
                answers.must_be_completed(row, completed)
            case _:
                pass

    def _state_before(self, row: Row, name: str) -> Session:
        """Return the state before the first event; for a branch, the state after the events that it shares."""
        event = row.event
        if getattr(event, "session_id", None) != name:
            raise in_stream(row, "it is not how this session begins")
        if not isinstance(event, SessionBranched):
            return Session()
        try:
            return reduce(believe, self._shared(row, event), Session())
        except LogUnusableError as error:
            raise in_stream(row, f"what it branches off from cannot be read: {error}") from error

    def _shared(self, row: Row, branch: SessionBranched | None) -> Iterator[Row]:
        """Yield the events that the branch beginning with the row shares with other sessions."""
        lineage: list[tuple[str, int]] = []
        while branch is not None:
            stream, version = stream_of(branch.origin), branch.version
            digest = self._records.digest_at(stream, version)
            if digest is None or digest.hex() != branch.digest or stream in dict(lineage):
                problem = "which is another one" if digest else "which is not there"
                raise in_stream(row, f"it branches off from version {version} of {stream!r}, {problem}")
            lineage.append((stream, version))
            first = next(self._records.records(stream), None)
            branch = first.event if first is not None and isinstance(first.event, SessionBranched) else None
        for stream, until in reversed(lineage):
            yield from takewhile(lambda one: one.version <= until, self._records.records(stream))  # noqa: B023 - taken at once


def _evolved(session: Session, row: InspectedRow) -> Session:
    try:
        return evolve(session, row.event) if is_of_session(row.event) else session
    except Exception as error:
        raise in_stream(row, f"it does not follow from what precedes it: {error!r:.200}") from error


def _is_unannounced(
    stream: str,
    state: Session,
    step: Sequence[InspectedRow],
    passed: Passed[InspectedRow],
    answers: IncomingAnswers,
) -> bool:
    """Check the feed part of a row against the state before it; return whether its events are not announced.

    Raises:
        DeviatesError: it holds something that does not follow from the state.
    """
    answers.is_redacted = answers.is_redacted or any(row.is_redacted for row in step)
    cursor, events = answers.cursor, [row.event for row in step]
    try:
        part = FeedPart() if passed.feed is None else unpack_feed(passed.feed, stream, passed.stored)
        if passed.heard:
            answers.take(state, part, is_sealed=passed.is_sealed)
        version = version_of(part.version or TODAY, f"row {cursor} of the feed of {stream!r}")
        needs = version.needed(state, events)
        announced = len(version.announce(stream.partition("/")[2], needs, events))
        stored = version.read(part.needs) if part.version else None
    except LogTooNewError as error:
        raise in_feed(cursor, str(error)) from error
    except (ValueError, RecursionError) as error:
        raise in_feed(cursor, f"the row cannot be decoded: {error}") from error
    if stored is None:
        is_unheard = announced > 0
        if is_unheard and answers.has_begun:
            raise in_feed(cursor, f"nothing announces version {step[0].version}", step[0])
    else:
        is_unheard = False
        is_changed = answers.is_redacted or passed.is_sealed
        if not same(stored, needs) and not (is_changed and equal_except_marks(stored, needs)):
            raise in_feed(cursor, "what it announces is not what follows from the events before it")
        answers.cursor += announced
    if answers.cursor != cursor + passed.heard:
        raise in_feed(cursor, f"the row holds {answers.cursor - cursor} cursors, not {passed.heard}")
    return is_unheard


def _problem_of(snapshot: Snapshot, session: Session) -> str | None:
    category, _, version = snapshot.topic.rpartition(":")
    if category != "session" or version not in map(str, range(1, SNAPSHOT_VERSION + 1)):
        return f"it is of the unknown form {snapshot.topic!r:.100}"
    if version != str(SNAPSHOT_VERSION):
        return None  # no version reads it any more
    try:
        taken = session_from_snapshot(snapshot.state)
    except ValueError:
        return "it cannot be decoded"
    return None if taken == session else f"it says {taken!r:.500}, the events say {session!r:.500}"
