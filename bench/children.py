"""Child processes of a measurement, which receive orders and send results as JSON lines."""

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
    """A module of the bench that runs as a process while its `with` block lasts."""

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

    def receive(self) -> dict[str, Any]:
        """Return its next message."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} has ended with {self._process.wait(PATIENCE)}")
        said: dict[str, Any] = json.loads(line)
        return said

    def send(self, **order: Any) -> None:  # noqa: ANN401 - likewise
        """Send it an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def ask(self, **order: Any) -> dict[str, Any]:  # noqa: ANN401 - likewise
        """Send it an order, and return its answer."""
        self.send(**order)
        return self.receive()


def given() -> dict[str, Any]:
    """Return the arguments of this process."""
    read: dict[str, Any] = json.loads(sys.argv[1])
    return read


def order() -> dict[str, Any] | None:
    """Return the next order, or None at the end of standard input."""
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def report(**result: Any) -> None:  # noqa: ANN401 - likewise
    """Send this to the parent process."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


def resident() -> int:
    """Return the resident memory of this process in bytes, after freeing what it can."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # other systems keep what was freed, or not
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
