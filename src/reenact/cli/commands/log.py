"""The command `log`: lists the events of the log, also while it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from time import sleep
from typing import Final

import msgspec
import typer
from msgspec.structs import fields, replace

from reenact.actors.journal.stored import StoredJournal
from reenact.cli.commands.sessions import reading
from reenact.cli.output.console import Console
from reenact.cli.parsing.options import LogOptions
from reenact.domain.errors import InvalidInputError, LogUnreachableError
from reenact.domain.history.stored import STORED
from reenact.domain.legible import shortened
from reenact.projections.explain.entries import (
    Fields,
    Filter,
    LogEntry,
    check_agent,
    check_session,
    entries_of,
    follow,
    last_entries,
)
from reenact.projections.explain.why import why

_PAUSE = 0.1
"""Interval in seconds at which a followed log is polled."""
_PAUSE_WHILE_AWAY = 1.0
"""Interval in seconds at which a server that is away is tried again."""
_LINE = 200
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DEFAULTS: Final[Mapping[str, Fields]] = {
    name: {field.name: field.default for field in fields(kind)} for name, kind in STORED.items()
}


def log(options: LogOptions, console: Console) -> None:
    """Print the events that match all filters; with `follow`, also events that are appended later.

    Raises:
        SessionNotFoundError: there is no such session.
        InvalidInputError: a type or a time is invalid, or there is no event at the position of `why`.
    """
    _check(options)
    wanted = _filter(options, datetime.now(UTC))
    with reading(options.database, console) as journal:
        if options.why is not None:
            found = why(journal, options.why)
            console.show(found, options.output_format, *found.text().split("\n"))
            return
        if options.session is not None and not options.follow:  # with `follow` it may be created later
            check_session(journal, options.session)
        if options.agent is not None and not options.follow:
            check_agent(journal, options.agent)
        for entry in islice(_found(journal, wanted, options, console), options.limit):
            console.show(entry, options.output_format, _line(entry))


def pause(seconds: float) -> None:
    """Sleep: there is no notification of writes by another process, so the log is polled."""
    sleep(seconds)


def parse_time(text: str, now: datetime) -> datetime:
    """Parse a time such as `2026-11-21T08:30`, local unless it has a zone, or `15m`, which is before `now`.

    Raises:
        InvalidInputError: the text is neither.
    """
    span = _SPAN.fullmatch(text.strip())
    try:
        if span is not None:
            return now - timedelta(**{_UNITS[span[2]]: float(span[1])})
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{text!r} is not a time; say 2026-11-21T08:30, or 15m, 2h, 7d for so long ago"
        ) from error


def _check(options: LogOptions) -> None:
    """Refuse options that exclude one another."""
    if options.reverse and options.follow:
        raise typer.TyperException("--reverse ends with the oldest event, and --follow does not end; give one of them")
    if options.last is not None and (options.reverse or options.limit is not None):
        raise typer.TyperException("--last says which events and in which order; give no --limit and no --reverse")
    alone = LogOptions(
        database=options.database, keys=options.keys, output_format=options.output_format, why=options.why
    )
    if options.why is not None and options != alone:
        raise typer.TyperException("--why is about one event; give no filters with it")
    if options.lineage and options.session is None:
        raise typer.TyperException("--lineage is that of a session; name it with --session")


def _filter(options: LogOptions, now: datetime) -> Filter:
    return Filter(
        session=options.session,
        lineage=options.lineage,
        agent=options.agent,
        types=frozenset(name.strip().replace("_", "-") for name in options.types),
        since=None if options.since is None else parse_time(options.since, now),
        until=None if options.until is None else parse_time(options.until, now),
        text=options.text,
        after=options.after,
    )


def _found(journal: StoredJournal, wanted: Filter, options: LogOptions, console: Console) -> Iterator[LogEntry]:
    if options.last is not None:
        head = journal.head()
        yield from last_entries(journal, replace(wanted, before=head + 1), options.last)
        wanted = replace(wanted, after=max(wanted.after, head))
    if options.follow:
        yield from _followed(journal, wanted, console)
    elif options.last is None:
        yield from entries_of(journal, wanted, backwards=options.reverse)


def _followed(journal: StoredJournal, wanted: Filter, console: Console) -> Iterator[LogEntry]:
    """Follow the log; while its server is away, try again, and report it once."""
    is_away = False

    def pause_after_reading() -> None:
        nonlocal is_away
        is_away = False
        pause(_PAUSE)

    while True:
        try:
            for entry in follow(journal, wanted, pause=pause_after_reading):
                yield entry
                wanted = replace(wanted, after=entry.position)
        except LogUnreachableError as error:
            if not is_away:
                console.say(f"waiting for the log: {error}")
            is_away = True
            pause(_PAUSE_WHILE_AWAY)


def _line(entry: LogEntry) -> str:
    when = entry.time.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")
    data = shortened(msgspec.json.encode(_fields_worth_showing(entry)).decode(), _LINE)
    return f"{entry.position:>6}  {when}  {entry.stream}  {entry.type}  {data}"


def _fields_worth_showing(entry: LogEntry) -> Fields:
    """Return the fields worth showing on a line: without those that have their defaults and the session's id."""
    usual = _DEFAULTS.get(entry.type, {})
    return {
        name: value
        for name, value in entry.data.items()
        if not (value == usual.get(name, msgspec.NODEFAULT) or (name == "session_id" and value == entry.session_id))
    }
