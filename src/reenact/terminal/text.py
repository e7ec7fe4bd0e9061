r"""Text for people: characters that cannot be displayed or would control a terminal are written as escapes (`\x1b`).

`visible` and `plain_lines` are for the output of programs; `escaped` and the functions below it are for quotations in
messages.

At most 200 characters of a line are shown in a diff. If two lines that are compared differ only in white space, blanks
are written as `·`, and tabs and line ends as `\t` and `\n`; if they would otherwise look the same, such as an accent in
two encodings, all characters above ASCII are written as escapes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # 7-bit and 8-bit controls except tab, newline and carriage return
    "\u202a-\u202e\u2066-\u2069"  # characters that change the direction of text
    "\ud800-\udfff"  # surrogates
    "\ufdd0-\ufdef\ufffe\uffff"
    + "".join(chr(plane << 16 | last) for plane in range(1, 17) for last in (0xFFFE, 0xFFFF))
    + "]"
)
_LINE_END = re.compile(r"(?<!\r)\r++((?:\x1b\[[0-9;:]*+m)*+)\n")  # possessive: each run of CR is scanned once
_SURROGATE = re.compile("[\ud800-\udfff]")
_SEQUENCES_ARE_SHORTER = 1000


def visible(text: str) -> str:
    """Escape all characters that XML 1.0 and HTML do not allow, or that control a terminal, except tab, CR and LF."""
    return _UNPRINTABLE.sub(_as_escape, text)


def plain_lines(text: str) -> str:
    """Return the `visible` text with LF as the only line end; the CR LF that terminals are sent is converted."""
    return visible(with_newlines(text)).replace("\r", "\\r")


def with_newlines(text: str) -> str:
    r"""Replace each end of a line with `\n`, also if colours are switched between `\r` and `\n`."""
    return _LINE_END.sub(r"\1\n", text)


def encodable(text: str) -> str:
    """Escape surrogates, the only characters that cannot be encoded in UTF-8."""
    return _SURROGATE.sub(_as_escape, text)


def end_of(text: str, limit: int) -> tuple[str, int]:
    """Return the end of the text, at most `limit` characters, and the number of characters before it.

    The text is cut after a line break if one is near, so that no escape sequence loses its beginning.
    """
    if len(text) <= limit:
        return text, 0
    start = len(text) - limit
    line_break = text.find("\n", start, start + _SEQUENCES_ARE_SHORTER)
    if line_break != -1:
        start = line_break + 1
    return text[start:], start


LONGEST = 200
"""Maximum number of characters shown of a line."""
_BEFORE = 40
_BRIEF = 80
_UNUSUAL = re.compile(r"[^\t -~]")
_NOT_LINES = re.compile(r"[^\t\n -~]")
_SPACES = {" ": "·", "\t": "\\t", "\n": "\\n"}

LineDisplay: TypeAlias = tuple[Literal["plain", "spaces", "ascii"], int]
"""Which characters are shown as escapes, and the index of the first character shown."""
PLAIN_LINE: Final[LineDisplay] = ("plain", 0)


def common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the common prefix of two texts, or of two lists of texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def line_display(one: str, other: str) -> LineDisplay:
    """Return how to show two lines so that their first difference is visible."""
    start = 0
    if max(len(one), len(other)) > LONGEST:
        start = max(0, common_length(one, other) - _BEFORE)
    one, other = one[start : start + LONGEST], other[start : start + LONGEST]
    if one.split() == other.split() or "".join(one.split()) == "".join(other.split()):
        return "spaces", start
    if unicodedata.normalize("NFKC", one) == unicodedata.normalize("NFKC", other):
        return "ascii", start
    return "plain", start


def shown(line: str, display: LineDisplay = PLAIN_LINE) -> str:
    """Return the line in the form in which it is shown."""
    what, start = display
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
    """Escape invisible characters, except blanks, tabs and newlines."""
    return _NOT_LINES.sub(_escaped, text)


def one_line(text: str) -> str:
    """Return the text on one line, with escapes for invisible characters and line ends."""
    return _UNUSUAL.sub(_escaped, text).replace("\t", "\\t")


def described(value: object) -> str:
    """Return the `repr` of a value on one line, shortened to its beginning."""
    try:
        text = repr(value)
    except ValueError:  # an integer with too many digits for `repr`
        return "a number with very many digits"
    return one_line(text if len(text) <= _BRIEF else f"{text[:_BRIEF]}…")


def quoted(text: str) -> str:
    """Return the text in quotes on one line; a long one is shortened to its beginning and its end."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}…{text[-(LONGEST // 2) :]}"
    return f"'{one_line(text)}'"


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else _as_escape(found)


def _as_escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
