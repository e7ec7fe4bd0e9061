r"""Text with what cannot be shown, or must not be obeyed, made visible.

Control characters become their pictures (`␛` for ESC), whatever else has none becomes `\x9b` or `\ufffe`.
"""

from __future__ import annotations

import re
from typing import Final

_UNFIT: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, 7-bit and 8-bit, but for tab, newline and carriage return
    "\u202a-\u202e\u2066-\u2069"  # what turns the direction of the text around it
    "\ud800-\udfff"  # halves of pairs
    "\ufdd0-\ufdef\ufffe\uffff"
    + "".join(chr(plane << 16 | last) for plane in range(1, 17) for last in (0xFFFE, 0xFFFF))
    + "]"
)
_LINE_END: Final = re.compile(r"(?<!\r)\r++((?:\x1b\[[0-9;:]*+m)*+)\n")  # each run of CR is looked at once
_PICTURES: Final = 0x2400
_DELETE: Final = 0x7F
_ESCAPED_BYTES: Final = range(0xDC80, 0xDD00)


def visible(text: str) -> str:
    """Return the text with only characters that XML 1.0 and HTML allow; none drives a terminal but tab, CR and LF."""
    return _UNFIT.sub(picture, text.replace("\x1b", "␛"))  # that one is in most output, and often


def plain_lines(text: str) -> str:
    """Return `visible` text whose lines end with LF alone, also those that a terminal was sent with CR and LF."""
    return visible(with_newlines(text)).replace("\r", "␍")


def with_newlines(text: str) -> str:
    r"""Return the text with `\n` for each end of a line, also if colours are switched between `\r` and `\n`."""
    return _LINE_END.sub(r"\1\n", text)


def picture(found: re.Match[str]) -> str:
    """Return what stands for the character that was found."""
    code = ord(found[0])
    if code < 0x20:  # noqa: PLR2004 - C0
        return chr(_PICTURES + code)
    if code == _DELETE:
        return "␡"
    if code in _ESCAPED_BYTES:  # a byte that was no UTF-8, as `surrogateescape` has it
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:  # noqa: PLR2004 - C1
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - the basic plane


_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SEQUENCES_ARE_SHORTER: Final = 1000


def on_one_line(text: str) -> str:
    """Return `visible` text without a line break: for names."""
    return visible(text).replace("\r", "␍").replace("\n", "␊").replace("\t", "␉")


def encodable(text: str) -> str:
    """Return the text with halves of surrogate pairs made visible, for nothing else keeps it from being UTF-8."""
    return _SURROGATE.sub(picture, text)


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


def start_of(text: str, limit: int) -> tuple[str, int]:
    """Return the first of the text, `limit` characters at most, and how many are left out behind it."""
    return text[:limit], max(0, len(text) - limit)
