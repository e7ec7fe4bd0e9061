"""Servers in processes of their own: started, killed, and started again on the same log and the same port."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from subprocess import PIPE
from typing import Final, Self

from tests.started.forked import Forked

PATIENCE: Final = 60.0
"""Seconds after which a process is not going to do what was waited for."""

_LISTENING: Final = re.compile(r"listening on (http://127\.0\.0\.1:(\d+))")


class Process:
    """A Python module run as a process, whose lines are read as they come; killed at the latest when its block ends."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        environ = {**os.environ, **(environment or {})}
        self._process = Forked(command, environ, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._errors: list[str] = []
        self._readers = [threading.Thread(target=self._read_lines), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def errors(self) -> str:
        """What it has written on standard error."""
        return "".join(self._errors)

    def line(self) -> str:
        """Return the next line of its standard output."""
        try:
            line = self._lines.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError(f"no line came; it said {self.errors!r}") from None
        assert line is not None, f"it has ended with {self._process.wait(PATIENCE)}; it said {self.errors!r}"
        return line

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it without letting it do anything more (SIGKILL)."""
        self._process.kill()
        self.wait()

    def terminate(self) -> int:
        """Ask it to end, and return its exit code when it has."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def finish(self) -> int:
        """End its standard input, and return its exit code when it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        """Return its exit code when it has ended."""
        code = self._process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                _close(stream.close)
        return code

    def resident(self) -> int:
        """Return the bytes of memory that it takes up."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)


class ServerProcess(Process):
    """A process that serves a log; `url` is where it listens."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        super().__init__(command, environment)
        try:
            while (found := _LISTENING.search(self.line())) is None:
                pass
        except BaseException:
            self.kill()
            raise
        self.url, self.port = found[1], int(found[2])


def reenact_serve(log: str, *, port: int = 0, scenario: str = "long-stream") -> ServerProcess:
    """Start `reenact serve` on the log, with the mock."""
    command = ["reenact", "serve", "--db", log, "--host", "127.0.0.1", "--port", str(port)]
    return ServerProcess(command, {"MOCK_LLM": "true", "MOCK_SCENARIO": scenario})


def tapped(log: str, *, port: int = 0, recovery: str = "close") -> ServerProcess:
    """Start a server whose mock says as much as it is allowed to: tell it `allow 50`, `open` or `shut`."""
    return ServerProcess(["tests.reliability.tapped_server", log, str(port), recovery])


def _close(close: object) -> None:
    try:
        assert callable(close)
        close()
    except BrokenPipeError:  # what was last written to it, nobody has read
        pass
