r"""Text for people: what cannot be shown, or must not be obeyed, is written as Python's escapes (`\x1b`).

`visible` and `plain_lines` are for what a program wrote, `escaped` and what is below it for what messages quote.

Of a line in a diff, 200 characters are shown. When two lines stand against each other that differ in white space alone,
blanks are written as `·`, tabs and line ends as `\t` and `\n`; when they look the same otherwise, as with an accent in
two forms, all characters above ASCII are written as escapes.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal, TypeAlias

_UNFIT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, 7-bit and 8-bit, but for tab, newline and carriage return
    "\u202a-\u202e\u2066-\u2069"  # what turns the direction of the text around it
    "\ud800-\udfff"  # halves of pairs
    "\ufdd0-\ufdef\ufffe\uffff"
    + "".join(chr(plane << 16 | last) for plane in range(1, 17) for last in (0xFFFE, 0xFFFF))
    + "]"
)
_LINE_END = re.compile(r"(?<!\r)\r++((?:\x1b\[[0-9;:]*+m)*+)\n")  # each run of CR is looked at once
_SURROGATE = re.compile("[\ud800-\udfff]")
_SEQUENCES_ARE_SHORTER = 1000


def visible(text: str) -> str:
    """Return the text with only characters that XML 1.0 and HTML allow; none drives a terminal but tab, CR and LF."""
    return _UNFIT.sub(_as_escape, text)


def plain_lines(text: str) -> str:
    """Return `visible` text whose lines end with LF alone, also those that a terminal was sent with CR and LF."""
    return visible(with_newlines(text)).replace("\r", "\\r")


def with_newlines(text: str) -> str:
    r"""Return the text with `\n` for each end of a line, also if colours are switched between `\r` and `\n`."""
    return _LINE_END.sub(r"\1\n", text)


def encodable(text: str) -> str:
    """Return the text with halves of surrogate pairs made visible, for nothing else keeps it from being UTF-8."""
    return _SURROGATE.sub(_as_escape, text)


def end_of(text: str, limit: int) -> tuple[str, int]:
    """Return the last of the text, `limit` characters at most, and how many are left out before it.

    It is cut behind a line break if one is near, so that no escape sequence loses its head.
    """
    if len(text) <= limit:
        return text, 0
    start = len(text) - limit
    line_break = text.find("\n", start, start + _SEQUENCES_ARE_SHORTER)
    if line_break != -1:
        start = line_break + 1
    return text[start:], start


LONGEST = 200
"""Characters that are shown of a line."""
_BEFORE = 40
_BRIEF = 80
_UNUSUAL = re.compile(r"[^\t -~]")
_NOT_LINES = re.compile(r"[^\t\n -~]")
_SPACES = {" ": "·", "\t": "\\t", "\n": "\\n"}

Look: TypeAlias = tuple[Literal["plain", "spaces", "ascii"], int]
"""What is made visible, and from which character on the line is shown."""
PLAIN_LOOK: Final[Look] = ("plain", 0)


def common_length(one: str, other: str) -> int:
    """Return how many characters the texts have in common at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def look_at(one: str, other: str) -> Look:
    """Return how both lines are to be shown, so that their first difference is seen."""
    start = 0
    if max(len(one), len(other)) > LONGEST:
        start = max(0, common_length(one, other) - _BEFORE)
    one, other = one[start : start + LONGEST], other[start : start + LONGEST]
    if one.split() == other.split() or "".join(one.split()) == "".join(other.split()):
        return "spaces", start
    if unicodedata.normalize("NFKC", one) == unicodedata.normalize("NFKC", other):
        return "ascii", start
    return "plain", start


def shown(line: str, look: Look = PLAIN_LOOK) -> str:
    """Return the line as it is shown."""
    what, start = look
    part = line[start : start + LONGEST]
    left = len(line.removesuffix("\n")) - start - len(part.removesuffix("\n"))
    match what:
        case "plain":
            part = _UNUSUAL.sub(_escaped, part.removesuffix("\n"))
        case "spaces":
            part = "".join(_SPACES.get(character) or _UNUSUAL.sub(_escaped, character) for character in part)
        case "ascii":
            part = _NOT_LINES.sub(_as_escape, part.removesuffix("\n"))
    return f"{'…' if start else ''}{part}{f'… ({left:,} more)' if left > 0 else ''}"


def escaped(text: str) -> str:
    """Return the text with escapes for what is not seen, but for blanks, tabs and newlines."""
    return _NOT_LINES.sub(_escaped, text)


def on_a_line(text: str) -> str:
    """Return the text on one line, with escapes for what is not seen and for what ends lines."""
    return _UNUSUAL.sub(_escaped, text).replace("\t", "\\t")


def described(value: object) -> str:
    """Return a value as Python writes it, on one line; if it is long, its beginning."""
    try:
        text = repr(value)
    except ValueError:  # a number with more digits than Python writes
        return "a number with very many digits"
    return on_a_line(text if len(text) <= _BRIEF else f"{text[:_BRIEF]}…")


def quoted(text: str) -> str:
    """Return the text in quotes, on one line; if it is long, its beginning and its end."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}…{text[-(LONGEST // 2) :]}"
    return f"'{on_a_line(text)}'"


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else _as_escape(found)


def _as_escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
