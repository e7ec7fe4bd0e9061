"""The file of a recording: complete JSON after each entry; a file that a crash has cut off is read up to that place."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from reenact.actors.environment.recorded.format import (
    FORMAT,
    VERSION,
    Cut,
    Digest,
    Entry,
    Exchange,
    RecordedEvent,
    Redactor,
    Setting,
    ToolDefinition,
    ToolRun,
)
from reenact.domain.errors import InvalidInputError, RecordingError
from reenact.domain.stream.events import MessageStop, StreamError

LARGEST = 1 << 30
"""Bytes of the largest recording that is read."""

_HEAD = f'{{"format":"{FORMAT}","version":{VERSION},"entries":['.encode()
_TAIL = b"\n]}\n"
_LAST_LINES = frozenset({b"", b"]", b"]}"})
_UNREADABLE = (msgspec.MsgspecError, InvalidInputError, ValueError, RecursionError, OverflowError, MemoryError)
_ENDS = frozenset({MessageStop.event_type, StreamError.event_type})
"""The events that end an answer; a turn whose answer has none of them would wait for ever."""
_STRUCTS = (Exchange, ToolRun, Cut, Setting, RecordedEvent, ToolDefinition, Digest)
_FIELDS = frozenset({"kind", *(name for one in _STRUCTS for name in one.__struct_fields__)})
_log = logging.getLogger("reenact.environment")


class _Head(msgspec.Struct):
    format: str
    version: int


class _Whole(_Head):
    entries: tuple[Entry, ...]


def read(path: str) -> tuple[Entry, ...]:
    """Return the entries of the recording, in the order of the file.

    Raises:
        RecordingError: it cannot be read, is not a recording, is of another version, or is damaged.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - the path may not be that of a file
        if not stat.S_ISREG(found.st_mode):
            raise RecordingError(f"{path} is not a file, so it is not a recording")
        if found.st_size > LARGEST:
            raise RecordingError(f"{path} has {found.st_size} bytes; a recording has at most {LARGEST}")
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise RecordingError(f"the recording {path} cannot be read: {error}") from None
    return entries_in(path, data)


def entries_in(path: str, data: bytes) -> tuple[Entry, ...]:
    """Return the entries in the bytes of a recording, in the order of the file.

    Raises:
        RecordingError: it is not a recording, is of another version, or is damaged.
    """
    try:
        head = msgspec.json.decode(data, type=_Head)
    except _UNREADABLE:
        entries = _entries_before_cut(path, data)
    else:
        _check(path, head)
        try:
            entries = msgspec.json.decode(data, type=_Whole).entries
        except _UNREADABLE as broken:
            raise RecordingError(f"the recording {path} is damaged: {broken}") from None
    for damage in _damage_in(entries):
        raise RecordingError(f"the recording {path} is damaged: {damage}")
    return entries


def _check(path: str, head: _Head) -> None:
    if head.format != FORMAT:
        raise RecordingError(f"{path} is not a recording; its format is {head.format[:80]!r}, not {FORMAT!r}")
    if head.version != VERSION:
        raise RecordingError(f"the recording {path} is of version {head.version}; this Reenact reads version {VERSION}")


def _entries_before_cut(path: str, data: bytes) -> tuple[Entry, ...]:
    """Return the entries before the place where the file is cut off."""
    first, *lines = data.split(b"\n")
    try:
        _check(path, msgspec.json.decode(first + b"]}", type=_Head))
    except _UNREADABLE:
        raise RecordingError(f"{path} is not a recording: it does not begin as one") from None
    entries: list[Entry] = []
    for number, line in enumerate(lines):
        try:
            entries.append(msgspec.json.decode(line.removesuffix(b","), type=Entry))
        except _UNREADABLE as broken:
            if not _LAST_LINES.issuperset(lines[number + 1 :]):
                raise RecordingError(f"the recording {path} is damaged in line {number + 2}: {broken}") from None
            if line not in _LAST_LINES:
                _log.warning("the recording %s ends in the middle of an entry; the entries before it are used", path)
            break
    return tuple(entries)


def _damage_in(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the errors in the entries: references to missing entries, malformed events, answers without an end."""
    seen: dict[int, Exchange | ToolRun] = {}
    endless: set[int] = set()
    for entry in entries:
        number = entry.number
        if isinstance(entry, Cut):
            endless.discard(number)
            if number not in seen:
                yield f"entry {number} is cut, and is not there"
            continue
        if number in seen:
            yield f"it has two entries {number}"
        if isinstance(entry, Exchange):
            for spoken in entry.events:
                try:
                    _ = spoken.event
                except _UNREADABLE as broken:
                    yield f"exchange {number} has an event {spoken.type!r}: {broken}"
            if entry.complete and _ENDS.isdisjoint(one.type for one in entry.events):
                endless.add(number)
            if entry.follows is None and entry.setting is None:
                yield f"exchange {number} has no setting"
            before = entry.follows
            if before is not None and (before >= number or not isinstance(seen.get(before), Exchange)):
                yield f"exchange {number} follows an exchange that is not there"
        seen[number] = entry
    for number in endless:
        yield f"exchange {number} is complete, and ends with no message_stop and no error"


class RecordingFile:
    """The file of a recording. It is created, or replaces an older one, with the first entry.

    The file begins with `entries`. An entry that cannot be written is kept, and written with the next one. Thread-safe.
    """

    def __init__(self, path: str, entries: Iterable[Entry] = ()) -> None:
        """Set the path; nothing is written yet.

        Raises:
            RecordingError: a file of this path cannot be made.
        """
        self.path = path
        self._directory = Path(path).absolute().parent
        if not self._directory.is_dir():
            raise RecordingError(f"{path} cannot be written: there is no directory {str(Path(path).parent)!r}")
        if Path(path).is_dir():
            raise RecordingError(f"{path} cannot be written: it is a directory")
        self._lock = threading.Lock()
        self._redactor = Redactor(names=_FIELDS)
        self._first = list(entries)
        self._unwritten: list[bytes] = []
        self._file: int | None = None
        self._end = 0
        self._number = max((entry.number for entry in self._first), default=0)
        self._failed = False

    def number(self) -> int:
        """Return a new entry number."""
        with self._lock:
            self._number += 1
            return self._number

    def hide(self, secret: str | None) -> None:
        """Write `***` wherever an entry holds this text; a text of a few characters is not treated as a secret."""
        with self._lock:
            self._redactor.learn(secret)

    def add(self, entry: Entry) -> None:
        """Write the entry. If that fails, the error is logged, and the next `add` or `close` writes the entry."""
        with self._lock:
            self._unwritten.append(self._line(entry))
            try:
                self._write()
            except OSError as error:
                if not self._failed:
                    _log.error("the recording %s cannot be written; that is tried again: %s", self.path, error)
                self._failed = True
            else:
                self._failed = False

    def close(self) -> None:
        """Write the entries that could not be written before, and close the file. Idempotent; `add` opens it again.

        Raises:
            RecordingError: an entry still cannot be written; it is kept.
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
        return self._redactor.line(self._redactor.exchange(entry) if isinstance(entry, Exchange) else entry)

    def _write(self) -> None:
        if not self._unwritten:
            return
        if not self._end:
            self._write_new_file([*map(self._line, self._first), *self._unwritten])
        else:
            self._append_lines(self._unwritten)
        self._unwritten = []

    def _write_new_file(self, lines: Sequence[bytes]) -> None:
        """Write a new file, and rename it to the path, so that it appears there in one step."""
        body = _HEAD + b"\n" + b",\n".join(lines)
        file, temporary = tempfile.mkstemp(dir=self._directory, prefix=".recording-")
        try:
            _write_all(file, body + _TAIL, 0)
            Path(temporary).replace(self.path)
        except BaseException:
            os.close(file)
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
        with contextlib.suppress(OSError):  # not every system can open a directory
            opened = os.open(self._directory, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)
        self._file, self._end, self._first = file, len(body), []

    def _append_lines(self, lines: Sequence[bytes]) -> None:
        """Overwrite the end of the JSON object with the lines and a new end."""
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY)
        body = b"".join(b",\n" + line for line in lines)
        _write_all(self._file, body + _TAIL, self._end)
        self._end += len(body)


def _write_all(file: int, data: bytes, at: int) -> None:
    while data:
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written
    os.fsync(file)
