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
"""Bytes that are kept of what a hook prints, on each of its two outputs; the rest is read and dropped."""

_REAPED_WITHIN = 2.0
"""Seconds after which nobody waits any more for what was killed."""
_PIECE = 1 << 16
_LOOK_AROUND = 0.05
"""Seconds after which to see whether it has ended, though something that it started still holds its outputs."""


class Ran(msgspec.Struct, frozen=True):
    """How a hook ended: `code` is its exit code, negative for a signal; None if it was ended when its time was over.

    `is_cut` says that it printed more on standard output than is kept.
    """

    code: int | None
    out: str
    err: str
    is_cut: bool = False


class Running:
    """The hooks that run, on whatever thread: they can all be ended at once, with what they have started."""

    _ended = False

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._processes: set[subprocess.Popen[bytes]] = set()

    @property
    def has_ended(self) -> bool:
        """Whether all were ended."""
        return self._ended

    @contextlib.contextmanager
    def started(
        self, command: Sequence[str], environ: Mapping[str, str], cwd: Path
    ) -> Generator[subprocess.Popen[bytes] | None]:
        """Start a command in a process group of its own, and reap it at the end; None if all were ended before.

        Raises:
            OSError: it cannot be started.
        """
        with self._changed:  # so that none begins unseen while all are ended
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
        """Kill all that run, and let no other one begin. Idempotent."""
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
    running: Running | None = None,
    shell: str = SHELL,
) -> Ran:
    """Run the command line in a shell, with `given` on its standard input.

    It runs for at most `timeout` seconds, or until `stop` is set. It and what it has started are killed then, as they
    are when this is interrupted and when all that are `running` are ended. What it leaves behind when it ends by itself
    goes on.

    Raises:
        OSError: it cannot be started.
    """
    with (running or Running()).started([shell, "-c", command], environ, cwd) as process:
        if process is None:
            return Ran(None, "", "")
        ended = False
        try:
            with _Exchange(process, given) as exchange:
                ended = exchange.until(time.monotonic() + timeout, stop)
                return Ran(
                    process.returncode if ended else None,
                    exchange.said(process.stdout),
                    exchange.said(process.stderr),
                    exchange.is_cut,
                )
        finally:
            if not ended:
                _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and what it has started, but for what has left its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _started(command: Sequence[str], environ: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - a command line of a person, or trusted by one
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=dict(environ),
        start_new_session=True,
    )


class _Exchange:
    """What goes in and comes out, without blocking."""

    is_cut = False
    """Whether more was printed on standard output than is kept."""

    def __init__(self, process: subprocess.Popen[bytes], given: bytes) -> None:
        self._process = process
        self._left = memoryview(given)
        self._heard: dict[IO[bytes] | None, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
        self._selector = selectors.DefaultSelector()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None  # all three were asked for
            os.set_blocking(pipe.fileno(), False)
            gives = pipe is process.stdin
            event = selectors.EVENT_WRITE if gives else selectors.EVENT_READ
            self._selector.register(pipe, event, partial(self._give if gives else self._take, pipe))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):  # nobody reads what was left to be written
                    pipe.close()

    def until(self, deadline: float, stop: threading.Event | None) -> bool:
        """Go on until the process has ended; return whether it has, before the time was over or it was stopped."""
        while self._process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0 or (stop is not None and stop.is_set()):
                return False
            if self._selector.get_map():
                self._exchange(min(left, _LOOK_AROUND))
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(min(left, _LOOK_AROUND))
        while self._exchange(0):  # what is still in the pipes
            if time.monotonic() >= deadline:
                break
        return True

    def said(self, pipe: IO[bytes] | None) -> str:
        """Return the beginning of what was printed there."""
        return self._heard[pipe].decode(errors="replace")

    def _exchange(self, timeout: float) -> bool:
        """Take what there is, and give what is taken; return whether there was anything."""
        ready = self._selector.select(timeout) if self._selector.get_map() else []
        for key, _ in ready:
            act: Callable[[], None] = key.data
            act()
        return bool(ready)

    def _give(self, pipe: IO[bytes]) -> None:
        try:
            self._left = self._left[os.write(pipe.fileno(), self._left[:_PIECE]) :]
        except BlockingIOError:
            return
        except OSError:  # it reads no more
            self._left = self._left[:0]
        if not self._left:
            self._close(pipe)

    def _take(self, pipe: IO[bytes]) -> None:
        try:
            piece = os.read(pipe.fileno(), _PIECE)
        except BlockingIOError:
            return
        if not piece:
            self._close(pipe)
        heard = self._heard[pipe]
        room = LARGEST - len(heard)
        self.is_cut |= pipe is self._process.stdout and len(piece) > room
        heard += piece[:room]

    def _close(self, pipe: IO[bytes]) -> None:
        self._selector.unregister(pipe)
        with contextlib.suppress(OSError):
            pipe.close()
