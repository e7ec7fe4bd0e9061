"""Programs to be at a terminal, small ones, and what is left of them."""

from __future__ import annotations

import gc
import threading
from contextlib import suppress
from pathlib import Path

from reenact.terminal.screen.engine import Engine
from reenact.terminal.screen.model import Cell, Cursor, Modes, Screen

CAT = ("/bin/cat",)
READY = "ready\n"


def shell(script: str) -> tuple[str, ...]:
    """Return a command that runs the script."""
    return ("/bin/sh", "-c", script)


RAW_CAT = shell("stty raw -echo; printf 'ready\\r\\n'; exec cat")
"""Writes every byte that it is sent, as it was sent."""
RAW_SLEEP = shell("stty raw -echo; printf 'ready\\r\\n'; exec sleep 60")
"""Reads nothing, and nobody reads for it."""


def is_alive(pid: int) -> bool:
    """Whether there is such a process, other than as one whose end nobody took note of yet."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in {"Z", "X"}


def exists(pid: int) -> bool:
    """Whether there is such a process, a zombie or not."""
    return Path(f"/proc/{pid}").exists()


def holdings() -> tuple[list[str], set[threading.Thread], set[int]]:
    """Return what this process has: open descriptors, threads, and children."""
    gc.collect()  # what earlier tests have left is closed now, and not between two looks
    descriptors: list[str] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            descriptors.append(f"{descriptor.name} {descriptor.readlink()}")
        except OSError:
            continue  # the one that the list was read from
    children: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that is just ending; it has no children any more
            children.update(int(child) for child in (task / "children").read_text().split())
    return sorted(descriptors), set(threading.enumerate()), children


class Blind(Engine):
    """An engine that shows nothing and answers nothing."""

    def __init__(self, columns: int, rows: int) -> None:
        self._size = columns, rows

    def feed(self, data: bytes) -> bytes:
        return b""

    def resize(self, columns: int, rows: int) -> bytes:
        self._size = columns, rows
        return b""

    def text(self) -> str:
        return ""

    def modes(self) -> Modes:
        return Modes()

    def screen(self) -> Screen:
        columns, rows = self._size
        return Screen(
            columns=columns, rows=rows, lines=("",) * rows, cells=((Cell(),) * columns,) * rows, cursor=Cursor()
        )

    def close(self) -> None:
        pass
