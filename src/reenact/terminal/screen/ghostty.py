"""The engine that is used: Ghostty's emulator."""

from __future__ import annotations

from typing import Final

from reenact.terminal.errors import not_possible
from reenact.terminal.screen.libghostty import Glyph, Terminal, style_of
from reenact.terminal.screen.model import Cell, Cursor, Modes, Screen, checked_size
from reenact.terminal.style import PLAIN, ANSIStyle

_REMEMBERED: Final = 20_000
"""Kinds of cells, and styles, that are remembered before all are forgotten."""
_CURSOR_KEYS: Final = 1
_KEYPAD: Final = 66
_PASTE: Final = 2004
_MORE: Final = "\0"
"""Stands in a line for a cell with several characters until the row has been read; no cell holds it itself."""


class GhosttyEngine:
    """A screen as Ghostty shows it, with at most `scrollback` lines above it.

    A look costs what has changed since the last one: rows that have not are remembered. Images are not kept.
    """

    def __init__(self, columns: int, rows: int, scrollback: int = 10_000) -> None:
        self._live: Terminal | None = Terminal(*checked_size(columns, rows), scrollback)
        self._numbers: list[list[int]] = []
        self._lines: list[str] = []
        self._cells: list[tuple[Cell, ...]] = []
        self._unread: set[int] = set()
        self._known = _Known(self._live)
        self._history = _History(self._live, scrollback)

    def feed(self, data: bytes) -> bytes:
        return self._terminal.write(data)

    def resize(self, columns: int, rows: int) -> None:
        """Give the screen another size; on the main screen, lines that were too long for a row are broken anew."""
        self._terminal.resize(*checked_size(columns, rows))
        self._history.forget()

    def text(self) -> str:
        self._look()
        return "\n".join(self._lines).rstrip("\n")

    def modes(self) -> Modes:
        terminal = self._terminal
        return Modes(
            application_cursor=terminal.mode(_CURSOR_KEYS),
            application_keypad=terminal.mode(_KEYPAD),
            bracketed_paste=terminal.mode(_PASTE),
            alternate_screen=terminal.state().alternate,
        )

    def screen(self) -> Screen:
        self._look()
        self._read(self._unread)
        terminal = self._terminal
        state = terminal.state()
        return Screen(
            columns=state.columns,
            rows=state.rows,
            lines=tuple(self._lines),
            cells=tuple(self._cells),
            cursor=Cursor(row=state.row, column=state.column, visible=state.visible),
            title=terminal.title(),
            modes=self.modes(),
            scrollback=self._history.lines(state.history, state.columns),
        )

    def close(self) -> None:
        terminal, self._live = self._live, None
        if terminal is not None:
            terminal.close()

    @property
    def _terminal(self) -> Terminal:
        if self._live is None:
            message = "the screen's engine is closed: what it shows is asked for while the terminal lives"
            raise not_possible(message)
        return self._live

    def _look(self) -> None:
        """Find which rows have changed, and their text."""
        terminal = self._terminal
        rows = terminal.state().rows
        if len(self._lines) != rows:
            self._numbers, self._lines, self._cells = [[] for _ in range(rows)], [""] * rows, [()] * rows
            self._unread.clear()
        texts = self._known.texts()
        combined = set[int]()
        for row, numbers in terminal.changes().items():
            line = "".join([texts[number] for number in numbers])
            if _MORE in line:
                combined.add(row)
            self._numbers[row], self._lines[row] = numbers, line.rstrip(" ")
            self._unread.add(row)
        for row in sorted(self._read(combined)):
            self._lines[row] = "".join([cell.text for cell in self._cells[row]]).rstrip(" ")

    def _read(self, rows: set[int]) -> tuple[int, ...]:
        """Know the cells of these rows."""
        if not rows:
            return ()
        terminal, known = self._terminal, self._known
        wanted = tuple(rows)
        for row in terminal.every_row():
            if row in rows:
                self._cells[row] = known.row(row, self._numbers[row])
        self._unread.difference_update(wanted)
        return wanted


class _Known:
    """What the numbers of cells mean, as far as it has been asked before."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._texts = _Texts(terminal)
        self._plain = _Plain(terminal)
        self._styles: dict[bytes, ANSIStyle] = {}

    def texts(self) -> dict[int, str]:
        """Return what gives the text for a number."""
        if len(self._texts) > _REMEMBERED:
            self._texts.clear()
        return self._texts

    def row(self, row: int, numbers: list[int]) -> tuple[Cell, ...]:
        """Return the cells of the row that the terminal stands at."""
        if len(self._plain) > _REMEMBERED:
            self._plain.clear()
        plain = self._plain
        styles: dict[int, ANSIStyle] = {0: PLAIN}
        cells = [plain[number] for number in numbers]
        return tuple(
            [
                cell if isinstance(cell, Cell) else self._cell(cell, row, column, styles)
                for column, cell in enumerate(cells)
            ]
        )

    def _cell(self, glyph: Glyph, row: int, column: int, styles: dict[int, ANSIStyle]) -> Cell:
        style = styles.get(glyph.style)
        if style is None:
            style = styles[glyph.style] = self._style(self._terminal.style(column))
        return Cell(
            text=self._terminal.characters(column) if glyph.combined else glyph.text,
            width=glyph.width,
            style=style,
            link=self._terminal.link(row, column) if glyph.linked else None,
        )

    def _style(self, style: bytes) -> ANSIStyle:
        known = self._styles.get(style)
        if known is None:
            if len(self._styles) > _REMEMBERED:
                self._styles.clear()
            known = self._styles[style] = style_of(style)
        return known


class _Texts(dict[int, str]):
    """The text for a number of a cell, learnt when it is first asked for."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def __missing__(self, number: int) -> str:
        glyph = self._terminal.glyph(number)
        text = self[number] = _MORE if glyph.combined else glyph.text
        return text


class _Plain(dict[int, Cell | Glyph]):
    """The cell for a number if that says everything, or else what it says."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def __missing__(self, number: int) -> Cell | Glyph:
        glyph = self._terminal.glyph(number)
        known: Cell | Glyph = glyph
        if not (glyph.style or glyph.linked or glyph.combined):
            style = PLAIN if glyph.background is None else ANSIStyle(background=glyph.background)
            known = Cell(text=glyph.text, width=glyph.width, style=style)
        self[number] = known
        return known


class _History:
    """The lines above the screen. Those that were read before are read again only if they may be others by now."""

    def __init__(self, terminal: Terminal, most: int) -> None:
        self._terminal = terminal
        self._most = most
        self._columns = 0
        self._lines: list[str] = []

    def lines(self, count: int, columns: int) -> tuple[str, ...]:
        """Return the lines, of which there are `count`, or the newest of them."""
        if count == 0 or self._most == 0:
            return ()
        known = self._still_known(count) if columns == self._columns else 0
        del self._lines[: len(self._lines) - known]
        if known < count:
            wanted = max(known, count - self._most)  # the library keeps more
            self._lines += [""] * (wanted - known) + self._terminal.history(wanted, count - 1)
            self._terminal.mark(count - 1)
            self._columns = columns
        return tuple(self._lines[-self._most :])

    def forget(self) -> None:
        """Know nothing."""
        self._lines.clear()
        self._terminal.unmark()

    def _still_known(self, count: int) -> int:
        """Return how many of the known lines, the newest of them, are still there as the first.

        The last of them was marked. If that is now another line, as after all were erased, none counts.
        """
        row = self._terminal.marked()
        if row is None or row >= min(count, len(self._lines)):
            return 0
        return row + 1 if self._terminal.history(row, row) == self._lines[-1:] else 0
