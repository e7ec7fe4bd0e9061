"""Checks whether a log file has the tables of its format, and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from reenact.actors.journal.schema import APPLICATION_ID, FORMAT_VERSION, format_of, table_forms
from reenact.actors.journal.walk import text_of
from reenact.domain.chain import Row

Problem: TypeAlias = tuple[str, str]
"""The table or other part concerned, "" for the whole file, and the problem."""

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "steps": Row.__struct_fields__,
    "stored_snapshots": ("originator_id", "originator_version", "topic", "state"),
    "tracking": ("application_name", "notification_id"),
    "timers": ("stream", "due"),
    "consumers": ("topic", "client_id", "cursor", "seen_at"),
    "requests": ("id", "digest", "note", "at", "proof"),
    "keys": ("id", "stream", "wrapped"),
}
"""The columns that are read of each table."""
_OPTIONAL_TABLE = "keys"
"""The table that only an encrypted log has."""
_SQLITE_PREFIX = "sqlite_"
"""The prefix of SQLite's own tables and indexes."""
_INDEXED = {"timers_by_due": "timers", "steps_by_stream": "steps", "keys_by_stream": "keys"}
"""The indexes, with the tables they belong to."""


class Structure(msgspec.Struct, frozen=True):
    """The structure of a log file.

    `version` is the format that it states. `columns` maps tables, or what exists in their place, to their columns, and
    `forms` maps all parts to their SQL definitions, without whitespace.
    """

    version: int
    application: int
    columns: Mapping[str, frozenset[str]]
    forms: Mapping[str, str]

    def tables(self) -> dict[str, bool]:
        """Return the tables that a log has, and whether they exist, without those that lack a column."""
        return {
            name: name in self.columns
            for name, wanted in COLUMNS.items()
            if name != _OPTIONAL_TABLE or name in self.columns
            if name not in self.columns or self.columns[name].issuperset(wanted)
        }

    def problems(self) -> Iterator[Problem]:
        """Yield the differences from the structure of a log, except for missing tables."""
        if self.application != APPLICATION_ID:
            yield "", f"the file says that it is the database of something else ({self.application:#x})"
        if self.version != FORMAT_VERSION:
            yield "", f"the file says that it has format {self.version}, which no log has"
        expected, missing = table_forms(), COLUMNS.keys() - self.columns.keys()
        for name, form in self.forms.items():
            known = expected.get(name)
            if known is None:
                yield name, "a log has no such table, index, view or trigger"
            elif form != known:
                yield name, "it differs from that of a log"
        for name in expected:
            if (
                name not in self.forms
                and not name.startswith(_SQLITE_PREFIX)
                and _INDEXED.get(name, name) not in missing
            ):
                yield name, "the index is missing"


def structure_of(connection: sqlite3.Connection) -> Structure:
    """Read the structure of the database; text may come in whatever type the connection returns.

    Raises:
        sqlite3.Error: the database cannot be read.
    """
    forms: dict[str, str] = {}
    for name, sql in _texts(connection.execute("SELECT name, sql FROM sqlite_master")):
        if not name.startswith(_SQLITE_PREFIX):
            forms[name] = "".join(sql.split())
    columns = {
        name: frozenset(
            column for (column,) in _texts(connection.execute("SELECT name FROM pragma_table_xinfo(?)", (name,)))
        )
        for name in forms
        if name in COLUMNS
    }
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    return Structure(format_of(connection), application, columns, forms)


def _texts(rows: Iterable[tuple[object, ...]]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        yield tuple("" if cell is None else cell if isinstance(cell, str) else text_of(cell) for cell in row)
