"""The commands `verify`, `checkpoint`, `replay`, `show` and `diff`: integrity of the log, and states of sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec
import typer

from reenact._location import location_of
from reenact._runtime import codec
from reenact._transfer import open_export
from reenact._verifying import checkpoint_of, verify_log
from reenact.actors.journal.key_ring import KeyRing
from reenact.cli.commands.sessions import key_ring, log_to_read, progress_line, reading
from reenact.cli.commands.what_if import ChangeCounts, assumptions_of, changed_lines
from reenact.cli.output.console import Console, ListFormat
from reenact.cli.output.failures import ExitCode, NoLogYetError
from reenact.cli.parsing.options import (
    CheckpointOptions,
    DiffOptions,
    ReplayOptions,
    ShowOptions,
    VerifyOptions,
)
from reenact.domain.errors import ExportUnusableError, InvalidInputError, LogUnusableError
from reenact.domain.history.what_if import Otherwise
from reenact.projections.explain.difference import difference
from reenact.projections.explain.history_view import shown
from reenact.projections.log import AuditedLog
from reenact.projections.verification.replay import Parting, PlainEvent, Retraced, retrace
from reenact.projections.verification.what_if import what_if


def verify(options: VerifyOptions, console: Console) -> int:
    """Print the damage found in the log; return 1 if there is any.

    Raises:
        CheckpointError: the checkpoint to compare with is not one of this log.
        StorageError: the log cannot be read to its end.
    """
    database = log_to_read(options.database, console)
    with progress_line(console) as progress:
        verdict = verify_log(database, checkpoint=options.checkpoint, progress=progress)
    console.show(verdict, options.output_format, *verdict.text().split("\n"))
    return ExitCode.SUCCESS if verdict.is_whole else ExitCode.UNEXPECTED


def checkpoint(options: CheckpointOptions, console: Console) -> int:
    """Write the end of every stream and feed of the log to a file or to standard output.

    Raises:
        LogUnusableError: the log is damaged.
        ConfigurationError: the file cannot be written.
    """
    database = log_to_read(options.database, console)
    with progress_line(console) as progress:
        if options.output is None:
            checkpoint_of(database, lambda line: console.write(line.decode()), progress=progress)
            return ExitCode.SUCCESS
        made = checkpoint_of(database, Path(options.output), progress=progress)
    if options.output_format is ListFormat.JSON:
        console.write_json(made)
        return ExitCode.SUCCESS
    console.say(
        f"{options.output}: {made.streams:,} streams, {made.feeds:,} with a feed, up to position {made.position:,}"
    )
    return ExitCode.SUCCESS


_EXPORT = ".jsonl"
_LOG = ".db"
_Sourced: TypeAlias = tuple[str | None, Retraced]
_Replay: TypeAlias = Callable[..., Iterator[Retraced]]
"""Yields the results for the histories of a log, or for one session of it."""


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result for a history, as printed for programs; `source` is its file, or None for the log."""

    source: str | None
    stream: str
    session_id: str | None
    steps: int
    events: int
    divergence: Parting | None
    undecided: int
    decisions: int
    otherwise: tuple[Otherwise, ...]
    forgotten: bool


def replay(options: ReplayOptions, console: Console) -> int:
    """Print the result for each history; return 1 if any decision differs from the recorded one, or else 0.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: a file or folder contains no history.
        ConfigurationError: an assumption is invalid.
    """
    supposed, counted = assumptions_of(options), ChangeCounts()
    replay_log: _Replay = retrace if supposed is None else partial(what_if, supposed=supposed)
    count = differing = forgotten = 0
    with progress_line(console) as progress:
        for source, retraced in _all(options, partial(replay_log, progress=progress), console):
            if retraced.session_id is None and retraced.divergence is None:
                continue
            count += 1
            differing += retraced.divergence is not None or bool(retraced.otherwise)
            forgotten += retraced.forgotten
            counted.add(retraced)
            value = _Result(source=source, **msgspec.structs.asdict(retraced))
            what = "  ".join(one for one in (source, retraced.session_id or retraced.stream) if one)
            lines = _lines(what, retraced) if supposed is None else changed_lines(what, retraced)
            console.show(value, options.output_format, *lines)
    if options.output_format is ListFormat.TEXT:
        histories = "1 history" if count == 1 else f"{count} histories"
        said = "all as recorded" if not differing else f"{differing} not as recorded"
        said += f"; {forgotten} forgotten, and replayed up to there" if forgotten else ""
        summary = f"{histories}, {said}" if supposed is None else counted.text(count)
        console.write(f"{summary}\n" if count else "there is no session\n")
    return ExitCode.UNEXPECTED if differing else ExitCode.SUCCESS


def _all(options: ReplayOptions, replay_log: _Replay, console: Console) -> Iterator[_Sourced]:
    files = _files(options.what)
    if files:
        ring = key_ring(console.environ)
        for file in files:
            yield from _of_file(file, ring, replay_log)
        return
    with suppress(NoLogYetError), reading(options.database, console, next(iter(options.what), None)) as log:
        for session_id in options.what or (None,):
            yield from ((None, one) for one in replay_log(log, session_id=session_id))


def _files(what: Sequence[str]) -> list[Path]:
    """Return the named files and those in the named folders; an empty list if sessions are named."""
    paths = [Path(one) for one in what]
    named = [path.suffix in (_EXPORT, _LOG) or path.exists() for path in paths]
    if not any(named):
        return []
    files: list[Path] = []
    for path in paths:
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        kept = [one for one in found if one.is_file() and (one == path or one.suffix in (_EXPORT, _LOG))]
        if not kept:
            is_there = f"holds no *{_EXPORT} and no *{_LOG}" if path.is_dir() else "is not there"
            raise InvalidInputError(f"{path} {is_there}; name sessions, or files and folders of histories")
        files.extend(kept)
    return files


def _of_file(file: Path, ring: KeyRing | None, replay_log: _Replay) -> Iterator[_Sourced]:
    name = str(file)
    try:
        with _opened(file, ring) as log:
            yield from ((name, one) for one in replay_log(log))
    except (ExportUnusableError, LogUnusableError) as error:  # it is not a valid history, whatever it is
        parting = Parting(
            position=None, version=0, recorded=None, decided=None, field="", command=None, problem=str(error)
        )
        yield name, Retraced(stream="", session_id=None, steps=0, events=0, divergence=parting)


def _opened(file: Path, ring: KeyRing | None) -> AbstractContextManager[AuditedLog]:
    if file.suffix == _EXPORT:
        return nullcontext(open_export(file, keys=ring))
    return location_of(file, ring).open(codec(), read_only=True)


def _lines(what: str, retraced: Retraced) -> Iterator[str]:
    if retraced.forgotten:
        yield f"{what}  forgotten"
        return
    parting, steps = retraced.divergence, f"{retraced.steps} step{'' if retraced.steps == 1 else 's'}"
    if parting is None:
        events = f"{retraced.events} event{'' if retraced.events == 1 else 's'}"
        yield f"{what}  as recorded: {steps}, {events}"
        if retraced.undecided:
            them = "1 step" if retraced.undecided == 1 else f"{retraced.undecided} steps"
            yield f"    {them} could not be decided anew, since they are redacted"
        return
    where = "" if parting.position is None else f" at position {parting.position}"
    is_unreadable = parting.recorded is None and parting.decided is None
    yield f"{what}  {'cannot be decided' if is_unreadable else 'differs'}{where}, behind {steps}: {parting.problem}"
    if parting.recorded is not None:
        yield f"    recorded: {_event_line(parting.recorded)}"
    if parting.decided is not None:
        yield f"    decided:  {_event_line(parting.decided)}"


def _event_line(event: PlainEvent) -> str:
    return f"{event.type}  {msgspec.json.encode(event.data).decode()}"


def show(options: ShowOptions, console: Console) -> int:
    """Print the session.

    Raises:
        SessionNotFoundError: there is no such session.
        InvalidInputError: the session begins after the position, or the log ends before it.
    """
    with reading(options.database, console, options.session) as journal:
        found = shown(journal, options.session, at=options.at)
        console.show(found, options.output_format, *found.text().split("\n"))
    return ExitCode.SUCCESS


_Side: TypeAlias = tuple[str, int | None]
_DIGITS = 18


def diff(options: DiffOptions, console: Console) -> int:
    """Print the differences; return 1, or 0 if there are none.

    Raises:
        BadParameter: the arguments do not name two states.
        SessionNotFoundError: there is no such session.
        InvalidInputError: a session begins after its position, or the log ends before it.
    """
    left, right = sides_of(options.what)
    with reading(options.database, console, left[0]) as journal:
        found = difference(journal, *left, *right)
        console.show(found, options.output_format, *found.text().split("\n"))
    return ExitCode.UNEXPECTED if found.changes else ExitCode.SUCCESS


def sides_of(what: Sequence[str]) -> tuple[_Side, _Side]:
    """Parse the two sides from SESSION A B, or from LEFT[@A] RIGHT[@B].

    Raises:
        BadParameter: the number of arguments is wrong, or a position is not a number.
    """
    match what:
        case [session, before, after]:
            return (session, _position(before)), (session, _position(after))
        case [left, right]:
            return _side(left), _side(right)
        case _:
            raise typer.BadParameter(
                "name a session and two positions, or two sessions: SESSION A B, or LEFT[@A] RIGHT"
            )


def _side(text: str) -> _Side:
    session, at, position = text.rpartition("@")
    return (session, int(position)) if at and _is_number(position) else (text, None)


def _position(text: str) -> int:
    if not _is_number(text):
        raise typer.BadParameter(f"a position in the log is a number from 1 on, not {text!r}")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS
