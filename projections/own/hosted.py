"""One projection at its place: which of its generations is live, what moves it on, and what is to take its place."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, NoResultFound

from reenact.domain.errors import RuntimeClosedError, StorageError
from reenact.projections.audit.api import OnProgress
from reenact.projections.errors import (
    ProjectionFailedError,
    ProjectionNotReadyError,
    ProjectionReplacedError,
    ReadModelBehindError,
)
from reenact.projections.log import Log
from reenact.projections.own import kept
from reenact.projections.own.declared import Projection, shape_of
from reenact.projections.own.generation import Generation, look_at
from reenact.projections.own.kept import Kept
from reenact.projections.own.place import Place, trouble
from reenact.projections.projection import misfit
from reenact.projections.rebuilding import Rebuilder
from reenact.projections.runner import GRACE, Health, Runner
from reenact.projections.status import ProjectionStatus, failure_of

_log: Final = logging.getLogger("reenact.projections")


class Hosted:
    """A projection that follows a log, each of its versions in tables of its own. Thread-safe."""

    def __init__(self, projection: Projection, place: Place, log: Log, *, look: float | None = None) -> None:
        """Find the tables at the place, or make them.

        Tables of another version stay what is read, and stand still, until those of this version have taken their
        place, which `start` begins with.

        Raises:
            ReadModelError: the place cannot be read or written, or the log not be read.
        """
        self.projection = projection
        self.name: Final = projection.name
        self._place = place
        self._log = log
        self._look_after = look
        self._shape = shape_of(projection, place.dialect)
        self._former: Kept | None = None  # tables of another version, which are read for the time being
        self._runner: Runner[Generation] | None = None
        self._news = threading.Condition()
        self._started = False
        self._closed = False
        self.rebuilder: Rebuilder[Generation] = Rebuilder(self.name, log, self._begin, self._finish, self._clear_old)
        self._find()

    def start(self) -> None:
        """Follow the log, and go on with new tables that were begun, or are needed."""
        self._started = True
        if self._runner is not None:
            self._runner.start()
        if self._former is not None or self._begun():
            self.rebuilder.start()

    def notify(self, position: int) -> None:
        """Hear that the log has reached the position, 0 if nobody knows how far it is by now."""
        if self._runner is not None:
            self._runner.notify(position)

    def wait_for(self, position: int, timeout: float) -> None:
        """Return once everything up to the position can be read, in tables of this version.

        Raises:
            ProjectionFailedError: an event before it cannot be projected.
            ReadModelBehindError: it takes more than `timeout` seconds.
            ReadModelError: the log cannot be read, or the tables not be written.
            RuntimeClosedError: the projections are closed.
        """
        deadline = time.monotonic() + timeout
        runner = self._runner or self._wait_for_runner(position, deadline)
        runner.wait_for(position, max(0.0, deadline - time.monotonic()))

    def catch_up(self) -> None:
        """Project everything that the log holds now, if it is this version's tables that are live."""
        if self._runner is not None:
            self._runner.catch_up()

    @contextmanager
    def read(self) -> Generator[Connection]:
        """Read the live tables in one snapshot.

        Raises:
            ProjectionNotReadyError: they are of another version and another form.
            ReadModelError: they cannot be read.
            RuntimeClosedError: the projections are closed.
        """
        if self._closed:
            raise _closed()
        with ExitStack() as parts:
            try:
                connection = parts.enter_context(self._place.reading(self.name))
                found = kept.look(connection)
            except DBAPIError as error:
                raise trouble(error) from error
            if found.shape != self._shape:
                raise ProjectionNotReadyError(self.name, found.version, self.projection.version)
            yield connection

    def status(self, head: int) -> ProjectionStatus:
        """Return how it is, when the log has reached this position."""
        runner, former = self._runner, self._former
        position = runner.position if runner is not None else former.position if former is not None else 0
        failure = self.rebuilder.failure if runner is None else runner.failure or self.rebuilder.failure
        return ProjectionStatus(
            name=self.name,
            version=self.projection.version if former is None else former.version,
            position=position,
            lag=max(0, head - position),
            health=self._health(),
            failure=failure_of(failure),
            rebuild=self.rebuilder.progress,
        )

    def rebuild(self, report: OnProgress | None = None) -> None:
        """Make the tables anew beside those that are read, and put them in their place; see `Rebuilder.run`."""
        self.rebuilder.run(report)

    def retry(self) -> None:
        """Go on where it has stopped: what stopped it was mended."""
        if self._runner is not None:
            self._runner.retry()
        elif self._health() == "stopped":
            self.rebuilder.start()

    def end(self) -> None:
        """Have what runs come to its end; return at once. Idempotent."""
        self._closed = True
        with self._news:
            self._news.notify_all()
        self.rebuilder.end()
        if self._runner is not None:
            self._runner.end()

    def close(self, until: float | None = None) -> None:
        """End what runs, and let go of the tables. Idempotent.

        Waits until this moment of the monotonic clock, by itself for `GRACE`; what has not come to its end by then
        lets go of the tables when it does.
        """
        self.end()
        until = time.monotonic() + GRACE if until is None else until
        self.rebuilder.close(until)
        if self._runner is not None:
            self._runner.close(until)
            self._clear_old()

    def _health(self) -> Health:
        if self._closed:
            return "closed"
        if self._runner is not None:
            return self._runner.health
        match self.rebuilder.failure:
            case None:
                return "rebuilding"
            case ProjectionFailedError() | ProjectionReplacedError():
                return "stopped"
            case _:
                return "troubled"

    def _find(self) -> None:
        live = self._place.live(self.name)
        found = None if live is None else self._examine(live)
        if live is not None and found is not None:
            if self._is_of_this_version(found):
                self._runner = self._run(self._take(live))
            else:
                _log.info(
                    "the tables of %r are of version %s, and made anew for version %s beside what there is",
                    self.name,
                    found.version,
                    self.projection.version,
                )
                self._former = found
            self._clear_old()
            return
        new = self._create()
        try:
            self._place.settle(self.name, new.number)
            new.take_over()
        except BaseException:
            new.close(intact=True)
            raise
        self._runner = self._run(new)
        self._clear_old(by_force=True)

    def _examine(self, number: int) -> Kept | None:
        """Return how far a generation is; None, if it is not to be relied on."""
        wrong = self._place.damage(self.name, number)
        if wrong is None:
            try:
                found = look_at(self._place, self.name, number)
                wrong = misfit(self._log, found.position, found.mark)
            except StorageError as error:
                if not _is_of_the_tables(error.__cause__):
                    raise
                wrong = str(error)
            else:
                if wrong is None:
                    return found
        _log.warning("the tables of %r are made anew: %s", self.name, wrong)
        return None

    def _is_of_this_version(self, found: Kept) -> bool:
        return (found.version, found.shape) == (self.projection.version, self._shape)

    def _begun(self) -> list[int]:
        """Return the generations that were begun to take the place of the live one."""
        live = self._place.live(self.name) or 0
        return [number for number in self._place.generations(self.name) if number > live]

    def _begin(self) -> Generation:
        for number in reversed(self._begun()):
            found = self._examine(number)
            if found is not None and self._is_of_this_version(found):
                return self._take(number)
            if not self._place.is_shared:
                self._place.drop(self.name, number, by_force=True)
        return self._create()

    def _create(self) -> Generation:
        number = max([self._place.live(self.name) or 0, *self._place.generations(self.name)]) + 1
        self._place.create(self.name, number, self.projection.tables, self.projection.version, self._shape)
        return self._take(number)

    def _take(self, number: int) -> Generation:
        return Generation(self.projection, self._place, self._log, number, lambda: self._closed)

    def _run(self, generation: Generation) -> Runner[Generation]:
        name = f"reenact-projection-{self.name}"
        # What a function does is its author's: whoever waits has no time for what may never return.
        return Runner(self._log, generation, look=self._look_after, name=name, is_helped=False)

    def _finish(self, successor: Generation) -> None:
        self._place.settle(self.name, successor.number)
        if self._runner is not None:
            self._runner.exchange(successor, successor.take_over)
        else:
            reached = 0 if self._former is None else self._former.position
            while successor.position < reached and successor.advance():
                pass
            successor.take_over()
            runner = self._run(successor)
            if self._started:
                runner.start()
            with self._news:
                self._former, self._runner = None, runner
                self._news.notify_all()

    def _clear_old(self, *, by_force: bool = False) -> None:
        live = self._place.live(self.name) or 0
        for number in self._place.generations(self.name):
            if number < live:
                self._place.drop(self.name, number, by_force=by_force)

    def _wait_for_runner(self, position: int, deadline: float) -> Runner[Generation]:
        """Return what moves the tables of this version, once these are there."""
        with self._news:
            while self._runner is None:
                former = self._former
                if self._closed:
                    raise _closed()
                failure = self.rebuilder.failure
                if isinstance(failure, ProjectionFailedError | ProjectionReplacedError):
                    raise failure.again() from failure
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise ReadModelBehindError(position, 0 if former is None else former.position)
                self._news.wait(min(remaining, 0.1))
            return self._runner


def _closed() -> RuntimeClosedError:
    return RuntimeClosedError("the projections are closed; open them again to go on")


def _is_of_the_tables(error: BaseException | None) -> bool:
    """Return whether it is the content that does not fit, such as a missing table, and not the access to it."""
    if isinstance(error, NoResultFound):
        return True
    origin = error.orig if isinstance(error, DBAPIError) else None
    return getattr(origin, "sqlite_errorname", "") == "SQLITE_ERROR" or getattr(origin, "sqlstate", None) == "42P01"
