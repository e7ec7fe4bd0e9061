"""Log entries: events in a form for people and programs, filtered, paged and followed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TypeAlias, TypedDict, TypeGuard

import msgspec

from reenact.domain.errors import InvalidInputError, SessionNotFoundError, reading
from reenact.domain.history.explanation import AnyEvent, sentence
from reenact.domain.history.stored import STORED
from reenact.domain.messages import instant, microseconds_of
from reenact.domain.plain import can_be_id, check_position, is_sequence
from reenact.domain.session.agent import AgentStarted, AgentStopped
from reenact.domain.tools import MCPServer, is_object
from reenact.projections.explain.history import lineage_of
from reenact.projections.log import AuditedLog, Row, has_stream, name_of, stream_of, stretches

Fields: TypeAlias = dict[str, object]
Streams: TypeAlias = Sequence[tuple[str, int | None]]
"""Streams, each up to and including a version, or to its end."""

_LIVES = frozenset({"agent-started", "agent-stopped"})
_SESSION = "session"
_PAGE = 1000
"""The number of events that are read at a time."""
_MAX_CACHED = 10_000
"""The number of streams whose live agents are cached."""


class Place(TypedDict):
    """The place of an event in the log, its time, and its type."""

    position: int
    time: datetime
    type: str
    stream: str
    version: int


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An event in a form for programs; `agent_id` is the agent that was live in the session."""

    position: int
    time: datetime
    type: str
    stream: str
    version: int
    session_id: str | None
    agent_id: str | None
    data: Fields
    """The fields of the event; those of an MCP server are reduced, since they may be secret."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on events, all of which must be met; a condition that is None or empty is ignored.

    `lineage` includes the history that a branch shares with its origin. `types` are stored names of events. `since` and
    `until` are times, both inclusive; `text` must occur in one of the event's values, ignoring case. `after` and
    `before` are positions, both exclusive.
    """

    session: str | None = None
    lineage: bool = False
    agent: str | None = None
    types: Collection[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    after: int = 0
    before: int | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidInputError` unless types are stored names, times have a time zone, and positions are valid."""
        for name in sorted(set(self.types) - STORED.keys()):
            raise InvalidInputError(f"the log knows no type {name!r}; it knows {', '.join(sorted(STORED))}")
        for which, time in (("since", self.since), ("until", self.until)):
            if time is not None and time.tzinfo is None:
                raise InvalidInputError(f"{which} is a time without a zone, {time}; say which one it is in")
        for name, position in (("after", self.after), ("before", self.before)):
            if position is not None:
                check_position(name, position)
        if self.lineage and self.session is None:
            raise InvalidInputError("lineage is that of a session; name the session")


def check_session(log: AuditedLog, session_id: str) -> None:
    """Raise `SessionNotFoundError` unless the log has the session."""
    if not has_stream(log, stream_of(session_id)):
        raise SessionNotFoundError(session_id)


def check_agent(log: AuditedLog, agent_id: str) -> None:
    """Raise `InvalidInputError` unless the agent has been live in a session of the log."""
    if next(entries_of(log, Filter(agent=agent_id, types=frozenset({"agent-started"}))), None) is None:
        raise InvalidInputError(f"agent {agent_id!r} does not exist")


def entries_of(log: AuditedLog, wanted: Filter, *, backwards: bool = False) -> Iterator[LogEntry]:
    """Yield the matching events in the order of the log or `backwards`, up to the log's end at the time of the call.

    Events that cannot match are not decoded, and few events are held at once, however long the log is.

    Raises:
        SessionNotFoundError: the session whose lineage is requested does not exist.
        LogUnusableError: an event cannot be read.
    """
    agents = _Agents(log)
    says = _contains(wanted.text)
    for row in _RowSearch(log, wanted, backwards=backwards):
        if says(row.event):
            agent_id = agents.at(row)
            if wanted.agent in (None, agent_id):
                yield _entry(row, agent_id)


def follow(log: AuditedLog, wanted: Filter, *, pause: Callable[[], object]) -> Iterator[LogEntry]:
    """Yield the matching events, and new ones as they are recorded; `pause` is called between two reads of the log.

    Raises:
        SessionNotFoundError: the session whose lineage is requested does not exist.
    """
    after = wanted.after
    while True:
        head = log.head()
        end = head + 1 if wanted.before is None else min(wanted.before, head + 1)
        yield from entries_of(log, msgspec.structs.replace(wanted, after=after, before=end))
        after = max(after, head)
        pause()


def last_entries(log: AuditedLog, wanted: Filter, count: int) -> list[LogEntry]:
    """Return the last `count` matching events, in the order of the log."""
    return list(islice(entries_of(log, wanted, backwards=True), count))[::-1]


def row_at(log: AuditedLog, position: int) -> Row:
    """Return the event at the position.

    Raises:
        InvalidInputError: there is none, or it was forgotten.
    """
    check_position("position", position)
    head = log.head()
    if not 0 < position <= head:
        raise InvalidInputError(f"there is no event at position {position}: the log ends at {head}")
    rows = log.find(after=position - 1, until=position, limit=1)
    if not rows:
        raise InvalidInputError(f"the event at position {position} can be read by nobody: its session was forgotten")
    return rows[0]


def place_of(row: Row) -> Place:
    """Return the fields that every entry has: the event's place in the log, its time, and its type."""
    return {
        "position": row.position,
        "time": instant(row.recorded_at),
        "type": name_of(row.event),
        "stream": row.stream,
        "version": row.version,
    }


def is_session(stream: str) -> bool:
    """Return whether the stream is that of a session."""
    return stream.startswith(f"{_SESSION}/")


def says(event: object) -> str:
    """Return a sentence that describes the event; for an unknown event, one with its type."""
    return sentence(event) if _is_ours(event) else f"Something happened: {name_of(event)}."


def _is_ours(event: object) -> TypeGuard[AnyEvent]:
    return isinstance(event, tuple(STORED.values()))


def session_of(stream: str) -> str | None:
    """Return the session whose stream it is, or None."""
    return stream.removeprefix(f"{_SESSION}/") if is_session(stream) else None


def fields_of(event: object) -> Fields:
    """Return the fields of an event by their names; the log stores them by their order."""
    names: tuple[str, ...] = getattr(event, "__struct_fields__", ())
    return {name: _plain(getattr(event, name)) for name in names}


class _RowSearch:
    """The rows that may match a filter, judging without decoding, in the order of the log or backwards."""

    def __init__(self, log: AuditedLog, wanted: Filter, *, backwards: bool) -> None:
        self._log = log
        self._wanted = wanted
        self._backwards = backwards
        head = log.head()
        self._until = head if wanted.before is None else min(head, wanted.before - 1)
        self._find = partial(
            log.find,
            names=wanted.types,
            since=None if wanted.since is None else microseconds_of(wanted.since),
            before=None if wanted.until is None else microseconds_of(wanted.until) + 1,
            backwards=backwards,
            limit=_PAGE,
        )

    def __iter__(self) -> Iterator[Row]:
        wanted = self._wanted
        if not all(id_ is None or can_be_id(id_) for id_ in (wanted.session, wanted.agent)):
            return
        # To read what has come since takes less than to find out where to look; from the beginning, it does not.
        is_page = wanted.after > 0 and self._until - wanted.after <= _PAGE
        if wanted.session is None and (wanted.agent is None or is_page):
            yield from self._rows_of_log(self._find, wanted.after)
        elif wanted.session is None:
            yield from self._rows_of_agent(wanted.agent)
        elif is_page:
            rows = list(self._rows_of_log(self._find, wanted.after))
            streams = self._streams(wanted.session) if rows else ()
            yield from (row for row in rows if any(_is_in(row, *one) for one in streams))
        else:
            streams = self._streams(wanted.session)
            for stream, last in reversed(streams) if self._backwards else streams:
                yield from self._rows_of_stream(stream, 0, last)

    def _streams(self, session_id: str) -> Streams:
        """Return the streams that hold the session's events."""
        return lineage_of(self._log, session_id) if self._wanted.lineage else [(stream_of(session_id), None)]

    def _rows_of_log(self, find: Callable[..., Sequence[Row]], after: int) -> Iterator[Row]:
        for first, last in stretches(self._log, after, self._until, backwards=self._backwards):
            yield from self._pages(lambda low, high: find(after=low, until=high), first, last, lambda row: row.position)

    def _rows_of_stream(self, stream: str, first: int, last: int | None) -> Iterator[Row]:
        """Return the stream's rows with versions above `first`, up to and including `last`."""
        find = partial(self._find, after=self._wanted.after, until=self._until, stream=stream)
        return self._pages(
            lambda low, high: find(after_version=low, until_version=high), first, last, lambda row: row.version
        )

    def _rows_of_agent(self, agent_id: str | None) -> Iterator[Row]:
        """Yield the rows from the agent's start to its stop."""
        find = partial(self._log.find, names=["agent-started"], backwards=self._backwards, limit=_PAGE)
        for began in self._rows_of_log(find, 0):
            if isinstance(began.event, AgentStarted) and began.event.agent_id == agent_id:
                ends = self._log.find(
                    stream=began.stream, after_version=began.version, names=["agent-stopped"], limit=1
                )
                yield from self._rows_of_stream(began.stream, began.version - 1, ends[0].version if ends else None)
                return

    def _pages(
        self,
        find: Callable[[int, int | None], Sequence[Row]],
        first: int,
        last: int | None,
        place: Callable[[Row], int],
    ) -> Iterator[Row]:
        """Yield the rows above `first`, up to and including `last`, page by page."""
        while True:
            rows = find(first, last)
            yield from rows
            if len(rows) < _PAGE:
                return
            if self._backwards:
                last = place(rows[-1]) - 1
            else:
                first = place(rows[-1])


def _is_in(row: Row, stream: str, last: int | None) -> bool:
    return row.stream == stream and (last is None or row.version <= last)


class _Life(msgspec.Struct, frozen=True):
    """Versions of a stream, from `low` to before `high`, during which one agent was live, or none."""

    low: int
    high: int
    agent_id: str | None


class _Agents:
    """Finds the agent that was live in a session at an event, by reading its stream unless it is cached."""

    def __init__(self, log: AuditedLog) -> None:
        self._log = log
        self._lives: dict[str, _Life] = {}

    def at(self, row: Row) -> str | None:
        """Return the agent that was live; for an agent's own start and stop, that agent."""
        if not is_session(row.stream):
            return None
        if isinstance(row.event, AgentStarted | AgentStopped):
            return row.event.agent_id
        life = self._lives.pop(row.stream, None)
        if life is None or not life.low <= row.version < life.high:
            life = self._read_life(row)
        if len(self._lives) >= _MAX_CACHED:
            del self._lives[next(iter(self._lives))]
        self._lives[row.stream] = life
        return life.agent_id

    def _read_life(self, row: Row) -> _Life:
        find = partial(self._log.find, stream=row.stream, names=_LIVES, limit=1)
        last, next_ = find(until_version=row.version, backwards=True), find(after_version=row.version)
        event = last[0].event if last else None
        return _Life(
            last[0].version if last else 1,
            next_[0].version if next_ else sys.maxsize,
            event.agent_id if isinstance(event, AgentStarted) else None,
        )


def _entry(row: Row, agent_id: str | None) -> LogEntry:
    with reading(f"event {row.version} of {row.stream!r}"):
        return LogEntry(
            **place_of(row), session_id=session_of(row.stream), agent_id=agent_id, data=fields_of(row.event)
        )


def _contains(text: str | None) -> Callable[[object], bool]:
    """Return a function that tells whether a value of an event contains the text."""
    if not text:
        return lambda _event: True
    if not can_be_id(text):
        return lambda _event: False  # nothing in a log is invalid Unicode
    folded = text.casefold()
    # A text in a value is also in the event's JSON, which is fast to encode, so that few events need a closer check.
    sought = msgspec.json.encode(folded).decode()[1:-1]
    return lambda event: (
        sought in msgspec.json.encode(event).decode().casefold() and _value_contains(fields_of(event), folded)
    )


def _value_contains(value: object, folded: str) -> bool:
    if is_object(value):
        return any(_value_contains(one, folded) for one in value.values())
    if is_sequence(value):
        return any(_value_contains(one, folded) for one in value)
    if isinstance(value, str):
        return folded in value.casefold()
    return value is not None and not isinstance(value, bool) and folded in msgspec.json.encode(value).decode()


def _plain(value: object) -> object:
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, msgspec.Struct) and value.__struct_config__.array_like:
        return fields_of(value)
    if is_sequence(value):
        return [_plain(one) for one in value]
    if isinstance(value, MCPServer):
        return dict(value.__rich_repr__())
    return msgspec.to_builtins(value)
