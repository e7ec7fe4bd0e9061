"""Runs a projection: on demand for whoever reads it, otherwise when the log is idle, within a bound."""

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
    in_words,
)
from reenact.projections.generations import Health
from reenact.projections.log import Log, Row

PAUSES = 0.25, 5.0
"""Seconds until what has failed is tried again: the first time, and at most; each failure doubles it."""

HELP = 6.0
"""A waiter with fewer seconds left leaves the work to the thread: to wait for a locked file takes nearly as long."""

MOMENT = 0.25
"""Seconds after which a transaction takes up no further event."""

LOOK = 1.0
"""Seconds after which it is looked again who keeps the tables, and how far they are if that is another process."""

SOON = 0.1
"""Seconds after which it is looked again how far the tables are that somebody waits for, and another process keeps."""

GRACE = 1.0
"""Seconds that closing waits for what does not come to an end."""

FOR_GOOD = (ProjectionFailedError, ProjectionReplacedError)
"""What does not go away by trying again."""

_NEVER = sys.maxsize
_log = logging.getLogger("reenact.projections")


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """When events are projected that nobody has asked for: at the first of these."""

    idle: float = 0.05
    """Seconds in which nothing was written to the log."""
    seconds: float = 1.0
    """Seconds since the oldest of them was written."""
    events: int = 2000
    """How many of them there are."""


PACE = Pace()


class Moving:
    """Tables that are brought up to the log, batch by batch. Used by one thread at a time."""

    batch: ClassVar[int]
    """So many events are one transaction."""

    def __init__(self, log: Log, number: int) -> None:
        self._log = log
        self.number: int = number
        """Which generation it is."""
        self.position = 0
        """The position of the last event that is in them."""

    def advance(self, limit: int | None = None) -> bool:
        """Apply up to `limit` further events of the log, a batch of them if it is None; return whether there were any.

        There may be fewer, if they take long. A function that does not return is waited for.

        Raises:
            LogEncryptedError, WrongKeyError: the log has no key ring here, or that of another one.
            ProjectionFailedError: an event cannot be projected; all before it are.
            ProjectionReplacedError: another process has put another version in place.
            ReadModelError: the log could not be read, or the tables not be written; it may work the next time.
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
        except Exception:  # noqa: BLE001 - any fault of a projector: one by one, to find the event that it is about
            self._apply_singly(rows)
        return True

    def close(self, *, intact: bool) -> None:
        """Let go of the tables, saying whether they can be relied on. Idempotent."""
        raise NotImplementedError

    def follow(self) -> bool:
        """Go on with the tables that another process has put in the place of these; return whether there are such."""
        return False

    def look(self) -> None:
        """Take up how far another process has brought the tables.

        Raises:
            ProjectionReplacedError: it has put another version in place.
            ReadModelError: the tables cannot be read, or it does not come on with them.
        """

    def _apply(self, rows: Sequence[Row]) -> None:
        """Apply as many of the rows as there is time for, at least one, in one transaction."""
        raise NotImplementedError

    def _apply_singly(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.position <= self.position:
                continue  # another process has come to it meanwhile
            self._refuse_if_closing()
            try:
                self._apply([row])
            except ReadModelError:
                raise
            except Exception as error:
                raise self._failed(row, error) from error

    def _refuse_if_closing(self) -> None:
        """Raise if no further event is to be taken up."""

    def _failed(self, row: Row, error: Exception) -> ProjectionFailedError:
        return ProjectionFailedError(row.position, row.stream, type(row.event).__name__, in_words(error))


class Runner:
    """Projects the log on a thread of its own, and on the thread of anybody who waits, if waiters are to help.

    A waiter that helps does not hand its wish over: it does the work itself, unless somebody is at it. That saves two
    changes of thread for each write that is read back. It must not help with what may never return.

    Where several processes move the same tables, one of them is the keeper. The threads of the others do no more than
    look how far it has come, and what waiters want that may help.
    """

    def __init__(
        self,
        log: Log,
        projection: Moving,
        *,
        pace: Pace = PACE,
        look: float | None = None,
        name: str = "reenact-projections",
        is_helped: bool = True,
        is_keeper: Callable[[], bool] | None = None,
    ) -> None:
        """Take what is to be moved along.

        Args:
            log: where events come from.
            projection: where they go; it is closed with the runner.
            pace: how far behind the log it may be.
            look: seconds after which to look by itself whether the log has gone on; None if somebody notifies.
            name: the thread's.
            is_helped: whether those who wait do work, too.
            is_keeper: whether this process is to project what nobody has asked for; it may change at any time. None:
                always.
        """
        # `_applying` is held by whoever moves the tables: the runner's thread, or one that waits and helps. Only then
        # may `_projection` be used or replaced. All else is written without a lock: `notify` sets `_seen` before it
        # wakes, and the thread clears `_wake` before it looks at `_seen` again, so that no position is missed. `_news`
        # guards nothing but the sleep of those who wait: they look at the position again whenever it is notified.
        self._log = log
        self._pace = pace
        self._look_after = look
        self._is_helped = is_helped
        self._is_keeper = is_keeper
        self._was_keeper = is_keeper is None
        self._projection = projection
        self._applying = threading.Lock()
        self._failure: ReadModelError | None = None
        self._pause = 0.0
        self._missed = False
        self._pressed = False  # somebody waits for the thread
        self._closed = False
        self._is_left = False  # closing has given up on who is at work
        self._failures = 0
        self._seen = 0
        self._due = _NEVER  # the position from which on a notification wakes the thread
        self._wake = threading.Event()
        self._news = threading.Condition()
        self._expectant = 0  # how many wait for events that the log does not hold yet
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def number(self) -> int:
        """Which generation of the tables it moves along."""
        return self._projection.number

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
        return "stopped" if isinstance(self._failure, FOR_GOOD) else "troubled"

    @property
    def failure(self) -> ReadModelError | None:
        """Why it is troubled, or has stopped."""
        return self._failure

    def start(self) -> None:
        """Start the thread; before, only those who wait or catch up move the projections on."""
        self._seen = max(self._seen, self._log.head())
        self._thread.start()

    def notify(self, position: int) -> None:
        """Hear that the log has reached the position, 0 if nobody knows how far it is by now.

        Costs next to nothing; called by one thread at a time.
        """
        if not position:
            self._missed = True
            self._wake.set()
        self._seen = max(self._seen, position)
        if position >= self._due:
            self._due = _NEVER
            self._wake.set()
        self._tell()

    def wait_for(self, position: int, timeout: float) -> None:
        """Return once the projections hold everything up to the position.

        Raises:
            ProjectionFailedError: an event before it cannot be projected.
            ReadModelBehindError: it takes more than `timeout` seconds.
            ReadModelError: the log cannot be read, or the tables not be written.
            RuntimeClosedError: the runner is closed.
        """
        deadline = time.monotonic() + timeout
        failures = self._failures
        while self._projection.position < position:
            is_helping = self._may_help(deadline)
            if is_helping:
                with self._working(deadline - time.monotonic()) as has_begun:
                    if not has_begun:
                        raise ReadModelBehindError(position, self._projection.position)
                    if self._projection.position < position and not self._keeps():
                        self._take_up()
                    if self._projection.position >= position or self._advance():
                        continue
            else:
                self._pressed = True
                self._wake.set()
            self._wait(position, deadline, failures, is_helping=is_helping)

    def catch_up(self) -> None:
        """Project everything that the log holds now; raises what `wait_for` raises, but for the time."""
        moved = True
        while moved:
            with self._working():
                moved = self._advance()

    def retry(self) -> None:
        """Go on, if it has stopped, where that was: what stopped it was mended."""
        self._failure = None
        self._wake.set()

    def follow(self) -> bool:
        """Go on with the tables that another process has put in the place of these; return whether there are such.

        Raises:
            ProjectionReplacedError: they are of another version.
            ReadModelError: they cannot be read or written.
        """
        with self._working():
            self._refuse_if_closed()
            return self._projection.follow()

    def exchange(self, successor: Moving, take_over: Callable[[], None]) -> None:
        """Go on with other tables, which are brought up to where these are; `take_over` has them read from then on.

        Nothing is projected while it runs. What it raises leaves everything as it was.

        Raises:
            ReadModelError: the successor cannot be brought up to these; the kind says why.
            RuntimeClosedError: the runner is closed.
        """
        with self._working():
            self._refuse_if_closed()
            while successor.position < self._projection.position and successor.advance():
                self._refuse_if_closed()
            take_over()
            former, self._projection = self._projection, successor
            intact, self._failure = self._failure is None, None
            self._tell()
        former.close(intact=intact)
        self._wake.set()

    def end(self) -> None:
        """Have the thread end, and whoever waits hear of it; return at once. Idempotent."""
        self._closed = True
        self._wake.set()
        self._tell()

    def close(self, until: float | None = None) -> None:
        """Have the thread project what is left, then let go of the tables. Idempotent.

        Waits until this moment of the monotonic clock, by itself for `GRACE`. Whoever is at work then is left to it: it
        lets go of the tables when it has done; what is not projected then will be at the next opening.
        """
        self.end()
        until = time.monotonic() + GRACE if until is None else until
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, until - time.monotonic()))
        if self._applying.acquire(timeout=max(0.0, until - time.monotonic())):
            self._release()
            self._let_go()
            return
        _log.warning("%s is closed without what is under way in it", self._thread.name)
        self._is_left = True
        if self._applying.acquire(blocking=False):  # it has come to an end just now, and may not have seen this
            self._release()

    @contextmanager
    def _working(self, seconds: float | None = None) -> Generator[bool]:
        """Be the one who works; False is for one who could not be within so many seconds."""
        has_begun = self._applying.acquire(timeout=-1 if seconds is None else max(0.0, seconds))
        try:
            yield has_begun
        finally:
            if has_begun:
                self._release()

    def _release(self) -> None:
        self._applying.release()
        if self._is_left:
            self._let_go()

    def _let_go(self) -> None:
        with self._applying:
            self._projection.close(intact=self._failure is None)

    def _may_help(self, deadline: float) -> bool:
        if self._thread.ident is None:  # it was not started yet
            return True
        return self._is_helped and deadline - time.monotonic() >= HELP

    def _wait(self, position: int, deadline: float, failures: int, *, is_helping: bool) -> None:
        """Wait until there is something to help with, or until the thread has come to the position."""
        with self._news:
            self._expectant += 1
            try:
                while (self._seen if is_helping else self._projection.position) < position:
                    self._refuse_to_wait(failures)
                    remaining = deadline - time.monotonic()
                    if remaining <= 0:
                        raise ReadModelBehindError(position, self._projection.position)
                    self._news.wait(remaining)
            finally:
                self._expectant -= 1

    def _refuse_to_wait(self, failures: int) -> None:
        self._refuse_if_closed()
        failure = self._failure
        if isinstance(failure, FOR_GOOD):
            raise failure.again() from failure
        if failure is not None and self._failures != failures:
            raise ReadModelError(str(failure)) from failure

    def _fail(self, failure: ReadModelError) -> None:
        self._failure = failure
        self._failures += 1
        self._tell()

    def _tell(self) -> None:
        """Have those who wait look again."""
        if self._expectant:
            with self._news:
                self._news.notify_all()

    def _advance(self) -> bool:
        """Apply a batch; the caller works."""
        self._refuse_if_closed()
        if isinstance(self._failure, FOR_GOOD):
            raise self._failure.again() from self._failure
        try:
            moved = self._projection.advance()
        except ReadModelError as error:
            if isinstance(error, FOR_GOOD):
                _log.exception("the projections have stopped")
            self._fail(error)
            raise
        self._failure = None
        self._tell()
        return moved

    def _keeps(self) -> bool:
        return self._is_keeper is None or self._is_keeper()

    def _take_up(self) -> None:
        """Look how far the keeper has come; the caller works."""
        try:
            self._projection.look()
        except ReadModelError as error:
            self._fail(error)
            raise
        self._failure = None
        self._tell()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeClosedError("the runtime is closed; open it again to go on")

    def _run(self) -> None:
        while self._rest():
            try:
                self._move()
            except BaseException as error:  # noqa: BLE001 - a thread that ends would end in silence
                if self._closed or isinstance(error, FOR_GOOD):
                    continue
                if not isinstance(error, ReadModelError):
                    self._fail(ReadModelError(f"the projections cannot be moved on: {in_words(error)}"))
                if not self._pause:
                    trace = None if isinstance(error, StorageError) else error
                    _log.warning("the projections could not be moved on; trying again: %s", error, exc_info=trace)
                self._pause = min(2 * self._pause, PAUSES[1]) if self._pause else PAUSES[0]
            else:
                self._pause = 0.0
        self._project_the_rest()

    def _move(self) -> None:
        """Project what is to be projected by this process, and look how far the rest is."""
        keeps = self._keeps()
        if keeps and not self._was_keeper:
            self._missed = True  # what is new was the former keeper's to hear
        self._was_keeper = keeps
        is_asked = self._look()
        if keeps or (is_asked and self._is_helped):
            self._project_what_was_seen()
        elif self._projection.position < self._seen or self._failure is not None:
            with self._working():
                self._take_up()

    def _project_the_rest(self) -> None:
        """Leave nothing to the next opening, as long as whoever closes waits for it, unless it is another's."""
        moved = self._keeps()
        with suppress(Exception):  # whoever opens the tables next hears of it
            while moved and self._failure is None and not self._is_left and self._projection.position < self._seen:
                with self._working():
                    moved = self._projection.advance()

    def _rest(self) -> bool:
        """Wait until there is something to do; return False when there will be nothing more."""
        while self.health == "stopped":
            self._wake.clear()
            if self.health == "stopped":  # else what has changed that was not heard
                self._wake.wait()
        if self._failure is not None:
            self._wake.clear()
            if not self._closed and not self._pressed:
                self._wake.wait(self._pause)
        elif not self._keeps():
            self._wake.clear()
            if not (self._closed or self._pressed):
                self._wake.wait(SOON if self._expectant else LOOK)
            return not self._closed
        elif self._was_keeper and self._seen <= self._projection.position and not self._missed:
            self._sleep(self._projection.position + 1, self._look_after)
        if not self._expectant:
            self._await_idleness()
        return not self._closed

    def _await_idleness(self) -> None:
        """Wait while the log goes on, as long as the projections may be behind it."""
        until = time.monotonic() + self._pace.seconds
        enough = self._projection.position + self._pace.events
        seen = 0
        while seen != self._seen < enough and (left := until - time.monotonic()) > 0:
            seen = self._seen
            self._sleep(enough, min(self._pace.idle, left))

    def _sleep(self, until: int, seconds: float | None) -> None:
        self._wake.clear()
        self._due = until
        # A notification that came before `_due` was set did not wake.
        if self._seen < until and not (self._closed or self._missed or self._pressed):
            self._wake.wait(seconds)
        self._due = _NEVER

    def _look(self) -> bool:
        """Look how far the log is, if that may not have been heard; return whether somebody waits for the thread."""
        pressed, self._pressed = self._pressed, False
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

    def _project_what_was_seen(self) -> None:
        seen = self._seen
        while self._projection.position < seen or self._failure is not None:
            with self._working():
                if (self._projection.position < seen or self._failure is not None) and not self._advance():
                    return
