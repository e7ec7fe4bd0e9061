"""The fork server: a small process that has imported everything, has no threads, and forks.

It serves the one that has started it, and ends with it; whoever it has forked by then is killed. See
`reenact.testing.crash_test`, which is its other end.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Final

import msgspec

from reenact.testing.crash_points import Crash

PRELOADED: Final = ("reenact", "reenact._runtime", "reenact.testing.crashing", "reenact.actors.environment.mock")


class Run(msgspec.Struct, frozen=True):
    """The wish that a program be run in a child, which writes to the pipe that comes with it.

    `program` is a pickle of it and of its arguments, `path` where its module may be. After `patience` seconds the child
    tells on standard error where it stands.
    """

    program: bytes
    path: list[str]
    crash: Crash | None
    armed: bool
    patience: float


class Reporter:
    """What a program is given: the way to tell what it was promised, and to say from when on points are counted."""

    def __init__(self, pipe: Connection, arm: Callable[[], None], reach: Callable[[], None]) -> None:
        self._pipe = pipe
        self._arm = arm
        self._reach = reach
        self._lock = threading.Lock()

    def say(self, *words: object) -> None:
        """Tell something that has come true; behind it is the point `AFTER_REPLY`. Thread-safe.

        The words are what JSON holds, or structs and other values that msgspec makes JSON of.
        """
        self.write("said", words)
        self._reach()

    def arm(self) -> None:
        """Count points from now on, if that was not done from the beginning (`armed=False`)."""
        self._arm()

    def write(self, kind: str, what: object) -> None:
        """Write one message, all of it before anybody else's."""
        with self._lock:
            self._pipe.send_bytes(msgspec.json.encode((kind, what)))


def serve(channel: Connection) -> None:
    """Run programs until the other one has gone.

    Each is answered with the id of the child, or with why there is none, and again, when the other one has heard the
    child out, with how it has ended.
    """
    os.setsid()  # what a terminal interrupts is the test, which then ends this
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # so that children do not copy every page to look for garbage
    with contextlib.suppress(EOFError, OSError):
        while True:
            run: Run = channel.recv()
            with Connection(recv_handle(channel), readable=False) as pipe:
                try:
                    pid = _begin(run, pipe, channel)
                except Exception:  # noqa: BLE001 - the other one's to know
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
        finally:
            os._exit(1)
    return pid


def _live(program: Callable[..., object], arguments: tuple[object, ...], run: Run, pipe: Connection) -> None:
    """Run the program, in the child, and end with it."""
    from reenact.testing.crash_points import CrashPoint  # noqa: PLC0415 - in the child, where all is imported
    from reenact.testing.crashing import Fuse, crash_at  # noqa: PLC0415 - likewise

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
        except BaseException:  # noqa: BLE001 - the other one's to know
            reporter.write("failed", traceback.format_exc())
        else:
            reporter.write("ended", 0 if fuse is None else fuse.reached)
        os._exit(0)
