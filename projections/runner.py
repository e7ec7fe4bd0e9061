"""Runs a projection: on demand for readers who wait, otherwise when the log is idle, with a limited lag."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import ClassVar, Self

import msgspec

from reenact.domain.errors import LogEncryptedError, RuntimeClosedError, StorageError, WrongKeyError
from reenact.projections.errors import (
    ProjectionFailedError,
    ProjectionReplacedError,
    ReadModelBehindError,
    ReadModelError,
    error_text,
)
from reenact.projections.generations import Health
from reenact.projections.log import Log, Row

PAUSES = 0.25, 5.0
"""The pauses in seconds before a failed attempt is repeated: the first, and the greatest; each failure doubles it."""

HELP = 6.0
"""A waiter with less time left, in seconds, does not help: waiting for a locked file may take nearly as long."""

MOMENT = 0.25
"""The time in seconds after which a transaction takes no further event."""

LOOK = 1.0
"""The interval in seconds of checking which process is the leader, and how far another leader has come."""

SOON = 0.1
"""The interval in seconds of checking another leader's progress while somebody waits for a position."""

GRACE = 1.0
"""How long closing waits for work under way, in seconds."""

PERMANENT_ERRORS = (ProjectionFailedError, ProjectionReplacedError)
"""Errors that do not disappear when the work is tried again."""

_NEVER = sys.maxsize
_log = logging.getLogger("reenact.projections")


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """When events are projected that nobody waits for: at the first of these conditions."""

    idle: float = 0.05
    """The time in seconds for which nothing was written to the log."""
    seconds: float = 1.0
    """The age in seconds of the oldest such event."""
    events: int = 2000
    """The number of such events."""


PACE = Pace()


class ProjectionTables:
    """Tables that are moved along the log, batch by batch. Used by one thread at a time."""

    batch: ClassVar[int]
    """The number of events in one transaction."""

    def __init__(self, log: Log, number: int) -> None:
        self._log = log
        self.number: int = number
        """The number of the generation."""
        self.position = 0
        """The position of the last event in the tables."""

    def advance(self, limit: int | None = None) -> bool:
        """Apply up to `limit` further events of the log, a batch if it is None; return whether there were any.

        Fewer are applied if they take long. A function that does not return blocks the call.

        Raises:
            LogEncryptedError, WrongKeyError: the log has no key ring here, or the wrong one.
            ProjectionFailedError: an event cannot be projected; all before it are.
            ProjectionReplacedError: another process has replaced the tables by another version.
            ReadModelError: the log cannot be read, or the tables cannot be written; a later attempt may succeed.
            RuntimeClosedError: the projections are closed.
        """
        self._refuse_if_closing()
        try:
            rows = self._log.read_all(after=self.position, limit=self.batch if limit is None else limit)
        except (LogEncryptedError, WrongKeyError):
            raise
        except StorageError as error:
            raise ReadModelError(f"the log cannot be read: {error}") from error
        if not rows:
            return False
        try:
            self._apply(rows)
        except ReadModelError:
            raise
        except Exception:  # noqa: BLE001 - any error of a projector: find the event that causes it
            self._apply_singly(rows)
        return True

    def close(self, *, intact: bool) -> None:
        """Close the tables, recording whether they are intact. Idempotent."""
        raise NotImplementedError

    def follow(self) -> bool:
        """Continue with the tables with which another process has replaced these; return whether there are any."""
        return False

    def adopt_position(self) -> None:
        """Take over the position to which another process has moved the tables.

        Raises:
            ProjectionReplacedError: it has replaced the tables by another version.
            ReadModelError: the tables cannot be read, or the other process has stopped.
        """

    def _apply(self, rows: Sequence[Row]) -> None:
        """Apply as many of the rows as time allows, at least one, in one transaction."""
        raise NotImplementedError

    def _apply_singly(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.position <= self.position:
                continue  # another process has applied it meanwhile
            self._refuse_if_closing()
            try:
                self._apply([row])
            except ReadModelError:
                raise
            except Exception as error:
                raise self._failed(row, error) from error

    def _refuse_if_closing(self) -> None:
        """Raise if no further event may be applied."""

    def _failed(self, row: Row, error: Exception) -> ProjectionFailedError:
        return ProjectionFailedError(row.position, row.stream, type(row.event).__name__, error_text(error))


class Runner:
    """Projects the log on a thread of its own, and on the threads of waiters, if these are to help.

    A waiter that helps does the work itself, unless another thread is doing it. That saves two thread switches for each
    write that is read back. Waiters must not help if a projector may never return.

    If several processes maintain the same tables, one of them is the leader. The threads of the others only check how
    far it has come, and project what their waiters need, if those may help.
    """

    def __init__(
        self,
        log: Log,
        projection: ProjectionTables,
        *,
        pace: Pace = PACE,
        look: float | None = None,
        name: str = "reenact-projections",
        is_helped: bool = True,
        is_leader: Callable[[], bool] | None = None,
    ) -> None:
        """Take the tables to move.

        Args:
            log: the log to read.
            projection: the tables; they are closed with the runner.
            pace: how far they may be behind the log.
            look: the interval in seconds of checking the log for new events; None if `notify` is called.
            name: the name of the thread.
            is_helped: whether waiters do work, too.
            is_leader: whether this process projects events without a request; the answer may change at any time. None:
                always.
        """
        # `_applying` is held by the thread that moves the tables: the runner's thread, or a waiter that helps. Only
        # that thread may use or replace `_projection`. All other fields are written without a lock: `notify` sets
        # `_seen` before it wakes the thread, and the thread clears `_wake` before it reads `_seen` again, so that no
        # position is missed. `_waiters` protects no data; waiters sleep on it, and check the position again whenever it
        # is notified.
        self._log = log
        self._pace = pace
        self._look_after = look
        self._is_helped = is_helped
        self._is_leader = is_leader
        self._was_leader = is_leader is None
        self._projection = projection
        self._applying = threading.Lock()
        self._failure: ReadModelError | None = None
        self._pause = 0.0
        self._missed = False
        self._is_waited_for = False  # somebody waits for the thread
        self._closed = False
        self._is_abandoned = False  # closing has given up waiting for work under way
        self._failures = 0
        self._seen = 0
        self._wake_position = _NEVER  # the position from which a notification wakes the thread
        self._wake = threading.Event()
        self._waiters = threading.Condition()
        self._waiter_count = 0  # how many threads wait for a position
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def number(self) -> int:
        """The number of the generation that it moves."""
        return self._projection.number

    @property
    def position(self) -> int:
        """The position of the last projected event."""
        return self._projection.position

    @property
    def lag(self) -> int:
        """The number of positions that are not projected yet, as far as the runner was notified."""
        return max(0, self._seen - self.position)

    @property
    def health(self) -> Health:
        """The health of the projection."""
        if self._closed:
            return "closed"
        if self._failure is None:
            return "running"
        return "stopped" if isinstance(self._failure, PERMANENT_ERRORS) else "troubled"

    @property
    def failure(self) -> ReadModelError | None:
        """The error that has troubled or stopped it."""
        return self._failure

    def start(self) -> None:
        """Start the thread; before that, only waiters and `catch_up` move the tables."""
        self._seen = max(self._seen, self._log.head())
        self._thread.start()

    def notify(self, position: int) -> None:
        """Announce that the log has reached the position, 0 if it is unknown.

        The call is cheap; one thread at a time may make it.
        """
        if not position:
            self._missed = True
            self._wake.set()
        self._seen = max(self._seen, position)
        if position >= self._wake_position:
            self._wake_position = _NEVER
            self._wake.set()
        self._wake_waiters()

    def wait_for(self, position: int, timeout: float) -> None:
        """Wait until everything up to the position is projected.

        Raises:
            ProjectionFailedError: an event before it cannot be projected.
            ReadModelBehindError: it takes more than `timeout` seconds.
            ReadModelError: the log cannot be read, or the tables cannot be written.
            RuntimeClosedError: the runner is closed.
        """
        deadline = time.monotonic() + timeout
        failures = self._failures
        while self._projection.position < position:
            is_helping = self._may_help(deadline)
            if is_helping:
                with self._holding_lock(deadline - time.monotonic()) as has_begun:
                    if not has_begun:
                        raise ReadModelBehindError(position, self._projection.position)
                    if self._projection.position < position and not self._is_leader_now():
                        self._adopt_leader_position()
                    if self._projection.position >= position or self._advance():
                        continue
            else:
                self._is_waited_for = True
                self._wake.set()
            self._wait(position, deadline, failures, is_helping=is_helping)

    def catch_up(self) -> None:
        """Project everything that the log holds now; raises as `wait_for` does, without a timeout."""
        moved = True
        while moved:
            with self._holding_lock():
                moved = self._advance()

    def retry(self) -> None:
        """Continue after a stop whose cause was fixed."""
        self._failure = None
        self._wake.set()

    def follow(self) -> bool:
        """Continue with the tables with which another process has replaced these; return whether there are any.

        Raises:
            ProjectionReplacedError: they are of another version.
            ReadModelError: they cannot be read or written.
        """
        with self._holding_lock():
            self._refuse_if_closed()
            return self._projection.follow()

    def exchange(self, successor: ProjectionTables, take_over: Callable[[], None]) -> None:
        """Continue with other tables, after moving them to the position of these; `take_over` makes them live.

        Nothing is projected during the call. If it raises, nothing has changed.

        Raises:
            ReadModelError: the successor cannot be moved to that position; the class says why.
            RuntimeClosedError: the runner is closed.
        """
        with self._holding_lock():
            self._refuse_if_closed()
            while successor.position < self._projection.position and successor.advance():
                self._refuse_if_closed()
            take_over()
            former, self._projection = self._projection, successor
            intact, self._failure = self._failure is None, None
            self._wake_waiters()
        former.close(intact=intact)
        self._wake.set()

    def end(self) -> None:
        """Tell the thread to stop, and wake all waiters; return at once. Idempotent."""
        self._closed = True
        self._wake.set()
        self._wake_waiters()

    def close(self, until: float | None = None) -> None:
        """Let the thread project what is left, then close the tables. Idempotent.

        Waits until this time of the monotonic clock, by default for `GRACE` seconds. A thread that is still working
        then closes the tables when it has finished; events that are not projected by then will be at the next opening.
        """
        self.end()
        until = time.monotonic() + GRACE if until is None else until
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, until - time.monotonic()))
        if self._applying.acquire(timeout=max(0.0, until - time.monotonic())):
            self._release()
            self._close_tables()
            return
        _log.warning("%s is closed without what is under way in it", self._thread.name)
        self._is_abandoned = True
        if self._applying.acquire(blocking=False):  # the work has just ended, perhaps without noticing `_is_abandoned`
            self._release()

    @contextmanager
    def _holding_lock(self, seconds: float | None = None) -> Generator[bool]:
        """Hold the lock for work; yields False if it could not be acquired within `seconds`."""
        has_begun = self._applying.acquire(timeout=-1 if seconds is None else max(0.0, seconds))
        try:
            yield has_begun
        finally:
            if has_begun:
                self._release()

    def _release(self) -> None:
        self._applying.release()
        if self._is_abandoned:
            self._close_tables()

    def _close_tables(self) -> None:
        with self._applying:
            self._projection.close(intact=self._failure is None)

    def _may_help(self, deadline: float) -> bool:
        if self._thread.ident is None:  # the thread was not started yet
            return True
        return self._is_helped and deadline - time.monotonic() >= HELP

    def _wait(self, position: int, deadline: float, failures: int, *, is_helping: bool) -> None:
        """Wait until the log has events to help with, or until the thread has reached the position."""
        with self._waiters:
            self._waiter_count += 1
            try:
                while (self._seen if is_helping else self._projection.position) < position:
                    self._refuse_to_wait(failures)
                    remaining = deadline - time.monotonic()
                    if remaining <= 0:
                        raise ReadModelBehindError(position, self._projection.position)
                    self._waiters.wait(remaining)
            finally:
                self._waiter_count -= 1

    def _refuse_to_wait(self, failures: int) -> None:
        self._refuse_if_closed()
        failure = self._failure
        if isinstance(failure, PERMANENT_ERRORS):
            raise failure.again() from failure
        if failure is not None and self._failures != failures:
            raise ReadModelError(str(failure)) from failure

    def _fail(self, failure: ReadModelError) -> None:
        self._failure = failure
        self._failures += 1
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        """Wake the waiters, so that they check again."""
        if self._waiter_count:
            with self._waiters:
                self._waiters.notify_all()

    def _advance(self) -> bool:
        """Apply a batch; the caller holds the lock."""
        self._refuse_if_closed()
        if isinstance(self._failure, PERMANENT_ERRORS):
            raise self._failure.again() from self._failure
        try:
            moved = self._projection.advance()
        except ReadModelError as error:
            if isinstance(error, PERMANENT_ERRORS):
                _log.exception("a projection has stopped: %s", error)
            self._fail(error)
            raise
        self._failure = None
        self._wake_waiters()
        return moved

    def _is_leader_now(self) -> bool:
        return self._is_leader is None or self._is_leader()

    def _adopt_leader_position(self) -> None:
        """Take over the leader's position; the caller holds the lock."""
        try:
            self._projection.adopt_position()
        except ReadModelError as error:
            self._fail(error)
            raise
        self._failure = None
        self._wake_waiters()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeClosedError("the runtime is closed; open it again to go on")

    def _run(self) -> None:
        while self._wait_for_work():
            try:
                self._project_or_adopt()
            except BaseException as error:  # noqa: BLE001 - a thread must not end without a report
                if self._closed or isinstance(error, PERMANENT_ERRORS):
                    continue
                if not isinstance(error, ReadModelError):
                    self._fail(ReadModelError(f"the projections cannot be moved on: {error_text(error)}"))
                if not self._pause:
                    trace = None if isinstance(error, StorageError) else error
                    _log.warning("the projections could not be moved on; trying again: %s", error, exc_info=trace)
                self._pause = min(2 * self._pause, PAUSES[1]) if self._pause else PAUSES[0]
            else:
                self._pause = 0.0
        self._project_remaining()

    def _project_or_adopt(self) -> None:
        """Project what this process must project, and take over the leader's progress otherwise."""
        leads = self._is_leader_now()
        if leads and not self._was_leader:
            self._missed = True  # the notifications about new events went to the former leader
        self._was_leader = leads
        is_asked = self._read_end_of_log()
        if leads or (is_asked and self._is_helped):
            self._project_seen()
        elif self._projection.position < self._seen or self._failure is not None:
            with self._holding_lock():
                self._adopt_leader_position()

    def _project_remaining(self) -> None:
        """Project what is left before closing, as long as `close` waits, also if the leader is gone or will do it."""
        moved = True
        with suppress(Exception):  # an error shows at the next opening of the tables
            self._seen = max(self._seen, self._log.head())  # the last notification may still be on its way
            while moved and self._failure is None and not self._is_abandoned and self._projection.position < self._seen:
                with self._holding_lock():
                    moved = self._projection.advance()

    def _wait_for_work(self) -> bool:
        """Wait until there is something to do; return False when the runner is closed."""
        while self.health == "stopped":
            self._wake.clear()
            if self.health == "stopped":  # otherwise its state changed before the wait
                self._wake.wait()
        if self._failure is not None:
            self._wake.clear()
            if not self._closed and not self._is_waited_for:
                self._wake.wait(self._pause)
        elif not self._is_leader_now():
            self._wake.clear()
            if not (self._closed or self._is_waited_for):
                self._wake.wait(SOON if self._waiter_count else LOOK)
            return not self._closed
        elif self._was_leader and self._seen <= self._projection.position and not self._missed:
            self._sleep(self._projection.position + 1, self._look_after)
        if not self._waiter_count:
            self._await_idleness()
        return not self._closed

    def _await_idleness(self) -> None:
        """Wait while the log is written, as long as the tables may be behind it."""
        until = time.monotonic() + self._pace.seconds
        enough = self._projection.position + self._pace.events
        seen = 0
        while seen != self._seen < enough and (left := until - time.monotonic()) > 0:
            seen = self._seen
            self._sleep(enough, min(self._pace.idle, left))

    def _sleep(self, until: int, seconds: float | None) -> None:
        self._wake.clear()
        self._wake_position = until
        # A notification that came before `_wake_position` was set did not wake the thread.
        if self._seen < until and not (self._closed or self._missed or self._is_waited_for):
            self._wake.wait(seconds)
        self._wake_position = _NEVER

    def _read_end_of_log(self) -> bool:
        """Read the log's end, if a notification may have been missed; return whether somebody waits for the thread."""
        pressed, self._is_waited_for = self._is_waited_for, False
        if self._missed or pressed or self._look_after is not None:
            self._missed = False
            try:
                self._seen = max(self._seen, self._log.head())
            except StorageError as error:
                self._missed = True
                failure = ReadModelError(f"the log cannot be read: {error}")
                self._fail(failure)
                raise failure from error
        return pressed

    def _project_seen(self) -> None:
        seen = self._seen
        while self._projection.position < seen or self._failure is not None:
            with self._holding_lock():
                if (self._projection.position < seen or self._failure is not None) and not self._advance():
                    return
