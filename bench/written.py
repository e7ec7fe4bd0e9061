"""The rows that a log has got, by transaction; and hand-written sqlite3 that writes the very same ones."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

from bench.measure import Sample, alone, must
from reenact.actors.journal.api import Synchronous

SqlRow: TypeAlias = tuple[int | str | bytes, ...]
Transaction: TypeAlias = tuple[list[SqlRow], list[SqlRow]]
"""Rows of `stored_events` and rows of `feed`."""

_TABLES: Final = "SELECT sql FROM sqlite_master WHERE tbl_name IN ('stored_events', 'feed') AND sql IS NOT NULL"


@dataclass(frozen=True)
class Written:
    """What a log held before, and the transactions that were measured."""

    tables: tuple[str, ...]
    before: Transaction
    transactions: tuple[Transaction, ...]

    @property
    def events(self) -> int:
        """How many events were written."""
        return sum(len(events) for events, _ in self.transactions)

    @classmethod
    def found_in(cls, path: Path, *, before: int, commits: Sequence[int], feed_per_event: float = 0) -> Written:
        """Read what a log has got since position `before`; `commits` are the positions after each transaction.

        A step of each workload has as many feed rows as events, or half as many, or none.
        """
        with closing(sqlite3.connect(path)) as connection:
            tables = connection.execute(_TABLES).fetchall()
            events: list[SqlRow] = connection.execute("SELECT * FROM stored_events ORDER BY rowid").fetchall()
            feed: list[SqlRow] = connection.execute("SELECT * FROM feed ORDER BY rowid").fetchall()
        must(len(events) == commits[-1], "the log holds what was committed and no more")
        must(len(feed) == round(feed_per_event * len(events)), "each step has its feed rows")
        bounds = pairwise([0, before, *commits])
        parts = [
            (events[first:last], feed[round(first * feed_per_event) : round(last * feed_per_event)])
            for first, last in bounds
        ]
        return cls(tuple(sql for (sql,) in tables), parts[0], tuple(parts[1:]))

    @classmethod
    def guessed_from(cls, path: Path) -> Written:
        """Read a log whose commits nobody has counted, as if there had been no more than there must have been.

        A transaction has one row at most in the feed of a topic, so one ends where a topic comes again. Which of them
        an event was in does not stand there: the events are spread evenly.
        """
        with closing(sqlite3.connect(path)) as connection:
            tables = connection.execute(_TABLES).fetchall()
            events: list[SqlRow] = connection.execute("SELECT * FROM stored_events ORDER BY rowid").fetchall()
            feed: list[SqlRow] = connection.execute("SELECT * FROM feed ORDER BY rowid").fetchall()
        starts = [0]
        topics: set[object] = set()
        for number, (topic, *_) in enumerate(feed):
            if topic in topics:
                starts.append(number)
                topics.clear()
            topics.add(topic)
        bounds = list(pairwise([*starts, len(feed)]))
        share = len(events) / len(bounds)
        return cls(
            tuple(sql for (sql,) in tables),
            ([], []),
            tuple(
                (events[round(number * share) : round((number + 1) * share)], feed[first:last])
                for number, (first, last) in enumerate(bounds)
            ),
        )

    def write_again(self, directory: Path, synchronous: Synchronous = "FULL") -> list[float]:
        """Write the same rows in the same transactions into tables of the same form; return the seconds of each."""
        with closing(sqlite3.connect(directory / "raw.db", isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            for sql in self.tables:
                connection.execute(sql)
            self._write(connection, [self.before])
            took = self._write(connection, self.transactions)
            (count,) = connection.execute("SELECT count(*) FROM stored_events").fetchone()
            must(count == self.events + len(self.before[0]), "every row is there")
        return took

    def _write(self, connection: sqlite3.Connection, transactions: Sequence[Transaction]) -> list[float]:
        into_events, into_feed = (_insert(table, connection) for table in ("stored_events", "feed"))
        took: list[float] = []
        for events, feed in transactions:
            begun = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(into_events, events)
            if feed:
                connection.executemany(into_feed, feed)
            connection.execute("COMMIT")
            took.append(time.perf_counter() - begun)
        return took


def _insert(table: str, connection: sqlite3.Connection) -> str:
    columns = len(connection.execute(f"SELECT * FROM {table} LIMIT 0").description)  # noqa: S608 - one of two names
    return f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})"  # noqa: S608 - likewise


class Rewritten:
    """A measure of one line: what ours writes in a second, and what raw sqlite3 does that writes the same again.

    The other side goes first in every other round, with what the round before has written.
    """

    def __init__(self, ours: Callable[[Path], tuple[float, Written]], *, events_each: float = 1) -> None:
        """Take what runs our side and returns its seconds; a unit of the line is so many events."""
        self._ours = ours
        self._events_each = events_each
        self._written: Written | None = None

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
