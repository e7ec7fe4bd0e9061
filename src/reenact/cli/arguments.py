"""What several commands take on the command line, in which group of their help it stands, and how numbers are read."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import Annotated, Final, TypeAlias

import typer

from reenact.cli.console import Console
from reenact.cli.options import ListFormat
from reenact.cli.settings import preferred_database

CONVERSATION: Final = "Conversation"
TOOLS: Final = "Tools and limits"
PLACES: Final = "Where things are"
OUTPUT: Final = "Output"
OTHERS: Final = "Options"
GROUPS: Final = (CONVERSATION, OTHERS, TOOLS, PLACES, OUTPUT)
"""The groups of options, in the order of the help."""

FORMER: Final = frozenset({"--allow-tool", "--max-steps"})
"""Former spellings: they are heeded, and not told of."""

MOST_TURNS: Final = 1_000_000_000
_DIGITS: Final = re.compile(r"[0-9]{1,10}")

Command: TypeAlias = Callable[[Console], int]
"""What a command line asks for, still to be done; it returns the exit code."""


def whole_number(option: str, text: str | None) -> int | None:
    """Return the number of an option that says how often something may be done.

    Raises:
        TyperException: it is none, or not from 1 to `MOST_TURNS`.
    """
    if text is None:
        return None
    number = int(text) if _DIGITS.fullmatch(text) else 0
    if not 1 <= number <= MOST_TURNS:
        raise typer.TyperException(f"{option} is a number from 1 on, at most {MOST_TURNS:,}, not {text}")
    return number


def amount(option: str, text: str | None) -> float | None:
    """Return the amount of money of an option, or raise `TyperException`."""
    number = _number(text)
    if number is not None and not (number >= 0 and math.isfinite(number)):
        raise typer.TyperException(f"{option} is an amount of 0 or more, in the currency of --price, not {text}")
    return number


def seconds(option: str, text: str | None) -> float | None:
    """Return the seconds of an option, or raise `TyperException`."""
    number = _number(text)
    if number is not None and not (number > 0 and math.isfinite(number)):
        raise typer.TyperException(f"{option} is a number of seconds above 0, not {text}")
    return number


def names(option: str, texts: list[str] | None) -> tuple[str, ...]:
    """Return the names that stand in the values of an option, separated by commas or blanks.

    Raises:
        TyperException: there is none in one of them.
    """
    found: list[str] = []
    for text in texts or ():
        within = [name for name in re.split(r"[,\s]+", text) if name]
        if not within:
            raise typer.TyperException(f'{option} names tools, as in {option} "send_mail,mcp__files__*", not {text!r}')
        found += within
    return tuple(found)


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return math.nan


def _database(context: typer.Context, value: str | None) -> str | None:
    """Return the log of a subcommand: what is named behind it or before it, or else what the user prefers."""
    if value is not None and not value.strip():
        raise typer.TyperException("--db names a file, or a sqlite:/// URL, and not nothing")
    if value or context.parent is None:
        return value
    before: str | None = context.obj
    return before or preferred_database(os.environ)


Database: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="PATH|URL",
        callback=_database,
        help="The log: a file, or a sqlite:/// URL. Without it: REENACT_DB, or reenact.db in the user's data "
        "directory.",
        rich_help_panel=PLACES,
    ),
]
Lines: TypeAlias = Annotated[
    ListFormat,
    typer.Option(
        "--output-format",
        metavar="text|json",
        help="Lines for people (text), or one JSON object a line.",
        rich_help_panel=OUTPUT,
    ),
]
Page: TypeAlias = Annotated[
    ListFormat,
    typer.Option(
        "--output-format", metavar="text|json", help="Text for people, or one JSON object.", rich_help_panel=OUTPUT
    ),
]
Tools: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        metavar="FILE.py|MODULE[:NAME]",
        help="Python functions that the agent may call: every @tool there, or the one named. Repeatable.",
        rich_help_panel=TOOLS,
    ),
]
McpConfig: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--mcp-config",
        metavar="FILE.json",
        help='Servers with more tools: {"mcpServers": {NAME: {"command": …} or {"url": …}}}.',
        rich_help_panel=TOOLS,
    ),
]
PolicyFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="FILE.json",
        help="Which calls are denied, and which a person is asked about.",
        rich_help_panel=TOOLS,
    ),
]
MaxTurns: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--max-turns",
        "--max-steps",
        metavar="N",
        help="Ask the model at most so often for one prompt.",
        rich_help_panel=TOOLS,
    ),
]
MaxCost: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--max-cost",
        metavar="AMOUNT",
        help="Stop when the session has cost more; needs a price, known or of --price.",
        rich_help_panel=TOOLS,
    ),
]
Prices: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        metavar="MODEL=IN,OUT",
        help="What a million tokens of a model cost, in and out, as claude-x=3,15, in the place of what is known. "
        "Repeatable.",
        rich_help_panel=TOOLS,
    ),
]
