"""What a piece of a line looks like: emphasis, code, links and images as texts with styles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from reenact.cli.listing import visible
from reenact.cli.prose.flow import Run
from reenact.cli.prose.masks import as_address, unmasked_again
from reenact.cli.prose.settled import ADDRESS, is_address

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_TELLING: Final = re.compile(r"[\\`*_~\[\]<&]")
_IN_WORD: Final = re.compile(r"(?<=[^\W_])_+(?=[^\W_])")
"""Underscores that can neither begin nor end anything."""
_MOST_TELLING: Final = 300
"""What has more marks than that is no prose."""
_STYLES: Final = {"strong_open": "bold", "em_open": "italic", "s_open": "strike"}
_CODE: Final = "cyan"
_LINK: Final = "underline"
_ASIDE: Final = "dim"


def runs_of(text: str, style: str) -> list[Run]:
    """Return the texts of a piece of a line, and their styles on top of this one."""
    if not 0 < len(_TELLING.findall(_IN_WORD.sub("", text))) <= _MOST_TELLING:
        return [(text, style)]
    inner = text.strip(" \t")
    begin = text.index(inner) if inner else len(text)
    (inline,) = markdown().parseInline(inner)
    return [(text[:begin], style), *runs(inline.children or (), style)]


def runs(tokens: Sequence[Token], style: str) -> list[Run]:
    """Return what the parsed tokens of a line say, and in which styles."""
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
                found.extend(_aside(link, "href", shown, styles[-1]))
            case "image":
                shown = _line(f"[image: {token.content}]")
                found.extend([(shown, styles[-1]), *_aside(token, "src", shown, styles[-1])])
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
    """Return the parser: CommonMark with tables and strikethrough; URLs in a text are left as they are."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - slow to import, and not needed for plain words

    parser = MarkdownIt("commonmark").enable(["strikethrough", "table"])
    parser.inline.ruler.before("escape", "address", _address)
    return parser


def _address(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - what the parser calls
    """Take the rest of a URL as it is: an underscore in it is no emphasis."""
    if state.src[state.pos] != ":" or not is_address(state.src, state.pos):
        return False
    address = ADDRESS.match(state.src, state.pos)
    if address is None:
        return False
    if not silent:
        state.pending += address[0]
    state.pos = address.end()
    return True


def _aside(token: Token, attribute: str, shown: str, style: str) -> list[Run]:
    """Return where a link leads, unless that is what it says."""
    url, title = (_line(as_address(str(token.attrs.get(name, "")))) for name in (attribute, "title"))
    if token.markup == "autolink" or (url == shown and not title):
        return []
    told = f'{url} "{title}"' if title else url
    return [(f" ({told})" if shown else f"({told})", f"{style} {_ASIDE}")]


def _line(text: str) -> str:
    """Return a text, of which entities may be a part, as it can stand on a line."""
    return unmasked_again(visible(text)).replace("\n", " ")
