"""Runs programs in processes of their own that are killed, and collects what they reported before.

The processes are children of a fork server: a small process that has imported everything, has no threads, and forks. It
serves the process that started it, and ends with it; its children are killed then.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec

from reenact.domain.errors import InvalidInputError, RuntimeClosedError
from reenact.testing.crashing import Crash, CrashPoint, Fuse, crash_at

Said: TypeAlias = list[Any]
"""The words of one report of a program, as JSON values."""

PATIENCE = 60.0
"""Seconds that a program may take."""

_LEAVE_TIME = 10.0
_SPAWNING = multiprocessing.get_context("spawn")


class CrashReport(msgspec.Struct, frozen=True):
    """The result of a program: its reports, whether it was killed, and how often it reached the point if it was not."""

    said: tuple[Said, ...]
    killed: bool
    reached: int = 0

    def told(self, what: str) -> list[Said]:
        """Return the reports with this first word, without the word."""
        return [words[1:] for words in self.said if words[:1] == [what]]


class CrashTest:
    """Runs programs in children of a small process that has imported everything, so that each starts in milliseconds.

    A program is a function at the top level of a module, `program(reporter, *arguments)`; it reports what it was
    promised with `reporter.say(...)`, until it is killed. `pickle` must be able to encode its arguments. Use a crash
    test as a context manager, or `close` it, which ends its programs, but not the processes that these have started:
    they live on, as they do after a crash. One program runs at a time.
    """

    def __init__(self) -> None:
        """Make the crash test; the fork server is started at the first run."""
        self._lock = threading.Lock()
        self._server: SpawnProcess | None = None
        self._channel: Connection | None = None
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
        """Run the program until it is killed, and return its reports.

        Args:
            program: receives a `Reporter`, then the arguments.
            arguments: the other arguments of the program.
            at: where it is killed.
            armed: whether points count from the beginning; if not, the program says from when on (`Reporter.arm`).
            until: receives all reports so far after each report, and returns whether to kill the program now, wherever
                it may be by then.
            timeout: seconds after which the program is killed and this fails.

        Raises:
            AssertionError: the program ended by itself, raised an exception, or did not end in time.
            InvalidInputError: the program, or an argument, cannot be sent to another process.
            TypeError: `at` is not a `Crash`.
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
        """Run the program until it is killed or ends by itself; otherwise like `run_until_killed`.

        Raises:
            AssertionError: the program raised an exception, or did not end in time.
            InvalidInputError: the program, or an argument, cannot be sent to another process.
            TypeError: `at` is not a `Crash`.
        """
        _check_crash(at)
        run = Run(_pickled(program, arguments), _path_to(program), at, armed, timeout * 0.9)
        with self._lock:
            channel = self._opened()
            ours, theirs = _SPAWNING.Pipe(duplex=False)
            with ours:
                with theirs, _server_lives():
                    channel.send(run)
                    send_handle(channel, theirs.fileno(), None)
                    begun: int | str = channel.recv()
                if isinstance(begun, str):
                    raise AssertionError(f"{program.__qualname__} could not be run:\n{begun}")  # noqa: TRY004 - a test fails
                try:
                    said, ends = _collect_reports(ours, begun, until, time.monotonic() + timeout)
                except BaseException:
                    _kill(begun)
                    raise
                finally:
                    with _server_lives():
                        channel.send(None)
                        code: int = channel.recv()
        if "failed" in ends:
            raise AssertionError(f"{program.__qualname__} has raised, having said {said}:\n{ends['failed']}")
        if code not in {0, -signal.SIGKILL}:
            raise AssertionError(f"{program.__qualname__} has ended with {code}, having said {said}")
        return CrashReport(tuple(said), code == -signal.SIGKILL, int(ends.get("ended", "0")))

    def close(self) -> None:
        """End the fork server and its programs. Idempotent."""
        self._closed = True
        with self._lock:
            if self._channel is not None and self._server is not None:
                self._channel.close()
                self._server.join(_LEAVE_TIME)
                self._server.kill()
                self._channel = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _opened(self) -> Connection:
        if self._closed:
            raise RuntimeClosedError("the crash test is closed")
        if self._channel is None:
            self._channel, theirs = _SPAWNING.Pipe()
            with theirs:
                self._server = _SPAWNING.Process(target=serve, args=(theirs,), daemon=True)
                self._server.start()
        return self._channel


@contextlib.contextmanager
def _server_lives() -> Generator[None]:
    """Raise an `AssertionError` if the fork server has ended."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise AssertionError("the process that forks has ended; what it said is on standard error") from error


def _collect_reports(
    pipe: Connection, pid: int, until: Callable[[Sequence[Said]], bool] | None, deadline: float
) -> tuple[list[Said], dict[str, str]]:
    """Return the reports that arrive until the pipe's other end is closed, and how the program ended."""
    ends: dict[str, str] = {}
    said: list[Said] = []
    while pipe.poll(max(0.0, deadline - time.monotonic())):
        try:
            kind, what = msgspec.json.decode(pipe.recv_bytes())
        except (EOFError, OSError):
            return said, ends  # a report that the end cut off does not count
        if kind != "said":
            ends[kind] = str(what)
            continue
        said.append(what)
        if until is not None and until(said):
            until = None
            _kill(pid)
    raise AssertionError(f"the program has not ended in time, having said {said}")


def _kill(pid: int) -> None:
    # It has not been waited for, so its process id is not reused.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _check_crash(at: object) -> None:
    if not isinstance(at, Crash | None):
        crash = f"Crash({at})" if isinstance(at, CrashPoint) else "a Crash"
        raise TypeError(f"`at` says where the program is killed: give it {crash}, not {at!r}")


def _pickled(program: Callable[..., object], arguments: tuple[object, ...]) -> bytes:
    """Return the program and its arguments as a pickle for another process.

    Raises:
        InvalidInputError: they cannot be pickled.
    """
    if not callable(program):
        raise InvalidInputError(f"{program!r} is not a program; give a function at the top of a module")
    try:
        return pickle.dumps((program, arguments))
    except Exception as error:  # a `__reduce__` may raise anything
        raise InvalidInputError(
            f"{program!r} cannot be run in another process ({error}); "
            "give a function at the top of a module, and arguments that pickle takes"
        ) from error


def _path_to(program: Callable[..., object]) -> list[str]:
    """Return a module search path that also finds the program's module."""
    name: str = program.__module__
    file: str | None = getattr(sys.modules[name], "__file__", None)
    if file is None:
        return sys.path
    depth = name.count(".") + (Path(file).name == "__init__.py")
    return [*sys.path, str(Path(file).resolve().parents[depth])]


PRELOADED = ("reenact", "reenact._runtime", "reenact.actors.environment.mock")


class Run(msgspec.Struct, frozen=True):
    """A request to run a program in a child, which writes to the pipe that is sent with it.

    `program` is a pickle of it and of its arguments, `path` the search path for its module. After `patience` seconds
    the child writes its stack to standard error.
    """

    program: bytes
    path: list[str]
    crash: Crash | None
    armed: bool
    patience: float


class Reporter:
    """The first argument of a program, with which it reports promises, and says from when on points are counted."""

    def __init__(self, pipe: Connection, arm: Callable[[], None], reach: Callable[[], None]) -> None:
        self._pipe = pipe
        self._arm = arm
        self._reach = reach
        self._lock = threading.Lock()

    def say(self, *words: object) -> None:
        """Report something that has become true; the point `AFTER_REPLY` follows. Thread-safe.

        The words are JSON values, or structs and other values that msgspec encodes as JSON.
        """
        self.write("said", words)
        self._reach()

    def arm(self) -> None:
        """Count points from now on, if they were not counted from the beginning (`armed=False`)."""
        self._arm()

    def write(self, kind: str, what: object) -> None:
        """Write one message; messages of several threads are not mixed."""
        with self._lock:
            self._pipe.send_bytes(msgspec.json.encode((kind, what)))


def serve(channel: Connection) -> None:
    """Run programs until the channel is closed.

    The answer to each request is the child's process id, or an error text, and, after the other side has read the
    child's reports, its exit code.
    """
    os.setsid()  # an interrupt from the terminal reaches only the test, which then ends this process
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # so that garbage collection in a child does not copy every page
    with contextlib.suppress(EOFError, OSError):
        while True:
            run: Run = channel.recv()
            with Connection(recv_handle(channel), readable=False) as pipe:
                try:
                    pid = _begin(run, pipe, channel)
                except Exception:  # noqa: BLE001 - reported to the other side
                    channel.send(traceback.format_exc())
                    continue
            try:
                channel.send(pid)
                channel.recv()
            except BaseException:
                os.kill(pid, signal.SIGKILL)
                raise
            finally:
                _, status = os.waitpid(pid, 0)
            channel.send(os.waitstatus_to_exitcode(status))


def _begin(run: Run, pipe: Connection, channel: Connection) -> int:
    """Fork a child that runs the program; return its id."""
    sys.path[:] = run.path
    program, arguments = pickle.loads(run.program)  # noqa: S301 - from the process that has started this one
    if threading.active_count() > 1:
        names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
        raise RuntimeError(f"importing {program.__module__} has started threads: {names}; let functions start them")
    pid = os.fork()
    if pid == 0:
        try:
            channel.close()
            _live(program, arguments, run, pipe)
        except BaseException:  # noqa: BLE001 - reported to the other side, if the program has not even started
            pipe.send_bytes(msgspec.json.encode(("failed", _what_was_raised())))
        finally:
            os._exit(1)
    return pid


def _what_was_raised() -> str:
    return traceback.format_exc().encode(errors="backslashreplace").decode()  # JSON cannot hold lone surrogates


def _live(program: Callable[..., object], arguments: tuple[object, ...], run: Run, pipe: Connection) -> None:
    """Run the program in the child, and end the process."""
    faulthandler.dump_traceback_later(run.patience)
    fuse: Fuse | None = None
    with contextlib.ExitStack() as stack:
        if run.crash is not None:
            crash = run.crash
            fuse = stack.enter_context(crash_at(crash.point, crash.nth, of=crash.of, armed=run.armed))
        reporter = Reporter(
            pipe,
            arm=fuse.arm if fuse is not None else lambda: None,
            reach=(lambda: fuse.reach(CrashPoint.AFTER_REPLY)) if fuse is not None else lambda: None,
        )
        try:
            program(reporter, *arguments)
        except BaseException:  # noqa: BLE001 - reported to the other side
            reporter.write("failed", _what_was_raised())
        else:
            reporter.write("ended", 0 if fuse is None else fuse.reached)
        os._exit(0)
