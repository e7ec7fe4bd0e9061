"""Writes files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from reenact.domain.errors import ConfigurationError, StorageFullError

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class translated:  # noqa: N801 - reads as the function that it is used as
    """Raise our own error in place of one of the operating system, but for a pipe that nobody reads any more."""

    def __init__(self, name: str, hint: str = "; name another file") -> None:
        """Name the file in the error, and say what to do."""
        self._name, self._hint = name, hint

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Translate what was raised."""
        if not isinstance(error, OSError) or isinstance(error, BrokenPipeError):
            return
        if error.errno in _NO_SPACE:
            raise StorageFullError(f"no space is left for {self._name}; free some and try again") from error
        raise ConfigurationError(f"{self._name}: {error.strerror or error}{self._hint}") from error


@contextmanager
def replacing(path: Path, hint: str = "; name another file") -> Generator[BinaryIO]:
    """Lend a file that takes the place of the one at `path` when all went well; only its owner can read it.

    What is not a regular file, such as a pipe or a device, is written to as it is.

    Raises:
        ConfigurationError: the path is that of a directory, or cannot be written.
        StorageFullError: there is no space.
    """
    if path.is_dir():
        raise ConfigurationError(f"{path} is a directory; name a file in it")
    # Not as it is resolved: the name of a pipe behind /dev/stdout is not a path.
    if path.exists() and not path.is_file():
        with translated(str(path), hint), path.open("wb") as file:
            yield file
        return
    with translated(str(path), hint):
        target = Path(os.path.realpath(path))
        if target.is_symlink():  # links that lead in a circle, of which nothing is said otherwise
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        descriptor, part = tempfile.mkstemp(prefix=f".{target.name[:80]}.", suffix=".part", dir=target.parent)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, target)  # noqa: PTH105 - as above
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)  # noqa: PTH108 - as above
            raise
        _make_durable(target.parent)


def _make_durable(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
