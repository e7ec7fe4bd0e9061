"""Every kind of damage, done to every column of every table of a log: what a disk, or anybody, can leave in a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from reenact.domain.history.stored import STORED
from tests.verification.tampering import KEYS, Cell, delete, insert, rows_of

_LOOSE = (
    "PRAGMA writable_schema = ON",
    "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE type = 'table'",
)


def _bytes(cell: Cell) -> bytes:
    return cell if isinstance(cell, bytes) else str(cell).encode(errors="surrogateescape")


def _flipped(cell: Cell) -> Cell:
    content = bytearray(_bytes(cell) or b"\x00")
    content[len(content) // 2] ^= 0x41
    return bytes(content) if isinstance(cell, bytes) else content.decode(errors="surrogateescape")


def _emptied(cell: Cell) -> Cell:
    """Keep the form of what is packed, and nothing of what it says."""
    unpacked = msgspec.msgpack.decode(_bytes(cell))
    is_of_event = unpacked[0] and isinstance(unpacked[0][0], str)
    return msgspec.msgpack.encode([["session-created:1", b"\x92"]] if is_of_event else [[[{}, []]], *unpacked[1:]])


def _aged(cell: Cell) -> Cell:
    """Put another number in place of the first that is found in what is packed: a time that no calendar has."""
    unpacked = msgspec.msgpack.decode(_bytes(cell))
    if isinstance(unpacked[0][0], list):
        unpacked[0][0][1][0][1] = 2**62
    else:
        unpacked[0][1] = msgspec.msgpack.encode([2**62, *msgspec.msgpack.decode(unpacked[0][1])[1:]])
    return msgspec.msgpack.encode(unpacked)


def _of_another_type(cell: Cell, topic: str) -> Cell:
    unpacked = msgspec.msgpack.decode(_bytes(cell))
    unpacked[0][0] = topic
    return msgspec.msgpack.encode(unpacked)


CELLS: dict[str, Callable[[Cell], Cell]] = {
    "nothing": lambda _: None,
    "a number": lambda _: 7,
    "the largest number": lambda _: 2**63 - 1,
    "a negative number": lambda _: -1,
    "no whole number": lambda _: 1.5,
    "text": lambda _: "x",
    "no text": lambda _: b"\xff\xfe",
    "empty": lambda cell: b"" if isinstance(cell, bytes) else "",
    "garbage": lambda _: b"\xc1" * 17,
    "very long": lambda cell: _bytes(cell) * 2000,
    "the first half": lambda cell: _bytes(cell)[: len(_bytes(cell)) // 2],
    "other bits": _flipped,
    "its form alone": _emptied,
    "another time": _aged,
}
"""What becomes of a cell."""


class Damage(NamedTuple):
    """A damage to a row, by its number in the table, or to one of its cells."""

    table: str
    row: int
    column: str
    what: str

    def do(self, path: Path) -> bool:
        """Damage the log; return False if that changes nothing."""
        with _loosely(path) as connection:
            rows = rows_of(connection, self.table)
            row, other = dict(rows[self.row]), dict(rows[(self.row + 1) % len(rows)])
            if self.what == "exchanged":
                keys = (*KEYS[self.table], "stream", "version", "position", "cursor")
                keys += ("originator_id", "originator_version")
                row |= {name: cell for name, cell in other.items() if name not in keys}
                other |= {name: cell for name, cell in rows[self.row].items() if name not in keys}
            elif self.what in STORED:
                if row["events"] is None:
                    return False
                row["events"] = _of_another_type(row["events"], f"{self.what}:1")
            elif self.what != "removed":
                try:
                    row[self.column] = CELLS[self.what](row[self.column])
                except (msgspec.DecodeError, TypeError, LookupError, UnicodeError):  # nothing is packed there
                    return False
            if row == rows[self.row] and self.what != "removed":
                return False
            delete(connection, self.table, rows[self.row])
            if self.what == "exchanged":
                delete(connection, self.table, rows[(self.row + 1) % len(rows)])
                insert(connection, self.table, other)
            if self.what != "removed":
                insert(connection, self.table, row)
            connection.commit()
            return True


def damages_of(path: Path) -> Iterator[Damage]:
    """Yield every damage to every column, each to another row, and every damage to every row."""
    numbers = count()
    with closing(sqlite3.connect(path)) as connection:
        tables = {table: rows_of(connection, table) for table in KEYS}
    for table, rows in tables.items():
        assert rows, table
        for column in rows[0]:
            for what in CELLS:
                yield Damage(table, next(numbers) % len(rows), column, what)
        for row in range(len(rows)):
            yield Damage(table, row, "", "removed")
            if len(rows) > 1:
                yield Damage(table, row, "", "exchanged")
            if table == "steps":
                yield Damage(table, row, "", list(STORED)[row % len(STORED)])


@contextmanager
def _loosely(path: Path) -> Generator[sqlite3.Connection]:
    """Open the log so that any column takes anything; afterwards its tables say again what they hold."""
    with closing(sqlite3.connect(path)) as connection:
        said = connection.execute("SELECT sql, name FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        for statement in _LOOSE:
            connection.execute(statement)
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        try:
            yield connection
        except (sqlite3.IntegrityError, OverflowError):
            pass
        finally:
            connection.rollback()
            connection.execute("PRAGMA writable_schema = ON")
            connection.executemany("UPDATE sqlite_master SET sql = ? WHERE name = ?", said)
            connection.commit()
