"""A program at a real terminal: what is typed goes in, and what it shows is waited for, never slept for."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self, TypeAlias

_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[=>()][0-9A-B]?")
_COLOURS = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7])[;m]")
# After `setsid`, the first terminal that is opened becomes the controlling one, so that Ctrl+C reaches the program.
_AT_THE_TERMINAL = 'exec 0<>"$1" 1>&0 2>&0; shift; exec "$@"'
PATIENCE = 20.0
CTRL_C = "\x03"
CTRL_D = "\x04"
ENTER = "\r"
UP = "\x1b[A"
PROMPT = ">"  # the blank behind it may be a movement of the cursor


class Process(Protocol):
    """What is known of a program that was started."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...


Start: TypeAlias = Callable[[Sequence[str], Mapping[str, str], Path, int], Process]
"""Starts a program, given its arguments, environment, directory, and the terminal that is to be its own."""


def in_a_process_of_its_own(command: Sequence[str], env: Mapping[str, str], cwd: Path, terminal: int) -> Process:
    """Start the command as a shell does."""
    return subprocess.Popen(
        ["/bin/sh", "-c", _AT_THE_TERMINAL, "sh", os.ttyname(terminal), *command],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class Terminal:
    """Runs the command at a terminal of its own; leave the `with` block and it is gone."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path, start: Start = in_a_process_of_its_own
    ) -> None:
        self._screen, other_end = pty.openpty()
        try:
            self._process = start(command, env, cwd, other_end)
            # Kept open until the program has opened its own: a terminal that nobody has open is hung up.
            self._seen = ""
            self._raw = b""
            self._matched = 0
            self._read_until(lambda: self._raw != b"", "its first output")
        finally:
            os.close(other_end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            if self._process.poll() is None:
                self._process.terminate()
                self.wait_for_exit()
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            os.close(self._screen)

    def type(self, keys: str | bytes) -> None:
        """Press the keys, or send the bytes that a strange keyboard sends."""
        os.write(self._screen, keys.encode() if isinstance(keys, str) else keys)

    def terminate(self) -> None:
        """Ask the program to end."""
        self._process.terminate()

    def wait_for(self, text: str) -> str:
        """Wait until the text is shown behind what was waited for before; return what was shown up to its end."""
        self._read_until(lambda: text in self._seen[self._matched :], repr(text))
        end = self._seen.index(text, self._matched) + len(text)
        shown, self._matched = self._seen[self._matched : end], end
        return shown

    def wait_for_exit(self) -> int:
        """Wait until the program has ended and return its exit code."""
        self._read_until(lambda: self._process.poll() is not None, "its end")
        code = self._process.returncode
        assert code is not None
        return code

    @property
    def has_colours(self) -> bool:
        """Whether any colour but the usual one was asked for."""
        return _COLOURS.search(self._raw) is not None

    @property
    def shown(self) -> str:
        """All that was shown so far, without colours and cursor movements."""
        return self._seen

    def _read_until(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not reached():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}; this was shown:\n{self._seen}")
            if select.select([self._screen], [], [], 0.05)[0]:
                try:
                    self._raw += os.read(self._screen, 65536)
                except OSError:  # EIO: the program has closed the terminal
                    self._process.wait(PATIENCE)
                self._seen = _SEQUENCES.sub("", self._raw.decode(errors="replace"))
