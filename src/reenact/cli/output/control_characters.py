"""Removes control characters, and shows invisible characters and those that reorder text as escapes."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

from reenact.domain.legible import in_ascii

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPE_MARK = "\ufdd0"
"""Stands for the backslash of an escape until it is written; it is a noncharacter that no entity produces."""
_HIDDEN = re.compile(
    rf"[\u00ad\u061c\u180e\u200b\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f{_ESCAPE_MARK}]"
)
_BACKSLASH = "\\"
_QUOTED = quote(_ESCAPE_MARK)
_ENCODED = re.compile(rf"(?:{_QUOTED}u[0-9a-f]{{4}})+")
_REVERSED = "\x1b[7m\\\x1b[27m"


def strip_controls(text: str) -> str:
    """Remove the characters that a terminal interprets instead of showing, except tabs and line ends."""
    return _CONTROLS.sub("", text)


def escape_hidden(text: str) -> str:
    """Replace invisible and reordering characters with escapes, which `show_escapes` makes ready to write."""
    return text if text.isascii() else _HIDDEN.sub(_escape, text)


def escape_hidden_again(text: str) -> str:
    """Escape such characters in a text that may already contain escapes."""
    return _ESCAPE_MARK.join(map(escape_hidden, text.split(_ESCAPE_MARK)))


def as_address(url: str) -> str:
    """Return a URL in which a Markdown parser has percent-encoded our escapes, with the original characters encoded."""
    return _ENCODED.sub(lambda found: quote(json.loads(f'"{found[0].replace(_QUOTED, _BACKSLASH)}"')), url)


def show_escapes(text: str) -> str:
    """Return the text for a terminal with styles: the backslashes of our escapes are shown in reverse video."""
    return text.replace(_ESCAPE_MARK, _REVERSED)


def escape_plainly(text: str) -> str:
    """Return the text for a terminal without styles: without control characters, and with invisible ones escaped."""
    return escape_hidden(strip_controls(text)).replace(_ESCAPE_MARK, "\\")


def _escape(found: re.Match[str]) -> str:
    return in_ascii(found[0], "").replace("\\", _ESCAPE_MARK)
