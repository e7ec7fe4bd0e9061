"""Reads untrusted files: regular files of limited size, without blocking, inside the project; text, and JSON in it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """Why something in a file or folder was skipped; `line` counts from 1 and is None if there is none."""

    path: str
    line: int | None
    message: str

    def told(self) -> str:
        """Return the problem in the format of compilers."""
        return f"{self.path}: {self.message}" if self.line is None else f"{self.path}:{self.line}: {self.message}"


class MalformedError(Exception):
    """A file, or the answer of a hook, is not valid; `line` counts from 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


LARGEST = 1_000_000
"""Maximum size of a file in bytes."""
MOST = 1_000
"""Maximum number of entries of a folder."""

MOST_IN_ALL = 10_000_000
"""Maximum size of all files of a `.reenact` together, in bytes."""

_WITHOUT_WAITING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE = 1 << 16


KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

_DEEPEST = 100
_FARTHEST = 6
"""Maximum depth of values whose lines are recorded; deeper ones need no line in messages."""
_DIGITS = 1_000
_WORD = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class Allowance:
    """A quota; `what` is the error message if it is exceeded, with a place for the limit."""

    def __init__(self, most: int, what: str) -> None:
        self._left = most
        self._what = what.format(f"{most:,}")

    def take(self, amount: int) -> None:
        """Use up this amount; raise `MalformedError` if less is left."""
        if amount > self._left:
            raise MalformedError(self._what)
        self._left -= amount


def is_folder(path: Path) -> bool:
    """Return whether the path is a folder, or a link to one.

    Raises:
        MalformedError: it cannot be examined, or is a broken link.
        FileNotFoundError: it does not exist.
    """
    with _translated_errors(path):
        return stat.S_ISDIR(path.stat().st_mode)


def names_in(folder: Path, within: Path | None) -> list[str]:
    """Return the sorted names in the folder, without hidden ones; an empty list if the folder does not exist.

    Raises:
        MalformedError: it is not a folder, cannot be read, has too many entries, or a link leads out of `within`.
    """
    try:
        with _translated_errors(folder):
            _check_inside(folder, within)
            if not is_folder(folder):
                raise MalformedError("it must be a folder")
            with os.scandir(folder) as found:
                names = [entry.name for _, entry in zip(range(MOST + 1), found, strict=False)]
    except FileNotFoundError:
        return []
    if len(names) > MOST:
        raise MalformedError(f"it has more than {MOST:,} entries")
    return sorted(name for name in names if not name.startswith("."))


def read_bytes(path: Path, within: Path | None, allowance: Allowance | None = None) -> bytes:
    """Return the content of the file, and deduct its size from the allowance.

    Raises:
        FileNotFoundError: the file does not exist.
        MalformedError: it is not a regular file, is too large, exceeds the allowance, cannot be read, or a link leads
            out of `within`.
    """
    with _translated_errors(path):
        _check_inside(path, within)
        status = path.stat()
        _check_regular(status)  # before opening it: opening a device may have an effect
        if allowance is not None:
            allowance.take(status.st_size)
        descriptor = os.open(path, _WITHOUT_WAITING)
        try:
            _check_regular(os.fstat(descriptor))
            return _all_of(descriptor)
        finally:
            os.close(descriptor)


def text_of(content: bytes) -> str:
    """Decode the text and normalise its line ends; raise `MalformedError` if it is not text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedError(
            f"it is not UTF-8: see byte {error.start}", content.count(b"\n", 0, error.start) + 1
        ) from None
    if text.startswith("\ufeff"):
        raise MalformedError("it begins with two byte order marks", 1)
    if "\0" in text:
        raise MalformedError("it has a NUL in it, which no text has", text.count("\n", 0, text.index("\0")) + 1)
    return text.replace("\r\n", "\n").replace("\r", "\n")


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


@contextlib.contextmanager
def _translated_errors(path: Path) -> Generator[None]:
    """Raise OS errors as `MalformedError`, except that a path does not exist."""
    try:
        yield
    except FileNotFoundError:
        with contextlib.suppress(OSError):  # deleted or inaccessible by now
            if path.is_symlink():
                raise MalformedError("it is a link that leads nowhere") from None
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise MalformedError("it is a link in a cycle of links") from error
        raise MalformedError(f"it cannot be read: {error.strerror or error}") from error


def _check_inside(path: Path, within: Path | None) -> None:
    if within is None:
        return
    try:
        inside = path.resolve(strict=True).is_relative_to(within)
    except RuntimeError:  # raised by `resolve` for a cycle of links before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    if not inside:
        raise MalformedError("it is a link that leads out of the project, and is not followed")


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise MalformedError("it is a folder, and must be a file")
    if not stat.S_ISREG(status.st_mode):
        raise MalformedError("it is not a regular file")
    if status.st_size > LARGEST:
        raise MalformedError(f"it has {status.st_size:,} bytes; {LARGEST:,} are read at most")


def _all_of(descriptor: int) -> bytes:
    """Read to the end: the size of a file may be wrong."""
    content = bytearray()
    while piece := os.read(descriptor, _PIECE):
        content += piece
        if len(content) > LARGEST:
            raise MalformedError(f"it has more than {LARGEST:,} bytes, which are read at most")
    return bytes(content)


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
