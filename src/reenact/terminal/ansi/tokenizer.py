"""Text of a terminal into tokens, in pieces of any size."""

from __future__ import annotations

from typing import Final

from reenact.terminal.ansi.grammar import ESC, TOKEN
from reenact.terminal.ansi.rendition import Rendition
from reenact.terminal.ansi.sequence import Sequence
from reenact.terminal.ansi.tokens import ANSIToken, TokenKind
from reenact.terminal.style import ANSIStyle

_KINDS: Final[dict[str | None, TokenKind]] = {
    "csi": "csi",
    "osc": "osc",
    "dcs": "dcs",
    "apc": "apc",
    "pm": "pm",
    "sos": "sos",
    "escape": "escape",
    "c1": "c1",
    "cancelled": "cancelled",
}
"""The groups of the grammar that are sequences."""


class ANSITokenizer:
    """Takes text as it comes, and returns the tokens in it.

    A text is returned as soon as it comes, a sequence once it has ended. So the pieces decide in how many tokens one
    text comes, and nothing else: with neighbouring texts joined, the tokens are the same for any pieces, and their
    contents, joined, are the input. Time and memory grow with the length of the input, never faster.
    """

    def __init__(self) -> None:
        self._rendition = Rendition()
        self._open: Sequence | None = None
        self._pieces: list[str] = []

    def feed(self, text: str) -> list[ANSIToken]:
        """Take the next piece; return what has come to its end."""
        tokens: list[ANSIToken] = []
        at = 0
        while self._open is not None and at < len(text):
            at = self._follow(self._open, text, at, tokens)
        style = self._rendition.style
        for found in TOKEN.finditer(text, at):
            content, group = found[0], found.lastgroup
            if group == "text":
                tokens.append(ANSIToken(type="text", content=content, style=style))
            elif group == "open":
                self._begin(content)
            else:
                token = self._sequence(_KINDS[group], content)
                style = token.style
                tokens.append(token)
        return tokens

    def close(self) -> list[ANSIToken]:
        """Return the sequence that has not come to its end, if there is one, as an incomplete token.

        What is fed from then on is another input.
        """
        left = [] if self._open is None else [self._sequence(self._open.kind, "".join(self._pieces), complete=False)]
        self._rendition = Rendition()
        self._open = None
        self._pieces = []
        return left

    def _begin(self, content: str) -> None:
        self._open = Sequence(content[0])
        self._open.follow(content, 1)
        self._pieces = [content]

    def _follow(self, sequence: Sequence, text: str, at: int, tokens: list[ANSIToken]) -> int:
        behind = sequence.follow(text, at)
        self._pieces.append(text[at:behind])
        if sequence.ended:
            content = "".join(self._pieces)
            self._open = None
            tokens.append(self._sequence(sequence.kind, content[:-1] if sequence.borrowed else content))
            if sequence.borrowed:
                self._begin(ESC)
        return behind

    def _sequence(self, kind: TokenKind, content: str, *, complete: bool = True) -> ANSIToken:
        style: ANSIStyle = self._rendition.style
        if complete and kind == "csi":
            style = self._rendition.control(content)
        elif complete and kind == "escape":
            style = self._rendition.escape(content)
        return ANSIToken(type="escape", content=content, style=style, kind=kind, complete=complete)
