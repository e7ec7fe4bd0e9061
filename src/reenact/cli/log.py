"""What is in the log, as it was decided: one event a line, beside whoever writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from time import sleep as pause
from typing import Any, Final, TypeAlias, TypeGuard

import msgspec

from reenact.actors.journal.api import Recorded
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.cli.console import Console
from reenact.cli.exact import harmless
from reenact.cli.failures import ExitCode
from reenact.cli.listing import reading
from reenact.cli.options import ListFormat, LogOptions
from reenact.domain.agent import AgentStarted, AgentStopped
from reenact.domain.errors import InvalidInputError
from reenact.domain.messages import instant
from reenact.domain.stored import STORED
from reenact.domain.tools import MCPServer

_NAMES: Final = {kind: name for name, kind in STORED.items()}
_PAGE = 1000
_PAUSE = 0.1
"""Seconds between two looks at a log that is followed."""
_LINE = 200
_SESSION = "session"
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

Fields: TypeAlias = dict[str, Any]


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An event as a program reads it; `agent_id` is the agent that was live in the session."""

    position: int
    time: datetime
    type: str
    stream: str
    version: int
    session_id: str | None
    agent_id: str | None
    data: Fields
    """The fields of the event; of an MCP server only what may be shown, since the rest may be secret."""


def log(options: LogOptions, console: Console) -> int:
    """Print the events that fit every filter; with `follow`, also those that are still to come."""
    wanted = Filter(options, datetime.now(UTC))
    with reading(options.database, console) as journal:
        if journal is None:
            return ExitCode.SUCCESS
        agents: dict[str, str] = {}
        position = 0
        while True:
            for recorded in _rest(journal, position):
                position = recorded.position
                entry = _entry(recorded, agents)
                if wanted.fits(entry, msgspec.json.encode(entry.data).decode()):
                    _print(entry, recorded.event, options.output_format, console)
            if not options.follow:
                return ExitCode.SUCCESS
            pause(_PAUSE)  # nobody tells another process that something was written


class Filter:
    """What an event must be like to be shown.

    Raises:
        InvalidInputError: a type is not one, or a time cannot be read.
    """

    def __init__(self, options: LogOptions, now: datetime) -> None:
        self._session = options.session
        self._agent = options.agent
        self._types = {_type(name) for name in options.types}
        self._since = None if options.since is None else moment(options.since, now)
        self._until = None if options.until is None else moment(options.until, now)
        self._text = None if options.text is None else options.text.casefold()
        self._after = options.after

    def fits(self, entry: LogEntry, text: str) -> bool:
        """Return whether the event, whose data reads as the text, is to be shown."""
        return (
            entry.position > self._after
            and self._session in (None, entry.session_id)
            and self._agent in (None, entry.agent_id)
            and (not self._types or entry.type in self._types)
            and (self._since is None or entry.time >= self._since)
            and (self._until is None or entry.time <= self._until)
            and (self._text is None or self._text in text.casefold())
        )


def moment(text: str, now: datetime) -> datetime:
    """Return the time that is meant by `2026-11-21T08:30`, which is local if it says no zone, or by `15m` before now.

    Raises:
        InvalidInputError: it is neither.
    """
    span = _SPAN.fullmatch(text.strip())
    try:
        if span is not None:
            return now - timedelta(**{_UNITS[span[2]]: float(span[1])})
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{text!r} is no time; say 2026-11-21T08:30, or 15m, 2h, 7d for so long ago") from error


def _type(name: str) -> str:
    wanted = name.strip().replace("_", "-")
    if wanted not in STORED:
        raise InvalidInputError(f"the log knows no type {name!r}; it knows {', '.join(sorted(STORED))}")
    return wanted


def _rest(journal: SqliteJournal, after: int) -> Iterator[Recorded]:
    while page := journal.read_all(after=after, limit=_PAGE):
        yield from page
        after = page[-1].position


def _entry(recorded: Recorded, agents: dict[str, str]) -> LogEntry:
    """Return the event with its session and agent; `agents` remembers who is live in each session."""
    kind, _, name = recorded.stream.partition("/")
    event = recorded.event
    if isinstance(event, AgentStarted):
        agents[recorded.stream] = event.agent_id
    agent_id = agents.get(recorded.stream)
    if isinstance(event, AgentStopped):
        agents.pop(recorded.stream, None)
    return LogEntry(
        position=recorded.position,
        time=instant(recorded.recorded_at),
        type=_NAMES[type(event)],
        stream=recorded.stream,
        version=recorded.version,
        session_id=name if kind == _SESSION else None,
        agent_id=agent_id,
        data=_fields(event),
    )


def _fields(event: msgspec.Struct) -> Fields:
    """Return the fields by their names; in the log they stand by their order."""
    return {name: _plain(getattr(event, name)) for name in event.__struct_fields__}


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct) and value.__struct_config__.array_like:
        return _fields(value)
    if _is_tuple(value):
        return [_plain(one) for one in value]
    if isinstance(value, MCPServer):
        return dict(value.__rich_repr__())
    return msgspec.to_builtins(value)


def _is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(value, tuple)


def _print(entry: LogEntry, event: msgspec.Struct, form: ListFormat, console: Console) -> None:
    if form is ListFormat.JSON:
        console.write_line(msgspec.json.encode(entry))
        return
    when = entry.time.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")
    text = msgspec.json.encode(_telling(entry, event)).decode()
    shown = harmless(text if len(text) <= _LINE else f"{text[: _LINE - 1]}…")
    console.write(f"{entry.position:>6}  {when}  {entry.stream}  {entry.type}  {shown}\n")


def _telling(entry: LogEntry, event: msgspec.Struct) -> Fields:
    """Return the fields that say something on a line: not those that are as always, nor the session's id again."""
    usual = {field.name: field.default for field in msgspec.structs.fields(event)}
    return {
        name: value
        for name, value in entry.data.items()
        if not (value == usual.get(name, msgspec.NODEFAULT) or (name == "session_id" and value == entry.session_id))
    }
