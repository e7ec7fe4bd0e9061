"""A journal for each test, closed after it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from reenact.actors.journal.api import Publication
from reenact.actors.journal.sqlite import SqliteJournal
from tests.journal.support import CODEC


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def heard() -> list[Publication]:
    """What the journal's listener has heard, in order."""
    return []


@pytest.fixture
def journal(path: Path, heard: list[Publication]) -> Generator[SqliteJournal]:
    with SqliteJournal.open(path, CODEC, listener=heard.extend) as journal:
        yield journal
