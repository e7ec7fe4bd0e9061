"""Places for tables: a directory, and a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.journal.server import Server, running_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A PostgreSQL server for all tests of this process."""
    runtime = tmp_path_factory.getbasetemp().parent / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    with running_server(runtime) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place that nothing is at yet, once for each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "views")
    server = request.getfixturevalue("server")
    assert isinstance(server, Server)
    return server.new_log()
