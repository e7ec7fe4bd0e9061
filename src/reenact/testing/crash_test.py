"""Runs programs in processes of their own that are killed, and collects what they had reported by then."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Self, TypeAlias

import msgspec

from reenact.domain.errors import InvalidInputError, RuntimeClosedError
from reenact.testing.crash_points import Crash
from reenact.testing.fork_server import MAIN, Begun, NotBegun, Over, Place, Run, Wait, receive, send

Said: TypeAlias = list[Any]
"""What a program has said at once, as JSON has it."""

PATIENCE: Final = 60.0
"""Seconds that a program may take."""

_LEAVE_TIME: Final = 10.0
_MAIN: Final = "from reenact.testing.fork_server import main; main()"


class CrashReport(msgspec.Struct, frozen=True):
    """What became of a program: what it had said, whether it was killed, and how often it came to the point if not."""

    said: tuple[Said, ...]
    killed: bool
    reached: int = 0

    def told(self, what: str) -> list[Said]:
        """Return what was said under this first word, without it."""
        return [words[1:] for words in self.said if words[:1] == [what]]


class CrashTest:
    """Runs programs in children of a small process that has imported everything, so that one costs milliseconds.

    A program is a function at the top of a module, `program(reporter, *arguments)`; it says what it was promised, with
    `reporter.say(...)`, until it is killed. Its arguments must be such that `pickle` takes them. Use it as a context
    manager, or `close` it: nothing is left then. One program runs at a time.
    """

    def __init__(self) -> None:
        """Take note of nothing yet: the process is started when it is needed."""
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._closed = False

    def run_until_killed(
        self,
        program: Callable[..., object],
        *arguments: object,
        at: Crash | None = None,
        armed: bool = True,
        until: Callable[[Sequence[Said]], bool] | None = None,
        timeout: float = PATIENCE,
    ) -> CrashReport:
        """Run the program until it is killed, and return what it had said.

        Args:
            program: is given a `Reporter`, then the arguments.
            arguments: the rest that it is given.
            at: where it is killed.
            armed: whether points count from the beginning; if not, the program says from when on (`Reporter.arm`).
            until: is shown all that was said whenever something is, and returns whether to kill the program now,
                wherever it may be by then.
            timeout: seconds after which it is killed and this fails.

        Raises:
            AssertionError: it has ended by itself, has raised something, or has not ended in time.
        """
        report = self.run(program, *arguments, at=at, armed=armed, until=until, timeout=timeout)
        if not report.killed:
            when = f"the point {at} was reached {report.reached} times" if at is not None else "nobody has killed it"
            raise AssertionError(f"{program.__qualname__} has ended by itself: {when}; it said {list(report.said)}")
        return report

    def run(
        self,
        program: Callable[..., object],
        *arguments: object,
        at: Crash | None = None,
        armed: bool = True,
        until: Callable[[Sequence[Said]], bool] | None = None,
        timeout: float = PATIENCE,
    ) -> CrashReport:
        """Run the program until it is killed or ends by itself; the rest is as in `run_until_killed`.

        Raises:
            AssertionError: it has raised something, or has not ended in time.
        """
        run = Run(_place_of(program), pickle.dumps(arguments), at, armed, timeout * 0.9)
        with self._lock:
            channel = self._opened()
            ours, theirs = os.pipe()
            with os.fdopen(ours, "rb", buffering=0) as pipe:
                try:
                    begun = _ask(channel, run, theirs)
                finally:
                    os.close(theirs)
                if not isinstance(begun, Begun):
                    why = begun.why if isinstance(begun, NotBegun) else ""
                    raise AssertionError(f"{program.__qualname__} could not be run:\n{why}")  # noqa: TRY004 - a test fails
                try:
                    said, ends = _hear(pipe, begun.pid, until, time.monotonic() + timeout)
                except BaseException:
                    _kill(begun.pid)
                    raise
                finally:
                    over = _ask(channel, Wait(begun.pid))
            assert isinstance(over, Over)
        if "failed" in ends:
            raise AssertionError(f"{program.__qualname__} has raised, having said {said}:\n{ends['failed']}")
        if over.code not in {0, -signal.SIGKILL}:
            raise AssertionError(f"{program.__qualname__} has ended with {over.code}, having said {said}")
        return CrashReport(tuple(said), over.code == -signal.SIGKILL, int(ends.get("ended", "0")))

    def close(self) -> None:
        """End the process and whatever it runs. Idempotent."""
        self._closed = True
        with self._lock:
            if self._channel is not None:
                self._channel.close()
                self._channel = None
            if self._server is not None:
                self._end(self._server)
                self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _opened(self) -> socket.socket:
        if self._closed:
            raise RuntimeClosedError("the crash test is closed")
        if self._channel is None:
            ours, theirs = socket.socketpair()
            with theirs:
                self._server = subprocess.Popen(  # noqa: S603 - this very interpreter
                    [sys.executable, "-c", _MAIN, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    start_new_session=True,  # what a terminal interrupts is the test, which then ends this
                )
            self._channel = ours
        return self._channel

    def _end(self, server: subprocess.Popen[bytes]) -> None:
        try:
            server.wait(_LEAVE_TIME)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _ask(channel: socket.socket, wish: object, *descriptors: int) -> object:
    try:
        send(channel, wish, *descriptors)
        answer, _ = receive(channel)
    except (EOFError, OSError) as error:
        raise AssertionError("the process that forks has ended; what it said is on standard error") from error
    return answer


def _hear(
    pipe: io.FileIO,
    pid: int,
    until: Callable[[Sequence[Said]], bool] | None,
    deadline: float,
) -> tuple[list[Said], dict[str, str]]:
    """Return what is said by lines of the pipe until nobody has its other end any more, and how the program ended."""
    ends: dict[str, str] = {}
    said: list[Said] = []
    rest = b""
    with selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        while True:
            if not ready.select(max(0.0, deadline - time.monotonic())):
                raise AssertionError(f"the program has not ended in time, having said {said}")
            data = os.read(pipe.fileno(), 65536)
            if not data:
                return said, ends  # a line that was cut off by the end was not said
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                kind, what = msgspec.json.decode(line)
                if kind != "said":
                    ends[kind] = str(what)
                    continue
                said.append(what)
                if until is not None and until(said):
                    until = None
                    _kill(pid)


def _kill(pid: int) -> None:
    # It has not been waited for, so the number is still its own.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _place_of(program: Callable[..., object]) -> Place:
    """Return where a program is to be found.

    Raises:
        InvalidInputError: another process could not find it.
    """
    module: str = getattr(program, "__module__", "")
    name: str = getattr(program, "__qualname__", "")
    if not name or "<" in name:
        raise InvalidInputError(
            f"{program!r} cannot be run in another process; give a function at the top of a module, and its arguments"
        )
    file: str | None = getattr(sys.modules.get(module), "__file__", None)
    if module == MAIN and file is None:
        raise InvalidInputError(f"{name} is in no file, from which another process could have it; put it into one")
    return Place(module, name, None if file is None else os.path.realpath(file))
