"""Shows control characters, and characters that turn letters around or hide, as escapes or not at all."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

from reenact.domain.legible import in_ascii

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_MARK = "\ufdd0"
"""Stands for the backslash of an escape until that is written; it is not a character, and no entity gives it."""
_MASKS = re.compile(
    rf"[\u00ad\u061c\u180e\u200b\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f{_MARK}]"
)
_BACKSLASH = "\\"
_QUOTED = quote(_MARK)
_ENCODED = re.compile(rf"(?:{_QUOTED}u[0-9a-f]{{4}})+")
_REVERSED = "\x1b[7m\\\x1b[27m"


def strip_controls(text: str) -> str:
    """Return the text without what a terminal would obey instead of show; tabs and line ends stay."""
    return _UNSEEN.sub("", text)


def escape_hidden(text: str) -> str:
    """Return the text with such characters as escapes, for `show_escapes` to write."""
    return text if text.isascii() else _MASKS.sub(_escape, text)


def escape_hidden_again(text: str) -> str:
    """Return what was made of parts of such a text likewise."""
    return _MARK.join(map(escape_hidden, text.split(_MARK)))


def as_address(url: str) -> str:
    """Return a URL, in which a reader of Markdown has encoded such escapes, with the characters encoded instead."""
    return _ENCODED.sub(lambda found: quote(json.loads(f'"{found[0].replace(_QUOTED, _BACKSLASH)}"')), url)


def show_escapes(text: str) -> str:
    """Return the text as a terminal is sent it; the backslashes of our escapes are seen to be none of the text's."""
    return text.replace(_MARK, _REVERSED)


def escape_plainly(text: str) -> str:
    """Return the text as a terminal without styles is sent it: without controls, and with escapes for what hides."""
    return escape_hidden(strip_controls(text)).replace(_MARK, "\\")


def _escape(found: re.Match[str]) -> str:
    return in_ascii(found[0], "").replace("\\", _MARK)
