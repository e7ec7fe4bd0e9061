"""Opening the projections beside a log, and making them anew while they are read."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Final

from reenact.projections.audit.api import OnProgress
from reenact.projections.compiled import VERSION
from reenact.projections.connections import Store
from reenact.projections.generations import Generations, clear
from reenact.projections.log import Log
from reenact.projections.projection import NAME, Projection
from reenact.projections.queries import ReadModel
from reenact.projections.rebuilding import Rebuilder
from reenact.projections.runner import GRACE, ProjectionRunner
from reenact.projections.status import ProjectionStatus, failure_of
from reenact.projections.store import make_store, open_store, what_is_wrong

_LOOKS: Final = 100
_PAUSE: Final = 0.01
"""Seconds between two looks whether the former tables are still read."""

_log: Final = logging.getLogger("reenact.projections")


def open_read_model(path: Path, log: Log) -> tuple[ReadModel, ProjectionRunner]:
    """Return the read model in the file, up to date, and its running runner; close the runner, then the model.

    The file is made anew when it is missing, damaged, of another version, ahead of the log, or of another log. One of
    another version is read until a new one has taken its place.

    Raises:
        ReadModelError: the file cannot be written, or the log not be read.
        ProjectionFailedError: the log holds an event that cannot be projected.
    """
    generations = Generations(path)
    live = generations.file(generations.live())
    wrong = what_is_wrong(live, log)
    if wrong is None:
        store = Store(live)
    elif wrong.can_be_read:
        _log.warning("%s is made anew from the log, beside what there is: %s", live.name, wrong.words)
        _make_beside(generations, log)
        store = open_store(generations.file(generations.live()), log)
    else:
        store = make_store(live, wrong)
    runner = ProjectionRunner(log, store)
    try:
        runner.catch_up()
        runner.start()
        generations.clear_old()
    except BaseException:
        runner.close()
        raise
    return ReadModel(store), runner


def _make_beside(generations: Generations, log: Log) -> None:
    def finish(successor: ReadModelSuccessor) -> None:
        generations.settle(successor.number)
        successor.take_over()
        successor.close(intact=True)

    Rebuilder(NAME, log, lambda: ReadModelSuccessor(generations, log), finish).run()


class ReadModelSuccessor(Projection):
    """The next generation of the runtime's own tables: begun, or gone on with if somebody was killed at it."""

    def __init__(self, generations: Generations, log: Log, model: ReadModel | None = None) -> None:
        """Begin; `model` is what is to read it in the end."""
        self._generations = generations
        self._model = model
        self.number = generations.live() + 1
        self._store = open_store(generations.file(self.number), log)
        super().__init__(log, self._store)

    def take_over(self) -> None:
        """Be what is read from now on, after a crash too.

        Raises:
            ReadModelError: the pointer cannot be moved.
        """
        self._generations.point_to(self.number)
        if self._model is not None:
            self._model.turn_to(self._store)

    def discard(self) -> None:
        """Let go of the tables, and delete them. Idempotent."""
        self.close(intact=True)
        clear(self._generations.file(self.number))


class KeptReadModel:
    """The runtime's own tables, and what makes them anew while they are read."""

    def __init__(self, path: Path, log: Log, model: ReadModel, runner: ProjectionRunner) -> None:
        """Take what `open_read_model` has returned for the path and the log."""
        self.name: Final = NAME
        self._generations = Generations(path)
        self._log = log
        self._model = model
        self.runner = runner
        self.rebuilder = Rebuilder(NAME, log, self._begin, self._finish, self._tidy)

    def start(self) -> None:
        """Go on with what somebody was killed at."""
        if self._generations.file(self._generations.live() + 1).exists():
            self.rebuilder.start()

    def wait_for(self, position: int, timeout: float) -> None:
        """Return once everything up to the position can be read; see `ProjectionRunner.wait_for`."""
        self.runner.wait_for(position, timeout)

    def status(self, head: int) -> ProjectionStatus:
        """Return how it is, when the log has reached this position."""
        position = self.runner.position
        return ProjectionStatus(
            name=NAME,
            version=VERSION,
            position=position,
            lag=max(0, head - position),
            health=self.runner.health,
            failure=failure_of(self.runner.failure or self.rebuilder.failure),
            rebuild=self.rebuilder.progress,
        )

    def rebuild(self, report: OnProgress | None = None) -> None:
        """Make the tables anew beside those that are read, and put them in their place; see `Rebuilder.run`."""
        self.rebuilder.run(report)

    def retry(self) -> None:
        """Go on where it has stopped."""
        self.runner.retry()

    def end(self) -> None:
        """Have a rebuilding and the runner come to their ends; return at once. Idempotent."""
        self.rebuilder.end()
        self.runner.end()

    def close(self, until: float | None = None) -> None:
        """Have a rebuilding end, to be gone on with at the next opening, and the runner. Idempotent.

        Waits until this moment of the monotonic clock, by itself for `GRACE`.
        """
        self.end()
        until = time.monotonic() + GRACE if until is None else until
        self.rebuilder.close(until)
        self.runner.close(until)

    def _begin(self) -> ReadModelSuccessor:
        return ReadModelSuccessor(self._generations, self._log, self._model)

    def _finish(self, successor: ReadModelSuccessor) -> None:
        self._generations.settle(successor.number)
        self.runner.exchange(successor, successor.take_over)

    def _tidy(self) -> None:
        for _ in range(_LOOKS):  # questions that were being answered are, in a moment
            if self._generations.clear_old() or self.rebuilder.waits_in_vain(_PAUSE):
                return
