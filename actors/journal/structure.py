"""Whether a log file says what it is, and consists of the tables that its format has, and of nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from reenact.actors.journal.schema import (
    APPLICATION_ID,
    ASIDE,
    FIRST_WITH_REDACTIONS,
    FIRST_WITH_SEALS,
    FORMAT_VERSION,
    format_of,
    forms_of,
)
from reenact.actors.journal.walk import text_of

Problem: TypeAlias = tuple[str, str]
"""A table, or whatever else it is, "" for the file, and what is wrong with it."""

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "stored_events": ("rowid", "originator_id", "originator_version", "topic", "state", "digest"),
    "feed": ("topic", "first_cursor", "count", "segments", "digest"),
    "stored_snapshots": ("originator_id", "originator_version", "topic", "state"),
    "tracking": ("application_name", "notification_id"),
    "timers": ("stream", "due"),
    "consumers": ("topic", "client_id", "cursor", "seen_at"),
    "requests": ("id", "digest", "note", "at"),
    "redactions": ("stream", "version", "seal"),
}
"""What is read of each table, in every format that has it."""
_LATER: Final = {"feed": ("sealed", FIRST_WITH_SEALS), "requests": ("proof", FIRST_WITH_REDACTIONS)}
_BY_SQLITE: Final = "sqlite_"
"""What the names of SQLite's own tables and indexes begin with."""
_STREAMS: Final = ("stored_events", "feed")
_INDEXED: Final = {"timers_by_due": "timers"}
"""What has a name of its own, and goes with a table."""


class Structure(msgspec.Struct, frozen=True):
    """What a file consists of.

    `version` is the format that its tables have, whatever it says, and `said` the one it says. `columns` are those of
    each table, or of what is in its place, `forms` how each part of it was made, without blanks, and
    `counted` how often it says where the log ends, None if not as it should.
    """

    said: int
    version: int
    application: int
    columns: Mapping[str, frozenset[str]]
    forms: Mapping[str, str]
    counted: int | None

    def tables(self) -> dict[str, bool]:
        """Return the tables that a log of this format has, and whether they are there; none that lacks a column."""
        there = {name: self.columns.get(name) for name in self._tables()}
        return {
            name: columns is not None
            for name, columns in there.items()
            if columns is None or self._wanted(name) <= columns
        }

    def problems(self) -> Iterator[Problem]:
        """Yield what is not as it was made, but for tables that are missing."""
        if self.application != APPLICATION_ID:
            yield "", f"the file says that it is the database of something else ({self.application:#x})"
        if self.said != self.version:
            yield "", f"the file says that it has format {self.said}, and its tables are those of format {self.version}"
        expected, missing = forms_of(self.version), {*self._tables()} - self.columns.keys()
        for name, form in self.forms.items():
            known = expected.get(name)
            if known is None:
                yield name, "a log has no such table, index, view or trigger"
            elif form not in known:
                yield name, "it is not as a log has it"
        for name in expected:
            if name not in self.forms and not name.startswith(_BY_SQLITE) and _INDEXED.get(name, name) not in missing:
                yield name, "the index is missing"
        if self.counted is None:
            yield "sqlite_sequence", "it does not say once where the log ends"

    def _tables(self) -> list[str]:
        return [*_STREAMS, *(name for name, since in ASIDE.items() if since <= self.version)]

    def _wanted(self, table: str) -> frozenset[str]:
        later = _LATER.get(table)
        return frozenset((*COLUMNS[table], *((later[0],) if later is not None and later[1] <= self.version else ())))


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
    said = format_of(connection)
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    return Structure(said, _version_of(columns, said), application, columns, forms, _counted(connection))


def _version_of(columns: Mapping[str, frozenset[str]], said: int) -> int:
    """Return the latest format of which there is anything, at least that which the file says, if there is such."""
    found = [since for name, since in ASIDE.items() if name in columns]
    found += [since for name, (column, since) in _LATER.items() if column in columns.get(name, ())]
    return max(1, *found, said if said <= FORMAT_VERSION else 1)


def _counted(connection: sqlite3.Connection) -> int | None:
    """Return how often it is said where the log ends, None if that is more than once, or said of something else."""
    try:
        rows = connection.execute("SELECT name, typeof(seq) FROM sqlite_sequence").fetchall()
    except sqlite3.OperationalError:
        return None
    wrong = [row for row in _texts(rows) if row != ("stored_events", "integer")]
    return len(rows) if len(rows) <= 1 and not wrong else None


def _texts(rows: Iterable[tuple[object, ...]]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        yield tuple("" if cell is None else cell if isinstance(cell, str) else text_of(cell) for cell in row)
