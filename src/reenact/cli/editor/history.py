"""The editor's history: a file of limited size that several chats share; an error with it never ends a chat."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from prompt_toolkit.history import History

MOST_ENTRIES = 1000
MOST_BYTES = 1024 * 1024
LARGEST_ENTRY = 128 * 1024
"""Maximum size of a saved entry in bytes; only the chat in which a larger one was typed remembers it."""
_FIRST_BYTES = frozenset(b"\n#+")
"""Valid first bytes of a history file: of a blank line, a comment, or a line of an entry."""
_ENTRY_START = b"\n\n#"


class NoHistoryError(Exception):
    """The history cannot be read or written; the message says why."""


class FileHistory(History):
    """History entries in a file in prompt_toolkit's format: each line of an entry has the prefix `+`."""

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        """Read the newest entries and trim the file to these; a later failure to write is reported through `warn`.

        Raises:
            NoHistoryError: the file is not a history, or cannot be read and written.
        """
        super().__init__()
        self._path = path
        self._warn: Callable[[str], None] | None = warn
        self._unwritten: list[str] = []
        with _as_no_history(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._saved = _read_and_trim(path)
        self._newest = self._saved[-1] if self._saved else ""

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries of the file, newest first."""
        return reversed(self._saved)

    def store_string(self, string: str) -> None:
        """Queue an entry for `write`: while the editor is drawn, no warning can be shown."""
        if string.strip() and string != self._newest:
            self._newest = string
            self._unwritten.append(string)

    def write(self) -> None:
        """Append the queued entries to the file; only the first failure is reported."""
        entries, self._unwritten = [_encoded(entry, f" {datetime.now(UTC)}") for entry in self._unwritten], []
        data = b"".join(entry for entry in entries if len(entry) <= LARGEST_ENTRY)
        if not data:
            return
        try:
            with _as_no_history(self._path), _opened(self._path) as descriptor:
                os.lseek(descriptor, 0, os.SEEK_END)
                os.write(descriptor, data)
        except NoHistoryError as error:
            warn, self._warn = self._warn, None
            if warn is not None:
                warn(f"what is typed is not remembered: {error}")


def _read_and_trim(path: Path) -> Sequence[str]:
    with _opened(path) as descriptor:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, 0)[0] not in _FIRST_BYTES:
            raise NoHistoryError("it holds something else")
        data = os.pread(descriptor, MOST_BYTES, max(0, size - MOST_BYTES))
        entries = _entries(data if len(data) == size else data[data.find(_ENTRY_START) + 1 :])
        kept = entries[-MOST_ENTRIES:]
        if (len(kept) < len(entries) or len(data) < size) and _is_locked(descriptor):
            newest = b"".join(map(_encoded, kept))
            with suppress(OSError):  # the entries were read; another chat can trim the file
                if os.pwrite(descriptor, newest, 0) == len(newest):
                    os.ftruncate(descriptor, len(newest))
        return kept


def _entries(data: bytes) -> list[str]:
    """Return the entries, oldest first, without consecutive duplicates."""
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


@contextmanager
def _opened(path: Path) -> Generator[int]:
    """Open the file with a lock against other chats; it is created if necessary, and only its owner has access."""
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
    """Lock the file, without waiting for another chat, and return whether that succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another chat has it, or the file system has no locks
        return False
    return True


@contextmanager
def _as_no_history(path: Path) -> Generator[None]:
    try:
        yield
    except NoHistoryError as error:
        raise NoHistoryError(f"{path}: {error}") from error
    except OSError as error:
        raise NoHistoryError(str(error)) from error
