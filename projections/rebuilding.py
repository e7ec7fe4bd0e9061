"""Follows a log with a projection, and rebuilds its tables beside those that are read."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from reenact.domain.errors import RuntimeClosedError, StorageError
from reenact.projections.errors import ProjectionFailedError, ReadModelBehindError, ReadModelError, error_text
from reenact.projections.generations import (
    DamagedError,
    Health,
    Place,
    ProjectionStatus,
    TableProgress,
    failure_of,
    mismatch,
)
from reenact.projections.log import Log, OnProgress, Progress
from reenact.projections.runner import GRACE, LOOK, PAUSES, PERMANENT_ERRORS, ProjectionTables, Runner

NEAR = 1000
"""The lag, in positions, at which the live tables are stopped until the new ones have caught up with the log."""

ROUNDS = 8
"""How often the log's end is chased; then the live tables are stopped, however far the new ones are behind."""

_LOOK = 0.05
"""The pause between two checks whether tables of this version exist, in seconds."""

_log = logging.getLogger("reenact.projections")


class FollowingProjection:
    """A projection that follows a log, with separate tables for each of its versions. Thread-safe.

    One rebuild runs at a time, on the thread that asks for it. A rebuild that was cut short, by a crash or by closing,
    is continued the next time.
    """

    def __init__(
        self,
        name: str,
        log: Log,
        place: Place,
        *,
        version: int,
        shape: str = "",
        is_leader: Callable[[], bool] | None = None,
    ) -> None:
        """Find the tables at the place, or create them; for `is_leader` see `Runner`.

        Tables of another version, or of another form, stay live and do not advance until those of this version have
        replaced them; `start` begins that rebuild.

        Raises:
            ReadModelError: the place cannot be read or written, or the log cannot be read.
        """
        self.name: Final = name
        self.version: Final = version
        self._shape = shape
        self._log = log
        self._place = place
        self._is_leader = is_leader
        self._former: TableProgress | None = None  # live tables of another version
        self._runner: Runner | None = None
        self._started = False
        self._closing = threading.Event()
        self._rebuild_lock = threading.RLock()
        self._rebuild_thread: threading.Thread | None = None
        self._finished = 0
        self._is_under_way = False
        self._progress: Progress | None = None  # the progress of a rebuild under way
        self._failure: ReadModelError | None = None  # the error of the last rebuild in the background
        self._find_or_create()

    def start(self) -> None:
        """Follow the log, and begin or continue a rebuild if one is needed."""
        self._started = True
        if self._runner is not None:
            self._runner.start()
        if self._former is not None or self._unfinished():
            self._rebuild_in_background()

    def notify(self, position: int) -> None:
        """Announce that the log has reached the position, 0 if it is unknown."""
        if self._runner is not None:
            self._runner.notify(position)

    def wait_for(self, position: int, timeout: float) -> None:
        """Wait until everything up to the position can be read, in tables of this version.

        Raises:
            ProjectionFailedError: an event before it cannot be projected.
            ReadModelBehindError: it takes more than `timeout` seconds.
            ReadModelError: the log cannot be read, or the tables cannot be written.
            RuntimeClosedError: the projections are closed.
        """
        deadline = time.monotonic() + timeout
        runner = self._runner or self._wait_for_runner(position, deadline)
        runner.wait_for(position, max(0.0, deadline - time.monotonic()))

    def status(self, head: int) -> ProjectionStatus:
        """Return the status; `head` is the log's position."""
        runner, former = self._runner, self._former
        position = runner.position if runner is not None else former.position if former is not None else 0
        failure = self._failure if runner is None else runner.failure or self._failure
        return ProjectionStatus(
            name=self.name,
            version=self.version if former is None else former.version,
            position=position,
            lag=max(0, head - position),
            health=self._health(),
            failure=None if failure is None else failure_of(failure),
            rebuild=self._progress,
        )

    def rebuild(self, report: OnProgress | None = None) -> None:
        """Rebuild the tables, and make the new ones live; if another rebuild is under way, wait for that one instead.

        Raises:
            ProjectionFailedError: an event cannot be projected; the new tables are dropped.
            ReadModelError: the log cannot be read, or the tables cannot be written.
            RuntimeClosedError: the projections are closed.
        """
        finished, is_under_way = self._finished, self._is_under_way
        with self._rebuild_lock:
            if not is_under_way or self._finished == finished:
                self._rebuild(report)
                self._tidy()

    def retry(self) -> None:
        """Continue after a stop whose cause was fixed."""
        if self._runner is not None:
            self._runner.retry()
        elif self._health() == "stopped":
            self._rebuild_in_background()

    def end(self) -> None:
        """Tell the threads to stop, also a rebuild, which can be continued later; return at once. Idempotent."""
        self._closing.set()
        if self._runner is not None:
            self._runner.end()

    def close(self, until: float | None = None) -> None:
        """Stop the threads, and close the tables. Idempotent.

        Waits until this time of the monotonic clock, by default for `GRACE` seconds; a thread that has not stopped by
        then closes the tables when it does.
        """
        self.end()
        until = time.monotonic() + GRACE if until is None else until
        if self._rebuild_lock.acquire(timeout=max(0.0, until - time.monotonic())):
            self._rebuild_lock.release()
        if self._rebuild_thread is not None and self._rebuild_thread is not threading.current_thread():
            self._rebuild_thread.join(max(0.0, until - time.monotonic()))
        if self._runner is not None:
            self._runner.close(until)
            with suppress(ReadModelError):  # otherwise done at the next opening
                self._clear_old()

    def _create(self, number: int) -> None:
        """Create the tables of a generation, empty, in one transaction."""
        raise NotImplementedError

    def _open(self, number: int) -> ProjectionTables:
        """Return the tables of a generation, opened for writing."""
        raise NotImplementedError

    def _new_runner(self, tables: ProjectionTables) -> Runner:
        """Return a runner for the tables, not started yet."""
        return Runner(self._log, tables, is_leader=self._is_leader)

    def _take_over(self, successor: ProjectionTables) -> None:
        """Make the tables live, durably; if it raises, nothing has changed."""
        self._place.point_to(successor.number)

    def _tidy(self) -> None:
        """Delete old tables after new ones became live."""
        self._clear_old()

    def _clear_old(self, *, by_force: bool = False) -> bool:
        """Delete the generations below the live one that have no readers; return whether all are gone."""
        live = self._place.live() or 0
        old = [number for number in self._place.numbers() if number < live]
        left = [number for number in old if not self._place.drop(number, by_force=by_force)]
        return not left

    def _health(self) -> Health:
        if self._closing.is_set():
            return "closed"
        if self._runner is not None:
            return self._runner.health
        if self._failure is None:
            return "rebuilding"
        return "stopped" if isinstance(self._failure, PERMANENT_ERRORS) else "troubled"

    def _find_or_create(self) -> None:
        live = self._place.live()
        found = None if live is None else self._examine(live)
        if live is None or found is None:
            new = self._begin_anew()
            try:
                self._place.settle(new.number)
                self._take_over(new)
            except BaseException:
                new.close(intact=True)
                raise
            self._runner = self._new_runner(new)
            self._clear_old(by_force=True)
        elif self._is_of_this_version(found):
            self._runner = self._new_runner(self._open(live))
            self._clear_old()
        else:
            _log.info(
                "the tables of %r are of version %s, and made anew for version %s beside what there is",
                self.name,
                found.version,
                self.version,
            )
            self._former = found
            self._clear_old()

    def _examine(self, number: int) -> TableProgress | None:
        """Return the progress of a generation, None if it is not usable."""
        try:
            found = self._place.check(number)
            wrong = mismatch(self._log, found.position, found.mark)
        except DamagedError as error:
            wrong = str(error)
        else:
            if wrong is None:
                return found
        _log.warning("the tables of %r are made anew: %s", self.name, wrong)
        return None

    def _is_of_this_version(self, found: TableProgress) -> bool:
        return (found.version, found.shape) == (self.version, self._shape)

    def _unfinished(self) -> list[int]:
        """Return the generations that were begun to replace the live one."""
        live = self._place.live() or 0
        return [number for number in self._place.numbers() if number > live]

    def _begin_or_resume(self) -> ProjectionTables:
        for number in reversed(self._unfinished()):
            found = self._examine(number)
            if found is not None and self._is_of_this_version(found):
                return self._open(number)
            if not self._place.is_shared:
                self._place.drop(number, by_force=True)
        return self._begin_anew()

    def _begin_anew(self) -> ProjectionTables:
        number = max([self._place.live() or 0, *self._place.numbers()]) + 1
        self._create(number)
        return self._open(number)

    def _rebuild(self, report: OnProgress | None) -> None:
        def tell(done: int, total: int) -> None:
            self._progress = Progress(self.name, done, total)
            if report is not None:
                report(self._progress)

        self._refuse_if_closing()
        self._is_under_way = True
        try:
            successor = self._begin_or_resume()
            try:
                self._approach_end_of_log(successor, tell)
                self._make_live(successor)
            except ProjectionFailedError:
                self._discard(successor)
                raise
            except BaseException:
                successor.close(intact=True)
                raise
            self._finished += 1
            self._failure = None
        finally:
            self._is_under_way = False
            self._progress = None

    def _approach_end_of_log(self, successor: ProjectionTables, tell: Callable[[int, int], None]) -> None:
        """Bring the tables near the end of the log."""
        for _ in range(ROUNDS):
            goal = self._head()
            tell(min(successor.position, goal), goal)
            while successor.position < goal:
                self._refuse_if_closing()
                if not successor.advance():
                    break
                tell(min(successor.position, goal), goal)
            if self._head() - successor.position <= NEAR:
                return

    def _make_live(self, successor: ProjectionTables) -> None:
        """Bring the tables to the position of the live ones, and make them live."""
        self._place.settle(successor.number)
        if self._runner is not None:
            self._runner.exchange(successor, partial(self._take_over, successor))
            return
        reached = 0 if self._former is None else self._former.position
        while successor.position < reached and successor.advance():
            pass
        self._take_over(successor)
        self._continue_with(successor)

    def _continue_with(self, tables: ProjectionTables) -> None:
        runner = self._new_runner(tables)
        if self._started:
            runner.start()
        self._former, self._runner = None, runner

    def _discard(self, successor: ProjectionTables) -> None:
        successor.close(intact=True)
        self._place.drop(successor.number, by_force=True)

    def _rebuild_in_background(self) -> None:
        """Rebuild on a thread of its own, trying again until it succeeds."""
        self._failure = None
        self._rebuild_thread = threading.Thread(
            target=self._rebuild_until_done, name=f"reenact-rebuild-{self.name}", daemon=True
        )
        self._rebuild_thread.start()

    def _rebuild_until_done(self) -> None:
        pause, finished = PAUSES[0], self._finished
        while self._finished == finished and not self._closing.is_set():
            try:
                if self._is_leader is None or self._is_leader():
                    self.rebuild()
                elif self._follow_other_rebuild():
                    return
                else:
                    self._closing.wait(LOOK)
            except PERMANENT_ERRORS as error:
                self._failure = error
                _log.exception("the tables of %r could not be made anew", self.name)
                return
            except BaseException as error:  # noqa: BLE001 - a thread must not end without a report
                if self._closing.is_set():
                    return
                if self._failure is None:
                    _log.warning("the tables of %r could not be made anew; trying again", self.name, exc_info=True)
                if not isinstance(error, ReadModelError):
                    error = ReadModelError(f"the tables cannot be made anew: {error_text(error)}")
                self._failure = error
                self._closing.wait(pause)
                pause = min(2 * pause, PAUSES[1])

    def _follow_other_rebuild(self) -> bool:
        """Return whether another process has built tables of this version; if so, follow those."""
        with self._rebuild_lock:
            if self._runner is None:
                live = self._place.live()
                if live is None or not self._is_of_this_version(self._place.progress_of(live)):
                    return False
                self._continue_with(self._open(live))
            return True

    def _wait_for_runner(self, position: int, deadline: float) -> Runner:
        """Wait for the runner of the tables of this version, and return it."""
        while self._runner is None:
            former = self._former
            self._refuse_if_closing()
            failure = self._failure
            if isinstance(failure, PERMANENT_ERRORS):
                raise failure.again() from failure
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise ReadModelBehindError(position, 0 if former is None else former.position)
            self._closing.wait(min(remaining, _LOOK))
        return self._runner

    def _refuse_if_closing(self) -> None:
        if self._closing.is_set():
            raise RuntimeClosedError(
                "the projections are closed; open them again to go on, also with a rebuilding that was begun"
            )

    def _head(self) -> int:
        try:
            return self._log.head()
        except StorageError as error:
            raise ReadModelError(f"the log cannot be read: {error}") from error


def close_all(running: Sequence[FollowingProjection]) -> None:
    """Close all of them, within one second in total."""
    until = time.monotonic() + GRACE
    for one in running:
        one.end()
    for one in running:
        one.close(until)
