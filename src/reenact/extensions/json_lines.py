"""Parses JSON together with the line of each value, which Python's parser does not report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from reenact.extensions.files import MalformedError

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

_DEEPEST = 100
_FARTHEST = 6
"""Maximum depth of values whose lines are recorded; deeper ones need no line in messages."""
_DIGITS = 1_000
_WORD = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def read_json(text: str) -> tuple[object, Mapping[KeyPath, int]]:
    """Return the parsed text, and the line of each value, or of its key if it has one.

    Raises:
        MalformedError: it is not valid JSON, has a duplicate key or a number with too many digits, or is nested too
            deeply.
    """
    try:
        content: object = json.loads(text, parse_int=_whole)
        return content, dict(_lines(text))
    except json.JSONDecodeError as error:
        raise MalformedError(f"it is not valid JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        dict(_lines(text))  # refuses it with the line on which it is too deep
        raise MalformedError("it is nested too deeply") from None


def _whole(digits: str) -> int:
    """Return the number, or 0 if it is too long: `_lines` refuses it."""
    return int(digits) if len(digits) <= _DIGITS else 0


class _Open:
    """An object or an array that is still open; `at` is the key or the index of the next value."""

    def __init__(self, *, is_object: bool) -> None:
        self.at: str | int = "" if is_object else 0
        self.keys: set[str] | None = set() if is_object else None
        self.awaits_key = is_object


def _lines(text: str) -> Iterator[tuple[KeyPath, int]]:
    """Yield the path and line of each value; the text is valid JSON except for what is refused here."""
    opened: list[_Open] = []
    line, counted = 1, 0
    for found in _WORD.finditer(text):
        word = found[0]
        line, counted = line + text.count("\n", counted, found.start()), found.start()
        inner = opened[-1] if opened else None
        if word in "}]":
            opened.pop()
        elif word == ",":
            _go_on(inner)
        elif inner is not None and inner.awaits_key:
            _name(inner, word, line)
            yield from _place(opened, line)
        elif word != ":":
            if inner is None or inner.keys is None:
                yield from _place(opened, line)
            if word in "{[":
                opened.append(_Open(is_object=word == "{"))
            _check(word, len(opened), line)


def _place(opened: list[_Open], line: int) -> Iterator[tuple[KeyPath, int]]:
    if len(opened) <= _FARTHEST:
        yield tuple(one.at for one in opened), line


def _go_on(inner: _Open | None) -> None:
    """Prepare for what follows a comma."""
    if inner is not None:
        inner.awaits_key = inner.keys is not None
        inner.at = inner.at + 1 if isinstance(inner.at, int) else inner.at


def _name(inner: _Open, word: str, line: int) -> None:
    """Record the key of the next value."""
    key: str = json.loads(word)
    if inner.keys is None or key in inner.keys:
        raise MalformedError(f"it is not valid JSON: the key {key!a:.80} comes twice", line)
    inner.keys.add(key)
    inner.at, inner.awaits_key = key, False


def _check(word: str, depth: int, line: int) -> None:
    if depth > _DEEPEST:
        raise MalformedError(f"it is nested more than {_DEEPEST} deep", line)
    if word in ("NaN", "Infinity", "-Infinity"):
        raise MalformedError(f"it is not valid JSON: {word} is not a JSON value", line)
    if word[0] not in '"{[' and len(word) > _DIGITS:
        raise MalformedError(f"a number has {len(word):,} digits; {_DIGITS:,} are read at most", line)
