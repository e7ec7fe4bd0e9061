"""What changed between two moments of a session, or is different in two sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import typer

from reenact.cli.console import Console
from reenact.cli.failures import ExitCode
from reenact.cli.lines import as_page
from reenact.cli.listing import reading
from reenact.cli.options import DiffOptions
from reenact.domain.errors import SessionNotFoundError
from reenact.projections.explain.difference import difference

_Side: TypeAlias = tuple[str, int | None]
DIFFERENT: Final = 1
"""The exit code when there is any difference."""
_DIGITS: Final = 18


def diff(options: DiffOptions, console: Console) -> int:
    """Print the difference and return 1, or 0 if there is none.

    Raises:
        BadParameter: the arguments name no two moments.
        SessionNotFoundError: there is no such session.
        InvalidInputError: a session begins behind its position, or the log ends before it.
    """
    left, right = sides_of(options.what)
    with reading(options.database, console) as journal:
        if journal is None:
            raise SessionNotFoundError(left[0])
        found = difference(journal, *left, *right)
        as_page(found, options.output_format, console)
    return DIFFERENT if found.changes else ExitCode.SUCCESS


def sides_of(what: Sequence[str]) -> tuple[_Side, _Side]:
    """Return the two sides that are meant by SESSION A B, or by LEFT[@A] RIGHT[@B].

    Raises:
        BadParameter: they are not so many, or a position is no number.
    """
    match what:
        case [session, before, after]:
            return (session, _position(before)), (session, _position(after))
        case [left, right]:
            return _side(left), _side(right)
        case _:
            raise typer.BadParameter(
                "name a session and two positions, or two sessions: SESSION A B, or LEFT[@A] RIGHT"
            )


def _side(text: str) -> _Side:
    session, at, position = text.rpartition("@")
    return (session, int(position)) if at and _is_number(position) else (text, None)


def _position(text: str) -> int:
    if not _is_number(text):
        raise typer.BadParameter(f"a position in the log is a number from 1 on, not {text!r}")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS
