"""Checks whether a log file has the tables of its format, and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import TypeAlias

import msgspec

from reenact.actors.journal.schema import create_keys, create_tables, format_of
from reenact.actors.journal.walk import text_of

Problem: TypeAlias = tuple[str, str]
"""The table or other part concerned, "" for the whole file, and the problem."""

_OPTIONAL_TABLE = "keys"
"""The table that only an encrypted log has."""
_TABLE = "CREATETABLE"
"""How the definition of a table begins. A view may have rows without end."""
_SQLITE_PREFIX = "sqlite_"
"""The prefix of SQLite's own tables and indexes."""


class Structure(msgspec.Struct, frozen=True):
    """The structure of a log file.

    `version` is the format that it states. `columns` maps tables, or what exists in their place, to their columns.
    `forms` maps all parts to their SQL definitions, without whitespace, and `table_of` to the tables they belong to.
    """

    version: int
    application: int
    columns: Mapping[str, frozenset[str]]
    forms: Mapping[str, str]
    table_of: Mapping[str, str]

    def tables(self) -> dict[str, bool]:
        """Return the tables that a log has, and whether they exist, without those that lack a column or are views."""
        return {
            name: name in self.columns
            for name, wanted in _intact_structure().columns.items()
            if name != _OPTIONAL_TABLE or name in self.columns
            if name not in self.columns
            or (self.columns[name].issuperset(wanted) and self.forms[name].startswith(_TABLE))
        }

    def problems(self) -> Iterator[Problem]:
        """Yield the differences from the structure of a log, except for missing tables."""
        intact = _intact_structure()
        if self.application != intact.application:
            yield "", f"the file says that it is the database of something else ({self.application:#x})"
        if self.version != intact.version:
            yield "", f"the file says that it has format {self.version}, which no log has"
        for name, form in self.forms.items():
            known = intact.forms.get(name)
            if known is None:
                yield name, "a log has no such table, index, view or trigger"
            elif form != known:
                yield name, "it differs from that of a log"
        for name, table in intact.table_of.items():
            if name not in self.forms and table in self.columns:
                yield name, "the index is missing"


def structure_of(connection: sqlite3.Connection) -> Structure:
    """Read the structure of the database; text may come in whatever type the connection returns.

    Raises:
        sqlite3.Error: the database cannot be read.
    """
    return _structure_of(connection, _intact_structure().columns.keys())


@cache
def _intact_structure() -> Structure:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_tables(connection)
        create_keys(connection)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return _structure_of(connection, {name for (name,) in tables})


def _structure_of(connection: sqlite3.Connection, tables: Iterable[str]) -> Structure:
    forms: dict[str, str] = {}
    table_of: dict[str, str] = {}
    for name, table, sql in _texts(connection.execute("SELECT name, tbl_name, sql FROM sqlite_master")):
        if not name.startswith(_SQLITE_PREFIX):
            forms[name], table_of[name] = "".join(sql.split()), table
    columns = {
        name: frozenset(
            column for (column,) in _texts(connection.execute("SELECT name FROM pragma_table_xinfo(?)", (name,)))
        )
        for name in tables
        if name in forms
    }
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    return Structure(format_of(connection), application, columns, forms, table_of)


def _texts(rows: Iterable[tuple[object, ...]]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        yield tuple("" if cell is None else cell if isinstance(cell, str) else text_of(cell) for cell in row)
