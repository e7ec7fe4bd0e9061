"""Closes resources that are still open when the program exits."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from reenact.domain.plain import seconds_of

PATIENCE = 5.0
"""Seconds that closing one resource may take at exit."""

_NAME = "reenact-at-exit"
_log = logging.getLogger("reenact.exit")


class AtExit:
    """Closes one resource on a thread of its own, within a time limit, and at exit if it is still open.

    Python calls the functions registered with `atexit` when all non-daemon threads have ended, and since 3.12 no thread
    can be started by then. So the thread is started here and waits; since it is a daemon, it can be abandoned.
    """

    def __init__(self, name: str, close: Callable[[], object], unfinished: Callable[[], Iterable[str]] = tuple) -> None:
        """Register the resource to be closed at exit.

        Args:
            name: the resource's name in log messages.
            close: closes the resource and calls `closed`. Idempotent.
            unfinished: returns the names of what delays closing, besides threads.
        """
        self.name = name
        self.close = close
        self._unfinished = unfinished
        self._process = os.getpid()
        self._to_be_closed = False
        self.has_failed = False
        """Whether it raised an exception when it was closed here, which is logged."""
        self._undecided = threading.Lock()  # taken once, by whoever decides first what the thread does
        self._decided = threading.Event()
        self._thread = threading.Thread(target=self._run, name=_NAME, daemon=True)
        self._thread.start()
        _listen_for_exit()
        _open.append(self)

    @property
    def is_the_parents(self) -> bool:
        """Whether this process is a fork of the one that opened the resource, and so must not close it."""
        return self._process != os.getpid()

    def closed(self) -> None:
        """Record that the resource is closed, so that nothing is done at exit. Idempotent."""
        with suppress(ValueError):
            _open.remove(self)
        if self._decide(close=False):  # otherwise the thread closes it, too, and may be waiting for this call to return
            self._thread.join()

    def close_within(self, seconds: float) -> bool:
        """Close the resource and return whether it closed in time; if not, abandon it and log what is still running.

        Raises:
            InvalidInputError: the seconds are not a number; nothing is closed.
        """
        limit = seconds_of(seconds)
        self._decide(close=True)
        self._thread.join(limit)
        if not self._thread.is_alive():
            return True
        left = ", ".join([*self._unfinished(), *_thread_names()])
        _log.warning("%s could not be closed within %g seconds; left running: %s", self.name, seconds, left)
        return False

    def _decide(self, *, close: bool) -> bool:
        """Let the thread close the resource, or end; return False if that was decided before."""
        if not self._undecided.acquire(blocking=False):
            return False
        self._to_be_closed = close
        self._decided.set()
        return True

    def _run(self) -> None:
        self._decided.wait()
        if self._to_be_closed:
            try:
                self.close()
            except Exception:  # noqa: BLE001 - there is no caller to report to
                self.has_failed = True
                _log.exception("%s could not be closed", self.name)


_open: Final[list[AtExit]] = []


@functools.cache
def _listen_for_exit() -> None:
    atexit.register(_close_all)
    os.register_at_fork(after_in_child=_open.clear)  # the parent process closes what it has opened


def _close_all() -> None:
    while _open:
        last = _open.pop()  # last opened, first closed: it may use resources that were opened before it
        if last.close_within(PATIENCE) and not last.has_failed:
            left = [] if _open else _thread_names()
            _log.warning(
                "%s was left open, and was closed at exit%s",
                last.name,
                f"; left running: {', '.join(left)}" if left else "",
            )


def _thread_names() -> list[str]:
    return [
        f"thread {thread.name}"
        for thread in threading.enumerate()
        if thread.name.startswith("reenact-") and thread.name != _NAME
    ]
