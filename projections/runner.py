"""Keeping the projections behind the log: at once for whoever waits, otherwise in batches that are worth it."""

from __future__ import annotations

import logging
import sys
import threading
import time
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from sqlalchemy import Engine

from reenact.domain.errors import RuntimeClosedError
from reenact.projections.errors import ProjectionFailedError, ReadModelBehindError, ReadModelError
from reenact.projections.log import Log
from reenact.projections.projection import Projection

LINGER: Final = 0.05
"""Seconds after which an event is projected that nobody has asked for."""

PLENTY: Final = 500
"""So many waiting events are projected without lingering."""

_NEVER: Final = sys.maxsize
_log: Final = logging.getLogger("reenact.projections")

Health: TypeAlias = Literal["running", "troubled", "stopped", "closed"]
"""`troubled`: the last try to read the log or to write the tables failed, the next may work; `stopped`: none will."""


class ProjectionRunner:
    """Projects the log on a thread of its own, and on the thread of anybody who waits.

    A waiter does not hand its wish over: it does the work itself, unless somebody is at it. That saves two changes of
    thread for each write that is read back.
    """

    def __init__(self, log: Log, engine: Engine, *, linger: float = LINGER) -> None:
        self._log = log
        self._linger = linger
        self._projection = Projection(log, engine)
        self._applying = threading.Lock()
        self._failure: ReadModelError | None = None
        self._closed = False
        self._seen = 0
        self._due = _NEVER  # the position from which on a notification wakes the thread
        self._wake = threading.Event()
        self._news = threading.Condition()
        self._expectant = 0  # how many wait for events that the log does not hold yet
        self._thread = threading.Thread(target=self._run, name="reenact-projections", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def position(self) -> int:
        """The position of the last event that is projected."""
        return self._projection.position

    @property
    def lag(self) -> int:
        """How many positions of the log are not projected yet, as far as was heard."""
        return max(0, self._seen - self.position)

    @property
    def health(self) -> Health:
        """How the projecting goes."""
        if self._closed:
            return "closed"
        if self._failure is None:
            return "running"
        return "stopped" if isinstance(self._failure, ProjectionFailedError) else "troubled"

    def start(self) -> None:
        """Start the thread; before, only those who wait or catch up move the projections on."""
        self._seen = max(self._seen, self._log.head())
        self._thread.start()

    def notify(self, position: int) -> None:
        """Hear that the log has reached the position. Costs next to nothing; called by one thread at a time."""
        self._seen = max(self._seen, position)
        if position >= self._due:
            self._due = _NEVER
            self._wake.set()
        if self._expectant:
            with self._news:
                self._news.notify_all()

    def wait_for(self, position: int, timeout: float) -> None:
        """Return once the projections hold everything up to the position.

        Raises:
            ProjectionFailedError: an event before it cannot be projected.
            ReadModelBehindError: it takes more than `timeout` seconds.
            ReadModelError: the log cannot be read, or the tables not be written.
            RuntimeClosedError: the runner is closed.
        """
        if position <= self._projection.position:
            return
        deadline = time.monotonic() + timeout
        while self._projection.position < position:
            if not self._applying.acquire(timeout=max(0.0, deadline - time.monotonic())):
                raise ReadModelBehindError(position, self._projection.position)
            try:
                moved = self._projection.position >= position or self._advance()
            finally:
                self._applying.release()
            if not moved:
                self._expect(position, deadline)
            elif time.monotonic() > deadline and self._projection.position < position:
                raise ReadModelBehindError(position, self._projection.position)

    def catch_up(self) -> None:
        """Project everything that the log holds now; raises what `wait_for` raises, but for the time."""
        moved = True
        while moved:
            with self._applying:
                moved = self._advance()

    def close(self) -> None:
        """End the thread and let go of the tables; what was not projected will be at the next opening. Idempotent."""
        self._closed = True
        self._wake.set()
        with self._news:
            self._news.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        with self._applying:
            self._projection.close(intact=self._failure is None)

    def _advance(self) -> bool:
        """Apply a batch; the caller holds `_applying`."""
        if self._closed:
            raise RuntimeClosedError("the runtime is closed; open it again to go on")
        if isinstance(self._failure, ProjectionFailedError):
            raise self._failure.again() from self._failure
        try:
            moved = self._projection.advance()
        except ReadModelError as error:
            self._failure = error
            raise
        self._failure = None
        return moved

    def _expect(self, position: int, deadline: float) -> None:
        with self._news:
            self._expectant += 1
            try:
                while self._seen < position and not self._closed:
                    remaining = deadline - time.monotonic()
                    if remaining <= 0:
                        raise ReadModelBehindError(position, self._projection.position)
                    self._news.wait(remaining)
            finally:
                self._expectant -= 1

    def _run(self) -> None:
        while self._rest():
            try:
                self._project_what_was_seen()
            except RuntimeClosedError:
                return
            except ProjectionFailedError:
                _log.exception("the projections have stopped")
                return
            except ReadModelError:
                _log.warning("the projections could not be moved on; trying again", exc_info=True)

    def _rest(self) -> bool:
        """Wait until there is something to do; return False when there will be nothing more."""
        if self._seen <= self._projection.position or self._failure is not None:
            self._sleep(self._projection.position + 1 if self._failure is None else self._seen + 1, None)
        if self._seen - self._projection.position < PLENTY:
            self._sleep(self._projection.position + PLENTY, self._linger)
        return not self._closed

    def _sleep(self, until: int, seconds: float | None) -> None:
        self._wake.clear()
        self._due = until
        if self._seen < until and not self._closed:  # a notification that came before `_due` was set did not wake
            self._wake.wait(seconds)
        self._due = _NEVER

    def _project_what_was_seen(self) -> None:
        seen = self._seen
        while self._projection.position < seen:
            with self._applying:
                if self._projection.position < seen and not self._advance():
                    return
