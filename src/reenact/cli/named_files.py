"""Files that options name: regular ones of a size that can be, or what a shell or a caller hands in as a descriptor."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from reenact.domain.errors import ConfigurationError

LARGEST: Final = 10_000_000
"""Bytes that such a file may have."""
_HANDED_IN: Final = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


def check_file(path: str, who: str) -> None:
    """See that reading the file comes to an end, whatever it is; that it is there, is seen when it is read.

    Raises:
        ConfigurationError: it is a device, a pipe that nobody has handed in, a folder, or too large. The message
            begins with `who`.
    """
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return
    if path.startswith(_HANDED_IN) and not stat.S_ISDIR(status.st_mode):
        return
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError(f"{who}: it is no regular file; what a program writes is read from /dev/stdin")
    if status.st_size > LARGEST:
        raise _too_large(who)


def read_file(path: str, who: str) -> bytes:
    """Return what the file holds.

    Raises:
        ConfigurationError: as `check_file` does, or it cannot be read.
    """
    check_file(path, who)
    content = bytearray()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            while piece := os.read(descriptor, 1 << 16):
                content += piece
                if len(content) > LARGEST:
                    raise _too_large(who)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{who}: it cannot be read ({why})") from error
    return bytes(content)


def _too_large(who: str) -> ConfigurationError:
    return ConfigurationError(f"{who}: it has more than {LARGEST:,} bytes, which are read at most")
