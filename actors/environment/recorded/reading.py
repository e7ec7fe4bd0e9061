"""Reading a recording; one whose end a crash has torn off is read up to there, any other damage is an error."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from reenact.actors.environment.recorded.form import FORMAT, VERSION, Cut, Entry, Exchange, ToolRun
from reenact.domain.errors import InvalidInputError, RecordingError
from reenact.domain.events import MessageStop, StreamError

LARGEST: Final = 1 << 30
"""Bytes of the largest recording that is read."""
_log = logging.getLogger("reenact.environment")
_UNREADABLE: Final = (msgspec.MsgspecError, InvalidInputError, ValueError, RecursionError, OverflowError, MemoryError)


class _Head(msgspec.Struct):
    format: str
    version: int


class _Whole(_Head):
    entries: tuple[Entry, ...]


_ENDS: Final = frozenset({b"", b"]", b"]}"})
_LAST_WORDS: Final = frozenset({MessageStop.event_type, StreamError.event_type})
"""What ends an answer: one that says none of these would keep its turn waiting for ever."""


def read(path: str) -> tuple[Entry, ...]:
    """Return the entries of the recording, in the order in which they stand.

    Raises:
        RecordingError: it cannot be read, is no recording, is one of another version, or is damaged.
    """
    return entries_in(path, _bytes_of(path))


def entries_in(path: str, data: bytes) -> tuple[Entry, ...]:
    """Return the entries of a recording of these bytes, in the order in which they stand.

    Raises:
        RecordingError: it is no recording, is one of another version, or is damaged.
    """
    try:
        head = msgspec.json.decode(data, type=_Head)
    except _UNREADABLE:
        entries = _torn(path, data)
    else:
        _check(path, head)
        try:
            entries = msgspec.json.decode(data, type=_Whole).entries
        except _UNREADABLE as broken:
            raise RecordingError(f"the recording {path} is damaged: {broken}") from None
    _check_events(path, entries)
    return _checked(path, entries)


def _bytes_of(path: str) -> bytes:
    try:
        found = os.stat(path)  # noqa: PTH116 - of a path that may be no file at all
        if not stat.S_ISREG(found.st_mode):
            raise RecordingError(f"{path} is no file, so it is no recording")
        if found.st_size > LARGEST:
            raise RecordingError(f"{path} has {found.st_size} bytes; a recording has at most {LARGEST}")
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise RecordingError(f"the recording {path} cannot be read: {error}") from None


def _check(path: str, head: _Head) -> None:
    if head.format != FORMAT:
        raise RecordingError(f"{path} is no recording; its format is {head.format[:80]!r}, not {FORMAT!r}")
    if head.version != VERSION:
        raise RecordingError(f"the recording {path} is of version {head.version}; this Reenact reads version {VERSION}")


def _torn(path: str, data: bytes) -> tuple[Entry, ...]:
    """Return the entries that stand before the place where the file was torn off."""
    first, *lines = data.split(b"\n")
    try:
        _check(path, msgspec.json.decode(first + b"]}", type=_Head))
    except _UNREADABLE:
        raise RecordingError(f"{path} is no recording: it does not begin as one") from None
    entries: list[Entry] = []
    for number, line in enumerate(lines):
        try:
            entries.append(msgspec.json.decode(line.removesuffix(b","), type=Entry))
        except _UNREADABLE as broken:
            if any(rest not in _ENDS for rest in lines[number + 1 :]):
                raise RecordingError(f"the recording {path} is damaged in line {number + 2}: {broken}") from None
            if line not in _ENDS:
                _log.warning("the recording %s ends in the middle of an entry; what stands before it is taken", path)
            break
    return tuple(entries)


def _check_events(path: str, entries: Iterable[Entry]) -> None:
    for entry in entries:
        if isinstance(entry, Exchange):
            for spoken in entry.events:
                try:
                    _ = spoken.event
                except _UNREADABLE as broken:
                    msg = f"the recording {path} is damaged: exchange {entry.number} has an event {spoken.type!r}"
                    raise RecordingError(f"{msg}: {broken}") from None


def _checked(path: str, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return the entries, if each of them names only such as there are."""
    seen: dict[int, Exchange | ToolRun] = {}
    endless: dict[int, None] = {}
    for entry in entries:
        if isinstance(entry, Cut):
            endless.pop(entry.number, None)
            found = seen.get(entry.number)
            if found is None:
                raise RecordingError(f"the recording {path} is damaged: entry {entry.number} is cut, and is not there")
            continue
        if entry.number in seen:
            raise RecordingError(f"the recording {path} is damaged: it has two entries {entry.number}")
        seen[entry.number] = entry
        if isinstance(entry, Exchange) and entry.complete and _LAST_WORDS.isdisjoint(one.type for one in entry.events):
            endless[entry.number] = None
        before = entry.follows if isinstance(entry, Exchange) else None
        if isinstance(entry, Exchange) and before is None and entry.setting is None:
            raise RecordingError(f"the recording {path} is damaged: exchange {entry.number} has no setting")
        if before is not None and (before >= entry.number or not isinstance(seen.get(before), Exchange)):
            raise RecordingError(f"the recording {path} is damaged: exchange {entry.number} follows none that there is")
    for number in endless:
        msg = f"exchange {number} is complete, and ends with no message_stop and no error"
        raise RecordingError(f"the recording {path} is damaged: {msg}")
    return entries
