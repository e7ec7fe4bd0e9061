"""What several commands take on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

import typer

from reenact.cli.console import Console
from reenact.cli.options import ListFormat

Command: TypeAlias = Callable[[Console], int]
"""What a command line asks for, still to be done; it returns the exit code."""

Database: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="PATH|URL",
        help="The log: a file or sqlite:/// URL. Default: REENACT_DB, else reenact.db in the user's data directory.",
    ),
]
Lines: TypeAlias = Annotated[
    ListFormat, typer.Option("--output-format", help="Lines for people, or one JSON object a line.")
]
Page: TypeAlias = Annotated[ListFormat, typer.Option("--output-format", help="Text for people, or one JSON object.")]
