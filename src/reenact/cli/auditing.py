"""The commands that say what is in a log and what follows from it: what may be asked for, read here, done elsewhere."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from reenact.cli.arguments import Command, Database, Lines, Page
from reenact.cli.console import Console
from reenact.cli.options import (
    BranchOptions,
    CheckpointOptions,
    DiffOptions,
    ExportOptions,
    ImportOptions,
    ListFormat,
    LogOptions,
    ProjectionsOptions,
    RebuildOptions,
    ReplayOptions,
    ShowOptions,
    VerifyOptions,
)
from reenact.cli.parsing import Command as Taught

_MOST: Final = 1_000_000_000


def add_to(app: typer.Typer) -> None:
    """Let the command line know these commands."""
    app.command("branch", cls=Taught)(_branch)
    app.command("checkpoint", cls=Taught)(_checkpoint)
    app.command("diff", cls=Taught)(_diff)
    app.command("export", cls=Taught)(_export)
    app.command("import", cls=Taught)(_import)
    app.command("log", cls=Taught)(_log)
    app.command("projections", cls=Taught)(_projections)
    app.command("rebuild", cls=Taught)(_rebuild)
    app.command("replay", cls=Taught)(_replay)
    app.command("show", cls=Taught)(_show)
    app.command("verify", cls=Taught)(_verify)


def _branch(
    *,
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

    $ reenact branch ses_1 --id ses_2  # from where it is now
    $ reenact branch ses_1 --at 42 --edit "Say it in French"  # another question
    """
    options = BranchOptions(
        session=session,
        at=at,
        edit=edit,
        model=model,
        system_prompt=system_prompt,
        new_id=new_id,
        database=database,
        output_format=output_format,
    )

    def branch(console: Console) -> int:
        from reenact.cli import branch as branching  # noqa: PLC0415 - whoever asks for help need not wait for it

        return branching.branch(options, console)

    return branch


def _diff(
    *,
    what: Annotated[
        list[str],
        typer.Argument(metavar="SESSION A B | LEFT[@A] RIGHT[@B]", help="Two positions of a session, or two sessions."),
    ],
    database: Database = None,
    output_format: Page = ListFormat.TEXT,
) -> Command:
    """Say what changed in a session between two positions of the log, or what is different in two sessions.

    Exits with 1 if there is any difference.

    $ reenact diff ses_1 42 57  # between two positions of the log
    $ reenact diff ses_1 ses_2  # between two sessions, as a branch and its origin
    """
    options = DiffOptions(what=tuple(what), database=database, output_format=output_format)

    def diff(console: Console) -> int:
        from reenact.cli import diff as differing  # noqa: PLC0415 - whoever asks for help need not wait for it

        return differing.diff(options, console)

    return diff


def _export(
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where it goes; - is standard output.")],
    sessions: Annotated[
        list[str] | None,
        typer.Option("--session", metavar="ID", help="Only this one, with all that it needs; may be given again."),
    ] = None,
    redact: Annotated[
        str | None,
        typer.Option("--redact", metavar="POLICY.json", help="What must not leave, and secrets by their form."),
    ] = None,
    redact_secrets: Annotated[
        bool,
        typer.Option("--redact-secrets", help="API keys, tokens, passwords in URLs and private keys do not leave."),
    ] = False,
    hash_key: Annotated[
        str | None,
        typer.Option("--hash-key", metavar="FILE", help="Mark equal values equally, by a hash with this key."),
    ] = None,
    no_feeds: Annotated[bool, typer.Option("--no-feeds", help="Without what subscribers saw.")] = False,
    database: Database = None,
    output_format: Page = ListFormat.TEXT,
) -> Command:
    """Write the log, or some of its sessions, to a file that anybody can read and `reenact import` verifies.

    $ reenact export log.jsonl
    $ reenact export shared.jsonl --session ses_1 --redact-secrets
    """
    if hash_key is not None and redact is None and not redact_secrets:
        raise typer.TyperException("--hash-key marks what is taken out; give --redact or --redact-secrets with it")
    if file == "-" and output_format is ListFormat.JSON:
        raise typer.TyperException("standard output has the export; give a file, or no --output-format")
    options = ExportOptions(
        file=file,
        sessions=tuple(sessions or ()),
        redact=redact,
        redact_secrets=redact_secrets,
        hash_key=hash_key,
        feeds=not no_feeds,
        database=database,
        output_format=output_format,
    )

    def export(console: Console) -> int:
        from reenact.cli import export as exporting  # noqa: PLC0415 - likewise

        return exporting.export(options, console)

    return export


def _import(
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What was exported; - is standard input.")],
    database: Database = None,
    output_format: Page = ListFormat.TEXT,
) -> Command:
    """Take what was exported into the log, or begin one with it: all of it, once it is verified, or nothing.

    $ reenact import log.jsonl --db copy.db
    """
    options = ImportOptions(file=file, database=database, output_format=output_format)

    def import_(console: Console) -> int:
        from reenact.cli import import_ as importing  # noqa: PLC0415 - likewise

        return importing.import_(options, console)

    return import_


def _log(
    *,
    database: Database = None,
    output_format: Lines = ListFormat.TEXT,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Only this session.")] = None,
    lineage: Annotated[
        bool, typer.Option("--lineage", help="With --session: also what a branch shares with its origin.")
    ] = False,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="AGENT", help="Only while this agent was live.")
    ] = None,
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
    """List the events of the log, also while it is being written.

    $ reenact log --last 20
    $ reenact log --follow --type turn_completed --output-format json
    $ reenact log --since 2h --text weather
    $ reenact log --why 42  # what an event follows from
    """
    if reverse and follow:
        raise typer.TyperException("--reverse ends with the oldest event, and --follow does not end; give one of them")
    if last is not None and (reverse or limit is not None):
        raise typer.TyperException("--last says which events and in which order; give no --limit and no --reverse")
    filters = (session, agent, types, since, until, text, after or None, limit, last)
    if why is not None and (lineage or reverse or follow or any(one is not None for one in filters)):
        raise typer.TyperException("--why is about one event; give no filters with it")
    if lineage and session is None:
        raise typer.TyperException("--lineage is that of a session; name it with --session")
    options = LogOptions(
        database=database,
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


def _projections(*, database: Database = None, output_format: Lines = ListFormat.TEXT) -> Command:
    """List the tables that follow the log: how far they are, and if something keeps them from going on.

    Exits with 1 if one of them has stopped.

    $ reenact projections
    """
    options = ProjectionsOptions(database=database, output_format=output_format)

    def projections(console: Console) -> int:
        from reenact.cli import projections as tables  # noqa: PLC0415 - likewise

        return tables.projections(options, console)

    return projections


def _rebuild(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One of your own projections. Default: the runtime's tables."),
    ] = None,
    places: Annotated[
        list[str] | None,
        typer.Option(
            "--projections",
            metavar="FILE.py|MODULE[:NAME]",
            help="Where the class of a projection of your own is. Repeatable.",
        ),
    ] = None,
    database: Database = None,
    output_format: Page = ListFormat.TEXT,
) -> Command:
    """Make the tables of a projection anew from the log, beside those that are read, and put them in their place.

    A rebuilding that was cut short is gone on with. While a program has the log open to write, it is for that program
    to do, with runtime.projections.rebuild().

    $ reenact rebuild  # the runtime's tables
    $ reenact rebuild words --projections words.py  # one of your own
    """
    options = RebuildOptions(name=name, places=tuple(places or ()), database=database, output_format=output_format)

    def rebuild(console: Console) -> int:
        from reenact.cli import projections as tables  # noqa: PLC0415 - likewise

        return tables.rebuild(options, console)

    return rebuild


def _replay(
    *,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SESSION ... | PATH ...]",
            help="Sessions; or exports (*.jsonl), logs (*.db), and folders of them. Without any: the whole log.",
            show_default=False,
        ),
    ] = None,
    database: Database = None,
    output_format: Lines = ListFormat.TEXT,
) -> Command:
    """Decide recorded histories anew, as today's code does, and say where it parts from them; nothing is run.

    Exits with 1 if any history is decided otherwise today.

    $ reenact replay  # the whole log
    $ reenact replay exports/  # the exports in a folder
    """
    options = ReplayOptions(what=tuple(what or ()), database=database, output_format=output_format)

    def replay(console: Console) -> int:
        from reenact.cli import replay as replaying  # noqa: PLC0415 - likewise

        return replaying.replay(options, console)

    return replay


def _show(
    *,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    at: Annotated[
        int | None, typer.Option("--at", metavar="POSITION", help="As it was at this position of the log.")
    ] = None,
    database: Database = None,
    output_format: Page = ListFormat.TEXT,
) -> Command:
    """Show a session as it is, or was: its conversation, what is under way, what waits for people, and what it cost.

    $ reenact show ses_1
    $ reenact show ses_1 --at 42  # as it was at that position of the log
    """
    options = ShowOptions(session=session, at=at, database=database, output_format=output_format)

    def show(console: Console) -> int:
        from reenact.cli import show as showing  # noqa: PLC0415 - likewise

        return showing.show(options, console)

    return show


def _checkpoint(
    *,
    output: Annotated[
        str | None, typer.Option("--output", metavar="FILE", help="Where to; standard output without it.")
    ] = None,
    database: Database = None,
    output_format: Page = ListFormat.TEXT,
) -> Command:
    """Write where every stream and feed of the log ends: what is kept elsewhere tells later whether any was cut off.

    A checkpoint is lines of JSON in either format, which is that of what is said of one in a file.

    $ reenact checkpoint --output checkpoint.jsonl  # `reenact verify --checkpoint` holds the log to it
    """
    options = CheckpointOptions(output=output, database=database, output_format=output_format)

    def checkpoint(console: Console) -> int:
        from reenact.cli import verify as verifying  # noqa: PLC0415 - whoever asks for help need not wait for it

        return verifying.checkpoint(options, console)

    return checkpoint


def _verify(
    *,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", metavar="FILE", help="Hold the log to what `checkpoint` has written.")
    ] = None,
    database: Database = None,
    output_format: Page = ListFormat.TEXT,
) -> Command:
    """Look for anything in the log that is not as it was written, also while it is being written.

    The first bad record of every stream and feed is named. Exits with 1 if there is any.

    $ reenact verify
    $ reenact verify --checkpoint checkpoint.jsonl  # and is all of it still there?
    """
    options = VerifyOptions(checkpoint=checkpoint, database=database, output_format=output_format)

    def verify(console: Console) -> int:
        from reenact.cli import verify as verifying  # noqa: PLC0415 - likewise

        return verifying.verify(options, console)

    return verify
