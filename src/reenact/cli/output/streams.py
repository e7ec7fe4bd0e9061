"""Standard streams: writing that waits no longer than it may, and descriptors that tools cannot write a result to."""

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
"""Characters that a pipe takes whole if it takes anything: a page of bytes, or less."""
_LONGEST = 8192
"""Bytes of a line of what is overheard; the rest of it is a line of its own."""
_LAST = 1 << 20
"""Bytes that are still heard when nobody is to say anything more."""


def pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces, each of which a pipe takes whole if it takes anything."""
    if len(text) <= _PIECE:
        yield text
        return
    for place in range(0, len(text), _PIECE):
        yield text[place : place + _PIECE]


def takes(stream: TextIO, seconds: float | None) -> bool:
    """Return whether a piece can be written without waiting, now or within so many seconds; None is for ever."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # it is not a file, or closed, as who writes will learn
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(None if seconds is None else math.ceil(seconds * 1000)))


def gives(stream: TextIO, seconds: float) -> bool:
    """Return whether there is something to be read, or the end, within so many seconds."""
    try:
        return bool(select.select([stream.fileno()], [], [], seconds)[0])
    except (OSError, ValueError):  # it is not a file
        return True


def is_standard(stream: TextIO | None, number: int) -> TypeGuard[TextIO]:
    """Return whether it is the process's own standard stream of this number, and nothing in its place."""
    own = sys.__stdout__ if number == 1 else sys.__stderr__
    try:
        return own is not None and own is stream and own.fileno() == number
    except (OSError, ValueError):
        return False


def forget(stream: TextIO) -> None:
    """Let what is written go nowhere, so that the end of the process does not stumble over it."""
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


@contextlib.contextmanager
def copied(stream: TextIO) -> Generator[TextIO]:
    """Yield a stream that goes where this one goes, also if that goes elsewhere later; children do not inherit it."""
    stream.flush()
    with open(os.dup(stream.fileno()), "w", encoding=stream.encoding, errors=stream.errors) as copy:  # noqa: PTH123
        try:
            yield copy
        finally:
            if not takes(copy, 0):
                forget(copy)


@contextlib.contextmanager
def redirected(stream: TextIO, onto: int, back: int) -> Generator[None]:
    """Let the descriptor of the stream be another name for `onto`, and behind the `with` block for `back`."""
    number = stream.fileno()
    os.dup2(onto, number)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            stream.flush()  # what others have printed, and not yet written
        os.dup2(back, number)


@contextlib.contextmanager
def overheard(tell: Callable[[str], object]) -> Generator[int]:
    """Yield a descriptor; `tell`, in a thread of its own, is called with each line that is written to it.

    Whoever lives on and goes on writing is not heard any more behind the `with` block.
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
