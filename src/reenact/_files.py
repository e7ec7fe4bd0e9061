"""Writes files atomically: a file is either complete, or not there."""

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


@contextmanager
def translated(name: str, hint: str = "; name another file") -> Generator[None]:
    """Replace an error of the operating system by one of Reenact's own, except for a pipe without a reader.

    The error message shows the name, and the hint at its end.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StorageFullError(f"no space is left for {name}; free some and try again") from error
        raise ConfigurationError(f"{name}: {error.strerror or error}{hint}") from error


@contextmanager
def replacing(path: Path, hint: str = "; name another file") -> Generator[BinaryIO]:
    """Yield a file that replaces the one at `path` if the block succeeds; only its owner can read it.

    A path that is not a regular file, such as a pipe or a device, is written to directly.

    Raises:
        ConfigurationError: the path is that of a directory, or cannot be written.
        StorageFullError: there is no space.
    """
    if path.is_dir():
        raise ConfigurationError(f"{path} is a directory; name a file in it")
    # Not the resolved path: a pipe behind /dev/stdout has a name that is not a path.
    if path.exists() and not path.is_file():
        with translated(str(path), hint), path.open("wb") as file:
            yield file
        return
    with translated(str(path), hint):
        target = Path(os.path.realpath(path))
        if target.is_symlink():  # a circle of links, for which `realpath` raises nothing
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
