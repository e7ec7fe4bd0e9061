"""Values as they are, to the last character: nothing in them can hide, move the cursor, or pass for something else.

Texts stand in quotes with the escapes of JSON. Where one goes on on the next line, the piece there has quotes of its
own, and nothing is between the pieces. An item of a list has a dash before it. What is nested very deeply is JSON, in
pieces between bars. However deep a value is, nothing here fails of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from rich.cells import cell_len

from reenact.domain.legible import harmless, in_ascii, seen, tokens
from reenact.domain.tools import is_array, is_object

__all__ = [
    "Escape",
    "escaped",
    "harmless",
    "in_ascii",
    "lines_of",
    "may_be_reordered",
    "on_one_line",
    "plain_or_quoted",
    "quoted",
    "seen",
]

Escape: TypeAlias = Callable[[str, str], str]
"""Tells how a character is written behind what stands before it."""

_NARROWEST: Final = 16
"""Columns that a piece of text has at least, however deep it stands."""
_STEP: Final = "  "
_DEEPEST: Final = 50
"""What is nested more deeply in a value is shown as JSON."""
_BAR: Final = "|"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL", "AN"})


def escaped(text: str) -> str:
    """Return the text with every character that cannot be seen, or is not what it seems, as an escape of JSON."""
    return "".join(tokens(text, seen))


def quoted(text: str) -> str:
    """Return the text in quotes, escaped."""
    return f'"{escaped(text)}"'


def plain_or_quoted(name: str) -> str:
    """Return a name as it is if it is as names are, else in quotes."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def may_be_reordered(value: object) -> bool:
    """Return whether the value has letters that are written from right to left: a terminal may show them elsewhere."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            if any(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in one):
                return True
        elif is_object(one):
            left += [*one, *one.values()]
        elif is_array(one):
            left += one
    return False


def lines_of(arguments: Mapping[str, Any], width: int, escape: Escape = seen) -> list[str]:
    """Return the arguments of a call as lines of so many columns, whole."""
    lines = [line for name, value in arguments.items() for line in _named(name, value, "", width, escape)]
    return lines or ["no arguments"]


def on_one_line(value: object) -> str:
    """Return the JSON value as JSON on one line, whole; what it says can be read again as JSON."""
    return "".join(_json(value, seen))


def _json(value: object, escape: Escape) -> Iterator[str]:
    """Yield the value as JSON, character by character where it is a text."""
    left: list[Iterator[object]] = [iter([value])]
    """What is still to be written of each value that is open; what stands there as `_Written` is as it is."""
    while left:
        for one in left[-1]:
            if isinstance(one, _Written):
                yield one
            elif isinstance(one, str):
                yield from ('"', *tokens(one, escape), '"')
            elif is_object(one):
                left.append(_members(one))
                break
            elif is_array(one):
                left.append(_items(one))
                break
            else:
                yield msgspec.json.encode(one).decode()
        else:
            left.pop()


class _Written(str):
    """What stands in JSON between values."""

    __slots__ = ()


def _members(value: Mapping[Any, Any]) -> Iterator[object]:
    yield _Written("{")
    for number, (name, one) in enumerate(value.items()):
        if number:
            yield _Written(", ")
        yield str(name)
        yield _Written(": ")
        yield one
    yield _Written("}")


def _items(value: Sequence[Any]) -> Iterator[object]:
    yield _Written("[")
    for number, one in enumerate(value):
        if number:
            yield _Written(", ")
        yield one
    yield _Written("]")


def _named(name: str, value: object, margin: str, width: int, escape: Escape) -> Iterator[str]:
    shown = name
    if not _PLAIN_NAME.fullmatch(name):
        *begun, last = _pieces(name, max(_NARROWEST, width - len(margin)) - len('"": ') - 1, escape)
        yield from (f'{margin}"{piece}"' for piece in begun)
        shown = f'"{last}"'
    if (is_object(value) or is_array(value)) and value:
        yield f"{margin}{shown}:"
        yield from _parts(value, margin + _STEP, width, escape)
    else:
        yield from _leaf(f"{margin}{shown}: ", value, width, escape)


def _parts(value: dict[Any, Any] | list[Any], margin: str, width: int, escape: Escape) -> Iterator[str]:
    if len(margin) > _DEEPEST * len(_STEP):
        margin = margin[: width // 4]
        pieces = _in_pieces(_json(value, escape), max(_NARROWEST, width - len(margin)) - 2 * len(_BAR))
        yield from (f"{margin}{_BAR}{piece}{_BAR}" for piece in pieces)
        return
    if is_object(value):
        for name, one in value.items():
            yield from _named(str(name), one, margin, width, escape)
        return
    for one in value:
        if (is_object(one) or is_array(one)) and one:
            yield f"{margin}-"
            yield from _parts(one, margin + _STEP, width, escape)
        else:
            yield from _leaf(f"{margin}- ", one, width, escape)


def _leaf(head: str, value: object, width: int, escape: Escape) -> Iterator[str]:
    if not isinstance(value, str):
        yield head + msgspec.json.encode(value).decode()
        return
    if cell_len(head) + _NARROWEST > width:
        yield head.rstrip()
        head = " " * min(cell_len(head), max(0, width - _NARROWEST))
    for piece in _pieces(value, max(_NARROWEST, width - cell_len(head)) - 2, escape):
        yield f'{head}"{piece}"'
        head = " " * cell_len(head)


def _pieces(text: str, width: int, escape: Escape) -> Iterator[str]:
    """Yield the text, escaped, in pieces of so many columns; a line end is the last of its piece."""
    is_told = False
    for piece in _in_pieces(tokens(text, escape), width):
        is_told = True
        yield piece
    if not is_told:
        yield ""


def _in_pieces(written: Iterable[str], width: int) -> Iterator[str]:
    piece, columns = "", 0
    for token in written:
        wide = cell_len(token)
        if piece and columns + wide > width:
            yield piece
            piece, columns = "", 0
        piece, columns = piece + token, columns + wide
        if token == "\\n":  # noqa: S105 - a line end
            yield piece
            piece, columns = "", 0
    if piece:
        yield piece
