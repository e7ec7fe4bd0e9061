"""Wraps words to the terminal's current width, with margins and styles; also shows plain text as it streams."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS
from rich.console import Console as Screen
from rich.style import Style

from reenact.cli.output.control_characters import escape_hidden, show_escapes, strip_controls

Run: TypeAlias = tuple[str, str]
"""A text without line breaks, and its style."""
Margin: TypeAlias = Sequence[Run]

WIDE = "\u3041-\u309f\u30a0-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
"""Characters of scripts without blanks: a line may be broken between any two of them."""
_OPENING = "\u3008\u300a\u300c\u300e\u3010\u3014\uff08"
_FOLLOWING = (
    "\u3001\u3002\uff0c\uff0e\uff01\uff1f\uff1a\uff1b\u3009\u300b\u300d\u300f\u3011\u3015\uff09"
    "\u30fb\u30fc\u3005\u3041\u3043\u3045\u3047\u3049\u3063\u3083\u3085\u3087"
    "\u30a1\u30a3\u30a5\u30a7\u30a9\u30c3\u30e3\u30e5\u30e7\u3099\u309a\u0300-\u036f\ufe00-\ufe0f\U000e0100-\U000e01ef"
)
"""Characters that never begin a line."""
_TAB = 8
_ATOMS = re.compile(rf"(?P<blanks>[ \t]+)|[{_OPENING}]*[{WIDE}][{_FOLLOWING}]*|(?:(?![{_OPENING}]*[{WIDE}])[^ \t])+")
_ASCII = re.compile(r"(?P<blanks>[ \t]+)|[^ \t]+")
BREAKABLE = rf"(?![{_FOLLOWING}])[{WIDE}]"
"""Pattern of a character before which a line may be broken, if the character before it also matches."""


@dataclass
class Flow:
    """Writes lines word by word; set `width` before writing. The terminal breaks a word that is wider than a line."""

    _pens: Pens
    _write: Callable[[str], object]
    _width = 80
    _column = 0
    _start = 0
    _margin: Margin = ()
    _blanks: list[Run] = field(default_factory=list[Run])
    _word: list[Run] = field(default_factory=list[Run])
    _is_joined = False

    @property
    def width(self) -> int:
        """The width of the terminal in columns."""
        return self._width

    @width.setter
    def width(self, columns: int) -> None:
        if columns != self._width:
            self._width = columns
            self._column = self._folded(self._column)

    def begin(self, first: Margin = (), later: Margin = ()) -> None:
        """Begin a line with the margin `first`; rows after a line break begin with the margin `later`."""
        self._margin = later
        self._begin_row(first if cells_of(first) < self._width else self._narrow(first))

    def put(self, runs: Iterable[Run], *, joined: bool = False) -> None:
        """Write words: the last one is complete, and so is the first, unless it is `joined` to the word before."""
        self._is_joined = joined
        for text, style in runs:
            is_edge = True
            for atom in (_ASCII if text.isascii() else _ATOMS).finditer(text):
                if atom["blanks"]:
                    self._end_word()
                    self._blanks.append((atom[0], style))
                    self._is_joined = False
                else:
                    if self._word and not (is_edge and _is_one_word(self._word[-1][0], atom[0])):
                        self._end_word()
                    self._word.append((atom[0], style))
                is_edge = False
        self._end_word()

    def end(self) -> None:
        """End the line."""
        self._blanks.clear()
        self._write("\n")
        self._column = self._start = 0

    @property
    def room(self) -> int:
        """The columns that are left on the line, at least one."""
        return max(self._width - self._column, 1)

    def draw(self, text: str, style: str) -> None:
        """Write styled text without wrapping it; call `end` at the end of the line."""
        before, after = self._pens(style)
        self._write(f"{before}{text}{after}")

    def raw(self, text: str) -> None:
        """Write text unchanged; call `end` at the end of the line."""
        self._write(text)

    def _end_word(self) -> None:
        if not self._word:
            return
        cells = sum(map(_cells, self._word))
        gap = self._gap() if self._blanks else ""
        before = self._column + len(gap)
        if not self._is_joined and before + cells > self._width and self._column > self._start:
            self._write("\n")
            self._begin_row(self._narrow(self._margin))
        elif gap and before < self._width:
            self.draw(gap, self._blanks[-1][1])
            self._column = before
        for text, style in self._word:
            self.draw(text, style)
        self._column = self._folded(self._column + cells)
        self._is_joined = False
        self._word.clear()
        self._blanks.clear()

    def _gap(self) -> str:
        """Return the blanks before the word, with tabs expanded as a terminal does."""
        gap = ""
        for text, _ in self._blanks:
            for blank in text:
                gap += " " if blank == " " else " " * (_TAB - (self._column + len(gap)) % _TAB)
        return gap

    def _begin_row(self, margin: Margin) -> None:
        for text, style in margin:
            self.draw(text, style)
        self._column = self._start = self._folded(cells_of(margin))

    def _narrow(self, margin: Margin) -> Margin:
        """Return as much of a margin as leaves half of the line for the text."""
        room = self._width // 2
        kept: list[Run] = []
        for run in margin:
            text = run[0][:room] if run[0].isspace() else run[0]
            room -= _cells((text, ""))
            if room < 0:
                break
            kept.append((text, run[1]))
        return tuple(kept)

    def _folded(self, column: int) -> int:
        """Return the cursor's column after the terminal has broken a line that is too wide."""
        return column if column <= self._width else (column - 1) % self._width + 1


def cells_of(margin: Margin) -> int:
    """Return the width of a margin in columns."""
    return sum(map(_cells, margin))


def _is_one_word(before: str, after: str) -> bool:
    return not (re.match(BREAKABLE, after) and re.match(BREAKABLE, before[-1]))


def _cells(run: Run) -> int:
    text = run[0]
    return len(text) if text.isascii() else cell_len(text)


_COLUMNS, _ROWS = 80, 24
"""The size assumed for a terminal that does not report its size."""
_INSIDE = "x"

Pen: TypeAlias = tuple[str, str]
"""The sequences to write before and after a text to give it a style."""


def size_of(screen: Screen) -> tuple[int, int]:
    """Return the terminal's current size in columns and rows, regardless of the environment variables.

    The size is 80 by 24 if the terminal does not report one.
    """
    try:
        columns, rows = os.get_terminal_size(screen.file.fileno())
    except io.UnsupportedOperation:  # an in-memory screen has the size it was given
        columns, rows = screen.size
    except (OSError, ValueError):
        columns, rows = 0, 0
    return columns if columns > 0 else _COLUMNS, rows if rows > 0 else _ROWS


def width_of(screen: Screen) -> int:
    """Return the terminal's current width, regardless of the environment variables; 80 if it does not report one."""
    return size_of(screen)[0]


def can_be_styled(screen: Screen) -> bool:
    """Return whether the screen is a terminal that can display more than plain text."""
    return screen.file.isatty() and screen.is_terminal and not screen.is_dumb_terminal


def can_show(screen: Screen, text: str) -> bool:
    """Return whether the screen's encoding has these characters."""
    try:
        text.encode(screen.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Pens:
    """Converts styles to the escape sequences of a screen, with or without colours."""

    def __init__(self, screen: Screen) -> None:
        self._system = COLOR_SYSTEMS.get(screen.color_system or "")
        self._has_colors = not screen.no_color
        self._pens: dict[str, Pen] = {"": ("", "")}

    def __call__(self, style: str) -> Pen:
        """Return the pen for a style in rich's notation."""
        pen = self._pens.get(style)
        if pen is None:
            pen = self._pens[style] = self.of(Style.parse(style))
        return pen

    def of(self, style: Style | None) -> Pen:
        """Return the pen for a style."""
        if style is None:
            return ("", "")
        shown = style if self._has_colors else style.without_color
        before, _, after = shown.render(_INSIDE, color_system=self._system).partition(_INSIDE)
        return before, after


_MOST = 1000
"""Maximum number of characters of a word that are held back until its end."""


@dataclass
class Plain:
    """Shows streamed text without interpreting any markup."""

    _screen: Screen
    _style: str
    _out: list[str] = field(default_factory=list[str])
    _word = ""
    _is_joined = False
    _is_open = False

    def __post_init__(self) -> None:
        self._flow = Flow(Pens(self._screen), self._out.append)

    def write(self, text: str) -> None:
        """Add a piece of text; write the words that are complete."""
        self._flow.width = width_of(self._screen)
        *lines, rest = escape_hidden(strip_controls(text)).split("\n")
        for line in lines:
            self._add(line)
            self._end_line()
        self._add(rest)
        self._send()

    def end(self) -> None:
        """Write the rest and end the line."""
        if self._is_open:
            self._end_line()
            self._send()

    def _add(self, text: str) -> None:
        if not text:
            return
        self._is_open = True
        self._word += text
        place = max(self._word.rfind(" "), self._word.rfind("\t"))
        if place >= 0:
            self._put(self._word[:place])
            self._is_joined = False
            self._word = self._word[place:]
        while len(self._word) >= _MOST:
            self._put(self._word[:_MOST])
            self._is_joined = True
            self._word = self._word[_MOST:]

    def _put(self, text: str) -> None:
        self._flow.put([(text, self._style)], joined=self._is_joined)

    def _end_line(self) -> None:
        self._put(self._word)
        self._flow.end()
        self._word = ""
        self._is_joined = self._is_open = False

    def _send(self) -> None:
        if self._out:
            self._screen.file.write(show_escapes("".join(self._out)))
            self._screen.file.flush()
            self._out.clear()
