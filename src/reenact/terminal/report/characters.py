r"""Text that is safe to put into a report: what cannot be shown, or must not be obeyed, is made visible.

Control characters become their pictures (`␛` for ESC), whatever else has none becomes `\x9b` or `\ufffe`.
"""

from __future__ import annotations

import re
from typing import Final

from reenact.terminal.characters import picture, plain_lines, visible, with_newlines

__all__ = ["encodable", "end_of", "on_one_line", "plain_lines", "start_of", "visible", "with_newlines"]

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
