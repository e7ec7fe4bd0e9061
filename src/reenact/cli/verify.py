"""Whether the log is what was once written, and where it ended: held to a checkpoint, or written as one."""

from __future__ import annotations

from pathlib import Path

from reenact._verifying import checkpoint_of, verify_log
from reenact.cli.console import Console
from reenact.cli.failures import ExitCode
from reenact.cli.lines import as_line, as_page
from reenact.cli.listing import database_of
from reenact.cli.options import CheckpointOptions, ListFormat, VerifyOptions
from reenact.cli.progress import progress_line


def verify(options: VerifyOptions, console: Console) -> int:
    """Print what is wrong with the log; exit with 1 if anything is.

    Raises:
        CheckpointError: what it is to be held to is no checkpoint of this log.
        StorageError: it cannot be read to its end.
    """
    database = database_of(options.database, console)
    if database is None:
        return ExitCode.SUCCESS
    with progress_line(console) as progress:
        verdict = verify_log(database, checkpoint=options.checkpoint, progress=progress)
    as_page(verdict, options.output_format, console)
    return ExitCode.SUCCESS if verdict.is_whole else ExitCode.UNEXPECTED


def checkpoint(options: CheckpointOptions, console: Console) -> int:
    """Write where every stream and feed of the log ends, to a file or to standard output.

    Raises:
        LogUnusableError: the log is damaged.
        ConfigurationError: the file cannot be written.
    """
    database = database_of(options.database, console)
    if database is None:
        return ExitCode.SUCCESS
    with progress_line(console) as progress:
        if options.output is None:
            checkpoint_of(database, lambda line: console.write(line.decode()), progress=progress)
            return ExitCode.SUCCESS
        made = checkpoint_of(database, Path(options.output), progress=progress)
    if options.output_format is ListFormat.JSON:
        console.write(as_line(made))
        return ExitCode.SUCCESS
    console.say(
        f"{options.output}: {made.streams:,} streams and {made.feeds:,} feeds, up to position {made.position:,}"
    )
    return ExitCode.SUCCESS
