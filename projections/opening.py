"""Opening the projections beside a log."""

from __future__ import annotations

from pathlib import Path

from reenact.projections.log import Log
from reenact.projections.queries import ReadModel
from reenact.projections.runner import ProjectionRunner
from reenact.projections.store import open_store


def open_read_model(path: Path, log: Log) -> tuple[ReadModel, ProjectionRunner]:
    """Return the read model in the file, up to date, and its running runner; close the runner, then the model.

    The file is made anew when it is missing, damaged, of another version, ahead of the log, or of another log.

    Raises:
        ReadModelError: the file cannot be written, or the log not be read.
        ProjectionFailedError: the log holds an event that cannot be projected.
    """
    engine = open_store(path, log)
    try:
        runner = ProjectionRunner(log, engine)
    except BaseException:
        engine.dispose()
        raise
    try:
        runner.catch_up()
        runner.start()
    except BaseException:
        runner.close()
        engine.dispose()
        raise
    return ReadModel(engine), runner
