"""The history of the editor: in a file that is bounded, shared by chats, and never the reason why one ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from prompt_toolkit.history import History

MOST_ENTRIES = 1000
MOST_BYTES = 1024 * 1024
LARGEST_ENTRY = 128 * 1024
"""Bytes of an entry; a larger one is remembered by the chat alone in which it was typed."""
_BEGINNINGS = frozenset(b"\n#+")
"""What a history may begin with: a blank line, a comment, or a line of an entry."""
_BETWEEN = b"\n\n#"
_TRIES = 20
_PAUSE = 0.01


class NoHistoryError(Exception):
    """The history cannot be read or written; the message says why."""


class FileHistory(History):
    """Entries in a file, each line of them behind a `+`, as prompt_toolkit writes them too."""

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        """Read the newest entries, and leave no more than these in the file; `warn` tells what cannot be written later.

        Raises:
            NoHistoryError: the file is something else, or cannot be read and written.
        """
        super().__init__()
        self._path = path
        self._warn: Callable[[str], None] | None = warn
        self._unwritten: list[str] = []
        with _as_no_history(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._found = _read_and_trim(path)
        self._newest = self._found[-1] if self._found else ""

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries that were found, newest first."""
        return reversed(self._found)

    def store_string(self, string: str) -> None:
        """Take note of an entry that is to be written: nothing can be told as long as the editor is drawn."""
        if string.strip() and string != self._newest:
            self._newest = string
            self._unwritten.append(string)

    def write(self) -> None:
        """Add what was noted to the file, whole or not at all; the first time that it cannot be done, tell why."""
        entries, self._unwritten = [_encoded(one, f" {datetime.now(UTC)}") for one in self._unwritten], []
        data = b"".join(one for one in entries if len(one) <= LARGEST_ENTRY)
        if not data:
            return
        try:
            with _as_no_history(self._path), _opened(self._path) as descriptor:
                _append(descriptor, data)
        except NoHistoryError as error:
            warn, self._warn = self._warn, None
            if warn is not None:
                warn(f"what is typed is not remembered: {error}")


def _append(descriptor: int, data: bytes) -> None:
    end = os.lseek(descriptor, 0, os.SEEK_END)
    try:
        left = data
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, end)
        raise


def _read_and_trim(path: Path) -> Sequence[str]:
    with _opened(path) as descriptor:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, 0)[0] not in _BEGINNINGS:
            raise NoHistoryError("it holds something else")
        data = os.pread(descriptor, MOST_BYTES, max(0, size - MOST_BYTES))
        entries = _entries(data if len(data) == size else data[data.find(_BETWEEN) + 1 :])
        kept = entries[-MOST_ENTRIES:]
        if (len(kept) < len(entries) or len(data) < size) and _is_locked(descriptor):
            newest = b"".join(map(_encoded, kept))
            with contextlib.suppress(OSError):  # it is read all the same, and trimmed another time
                if os.pwrite(descriptor, newest, 0) == len(newest):
                    os.ftruncate(descriptor, len(newest))
        return kept


def _entries(data: bytes) -> list[str]:
    """Return the entries, oldest first; of those that are the same in a row one."""
    entries: list[str] = []
    lines: list[str] = []
    for line in [*data.decode("utf-8", "replace").split("\n"), ""]:
        if line.startswith("+"):
            lines.append(line[1:])
        elif lines:
            entry, lines = "\n".join(lines), []
            if entry not in entries[-1:]:
                entries.append(entry)
    return entries


def _encoded(entry: str, about: str = "") -> bytes:
    lines = "".join(f"+{line}\n" for line in entry.split("\n"))
    return f"\n#{about}\n{lines}".encode("utf-8", "replace")


@contextlib.contextmanager
def _opened(path: Path) -> Generator[int]:
    """Open the file, which is made if it is not there, for the user alone; other chats wait meanwhile."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NoHistoryError("it is not a file")
        _is_locked(descriptor)
        if status.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Lock the file; return whether it could be: who is stopped while it has the lock holds up nobody for long."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
        except OSError:
            return False  # a file system without locks
        else:
            return True
    return False


@contextlib.contextmanager
def _as_no_history(path: Path) -> Generator[None]:
    try:
        yield
    except NoHistoryError as error:
        raise NoHistoryError(f"{path}: {error}") from error
    except OSError as error:
        raise NoHistoryError(str(error)) from error
