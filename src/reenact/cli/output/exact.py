"""Shows values exactly: nothing in them can hide, move the cursor, or pass for something else.

A short text is shown in quotes. Any other text is shown below its name, with a bar before each of its lines; a row with
a colon continues the row above, after a blank, or without one if that row ends with a backslash. Misleading characters
are shown as JSON escapes. An item of a list has a dash before it. Very deeply nested values are shown as JSON, in
pieces between bars. No depth of nesting makes these functions fail.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
from rich.cells import cell_len

from reenact.domain.legible import in_ascii, seen, tokens
from reenact.domain.tools import is_array, is_object

Escape: TypeAlias = Callable[[str, str], str]
"""Returns how to write a character, given the text before it."""

_NARROWEST = 16
"""Minimum width of a piece of text in columns, whatever its depth."""
_STEP = "  "
_DEEPEST = 50
"""Maximum depth up to which values are shown as lines; deeper ones are shown as JSON."""
_BAR = "|"
_LINE, _MORE = "| ", ": "
_NEEDS_LINES = re.compile(r'["\\\n]')
_AFTER_BACKSLASH = frozenset(" \\bfrtu")
"""Characters that make a backslash before them look like an escape."""
_BLANK = "\\u0020"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


def escaped(text: str) -> str:
    """Replace every character that is invisible, or looks like another one, with a JSON escape."""
    return "".join(tokens(text, seen))


def quoted(text: str) -> str:
    """Return the escaped text in quotes."""
    return f'"{escaped(text)}"'


def plain_or_quoted(name: str) -> str:
    """Return the name unchanged if it is an ordinary one, else in quotes."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def may_be_reordered(value: object) -> bool:
    """Return whether the value has right-to-left letters, which a terminal may show in another order."""
    return any(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in on_one_line(value))


def lines_of(arguments: Mapping[str, object], width: int, escape: Escape = seen) -> list[str]:
    """Return the arguments of a call, complete, as lines of at most `width` columns."""
    lines = [line for name, value in arguments.items() for line in _named(name, value, "", width, escape)]
    return lines or ["no arguments"]


def on_one_line(value: object) -> str:
    """Return the value, complete, as JSON on one line, which can be parsed again."""
    return "".join(_json(value, seen))


class _Written(str):
    """JSON syntax between values."""

    __slots__ = ()


def _json(value: object, escape: Escape) -> Iterator[str]:
    """Yield the value as JSON; texts are yielded character by character."""
    left = [value]
    """What is still to be written, as a stack."""
    while left:
        item = left.pop()
        if isinstance(item, _Written):
            yield item
        elif isinstance(item, str):
            yield from ('"', *tokens(item, escape), '"')
        elif is_object(item):
            left += _between("{", ((str(name), _Written(": "), inner) for name, inner in item.items()), "}")
        elif is_array(item):
            left += _between("[", ((inner,) for inner in item), "]")
        else:
            yield msgspec.json.encode(item).decode()


def _between(opening: str, parts: Iterable[Sequence[object]], closing: str) -> list[object]:
    written = [item for part in parts for item in (_Written(", "), *part)]
    return [_Written(closing), *reversed(written[1:]), _Written(opening)]


def _named(name: str, value: object, margin: str, width: int, escape: Escape) -> Iterator[str]:
    shown = name
    if not _PLAIN_NAME.fullmatch(name):
        columns = max(_NARROWEST, width - len(margin)) - len('"": ') - 1
        *begun, last = [*_in_pieces(tokens(name, escape), columns)] or [""]
        yield from (f'{margin}"{piece}"' for piece in begun)
        shown = f'"{last}"'
    if (is_object(value) or is_array(value)) and value:
        yield f"{margin}{shown}:"
        yield from _parts(value, margin + _STEP, width, escape)
    else:
        yield from _leaf(f"{margin}{shown}: ", value, width, escape)


def _parts(value: dict[str, object] | list[object], margin: str, width: int, escape: Escape) -> Iterator[str]:
    if len(margin) > _DEEPEST * len(_STEP):
        margin = margin[: width // 4]
        pieces = _in_pieces(_json(value, escape), max(_NARROWEST, width - len(margin)) - 2 * len(_BAR))
        yield from (f"{margin}{_BAR}{piece}{_BAR}" for piece in pieces)
        return
    if is_object(value):
        for name, item in value.items():
            yield from _named(str(name), item, margin, width, escape)
        return
    for item in value:
        if (is_object(item) or is_array(item)) and item:
            yield f"{margin}-"
            yield from _parts(item, margin + _STEP, width, escape)
        else:
            yield from _leaf(f"{margin}- ", item, width, escape)


def _leaf(head: str, value: object, width: int, escape: Escape) -> Iterator[str]:
    if not isinstance(value, str):
        yield head + msgspec.json.encode(value).decode()
        return
    written = "".join(tokens(value, escape))
    if not _NEEDS_LINES.search(value) and cell_len(head) + cell_len(written) + len('""') <= width:
        yield f'{head}"{written}"'
        return
    yield head.rstrip()
    margin = " " * (len(head) - len(head.lstrip(" "))) + _STEP
    margin = margin[: max(0, width - _NARROWEST)]
    for line in value.split("\n"):
        mark = _LINE
        for row in _rows([*_as_text(line, escape)], max(_NARROWEST, width - len(margin)) - len(_LINE)):
            yield f"{margin}{mark}{row}".rstrip()
            mark = _MORE


def _as_text(line: str, escape: Escape) -> Iterator[str]:
    """Yield the characters of a line, escaped where they would mislead.

    A backslash is doubled only where it would look like the beginning of an escape, or like the end of a row.
    """
    shown = line.removesuffix(" ")
    backslash = ""
    for token in tokens(shown, lambda character, before: '"' if character == '"' else escape(character, before)):
        if backslash:
            yield backslash * 2 if token[0] in _AFTER_BACKSLASH else backslash + token
            is_taken = token[0] not in _AFTER_BACKSLASH
            backslash = ""
            if is_taken:
                continue
        if token == "\\\\":  # noqa: S105 - a backslash
            backslash = "\\"
        else:
            yield token
    if backslash:
        yield backslash * 2
    if shown != line:
        yield _BLANK


def _rows(written: Sequence[str], width: int) -> Iterator[str]:
    """Break a line into rows: between words, where the blank is dropped, or in a word, where a backslash is added."""
    row: list[str] = []
    columns = 0
    for token in written:
        columns += cell_len(token)
        row.append(token)
        if columns < width:
            continue
        blank = next((at for at in range(len(row) - 1, 0, -1) if row[at] == " " != row[at - 1]), None)
        if blank is not None:
            yield "".join(row[:blank])
            row = row[blank + 1 :]
        elif len(row) > 1:
            yield "".join(row[:-1]) + "\\"
            row = row[-1:]
        columns = sum(map(cell_len, row))
    yield "".join(row)


def _in_pieces(written: Iterable[str], width: int) -> Iterator[str]:
    """Split the escaped characters into pieces of at most `width` columns, and after each line end."""
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


SHOWN = 20
"""Number of lines that are shown by default."""
MARGIN = "  "

Say: TypeAlias = Callable[..., object]
"""Prints a line of our own, optionally in a style."""


def show(
    value: Mapping[str, object], width: int, most: int | None, *, write: Callable[[str], object], say: Say
) -> None:
    """Write the lines of a value, at most `most`, with a margin; add notes about what is left out or reordered.

    If a terminal may reorder the text, it is also written in ASCII.
    """
    for escape in (seen, in_ascii) if may_be_reordered(value) else (seen,):
        if escape is in_ascii:
            say("Some of it is written from right to left, and may be shown in another order. In ASCII it is:")
        lines = lines_of(value, width - len(MARGIN), escape)
        shown = lines if most is None or len(lines) <= most + 1 else lines[:most]
        for line in shown:
            write(f"{MARGIN}{line}")
        if len(shown) < len(lines):
            say(f"… {len(lines) - len(shown)} more lines, press v to view", "yellow")


_WORD = re.compile(r"\s*\S+")


def in_rows(line: str, width: int) -> str:
    """Break the line between words only, so that a long word such as an id can still be copied."""
    rows = [""]
    for word in _WORD.findall(line):
        if rows[-1] and cell_len(f"{rows[-1]}{word}") > width >= cell_len(word.lstrip()):
            rows.append(word.lstrip())
        else:
            rows[-1] += word
    return "\n".join(rows)
