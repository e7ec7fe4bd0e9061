"""The command `replay`: replays histories with today's code, or with other rules, and counts what would change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET

from reenact._location import location_of
from reenact._runtime import codec
from reenact._transfer import open_export
from reenact.actors.journal.key_ring import KeyRing
from reenact.cli.commands.sessions import key_ring, progress_line, reading
from reenact.cli.output.console import Console
from reenact.cli.output.failures import ExitCode, NoLogYetError
from reenact.cli.parsing.options import ReplayOptions
from reenact.cli.settings.configuration import read_policies, read_prices
from reenact.domain.errors import ExportUnusableError, InvalidInputError, LogUnusableError
from reenact.domain.history.what_if import Otherwise, RuleOverrides, Ruling
from reenact.domain.legible import shortened
from reenact.domain.loop.ledger import CostLimit
from reenact.domain.policy.reading import policies_by_image
from reenact.projections.log import AuditedLog
from reenact.projections.verification.replay import Parting, PlainEvent, Retraced, retrace
from reenact.projections.verification.what_if import Supposed, what_if

_EXPORT = ".jsonl"
_LOG = ".db"
_Sourced: TypeAlias = tuple[str | None, Retraced]
_Replay: TypeAlias = Callable[..., Iterator[Retraced]]
"""Yields the results for the histories of a log, or for one session of it."""


def replay(options: ReplayOptions, console: Console) -> int:
    """Print the result for each history; return 1 if any decision differs from the recorded one, or else 0.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: a file or folder contains no history.
        ConfigurationError: an assumption is invalid.
    """
    assumptions, changes = _assumptions_of(options), _ChangeCounts()
    replay_log: _Replay = retrace if assumptions is None else partial(what_if, supposed=assumptions)
    lines_of = _result_lines if assumptions is None else _change_lines
    count = differing = forgotten = 0
    with progress_line(console) as progress:
        for source, retraced in _all(options, partial(replay_log, progress=progress), console):
            if retraced.session_id is None and retraced.divergence is None:
                continue
            count += 1
            differing += retraced.divergence is not None or bool(retraced.otherwise)
            forgotten += retraced.forgotten
            changes.add(retraced)
            value = {"source": source, **msgspec.structs.asdict(retraced)}
            what = "  ".join(part for part in (source, retraced.session_id or retraced.stream) if part)
            lines = [f"{what}  forgotten"] if retraced.forgotten else lines_of(what, retraced)
            console.show(value, options.output_format, *lines)
    if options.output_format == "text":
        histories = _counted(count, "history", "histories")
        said = "all as recorded" if not differing else f"{differing} not as recorded"
        said += f"; {forgotten} forgotten, and replayed up to there" if forgotten else ""
        summary = f"{histories}, {said}" if assumptions is None else changes.text(histories)
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
            yield from ((None, result) for result in replay_log(log, session_id=session_id))


def _files(what: Sequence[str]) -> list[Path]:
    """Return the named files and those in the named folders; an empty list if sessions are named."""
    paths = [Path(file) for file in what]
    named = [file.endswith((_EXPORT, _LOG, "/")) or path.exists() for file, path in zip(what, paths, strict=True)]
    if not any(named):
        return []
    files: list[Path] = []
    for path in paths:
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        kept = [file for file in found if file.is_file() and (file == path or file.suffix in (_EXPORT, _LOG))]
        if not kept:
            why = f"holds no *{_EXPORT} and no *{_LOG}" if path.is_dir() else "does not exist"
            why = "is not a file" if path.exists() and not path.is_dir() else why
            raise InvalidInputError(f"{path} {why}; name sessions, or files and folders of histories")
        files.extend(kept)
    return files


def _of_file(file: Path, ring: KeyRing | None, replay_log: _Replay) -> Iterator[_Sourced]:
    name = str(file)
    try:
        with _opened(file, ring) as log:
            yield from ((name, result) for result in replay_log(log))
    except (ExportUnusableError, LogUnusableError) as error:  # it is not a valid history, whatever it is
        parting = Parting(
            position=None, version=0, recorded=None, decided=None, field="", command=None, problem=str(error)
        )
        yield name, Retraced(stream="", session_id=None, steps=0, events=0, divergence=parting)


def _opened(file: Path, ring: KeyRing | None) -> AbstractContextManager[AuditedLog]:
    if file.suffix == _EXPORT:
        return nullcontext(open_export(file, keys=ring))
    return location_of(file, ring).open(codec(), read_only=True)


def _result_lines(what: str, retraced: Retraced) -> Iterator[str]:
    """Yield the lines about a history, which is called `what`."""
    parting, steps = retraced.divergence, _counted(retraced.steps, "step")
    if parting is None:
        yield f"{what}  as recorded: {steps}, {_counted(retraced.events, 'event')}"
        if retraced.undecided:
            yield f"    {_counted(retraced.undecided, 'step')} could not be decided anew, since they are redacted"
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


_WIDTH = 60
"""Columns for the arguments of a call."""
_WAS: Final = {
    "run": "ran",
    "ask": "was asked about",
    "deny": "was denied",
    "go_on": "went on",
    "warn": "went on with a warning",
    "stop": "was ended",
    "interrupt": "was interrupted",
}
_WOULD: Final = {
    "deny": "be denied",
    "ask": "be asked about",
    "run": "run",
    "stop": "be ended",
    "interrupt": "be interrupted",
    "warn": "go on with a warning",
    "go_on": "go on",
}
"""In the order in which the counts are listed."""


def _assumptions_of(options: ReplayOptions) -> Supposed | None:
    """Return the assumptions of the options; None if there are none.

    Raises:
        ConfigurationError: the policy file cannot be read or is invalid, or a price is invalid.
    """
    policies, of_images = (None, {}) if options.policy is None else read_policies(options.policy, policies_by_image)
    instead = RuleOverrides(
        policies=policies,
        max_steps=UNSET if options.max_turns is None else options.max_turns,
        cost_limit=UNSET if options.max_cost is None else CostLimit(options.max_cost),
        prices=read_prices(options.prices),
    )
    supposed = Supposed(instead=instead, policies=of_images)
    return None if supposed == Supposed() else supposed


class _ChangeCounts:
    """Counts the changed decisions in all histories by kind."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        self._undecided = 0
        self._unread = 0

    def add(self, retraced: Retraced) -> None:
        """Count the changed decisions of a history."""
        self._undecided += retraced.undecided
        self._unread += retraced.divergence is not None
        for change in retraced.otherwise:
            which = self._turns if change.call_id is None else self._calls
            which[_would_be(change.decided)] += 1

    def text(self, histories: str) -> str:
        """Return the counts as a sentence, which begins with the number of `histories`."""
        order = list(_WOULD.values())
        said = [
            f"{_counted(count, what)} would {would}"
            for what, counts in (("call", self._calls), ("turn", self._turns))
            for would, count in sorted(
                counts.items(), key=lambda entry: (order.index(entry[0].partition(" by ")[0]), entry)
            )
        ]
        if self._unread:
            said.append(f"{_counted(self._unread, 'history', 'histories')} cannot be read to the end")
        summary = f": {', '.join(said)}" if said else ", nothing would be otherwise"
        undecided = f"; {_counted(self._undecided, 'decision')} cannot be made again from the log alone"
        return f"{histories}{summary}{undecided if self._undecided else ''}"


def _change_lines(what: str, retraced: Retraced) -> Iterator[str]:
    """Yield the lines about a history under other rules, which is called `what`."""
    parting, decisions = retraced.divergence, _counted(retraced.decisions, "decision")
    if not retraced.otherwise:
        yield f"{what}  nothing would be otherwise: {decisions}"
    else:
        yield f"{what}  {len(retraced.otherwise)} of {decisions} would be otherwise"
    yield from map(_change_line, retraced.otherwise)
    if parting is not None:
        where = "" if parting.position is None else f" from position {parting.position} on"
        yield f"    cannot be read{where}: {parting.problem}"


def _change_line(change: Otherwise) -> str:
    what = "the turn"
    if change.call_id is not None:
        what = f"{change.tool} {shortened(msgspec.json.encode(change.arguments).decode(), _WIDTH)}"
    was, would = f"{_WAS[change.recorded.decision]}{_by(change.recorded)}", _would_be(change.decided)
    place = "  ".join(filter(None, (str(change.position), change.turn_id)))
    return f"    {place}  {what} {was}{_why(change.recorded)} and would {would}{_why(change.decided)}"


def _would_be(ruling: Ruling) -> str:
    return f"{_WOULD[ruling.decision]}{_by(ruling)}"


def _by(ruling: Ruling) -> str:
    return f" by {ruling.limit}" if ruling.limit is not None and ruling.decision != "warn" else ""


def _why(ruling: Ruling) -> str:
    return f" ({ruling.reason})" if ruling.reason else ""


def _counted(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"
