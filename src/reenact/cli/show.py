"""A session as it was at a position of the log."""

from __future__ import annotations

from reenact.cli.console import Console
from reenact.cli.failures import ExitCode
from reenact.cli.lines import as_page
from reenact.cli.listing import reading
from reenact.cli.options import ShowOptions
from reenact.domain.errors import SessionNotFoundError
from reenact.projections.explain.history_view import shown


def show(options: ShowOptions, console: Console) -> int:
    """Print the session.

    Raises:
        SessionNotFoundError: there is no such session.
        InvalidInputError: the session begins behind the position, or the log ends before it.
    """
    with reading(options.database, console) as journal:
        if journal is None:
            raise SessionNotFoundError(options.session)
        as_page(shown(journal, options.session, at=options.at), options.output_format, console)
    return ExitCode.SUCCESS
