"""Making tables anew beside those that are read, and putting them in their place at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from reenact.domain.errors import RuntimeClosedError, StorageError
from reenact.projections.audit.api import OnProgress, Progress
from reenact.projections.errors import ProjectionFailedError, ReadModelError, in_words
from reenact.projections.log import Log
from reenact.projections.runner import FOR_GOOD, GRACE, PAUSES, Moving

NEAR: Final = 1000
"""So many positions behind the log's end, tables are near enough to stop the live ones for the rest."""

ROUNDS: Final = 8
"""How often the end of the log is gone after; then the live ones are stopped however far it is."""

_log: Final = logging.getLogger("reenact.projections")


class Successor(Moving, Protocol):
    """Tables that are being made, to be read in place of others."""

    def take_over(self) -> None:
        """Be what is read from now on, after a crash too; what raises has changed nothing."""
        ...

    def discard(self) -> None:
        """Let go of the tables, and delete them. Idempotent."""
        ...


Made = TypeVar("Made", bound=Successor)


class Rebuilder(Generic[Made]):
    """Makes the tables of one projection anew: one rebuilding at a time, on the thread of whoever asks for it.

    What was cut short, by a crash or by closing, is gone on with at the next time.
    """

    def __init__(
        self,
        name: str,
        log: Log,
        begin: Callable[[], Made],
        finish: Callable[[Made], None],
        tidy: Callable[[], object] = lambda: None,
    ) -> None:
        """Take what makes new tables, or finds those that were begun; what puts them in place; what clears up then."""
        self._name = name
        self._log = log
        self._begin = begin
        self._finish = finish
        self._tidy = tidy
        self._working = threading.RLock()
        self._closing = threading.Event()
        self._job: threading.Thread | None = None
        self._finished = 0
        self._is_under_way = False
        self.progress: Progress | None = None
        """How far a rebuilding has come, if there is one."""
        self.failure: ReadModelError | None = None
        """Why the last one in the background is troubled, or has stopped."""

    def run(self, report: OnProgress | None = None) -> None:
        """Rebuild; if somebody is at it, and has not swapped yet, wait for that.

        Raises:
            ProjectionFailedError: an event cannot be projected; the new tables are given up.
            ReadModelError: the log cannot be read, or the tables not be written.
            RuntimeClosedError: the projections are closed.
        """
        finished, is_under_way = self._finished, self._is_under_way
        with self._working:
            if not is_under_way or self._finished == finished:
                self._rebuild(report)
                self._tidy()

    def start(self) -> None:
        """Rebuild on a thread of its own, however often that takes."""
        self.failure = None
        self._job = threading.Thread(target=self._insist, name=f"reenact-rebuild-{self._name}", daemon=True)
        self._job.start()

    def waits_in_vain(self, seconds: float) -> bool:
        """Wait so long, and return whether it is to end."""
        return self._closing.wait(seconds)

    def end(self) -> None:
        """Have a rebuilding end, to be gone on with later; return at once. Idempotent."""
        self._closing.set()

    def close(self, until: float | None = None) -> None:
        """Have a rebuilding end, to be gone on with later, and wait until it has. Idempotent.

        Waits until this moment of the monotonic clock, by itself for `GRACE`; then it is left to end when it does.
        """
        self.end()
        until = time.monotonic() + GRACE if until is None else until
        if self._working.acquire(timeout=max(0.0, until - time.monotonic())):
            self._working.release()
        if self._job is not None and self._job is not threading.current_thread():
            self._job.join(max(0.0, until - time.monotonic()))

    def _rebuild(self, report: OnProgress | None) -> None:
        def tell(done: int, total: int) -> None:
            self.progress = Progress(self._name, done, total)
            if report is not None:
                report(self.progress)

        self._refuse_if_closing()
        self._is_under_way = True
        try:
            successor = self._begin()
            try:
                self._fill(successor, tell)
                self._finish(successor)
            except ProjectionFailedError:
                successor.discard()
                raise
            except BaseException:
                successor.close(intact=True)
                raise
            self._finished += 1
            self.failure = None
        finally:
            self._is_under_way = False
            self.progress = None

    def _fill(self, successor: Successor, tell: Callable[[int, int], None]) -> None:
        """Bring the tables near the end of the log."""
        for _ in range(ROUNDS):
            goal = _head(self._log)
            tell(min(successor.position, goal), goal)
            while successor.position < goal:
                self._refuse_if_closing()
                if not successor.advance():
                    break
                tell(min(successor.position, goal), goal)
            if _head(self._log) - successor.position <= NEAR:
                return

    def _refuse_if_closing(self) -> None:
        if self._closing.is_set():
            raise RuntimeClosedError("the projections are closed; a rebuilding goes on when they are opened again")

    def _insist(self) -> None:
        pause, finished = PAUSES[0], self._finished
        while self._finished == finished and not self._closing.is_set():
            try:
                self.run()
            except FOR_GOOD as error:
                self.failure = error
                _log.exception("the tables of %r could not be made anew", self._name)
                return
            except BaseException as error:  # noqa: BLE001 - a thread that ends would end in silence
                if self._closing.is_set():
                    return
                if self.failure is None:
                    _log.warning("the tables of %r could not be made anew; trying again", self._name, exc_info=True)
                if not isinstance(error, ReadModelError):
                    error = ReadModelError(f"the tables cannot be made anew: {in_words(error)}")
                self.failure = error
                self._closing.wait(pause)
                pause = min(2 * pause, PAUSES[1])


def _head(log: Log) -> int:
    try:
        return log.head()
    except StorageError as error:
        raise ReadModelError(f"the log cannot be read: {error}") from error
