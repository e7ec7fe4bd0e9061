"""The command `stats`: statistics of the log as text, JSON, CSV and a plot."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from reenact._files import replacing
from reenact._location import LogLocation
from reenact.audit import Audit
from reenact.cli.commands.log import parse_time
from reenact.cli.commands.sessions import log_to_read, progress_line
from reenact.cli.output.console import Console, ListFormat
from reenact.cli.output.failures import ExitCode
from reenact.cli.parsing.options import Grouping, StatisticsFormat, StatsOptions
from reenact.domain.errors import ConfigurationError
from reenact.projections.statistics.plot import plot
from reenact.projections.statistics.report import csv_of, text_of


def stats(options: StatsOptions, console: Console) -> int:
    """Print the statistics, and plot them if the options ask for it.

    Raises:
        NotFoundError: the log has no container, image or session with the id.
        InvalidInputError: a time is invalid.
        ConfigurationError: the plot cannot be written.
        StorageError: the log cannot be read.
    """
    now = datetime.now(UTC)
    since, until = (None if text is None else parse_time(text, now) for text in (options.since, options.until))
    by = options.by or (Grouping.DAY if options.plot is not None else None)
    database = log_to_read(options.database, console)
    with Audit.open(database) as audit, progress_line(console) as progress:
        found = audit.stats(
            None if by is None else by.value,
            since=since,
            until=until,
            container_id=options.container,
            image_id=options.image,
            session_id=options.session,
            progress=progress,
        )
    if options.plot is not None:
        with replacing(_drawing(options.plot, database)) as file:
            file.write(plot(found).encode())
    if options.output_format is StatisticsFormat.CSV:
        console.write(csv_of(found))
    else:
        console.show(found, ListFormat(options.output_format), *text_of(found).split("\n"))
    return ExitCode.SUCCESS


def _drawing(path: str, log: LogLocation) -> Path:
    """Return the path of the plot, which must not be a file of the log."""
    if log.owns(Path(path)):
        raise ConfigurationError(f"{path} is the log, or a file that belongs to it; name another for the drawing")
    return Path(path)
