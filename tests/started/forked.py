"""Modules run as processes whose slow imports were made before: what the tests use of `subprocess.Popen`."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import IO, Final, Self

from tests.started.programs import shared_programs

ROOT: Final = Path(__file__).resolve().parent.parent.parent
STANDARD_ERROR: Final = 2


class Forked:
    """A module run as `python -m` runs it, with its arguments; it is waited for when its block ends.

    A stream is a file, by its descriptor or itself, one end of a pipe (`PIPE`), or nothing (`DEVNULL`).
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
        *,
        stdin: int = DEVNULL,
        stdout: int | IO[bytes] = DEVNULL,
        stderr: int = STANDARD_ERROR,
    ) -> None:
        with ExitStack() as theirs:
            self.stdin, reads = _reading(stdin, theirs)
            self.stdout, says = _writing(stdout, theirs)
            self.stderr, complains = _writing(stderr, theirs)
            self._started = shared_programs().module(command, env or os.environ, cwd, [reads, says, complains])

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def returncode(self) -> int | None:
        return self._started.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, or None as long as it runs."""
        return self._started.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code."""
        return self._started.wait(timeout)

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not ended."""
        with suppress(ProcessLookupError):  # it ended just now, and the program that forked it has heard first
            if self.poll() is None:
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read what it says until it ends; return that of both streams."""
        said: dict[int, str] = {}

        def read(number: int, stream: IO[str] | None) -> None:
            said[number] = "" if stream is None or stream.closed else stream.read()

        if self.stdin is not None:
            self.stdin.close()
        readers = [threading.Thread(target=read, args=one) for one in ((1, self.stdout), (2, self.stderr))]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join()
        self._close()
        return said[1], said[2]

    def _close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):  # what was last written to it, nobody has read
                    stream.close()


def _reading(stream: int, theirs: ExitStack) -> tuple[IO[str] | None, int]:
    """Return what we write to, if anything, and the descriptor that the program reads from."""
    if stream == PIPE:
        reading, writing = os.pipe()
        theirs.callback(os.close, reading)
        return os.fdopen(writing, "w", encoding="utf-8"), reading
    return None, theirs.enter_context(Path(os.devnull).open("rb")).fileno()


def _writing(stream: int | IO[bytes], theirs: ExitStack) -> tuple[IO[str] | None, int]:
    """Return what we read from, if anything, and the descriptor that the program writes to."""
    if stream == PIPE:
        reading, writing = os.pipe()
        theirs.callback(os.close, writing)
        return os.fdopen(reading, encoding="utf-8"), writing
    if stream == DEVNULL:
        return None, theirs.enter_context(Path(os.devnull).open("wb")).fileno()
    return None, stream if isinstance(stream, int) else stream.fileno()
