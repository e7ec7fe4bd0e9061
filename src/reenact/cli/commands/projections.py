"""The commands `projections` and `rebuild`, about the tables that are derived from the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from reenact._runtime import codec
from reenact.cli.commands.sessions import log_named, progress_line, reading
from reenact.cli.output.console import Console
from reenact.cli.output.failures import ExitCode
from reenact.cli.parsing.options import ProjectionsOptions, RebuildOptions
from reenact.cli.settings.configuration import values_at
from reenact.domain.errors import ConfigurationError, LogLockedError
from reenact.projections.errors import ProjectionNotFoundError
from reenact.projections.generations import NAME, ProjectionStatus
from reenact.projections.read_model.opening import open_read_model, statuses
from reenact.projections.views.declared import Projection
from reenact.projections.views.projections import Projections


def projections(options: ProjectionsOptions, console: Console) -> int:
    """Print the status of the projections; return 1 if one has stopped."""
    with reading(options.database, console) as journal:
        location = log_named(options.database, console)
        code = ExitCode.SUCCESS
        place, views, is_run = location.url, location.projections, location.has_writer()
        for status in statuses(place, views, head=journal.head(), is_run=is_run):
            console.show(status, options.output_format, _line(status))
            if status.health == "stopped":
                code = ExitCode.UNEXPECTED
    return code


def rebuild(options: RebuildOptions, console: Console) -> None:
    """Rebuild the tables of one projection.

    Raises:
        ConfigurationError: there is no log, another process has it open for writing, or the class cannot be found.
        ProjectionFailedError: an event cannot be projected; the tables are unchanged.
    """
    location = log_named(options.database, console)
    if not location.exists():
        raise ConfigurationError(f"there is no log at {location.name}; --db names another")
    chosen = [] if options.name in (None, NAME) else [_find(options.name or "", options.places)]
    try:
        journal = location.open(codec(), closed=True)
    except LogLockedError as error:
        call = f"runtime.projections.rebuild({repr(options.name) if chosen else ''})"
        raise ConfigurationError(f"{error}; or have it do this itself, by {call}") from error
    with journal, progress_line(console) as report:
        if chosen:
            with Projections.open(location.projections, journal, chosen) as views:
                views.rebuild(options.name, progress=report)
                (status,) = views.status()
        else:
            tables = open_read_model(location.url, journal, cipher=journal.codec.vault)
            with tables.model, closing(tables):
                tables.rebuild(report)
                status = tables.status(journal.head())
    console.show(status, options.output_format, _line(status))


def _line(status: ProjectionStatus) -> str:
    line = f"{status.name}  version {status.version}  position {status.position}  lag {status.lag}  {status.health}"
    if status.rebuild is not None:
        line += f"  new tables at {status.rebuild.done} of {status.rebuild.total}"
    failure = status.failure
    if failure is not None:
        what = "" if failure.position is None else f"{failure.event_type} at {failure.position} ({failure.stream}): "
        line += f"  {what}{failure.reason}"
    return line


def _find(name: str, places: Sequence[str]) -> Projection:
    found = [projection for place in places for projection in _projections_at(place)]
    for projection in found:
        if projection.name == name:
            return projection
    if not places:
        raise ConfigurationError(f"say where the class of the projection {name!r} is: --projections FILE.py")
    raise ProjectionNotFoundError(name)


def _projections_at(place: str) -> Iterator[Projection]:
    name, values = values_at(place, "--projections")
    for value in values:
        if isinstance(value, Projection):
            yield value
        elif isinstance(value, type) and issubclass(value, Projection) and value is not Projection:
            try:
                yield value()
            except TypeError as error:
                if name:
                    raise ConfigurationError(f"--projections {place}: {error}; name an instance") from error
