"""The tokenizer of terminal output: text and the escape sequences between it, in pieces of any size."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from reenact.terminal.ansi.grammar import ESC, TOKEN, Parameters, Sequence, TokenKind, control, parameters
from reenact.terminal.ansi.sgr import Rendition
from reenact.terminal.style import PLAIN, ANSIStyle


class ANSIToken(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text, or one escape sequence; the contents of all tokens, joined, are what was read.

    Attributes:
        type: whether it is shown, or tells the terminal something.
        content: as it came, with all control characters.
        style: of a text, how it looks; of a sequence, what holds behind it.
        kind: which form of sequence: `csi`, `osc`, `dcs`, `apc`, `pm` and `sos` as in ECMA-48; `escape` for ESC with a
            final character, `c1` for a single character U+0080 to U+009F; `cancelled` for one that did not come to
            its end, because CAN, SUB, another sequence or a character that cannot stand in it came first.
        complete: False only for a sequence that had not ended when the input did.
    """

    type: Literal["text", "escape"]
    content: str
    style: ANSIStyle = PLAIN
    kind: TokenKind = "text"
    complete: bool = True

    @property
    def final(self) -> str:
        """The character that says what a control sequence does, as `m`; empty for all but a well-formed `csi`."""
        return _part(self, "final")

    @property
    def private(self) -> str:
        """The private marker of a control sequence, as `?`, or an empty text."""
        return _part(self, "private")

    @property
    def intermediates(self) -> str:
        """What stands before the final character of a control sequence, as `!` in `CSI ! p`, or an empty text."""
        return _part(self, "intermediates")

    @property
    def params(self) -> Parameters:
        """The parameters of a control sequence, each with its sub-parameters: `4:3;;1` is `((4, 3), (None,), (1,))`.

        One that was left out is None; one above 65,535 counts as that. All but a well-formed `csi` have none.
        """
        return parameters(_part(self, "parameters"))


def _part(token: ANSIToken, name: str) -> str:
    if token.kind != "csi" or not token.complete:
        return ""
    parts = control(token.content)
    return "" if parts is None else parts[name]


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
