"""Logs of both kinds, a journal for each test, closed after it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from reenact.actors.journal.api import Publication
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.stored import StoredJournal
from tests.journal.server import Server
from tests.journal.support import CODEC, Log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def log(request: pytest.FixtureRequest, path: Path) -> Log:
    """A log that has not begun yet, once for each kind of store."""
    return Log(str(path)) if request.param == "sqlite" else postgres_log(request)


def postgres_log(request: pytest.FixtureRequest) -> Log:
    """Return a log that has not begun yet on the server, which is started if it does not run."""
    server = request.getfixturevalue("server")
    assert isinstance(server, Server)
    return Log(server.new_log())


@pytest.fixture
def heard() -> list[Publication]:
    """What the journal's listener has heard, in order."""
    return []


@pytest.fixture
def journal(log: Log, heard: list[Publication]) -> Generator[StoredJournal]:
    with log.open(listener=heard.extend) as journal:
        yield journal


@pytest.fixture
def sqlite_journal(path: Path, heard: list[Publication]) -> Generator[SqliteJournal]:
    with SqliteJournal.open(path, CODEC, listener=heard.extend) as journal:
        yield journal
