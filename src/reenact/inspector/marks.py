"""Background checks of a log: whether its hash chain is intact, and whether the present code decides the same."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import suppress
from typing import Final

import msgspec

from reenact._location import LogLocation
from reenact._runtime import codec
from reenact.domain.errors import StorageError
from reenact.inspector.chain_marks import ChainMark, ChainMarks
from reenact.inspector.decision_marks import DecisionMark, DecisionMarks, SessionMark

LOOK: Final = 0.5
"""Seconds between two checks of a log in which nothing happens."""
NICE: Final = 10
"""The thread's nice value, so that other threads, above all writers, come first where processors are scarce."""
FAILED: Final = 2.0
"""Seconds between two checks while the log cannot be read."""
SLICE: Final = 0.004
"""Seconds of work after which the thread rests."""
LONGEST: Final = 1.0
"""The most seconds that it rests."""
SHARE: Final = 3
"""The thread rests this many times as long as it has worked, so it takes at most a quarter of a processor."""
_TURN = 0.25
"""Seconds that one of the two checks runs before the other."""
_logger = logging.getLogger("reenact.inspector")


class EndedError(Exception):
    """The work is to end."""


class Pace:
    """Slows down one thread in favour of all others. Thread-safe."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._since = time.monotonic()

    def __call__(self) -> None:
        """Rest, if the thread has worked long enough.

        Raises:
            EndedError: the work is to end.
        """
        worked = time.monotonic() - self._since
        if worked >= SLICE:
            self.rest(min(SHARE * worked, LONGEST))

    def rest(self, seconds: float) -> None:
        """Rest for this time, unless the work is to end before; raises as a call does."""
        if self._ended.wait(seconds):
            raise EndedError
        self._since = time.monotonic()

    def end(self) -> None:
        """End the work. Idempotent."""
        self._ended.set()


class CheckResults(msgspec.Struct, frozen=True):
    """The results at one moment; `problem` is the reason for which the log cannot be checked now."""

    chain: ChainMark = ChainMark()
    decisions: DecisionMark = DecisionMark()
    problem: str = ""


class Marks:
    """Checks the log on a thread of its own, slowly. Thread-safe."""

    def __init__(self, location: LogLocation) -> None:
        """Begin to check.

        Raises:
            StorageError: the log cannot be read.
        """
        self._pace = Pace()
        self._log = location.open(codec(), read_only=True)
        self._chain = ChainMarks(location.url, self._log, self._pace)
        self._decisions = DecisionMarks(self._log, self._pace)
        self._now = CheckResults()
        self._thread = threading.Thread(target=self._run, name="reenact-inspector-marks", daemon=True)
        self._thread.start()

    def now(self) -> CheckResults:
        """Return the present results, which do not change any more."""
        return self._now

    def session(self, session_id: str) -> SessionMark | None:
        """Return the mark of a session's decisions, or None if it has none yet; the session is checked soon."""
        self._decisions.prioritize(session_id)
        return self._decisions.mark_of(session_id)

    def is_current(self, mark: SessionMark, head: int) -> bool:
        """Return whether the mark includes all of the session's events up to that position."""
        return mark.until >= head or (self._now.chain.position >= head and self._decisions.is_done(mark.session_id))

    def close(self) -> None:
        """Stop checking. Idempotent."""
        self._pace.end()
        self._thread.join()
        self._log.close()

    def _run(self) -> None:
        if sys.platform == "linux":  # elsewhere threads have no priorities of their own
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            while True:
                is_busy = self._check()
                if not is_busy:
                    self._pace.rest(FAILED if self._now.problem else LOOK)
        except EndedError:
            return
        except Exception as error:
            _logger.exception("the log is not looked at any more")
            self._now = msgspec.structs.replace(self._now, problem=f"{type(error).__name__}: {error}")

    def _check(self) -> bool:
        """Check for a while; return whether there is more to check now."""
        problem, is_busy = "", False
        try:
            self._decisions.changed(self._chain.advance(time.monotonic() + _TURN))
            is_busy = self._decisions.advance(time.monotonic() + _TURN) or self._chain.is_busy
        except StorageError as error:
            problem = str(error)
        self._now = CheckResults(self._chain.mark(), self._decisions.mark(), problem)
        return is_busy
