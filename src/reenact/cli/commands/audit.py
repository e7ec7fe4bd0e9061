"""The commands `verify`, `checkpoint`, `show`, `diff` and `stats`: integrity, states of sessions, and statistics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import typer

from reenact._files import replacing
from reenact._location import LogLocation
from reenact._verifying import checkpoint_of, verify_log
from reenact.audit import Audit
from reenact.cli.commands.log import parse_time
from reenact.cli.commands.sessions import log_to_read, progress_line, reading
from reenact.cli.output.console import Console
from reenact.cli.output.failures import ExitCode
from reenact.cli.parsing.options import (
    CheckpointOptions,
    DiffOptions,
    ShowOptions,
    StatsOptions,
    VerifyOptions,
)
from reenact.domain.errors import ConfigurationError
from reenact.projections.explain.difference import difference
from reenact.projections.explain.history_view import shown
from reenact.projections.statistics.plot import plot
from reenact.projections.statistics.report import csv_of, text_of


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


def checkpoint(options: CheckpointOptions, console: Console) -> None:
    """Write the end of every stream and feed of the log to a file or to standard output.

    Raises:
        LogUnusableError: the log is damaged.
        ConfigurationError: the file cannot be written.
    """
    database = log_to_read(options.database, console)
    with progress_line(console) as progress:
        if options.output is None or options.output == "-":
            checkpoint_of(database, lambda line: console.write(line.decode()), progress=progress)
            return
        made = checkpoint_of(database, Path(options.output), progress=progress)
    if options.output_format == "json":
        console.write_json(made)
        return
    console.say(
        f"{options.output}: {made.streams:,} streams, {made.feeds:,} with a feed, up to position {made.position:,}"
    )


def show(options: ShowOptions, console: Console) -> None:
    """Print the session.

    Raises:
        SessionNotFoundError: there is no such session.
        InvalidInputError: the session begins after the position, or the log ends before it.
    """
    with reading(options.database, console, options.session) as journal:
        found = shown(journal, options.session, at=options.at)
        console.show(found, options.output_format, *found.text().split("\n"))


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
        raise typer.BadParameter(f"a position in the log must be a number of 1 or more, not {text!r}")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def stats(options: StatsOptions, console: Console) -> None:
    """Print the statistics, and plot them if the options ask for it.

    Raises:
        NotFoundError: the log has no container, image or session with the id.
        InvalidInputError: a time is invalid.
        ConfigurationError: the plot cannot be written.
        StorageError: the log cannot be read.
    """
    now = datetime.now(UTC)
    since, until = (None if text is None else parse_time(text, now) for text in (options.since, options.until))
    by = options.by or ("day" if options.plot is not None else None)
    database = log_to_read(options.database, console)
    drawing = None if options.plot is None else _drawing(options.plot, database)
    with Audit.open(database) as audit, progress_line(console) as progress:
        found = audit.stats(
            by,
            since=since,
            until=until,
            container_id=options.container,
            image_id=options.image,
            session_id=options.session,
            progress=progress,
        )
    if drawing is not None:
        with replacing(drawing) as file:
            file.write(plot(found).encode())
    if options.output_format == "csv":
        console.write(csv_of(found))
    else:
        console.show(found, options.output_format, *text_of(found).split("\n"))


def _drawing(path: str, log: LogLocation) -> Path:
    """Return the path of the plot, which must be that of an SVG file, and not of a file of the log."""
    if log.owns(Path(path)):
        raise ConfigurationError(f"{path} is the log, or a file that belongs to it; name another for the drawing")
    if not path.lower().endswith(".svg"):
        raise ConfigurationError(f"the drawing is SVG; name a file that ends with .svg, not {path}")
    return Path(path)
