"""The engine: works out, with Ghostty's library, what a terminal shows."""

from __future__ import annotations

from reenact.terminal.ansi.style import PLAIN, ANSIStyle
from reenact.terminal.errors import not_possible
from reenact.terminal.screen.libghostty import Glyph, Terminal, style_of
from reenact.terminal.screen.model import Cell, Cursor, Modes, Screen, checked_size

_REMEMBERED = 20_000
"""Kinds of cells, and styles, that are remembered before all are forgotten."""
_CURSOR_KEYS = 1
_KEYPAD = 66
_PASTE = 2004


class Engine:
    """A screen as Ghostty shows it, with at most `scrollback` lines above it; used by one thread at a time.

    Whatever bytes come, in whatever pieces, it takes them without an exception. A look costs what has changed since the
    last one: rows that have not are remembered. Images are not kept.

    Raises:
        TerminalTestError: `INVALID_CONFIG`; no screen has this size.
    """

    def __init__(self, columns: int, rows: int, scrollback: int = 10_000) -> None:
        self._live: Terminal | None = Terminal(*checked_size(columns, rows), scrollback)
        self._history = _History(self._live, scrollback)
        self._lines: list[str] = []
        self._cells: list[tuple[Cell, ...]] = []
        self._known: dict[int, Cell | Glyph] = {}
        self._styles: dict[bytes, ANSIStyle] = {}

    def feed(self, data: bytes) -> bytes:
        """Take what the program wrote; return what a terminal would answer it, as to a question for the cursor."""
        return self._terminal.write(data)

    def resize(self, columns: int, rows: int) -> None:
        """Give the screen another size; on the main screen, lines that were too long for a row are broken anew."""
        self._terminal.resize(*checked_size(columns, rows))
        self._history.forget()

    def text(self) -> str:
        """Return what `Screen.text` would be, at less cost than all cells."""
        self._look()
        return "\n".join(self._lines).rstrip("\n")

    def modes(self) -> Modes:
        """Return what the program has asked for."""
        terminal = self._terminal
        return Modes(
            application_cursor=terminal.mode(_CURSOR_KEYS),
            application_keypad=terminal.mode(_KEYPAD),
            bracketed_paste=terminal.mode(_PASTE),
            alternate_screen=bool(terminal.get("active_screen", "GhosttyTerminalScreen")),
        )

    def screen(self) -> Screen:
        """Return the screen as it is now."""
        self._look()
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
            scrollback=self._history.lines(get("scrollback_rows", "size_t"), columns),
        )

    def close(self) -> None:
        """Release what it holds. Idempotent."""
        terminal, self._live = self._live, None
        if terminal is not None:
            terminal.close()

    @property
    def _terminal(self) -> Terminal:
        if self._live is None:
            raise not_possible("the screen's engine is closed: what it shows is asked for while the terminal lives")
        return self._live

    def _look(self) -> None:
        """Read the rows that have changed."""
        terminal = self._terminal
        _, rows = terminal.size
        if len(self._lines) != rows:
            self._lines, self._cells = [""] * rows, [()] * rows
        if len(self._known) > _REMEMBERED or len(self._styles) > _REMEMBERED:
            self._known.clear()
            self._styles.clear()
        known = self._known
        for row, numbers in terminal.changes():
            styles: dict[int, ANSIStyle] = {0: PLAIN}
            cells = self._cells[row] = tuple(
                [
                    cell if isinstance(cell := known.get(number), Cell) else self._cell(number, row, column, styles)
                    for column, number in enumerate(numbers)
                ]
            )
            self._lines[row] = "".join([cell.text for cell in cells]).rstrip(" ")

    def _cell(self, number: int, row: int, column: int, styles: dict[int, ANSIStyle]) -> Cell:
        """Return a cell of the row that the terminal stands at; remember it if its number says everything."""
        glyph = self._known.get(number) or self._terminal.glyph(number)
        self._known[number] = glyph
        if isinstance(glyph, Cell):
            return glyph
        if not (glyph.style or glyph.linked or glyph.combined):
            style = PLAIN if glyph.background is None else ANSIStyle(background=glyph.background)
            cell = self._known[number] = Cell(text=glyph.text, width=glyph.width, style=style)
            return cell
        found = styles.get(glyph.style)
        if found is None:
            found = styles[glyph.style] = self._style(self._terminal.style(column))
        return Cell(
            text=self._terminal.characters(column) if glyph.combined else glyph.text,
            width=glyph.width,
            style=found,
            link=self._terminal.link(row, column) if glyph.linked else None,
        )

    def _style(self, style: bytes) -> ANSIStyle:
        known = self._styles.get(style)
        if known is None:
            known = self._styles[style] = style_of(style)
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
