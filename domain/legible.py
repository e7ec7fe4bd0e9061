"""Makes untrusted text safe to display: no character can be invisible, move the cursor, or end the line."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_UNSEEN = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810)))
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000))))
"""Characters of visible categories that nevertheless show nothing."""
_STRUCK_THROUGH = frozenset(map(chr, range(0x0334, 0x0339)))
_MOST_MARKS = 3
"""How many combining marks one letter may have; more would reach into other lines."""


def display_safe(text: str) -> str:
    """Return the text with every character escaped that a terminal would obey or that would mislead a reader."""
    return "".join(one if one in '\\"' else seen(one, "x") for one in text.expandtabs(4))


def shortened(text: str, width: int) -> str:
    """Return the text, safe to display, in at most `width` columns; an ellipsis replaces the omitted end."""
    beginning = text[: 4 * width]
    whole = display_safe(beginning)
    if len(beginning) == len(text) and columns(whole) <= width:
        return whole
    told, room = "", width - 1
    for character in whole:
        room -= columns(character)
        if room < 0:
            break
        told += character
    return f"{told.rstrip()}…"


def columns(text: str) -> int:
    """Return the number of terminal columns that the text takes."""
    return sum(
        0 if unicodedata.category(one).startswith("M") else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )


def seen(character: str, before: str) -> str:
    """Return the character itself if it is visible, else its escape; `before` is the letter that a mark belongs to."""
    category = unicodedata.category(character)
    if character.isascii() or category in _UNSEEN_CATEGORIES or character in _UNSEEN:
        return in_ascii(character, before)
    if category.startswith("M") and not _can_combine(character, before):
        return in_ascii(character, before)
    return character


def in_ascii(character: str, _before: str) -> str:
    """Return the character itself if it is a visible ASCII character, else its escape."""
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def tokens(text: str, escape: Callable[[str, str], str]) -> Iterator[str]:
    """Yield the escaped text character by character, each letter together with its combining marks."""
    token = ""
    for character in text:
        written = escape(character, token)
        if token and written == character and unicodedata.category(character).startswith("M"):
            token += written
            continue
        if token:
            yield token
        token = written
    if token:
        yield token


def _can_combine(mark: str, before: str) -> bool:
    """Return whether the mark can be combined with the letter before it, which may have marks already."""
    return (
        mark not in _STRUCK_THROUGH
        and unicodedata.category(mark) != "Me"
        and unicodedata.category(before[:1] or " ").startswith("L")
        and len(before) <= _MOST_MARKS
    )
