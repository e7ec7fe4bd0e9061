"""A PostgreSQL server for those who ask for one."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.journal.server import Server, running_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A PostgreSQL server for all tests of this process."""
    runtime = tmp_path_factory.getbasetemp().parent / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    with running_server(runtime) as server:
        yield server
