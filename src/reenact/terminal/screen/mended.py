"""pyte's screen, with what it drops or does otherwise than terminals do mended, as far as that is a few lines."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec
import pyte
import pyte.modes
from pyte.screens import Char, Margins, StaticDefaultDict, wcwidth

from reenact.terminal.screen.model import Cell
from reenact.terminal.style import PLAIN, ANSIStyle

_UNSTYLED: Final = "default"
_MOST_COMBINED: Final = 32
"""Characters that one place holds at most."""
_WIDE: Final = 2
_TAB: Final = 8


class MendedScreen(pyte.Screen):
    """A screen of pyte's whose characters carry any style, that has a second page, and remembers what scrolls away.

    A character's style is kept in what pyte takes for the name of its foreground colour.
    """

    def __init__(self, columns: int, rows: int, scrollback: int) -> None:
        super().__init__(columns, rows)
        self.scrollback: deque[str] = deque(maxlen=scrollback)
        self.alternate = False
        self._main: dict[int, StaticDefaultDict[int, Char]] | None = None
        self.tabstops: set[int] = set(range(_TAB, columns, _TAB))
        self._last = ""

    # --- what is written ---

    def use_style(self, style: ANSIStyle) -> None:
        """Write in this style from now on."""
        self.cursor.attrs = _attributes(style)

    def draw(self, data: str) -> None:
        if data.isascii():
            super().draw(data)
            self._last = data[-1:] or self._last
            return
        for character in data:
            width = wcwidth(character)
            if width == 0:
                self._combine(character)
            elif 0 < width <= self.columns:
                if width == _WIDE and self.cursor.x == self.columns - 1:  # no half of it may stand there
                    self.cursor.x = self.columns if pyte.modes.DECAWM in self.mode else self.columns - _WIDE
                super().draw(character)
                self._last = character

    def repeat(self, count: int) -> None:
        """Write the last character again, so many times (REP)."""
        self.draw(self._last * min(count, self.columns * self.lines))

    def _combine(self, character: str) -> None:
        line, column = self.buffer[self.cursor.y], min(self.cursor.x, self.columns) - 1
        if column > 0 and not line[column].data:
            column -= 1
        if column >= 0 and len(line[column].data) < _MOST_COMBINED:
            line[column] = line[column]._replace(data=line[column].data + character)

    # --- what moves ---

    def index(self) -> None:
        top, bottom = self.margins or Margins(0, self.lines - 1)
        if self.cursor.y == bottom and top == 0 and not self.alternate:
            self.scrollback.append(self.line(0))
        super().index()

    def cursor_up(self, count: int | None = None) -> None:
        top = 0 if self.margins is None or self.cursor.y < self.margins.top else self.margins.top
        self.cursor.y = max(top, self.cursor.y - (count or 1))

    def cursor_down(self, count: int | None = None) -> None:
        last = self.lines - 1
        bottom = last if self.margins is None or self.cursor.y > self.margins.bottom else self.margins.bottom
        self.cursor.y = min(bottom, self.cursor.y + (count or 1))

    def cursor_to_line(self, line: int | None = None) -> None:
        top, bottom = 0, self.lines - 1
        if self.margins is not None and pyte.modes.DECOM in self.mode:
            top, bottom = self.margins
        self.cursor.y = min(bottom, top + (line or 1) - 1)

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        if not top and not bottom:
            self.margins = None
            self.cursor_position()
        else:
            super().set_margins(top, bottom or self.lines)

    def delete_lines(self, count: int | None = None) -> None:
        top, bottom = self.margins or Margins(0, self.lines - 1)
        if top <= self.cursor.y <= bottom:
            for row in range(self.cursor.y, bottom + 1):
                below = self.buffer.pop(row + (count or 1), None) if row + (count or 1) <= bottom else None
                self.buffer.pop(row, None)
                if below is not None:
                    self.buffer[row] = below
            self.carriage_return()

    def alignment_display(self) -> None:
        super().alignment_display()
        self.set_margins()

    def soft_reset(self) -> None:
        """Go back to what holds at the beginning, but for what is shown and the cursor's place (DECSTR)."""
        self.margins = None
        self.mode = {pyte.modes.DECAWM, pyte.modes.DECTCEM}
        self.cursor.hidden = False

    def next_line(self) -> None:
        """Go to the beginning of the next line (NEL)."""
        self.index()
        self.carriage_return()

    def scroll(self, count: int) -> None:
        """Move the lines within the margins up, or down if it is negative (SU, SD)."""
        row, column = self.cursor.y, self.cursor.x
        top, bottom = self.margins or Margins(0, self.lines - 1)
        self.cursor.y = bottom if count > 0 else top
        for _ in range(min(abs(count), self.lines)):
            if count > 0:
                self.index()
            else:
                self.reverse_index()
        self.cursor.y, self.cursor.x = row, column

    def tab_back(self, count: int) -> None:
        """Go back to a tab stop (CBT)."""
        stops = [0, *(stop for stop in sorted(self.tabstops) if stop < self.cursor.x)]
        self.cursor.x = stops[max(-count, -len(stops))]

    def tabs(self, count: int) -> None:
        """Go on to a tab stop (CHT)."""
        for _ in range(min(count, self.columns)):
            self.tab()

    def save_cursor(self) -> None:
        self.savepoints.clear()
        super().save_cursor()

    def restore_cursor(self) -> None:
        hidden, saved = self.cursor.hidden, self.savepoints[-1:]
        super().restore_cursor()
        for each in saved:
            self.cursor = copy.copy(each.cursor)
            self.savepoints.append(each)
        self.ensure_hbounds()
        self.ensure_vbounds()
        self.cursor.hidden = hidden

    def insert_characters(self, count: int | None = None) -> None:
        super().insert_characters(count)
        self.buffer[self.cursor.y].pop(self.columns, None)

    # --- what is erased ---

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:  # noqa: FBT001, FBT002 - as pyte has it
        with_style, self.cursor.attrs = self.cursor.attrs, _erased(self.cursor.attrs)
        super().erase_in_line(how)
        self.cursor.attrs = with_style

    def erase_characters(self, count: int | None = None) -> None:
        with_style, self.cursor.attrs = self.cursor.attrs, _erased(self.cursor.attrs)
        super().erase_characters(count)
        self.cursor.attrs = with_style

    def erase_in_display(self, how: int = 0, *_args: object, **_kwargs: object) -> None:
        if how == 3:  # noqa: PLR2004 - what xterm has added: the lines above, and nothing else
            self.scrollback.clear()
            return
        row = self.cursor.y
        blank = _erased(self.cursor.attrs)
        for y in {0: range(row + 1, self.lines), 1: range(row)}.get(how, range(self.lines)):
            self.buffer[y].update(dict.fromkeys(range(self.columns), blank))
        if how in {0, 1}:
            self.erase_in_line(how)

    # --- two pages, of another size ---

    def show_alternate(self) -> None:
        """Show the second page, which is empty."""
        if self._main is None:
            self._main = dict(self.buffer)
            self.alternate = True
            self.buffer.clear()

    def show_main(self) -> None:
        """Show the first page as it was."""
        if self._main is not None:
            lines, self._main, self.alternate = self._main, None, False
            self.buffer.clear()
            self.buffer.update(lines)
            self._fit(self.columns, self.lines)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        self._fit(columns or self.columns, lines or self.lines)

    def _fit(self, columns: int, rows: int) -> None:
        """Cut off what is empty at the bottom, then what is at the top; nothing is broken anew."""
        height = 1 + max((row for row in self.buffer if self.line(row)), default=0)
        above = max(0, max(height, self.cursor.y + 1) - rows)
        if not self.alternate:
            self.scrollback.extend(self.line(row) for row in range(above))
        kept = {row - above: line for row, line in self.buffer.items() if above <= row < above + rows}
        self.buffer.clear()
        self.buffer.update(kept)
        for line in kept.values():
            for column in [each for each in line if each >= columns]:
                del line[column]
        self.tabstops |= set(range(_TAB * (self.columns // _TAB + 1), columns, _TAB))
        self.columns, self.lines, self.margins = columns, rows, None
        self.cursor.y = min(max(0, self.cursor.y - above), rows - 1)
        self.cursor.x = min(self.cursor.x, columns - 1)

    # --- what is shown ---

    @property
    def place(self) -> tuple[int, int]:
        """Row and column of the cursor, as it is told to programs: the row within the margins if they have said so."""
        top = self.margins.top if self.margins is not None and pyte.modes.DECOM in self.mode else 0
        return self.cursor.y - top, min(self.cursor.x, self.columns - 1)

    def row(self, row: int) -> tuple[Cell, ...]:
        """Return the cells of a row; a wide character of which a half was overwritten is blank."""
        line: Mapping[int, Char] = self.buffer.get(row, {})
        cells: list[Cell] = []
        for column in range(self.columns):
            character = line.get(column)
            if character is None:
                cells.append(_cell(" ", _UNSTYLED, 1))
            elif not character.data:
                follows = bool(cells) and cells[-1].width == _WIDE
                cells.append(_cell("" if follows else " ", character.fg, 0 if follows else 1))
            elif wcwidth(character.data[0]) == _WIDE:
                behind = line.get(column + 1)
                whole = column + 1 < self.columns and behind is not None and not behind.data
                cells.append(_cell(character.data if whole else " ", character.fg, _WIDE if whole else 1))
            else:
                cells.append(_cell(character.data, character.fg, 1))
        return tuple(cells)

    def line(self, row: int) -> str:
        """Return the text of a row, without the blanks at its end."""
        return "".join([cell.text for cell in self.row(row)]).rstrip(" ") if row in self.buffer else ""


@lru_cache(maxsize=4096)
def _attributes(style: ANSIStyle) -> Char:
    return Char(" ", fg=_UNSTYLED if style == PLAIN else msgspec.json.encode(style).decode())


@lru_cache(maxsize=4096)
def _erased(attributes: Char) -> Char:
    """Return what erasing leaves: the background alone."""
    return _attributes(ANSIStyle(background=_style(attributes.fg).background))


@lru_cache(maxsize=4096)
def _style(name: str) -> ANSIStyle:
    return PLAIN if name == _UNSTYLED else msgspec.json.decode(name, type=ANSIStyle)


@lru_cache(maxsize=16384)
def _cell(text: str, style: str, width: int) -> Cell:
    return Cell(text=text, width=width, style=_style(style))
