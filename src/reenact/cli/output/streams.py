"""Standard streams: writes with a time limit, and redirection that keeps the output of tools out of the result."""

from __future__ import annotations

import errno
import os
import select
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO, TypeGuard

_PIECE = 1024
"""Characters that a pipe accepts without blocking if it is writable: at most a page of bytes."""
_LONGEST = 8192
"""Maximum length in bytes of a line that is read; the rest of it counts as another line."""


_GONE = frozenset({errno.EIO, errno.ENXIO})


def pieces(text: str) -> Iterator[str]:
    """Split the text into pieces that a writable pipe accepts without blocking."""
    if len(text) <= _PIECE:
        yield text
        return
    for place in range(0, len(text), _PIECE):
        yield text[place : place + _PIECE]


def is_writable(stream: TextIO, seconds: float | None) -> bool:
    """Return whether a piece can be written without blocking, waiting up to `seconds` for that; None waits forever."""
    try:
        return bool(select.select([], [stream.fileno()], [], seconds)[1])
    except (OSError, ValueError):  # not a file, or closed: the write will fail
        return True


def is_readable(stream: TextIO, seconds: float) -> bool:
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


def has_hung_up(stream: TextIO | None) -> bool:
    """Return whether the stream was a terminal that is gone, for example because its window was closed."""
    if stream is None:
        return False
    try:
        os.get_terminal_size(stream.fileno())
    except OSError as error:
        return error.errno in _GONE
    except ValueError:  # closed
        return False
    return False


def discard_output(stream: TextIO) -> None:
    """Redirect the stream to the null device, so that flushing it at exit does not fail."""
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


@contextmanager
def copied(stream: TextIO) -> Generator[TextIO]:
    """Yield a copy of the stream that is unaffected by later redirections and not inherited by child processes."""
    stream.flush()
    with open(os.dup(stream.fileno()), "w", encoding=stream.encoding, errors=stream.errors) as copy:  # noqa: PTH123
        try:
            yield copy
        finally:
            if not is_writable(copy, 0):
                discard_output(copy)


@contextmanager
def redirected(stream: TextIO, onto: int, back: int) -> Generator[None]:
    """Redirect the stream's descriptor to `onto`, and at the end of the block to `back`."""
    number = stream.fileno()
    os.dup2(onto, number)
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            stream.flush()  # buffered output of others
        os.dup2(back, number)


@contextmanager
def read_by_line(tell: Callable[[str], object]) -> Generator[int]:
    """Yield a descriptor; a thread calls `tell` with each line that is written to it.

    Processes that outlive the `with` block and continue writing are no longer read.
    """
    reading, writing = os.pipe()
    end = os.urandom(16).hex().encode()
    thread = threading.Thread(target=_read_lines, args=(reading, end, tell), name="reenact-pipe-reader", daemon=True)
    thread.start()
    try:
        yield writing
    finally:
        os.write(writing, b"\n" + end + b"\n")
        os.close(writing)
        thread.join()


def _read_lines(reading: int, end: bytes, tell: Callable[[str], object]) -> None:
    with open(reading, "rb") as pipe:
        while (line := pipe.readline(_LONGEST).rstrip(b"\r\n")) != end:
            if line.strip():
                tell(line.decode(errors="replace"))
