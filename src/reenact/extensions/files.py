"""Reads untrusted files: regular files of limited size, without blocking, and only inside the project."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator
from pathlib import Path

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
