"""A pseudo-terminal pair: our end, and the end for the program."""

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

_UTF8_INPUT = 0x4000
"""The input mode IUTF8 of Linux and macOS, which the module `termios` does not have."""
_AT_ONCE = 65_536
"""Maximum number of bytes that are read, and then processed, at a time, which takes a millisecond or two."""


class TerminalId(NamedTuple):
    """The path of a terminal, with the device and inode that identify it."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, terminal: int | Path, path: str) -> Self:
        """Return the place of an open terminal, or of a link to one."""
        status = os.stat(terminal)  # noqa: PTH116 - a descriptor has no path
        return cls(path, status.st_dev, status.st_ino)


class Pair:
    """Both ends, open. The program's end is also kept open here until `release`, so that no output is lost.

    Attributes:
        ours: the descriptor of our end.
        other: the descriptor of the program's end, while it is kept open.

    Raises:
        OSError: no pseudo-terminal is available.
    """

    def __init__(self, cols: int, rows: int) -> None:
        self._lock = threading.RLock()
        self.ours, self.other = os.openpty()
        self._is_open = True
        self._is_kept = True
        self._terminal_id = _id_of(self.other)
        os.set_blocking(self.ours, False)
        _erase_whole_characters(self.other)
        self.resize(cols, rows)

    def resize(self, cols: int, rows: int) -> None:
        """Set the size in the kernel, which notifies the program."""
        with self._lock:
            if self._is_open:
                fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self) -> bytes | None:
        """Read without blocking, up to a limit; None once the other end is closed everywhere."""
        pieces: list[bytes] = []
        size = 0
        while size < _AT_ONCE:
            try:
                piece = os.read(self.ours, _AT_ONCE)
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
        """Write without blocking; return the number of bytes written."""
        with self._lock:
            if not self._is_open:
                return 0
            try:
                return os.write(self.ours, data)
            except BlockingIOError:
                return 0

    def foreground(self) -> int | None:
        """Return the process group in the foreground of the terminal, if there is one."""
        with self._lock:
            if not self._is_open:
                return None
            try:
                return os.tcgetpgrp(self.ours) or None
            except OSError:
                return None

    def terminal_id(self) -> TerminalId | None:
        """Return the place of the program's end, as long as the pair is open."""
        with self._lock:
            return self._terminal_id if self._is_open else None

    def release(self) -> None:
        """Close our copy of the program's end."""
        with self._lock:
            if self._is_kept:
                self._is_kept = False
                os.close(self.other)

    def close(self) -> None:
        """Close both ends. Idempotent."""
        with self._lock:
            self.release()
            if self._is_open:
                self._is_open = False
                os.close(self.ours)


def _erase_whole_characters(terminal: int) -> None:
    """Let Backspace erase a character of several bytes in a line that the kernel edits, as at any UTF-8 terminal."""
    input_modes, *others = termios.tcgetattr(terminal)
    termios.tcsetattr(terminal, termios.TCSANOW, [input_modes | _UTF8_INPUT, *others])


def _id_of(terminal: int) -> TerminalId | None:
    try:
        return TerminalId.of(terminal, os.ttyname(terminal))
    except OSError:  # /dev/pts is not the kernel's, as in some sandboxes
        return None


def pty_error(error: OSError) -> TerminalTestError:
    """Return the error for a lack of a terminal, or of resources to serve one."""
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        what_to_do = "dispose of terminals that are no longer needed, or raise `ulimit -n`"
    else:
        what_to_do = "see that /dev/ptmx and /dev/pts are there, and that fewer than kernel.pty.max are in use"
    return TerminalTestError(
        TerminalTestErrorType.PTY_CREATE_FAILED,
        f"no pseudo-terminal could be opened: {error.strerror}; {what_to_do}",
    )
