"""Projections of users against a hand-written loop, and the cost of a rebuild while others read."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, select

from bench.measure import Line, Sample, Workload, alone, must
from bench.projecting import write_log
from reenact._runtime import codec
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain.session.agent import MessageAccepted
from reenact.projections import Projection, Projections, Row, on
from reenact.projections.read_model.queries import ReadModelProjection
from reenact.projections.read_model.sqlite_store import SqliteFiles
from reenact.projections.views.hosted import UserTables

_PAGE: Final = (
    "SELECT number, position, stream, events FROM steps WHERE number > ? AND count > 0 ORDER BY number LIMIT ?"
)
_unpack: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode


class Questions(Projection):
    """The questions, with their lengths."""

    name = "questions"
    tables = MetaData()
    questions = Table(
        "questions",
        tables,
        Column("position", Integer, primary_key=True),
        Column("stream", Text, nullable=False),
        Column("length", Integer, nullable=False),
    )
    add = insert(questions)

    @on(MessageAccepted)
    def note(self, write: Connection, event: MessageAccepted, row: Row) -> None:
        """Add a row."""
        length = sum(len(getattr(block, "text", "")) for block in event.content)
        write.execute(self.add, {"position": row.position, "stream": row.stream, "length": length})


class PlainQuestions(Questions):
    """The same in SQL."""

    sql: Final = "INSERT INTO questions VALUES (?, ?, ?)"

    @on(MessageAccepted)
    def note(self, write: Connection, event: MessageAccepted, row: Row) -> None:
        """Add a row."""
        length = sum(len(getattr(block, "text", "")) for block in event.content)
        write.exec_driver_sql(self.sql, (row.position, row.stream, length))


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is measured."""
    sessions, turns = (50, 10) if quick else (500, 20)
    return [
        _own("a projection of one's own, in SQLAlchemy", Questions(), sessions, turns),
        _own("a projection of one's own, in SQL", PlainQuestions(), sessions, turns),
        _rebuilding(sessions, turns),
    ]


def _own(name: str, projection: Questions, sessions: int, turns: int) -> Workload:
    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        log = directory / "log.db"
        events = write_log(log, sessions, turns)
        found: list[list[tuple[object, ...]]] = []
        sample = Sample(
            events / alone(lambda own: _ours(log, own / "views", projection, found), directory),
            events / alone(lambda own: _by_hand(log, own / "peer.db", found), directory),
        )
        must(found[0] == found[1], "both have the same rows")
        return (sample,)

    return Workload((Line(name, "events/s", "sqlite3"),), measure)


def _ours(log: Path, place: Path, projection: Questions, found: list[list[tuple[object, ...]]]) -> float:
    with SqliteJournal.open(log, codec(), read_only=True) as journal:
        begun = time.perf_counter()
        with Projections.open(place, journal, [projection]) as projections:
            projections.wait_for(timeout=600)
            took = time.perf_counter() - begun
            with projections.read(projection) as connection:
                found.append([tuple(row) for row in connection.execute(select(Questions.questions))])
    return took


def _by_hand(log: Path, tables: Path, found: list[list[tuple[object, ...]]]) -> float:
    decode, number, position = codec().decode, 0, 0
    begun = time.perf_counter()
    with closing(sqlite3.connect(log)) as source, closing(sqlite3.connect(tables, isolation_level=None)) as target:
        target.execute("PRAGMA journal_mode = WAL")
        target.execute("PRAGMA synchronous = NORMAL")
        target.execute("CREATE TABLE questions (position INTEGER PRIMARY KEY, stream TEXT, length INTEGER)")
        target.execute("CREATE TABLE progress (position INTEGER)")
        target.execute("INSERT INTO progress VALUES (0)")
        while page := source.execute(_PAGE, (number, UserTables.batch)).fetchall():
            target.execute("BEGIN IMMEDIATE")
            for _, first, stream, events in page:
                for position, (topic, state) in enumerate(_unpack(events), first):
                    _, event = decode(topic, state)
                    if isinstance(event, MessageAccepted):
                        length = sum(len(getattr(block, "text", "")) for block in event.content)
                        target.execute("INSERT INTO questions VALUES (?, ?, ?)", (position, stream, length))
            number = page[-1][0]
            target.execute("UPDATE progress SET position = ?", (position,))
            target.execute("COMMIT")
        took = time.perf_counter() - begun
        found.append(target.execute("SELECT * FROM questions ORDER BY position").fetchall())
    return took


def _rebuilding(sessions: int, turns: int) -> Workload:
    lines = (
        Line("the runtime's tables, rebuilt beside those that are read", "events/s"),
        Line("the live ones stand still for the swap", "ms"),
    )

    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        log, tables = directory / "log.db", directory / "tables.db"
        events = write_log(log, sessions, turns)
        with SqliteJournal.open(log, codec(), read_only=True) as journal:
            kept = ReadModelProjection(SqliteFiles(tables), journal)
            with kept.model, kept.runner as runner:
                exchange, stood = runner.exchange, [0.0]

                def timed(successor: Any, take_over: Callable[[], None]) -> None:  # noqa: ANN401 - whatever it is
                    before = time.perf_counter()

                    def take_over_and_note() -> None:
                        take_over()
                        stood[0] = time.perf_counter() - before

                    exchange(successor, take_over_and_note)

                runner.exchange = timed  # type: ignore[method-assign]  # to look at the clock
                begun = time.perf_counter()
                kept.rebuild()
                took = time.perf_counter() - begun
        return Sample(events / took), Sample(1000 * stood[0])

    return Workload(lines, measure)
