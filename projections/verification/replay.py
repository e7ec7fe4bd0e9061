"""Replay of decisions: today's code decides each recorded step again, up to the first one that it decides differently.

Only the log is read. Histories are read page by page, one session after the other, so that memory use does not grow
with the log. A branch is replayed from its own first event on, from the state that it shares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TypeAlias

import msgspec

from reenact.domain import container, image
from reenact.domain.container import Container, ContainerCreated, CreateContainer
from reenact.domain.errors import LogUnusableError
from reenact.domain.history.causes import AnyCommand
from reenact.domain.history.decision_replay import DecisionReplay, Divergence, command_of, failed, first_difference
from reenact.domain.history.what_if import Otherwise
from reenact.domain.image import ImageRegistered, Images, RegisterImage
from reenact.domain.loop.rules import Rules
from reenact.domain.marks import is_marked
from reenact.domain.session.state import Session, SessionBranched, SessionForgotten
from reenact.projections.explain.entries import Fields, check_session, fields_of, session_of
from reenact.projections.explain.history import believe, event_of, history_of, steps_of
from reenact.projections.log import AuditedLog, OnProgress, Progress, Row, name_of, stream_of, stretches

_PAGE = 1000
"""The number of events read at a time."""
_PHASE = "replay"
_FORGOTTEN = ("session-forgotten",)
"""The stored name of the event that begins a forgotten session, of which nothing else can be read."""
_NO_RULES = Rules()


class PlainEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event in a form for programs: its name and its fields."""

    type: str
    data: Fields


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """Where today's code differs from a history, and how.

    `position` and `version` are those of the recorded event, and `recorded` is its content; where the history ends
    before today's decision does, `position` and `recorded` are None. `decided` is today's event at this place, None if
    there is none. `field` is the path to the first field in which the two differ, if they are of one type; `command` is
    the type of the command that was recorded with the step.
    """

    position: int | None
    version: int
    recorded: PlainEvent | None = None
    decided: PlainEvent | None = None
    field: str = ""
    command: str | None = None
    problem: str


class Retraced(msgspec.Struct, frozen=True, kw_only=True):
    """The result of replaying a history: the numbers of its steps and events that were decided as recorded.

    It is the history of a session or, if `session_id` is None, of another stream. `undecided` is the number of steps
    that could not be decided again because data was redacted. A session that was `forgotten` cannot be replayed.

    For a what-if analysis: the number of `decisions` that were made again, and those that would be `otherwise`;
    `undecided` is then the number of decisions that cannot be made again from the log alone.
    """

    stream: str
    session_id: str | None
    steps: int
    events: int
    divergence: Parting | None = None
    undecided: int = 0
    decisions: int = 0
    otherwise: tuple[Otherwise, ...] = ()
    forgotten: bool = False


def retrace(
    log: AuditedLog, session_id: str | None = None, *, progress: OnProgress | None = None
) -> Iterator[Retraced]:
    """Yield the result of replaying each history of the log, or that of one session, up to its first divergence.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        StorageError: the log cannot be read. An event that cannot be read counts as a divergence.
    """
    yield from histories(log, session_id, _follower, progress)


class Follower(ABC):
    """Follows one history step by step, from its own first event; the counters are those of `Retraced`."""

    def __init__(self) -> None:
        self.steps = 0
        self.undecided = 0
        self.decisions = 0
        self.otherwise: list[Otherwise] = []

    @abstractmethod
    def follow(self, rows: Sequence[Row]) -> Divergence | None:
        """Replay a step; return where today's code differs from it."""


Begin: TypeAlias = Callable[[str, Sequence[Row]], Follower]
"""Returns the follower of a history of this kind, with the rows that it shares."""


def histories(
    log: AuditedLog, session_id: str | None, begin: Begin, progress: OnProgress | None = None
) -> Iterator[Retraced]:
    """Yield the result of following each history of the log, or that of one session.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        StorageError: the log cannot be read.
    """
    replays = _LogReplay(log, begin, progress)
    if session_id is None:
        yield from replays.all()
    else:
        check_session(log, session_id)
        yield replays.of(stream_of(session_id))


class _PlainFollower(Follower):
    """A container or an image."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self._state: Container | Images = Container() if kind == "container" else Images()

    def follow(self, rows: Sequence[Row]) -> Divergence | None:
        """Replay a step; return where today's code differs from it."""
        cause, events = rows[0].cause, [row.event for row in rows]
        command: AnyCommand | None = None
        try:
            command = command_of(cause, events, _NO_RULES)
            divergence = first_difference(events, command, self._decided(command))
        except Exception as error:  # noqa: BLE001 - any error is a divergence
            divergence = failed(events, command, error)
        if divergence is not None and not is_marked(events):  # values that differed before may be equal after redaction
            return divergence
        for event in events:
            match self._state, event:
                case Container(), ContainerCreated():
                    self._state = container.evolve(self._state, event)
                case Images(), ImageRegistered():
                    self._state = image.evolve(self._state, event)
                case _:
                    pass
        self.steps += 1
        self.undecided += divergence is not None
        return None

    def _decided(self, command: AnyCommand) -> Sequence[object]:
        match self._state, command:
            case Container(), CreateContainer():
                return container.decide(self._state, command)
            case Images(), RegisterImage():
                return image.decide(self._state, command)
            case _:
                raise LogUnusableError(f"{type(command).__name__} is not a command of a stream {self._kind!r}")


class _SessionFollower(Follower):
    """A session; a branch begins with the rows that it shares."""

    def __init__(self, shared: Sequence[Row]) -> None:
        super().__init__()
        self._replay = DecisionReplay(reduce(believe, shared, Session()))

    def follow(self, rows: Sequence[Row]) -> Divergence | None:
        """Replay a step; return where today's code differs from it."""
        try:
            divergence = self._replay.follow(rows[0].cause, [event_of(row) for row in rows])
        except LogUnusableError as error:
            return failed([row.event for row in rows], None, error)
        self.steps, self.undecided = self._replay.steps, self._replay.undecided
        return divergence


def _follower(kind: str, shared: Sequence[Row]) -> Follower:
    return _SessionFollower(shared) if kind == "session" else _PlainFollower(kind)


class HistoryReplay:
    """The replay of one history up to its first divergence; it can continue with events that are written later."""

    def __init__(self, log: AuditedLog, stream: str, begin: Begin = _follower) -> None:
        """Begin before the first event of the stream."""
        self.stream = stream
        self.position = 0
        """The position of the last event that was decided as recorded."""
        self._log = log
        self._begin = begin
        self._kind = stream.partition("/")[0]
        self._history_follower = begin(self._kind, ())
        self._events = self._last = 0
        self._divergence: Parting | None = None
        self._is_forgotten = False
        self._read_error: LogUnusableError | None = None

    def go_on(self, until: int, page: int = _PAGE) -> Iterator[int]:
        """Replay up to the position, in whole steps; yields the number of events after each step.

        Raises:
            StorageError: the log cannot be read. An event that cannot be read counts as a divergence.
        """
        try:
            for rows in () if self._divergence is not None else steps_of(self._rows(until, page)):
                if isinstance(rows[-1].event, SessionForgotten):
                    self._is_forgotten = True
                    return
                if self._events == 0 and isinstance(rows[0].event, SessionBranched):
                    self._history_follower = self._branch(rows[0].event.session_id)
                divergence = self._history_follower.follow(rows)
                if divergence is not None and self._read_error is None:
                    self._events += divergence.place
                    self._divergence = _parting_of(rows, divergence)
                    break
                self._events, self._last, self.position = self._events + len(rows), rows[-1].version, rows[-1].position
                yield self._events
        except LogUnusableError as error:  # the shared history of a branch is missing, or cannot be read
            self._read_error = error
        if self._divergence is None and self._read_error is not None:
            self._is_forgotten = self._was_forgotten()
            if not self._is_forgotten:
                self._divergence = Parting(position=None, version=self._last + 1, problem=str(self._read_error))

    def _was_forgotten(self) -> bool:
        try:
            return bool(self._log.find(stream=self.stream, names=_FORGOTTEN, limit=1))
        except LogUnusableError:  # a row is damaged, so it is not known of which events
            return False

    def result(self) -> Retraced:
        """Return the result so far."""
        return Retraced(
            stream=self.stream,
            session_id=session_of(self.stream),
            steps=self._history_follower.steps,
            events=self._events,
            divergence=self._divergence,
            undecided=self._history_follower.undecided,
            decisions=self._history_follower.decisions,
            otherwise=tuple(self._history_follower.otherwise),
            forgotten=self._is_forgotten,
        )

    def _rows(self, until: int, page: int) -> Iterator[Row]:
        """Yield the events after the last step; stop before an event that cannot be read, and record the error."""
        version, limit = self._last, page
        while True:
            try:
                found = self._log.find(stream=self.stream, after_version=version, until=until, limit=limit)
            except LogUnusableError as error:
                if limit == 1:
                    self._read_error = error
                    return
                limit = 1
                continue
            if not found:
                return
            yield from found
            version = found[-1].version

    def _branch(self, session_id: str) -> Follower:
        """Return the follower of the branch, in the state that it shares."""
        stream = stream_of(session_id)
        shared = [row for row in history_of(self._log, session_id) if row.stream != stream]
        try:
            return self._begin(self._kind, shared)
        except LogUnusableError as error:
            message = f"today's code cannot take in the history that {session_id!r} shares: {error}"
            raise LogUnusableError(message) from error


class _LogReplay:
    """One pass over a log, up to its end at the start of the pass."""

    def __init__(self, log: AuditedLog, begin: Begin, progress: OnProgress | None) -> None:
        self._log = log
        self._begin = begin
        self._progress = progress
        self._head = log.head()
        self._done = 0

    def all(self) -> Iterator[Retraced]:
        """Yield the result of every history, in the order of their first events."""
        for begins, ends in stretches(self._log, 0, self._head):
            for first in self._streams_begun(begins, ends):
                yield first if isinstance(first, Retraced) else self.of(first)

    def of(self, stream: str) -> Retraced:
        """Return the result of one history."""
        replay, told = HistoryReplay(self._log, stream, self._begin), 0
        for events in replay.go_on(self._head):
            if events - told >= _PAGE:
                self._report_progress(events - told)
                told = events
        self._report_progress(replay.result().events - told)
        return replay.result()

    def _streams_begun(self, after: int, until: int) -> Iterator[str | Retraced]:
        """Yield the streams that begin at these positions, and a divergence for each event that cannot be read."""
        try:
            rows = [
                *self._log.find(after=after, until=until, until_version=1, limit=until - after),
                *self._log.find(after=after, until=until, names=_FORGOTTEN, limit=until - after),
            ]
        except LogUnusableError as error:
            if until - after > 1:
                middle = (after + until) // 2
                yield from self._streams_begun(after, middle)
                yield from self._streams_begun(middle, until)
                return
            divergence = Parting(position=until, version=1, problem=str(error))
            yield Retraced(stream="", session_id=None, steps=0, events=0, divergence=divergence)
            return
        yield from dict.fromkeys(row.stream for row in rows)

    def _report_progress(self, events: int) -> None:
        self._done += events
        if self._progress is not None and events:
            self._progress(Progress(_PHASE, self._done, self._head))


def _parting_of(rows: Sequence[Row], divergence: Divergence) -> Parting:
    at = divergence.place
    row = rows[at] if at < len(rows) else None
    return Parting(
        position=None if row is None else row.position,
        version=rows[-1].version + 1 if row is None else row.version,
        recorded=_as_plain(divergence.recorded),
        decided=_as_plain(divergence.decided),
        field=divergence.field,
        command=None if divergence.command is None else type(divergence.command).__name__,
        problem=divergence.problem,
    )


def _as_plain(event: object) -> PlainEvent | None:
    return None if event is None else PlainEvent(type=name_of(event), data=fields_of(event))
