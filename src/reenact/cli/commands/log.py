"""The command `log`: lists the events of the log, also while it is written; and describes events in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from time import sleep
from typing import Final

import msgspec
import typer
from msgspec.structs import fields, replace

from reenact.actors.journal.stored import StoredJournal
from reenact.cli.commands.sessions import reading
from reenact.cli.output.answers import call_line, result_lines
from reenact.cli.output.console import Console
from reenact.cli.output.exact import on_one_line
from reenact.cli.output.failures import ExitCode
from reenact.cli.parsing.options import LogOptions
from reenact.domain.errors import InvalidInputError, LogUnreachableError
from reenact.domain.history.stored import STORED
from reenact.domain.legible import display_safe, shortened
from reenact.domain.tools import is_array, is_object
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


def log(options: LogOptions, console: Console) -> int:
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
            return ExitCode.SUCCESS
        if options.session is not None and not options.follow:  # with `follow` it may be created later
            check_session(journal, options.session)
        if options.agent is not None and not options.follow:
            check_agent(journal, options.agent)
        for entry in islice(_found(journal, wanted, options, console), options.limit):
            console.show(entry, options.output_format, _line(entry))
    return ExitCode.SUCCESS


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


def fields_line(entry: LogEntry) -> str:
    """Return the fields of the event on one line."""
    return shortened(msgspec.json.encode(_fields_worth_showing(entry)).decode(), _LINE)


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
    return f"{entry.position:>6}  {when}  {entry.stream}  {entry.type}  {fields_line(entry)}"


def _fields_worth_showing(entry: LogEntry) -> Fields:
    """Return the fields worth showing on a line: without those that have their defaults and the session's id."""
    usual = _DEFAULTS.get(entry.type, {})
    return {
        name: value
        for name, value in entry.data.items()
        if not (value == usual.get(name, msgspec.NODEFAULT) or (name == "session_id" and value == entry.session_id))
    }


_LONGEST_CALL = 500


def describe(entry: LogEntry) -> str:
    """Describe the event on one line in words, or by its fields if there are no words for its type."""
    words = _WORDS.get(entry.type)
    if words is None:
        return fields_line(entry)
    text = words.format_map(entry.data) if isinstance(words, str) else words(entry.data)
    return display_safe(" ".join(text.split()))


def _text_of_blocks(content: object) -> str:
    """Return the text of a message's blocks; calls are formatted as calls, and other blocks by their type."""
    return " ".join(_block(block) for block in content if is_object(block)) if is_array(content) else ""


def _block(block: Fields) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "tool_use", "name": str(name), "input": arguments}:
            return f"→ {call_line(name, arguments, _LONGEST_CALL)}"
        case _:
            return f"[{block.get('type')}]"


def _tokens(usage: object) -> str:
    match usage:
        case {"input_tokens": int(given), "output_tokens": int(written)}:
            return f" ({given:,} tokens in, {written:,} out)"
        case _:
            return ""


def _by(person: object) -> str:
    return f"by {person}" if person else ""


def _result(data: Fields) -> str:
    return f"{data['name']}: {'error: ' if data['is_error'] else ''}{result_lines(data['result'], _LONGEST_CALL)[0]}"


def _turn(data: Fields) -> str:
    cost = "" if data["cost"] is None else f", cost {data['cost']:.6g}"
    return f"{data['outcome']} after {data['duration']:.1f} s{_tokens(data['usage'])}{cost}"


def _message(failure: object) -> str:
    return str(failure["message"]) if is_object(failure) else ""


def _count(values: object) -> int:
    return len(values) if is_array(values) else 0


def _list(lines: object) -> str:
    return "; ".join(map(str, lines)) if is_array(lines) else ""


def _calls(calls: object) -> str:
    asked = filter(is_object, calls) if is_array(calls) else ()
    return ", ".join(call_line(str(call["name"]), call["arguments"], _LONGEST_CALL) for call in asked)


_WORDS: Final[Mapping[str, str | Callable[[Fields], str]]] = {
    "session-created": "with image {image_id}",
    "session-branched": "from {origin}",
    "session-deleted": "",
    "session-forgotten": lambda data: f"by {data['by']}{': ' if data['why'] else ''}{data['why']}",
    "agent-started": "",
    "agent-stopped": "{reason}",
    "message-accepted": lambda data: f"You: {_text_of_blocks(data['content'])}",
    "turn-started": "",
    "turn-continued": "",
    "turn-interrupted": "{reason}",
    "turn-failed": lambda data: _message(data["failure"]),
    "turn-completed": _turn,
    "answer-recorded": lambda data: (
        f"{_text_of_blocks(data['content'])}{' (cut short)' if data['partial'] else ''}{_tokens(data['usage'])}"
    ),
    "output-accepted": "it fits the schema",
    "output-rejected": lambda data: f"attempt {data['attempt']}: {_list(data['errors'])}",
    "tools-requested": "",
    "results-recorded": lambda data: f"{_count(data['content'])} for the model",
    "step-started": "request {step} to the model",
    "handover-requested": "to image {image_id}",
    "image-changed": "to {image_id}, with {history} of what was said",
    "message-scheduled": lambda data: _text_of_blocks(data["content"]),
    "schedule-cancelled": "{schedule_id}",
    "schedule-fired": lambda data: f"{data['schedule_id']}{', late' if data['late'] else ''}",
    "context-compressed": "{replaced} messages summarised: {summary}",
    "human-approve-required": lambda data: _calls(data["calls"]),
    "human-prompt-required": "{prompt}",
    "human-select-required": "{prompt}",
    "tool-pending": lambda data: f"{_count(data['ids'])} for a person",
    "tool-approved": lambda data: _by(data["by"]),
    "tool-edited": lambda data: f"{on_one_line(data['edited'])} {_by(data['by'])}",
    "tool-rejected": lambda data: ": ".join(filter(None, (_by(data["by"]), str(data["reason"] or "")))),
    "human-responded": lambda data: f"{on_one_line(data['value'])} {_by(data['by'])}",
    "tool-started": "{name}",
    "tool-result": _result,
    "warning": "{message}",
    "guard-checked": lambda data: ": ".join(filter(None, (f"{data['name']} {data['verdict']}", str(data["reason"])))),
    "child-started": "{child_id} of image {image_id}",
    "child-ended": lambda data: f"{data['child_id']}: {data['outcome']}{_tokens(data['usage'])}",
    "children-interrupted": "{reason}",
}
