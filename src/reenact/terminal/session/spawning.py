"""Starts a program with its own controlling terminal; where possible with `posix_spawn`, which does not fork.

A child of `subprocess` without `fork` has no controlling terminal, since the child itself must acquire it after
`setsid`. On Linux the leader of a session acquires a terminal by opening it, and `posix_spawn` can do both. It cannot
change the directory, but a thread can have its own working directory, which the program inherits.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import msgspec

from reenact.terminal.errors import TerminalTestError, is_kit_error, not_possible, not_started

__tracebackhide__ = is_kit_error

_STANDARD = 3
_CLONE_FS = 0x200
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
"""Signals that have their defaults after a login, and would be ignored under `nohup` or after `&` in a script."""
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class ExitStatus(msgspec.Struct, frozen=True):
    """The exit code of a process that exited, or the signal that terminated it; the other one is None."""

    code: int | None = None
    signal: int | None = None

    @classmethod
    def of(cls, returncode: int) -> ExitStatus:
        """Return the status for a return code of `subprocess`, which is negative for a signal."""
        return cls(signal=-returncode) if returncode < 0 else cls(code=returncode)

    @property
    def success(self) -> bool:
        """Whether the process exited with code 0."""
        return self.code == 0

    def __str__(self) -> str:
        """Return the status in words: `exit code 2`, `SIGKILL`."""
        if self.signal is None:
            return f"exit code {self.code}"
        try:
            return signal.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"


class ForkNeededError(Exception):
    """`posix_spawn` cannot be used here; `fork` can."""


class SpawnedProcess:
    """A program that was started, with the part of `subprocess.Popen` that is needed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._returncode: int | None = None

    def poll(self) -> int | None:
        """Return None while the program runs, then its exit code, negative for a signal.

        Raises:
            ChildProcessError: it has ended, but another part of this process reaped it, so that its status is unknown.
        """
        if self._returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self._returncode


def spawn_without_fork(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> SpawnedProcess:
    """Start the program with `posix_spawn`.

    Raises:
        OSError: it cannot be started, or its directory cannot be entered.
        ForkNeededError: it cannot be started in this way.
    """
    if not sys.platform.startswith("linux"):
        raise ForkNeededError
    try:
        path = os.ttyname(terminal)
    except OSError as error:  # /dev/pts is not the kernel's, as in some sandboxes
        raise ForkNeededError from error
    start = functools.partial(_posix_spawn, tuple(argv), dict(env), _actions(path))
    return SpawnedProcess(start() if cwd is None else _in_directory(cwd, start))


def _posix_spawn(argv: tuple[str, ...], env: dict[str, str], actions: list[tuple[object, ...]]) -> int:
    """Start the first program of that name in PATH."""
    name = argv[0]
    path = name if "/" in name else shutil.which(name, path=os.pathsep.join(os.get_exec_path(env)))
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    defaults = (*_FROM_TERMINALS, *_IGNORED_BY_PYTHON)
    return os.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=defaults)


def _actions(path: str) -> list[tuple[object, ...]]:
    """Return the file actions of the child: open the terminal, which makes it controlling, and close all else."""
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
    except OSError:  # closed meanwhile, like the one used for listing
        return False


def _in_directory(cwd: Path, start: Callable[[], int]) -> int:
    """Call the function on a thread with this working directory."""

    def run() -> int:
        _unshare_directory()
        os.chdir(cwd)
        return start()

    with ThreadPoolExecutor(1, "reenact-terminal-start") as thread:
        return thread.submit(run).result()


def _unshare_directory() -> None:
    unshare = getattr(ctypes.CDLL(None), "unshare", None)
    if unshare is None or unshare(_CLONE_FS) != 0:
        raise ForkNeededError


MARK = "REENACT_TERMINAL"
"""The variable that identifies descendants that have left the session; it is in every environment."""
_ABOUT_OUR_TERMINAL = ("COLUMNS", "LINES")


class Process(Protocol):
    """The interface of a program that was started; `subprocess.Popen` has it.

    The status of a `Popen` is read from the kernel: `Popen` itself reports 0 if another part of the process has reaped
    the program. Other implementations are trusted; their `poll` may raise `ChildProcessError` in that case.
    """

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    def poll(self) -> int | None:
        """Return None while the program runs, then its exit code, negative for a signal."""
        ...


class Spawner(Protocol):
    """Starts a program.

    The program must be the leader of its own session, with the descriptor `terminal`, which is open until the call
    returns, as its standard input, output and error, and as its controlling terminal.
    """

    def __call__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Process:
        """Start the program, or raise an `OSError`."""
        ...


def spawn(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Process:
    """Start the program as a child process.

    Raises:
        OSError: it cannot be started.
        TerminalTestError: this process ignores SIGCHLD, so that the exit status would be lost (`PROCESS_START_FAILED`).
    """
    refuse_without_status(argv[0])
    try:
        return spawn_without_fork(argv, env, cwd, terminal)
    except ForkNeededError:
        return subprocess.Popen(  # noqa: S603 - the caller chooses what is run
            argv,
            env=env,
            cwd=cwd,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=_prepare_child,  # noqa: PLW1509 - see there
        )


def refuse_without_status(name: str) -> None:
    """Check that this process will be told how a program ends.

    Raises:
        TerminalTestError: it ignores SIGCHLD, so that the exit status would be lost (`PROCESS_START_FAILED`).
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        raise not_started(
            f"{name!r} was not started: this process ignores SIGCHLD, and would not be told how the program ends; "
            "call `signal.signal(signal.SIGCHLD, signal.SIG_DFL)` before"
        )


START_ERRORS = (OSError, subprocess.SubprocessError)
"""The errors of a program that cannot be started."""


def start_error(error: Exception, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None) -> TerminalTestError:
    """Return the error that the program cannot be started, which says why and what to do (`PROCESS_START_FAILED`)."""
    # The frames of the standard library in between say no more.
    return not_started(f"{argv[0]!r} was not started: {_reason(error, argv, env, cwd)}", error.with_traceback(None))


STATUS_LOST = "it is not known how: something else in this process, as a handler of SIGCHLD, took note of its end first"


def lost_status_error(name: str, seen: str) -> TerminalTestError:
    """Return the error that the program has ended, but not how is known (`SCRIPT_EXECUTION_ERROR`)."""
    return not_possible(
        f"{name!r} has ended, {STATUS_LOST}; have that wait for its own processes only",
        seen=seen,
    )


def returncode(process: Process) -> int | None:
    """Return None while the program runs, then its exit code, negative for a signal; reap it.

    Raises:
        ChildProcessError: it has ended, but another part of this process reaped it, so that its status is unknown.
    """
    if not isinstance(process, subprocess.Popen) or process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll()
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        process.poll()  # so that `Popen` does not take it for running
        raise
    if ended is None:
        return None
    process.poll()  # reaps it; its own result may be wrong
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def inherited(*names: str) -> dict[str, str]:
    """Return these variables of our environment, and those that begin with `LC_`."""
    return {name: value for name, value in os.environ.items() if name in names or name.startswith("LC_")}


def environment(term: str, env: Mapping[str, str], mark: str, *, inherit: bool) -> dict[str, str]:
    """Return the environment of the program; `env` takes precedence.

    Our `COLUMNS` and `LINES` are never included: they describe our own terminal.
    """
    ours = inherited("PATH", "LANG", "HOME", "TMPDIR")
    if inherit:
        ours = {name: value for name, value in os.environ.items() if name not in _ABOUT_OUR_TERMINAL}
    # A terminal test may itself be under test: the outer one must find the processes that the inner one leaves.
    outer = os.environ.get(MARK)
    return {**ours, "TERM": term, **env, MARK: f"{outer}:{mark}" if outer else mark}


def _prepare_child() -> None:
    """Make the terminal the controlling one, and let no signal be ignored or blocked.

    This runs in the child, which is a fork, before the program: only the child can take the terminal, after `setsid`.
    It takes no lock, since another thread may have held any at the fork. (`subprocess` forks for this itself, without
    the warning of `os.fork` in a multi-threaded process.)
    """
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in _FROM_TERMINALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _reason(error: Exception, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None) -> str:
    name = argv[0]
    if cwd is not None and not cwd.is_dir():
        what = "is not a directory" if cwd.exists() else "does not exist"
        return f"the working directory {str(cwd)!r} {what}; create it, or pass another `cwd`"
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
            return "there are too many processes; dispose of terminals that are no longer needed, or raise `ulimit -u`"
        case _:
            return error.strerror or str(error)
