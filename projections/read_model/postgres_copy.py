"""Copies the live tables from PostgreSQL to an SQLite file, to compare them or to continue from them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, inspect, select
from sqlalchemy.exc import DBAPIError, NoResultFound

from reenact.projections.errors import ReadModelError
from reenact.projections.generations import NAME
from reenact.projections.read_model.postgres_store import unescaped
from reenact.projections.read_model.sqlite_store import make_tables
from reenact.projections.read_model.tables import METADATA, OF_SQLITE, VERSION
from reenact.projections.views.schemas import ProjectionSchemas, Schemas
from reenact.projections.views.transactions import OWN, read_progress, trouble

_AT_ONCE = 1000
"""The number of rows in memory at a time."""


def copy_live(url: str, to: Path) -> bool:
    """Copy the live tables of the log at the URL to a new file, in one transaction; return False if there are none.

    A table that is missing or has other columns is missing in the file, and so is a missing index, unless it exists
    only in SQLite.

    Raises:
        ReadModelError: the tables cannot be read.
    """
    with closing(Schemas(url)) as schemas:
        if NAME not in schemas.names():
            return False
        place = schemas.of(NAME)
        try:
            with place.reading() as source, closing(sqlite3.connect(to, isolation_level=None)) as target:
                target.execute("PRAGMA synchronous=OFF")
                make_tables(target)
                if _copy_progress(source, target):
                    _drop_what_differs(source, target, place)
                    _copy_rows(source, target)
        except DBAPIError as error:
            raise trouble(error) from error
        except sqlite3.DatabaseError as error:
            raise ReadModelError(f"the projections beside the log are damaged: {error}") from error
    return True


def _copy_progress(source: Connection, target: sqlite3.Connection) -> bool:
    """Copy the progress of the tables; return whether they are of this version."""
    try:
        found = read_progress(source)
    except NoResultFound:
        target.execute("DELETE FROM progress")
        return False
    values = found.position, found.mark, found.version
    target.execute("UPDATE progress SET position = ?, mark = ?, version = ?", values)
    return found.version == VERSION


def _drop_what_differs(source: Connection, target: sqlite3.Connection, place: ProjectionSchemas) -> None:
    looking = inspect(source)
    schema = place.schema(place.find_live(source) or 1)
    there = set(looking.get_table_names(schema)) - OWN.tables.keys()
    for name in there - METADATA.tables.keys():
        target.execute(f'CREATE TABLE "{name}" (of_nobody)')
    for table in METADATA.sorted_tables:
        columns = [one["name"] for one in looking.get_columns(table.name, schema)] if table.name in there else []
        if columns != table.columns.keys():
            target.execute(f"DROP TABLE {table.name}")
            continue
        indexes = {one["name"] for one in looking.get_indexes(table.name, schema)}
        for index in table.indexes - {OF_SQLITE}:
            if index.name not in indexes:
                target.execute(f"DROP INDEX {index.name}")


def _copy_rows(source: Connection, target: sqlite3.Connection) -> None:
    for table in METADATA.sorted_tables:
        if not target.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table.name,)).fetchone():
            continue
        places = ", ".join("?" * len(table.columns))
        target.execute("BEGIN")
        with source.execution_options(yield_per=_AT_ONCE).execute(select(table)) as rows:
            for part in rows.partitions():
                cells = [tuple(unescaped(cell) if isinstance(cell, str) else cell for cell in row) for row in part]
                target.executemany(f"INSERT INTO {table.name} VALUES ({places})", cells)  # noqa: S608 - ours
        target.execute("COMMIT")
