"""The help of every command as one page, from the parser that reads the command line."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from typer.core import TyperCommand, TyperGroup

from reenact.cli.app import app
from reenact.cli.parsing.commands import Group
from reenact.cli.parsing.help_page import help_page

WIDTH = 88
HEAD = """# The help of every command

[The guide](command-line.md) says how the commands are used; this is what `reenact help COMMAND` prints.
"""


def commands() -> Iterator[tuple[str, str]]:
    """Yield each command, as it is typed, and its help."""
    yield from _below("reenact", typer.main.get_group(app))


def page() -> str:
    """Return the page."""
    return HEAD + "".join(f"\n## {name}\n\n```text\n{said.rstrip()}\n```\n" for name, said in commands())


def _below(path: str, group: TyperGroup) -> Iterator[tuple[str, str]]:
    yield path, help_page(group, path, group.appendix if isinstance(group, Group) else (), width=WIDTH)
    for name, command in sorted(group.commands.items()):
        if isinstance(command, TyperGroup):
            yield from _below(f"{path} {name}", command)
        elif isinstance(command, TyperCommand):
            yield f"{path} {name}", help_page(command, f"{path} {name}", width=WIDTH)
