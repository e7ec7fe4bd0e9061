"""The pyte engine, for systems without Ghostty's library: pyte's screen, with what it lacks added."""

from __future__ import annotations

import codecs
import copy
import re
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Final

import msgspec
import pyte
import pyte.modes
from pyte.screens import Char, Margins, StaticDefaultDict, wcwidth

from reenact.terminal.ansi.grammar import without_executed
from reenact.terminal.ansi.tokens import ANSIToken, ANSITokenizer
from reenact.terminal.errors import not_possible
from reenact.terminal.screen.model import Cell, Cursor, Modes, Screen, checked_size
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


_PIECE: Final = re.compile(r"[^\x00-\x1f\x7f]+|[\x08-\x0f]")
"""Of a text: what is shown, and the controls that do something."""
_CONTROL: Final = re.compile(r"[\x08-\x0f]")
_TITLE: Final = re.compile(r"(?:\x1b\]|\x9d)[02];([^\x00-\x1f\x7f-\x9f]*)(?:\x07|\x1b\\|\x9c)")
_CONTROLS: Final = {
    "\b": "backspace",
    "\t": "tab",
    "\n": "linefeed",
    "\v": "linefeed",
    "\f": "linefeed",
    "\r": "carriage_return",
    "\x0e": "shift_out",
    "\x0f": "shift_in",
}
_ESCAPES: Final = {
    "\x1bD": "index",
    "\x84": "index",
    "\x1bE": "next_line",
    "\x85": "next_line",
    "\x1bH": "set_tab_stop",
    "\x88": "set_tab_stop",
    "\x1bM": "reverse_index",
    "\x8d": "reverse_index",
    "\x1b7": "save_cursor",
    "\x1b8": "restore_cursor",
    "\x1b#8": "alignment_display",
}
_SEQUENCES: Final = {
    final: name
    for finals, name in {
        "@": "insert_characters",
        "A": "cursor_up",
        "Be": "cursor_down",
        "Ca": "cursor_forward",
        "D": "cursor_back",
        "E": "cursor_down1",
        "F": "cursor_up1",
        "G`": "cursor_to_column",
        "Hf": "cursor_position",
        "I": "tabs",
        "J": "erase_in_display",
        "K": "erase_in_line",
        "L": "insert_lines",
        "M": "delete_lines",
        "P": "delete_characters",
        "X": "erase_characters",
        "Z": "tab_back",
        "b": "repeat",
        "d": "cursor_to_line",
        "g": "clear_tab_stop",
        "r": "set_margins",
        "s": "save_cursor",
        "u": "restore_cursor",
    }.items()
    for final in finals
}
"""What pyte calls what a control sequence does, by its final character."""
_KEEP_POSITION: Final = "hlmnc"
"""Those that do not take the cursor back from behind the last column."""
_MODES: Final = frozenset({4, 20})
"""Those that are not private: inserting, and newlines that go to the beginning of the line."""
_SAVING: Final = frozenset({1048, 1049})
_TURNING: Final = frozenset({47, 1047, 1049})
"""Private modes that save the cursor, and those that turn to the second page."""
_CURSOR_KEYS: Final = 1
_KEYPAD: Final = 66
_PASTE: Final = 2004
_LARGEST: Final = 9999


class PyteEngine:
    """A screen as pyte works it out, with at most `scrollback` lines above it.

    It is slow (a few hundred kilobytes in a second), and differs from `GhosttyEngine` in these points, which no test
    should depend on:

    ======================================  ===============================================================
    a narrower screen                       cuts lines off; Ghostty breaks them anew
    lines that are inserted or scrolled in  have the default background, whatever the current one
    hyperlinks (OSC 8)                      are not kept: `Cell.link` is always None
    margins at the left and the right       are not known (DECLRMM), nor protected characters (DECSCA)
    questions that are answered             status (DSR) and attributes (DA), and no others
    a soft reset (DECSTR)                   resets margins and origin as well, which Ghostty keeps
    grapheme clusters (mode 2027)           each character has a width of its own, as Ghostty without that mode
    restoring the cursor (DECRC)            moves it between the margins, if there are any
    origin mode (DECOM)                     with margins, the cursor is in another row when either is set or reset
    no wrapping (DECAWM reset)              wide and combining characters at the end of a row go elsewhere
    a sequence that never ends              is kept in memory until it does
    ======================================  ===============================================================

    What else pyte itself lacks is added here: sequences are taken apart by `reenact.terminal.ansi`, which also gives
    all styles; the second page, scrolling, repeating, tabs back, wide and combining characters are mended.
    """

    def __init__(self, columns: int, rows: int, scrollback: int = 10_000) -> None:
        self._scrollback = scrollback
        self._live: MendedScreen | None = MendedScreen(*checked_size(columns, rows), scrollback)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tokens = ANSITokenizer()
        self._private: set[int] = set()
        self._title = ""
        self._replies: list[str] = []

    def feed(self, data: bytes) -> bytes:
        screen = self._screen
        for token in self._tokens.feed(self._decoder.decode(data)):
            with suppress(Exception):  # where a terminal passes over what makes no sense, pyte raises anything
                self._take(screen, token)
            screen = self._screen
            screen.use_style(token.style)
        replies = "".join(self._replies).encode()
        self._replies.clear()
        return replies

    def resize(self, columns: int, rows: int) -> None:
        columns, rows = checked_size(columns, rows)
        self._screen.resize(rows, columns)

    def text(self) -> str:
        return "\n".join(self._lines()).rstrip("\n")

    def modes(self) -> Modes:
        return Modes(
            application_cursor=_CURSOR_KEYS in self._private,
            application_keypad=_KEYPAD in self._private,
            bracketed_paste=_PASTE in self._private,
            alternate_screen=self._screen.alternate,
        )

    def screen(self) -> Screen:
        screen = self._screen
        cursor = screen.cursor
        return Screen(
            columns=screen.columns,
            rows=screen.lines,
            lines=self._lines(),
            cells=tuple(screen.row(row) for row in range(screen.lines)),
            cursor=Cursor(
                row=cursor.y,
                column=min(cursor.x, screen.columns - 1),
                visible=not cursor.hidden,
            ),
            title=self._title,
            modes=self.modes(),
            scrollback=() if screen.alternate else tuple(screen.scrollback),
        )

    def close(self) -> None:
        self._live = None

    @property
    def _screen(self) -> MendedScreen:
        if self._live is None:
            message = "the screen's engine is closed: what it shows is asked for while the terminal lives"
            raise not_possible(message)
        return self._live

    def _lines(self) -> tuple[str, ...]:
        screen = self._screen
        return tuple(screen.line(row) for row in range(screen.lines))

    def _take(self, screen: MendedScreen, token: ANSIToken) -> None:
        match token.kind:
            case "text":
                for piece in _PIECE.findall(token.content):
                    _write(screen, piece)
            case "csi":
                for control in _CONTROL.findall(token.content):  # what stands in a sequence is carried out, too
                    _write(screen, control)
                self._sequence(screen, token)
            case "escape" | "c1":
                self._escape(screen, without_executed(token.content))
            case "osc":
                found = _TITLE.match(token.content)
                self._title = self._title if found is None else found[1]
            case _:
                pass

    def _escape(self, screen: MendedScreen, content: str) -> None:
        match content:
            case "\x1bc":
                self._live = MendedScreen(screen.columns, screen.lines, self._scrollback)
                self._private.clear()
                self._title = ""
            case "\x1b=":
                self._private.add(_KEYPAD)
            case "\x1b>":
                self._private.discard(_KEYPAD)
            case _ if content in _ESCAPES:
                _call(screen, _ESCAPES[content])
            case _ if content[:-1] in {"\x1b(", "\x1b)"}:
                screen.define_charset(content[-1], content[-2])
            case _:
                pass

    def _sequence(self, screen: MendedScreen, token: ANSIToken) -> None:
        final = token.final
        numbers = [min(first or 0, _LARGEST) for first, *_ in token.params]
        if final not in _KEEP_POSITION:
            screen.cursor.x = min(screen.cursor.x, screen.columns - 1)
        match token.private + token.intermediates + final:
            case "?h" | "?l":
                for number in numbers:
                    self._mode(screen, number, on=final == "h")
            case "h":
                screen.set_mode(*(number for number in numbers if number in _MODES))
            case "l":
                screen.reset_mode(*(number for number in numbers if number in _MODES))
            case "n" if numbers == [5]:
                self._replies.append("\x1b[0n")
            case "n" if numbers == [6]:
                self._replies.append(f"\x1b[{screen.place[0] + 1};{screen.place[1] + 1}R")
            case "c" if numbers in ([], [0]):
                self._replies.append("\x1b[?62;22c")
            case "S" | "T":
                count = max(1, *numbers, 1)
                screen.scroll(count if final == "S" else -count)
            case "!p":
                screen.soft_reset()
            case "?J" | "?K":
                _call(screen, _SEQUENCES[final], *numbers)
            case "b" | "I" | "Z":
                _call(screen, _SEQUENCES[final], max(1, *numbers[:1], 1))
            case known if known in _SEQUENCES:
                _call(screen, _SEQUENCES[known], *numbers)
            case _:
                pass

    def _mode(self, screen: MendedScreen, number: int, *, on: bool) -> None:
        match number:
            case 6 | 7 | 25:
                (screen.set_mode if on else screen.reset_mode)(number, private=True)
            case 47 | 1047 | 1048 | 1049:
                saves, turns = number in _SAVING, number in _TURNING
                if on and saves:
                    screen.save_cursor()
                if turns:
                    screen.show_alternate() if on else screen.show_main()
                if saves and not on:
                    screen.restore_cursor()
            case _ if on:
                self._private.add(number)
            case _:
                self._private.discard(number)


def _write(screen: MendedScreen, piece: str) -> None:
    if piece in _CONTROLS:
        _call(screen, _CONTROLS[piece])
    else:
        screen.draw(piece)


def _call(screen: MendedScreen, name: str, *numbers: int) -> None:
    method: Callable[..., None] = getattr(screen, name)
    method(*numbers)
