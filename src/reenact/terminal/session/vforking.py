"""Starting a program without a copy of this process: from a large one it takes a tenth of the time, or less.

What `subprocess` starts without a copy has no controlling terminal, for the child must take it, after `setsid`. Linux
gives it to the leader of a session who opens a terminal, and `posix_spawn` can do both. It cannot change the directory,
but a thread can have one of its own there, which the program inherits.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

_STANDARD: Final = 3
_CLONE_FS: Final = 0x200
_RESTORED: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""What Python ignores, and no program expects to be ignored."""
_FIRST_PAUSE: Final = 0.0005
_LONGEST_PAUSE: Final = 0.05


class CannotVforkError(Exception):
    """It is not possible here; a copy of this process can do it."""


class Vforked:
    """A program that was started; what is needed of `subprocess.Popen`."""

    def __init__(self, pid: int, name: str) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._name = name
        self._lock = threading.RLock()

    def poll(self) -> int | None:
        """Return None while it runs, then its exit code, negative for a signal.

        Raises:
            ChildProcessError: it has ended, and others of this process took note of that: how is not known.
        """
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return and raise what `poll` does then, or raise `subprocess.TimeoutExpired`."""
        deadline, pause = None if timeout is None else time.monotonic() + timeout, _FIRST_PAUSE
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(self._name, timeout or 0.0)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return code


def vforked(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int, *, ignored: Iterable[int]
) -> Vforked:
    """Start the program, with the signals that are `ignored` here as they are by default.

    Raises:
        OSError: it cannot be started, or its directory not be entered.
        CannotVforkError: not in this way.
    """
    if not sys.platform.startswith("linux"):
        raise CannotVforkError
    try:
        path = os.ttyname(terminal)
    except OSError as error:  # /dev/pts is not that of the kernel, as in some sandboxes
        raise CannotVforkError from error
    start = functools.partial(_spawned, tuple(argv), dict(env), _actions(path), {*_RESTORED, *ignored})
    return Vforked(start() if cwd is None else _in_directory(cwd, start), argv[0])


def _spawned(argv: tuple[str, ...], env: dict[str, str], actions: list[tuple[object, ...]], restored: set[int]) -> int:
    """Start the first program of that name on the path; raise what most tells why there is none."""
    name = argv[0]
    paths = [name] if "/" in name else [f"{folder}/{name}" for folder in os.get_exec_path(env)]
    found: OSError | None = None
    for path in paths:
        try:
            return os.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=restored)
        except (FileNotFoundError, NotADirectoryError) as error:
            found = found or error
        except OSError as error:
            if found is None or isinstance(found, (FileNotFoundError, NotADirectoryError)):
                found = error
    raise found or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def _actions(path: str) -> list[tuple[object, ...]]:
    """Return what is done in the child: the terminal becomes its own by being opened, and it inherits nothing else."""
    inherited = [int(number) for number in os.listdir("/proc/self/fd") if int(number) >= _STANDARD]  # noqa: PTH208
    return [
        (os.POSIX_SPAWN_OPEN, 0, path, os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, 0, 2),
        *((os.POSIX_SPAWN_CLOSE, number) for number in inherited if _is_inheritable(number)),
    ]


def _is_inheritable(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # closed meanwhile, as the one that the directory was read with
        return False


def _in_directory(cwd: Path, start: Callable[[], int]) -> int:
    """Call it on a thread that has this directory as its own."""
    outcome: list[int | BaseException] = []

    def run() -> None:
        try:
            _leave_the_common_directory()
            os.chdir(cwd)
            outcome.append(start())
        except BaseException as error:  # noqa: BLE001 - it is raised below
            outcome.append(error)

    thread = threading.Thread(target=run, name="reenact-terminal-start")
    try:
        thread.start()
    except RuntimeError as error:  # there are too many
        raise CannotVforkError from error
    thread.join()
    (pid,) = outcome
    if isinstance(pid, BaseException):
        raise pid
    return pid


def _leave_the_common_directory() -> None:
    unshare = getattr(_libc(), "unshare", None)
    if unshare is None or unshare(_CLONE_FS) != 0:
        raise CannotVforkError


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
