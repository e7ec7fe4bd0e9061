"""The runtime's own tables, opened for tests of their parts."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from reenact._location import location_of
from reenact._runtime import codec
from reenact.projections.generations import is_postgres
from reenact.projections.log import Log
from reenact.projections.read_model import opening
from reenact.projections.read_model.opening import tables_beside
from reenact.projections.read_model.postgres_store import PostgresSchemas
from reenact.projections.read_model.projection import ReadModelTables, Store
from reenact.projections.read_model.queries import ReadModel, ReadModelProjection, Tables
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.projections.read_model.sqlite_store import SqliteFiles, SqliteStore
from reenact.projections.runner import Runner
from reenact.projections.views.schemas import Schemas


def open_read_model(path: Path, log: Log) -> tuple[ReadModel, Runner]:
    """Return what reads the tables in the file, and what moves them along."""
    kept = ReadModelProjection(SqliteFiles(path), log)
    return kept.model, kept.runner


@contextmanager
def opened_at(place: str, log: Log) -> Generator[tuple[ReadModel, Runner]]:
    """Return what reads the tables of a log at the place, and what moves them along; close them in the end."""
    kept = opening.open_read_model(place, log)
    with kept.model, closing(kept):
        yield kept.model, kept.runner


@contextmanager
def reader_tables_of(log: str) -> Generator[ReaderTables]:
    """Open a log for reading, and yield its tables."""
    location = location_of(log)
    with (
        location.open(codec(), read_only=True) as journal,
        ReaderTables(location.url, journal, location.has_writer, cipher=journal.codec.vault) as tables,
    ):
        yield tables


@contextmanager
def tables_at(place: str) -> Generator[Tables]:
    """Return the generations of the tables of a log at the place."""
    if not is_postgres(place):
        yield SqliteFiles(tables_beside(place))
        return
    with closing(PostgresSchemas(Schemas.open(place))) as tables:
        yield tables


def numbers_at(place: str) -> list[int]:
    """Return which generations there are."""
    with tables_at(place) as tables:
        return tables.numbers()


def change_at(place: str, number: int, statement: str) -> None:
    """Do something to the tables of a generation behind everybody's back."""
    with tables_at(place) as tables, closing(tables.store(number).connect()) as connection:
        connection.execute(statement)
        if isinstance(connection, sqlite3.Connection):
            connection.commit()


def set_version(place: str, version: int) -> None:
    """Have the tables of the first generation be of another version."""
    table = "reenact_progress" if is_postgres(place) else "progress"
    change_at(place, 1, f"UPDATE {table} SET version = {version}")  # noqa: S608 - ours


def open_store(path: Path) -> SqliteStore:
    """Return the tables in the file, which are made if there are none."""
    store = SqliteStore(path)
    if not path.exists():
        store.make()
    return store


def apply(log: Log, store: Store, at_once: int | None = None) -> None:
    """Apply the whole log to the tables, so many events at a time."""
    projection = ReadModelTables(log, store)
    while projection.advance() if at_once is None else projection.advance(at_once):
        pass
    projection.close(intact=True)


def tables_of(runner: Runner) -> ReadModelTables:
    """Return the tables that a runner moves along."""
    assert isinstance(runner._projection, ReadModelTables)
    return runner._projection


def connection_of(runner: Runner) -> sqlite3.Connection:
    """Return the connection to a file with which a runner writes."""
    connection = tables_of(runner)._connection
    assert isinstance(connection, sqlite3.Connection)
    return connection
