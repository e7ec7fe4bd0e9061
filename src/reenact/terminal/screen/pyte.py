"""An engine all in Python, for where Ghostty's library does not run, and to compare it with: pyte's screen."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from reenact.terminal.ansi.tokenizer import ANSITokenizer
from reenact.terminal.ansi.tokens import ANSIToken, without_executed
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.screen.mended import MendedScreen
from reenact.terminal.screen.model import Cursor, Modes, Screen
from reenact.terminal.screen.size import checked_size

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
            raise TerminalTestError(TerminalTestErrorType.SCRIPT_EXECUTION_ERROR, message)
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
