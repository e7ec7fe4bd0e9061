"""Today's code over the histories of a log: each decided anew, step by step, until one parts from what was recorded.

Only the log is read. A session's history is followed page by page, and one session after the other, so that how much is
held does not grow with the log. A branch is followed from its own first event on, from the state that it shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from reenact.domain import container, image
from reenact.domain.container import Container, ContainerCreated, CreateContainer
from reenact.domain.errors import InvalidInputError, LogUnusableError, ReenactError, SessionNotFoundError
from reenact.domain.image import Definition, ImageRegistered, Images, RegisterImage, rules_of
from reenact.domain.loop.ledger import Price
from reenact.domain.loop.policy import Policies
from reenact.domain.loop.rules import Rules
from reenact.domain.marks import alike, is_marked
from reenact.domain.retracing import Divergence, Retracing, difference
from reenact.domain.session import Session, SessionBranched, SessionCreated
from reenact.projections.audit.api import AuditedLog, OnProgress, Progress, stretches
from reenact.projections.audit.entries import fields_of, name_of, session_of
from reenact.projections.audit.history import believe, history_of, lineage_of, stream_of
from reenact.projections.log import Row

_PAGE: Final = 1000
"""So many events are read at once."""
_DEFINITIONS: Final = 1000
"""So many revisions of images are remembered."""
_PHASE: Final = "replay"
_ImageRevision: TypeAlias = tuple[str, int]


class UnrecordedRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime was opened with whose log does not say so: a log from before rules were recorded in it.

    `policies` are for images that have none of their own; `cwd` and `home` are where the runtime's paths began. What a
    log says of the rules, and what the images in it say, needs not be told.
    """

    policies: Policies | None = None
    prices: Mapping[str, Price] = {}
    cwd: str | None = None
    home: str | None = None

    def of(self, definition: Definition) -> Rules:
        """Return the rules of agents with this definition."""
        if definition.policies is None:
            definition = msgspec.structs.replace(definition, policies=self.policies)
        rules = rules_of(definition, self.prices, 0)
        return msgspec.structs.replace(rules, cwd=self.cwd, home=self.home)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """An event as a program reads it: its name and its fields."""

    type: str
    data: dict[str, Any]


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """Where today's code parts from a history, and how.

    `position` and `version` are those of the recorded event, and what it says is `recorded`; where the history ends
    before today's code would, `position` and `recorded` are None. `decided` is what today's code decides in its place,
    None if nothing. `field` is the path to the first field in which the two differ, if they are of one type; `command`
    is what was asked for, as far as the history tells.
    """

    position: int | None
    version: int
    recorded: Told | None
    decided: Told | None
    field: str
    command: str | None
    problem: str


class Retraced(msgspec.Struct, frozen=True, kw_only=True):
    """A history that was decided anew: how many of its steps, of how many events, were decided as they were recorded.

    It is that of a session, or, if `session_id` is None, of another stream. `undecided` of the steps could not be
    decided anew, since what they follow from was redacted.
    """

    stream: str
    session_id: str | None
    steps: int
    events: int
    divergence: Parting | None = None
    undecided: int = 0


def retrace(
    log: AuditedLog,
    session_id: str | None = None,
    *,
    rules: UnrecordedRules | None = None,
    progress: OnProgress | None = None,
) -> Iterator[Retraced]:
    """Yield what comes of deciding the histories of the log anew, or that of one session, each up to its first parting.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: `rules` are given, and the log has those of a session, so that others have no effect.
        StorageError: the log cannot be read. An event in it that cannot be is a divergence.
    """
    if rules is not None and rules != UnrecordedRules():
        _must_be_unrecorded(log, session_id)
    look = _Look(log, rules or UnrecordedRules(), progress)
    if session_id is None:
        yield from look.all()
    elif not log.find(stream=stream_of(session_id), limit=1):
        raise SessionNotFoundError(session_id)
    else:
        yield look.of(stream_of(session_id))


def _must_be_unrecorded(log: AuditedLog, session_id: str | None) -> None:
    recorded = partial(log.find, names=("rules-recorded",), limit=1)
    if session_id is None:
        found = (recorded(after=after, until=until) for after, until in stretches(log, 0, log.head()))
    else:
        found = (recorded(stream=stream, until_version=until) for stream, until in lineage_of(log, session_id))
    for row in chain.from_iterable(found):
        message = f"the log has the rules of {row.stream!r}, so that other policies and prices have no effect"
        raise InvalidInputError(f"{message}; replay it without them")


class _Followed(Protocol):
    """What follows a history."""

    @property
    def steps(self) -> int:
        """How many steps it has followed."""
        ...

    @property
    def undecided(self) -> int:
        """How many of them are redacted, so that nobody can decide them anew."""
        ...

    def follow(self, events: Sequence[Any]) -> Divergence | None:
        """Take in events that were recorded together; return where today's code parts from them."""
        ...


class _Plain:
    """A container or an image, whose every event is a step."""

    def __init__(self, kind: str) -> None:
        self.steps = 0
        self.undecided = 0
        self._kind = kind
        self._state: Container | Images = Container() if kind == "container" else Images()

    def follow(self, events: Sequence[object]) -> Divergence | None:
        """Take in events that were recorded together; return where today's code parts from them."""
        for place, event in enumerate(events):
            try:
                decided = self._decided(event)
            except ReenactError as error:
                return _parted(place, event, None, f"today's code refuses it: {type(error).__name__}: {error}")
            if decided is None and is_marked(event):  # two that differed may be the same by now
                self.undecided += 1
            elif not alike(event, decided):
                problem = f"today's code decides something else where {name_of(event)} was recorded"
                return _parted(place, event, decided, problem)
            self.steps += 1
        return None

    def _decided(self, event: object) -> msgspec.Struct | None:
        match self._state, event:
            case Container() as state, ContainerCreated():
                decided = container.decide(state, CreateContainer(event.container_id, event.name))
                self._state = container.evolve(state, event)
                return decided[0]
            case Images() as state, ImageRegistered():
                registered = image.decide(state, RegisterImage(event.image_id, event.definition))
                self._state = image.evolve(state, event)
                return registered[0] if registered else None
            case _:
                return None


class _Look:
    """One look at a log, as far as it goes when the look begins."""

    def __init__(self, log: AuditedLog, rules: UnrecordedRules, progress: OnProgress | None) -> None:
        self._log = log
        self._rules = rules
        self._progress = progress
        self._head = log.head()
        self._done = 0
        self._unread: LogUnusableError | None = None
        self._definitions: dict[_ImageRevision, Definition | None] = {}

    def all(self) -> Iterator[Retraced]:
        """Yield what comes of every history, in the order of their beginnings."""
        for begins, ends in stretches(self._log, 0, self._head):
            for first in self._firsts(begins, ends):
                yield first if isinstance(first, Retraced) else self.of(first)

    def of(self, stream: str) -> Retraced:
        """Return what comes of one history."""
        kind = stream.partition("/")[0]
        followed: _Followed = Retracing() if kind == "session" else _Plain(kind)
        count, last = 0, 0
        parting: Parting | None = None
        self._unread = None
        try:
            for _, together in groupby(self._rows(stream), attrgetter("recorded_at")):
                rows = list(together)
                if count == 0 and isinstance(followed, Retracing):
                    followed = self._beginning(rows[0])
                divergence = followed.follow(_events(rows))
                if divergence is not None:
                    count += divergence.place
                    parting = _parting(rows, divergence)
                    break
                count, last = count + len(rows), rows[-1].version
        except LogUnusableError as error:  # what a branch shares is not there, or cannot be read
            self._unread = error
        if parting is None and self._unread is not None:
            parting = _unreadable(None, last + 1, self._unread)
        return Retraced(
            stream=stream,
            session_id=session_of(stream),
            steps=followed.steps,
            events=count,
            divergence=parting,
            undecided=followed.undecided,
        )

    def _firsts(self, after: int, until: int) -> Iterator[str | Retraced]:
        """Yield the streams that begin in these positions; what cannot be read there is a divergence of its own."""
        try:
            rows = self._log.find(after=after, until=until, until_version=1, limit=until - after)
        except LogUnusableError as error:
            if until - after > 1:
                middle = (after + until) // 2
                yield from self._firsts(after, middle)
                yield from self._firsts(middle, until)
                return
            yield Retraced(stream="", session_id=None, steps=0, events=0, divergence=_unreadable(until, 1, error))
            return
        yield from (row.stream for row in rows)

    def _rows(self, stream: str) -> Iterator[Row]:
        """Yield the events of the stream; take note of why one cannot be read, and end before it."""
        version, limit = 0, _PAGE
        while True:
            try:
                page = self._log.find(stream=stream, after_version=version, until=self._head, limit=limit)
            except LogUnusableError as error:
                if limit == 1:
                    self._unread = error
                    return
                limit = 1
                continue
            if not page:
                return
            yield from page
            version = page[-1].version
            self._done += len(page)
            if self._progress is not None:
                self._progress(Progress(_PHASE, self._done, self._head))

    def _beginning(self, row: Row) -> Retracing:
        """Return what follows the session that begins with this event."""
        match row.event:
            case SessionBranched() as event:
                rules = self._rules_of((event.image_id, event.image_revision))
                return Retracing(self._shared(event.session_id), rules=rules)
            case SessionCreated() as event:
                return Retracing(rules=self._rules_of((event.image_id, event.image_revision)))
            case _:
                return Retracing()

    def _shared(self, session_id: str) -> Session:
        """Return the session that the branch goes on with."""
        stream = stream_of(session_id)
        shared = [row for row in history_of(self._log, session_id) if row.stream != stream]
        try:
            return reduce(believe, shared, Session())
        except LogUnusableError as error:
            message = f"today's code cannot take in the history that {session_id!r} shares: {error}"
            raise LogUnusableError(message) from error

    def _rules_of(self, revision: _ImageRevision) -> Rules | None:
        """Return the rules of agents of the image, None if the log does not hold it."""
        if revision not in self._definitions:
            if len(self._definitions) >= _DEFINITIONS:
                self._definitions.clear()
            self._definitions[revision] = self._definition(*revision)
        definition = self._definitions[revision]
        return None if definition is None else self._rules.of(definition)

    def _definition(self, image_id: str, revision: int) -> Definition | None:
        with suppress(LogUnusableError):
            for row in self._log.find(stream=f"image/{image_id}", after_version=revision - 1, until_version=revision):
                if isinstance(row.event, ImageRegistered):
                    return row.event.definition
        return None


def _events(rows: Sequence[Row]) -> Sequence[Any]:
    return [row.event for row in rows]


def _parting(rows: Sequence[Row], divergence: Divergence) -> Parting:
    at = divergence.place
    row = rows[at] if at < len(rows) else None
    return Parting(
        position=None if row is None else row.position,
        version=rows[-1].version + 1 if row is None else row.version,
        recorded=_told(divergence.recorded),
        decided=_told(divergence.decided),
        field=divergence.field,
        command=None if divergence.command is None else type(divergence.command).__name__,
        problem=divergence.problem,
    )


def _unreadable(position: int | None, version: int, error: Exception) -> Parting:
    return Parting(
        position=position, version=version, recorded=None, decided=None, field="", command=None, problem=str(error)
    )


def _parted(place: int, recorded: object, decided: msgspec.Struct | None, problem: str) -> Divergence:
    return Divergence(
        place=place,
        recorded=recorded,
        decided=decided,
        field=difference(recorded, decided),
        command=None,
        problem=problem,
    )


def _told(event: object) -> Told | None:
    return None if event is None else Told(type=name_of(event), data=fields_of(event))
