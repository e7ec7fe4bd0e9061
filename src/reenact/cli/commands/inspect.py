"""The command `inspect`: serves pages that show a log, until it is told to stop."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from reenact._runtime import Runtime
from reenact.actors.api.asking import Asking
from reenact.cli.commands.sessions import log_to_read
from reenact.cli.interrupts import stopping
from reenact.cli.output.console import Console
from reenact.cli.output.failures import ServerEndedError
from reenact.cli.parsing.options import InspectOptions
from reenact.cli.settings.configuration import user_name
from reenact.domain.errors import ConfigurationError
from reenact.inspector import Inspector, Source, compile_templates
from reenact.server.service import read_tokens

LOOK_AROUND = 1.0
"""Interval in seconds at which to check whether the server still runs."""


def inspect(options: InspectOptions, console: Console) -> None:
    """Serve the pages until told to stop.

    Raises:
        ConfigurationError: the port cannot be used, or the options for actions do not fit together.
        ServerUnreachableError, AuthenticationError: the server for the actions cannot be reached, or refuses the token.
        StorageError: the log cannot be read.
    """
    check_server(options)
    database = log_to_read(options.database, console)
    compile_templates()
    if options.server is not None:
        console.say(f"connecting to {options.server}")
    with (
        stopping() as is_asked_to_stop,
        connected(options) as owner,
        Source.open(database) as source,
        Inspector(source, port=options.port, owner=owner, by=options.by or user_name() or "somebody") as inspector,
    ):
        check_same_log(owner, source)
        console.write(f"open {inspector.address}\n")
        while not is_asked_to_stop(LOOK_AROUND):
            if inspector.wait(0):
                raise ServerEndedError("the inspector has ended by itself")


def check_server(options: InspectOptions) -> None:
    """Check that a server is named if and only if actions are allowed.

    Raises:
        ConfigurationError: only one of these options is given.
    """
    if options.allow_actions and options.server is None:
        raise ConfigurationError(
            "--allow-actions needs the process that has the log: give --server URL of its `reenact serve`, or start it "
            "with `reenact serve --inspect --allow-actions`"
        )
    if not options.allow_actions and (options.server is not None or options.token_file is not None):
        raise ConfigurationError(
            "--server and --token-file are for --allow-actions; without it pages only show the log"
        )


@contextmanager
def connected(options: InspectOptions) -> Generator[Asking | None]:
    """Connect to the server, if actions go through one."""
    if options.server is None:
        yield None
        return
    token = None if options.token_file is None else read_tokens(options.token_file)[0]
    with Runtime.connect(options.server, token=token) as owner:
        yield owner


def check_same_log(owner: Asking | None, source: Source) -> None:
    """Check that the server has the log that is shown.

    Raises:
        ConfigurationError: it has another log.
    """
    if owner is None:
        return
    ours = source.tables.model.sessions(1)
    if ours and owner.sessions.get(ours[0].id) is None:
        raise ConfigurationError(
            f"the server has another log than {source.location.name}: start both with the same --db"
        )
