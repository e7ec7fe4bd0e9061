"""Signal handling: Ctrl+C interrupts an answer before it ends the command, and a request to end cleans up first."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

from reenact.cli.output.failures import ExitCode, TerminatedError
from reenact.cli.output.logs import open_privately

_REQUESTS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_ALL = (signal.SIGINT, *_REQUESTS)
_ignored_until_exit: Final[set[int]] = set()
"""Signals that stay ignored because the process is ending."""
_left_ignored: Final[set[int]] = set()
"""Requests to end that the command was started to ignore, as `nohup` does; they stay ignored."""
_patience: Final[list[float]] = []
"""Seconds after a request to end after which the process is killed; empty if there is no limit."""


def kill_if_stuck(errors: Path, *, seconds: float = 30.0) -> None:
    """Kill the process if it still runs this many seconds after a request to end, whatever it is waiting for.

    The stack of each thread is appended to the file `errors` then. Off the main thread this function does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return

    def give_up(_number: int, _frame: FrameType | None) -> None:
        with suppress(OSError):
            errors.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open_privately(errors) as file:
                print(f"{seconds:g} s after it was asked to end, the process has not:", file=file, flush=True)
                faulthandler.dump_traceback(file)
        os._exit(ExitCode.TERMINATED)

    signal.signal(signal.SIGALRM, give_up)
    _patience[:] = [seconds]


def _start_kill_timer() -> None:
    for seconds in _patience:
        signal.setitimer(signal.ITIMER_REAL, seconds)


@contextmanager
def ending_on_request() -> Generator[None]:
    r"""Raise `TerminatedError` at the first request to end, so that turns are ended and the terminal is restored.

    Later requests are ignored, except SIGQUIT (Ctrl+\), which ends the process at once. SIGHUP is none under `nohup`.
    """

    def end(asked: int, _frame: FrameType | None) -> None:
        _start_kill_timer()
        for number in _REQUESTS:
            signal.signal(number, signal.SIG_DFL if number == signal.SIGQUIT else signal.SIG_IGN)
        raise TerminatedError(ExitCode.QUIT if asked == signal.SIGQUIT else ExitCode.TERMINATED)

    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        _left_ignored.add(signal.SIGHUP)
    try:
        with _handling(end, *_REQUESTS):
            yield
    finally:
        _left_ignored.clear()


@contextmanager
def keeping_exit_statuses() -> Generator[None]:
    """Let the kernel keep the exit codes of programs, also if the command was started with SIGCHLD ignored.

    Otherwise all of them would be 0, also that with which a hook refuses.
    """
    if signal.getsignal(signal.SIGCHLD) is not signal.SIG_IGN:
        yield
        return
    with _handling(signal.SIG_DFL, signal.SIGCHLD):
        yield


@contextmanager
def interrupting(interrupt: Callable[[], object]) -> Generator[None]:
    """Call `interrupt` at the first Ctrl+C, whatever is running then, and raise `KeyboardInterrupt` at the second."""

    def first(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupt()

    with _handling(first, signal.SIGINT):
        yield


def interrupt_once() -> bool:
    """Trigger a first Ctrl+C from any thread and return True; after one, do nothing, since a second one ends more."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return False
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    return True


@contextmanager
def deferring_end_requests(leave: Callable[[], object]) -> Generator[None]:
    """Call `leave` at a request to end, to end the block; the previous handler gets the signal after the block.

    Made for blocks that run an event loop: the loop would attribute an exception to the callback in which it is raised.
    """
    asked: list[int] = []

    def hold_back(number: int, _frame: FrameType | None) -> None:
        _start_kill_timer()
        asked.append(number)
        leave()

    try:
        with _handling(hold_back, *_REQUESTS):
            yield
    finally:
        if asked:
            signal.raise_signal(asked[0])


@contextmanager
def stopping() -> Generator[Callable[[float], bool]]:
    """Yield a function that waits up to that many seconds for Ctrl+C or a request to end, and returns whether one came.

    Later signals are ignored until the process ends: they may arrive faster than a handler returns, and each would
    interrupt the handler of the one before.
    """
    # The handler may run while this same thread waits. The lock of an `Event` would be held then; a SimpleQueue is
    # reentrant.
    asked: SimpleQueue[None] = SimpleQueue()

    def end(_signal: int, _frame: FrameType | None) -> None:
        _ignored_until_exit.update(_ALL)
        for number in _ALL:
            signal.signal(number, signal.SIG_IGN)
        asked.put(None)

    def is_asked(seconds: float) -> bool:
        try:
            asked.get(timeout=seconds)
        except Empty:
            return False
        return True

    with _handling(end, *_ALL):
        yield is_asked


@contextmanager
def cleaning_up(leave: Callable[[], object] = lambda: None) -> Generator[None]:
    """Protect the clean-up in the block from signals: a signal ends the process at once, which the log survives.

    `leave` is called just before the process ends.
    """

    def end(number: int, _frame: FrameType | None) -> None:
        leave()
        os._exit(128 + number)

    with _handling(end, *_ALL):
        yield


@contextmanager
def around_suspension(leave: Callable[[], object], come_back: Callable[[], object]) -> Generator[None]:
    """Call `leave` before Ctrl+Z stops the process, and `come_back` when it continues, whatever stopped it.

    When nested, the inner `leave` runs before the outer one, and the inner `come_back` after the outer one.
    """
    outer_stop, outer_go_on = signal.getsignal(signal.SIGTSTP), signal.getsignal(signal.SIGCONT)

    def stop(number: int, frame: FrameType | None) -> None:
        leave()
        try:
            if callable(outer_stop):
                outer_stop(number, frame)
            else:
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)  # the process stops here, and continues from here
        finally:
            signal.signal(number, stop)
            come_back()

    def go_on(number: int, frame: FrameType | None) -> None:
        if callable(outer_go_on):
            outer_go_on(number, frame)
        come_back()

    with _handling(stop, signal.SIGTSTP), _handling(go_on, signal.SIGCONT):
        yield


@contextmanager
def ignoring_interrupts() -> Generator[None]:
    """Ignore Ctrl+C while another program uses the terminal and an event loop of ours waits for that program."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waking = signal.set_wakeup_fd(-1)  # an event loop learns of signals by it, whatever their handlers
    try:
        with _handling(lambda _signal, _frame: None, signal.SIGINT):
            yield
    finally:
        signal.set_wakeup_fd(waking)


@contextmanager
def _handling(
    act: Callable[[int, FrameType | None], object] | signal.Handlers, *numbers: signal.Signals
) -> Generator[None]:
    """Install the handler for these signals during the block; signals that are ignored for good stay ignored.

    Python allows this in the main thread only; in other threads nothing is installed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, act) for number in numbers if number not in _left_ignored}
    try:
        yield
    finally:
        for number in before.keys() - _ignored_until_exit:
            signal.signal(number, before[number])
