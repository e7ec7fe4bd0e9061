"""The commands about extensions: what may be asked for, read here, done elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from reenact.cli.arguments import Command, Page
from reenact.cli.console import Console
from reenact.cli.options import ExtensionsOptions, ListFormat, TrustOptions
from reenact.cli.parsing import Command as Taught
from reenact.cli.parsing import Group


def add_to(app: typer.Typer) -> None:
    """Let the command line know these commands."""
    extensions = typer.Typer(cls=Group, add_completion=False, rich_markup_mode=None)
    extensions.callback(invoke_without_command=True)(_extensions)
    extensions.command("trust", cls=Taught)(_trust)
    app.add_typer(extensions, name="extensions")


def _extensions(*, context: typer.Context, output_format: Page = ListFormat.TEXT) -> Command | None:
    """List the skills, commands, agents and hooks in ~/.reenact and ./.reenact, and what there was passed over.

    Exits with 1 if anything was.

    $ reenact extensions
    $ reenact extensions --output-format json
    """
    if context.invoked_subcommand is not None:
        return None
    options = ExtensionsOptions(output_format=output_format)

    def extensions(console: Console) -> int:
        from reenact.cli import extension_list  # noqa: PLC0415 - whoever asks for help need not wait for it

        return extension_list.extensions(options, console)

    return extensions


def _trust(
    *,
    project: Annotated[
        str | None, typer.Argument(metavar="PATH", help="The project's folder; the current one without it.")
    ] = None,
    untrust: Annotated[bool, typer.Option("--untrust", help="Trust the project no more.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Trust it without being asked.")] = False,
) -> Command:
    """Let the hooks of a project run, and its commands be called.

    At a terminal they are shown, and you are asked; where nobody is, they are listed. They are trusted as they are now:
    when any of them changes, none runs until they are trusted again.

    $ reenact extensions trust  # the current directory
    $ reenact extensions trust ../project --untrust
    """
    options = TrustOptions(project=project, untrust=untrust, yes=yes)

    def trust(console: Console) -> int:
        from reenact.cli import trusting  # noqa: PLC0415 - likewise

        return trusting.trust(options, console)

    return trust
