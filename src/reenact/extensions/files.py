"""Reading what may be anything: no more than so much of it, nothing that blocks, nothing outside of a project."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from reenact.extensions.problems import MalformedError

LARGEST: Final = 1_000_000
"""Bytes that a file may have."""
MOST: Final = 1_000
"""Entries that a folder may have."""

_WITHOUT_WAITING: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE: Final = 1 << 16


def names_in(folder: Path, within: Path | None) -> list[str]:
    """Return the names in the folder, sorted, without hidden ones; none if there is no such folder.

    Raises:
        MalformedError: it is no folder, cannot be read, has too many entries, or a link leads out of `within`.
    """
    try:
        _check_inside(folder, within)
        with os.scandir(folder) as found:
            names = [entry.name for _, entry in zip(range(MOST + 1), found, strict=False)]
    except FileNotFoundError:
        if folder.is_symlink():
            raise MalformedError("it is a link that leads nowhere") from None
        return []
    except NotADirectoryError:
        raise MalformedError("it is to be a folder") from None
    except OSError as error:
        raise _unreadable(error) from error
    if len(names) > MOST:
        raise MalformedError(f"it has more than {MOST:,} entries")
    return sorted(name for name in names if not name.startswith("."))


def read_bytes(path: Path, within: Path | None) -> bytes:
    """Return what the file holds.

    Raises:
        FileNotFoundError: there is nothing of this name.
        MalformedError: it is no regular file, is too large or cannot be read, or a link leads out of `within`.
    """
    try:
        _check_inside(path, within)
        _check_regular(path.stat())  # before it is opened: opening a device may already do something
        descriptor = os.open(path, _WITHOUT_WAITING)
        try:
            _check_regular(os.fstat(descriptor))
            return _all_of(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        if path.is_symlink():
            raise MalformedError("it is a link that leads nowhere") from None
        raise
    except OSError as error:
        raise _unreadable(error) from error


def text_of(content: bytes) -> str:
    """Return the text, with a plain line end behind each line, or raise `MalformedError` if there is no text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MalformedError(f"it is not UTF-8: see byte {error.start}", line) from None
    if "\0" in text:
        raise MalformedError("it has a NUL in it, which no text has", text.count("\n", 0, text.index("\0")) + 1)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _check_inside(path: Path, within: Path | None) -> None:
    if within is None:
        return
    try:
        inside = path.resolve(strict=True).is_relative_to(within)
    except RuntimeError:  # what a cycle of links was to `resolve` before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    if not inside:
        raise MalformedError("it is a link that leads out of the project, and is not followed")


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise MalformedError("it is a folder, and is to be a file")
    if not stat.S_ISREG(status.st_mode):
        raise MalformedError("it is no regular file")
    if status.st_size > LARGEST:
        raise MalformedError(f"it has {status.st_size:,} bytes; {LARGEST:,} are read at most")


def _all_of(descriptor: int) -> bytes:
    """Return all of it: what a file says of its size need not be so."""
    content = bytearray()
    while piece := os.read(descriptor, _PIECE):
        content += piece
        if len(content) > LARGEST:
            raise MalformedError(f"it has more than {LARGEST:,} bytes, which are read at most")
    return bytes(content)


def _unreadable(error: OSError) -> MalformedError:
    if error.errno == errno.ELOOP:
        return MalformedError("it is a link in a cycle of links")
    return MalformedError(f"it cannot be read: {error.strerror or error}")
