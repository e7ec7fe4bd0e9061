r"""The parser of terminal output: into tokens, text without escape sequences, or the lines a reader sees.

The grammar of escape sequences: ECMA-48, as parsed by DEC's VT500 and xterm.

- A sequence begins with ESC or with a character U+0080 to U+009F, and its form determines its end. The strings (OSC,
  DCS, APC, PM, SOS) end with ST, which is `ESC \` or U+009C; OSC also with BEL.
- CAN and SUB end a sequence at once and belong to it. ESC and U+0080 to U+009F end it and begin the next one. A
  character from U+00A0 on, where it is not allowed, ends it too and is text again: no readable text is lost.
- The other control characters, and DEL, do not affect the end of a sequence, and belong to it.
- SS2 and SS3 (ESC N, ESC O) are sequences by themselves: the character after them is displayed.

All quantifiers are possessive, so that each character is examined only a few times, whatever the input.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from reenact.terminal.ansi.style import (
    PLAIN,
    ANSIStyle,
    Parameters,
    Rendition,
    control,
    parameters,
    without_executed,
)
from reenact.terminal.errors import invalid

TokenKind: TypeAlias = Literal["text", "csi", "osc", "dcs", "apc", "pm", "sos", "escape", "c1", "cancelled"]

_ESC = "\x1b"
_IGNORED = r"\x00-\x17\x19\x1c-\x1f\x7f"
_IN_STRING = r"[^\x18\x1a\x1b\x80-\x9f]*+"
_IN_OSC = r"[^\x07\x18\x1a\x1b\x80-\x9f]*+"
_IN_CONTROL = rf"[{_IGNORED} -?]*+"
_IN_ESCAPE = rf"[{_IGNORED} -/]*+"
_ESCAPE = rf"\x1b[{_IGNORED}]*+"
_CSI = rf"(?:{_ESCAPE}\[|\x9b){_IN_CONTROL}"
_OSC = rf"(?:{_ESCAPE}\]|\x9d){_IN_OSC}"
_STRING = rf"(?:{_ESCAPE}[PX^_]|[\x90\x98\x9e\x9f]){_IN_STRING}"
_TERMINATOR = r"(?:\x1b\\|\x9c)"
_TOKEN = re.compile(
    rf"""
    (?P<text> [^\x1b\x80-\x9f]++ )
  | (?P<csi> {_CSI}[@-~] )
  | (?P<osc> {_OSC}(?:\x07|{_TERMINATOR}) )
  | (?P<escape> {_ESCAPE}(?: [0-OQ-WYZ\\`-~] | [ -/]{_IN_ESCAPE}[0-~] ) )
  | (?P<c1> [\x80-\x8f\x91-\x97\x99\x9a\x9c] )
  | (?P<dcs> (?:{_ESCAPE}P|\x90){_IN_STRING}{_TERMINATOR} )
  | (?P<apc> (?:{_ESCAPE}_|\x9f){_IN_STRING}{_TERMINATOR} )
  | (?P<pm> (?:{_ESCAPE}\^|\x9e){_IN_STRING}{_TERMINATOR} )
  | (?P<sos> (?:{_ESCAPE}X|\x98){_IN_STRING}{_TERMINATOR} )
  | (?P<cancelled>
        (?: {_OSC} | {_STRING} ) (?: [\x18\x1a] | (?= \x1b[^\\] | [\x80-\x9b\x9d-\x9f] ) )
      | (?: {_CSI} | {_ESCAPE}(?:[ -/]{_IN_ESCAPE})?+ ) (?: [\x18\x1a] | (?= [\x1b\x80-\U0010ffff] ) )
    )
  | (?P<open> [\x1b\x80-\x9f][\s\S]*+ )
    """,
    re.VERBOSE,
)
"""A text, a sequence that no later text can change, or an unfinished sequence with everything after it."""
_BEGUN = re.compile(rf"{_ESCAPE}([ -/P\[\]X^_])?|[\x80-\x9f]")
_KINDS: Final[dict[str | None, TokenKind]] = {kind: kind for kind in get_args(TokenKind)}
"""The kinds of tokens by the names of their groups."""


class ANSIToken(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text or one escape sequence; the concatenated contents of all tokens are the input.

    Attributes:
        type: whether the token is displayed text or an escape sequence.
        content: the token's input, with all control characters.
        style: the style of a text; for a sequence, the style that applies after it.
        kind: the form of a sequence: `csi`, `osc`, `dcs`, `apc`, `pm` and `sos` as in ECMA-48; `escape` for ESC with a
            final character, `c1` for a single character U+0080 to U+009F; `cancelled` for one that was cut off by CAN,
            SUB, another sequence or a character that is not allowed in it.
        complete: False only for a sequence that had not ended when the input did.
    """

    type: Literal["text", "escape"]
    content: str
    style: ANSIStyle = PLAIN
    kind: TokenKind = "text"
    complete: bool = True

    @property
    def final(self) -> str:
        """The final character, which determines what a control sequence does, such as `m`; empty for other tokens."""
        return _part(self, "final")

    @property
    def private(self) -> str:
        """The private marker of a control sequence, such as `?`, or an empty text."""
        return _part(self, "private")

    @property
    def intermediates(self) -> str:
        """The characters before the final one of a control sequence, such as `!` in `CSI ! p`, or an empty text."""
        return _part(self, "intermediates")

    @property
    def params(self) -> Parameters:
        """The parameters of a control sequence, each with its sub-parameters: `4:3;;1` is `((4, 3), (None,), (1,))`.

        An omitted one is None; one above 65,535 counts as that. Only a well-formed `csi` has parameters.
        """
        return parameters(_part(self, "parameters"))


def _part(token: ANSIToken, name: str) -> str:
    if token.kind != "csi" or not token.complete:
        return ""
    parts = control(token.content)
    return "" if parts is None else parts[name]


class ANSITokenizer:
    """Splits text into tokens incrementally.

    A text is returned as soon as it arrives, a sequence once it has ended. So the boundaries of the input pieces affect
    only how a text is split: with neighbouring texts joined, the tokens are the same for any pieces, and their
    concatenated contents are the input. Time and memory are linear in the length of the input.
    """

    def __init__(self) -> None:
        self._rendition = Rendition()
        self._open = ""
        self._pieces: list[str] = []

    def feed(self, text: str) -> list[ANSIToken]:
        """Add the next piece; return the tokens that are complete."""
        tokens: list[ANSIToken] = []
        begun, self._open = self._open, ""
        style = self._rendition.style
        line = begun + text
        for found in _TOKEN.finditer(line):
            content, group = found[0], found.lastgroup
            if group == "text":
                tokens.append(ANSIToken(type="text", content=content, style=style))
                continue
            is_first = begun and not found.start()
            if group == "open":
                self._open = _shortened(content)
                self._pieces = self._pieces if is_first else []
                self._pieces.append(text if is_first else content)
                continue
            if is_first:
                whole = "".join(self._pieces) + text
                content = whole[: found.end() + len(whole) - len(line)]
            token = self._sequence(_KINDS[group], content)
            style = token.style
            tokens.append(token)
        return tokens

    def close(self) -> list[ANSIToken]:
        """Return the unfinished sequence, if there is one, as an incomplete token.

        Later calls of `feed` begin a new input.
        """
        left = [self._sequence(_kind_of(self._open), "".join(self._pieces), complete=False)] if self._open else []
        self._open, self._rendition = "", Rendition()
        return left

    def _sequence(self, kind: TokenKind, content: str, *, complete: bool = True) -> ANSIToken:
        style: ANSIStyle = self._rendition.style
        if complete and kind == "csi":
            style = self._rendition.control(content)
        elif complete and kind == "escape":
            style = self._rendition.escape(content)
        return ANSIToken(type="escape", content=content, style=style, kind=kind, complete=complete)


def _shortened(opened: str) -> str:
    """Return the shortest equivalent of an unfinished sequence: the same text after it ends it in the same way."""
    begun = _BEGUN.match(opened)
    assert begun is not None
    is_ending = opened.endswith(_ESC, begun.end())  # a string that may be ending with ST
    return f"{opened[0]}{begun[1] or ''}{_ESC if is_ending else ''}"


def _kind_of(opened: str) -> TokenKind:
    """Return the kind of an unfinished sequence, which it has once it ends."""
    ends = (_TOKEN.fullmatch(opened + end) for end in ("\\", "\x9c"))
    return next(_KINDS[found.lastgroup] for found in ends if found is not None and found.lastgroup in _KINDS)


_PIECE = re.compile(
    r"(?P<written>[^\x00-\x08\x0a-\x1f\x7f]++)|(?P<end>[\n\v\f])|(?P<start>\r)|(?P<back>\x08)|(?P<ignored>.)", re.DOTALL
)
_TO_THE_END = ((), ((None,),), ((0,),))
_WHOLE = ((2,),)


def _execute(token: ANSIToken, page: _Page) -> None:
    if token.content == "\x85" or (token.kind == "escape" and without_executed(token.content) == "\x1bE"):
        page.end_line()
    elif token.final == "K" and not (token.private or token.intermediates):
        if token.params in _TO_THE_END:
            page.erase_behind()
        elif token.params == _WHOLE:
            page.erase_line()


class _Page:
    """Lines, of which the last can be overwritten.

    The first `_blank` columns of the last line are empty and not stored, so that erasing a line repeatedly is cheap.
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


class ANSIStripper:
    """Removes sequences from text incrementally.

    The concatenated results are the result of `ANSIParser.strip` for the whole text. Of an unfinished sequence only its
    state is stored. Time is linear in the length of the text.
    """

    def __init__(self) -> None:
        self._open = ""

    def feed(self, text: str) -> str:
        """Add the next piece; return the text in it."""
        kept: list[str] = []
        begun, self._open = self._open, ""
        for found in _TOKEN.finditer(begun + text):
            if found.lastgroup == "text":
                kept.append(found[0])
            elif found.lastgroup == "open":
                self._open = _shortened(found[0])
        return "".join(kept)


class ANSIParser:
    """Parses the output of a program to its terminal: text, and the sequences of ECMA-48 and xterm in it.

    All methods accept any text, take linear time, and raise
    `TerminalTestError` (`INVALID_CONFIG`) for anything that is not text.
    """

    def strip(self, text: str) -> str:
        """Return the text without sequences, otherwise unchanged.

        Control characters outside sequences stay: tab, newline, backspace, bell, even CAN. A sequence is removed with
        the control characters in it, and with CAN or SUB if they end it; so is an unfinished one. All characters U+0080
        to U+009F are removed. Nothing is executed: a backspace deletes nothing.
        """
        return ANSIStripper().feed(_checked(text))

    def parse(self, text: str) -> list[ANSIToken]:
        """Return the tokens, with neighbouring texts joined; each has the style that results from all tokens before it.

        The concatenated contents are the text. An unfinished sequence is the last token, and not `complete`.
        """
        tokenizer = ANSITokenizer()
        tokens = tokenizer.feed(_checked(text))
        return [*tokens, *tokenizer.close()]

    def extract_text(self, text: str) -> str:
        r"""Return the lines that remain visible, where `strip` returns everything that was written.

        Like `strip`, but with these effects: newline, vertical tab, form feed and NEL end a line, with or without CR
        before them, and each is `"\n"` in the result. CR returns to the beginning of the line and backspace moves one
        character to the left; text written there overwrites. Erasing in a line (EL) is supported: to the end of the
        line (`CSI K`), or the whole line (`CSI 2 K`). Tabs stay; other control characters are removed. Movements
        between lines and to columns are not supported, and a character counts as one column: use the screen of an
        emulator for these.
        """
        page = _Page()
        for token in ANSITokenizer().feed(_checked(text)):
            if token.type == "escape":
                _execute(token, page)
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


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise invalid(f"text is {type(text).__name__}, and must be str; decode bytes first")
    return text
