"""The rows of a log by transaction, and hand-written sqlite3 that writes the same rows."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from bench.measure import Sample, alone, must
from reenact.actors.journal.api import Synchronous
from reenact.domain.chain import Row

SqlRow: TypeAlias = tuple[int | str | bytes | None, ...]
Transaction: TypeAlias = list[SqlRow]
"""Rows of `steps`."""

_ROWS: Final = f"SELECT {', '.join(Row.__struct_fields__)} FROM steps ORDER BY number"  # noqa: S608 - ours
_INSERT: Final = f"INSERT INTO steps VALUES ({', '.join('?' * len(Row.__struct_fields__))})"  # noqa: S608 - likewise
_TABLES: Final = "SELECT sql FROM sqlite_master WHERE tbl_name = 'steps' AND sql IS NOT NULL"


@dataclass(frozen=True)
class Written:
    """The earlier rows of a log, and the measured transactions."""

    tables: tuple[str, ...]
    before: Transaction
    transactions: tuple[Transaction, ...]

    @property
    def events(self) -> int:
        """The number of events written."""
        return sum(events_in(rows) for rows in self.transactions)

    @classmethod
    def found_in(cls, path: Path, *, before: int, commits: Sequence[int]) -> Written:
        """Read the rows of a log since position `before`; `commits` are the positions after each transaction."""
        tables, rows = _read(path)
        must(events_in(rows) == commits[-1], "the log holds what was committed and no more")
        parts: list[Transaction] = []
        place = events = 0
        for bound in (before, *commits):
            first = place
            while events < bound:
                events += events_in(rows[place : place + 1])
                place += 1
            parts.append(rows[first:place])
        return cls(tables, parts[0], tuple(parts[1:]))

    @classmethod
    def guessed_from(cls, path: Path) -> Written:
        """Read a log whose commits were not counted, assuming the smallest possible number.

        A transaction ends where a stream occurs again.
        """
        tables, rows = _read(path)
        parts: list[Transaction] = [[]]
        streams: set[object] = set()
        for row in rows:
            if row[1] in streams:
                parts.append([])
                streams.clear()
            streams.add(row[1])
            parts[-1].append(row)
        return cls(tables, [], tuple(parts))

    def write_again(self, directory: Path, synchronous: Synchronous = "FULL") -> list[float]:
        """Write the same rows in the same transactions into tables of the same form; return the seconds of each."""
        with closing(sqlite3.connect(directory / "raw.db", isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            for sql in self.tables:
                connection.execute(sql)
            self._write(connection, [self.before])
            took = self._write(connection, self.transactions)
            (count,) = connection.execute("SELECT total(count) FROM steps").fetchone()
            must(count == self.events + events_in(self.before), "every event is there")
        return took

    def _write(self, connection: sqlite3.Connection, transactions: Sequence[Transaction]) -> list[float]:
        took: list[float] = []
        for rows in transactions:
            begun = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT, rows)
            connection.execute("COMMIT")
            took.append(time.perf_counter() - begun)
        return took


def _read(path: Path) -> tuple[tuple[str, ...], Transaction]:
    with closing(sqlite3.connect(path)) as connection:
        return tuple(sql for (sql,) in connection.execute(_TABLES)), connection.execute(_ROWS).fetchall()


def events_in(rows: Transaction) -> int:
    """Return the number of events in the rows."""
    return sum(int(row[5] or 0) for row in rows)


class Writing(Protocol):
    """The rows that were written, which plain code can write again."""

    @property
    def events(self) -> int:
        """The number of events written."""
        ...

    def write_again(self, directory: Path) -> list[float]:
        """Write the same rows in the same transactions; return the seconds of each."""
        ...


class Rewritten:
    """A measure of one line: the events per second of ours, and of a bare driver that writes the same rows.

    The other side runs first in every other round, with the rows of the round before.
    """

    def __init__(self, ours: Callable[[Path], tuple[float, Writing]], *, events_each: float = 1) -> None:
        """Set the function that runs our side and returns its seconds, and the events in a unit of the line."""
        self._ours = ours
        self._events_each = events_each
        self._written: Writing | None = None

    def __call__(self, directory: Path, number: int) -> Sequence[Sample]:
        """Run both sides."""
        if number % 2 and self._written is not None:
            peer = alone(self._rewrite, directory)
            return (Sample(alone(self._write, directory), peer),)
        ours = alone(self._write, directory)
        return (Sample(ours, alone(self._rewrite, directory)),)

    def _write(self, directory: Path) -> float:
        took, self._written = self._ours(directory)
        return self._written.events / self._events_each / took

    def _rewrite(self, directory: Path) -> float:
        assert self._written is not None
        return self._written.events / self._events_each / sum(self._written.write_again(directory))
