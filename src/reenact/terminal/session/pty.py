"""A pseudo-terminal pair: our end, and the one that the program gets."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios
import threading
from pathlib import Path
from typing import NamedTuple, Self

from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType

LARGEST = 65_535
"""Columns and rows that the kernel can be told of."""
_READ = 65_536
_AT_ONCE = 262_144


class Place(NamedTuple):
    """Where a terminal is to be found in the file system, and which one that is."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, terminal: int | Path, path: str) -> Self:
        """Return the place of an open terminal, or of a link to one."""
        status = os.stat(terminal)  # noqa: PTH116 - a descriptor has no path of its own
        return cls(path, status.st_dev, status.st_ino)


class Pair:
    """Both ends, open. The other one is kept open here as well, until `release`: nothing is lost meanwhile.

    Raises:
        TerminalTestError: there is none to be had (`PTY_CREATE_FAILED`).
    """

    def __init__(self, cols: int, rows: int) -> None:
        self._lock = threading.RLock()
        try:
            self._ours, self._other = os.openpty()
        except OSError as error:
            raise unavailable(error) from error
        self._is_open = True
        self._is_kept = True
        self._place = _place_of(self._other)
        try:
            os.set_blocking(self._ours, False)
            self.resize(cols, rows)
        except BaseException:
            self.close()
            raise

    @property
    def ours(self) -> int:
        """The descriptor of our end."""
        return self._ours

    @property
    def other(self) -> int:
        """The descriptor of the program's end, as long as it is kept."""
        return self._other

    def resize(self, cols: int, rows: int) -> None:
        """Tell the kernel the size; it tells the program."""
        with self._lock:
            if self._is_open:
                fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self) -> bytes | None:
        """Return what can be read without waiting, not all of a flood; None once nobody has the other end open."""
        pieces: list[bytes] = []
        size = 0
        while size < _AT_ONCE:
            try:
                piece = os.read(self._ours, _READ)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                piece = b""
            if not piece:
                return b"".join(pieces) if pieces else None
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    def write(self, data: bytes | memoryview) -> int:
        """Write what can be written without waiting; return how much that was."""
        with self._lock:
            if not self._is_open:
                return 0
            try:
                return os.write(self._ours, data)
            except BlockingIOError:
                return 0

    def foreground(self) -> int | None:
        """Return the process group in the foreground of the terminal, if there is one."""
        with self._lock:
            if not self._is_open:
                return None
            try:
                return os.tcgetpgrp(self._ours) or None
            except OSError:
                return None

    def place(self) -> Place | None:
        """Return where the other end is to be found, as long as it is this one's."""
        with self._lock:
            return self._place if self._is_open else None

    def release(self) -> None:
        """Keep the other end open no longer."""
        with self._lock:
            if self._is_kept:
                self._is_kept = False
                os.close(self._other)

    def close(self) -> None:
        """Close both. Idempotent."""
        with self._lock:
            self.release()
            if self._is_open:
                self._is_open = False
                os.close(self._ours)


def _place_of(terminal: int) -> Place | None:
    try:
        return Place.of(terminal, os.ttyname(terminal))
    except OSError:  # /dev/pts is not that of the kernel, as in some sandboxes
        return None


def unavailable(error: OSError) -> TerminalTestError:
    """Return the error for when a terminal, or what it takes to serve one, cannot be had."""
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        what_to_do = "dispose of terminals that are no longer needed, or raise `ulimit -n`"
    else:
        what_to_do = "see that /dev/ptmx and /dev/pts are there, and that fewer than kernel.pty.max are in use"
    return TerminalTestError(
        TerminalTestErrorType.PTY_CREATE_FAILED,
        f"no pseudo-terminal could be opened: {error.strerror}; {what_to_do}",
        error,
    )
