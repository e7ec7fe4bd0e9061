"""The runtime's own tables, opened for tests of their parts."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from reenact.projections.log import Log
from reenact.projections.read_model.projection import Projection
from reenact.projections.read_model.queries import KeptReadModel, ReadModel
from reenact.projections.read_model.sqlite_store import SqliteFiles, SqliteStore
from reenact.projections.runner import Runner


def open_read_model(path: Path, log: Log) -> tuple[ReadModel, Runner]:
    """Return what reads the tables in the file, and what moves them along."""
    kept = KeptReadModel(SqliteFiles(path), log)
    return kept.model, kept.runner


def open_store(path: Path) -> SqliteStore:
    """Return the tables in the file, which are made if there are none."""
    store = SqliteStore(path)
    if not path.exists():
        store.make()
    return store


def tables_of(runner: Runner) -> Projection:
    """Return the tables that a runner moves along."""
    assert isinstance(runner._projection, Projection)
    return runner._projection


def connection_of(runner: Runner) -> sqlite3.Connection:
    """Return the connection to a file with which a runner writes."""
    connection = tables_of(runner)._connection
    assert isinstance(connection, sqlite3.Connection)
    return connection
