"""`inspect`: serves pages that show a log, until somebody ends it."""

from __future__ import annotations

import threading

from reenact.cli.commands.sessions import log_to_read
from reenact.cli.interrupts import stopping
from reenact.cli.output.console import Console
from reenact.cli.output.failures import ExitCode, ServerEndedError
from reenact.cli.parsing.options import InspectOptions
from reenact.inspector import Inspector, Source

LOOK_AROUND = 1.0
"""Seconds after which to see whether the server is still there."""


def inspect(options: InspectOptions, console: Console) -> int:
    """Serve the pages until told to end.

    Raises:
        ConfigurationError: the port cannot be listened on.
        StorageError: the log cannot be read.
    """
    database = log_to_read(options.database, console)
    if database is None:
        return ExitCode.SUCCESS
    stop = threading.Event()
    with stopping(stop.set), Source.open(database) as source, Inspector(source, port=options.port) as inspector:
        console.write(f"open {inspector.address}\n")
        while not stop.wait(LOOK_AROUND):
            if inspector.wait(0):
                raise ServerEndedError("the inspector has ended by itself")
    return ExitCode.SUCCESS
