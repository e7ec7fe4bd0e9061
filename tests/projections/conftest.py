"""Places for the read model's tables: beside the file of a log, and in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from reenact.projections.read_model.postgres_store import PostgresSchemas
from reenact.projections.views.schemas import Schemas
from tests.journal.server import Server


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a log would be whose tables have not been made yet, once for each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "log.db")
    server = request.getfixturevalue("server")
    assert isinstance(server, Server)
    return server.new_log()


@pytest.fixture
def url(server: Server) -> str:
    """Where a log would be in PostgreSQL."""
    return server.new_log()


@pytest.fixture
def schemas(url: str) -> Generator[PostgresSchemas]:
    """The schemas of tables that have not been made yet."""
    schemas = PostgresSchemas(Schemas.open(url))
    yield schemas
    schemas.close()
