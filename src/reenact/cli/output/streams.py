"""Standard streams: writes with a time limit, and redirection that keeps the output of tools out of the result."""

from __future__ import annotations

import contextlib
import math
import os
import select
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TextIO, TypeGuard

_PIECE = 1024
"""Characters that a pipe accepts without blocking if it is writable: at most a page of bytes."""
_LONGEST = 8192
"""Maximum length in bytes of a line that is read; the rest of it counts as another line."""
_LAST = 1 << 20
"""Maximum number of bytes that are still read after the end of the `with` block."""


def pieces(text: str) -> Iterator[str]:
    """Split the text into pieces that a writable pipe accepts without blocking."""
    if len(text) <= _PIECE:
        yield text
        return
    for place in range(0, len(text), _PIECE):
        yield text[place : place + _PIECE]


def takes(stream: TextIO, seconds: float | None) -> bool:
    """Return whether a piece can be written without blocking, waiting up to `seconds` for that; None waits forever."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # not a file, or closed: the write will tell
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(None if seconds is None else math.ceil(seconds * 1000)))


def gives(stream: TextIO, seconds: float) -> bool:
    """Return whether data or the end of the stream can be read, waiting up to `seconds` for that."""
    try:
        return bool(select.select([stream.fileno()], [], [], seconds)[0])
    except (OSError, ValueError):  # not a file
        return True


def is_standard(stream: TextIO | None, number: int) -> TypeGuard[TextIO]:
    """Return whether the stream is the process's original standard stream with this descriptor."""
    own = sys.__stdout__ if number == 1 else sys.__stderr__
    try:
        return own is not None and own is stream and own.fileno() == number
    except (OSError, ValueError):
        return False


def forget(stream: TextIO) -> None:
    """Redirect the stream to the null device, so that flushing it at exit does not fail."""
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


@contextlib.contextmanager
def copied(stream: TextIO) -> Generator[TextIO]:
    """Yield a copy of the stream that is unaffected by later redirections and not inherited by child processes."""
    stream.flush()
    with open(os.dup(stream.fileno()), "w", encoding=stream.encoding, errors=stream.errors) as copy:  # noqa: PTH123
        try:
            yield copy
        finally:
            if not takes(copy, 0):
                forget(copy)


@contextlib.contextmanager
def redirected(stream: TextIO, onto: int, back: int) -> Generator[None]:
    """Redirect the stream's descriptor to `onto`, and at the end of the block to `back`."""
    number = stream.fileno()
    os.dup2(onto, number)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            stream.flush()  # buffered output of others
        os.dup2(back, number)


@contextlib.contextmanager
def overheard(tell: Callable[[str], object]) -> Generator[int]:
    """Yield a descriptor; a thread calls `tell` with each line that is written to it.

    Processes that outlive the `with` block and continue writing are no longer read.
    """
    reading, writing = os.pipe()
    over, end = os.pipe()
    os.set_blocking(reading, False)
    thread = threading.Thread(target=_overhear, args=(reading, over, tell), name="reenact-overhearing", daemon=True)
    thread.start()
    try:
        yield writing
    finally:
        for descriptor in (writing, end):
            os.close(descriptor)
        thread.join()
        for descriptor in (reading, over):
            os.close(descriptor)


def _overhear(reading: int, over: int, tell: Callable[[str], object]) -> None:
    line, left, is_over = b"", _LAST, False
    while left > 0:
        if not is_over:
            ready, _, _ = select.select([reading, over], [], [])
            is_over = over in ready
        try:
            said = os.read(reading, 1 << 16)
        except BlockingIOError:
            if is_over:
                break
            continue
        if not said:
            break
        left -= len(said) if is_over else 0
        *lines, line = (line + said).split(b"\n")
        while len(line) > _LONGEST:
            lines.append(line[:_LONGEST])
            line = line[_LONGEST:]
        for one in lines:
            _told(one, tell)
    _told(line, tell)


def _told(line: bytes, tell: Callable[[str], object]) -> None:
    for place in range(0, len(line), _LONGEST):
        text = line[place : place + _LONGEST].decode(errors="replace").rstrip("\r")
        if text.strip():
            tell(text)
