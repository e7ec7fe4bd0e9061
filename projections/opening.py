"""The runtime's own tables: opened beside a log, kept up with it, and made anew while they are read."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from reenact.projections import compiled
from reenact.projections.connections import Store
from reenact.projections.generations import Generations, remove
from reenact.projections.log import Log
from reenact.projections.projection import NAME, Projection
from reenact.projections.queries import ReadModel
from reenact.projections.rebuilding import Followed
from reenact.projections.runner import Moving, Runner

_LOOKS: Final = 100
_PAUSE: Final = 0.01
"""Seconds between two looks whether the former tables are still read."""

_log: Final = logging.getLogger("reenact.projections")


class KeptReadModel(Followed):
    """The runtime's own tables, and the `model` that reads them; close this first, then the model."""

    def __init__(self, path: Path, log: Log) -> None:
        """Open the tables in the file, up to date, with a runner that is running.

        The tables are made anew when they are missing, damaged, ahead of the log, or of another log. Those of another
        version are left until new ones have been made beside them.

        Raises:
            ReadModelError: the file cannot be written, or the log not be read.
            ProjectionFailedError: the log holds an event that cannot be projected.
        """
        self._files = Generations(path)
        self.model = ReadModel(Store(path))
        super().__init__(NAME, log, self._files, version=compiled.VERSION)
        if self._former is not None:
            _log.warning("%s is made anew from the log: it is of version %s", path.name, self._former.version)
            self.rebuild()
        self.model.turn_to(Store(self._files.current()))
        try:
            self.runner.catch_up()
            self.runner.start()
        except BaseException:
            self.runner.close()
            raise

    @property
    def runner(self) -> Runner:
        """What moves the tables along."""
        assert self._runner is not None  # they are of this version once this is made
        return self._runner

    def start(self) -> None:
        """Go on with what somebody was killed at."""
        if self._begun():
            self._rebuild_aside()

    def _create(self, number: int) -> None:
        remove(self._files.file(number))
        Store(self._files.file(number)).make()

    def _open(self, number: int) -> Projection:
        return Projection(self._log, Store(self._files.file(number)), number)

    def _take_over(self, successor: Moving) -> None:
        super()._take_over(successor)
        self.model.turn_to(Store(self._files.current()))

    def _tidy(self) -> None:
        for _ in range(_LOOKS):  # questions that were being answered are, in a moment
            if self._clear_old() or self._closing.wait(_PAUSE):
                return
