"""Lines as they look in the end, when a program has gone back in them and written over what was there."""

from __future__ import annotations

import re
from typing import Final

from reenact.terminal.ansi.tokenizer import ANSITokenizer
from reenact.terminal.ansi.tokens import ANSIToken, without_executed

_PIECE: Final = re.compile(
    r"(?P<written>[^\x00-\x08\x0a-\x1f\x7f]++)|(?P<end>[\n\v\f])|(?P<start>\r)|(?P<back>\x08)|(?P<ignored>.)", re.DOTALL
)
_TO_THE_END: Final = ((), ((None,),), ((0,),))
_WHOLE: Final = ((2,),)


def extracted(text: str) -> str:
    """Return what `ANSIParser.extract_text` promises."""
    page = _Page()
    for token in ANSITokenizer().feed(text):
        if token.type == "escape":
            _carry_out(token, page)
            continue
        for piece in _PIECE.finditer(token.content):
            match piece.lastgroup:
                case "written":
                    page.write(piece[0])
                case "end":
                    page.end_line()
                case "start":
                    page.column = 0
                case "back":
                    page.column = max(0, page.column - 1)
                case _:
                    pass
    return page.text()


def _carry_out(token: ANSIToken, page: _Page) -> None:
    if token.content == "\x85" or (token.kind == "escape" and without_executed(token.content) == "\x1bE"):
        page.end_line()
    elif token.final == "K" and not (token.private or token.intermediates):
        if token.params in _TO_THE_END:
            page.erase_behind()
        elif token.params == _WHOLE:
            page.erase_line()


class _Page:
    """Lines, of which the last can be written over.

    Of that one, `_blank` columns at its left are empty and not kept: to erase a line again and again costs nothing.
    """

    def __init__(self) -> None:
        self.column = 0
        self._lines: list[str] = []
        self._blank = 0
        self._characters: list[str] = []

    def write(self, text: str) -> None:
        start = self.column
        self.column += len(text)
        if not self._characters:
            self._blank = start
        elif start < self._blank:
            self._characters[:0] = " " * (self._blank - start)
            self._blank = start
        at = start - self._blank
        if at > len(self._characters):
            self._characters.extend(" " * (at - len(self._characters)))
        self._characters[at : at + len(text)] = text

    def erase_behind(self) -> None:
        del self._characters[max(0, self.column - self._blank) :]

    def erase_line(self) -> None:
        self._characters.clear()

    def end_line(self) -> None:
        self._lines.append(self._line())
        self.column = 0
        self._characters.clear()

    def text(self) -> str:
        return "\n".join([*self._lines, self._line()])

    def _line(self) -> str:
        return " " * self._blank + "".join(self._characters) if self._characters else ""
