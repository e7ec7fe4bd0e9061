"""Processes of a measurement: told what to do, and telling what came of it, in JSON lines."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

PATIENCE = 120.0
"""Seconds after which a process is taken for stuck."""


class Child:
    """A module of the bench, run as a process for as long as its `with` block lasts."""

    def __init__(self, module: str, **given: Any) -> None:  # noqa: ANN401 - whatever JSON holds
        self._name = module
        self._process = subprocess.Popen(  # noqa: S603 - ours
            [sys.executable, "-m", module, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def hear(self) -> dict[str, Any]:
        """Return what it says next."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} has ended with {self._process.wait(PATIENCE)}")
        said: dict[str, Any] = json.loads(line)
        return said

    def tell(self, **order: Any) -> None:  # noqa: ANN401 - likewise
        """Give it an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def ask(self, **order: Any) -> dict[str, Any]:  # noqa: ANN401 - likewise
        """Give it an order, and return its answer."""
        self.tell(**order)
        return self.hear()


def given() -> dict[str, Any]:
    """Return what this process was given."""
    read: dict[str, Any] = json.loads(sys.argv[1])
    return read


def order() -> dict[str, Any] | None:
    """Return the next order, or None if nobody is there to give one."""
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def say(**words: Any) -> None:  # noqa: ANN401 - likewise
    """Say this to whoever started the process."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def resident() -> int:
    """Return the bytes of memory that this process takes up, without what it could give back."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # other systems keep what was freed, or not
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
