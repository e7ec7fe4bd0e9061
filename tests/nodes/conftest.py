"""A PostgreSQL server for the tests of ownership, and a log on it."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from reenact.actors.journal.opening import open_journal
from tests.journal.server import Server, running_server
from tests.journal.support import CODEC


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A PostgreSQL server for all tests of this process."""
    runtime = tmp_path_factory.getbasetemp().parent / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    with running_server(runtime) as server:
        yield server


@pytest.fixture
def url(server: Server) -> str:
    """A log in which nothing is yet."""
    url = server.new_log()
    open_journal(url, CODEC).close()
    return url
