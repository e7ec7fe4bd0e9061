"""A new session that goes on with the history of another one."""

from __future__ import annotations

from reenact._runtime import SharedRuntime
from reenact.cli.console import Console
from reenact.cli.failures import ExitCode
from reenact.cli.lines import as_line
from reenact.cli.listing import reading, visible
from reenact.cli.options import BranchOptions, ListFormat
from reenact.cli.talk import database_of
from reenact.domain.errors import SessionNotFoundError


def branch(options: BranchOptions, console: Console) -> int:
    """Create the branch, and print its id.

    Raises:
        ReenactError: as `Sessions.branch` does.
    """
    with reading(options.database, console) as log:  # where there is none, none is begun
        if log is None:
            raise SessionNotFoundError(options.session)
    with SharedRuntime.open(database_of(options.database, console)) as runtime:
        session = runtime.sessions.branch(
            options.session,
            at=options.at,
            edit=options.edit,
            model=options.model,
            system_prompt=options.system_prompt,
            new_session_id=options.new_id,
        )
    as_json = options.output_format is ListFormat.JSON
    console.write(as_line(session) if as_json else f"{visible(session.id)}\n")
    return ExitCode.SUCCESS
