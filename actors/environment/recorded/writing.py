"""Writing a recording: each entry is on the disk when `add` returns, and the file is whole JSON after each."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from reenact.actors.environment.recorded.form import (
    FORMAT,
    VERSION,
    Cut,
    Entry,
    Exchange,
    Setting,
    Spoken,
    ToldTool,
    ToolRun,
)
from reenact.actors.environment.recorded.hiding import Digest, Veil
from reenact.actors.environment.recorded.pieces import without_keys
from reenact.domain.errors import RecordingError

_HEAD: Final = f'{{"format":"{FORMAT}","version":{VERSION},"entries":['.encode()
_TAIL: Final = b"\n]}\n"
_FIELDS: Final = frozenset(
    {
        "kind",
        *(
            name
            for one in (Exchange, ToolRun, Cut, Setting, Spoken, ToldTool, Digest)
            for name in one.__struct_fields__
        ),
    }
)
_log = logging.getLogger("reenact.environment")


class RecordingFile:
    """The file of a recording. It comes into being, or takes the place of an older one, with the first entry.

    `entries` are those that it begins with. What cannot be written is kept, and written with what comes next.
    Thread-safe.
    """

    def __init__(self, path: str, entries: Iterable[Entry] = ()) -> None:
        """Take the path.

        Raises:
            RecordingError: there can be no file of this path.
        """
        if not Path(path).absolute().parent.is_dir():
            raise RecordingError(f"{path} cannot be written: there is no directory {str(Path(path).parent)!r}")
        if Path(path).is_dir():
            raise RecordingError(f"{path} cannot be written: it is a directory")
        self.path = path
        self._lock = threading.Lock()
        self._veil = Veil(names=_FIELDS)
        self._first = list(entries)
        self._unwritten: list[bytes] = []
        self._file: int | None = None
        self._end = 0
        self._number = max((entry.number for entry in self._first), default=0)
        self._failed = False

    def number(self) -> int:
        """Return the number of the next entry that begins."""
        with self._lock:
            self._number += 1
            return self._number

    def hide(self, secret: str | None) -> None:
        """Write `***` wherever an entry holds this text; one of a few characters is taken for no secret."""
        with self._lock:
            self._veil.learn(secret)

    def add(self, entry: Entry) -> None:
        """Write the entry. If that fails it is logged, and tried again with the next one and at the end."""
        with self._lock:
            self._unwritten.append(self._line(entry))
            try:
                self._write()
            except OSError as error:
                if not self._failed:
                    _log.error("the recording %s cannot be written, and is tried again: %s", self.path, error)
                self._failed = True
            else:
                self._failed = False

    def close(self) -> None:
        """Write what could not be written before, and close the file. Idempotent; it is opened again by `add`.

        Raises:
            RecordingError: something still cannot be written; it is kept.
        """
        with self._lock:
            try:
                self._write()
            except OSError as error:
                count = len(self._unwritten)
                raise RecordingError(f"the recording {self.path} lacks {count} entries: {error}") from error
            finally:
                if self._file is not None and not self._unwritten:
                    os.close(self._file)
                    self._file = None

    def _line(self, entry: Entry) -> bytes:
        return self._veil.line(without_keys(entry, self._veil) if isinstance(entry, Exchange) else entry)

    def _write(self) -> None:
        if not self._unwritten:
            return
        if not self._end:
            self._begin([*map(self._line, self._first), *self._unwritten])
        else:
            self._append(self._unwritten)
        self._unwritten = []

    def _begin(self, lines: Sequence[bytes]) -> None:
        """Write a whole new file, which takes the path in one step."""
        body = _HEAD + b"\n" + b",\n".join(lines)
        file, temporary = tempfile.mkstemp(dir=Path(self.path).absolute().parent, prefix=".recording-")
        try:
            _write_all(file, body + _TAIL, 0)
            os.fsync(file)
            Path(temporary).replace(self.path)
        except BaseException:
            os.close(file)
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
        _sync_directory(Path(self.path).absolute().parent)
        self._file, self._end, self._first = file, len(body), []

    def _append(self, lines: Sequence[bytes]) -> None:
        """Write over the end of the object, and end it again."""
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY)
        body = b"".join(b",\n" + line for line in lines)
        _write_all(self._file, body + _TAIL, self._end)
        os.fsync(self._file)
        self._end += len(body)


def _write_all(file: int, data: bytes, at: int) -> None:
    while data:
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written


def _sync_directory(directory: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets a directory be opened
        opened = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
