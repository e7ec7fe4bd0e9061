"""Places for tables: a directory, and a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journal.server import Server
from tests.views.support import WatchedLog


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place that nothing is at yet, once for each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "views")
    server = request.getfixturevalue("server")
    assert isinstance(server, Server)
    return server.new_log()


@pytest.fixture
def log() -> WatchedLog:
    return WatchedLog()
