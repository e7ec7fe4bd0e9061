"""Whether a log file says what it is, and consists of the tables that its format has, and of nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from reenact.actors.journal.schema import APPLICATION_ID, FORMAT_VERSION, format_of, table_forms
from reenact.actors.journal.walk import text_of
from reenact.domain.chain import Row

Problem: TypeAlias = tuple[str, str]
"""A table, or whatever else it is, "" for the file, and what is wrong with it."""

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "steps": Row.__struct_fields__,
    "stored_snapshots": ("originator_id", "originator_version", "topic", "state"),
    "tracking": ("application_name", "notification_id"),
    "timers": ("stream", "due"),
    "consumers": ("topic", "client_id", "cursor", "seen_at"),
    "requests": ("id", "digest", "note", "at", "proof"),
    "keys": ("id", "stream", "wrapped"),
}
"""What is read of each table."""
_OPTIONAL = "keys"
"""The table that only a log has that is encrypted."""
_BY_SQLITE = "sqlite_"
"""What the names of SQLite's own tables and indexes begin with."""
_INDEXED = {"timers_by_due": "timers", "steps_by_stream": "steps", "keys_by_stream": "keys"}
"""What has a name of its own, and goes with a table."""


class Structure(msgspec.Struct, frozen=True):
    """What a file consists of.

    `version` is the format that it says it has. `columns` are those of each table, or of what is in its place, and
    `forms` how each part of it was made, without blanks.
    """

    version: int
    application: int
    columns: Mapping[str, frozenset[str]]
    forms: Mapping[str, str]

    def tables(self) -> dict[str, bool]:
        """Return the tables that a log has, and whether they are there; none that lacks a column."""
        return {
            name: name in self.columns
            for name, wanted in COLUMNS.items()
            if name != _OPTIONAL or name in self.columns
            if name not in self.columns or self.columns[name].issuperset(wanted)
        }

    def problems(self) -> Iterator[Problem]:
        """Yield what is not as it was made, but for tables that are missing."""
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
            if name not in self.forms and not name.startswith(_BY_SQLITE) and _INDEXED.get(name, name) not in missing:
                yield name, "the index is missing"


def structure_of(connection: sqlite3.Connection) -> Structure:
    """Look at what the file consists of; text comes as whatever the connection makes of it.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    forms: dict[str, str] = {}
    for name, sql in _texts(connection.execute("SELECT name, sql FROM sqlite_master")):
        if not name.startswith(_BY_SQLITE):
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
