"""A small log with everything in it, and a checkpoint of it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reenact.audit import checkpoint_of
from tests.verification.sample import make_log


@pytest.fixture(scope="session")
def log() -> Generator[Path]:
    """A log that every test copies."""
    with tempfile.TemporaryDirectory() as directory:
        yield make_log(Path(directory, "log.db"))


@pytest.fixture(scope="session")
def checkpoint(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the log."""
    path = tmp_path_factory.mktemp("kept") / "checkpoint"
    checkpoint_of(log, path)
    return path


@contextmanager
def copied(log: Path) -> Generator[Path]:
    """Lend a copy of the log, and of the tables beside it."""
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(f"{log}.projections", Path(directory, "copy.db.projections"))
        yield Path(shutil.copy(log, Path(directory, "copy.db")))
