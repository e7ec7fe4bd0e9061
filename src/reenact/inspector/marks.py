"""What is known of a log in the background: whether its chain is whole, and whether today's code decides the same."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from reenact._location import LogLocation
from reenact._runtime import codec
from reenact.domain.errors import StorageError
from reenact.inspector.chain_marks import ChainMark, ChainMarks
from reenact.inspector.decision_marks import DecisionMark, DecisionMarks, SessionMark

LOOK: Final = 0.5
"""Seconds between two looks at a log in which nothing happens."""
NICE: Final = 10
"""What the thread leaves to others where processors are scarce, as `nice` has it: most of all, to whoever writes."""
FAILED: Final = 2.0
"""The same while it cannot be read."""
STROKE: Final = 0.004
"""Seconds of work after which the thread rests."""
SHARE: Final = 3
"""It rests so many times as long as it has worked: a quarter of a processor at most is left to it."""
PATIENCE: Final = 1.0
"""Seconds that it waits for pages at most: a page that takes long must not stop it for good."""
_SLICE = 0.25
"""Seconds that one of the two works before it is the other's turn."""
_logger = logging.getLogger("reenact.inspector")


class EndedError(Exception):
    """The work is to end."""


class Pace:
    """Slows down one thread for the sake of all others. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pages = 0
        self._is_ended = False
        self._since = time.monotonic()

    @contextmanager
    def page(self) -> Generator[None]:
        """Let the page go first that is made meanwhile."""
        with self._changed:
            self._pages += 1
        try:
            yield
        finally:
            with self._changed:
                self._pages -= 1
                self._changed.notify_all()

    def __call__(self) -> None:
        """Rest, if it is time for that.

        Raises:
            EndedError: the work is to end.
        """
        worked = time.monotonic() - self._since
        if worked < STROKE:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._is_ended, min(SHARE * worked, PATIENCE))
            self._changed.wait_for(lambda: self._is_ended or not self._pages, PATIENCE)
            self._must_go_on()
        self._since = time.monotonic()

    def rest(self, seconds: float) -> None:
        """Rest so long, unless the work is to end before; raises likewise."""
        with self._changed:
            self._must_go_on()
            self._changed.wait(seconds)
            self._must_go_on()
        self._since = time.monotonic()

    def end(self) -> None:
        """Have the work end. Idempotent."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def _must_go_on(self) -> None:
        if self._is_ended:
            raise EndedError


class Known(msgspec.Struct, frozen=True):
    """What was known at one moment; `problem` says why nobody can look now."""

    chain: ChainMark = ChainMark()
    decisions: DecisionMark = DecisionMark()
    problem: str = ""


class Marks:
    """Looks at the log on a thread of its own, slowly, and never while a page is made. Thread-safe."""

    def __init__(self, location: LogLocation) -> None:
        """Begin to look.

        Raises:
            StorageError: the log cannot be read.
        """
        self._pace = Pace()
        self._log = location.open(codec(), read_only=True)
        self._chain = ChainMarks(location.url, self._log, self._pace)
        self._decisions = DecisionMarks(self._log, self._pace)
        self._now = Known()
        self._thread = threading.Thread(target=self._run, name="reenact-inspector-marks", daemon=True)
        self._thread.start()

    def now(self) -> Known:
        """Return what is known now; it does not change any more."""
        return self._now

    def session(self, session_id: str) -> SessionMark | None:
        """Return what is known of the decisions of a session, None if nobody has looked yet; it is looked at soon."""
        self._decisions.ask(session_id)
        return self._decisions.mark_of(session_id)

    def is_current(self, mark: SessionMark, head: int) -> bool:
        """Return whether the session has no events up to that position which came after the mark."""
        return mark.until >= head or (self._now.chain.position >= head and self._decisions.is_done(mark.session_id))

    @contextmanager
    def page(self) -> Generator[None]:
        """Let a page be made meanwhile."""
        with self._pace.page():
            yield

    def close(self) -> None:
        """Look no more. Idempotent."""
        self._pace.end()
        self._thread.join()
        self._log.close()

    def _run(self) -> None:
        if sys.platform == "linux":  # elsewhere a thread has no priority of its own
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            while True:
                is_busy = self._turn()
                if not is_busy:
                    self._pace.rest(FAILED if self._now.problem else LOOK)
        except EndedError:
            return
        except Exception as error:
            _logger.exception("the log is not looked at any more")
            self._now = msgspec.structs.replace(self._now, problem=f"{type(error).__name__}: {error}")

    def _turn(self) -> bool:
        """Look for a while; return whether there is more to look at now."""
        problem, is_busy = "", False
        try:
            self._decisions.changed(self._chain.look(time.monotonic() + _SLICE))
            is_busy = self._decisions.look(time.monotonic() + _SLICE) or self._chain.is_busy
        except StorageError as error:
            problem = str(error)
        self._now = Known(self._chain.mark(), self._decisions.mark(), problem)
        return is_busy
