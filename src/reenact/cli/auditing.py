"""The commands that say what is in a log and what follows from it: what may be asked for, read here, done elsewhere."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from reenact.cli.arguments import Command, Database, Lines, Page
from reenact.cli.console import Console
from reenact.cli.options import BranchOptions, DiffOptions, ListFormat, LogOptions, ShowOptions

_MOST: Final = 1_000_000_000


def add_to(app: typer.Typer) -> None:
    """Let the command line know these commands."""
    app.command("branch")(_branch)
    app.command("diff")(_diff)
    app.command("log")(_log)
    app.command("show")(_show)


def _branch(
    *,
    context: typer.Context,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id; it may be deleted.")],
    at: Annotated[
        int | None, typer.Option("--at", metavar="POSITION", help="Share the history up to this position of the log.")
    ] = None,
    edit: Annotated[
        str | None, typer.Option("--edit", metavar="TEXT", help="Say this instead of the last message up to there.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Go on with this model.")] = None,
    system_prompt: Annotated[
        str | None, typer.Option("--system-prompt", metavar="TEXT", help="Go on with these instructions.")
    ] = None,
    new_id: Annotated[str | None, typer.Option("--id", metavar="NEW", help="The id of the new session.")] = None,
    database: Database = None,
    output_format: Page = ListFormat.TEXT,
) -> Command:
    """Create a session that goes on with the history of another one, which stays as it is, and print its id.

    Nothing is copied. reenact --resume ID talks in it.
    """
    options = BranchOptions(
        session=session,
        at=at,
        edit=edit,
        model=model,
        system_prompt=system_prompt,
        new_id=new_id,
        database=database or context.obj,
        output_format=output_format,
    )

    def branch(console: Console) -> int:
        from reenact.cli import branch as branching  # noqa: PLC0415 - whoever asks for help need not wait for it

        return branching.branch(options, console)

    return branch


def _diff(
    *,
    context: typer.Context,
    what: Annotated[
        list[str],
        typer.Argument(metavar="SESSION A B | LEFT[@A] RIGHT[@B]", help="Two positions of a session, or two sessions."),
    ],
    database: Database = None,
    output_format: Page = ListFormat.TEXT,
) -> Command:
    """Say what changed in a session between two positions of the log, or what is different in two sessions.

    Exits with 1 if there is any difference.
    """
    options = DiffOptions(what=tuple(what), database=database or context.obj, output_format=output_format)

    def diff(console: Console) -> int:
        from reenact.cli import diff as differing  # noqa: PLC0415 - whoever asks for help need not wait for it

        return differing.diff(options, console)

    return diff


def _log(
    *,
    context: typer.Context,
    database: Database = None,
    output_format: Lines = ListFormat.TEXT,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Only this session.")] = None,
    lineage: Annotated[
        bool, typer.Option("--lineage", help="With --session: also what a branch shares with its origin.")
    ] = False,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only while this agent was live.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type; may be given more than once.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only from then on: 2026-11-21T08:30, or 15m, 2h, 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only up to then.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="Only where this is said, in capitals or not.")] = None,
    after: Annotated[int, typer.Option("--after", metavar="POSITION", help="Only what comes behind this.")] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=0, max=_MOST, help="No more than the first N.")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", metavar="N", min=0, max=_MOST, help="No more than the last N.")
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="The newest first.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is still to come.")] = False,
    why: Annotated[
        int | None,
        typer.Option("--why", metavar="POSITION", help="Why this event happened, and what followed from it."),
    ] = None,
) -> Command:
    """List the events of the log, also while it is being written."""
    if reverse and follow:
        raise typer.BadParameter("--reverse ends with the oldest event, and --follow does not end; give one of them")
    if last is not None and (reverse or limit is not None):
        raise typer.BadParameter("--last says which events and in which order; give no --limit and no --reverse")
    filters = (session, agent, types, since, until, text, after or None, limit, last)
    if why is not None and (lineage or reverse or follow or any(one is not None for one in filters)):
        raise typer.BadParameter("--why is about one event; give no filters with it")
    if lineage and session is None:
        raise typer.BadParameter("--lineage is that of a session; name it with --session")
    options = LogOptions(
        database=database or context.obj,
        output_format=output_format,
        session=session,
        lineage=lineage,
        agent=agent,
        types=tuple(types or ()),
        since=since,
        until=until,
        text=text,
        after=after,
        limit=limit,
        last=last,
        reverse=reverse,
        follow=follow,
        why=why,
    )

    def log(console: Console) -> int:
        from reenact.cli import log as logs  # noqa: PLC0415 - likewise

        return logs.log(options, console)

    return log


def _show(
    *,
    context: typer.Context,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    at: Annotated[
        int | None, typer.Option("--at", metavar="POSITION", help="As it was at this position of the log.")
    ] = None,
    database: Database = None,
    output_format: Page = ListFormat.TEXT,
) -> Command:
    """Show a session as it is, or was: its conversation, what is under way, what waits for people, and what it cost."""
    options = ShowOptions(session=session, at=at, database=database or context.obj, output_format=output_format)

    def show(console: Console) -> int:
        from reenact.cli import show as showing  # noqa: PLC0415 - likewise

        return showing.show(options, console)

    return show
