"""The fork server: a small process that has imported everything, has no threads, and forks.

It serves the one that has started it, over a socket that it inherits, and ends with it; whoever it has forked by then
and not waited for is killed. See `reenact.testing.crash_test`, which is its other end.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import importlib.util
import operator
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from reenact.testing.crash_points import Crash

_LENGTH: Final = struct.Struct("!I")
MAIN: Final = "__main__"
PRELOADED: Final = ("reenact", "reenact._runtime", "reenact.testing.crashing", "reenact.actors.environment.mock")


class Place(msgspec.Struct, frozen=True):
    """Where a function is to be found: a name in a module, and the file of that module."""

    module: str
    name: str
    file: str | None


class Run(msgspec.Struct, frozen=True):
    """The wish that a program be run in a child, which writes to the descriptor that comes with it.

    `arguments` is a pickle of them. After `patience` seconds the child tells on standard error where it stands.
    """

    place: Place
    arguments: bytes
    crash: Crash | None
    armed: bool
    patience: float


class Wait(msgspec.Struct, frozen=True):
    """The wish to know how a child has ended."""

    pid: int


class Begun(msgspec.Struct, frozen=True):
    """A child runs."""

    pid: int


class Over(msgspec.Struct, frozen=True):
    """A child has ended, with this exit code; below zero it is the signal that has ended it."""

    code: int


class NotBegun(msgspec.Struct, frozen=True):
    """There is no child, and why."""

    why: str


class Reporter:
    """What a program is given: the way to tell what it was promised, and to say from when on points are counted."""

    def __init__(self, pipe: int, arm: Callable[[], None], reach: Callable[[], None]) -> None:
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
        """Write one line, all of it before anybody else's."""
        line = memoryview(msgspec.json.encode((kind, what)) + b"\n")
        with self._lock:
            while line:
                line = line[os.write(self._pipe, line) :]


def send(channel: socket.socket, message: object, *descriptors: int) -> None:
    """Send a message, and descriptors with it."""
    data = pickle.dumps(message)
    socket.send_fds(channel, [_LENGTH.pack(len(data))], descriptors)
    channel.sendall(data)


def receive(channel: socket.socket) -> tuple[object, list[int]]:
    """Return the next message and the descriptors that came with it.

    Raises:
        EOFError: the other one has gone.
    """
    head, descriptors, _, _ = socket.recv_fds(channel, _LENGTH.size, 1)
    head += _exactly(channel, _LENGTH.size - len(head)) if head else b""
    if not head:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    return pickle.loads(_exactly(channel, length)), descriptors  # noqa: S301 - from the process that has started this one


def _exactly(channel: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = channel.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def main() -> None:
    """Serve the one at the other end of the socket that the only argument names."""
    with socket.socket(fileno=int(sys.argv[1])) as inherited:
        serve(inherited)


def serve(channel: socket.socket) -> None:
    """Run programs until the other one has gone."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # so that children do not copy every page to look for garbage
    children: set[int] = set()
    try:
        while True:
            wish, descriptors = receive(channel)
            if isinstance(wish, Wait):
                _, status = os.waitpid(wish.pid, 0)
                children.discard(wish.pid)
                send(channel, Over(os.waitstatus_to_exitcode(status)))
                continue
            assert isinstance(wish, Run)
            (pipe,) = descriptors
            try:
                begun = _begin(wish, pipe, channel)
            except Exception:  # noqa: BLE001 - the other one's to know
                send(channel, NotBegun(traceback.format_exc()))
            else:
                children.add(begun)
                send(channel, Begun(begun))
            finally:
                os.close(pipe)
    except (EOFError, OSError):
        pass  # nobody is there any more
    finally:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _begin(run: Run, pipe: int, channel: socket.socket) -> int:
    """Fork a child that runs the program; return its id."""
    program = _found(run.place)
    if threading.active_count() > 1:
        names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
        raise RuntimeError(f"importing {run.place.module} has started threads: {names}; let functions start them")
    pid = os.fork()
    if pid == 0:
        try:
            channel.close()
            _live(program, run, pipe)
        finally:
            os._exit(1)
    return pid


def _found(place: Place) -> Callable[..., object]:
    program: Callable[..., object] = operator.attrgetter(place.name)(_module(place))
    return program


def _module(place: Place) -> object:
    """Return the module, imported from where the other one has it."""
    if place.module == MAIN:
        return _main(place)
    if place.module not in sys.modules and place.file is not None:
        file = Path(place.file)
        depth = place.module.count(".") + (file.name == "__init__.py")
        root = str(file.parents[depth])
        if root not in sys.path:
            sys.path.append(root)
    return importlib.import_module(place.module)


def _main(place: Place) -> object:
    """Return the program that the other one is, loaded as a module: what it guards by its name does not run."""
    known = sys.modules.get("__crash_main__")
    if known is not None:
        return known
    if place.file is None:
        raise ValueError("the program is in a module that is no file; put it into one")
    spec = importlib.util.spec_from_file_location("__crash_main__", place.file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["__crash_main__"] = sys.modules[MAIN] = module
    spec.loader.exec_module(module)
    return module


def _live(program: Callable[..., object], run: Run, pipe: int) -> None:
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
            program(reporter, *pickle.loads(run.arguments))  # noqa: S301 - as above
        except BaseException:  # noqa: BLE001 - the other one's to know
            reporter.write("failed", traceback.format_exc())
        else:
            reporter.write("ended", 0 if fuse is None else fuse.reached)
        os._exit(0)
