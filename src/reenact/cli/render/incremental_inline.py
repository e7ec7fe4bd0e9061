"""Incremental rendering of a line's inline Markdown: each piece is written once later text cannot change it.

A piece that ends at a blank is final once markdown-it finds nothing open in it: no delimiter that may still begin
emphasis, and no unclosed code, link or tag.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from reenact.cli.output.control_characters import as_address, escape_hidden_again, strip_controls
from reenact.cli.render.flow import BREAKABLE, Flow, Run

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token


_MOST = 2000
"""Maximum number of characters held back for the end of a construct; without an end they are written as text."""
_MOST_TRIES = 50
"""Maximum number of parses that test whether a piece is final; after these, the rest waits for the end of the line."""
_MOST_SPECIAL = 300
"""Text with more special characters than this is not prose, and is written without being parsed."""
_CUTS = re.compile(rf"(?<=[^ \t])(?=[ \t])|(?<={BREAKABLE})(?={BREAKABLE})")
"""Positions where a piece may end: after a word, or between two characters of a script without blanks."""
_OPENING = re.compile(r"[`*_~\[<]")
_CLOSING = re.compile(r"[`*_~\[\]<>)]")
_DECISIVE = re.compile(r"[\\`*_~\[\]<&]")
_IN_WORD = re.compile(r"(?<=[^\W_])_+(?=[^\W_])")
"""Underscores that can neither open nor close emphasis."""
_BRACKETS = re.compile(r"\[[^\[\]]*\](?!\()")
_OPEN = re.compile(r"[`\[]|<[A-Za-z/!?]")
"""What may open a construct that ends later, in text from which paired brackets have been removed."""
_SCHEME = re.compile(r"(?i:https?)$")
_ADDRESS = re.compile(r"://[^\s<>\[\]`\"\\|]*[^\s<>\[\]`\"\\|?!.,:;*_~'()]")
"""The part of a URL after its scheme, without punctuation that belongs to the surrounding text."""
_STYLES = {"strong_open": "bold", "em_open": "italic", "s_open": "strike"}
_CODE = "cyan"
_LINK = "underline"
_DIM = "dim"
_BREAK = "\\"


class Inline:
    """Writes the inline content of one line after another; the caller has written what comes before the content."""

    _breaks = False

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self.begin("", is_heading=False)

    def begin(self, style: str, *, is_heading: bool) -> None:
        """Begin the content of a line."""
        self._style = style
        self._is_heading = is_heading
        self._hashes = ""
        self._is_joined = False
        self._restart()

    def write_final(self, line: str, *, is_over: bool) -> str:
        """Write the final part of the line and return the rest, to be passed again together with what follows it."""
        while line and (length := self._final_length(line, is_over=is_over)):
            self._put(line[:length], is_last=is_over and length == len(line))
            line = line[length:]
            self._restart()
        if is_over and not self._breaks:
            self._flow.end()
        return line

    def end_break(self, *, is_kept: bool) -> None:
        """End a line whose trailing backslash was held back: it is a hard break, or text if it ends the paragraph."""
        if self._breaks:
            self._breaks = False
            self._flow.raw(_BREAK if is_kept else "")
            self._flow.end()

    def _restart(self) -> None:
        self._sought = self._tries = 0

    def _final_length(self, text: str, *, is_over: bool) -> int:
        """Return the length of the next final piece, 0 if there is none yet; the result depends on the text alone."""
        for cut in _CUTS.finditer(text, self._sought, _MOST + 1):
            before, self._sought = self._sought, cut.start()
            if not _OPENING.search(_IN_WORD.sub("", text[: self._sought])):
                return self._sought
            if self._tries < _MOST_TRIES and _CLOSING.search(text, before, self._sought):
                self._tries += 1
                if _is_closed(text[: self._sought].strip(" \t")):
                    return self._sought
            self._sought += 1
        if len(text) < _MOST:
            return len(text) if is_over else 0
        blank = max(text.rfind(" ", 0, _MOST), text.rfind("\t", 0, _MOST))
        return blank if text[: max(blank, 0)].strip(" \t") else _MOST

    def _put(self, piece: str, *, is_last: bool) -> None:
        """Write a final piece of a line."""
        if is_last:
            self._breaks = not self._is_heading and _ends_with_break(piece)
            piece = piece.removesuffix(_BREAK) if self._breaks else piece.rstrip(" \t")
        words = piece.strip(" \t")
        if not words:
            return
        if self._is_heading and not words.strip("#"):
            self._hashes += piece  # if these end the heading, they are not part of it
            return
        if self._hashes:
            self._flow.put([(self._hashes, self._style)])
            self._hashes = ""
        self._flow.put(_runs_of(piece, self._style), joined=self._is_joined)
        self._is_joined = len(piece) == _MOST


def _is_closed(text: str) -> bool:
    """Return whether no construct is open at the end of the text, which a blank follows."""
    from markdown_it.rules_inline import StateInline  # noqa: PLC0415 - not needed for plain words

    parser = markdown()
    state = StateInline(text, parser, {}, [])
    parser.inline.tokenize(state)
    for rule in parser.inline.ruler2.getRules(""):
        rule(state)
    left = "".join(token.content for token in state.tokens if token.type == "text")
    while _BRACKETS.search(left):
        left = _BRACKETS.sub("", left)
    return not _OPEN.search(left) and not any(mark.open and mark.end < 0 for mark in state.delimiters)


def _ends_with_break(piece: str) -> bool:
    """Return whether the line ends with a backslash that is a hard break; after a blank it continues a shell's line."""
    before = piece.rstrip(_BREAK)
    return (len(piece) - len(before)) % 2 == 1 and before[-1:].strip(" \t") != ""


def _runs_of(text: str, style: str) -> list[Run]:
    """Parse a piece of a line; return its texts with their styles, which extend the given one."""
    if not 0 < len(_DECISIVE.findall(_IN_WORD.sub("", text))) <= _MOST_SPECIAL:
        return [(text, style)]
    inner = text.strip(" \t")
    begin = text.index(inner) if inner else len(text)
    (inline,) = markdown().parseInline(inner)
    return [(text[:begin], style), *runs(inline.children or (), style)]


def runs(tokens: Sequence[Token], style: str) -> list[Run]:
    """Return the texts and styles of the parsed tokens of a line."""
    found: list[Run] = []
    styles = [style]
    links: list[tuple[int, Token]] = []
    for token in tokens:
        match token.type:
            case "link_open":
                links.append((len(found), token))
                styles.append(f"{styles[-1]} {_LINK}")
            case "link_close":
                styles.pop()
                begin, link = links.pop()
                shown = "".join(text for text, _ in found[begin:])
                found.extend(_link_target(link, "href", shown, styles[-1]))
            case "image":
                shown = _line(f"[image: {token.content}]")
                found.extend([(shown, styles[-1]), *_link_target(token, "src", shown, styles[-1])])
            case "code_inline":
                found.append((_line(token.content), f"{styles[-1]} {_CODE}"))
            case kind if kind in _STYLES:
                styles.append(f"{styles[-1]} {_STYLES[kind]}")
            case _ if token.nesting < 0:
                styles.pop()
            case _:
                found.append((_line(token.content), styles[-1]))
    return found


@cache
def markdown() -> MarkdownIt:
    """Return the parser: CommonMark with tables and strikethrough, which leaves bare URLs as they are."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - slow to import, and not needed for plain words

    parser = MarkdownIt("commonmark").enable(["strikethrough", "table"])
    parser.inline.ruler.before("escape", "address", _address)
    return parser


def _address(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - signature of the parser's rules
    """Consume the rest of a URL as text, so that its underscores are not emphasis."""
    if state.src[state.pos] != ":" or not _SCHEME.search(state.src, max(0, state.pos - len("https")), state.pos):
        return False
    address = _ADDRESS.match(state.src, state.pos)
    if address is None:
        return False
    if not silent:
        state.pending += address[0]
    state.pos = address.end()
    return True


def _link_target(token: Token, attribute: str, shown: str, style: str) -> list[Run]:
    """Return the target of a link for display after its text, unless the text is the target."""
    url, title = (_line(as_address(str(token.attrs.get(name, "")))) for name in (attribute, "title"))
    if token.markup == "autolink" or (url == shown and not title):
        return []
    told = f'{url} "{title}"' if title else url
    return [(f" ({told})" if shown else f"({told})", f"{style} {_DIM}")]


def _line(text: str) -> str:
    """Return text that may come from entities as it can be displayed on one line."""
    return escape_hidden_again(strip_controls(text)).replace("\n", " ")
