"""The model of a screen, and its size limits."""

from __future__ import annotations

import msgspec

from reenact.terminal.ansi.style import PLAIN, ANSIStyle
from reenact.terminal.errors import invalid

LONGEST = 10_000
"""Columns and rows at most."""
LARGEST = 1_000_000
"""Cells at most: a picture of them all is taken whenever a screen is looked at."""


def checked_size(columns: int, rows: int) -> tuple[int, int]:
    """Return columns and rows.

    Raises:
        TerminalTestError: `INVALID_CONFIG`; no screen has this size.
    """
    for name, value in (("cols", columns), ("rows", rows)):
        if not 1 <= value <= LONGEST:
            raise invalid(
                f"{name} is {value}; a terminal has between 1 and {LONGEST:,}, 80 columns and 24 rows for instance",
            )
    if columns * rows > LARGEST:
        raise invalid(
            f"cols and rows are {columns} and {rows}; together they may make {LARGEST:,} cells at most",
        )
    return columns, rows


class Cell(msgspec.Struct, frozen=True):
    """A place on the screen: the character there with what combines with it, `" "` where nothing is.

    A character that is two columns wide stands in the first of them with `width` 2; the second is `""` with `width` 0.
    """

    text: str = " "
    width: int = 1
    style: ANSIStyle = PLAIN
    link: str | None = None


class Cursor(msgspec.Struct, frozen=True):
    """Where the cursor is, counted from 0, and whether it is shown."""

    row: int = 0
    column: int = 0
    visible: bool = True


class Modes(msgspec.Struct, frozen=True, kw_only=True):
    """What the program has asked of its terminal, as far as it changes what keys send (xterm's names and numbers)."""

    application_cursor: bool = False
    """DECCKM, private mode 1: arrows, Home and End send SS3 sequences."""
    application_keypad: bool = False
    """DECKPAM."""
    bracketed_paste: bool = False
    """Private mode 2004."""
    alternate_screen: bool = False
    """Private modes 47, 1047, 1049."""


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """A screen at one moment: it does not change when the program goes on. Rows and columns count from 0."""

    columns: int
    rows: int
    lines: tuple[str, ...]
    """The text of each row, without the blanks at its end."""
    cells: tuple[tuple[Cell, ...], ...]
    """`rows` rows of `columns` cells."""
    cursor: Cursor
    title: str = ""
    modes: Modes = Modes()
    scrollback: tuple[str, ...] = ()
    """Lines that have left the screen at its top, the oldest first."""

    @property
    def text(self) -> str:
        """The rows, joined by newlines, without empty ones at the end."""
        return "\n".join(self.lines).rstrip("\n")
