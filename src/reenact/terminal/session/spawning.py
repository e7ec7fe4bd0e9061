"""Starting a program with a terminal as its own; where it can be, without a copy of this process (`posix_spawn`).

What `subprocess` starts without a copy has no controlling terminal, for the child must take it, after `setsid`. Linux
gives it to the leader of a session who opens a terminal, and `posix_spawn` can do both. It cannot change the directory,
but a thread can have one of its own there, which the program inherits.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import math
import operator
import os
import shutil
import signal
import subprocess
import sys
import termios
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from reenact.terminal.errors import TerminalTestError, not_started
from reenact.terminal.session.waiting import until

_STANDARD = 3
_CLONE_FS = 0x200
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""What Python ignores, and no program expects to be ignored."""


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
        if not until(lambda: self.poll() is not None, math.inf if timeout is None else timeout):
            raise subprocess.TimeoutExpired(self._name, timeout or 0.0)
        return self.returncode or 0


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
    """Start the first program of that name on the path."""
    name = argv[0]
    path = name if "/" in name else shutil.which(name, path=os.pathsep.join(os.get_exec_path(env)))
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return os.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=restored)


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


INHERITED = ("PATH", "LANG", "HOME", "TMPDIR")
"""What a program gets of our environment, besides all names that begin with `LC_`."""
MARK = "REENACT_TERMINAL"
"""The variable by which processes are known again that have left the session; it is in every environment."""
_TOO_MANY = "dispose of terminals that are no longer needed, or raise `ulimit -u`"
_ABOUT_OUR_TERMINAL = ("COLUMNS", "LINES")
_FROM_TERMINALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGWINCH,
)


class Process(Protocol):
    """What must be known of a program that was started; `subprocess.Popen` is one.

    Of a `Popen` the status is asked of the kernel: it says 0 itself where others of the process were first to take note
    of the end. Anything else is believed; its `poll` may raise `ChildProcessError` when that is so.
    """

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """As `poll` returned it last."""
        ...

    def poll(self) -> int | None:
        """Return None while it runs, then its exit code, negative for a signal."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return what `poll` returns then."""
        ...


class Spawner(Protocol):
    """Starts a program.

    It is to be the leader of a session of its own, with the descriptor `terminal`, open until the call returns, as its
    standard input, output and error, and as its controlling terminal.
    """

    def __call__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Process:
        """Start it, or raise an `OSError`."""
        ...


def spawn(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Process:
    """Start the program as a process of its own.

    Raises:
        OSError: it cannot be started.
        TerminalTestError: it could not be told how it ends, since we ignore SIGCHLD (`PROCESS_START_FAILED`).
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        raise not_started(
            f"{argv[0]!r} was not started: this process ignores SIGCHLD, and would not be told how the program ends; "
            "call `signal.signal(signal.SIGCHLD, signal.SIG_DFL)` before"
        )
    # As from a login: what is started behind `nohup`, or with `&` by a script, would be deaf to a hang-up or to Ctrl+C.
    ignored = [number for number in _FROM_TERMINALS if signal.getsignal(number) is signal.SIG_IGN]
    try:
        return vforked(argv, env, cwd, terminal, ignored=ignored)
    except CannotVforkError:
        return subprocess.Popen(  # noqa: S603 - what is run is the caller's choice
            argv,
            env=env,
            cwd=cwd,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=_in_the_child(ignored),  # noqa: PLW1509 - see there
        )


@contextmanager
def explained(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None) -> Generator[None]:
    """Start a program in this block: what fails is said in words.

    Raises:
        TerminalTestError: it cannot be started; the message says what to do about it (`PROCESS_START_FAILED`).
    """
    if cwd is not None and not cwd.is_dir():
        what = "is not a directory" if cwd.exists() else "does not exist"
        raise not_started(
            f"{argv[0]!r} was not started: the working directory {str(cwd)!r} {what}; create it, or pass another `cwd`"
        )
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        raise not_started(f"{argv[0]!r} was not started: {_why(error, argv, env, cwd)}", error) from error


def returncode(process: Process) -> int | None:
    """Return None while the program runs, then its exit code, negative for a signal; take note of its end.

    Raises:
        ChildProcessError: it has ended, and others of this process took note of that: how is not known.
    """
    if not isinstance(process, subprocess.Popen) or process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll()
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        process.poll()  # so that it does not take the program for one that runs
        raise
    if ended is None:
        return None
    process.poll()  # what it says may be too late
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def environment(term: str, env: Mapping[str, str], mark: str, *, inherit: bool) -> dict[str, str]:
    """Return what the program finds in its environment; `env` has the last word.

    `COLUMNS` and `LINES` of ours are never in it: they are about our own terminal.
    """
    ours = {
        name: value
        for name, value in os.environ.items()
        if name not in _ABOUT_OUR_TERMINAL and (inherit or name in INHERITED or name.startswith("LC_"))
    }
    # A test of terminals may be under test itself: who started that one is to find what this one has left.
    outer = os.environ.get(MARK)
    return {**ours, "TERM": term, **env, MARK: f"{outer}:{mark}" if outer else mark}


def _in_the_child(ignored: Sequence[signal.Signals]) -> Callable[[], object]:
    """Return what the child does before it becomes the program.

    Only it can make the terminal its controlling one, and only after `setsid`. It is a copy of a process in which other
    threads may have held any lock, so no code of ours is run there, but a function in C. (`subprocess` forks by itself
    for that, without the warning of `os.fork` in a process with threads.)
    """
    take_terminal = functools.partial(fcntl.ioctl, 0, termios.TIOCSCTTY, 0)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    if not ignored and not blocked:
        return take_terminal
    steps: list[Callable[[], object]] = [
        take_terminal,
        *(functools.partial(signal.signal, number, signal.SIG_DFL) for number in ignored),
        functools.partial(signal.pthread_sigmask, signal.SIG_SETMASK, []),
    ]
    call: Callable[[Callable[[], object]], object] = operator.call
    return functools.partial(deque[object], map(call, steps))


def unserved(name: str, error: RuntimeError) -> TerminalTestError:
    """Return the error for when no thread can be started to serve a program."""
    return not_started(
        f"{name!r} was not started: there is no thread to be had for its terminal ({error}); {_TOO_MANY}", error
    )


def _why(
    error: OSError | subprocess.SubprocessError, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None
) -> str:
    name = argv[0]
    if not isinstance(error, OSError):
        return str(error)
    if cwd is not None and not os.access(cwd, os.X_OK):
        return f"the working directory {str(cwd)!r} cannot be entered ({error.strerror}); pass another `cwd`"
    match error.errno:
        case errno.ENOENT if "/" in name and (cwd or Path()).joinpath(name).exists():
            return "the interpreter named in its first line does not exist; correct that line"
        case errno.ENOENT if "/" in name:
            return f"there is no such file, seen from {str(cwd or Path.cwd())!r}; correct the path"
        case errno.ENOENT if " " in name:
            return "there is no such command; a command line is not split here: pass the arguments as `args`, or a list"
        case errno.ENOENT:
            return f"there is no such command in PATH ({env.get('PATH', os.defpath)}); install it, or pass its path"
        case errno.EACCES:
            return "it is not executable; pass another program, or set its mode (`chmod +x`)"
        case errno.ENOEXEC:
            return "it is neither a program nor a script with a first line like `#!/bin/sh`; pass it to its interpreter"
        case errno.E2BIG:
            return "its arguments and environment are too long; pass less"
        case errno.EMFILE | errno.ENFILE:
            return "too many files are open; dispose of terminals that are no longer needed, or raise `ulimit -n`"
        case errno.EAGAIN:
            return f"there are too many processes; {_TOO_MANY}"
        case _:
            return error.strerror or str(error)
