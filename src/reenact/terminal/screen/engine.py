"""The screen engine, which computes the screen with Ghostty's library."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, get_args

from reenact.terminal.ansi.style import PLAIN, ANSIStyle
from reenact.terminal.errors import invalid, not_possible
from reenact.terminal.screen.libghostty import CACHED, Terminal, glyph_of
from reenact.terminal.screen.model import Cell, Cursor, Modes, MouseAction, MouseButton, Screen, checked_size

_CURSOR_KEYS = 1
_KEYPAD = 66
_PASTE = 2004
_MOUSE_EVENTS: Final[dict[MouseAction, tuple[str, ...]]] = {
    "click": ("PRESS", "RELEASE"),
    "press": ("PRESS",),
    "release": ("RELEASE",),
    "drag": ("MOTION",),
    "move": ("MOTION",),
    "scroll_up": ("PRESS",),
    "scroll_down": ("PRESS",),
}
_MOUSE_BUTTONS: Final[dict[str, str | None]] = {"move": None, "scroll_up": "FOUR", "scroll_down": "FIVE"}
"""The buttons of actions that have their own: a wheel turns as buttons 4 and 5."""


class Engine:
    """A screen as Ghostty shows it, with at most `scrollback` lines above it. Not thread-safe.

    Any bytes, in any pieces, are accepted without an exception. Reading the screen costs time only for rows that have
    changed since the last reading; other rows are cached. Images are not kept.

    Raises:
        TerminalTestError: the size is invalid (`INVALID_CONFIG`).
    """

    def __init__(self, columns: int, rows: int, scrollback: int = 10_000) -> None:
        self._open_terminal: Terminal | None = Terminal(*checked_size(columns, rows), scrollback)
        self._scrollback = scrollback
        self._lines: list[str] = []
        self._cells: list[tuple[Cell, ...]] = []

    def feed(self, data: bytes) -> bytes:
        """Process output of the program; return the terminal's replies, such as to a query for the cursor position."""
        return self._terminal.write(data)

    def resize(self, columns: int, rows: int) -> bytes:
        """Change the size of the screen; return the report for a program that enabled private mode 2048.

        On the main screen, lines that wrapped are wrapped again.
        """
        return self._terminal.resize(*checked_size(columns, rows))

    def text(self) -> str:
        """Return the same as `Screen.text`, without copying all cells."""
        self._read_changes()
        return "\n".join(self._lines).rstrip("\n")

    def modes(self) -> Modes:
        """Return the modes that the program has set."""
        terminal = self._terminal
        return Modes(
            application_cursor=terminal.mode(_CURSOR_KEYS),
            application_keypad=terminal.mode(_KEYPAD),
            bracketed_paste=terminal.mode(_PASTE),
            alternate_screen=bool(terminal.get("active_screen", "GhosttyTerminalScreen")),
        )

    def screen(self) -> Screen:
        """Return a snapshot of the screen."""
        self._read_changes()
        terminal = self._terminal
        columns, rows = terminal.size
        get = terminal.get
        return Screen(
            columns=columns,
            rows=rows,
            lines=tuple(self._lines),
            cells=tuple(self._cells),
            cursor=Cursor(get("cursor_y"), get("cursor_x"), visible=bool(get("cursor_visible", "bool"))),
            title=terminal.title(),
            modes=self.modes(),
            scrollback=self._history(get("scrollback_rows", "size_t")),
        )

    def mouse(
        self,
        action: MouseAction,
        row: int,
        column: int,
        button: MouseButton = "left",
        *,
        shift: bool = False,
        alt: bool = False,
        ctrl: bool = False,
    ) -> bytes:
        """Return what the mouse sends in the modes that the program has set; nothing if it has not asked for this.

        Rows and columns count from 0. A scroll is one step of the wheel.

        Raises:
            TerminalTestError: there is no such action, button or cell (`INVALID_CONFIG`).
        """
        columns, rows = self._terminal.size
        if action not in _MOUSE_EVENTS or button not in get_args(MouseButton):
            raise invalid(
                f"mouse: expected one of {', '.join(_MOUSE_EVENTS)} with {', '.join(get_args(MouseButton))}, "
                f"got {action!r} with {button!r}"
            )
        if row not in range(rows) or column not in range(columns):
            raise invalid(f"mouse: row {row!r}, column {column!r} is not on the screen, which is {columns} by {rows}")
        pressed = _MOUSE_BUTTONS.get(action, button.upper())
        modifiers = shift * 1 + ctrl * 2 + alt * 4
        events = _MOUSE_EVENTS[action]
        return b"".join([self._terminal.mouse(event, pressed, modifiers, row, column) for event in events])

    def close(self) -> None:
        """Release the engine's memory. Idempotent."""
        terminal, self._open_terminal = self._open_terminal, None
        if terminal is not None:
            terminal.close()

    @property
    def _terminal(self) -> Terminal:
        if self._open_terminal is None:
            raise not_possible("the screen's engine is closed: what it shows is asked for while the terminal lives")
        return self._open_terminal

    def _history(self, count: int) -> tuple[str, ...]:
        """Return the newest of the lines above the screen, of which the library has `count`, more than are wanted."""
        first = max(0, count - self._scrollback)
        return tuple(self._terminal.history(first, count - 1)) if first < count else ()

    def _read_changes(self) -> None:
        """Read the rows that have changed."""
        terminal = self._terminal
        _, rows = terminal.size
        if len(self._lines) != rows:
            self._lines, self._cells = [""] * rows, [()] * rows
        for row, numbers in terminal.changes():
            styles: dict[int, ANSIStyle] = {0: PLAIN}
            cells = [
                _plain_cell(number) or self._cell(number, row, column, styles) for column, number in enumerate(numbers)
            ]
            if not "".join([cell.text for cell in cells]).isascii():
                cells = _without_halves(cells)
            self._cells[row] = tuple(cells)
            self._lines[row] = "".join([cell.text for cell in cells]).rstrip(" ")

    def _cell(self, number: int, row: int, column: int, styles: dict[int, ANSIStyle]) -> Cell:
        """Return a cell; `styles` are those of its row by their numbers."""
        glyph = glyph_of(number)
        found = styles.get(glyph.style)
        if found is None:
            found = styles[glyph.style] = self._terminal.style(row, column)
        return Cell(
            text=self._terminal.characters(row, column) if glyph.combined else glyph.text,
            width=glyph.width,
            style=found,
            link=self._terminal.link(row, column) if glyph.linked else None,
        )


def _without_halves(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells, with a blank for half a wide character: the library leaves it if a screen becomes narrower."""
    return [
        Cell(style=cell.style) if cell.width > 1 and behind.width else cell
        for cell, behind in pairwise((*cells, Cell()))
    ]


@lru_cache(maxsize=CACHED)
def _plain_cell(number: int) -> Cell | None:
    """Return the cell with this number, or None if the number does not determine it completely."""
    glyph = glyph_of(number)
    if glyph.style or glyph.linked or glyph.combined:
        return None
    style = PLAIN if glyph.background is None else ANSIStyle(background=glyph.background)
    return Cell(text=glyph.text, width=glyph.width, style=style)
