"""The model of a screen, and its size limits."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from reenact.terminal.ansi.style import PLAIN, ANSIStyle
from reenact.terminal.errors import invalid, is_kit_error

__tracebackhide__ = is_kit_error

LONGEST = 10_000
"""Maximum number of columns, and of rows."""
LARGEST = 1_000_000
"""Maximum number of cells: a snapshot copies all of them."""


def checked_size(columns: int, rows: int) -> tuple[int, int]:
    """Return columns and rows.

    Raises:
        TerminalTestError: the size is invalid (`INVALID_CONFIG`).
    """
    given: dict[str, object] = {"cols": columns, "rows": rows}
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LONGEST:
            raise invalid(
                f"{name} is {value!r}; a terminal has between 1 and {LONGEST:,}, 80 columns and 24 rows for instance",
            )
    if columns * rows > LARGEST:
        raise invalid(
            f"cols and rows are {columns} and {rows}; together they may make {LARGEST:,} cells at most",
        )
    return columns, rows


class Cell(msgspec.Struct, frozen=True):
    """A cell of the screen: its character with combining characters, or `" "` if it is empty.

    A character that is two columns wide is in the first of its cells, with `width` 2; the second is `""` with `width`
    0.
    """

    text: str = " "
    width: int = 1
    style: ANSIStyle = PLAIN
    link: str | None = None


class Cursor(msgspec.Struct, frozen=True):
    """The position of the cursor, counted from 0, and whether it is visible."""

    row: int = 0
    column: int = 0
    visible: bool = True


MouseAction: TypeAlias = Literal["click", "press", "release", "drag", "move", "scroll_up", "scroll_down"]
"""A click is a press and a release; a drag is a movement with the button held, a move one without."""
MouseButton: TypeAlias = Literal["left", "middle", "right"]


class Modes(msgspec.Struct, frozen=True, kw_only=True):
    """The terminal modes set by the program that change what keys send (xterm's names and numbers)."""

    application_cursor: bool = False
    """DECCKM, private mode 1: arrows, Home and End send SS3 sequences."""
    application_keypad: bool = False
    """DECKPAM."""
    bracketed_paste: bool = False
    """Private mode 2004."""
    alternate_screen: bool = False
    """Private modes 47, 1047, 1049."""


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a screen, unaffected by later output. Rows and columns count from 0."""

    columns: int
    rows: int
    lines: tuple[str, ...]
    """The text of each row, without trailing blanks."""
    cells: tuple[tuple[Cell, ...], ...]
    """`rows` rows of `columns` cells."""
    cursor: Cursor
    title: str = ""
    modes: Modes = Modes()
    scrollback: tuple[str, ...] = ()
    """Lines that have scrolled off the top of the screen, oldest first."""

    @property
    def text(self) -> str:
        """The rows joined by newlines, without empty ones at the end."""
        return "\n".join(self.lines).rstrip("\n")
