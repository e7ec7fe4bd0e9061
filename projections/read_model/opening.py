"""Where the runtime's own tables are: in files beside that of the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reenact.projections.generations import ProjectionStatus, seen
from reenact.projections.log import Log
from reenact.projections.read_model.queries import KeptReadModel


def open_read_model(place: str, log: Log) -> KeptReadModel:
    """Open the runtime's own tables of the log at the place, up to date, with a runner that is running.

    `place` is what the log was opened with: a path.

    Raises:
        ReadModelError: the tables cannot be written, or the log not be read.
        ProjectionFailedError: the log holds an event that cannot be projected.
    """
    return KeptReadModel(tables_beside(place), log)


def statuses(place: str, views: str, *, head: int, is_run: bool) -> Iterator[ProjectionStatus]:
    """Yield how the runtime's own tables are, and those of users' projections at `views`; nothing is changed.

    `head` is where the log ends, `is_run` whether a process writes it, and so keeps the projections.

    Raises:
        ReadModelError: the tables cannot be read.
    """
    yield from seen(tables_beside(place), Path(views), head=head, is_run=is_run)


def tables_beside(path: str) -> Path:
    """Return the first file of the tables beside a log in a file."""
    return Path(f"{path}.projections")
