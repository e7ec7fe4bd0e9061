"""Runs a hook's command line with JSON on standard input, a time limit, and bounded output."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Self

import msgspec

SHELL = "/bin/sh"
LARGEST = 100_000
"""Maximum number of bytes kept of each of a hook's two outputs; the rest is read and discarded."""

_REAPED_WITHIN = 2.0
"""Maximum time in seconds to wait for killed processes."""
_PIECE = 1 << 16
_CHECK_INTERVAL = 0.05
"""Interval in seconds at which to check whether it has ended, even if a child process still holds its outputs."""


class HookResult(msgspec.Struct, frozen=True):
    """How a hook ended: `code` is its exit code, 128 + N for signal N as in shells; None if it was killed.

    `is_cut` says that standard output was longer than what is kept.
    """

    code: int | None
    out: str
    err: str
    is_cut: bool = False


class RunningHooks:
    """The hooks that run on any thread, so that they can all be killed at once, with their child processes."""

    _ended = False

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._processes: set[subprocess.Popen[bytes]] = set()

    @property
    def has_ended(self) -> bool:
        """Whether `end` was called."""
        return self._ended

    @contextlib.contextmanager
    def started(
        self, command: Sequence[str], environ: Mapping[str, str], cwd: Path
    ) -> Generator[subprocess.Popen[bytes] | None]:
        """Start a command in its own process group, and reap it at the end; yield None if `end` was called before.

        Raises:
            OSError: the command cannot be started.
        """
        with self._changed:  # so that `end` sees every process that was started
            process = None if self._ended else _started(command, environ, cwd)
            if process is not None:
                self._processes.add(process)
        try:
            yield process
        finally:
            if process is not None:
                process.wait()
                with self._changed:
                    self._processes.discard(process)
                    self._changed.notify_all()

    def end(self) -> None:
        """Kill all hooks that run, and let no other one start. Idempotent."""
        with self._changed:
            self._ended = True
            for process in self._processes:
                _kill(process)
            self._changed.wait_for(lambda: not self._processes, _REAPED_WITHIN)


def run(
    command: str,
    given: bytes,
    *,
    environ: Mapping[str, str],
    cwd: Path,
    timeout: float,
    stop: threading.Event | None = None,
    running: RunningHooks | None = None,
    shell: str = SHELL,
) -> HookResult:
    """Run the command line in a shell, with `given` on its standard input.

    It runs for at most `timeout` seconds, or until `stop` is set. Then it is killed with its child processes; the same
    happens if this call is interrupted, or `running` is ended. Child processes that are left when it ends by itself
    continue.

    Raises:
        OSError: it cannot be started.
    """
    with (running or RunningHooks()).started([shell, "-c", command], environ, cwd) as process:
        if process is None:
            return HookResult(None, "", "")
        ended = False
        try:
            with _Exchange(process, given) as exchange:
                ended = exchange.until(time.monotonic() + timeout, stop)
                return HookResult(
                    _exit_code(process.returncode) if ended else None,
                    exchange.output(process.stdout),
                    exchange.output(process.stderr),
                    exchange.is_cut,
                )
        finally:
            if not ended:
                _kill(process)


def _exit_code(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its child processes, except those that have left its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _started(command: Sequence[str], environ: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - typed or trusted by a person
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=dict(environ),
        start_new_session=True,
    )


class _Exchange:
    """Transfers input and outputs without blocking."""

    is_cut = False
    """Whether standard output was longer than what is kept."""

    def __init__(self, process: subprocess.Popen[bytes], given: bytes) -> None:
        self._process = process
        self._left = memoryview(given)
        self._outputs: dict[IO[bytes] | None, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
        self._selector = selectors.DefaultSelector()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None  # all three are pipes
            os.set_blocking(pipe.fileno(), False)
            gives = pipe is process.stdin
            event = selectors.EVENT_WRITE if gives else selectors.EVENT_READ
            self._selector.register(pipe, event, partial(self._write if gives else self._read, pipe))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):  # the process did not read all of its input
                    pipe.close()

    def until(self, deadline: float, stop: threading.Event | None) -> bool:
        """Transfer data until the process has ended; return False if the deadline or `stop` came first."""
        while self._process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0 or (stop is not None and stop.is_set()):
                return False
            if self._selector.get_map():
                self._exchange(min(left, _CHECK_INTERVAL))
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(min(left, _CHECK_INTERVAL))
        while self._exchange(0):  # the rest in the pipes
            if time.monotonic() >= deadline:
                break
        return True

    def output(self, pipe: IO[bytes] | None) -> str:
        """Return the kept output of this pipe."""
        return self._outputs[pipe].decode(errors="replace")

    def _exchange(self, timeout: float) -> bool:
        """Read from and write to the pipes that are ready; return whether there were any."""
        ready = self._selector.select(timeout) if self._selector.get_map() else []
        for key, _ in ready:
            act: Callable[[], None] = key.data
            act()
        return bool(ready)

    def _write(self, pipe: IO[bytes]) -> None:
        try:
            self._left = self._left[os.write(pipe.fileno(), self._left[:_PIECE]) :]
        except BlockingIOError:
            return
        except OSError:  # it has closed its standard input
            self._left = self._left[:0]
        if not self._left:
            self._close(pipe)

    def _read(self, pipe: IO[bytes]) -> None:
        try:
            piece = os.read(pipe.fileno(), _PIECE)
        except BlockingIOError:
            return
        if not piece:
            self._close(pipe)
        heard = self._outputs[pipe]
        room = LARGEST - len(heard)
        self.is_cut |= pipe is self._process.stdout and len(piece) > room
        heard += piece[:room]

    def _close(self, pipe: IO[bytes]) -> None:
        self._selector.unregister(pipe)
        with contextlib.suppress(OSError):
            pipe.close()
