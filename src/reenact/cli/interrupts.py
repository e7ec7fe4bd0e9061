"""Signals: Ctrl+C ends an answer before it ends the command, and a request to end is obeyed with clean hands."""

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
_over: Final[set[int]] = set()
"""Signals that mean nothing any more, since the process is ending."""
_patience: Final[list[float]] = []
"""Seconds that the process has for its end when one is requested, if it is to have no more."""


def end_in_time(errors: Path, *, patience: float = 30.0) -> None:
    """From now on, end the process so many seconds after a request to end, whatever it waits for.

    What each thread did then is added to the file `errors`. Nothing is done off the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return

    def give_up(_number: int, _frame: FrameType | None) -> None:
        with suppress(OSError):
            errors.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open_privately(errors) as file:
                print(f"{patience:g} s after it was asked to end, the process has not:", file=file, flush=True)
                faulthandler.dump_traceback(file)
        os._exit(ExitCode.TERMINATED)

    signal.signal(signal.SIGALRM, give_up)
    _patience[:] = [patience]


def _begin_to_end() -> None:
    for seconds in _patience:
        signal.setitimer(signal.ITIMER_REAL, seconds)


@contextmanager
def ending_on_request() -> Generator[None]:
    r"""Let a request to end come as `TerminatedError`, once, so that turns are ended and the terminal is restored.

    After that only SIGQUIT (Ctrl+\) is one still: it ends the process at once.
    """

    def end(asked: int, _frame: FrameType | None) -> None:
        _begin_to_end()
        for number in _REQUESTS:
            signal.signal(number, signal.SIG_DFL if number == signal.SIGQUIT else signal.SIG_IGN)
        raise TerminatedError(ExitCode.QUIT if asked == signal.SIGQUIT else ExitCode.TERMINATED)

    with _handling(end, *_REQUESTS):
        yield


@contextmanager
def interrupting(interrupt: Callable[[], object]) -> Generator[None]:
    """Let the first Ctrl+C call `interrupt`, in the middle of anything, and the second raise `KeyboardInterrupt`."""

    def first(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupt()

    with _handling(first, signal.SIGINT):
        yield


def interrupt_once() -> bool:
    """Do, from any thread, what a first Ctrl+C does, and return True; do nothing after one, which would end more."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return False
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    return True


@contextmanager
def leaving_first(leave: Callable[[], object]) -> Generator[None]:
    """Let a request to end call `leave`, which ends what is done here; who handled requests before gets it then.

    For the inside of an event loop, which would take an exception for that of whatever callback it is raised in.
    """
    asked: list[int] = []

    def hold_back(number: int, _frame: FrameType | None) -> None:
        _begin_to_end()
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
    """Yield what waits so many seconds for the first of Ctrl+C and the requests to end, and returns whether one came.

    Later ones are ignored, to the end of the process: they may come faster than a handler ends, which would be
    interrupted by the next one, and so on.
    """
    # A handler may run while this very thread waits. The lock of an `Event` would be held then; this queue has none.
    asked: SimpleQueue[None] = SimpleQueue()

    def end(_signal: int, _frame: FrameType | None) -> None:
        _over.update(_ALL)
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
def doing_whole() -> Generator[Callable[[Callable[[], object]], None]]:
    """Yield what does something without letting Ctrl+C or a request to end in between: that is obeyed when it is done.

    A second one is obeyed at once: what waits for ever ends so.
    """
    before = {number: signal.getsignal(number) for number in _ALL}
    asked: list[int] = []
    is_busy = False

    def hear(number: int, frame: FrameType | None) -> None:
        if is_busy and not asked:
            asked.append(number)
        else:
            obey(number, frame)

    def obey(number: int, frame: FrameType | None) -> None:
        act = before[signal.Signals(number)]
        if callable(act):
            act(number, frame)

    def do(act: Callable[[], object]) -> None:
        nonlocal is_busy
        is_busy = True
        try:
            act()
        finally:
            is_busy = False
        if asked:
            obey(asked.pop(), None)

    with _handling(hear, *_ALL):
        yield do


@contextmanager
def cleaning_up(leave: Callable[[], object] = lambda: None) -> Generator[None]:
    """Let nothing stop half-way what is done here: who cannot wait, ends the process, which the log survives.

    `leave` is called before that.
    """

    def end(number: int, _frame: FrameType | None) -> None:
        leave()
        os._exit(128 + number)

    with _handling(end, *_ALL):
        yield


@contextmanager
def around_stops(leave: Callable[[], object], come_back: Callable[[], object]) -> Generator[None]:
    """Let `leave` be called before Ctrl+Z stops the process, and `come_back` when it goes on, whatever stopped it.

    Further in, this is done before whoever handles that further out leaves, and after they have come back.
    """
    outer_stop, outer_go_on = signal.getsignal(signal.SIGTSTP), signal.getsignal(signal.SIGCONT)

    def stop(number: int, frame: FrameType | None) -> None:
        leave()
        try:
            if callable(outer_stop):
                outer_stop(number, frame)
            else:
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)  # here it stops, and from here it goes on
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
def interrupts_are_for_others() -> Generator[None]:
    """Let Ctrl+C do nothing here, for inside an event loop: another program has the terminal, and is waited for."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waking = signal.set_wakeup_fd(-1)  # by which an event loop hears of signals whoever handles them
    try:
        with _handling(lambda _signal, _frame: None, signal.SIGINT):
            yield
    finally:
        signal.set_wakeup_fd(waking)


@contextmanager
def _handling(act: Callable[[int, FrameType | None], object], *numbers: signal.Signals) -> Generator[None]:
    """Act on signals in this way; Python lets only the main thread decide on that. What is ignored by now stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, act) for number in numbers}
    try:
        yield
    finally:
        for number in before.keys() - _over:
            signal.signal(number, before[number])
