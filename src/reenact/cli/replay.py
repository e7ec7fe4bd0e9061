"""Whether today's code decides what was recorded: in sessions of a log, or in histories that are kept in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from reenact._runtime import codec
from reenact._transfer import open_export
from reenact.actors.journal.opening import file_of
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.cli.console import Console
from reenact.cli.exact import harmless
from reenact.cli.failures import ExitCode
from reenact.cli.lines import as_line
from reenact.cli.listing import reading
from reenact.cli.options import ListFormat, ReplayOptions
from reenact.cli.progress import progress_line
from reenact.domain.errors import ExportUnusableError, InvalidInputError, LogUnusableError, SessionNotFoundError
from reenact.projections.log import AuditedLog, OnProgress
from reenact.projections.verification.replay import Parting, Retraced, Told, retrace

DIFFERS: Final = 1
"""The exit code when a history is decided otherwise today."""
_EXPORT: Final = ".jsonl"
_LOG: Final = ".db"
_Found: TypeAlias = tuple[str | None, Retraced]


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """A history as a program reads it: where it is from, None for the log, and what came of it."""

    source: str | None
    stream: str
    session_id: str | None
    steps: int
    events: int
    divergence: Parting | None
    undecided: int


def replay(options: ReplayOptions, console: Console) -> int:
    """Print what comes of each history; return 1 if one is decided otherwise today, 0 if none is.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: a file, or a folder of them, holds no history.
    """
    count = differing = 0
    with progress_line(console) as progress:
        for source, retraced in _all(options, progress, console):
            if retraced.session_id is None and retraced.divergence is None:
                continue
            count += 1
            differing += retraced.divergence is not None
            _print(source, retraced, options.output_format, console)
    if options.output_format is ListFormat.TEXT:
        histories = "1 history" if count == 1 else f"{count} histories"
        said = "all as recorded" if not differing else f"{differing} not as recorded"
        console.write(f"{histories}, {said}\n" if count else "there is no session\n")
    return DIFFERS if differing else ExitCode.SUCCESS


def _all(options: ReplayOptions, progress: OnProgress, console: Console) -> Iterator[_Found]:
    files = _files(options.what)
    if files:
        for file in files:
            yield from _of_file(file, progress)
        return
    with reading(options.database, console) as log:
        if log is None:
            if options.what:
                raise SessionNotFoundError(options.what[0])
            return
        for session_id in options.what or (None,):
            yield from ((None, one) for one in retrace(log, session_id, progress=progress))


def _files(what: Sequence[str]) -> list[Path]:
    """Return the files that are named, or stand in the folders that are; none, if sessions are named."""
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


def _of_file(file: Path, progress: OnProgress) -> Iterator[_Found]:
    name = str(file)
    try:
        with _opened(file) as log:
            yield from ((name, one) for one in retrace(log, progress=progress))
    except (ExportUnusableError, LogUnusableError) as error:  # whatever it is, it is no history of ours
        parting = Parting(
            position=None, version=0, recorded=None, decided=None, field="", command=None, problem=str(error)
        )
        yield name, Retraced(stream="", session_id=None, steps=0, events=0, divergence=parting)


def _opened(file: Path) -> AbstractContextManager[AuditedLog]:
    if file.suffix == _EXPORT:
        return nullcontext(open_export(file))
    return SqliteJournal.open(file_of(file), codec(), read_only=True)


def _print(source: str | None, retraced: Retraced, form: ListFormat, console: Console) -> None:
    if form is ListFormat.JSON:
        console.write(as_line(_Line(source=source, **msgspec.structs.asdict(retraced))))
    else:
        console.write("".join(f"{harmless(line)}\n" for line in _lines(source, retraced)))


def _lines(source: str | None, retraced: Retraced) -> Iterator[str]:
    what = "  ".join(one for one in (source, retraced.session_id or retraced.stream) if one)
    parting, steps = retraced.divergence, f"{retraced.steps} step{'' if retraced.steps == 1 else 's'}"
    if parting is None:
        yield f"{what}  as recorded: {steps}, {retraced.events} events"
        if retraced.undecided:
            them = "1 step" if retraced.undecided == 1 else f"{retraced.undecided} steps"
            yield f"    {them} could not be decided anew, since they are redacted"
        return
    where = "" if parting.position is None else f" at position {parting.position}"
    is_unreadable = parting.recorded is None and parting.decided is None
    yield f"{what}  {'cannot be decided' if is_unreadable else 'differs'}{where}, behind {steps}: {parting.problem}"
    if parting.recorded is not None:
        yield f"    recorded: {_told(parting.recorded)}"
    if parting.decided is not None:
        yield f"    decided:  {_told(parting.decided)}"


def _told(told: Told) -> str:
    return f"{told.type}  {msgspec.json.encode(told.data).decode()}"
