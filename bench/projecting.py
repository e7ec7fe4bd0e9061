"""Catching up with a log: our runner, against hand-written sqlite3 that writes the same rows."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from bench.handwritten import Handwritten
from bench.measure import Line, Sample, Workload, alone, must, ratio_of_at_least
from bench.stock_view import stock_projection
from bench.workload import deltas, question
from reenact._runtime import codec
from reenact.actors.journal.api import Append
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain.messages import TextBlock
from reenact.domain.session.agent import AgentStarted, AnswerRecorded, MessageAccepted, TurnCompleted, TurnStarted
from reenact.domain.session.state import SessionCreated
from reenact.projections.read_model.projection import ReadModelTables
from reenact.projections.read_model.sqlite_store import SqliteStore
from reenact.projections.runner import Runner

Catching: TypeAlias = Callable[[Path, Path], float]
"""Brings tables in a file up to a log, and returns the seconds."""

_START: Final = 1_700_000_000_000_000
_PAGE: Final = (
    "SELECT number, position, stream, events FROM steps WHERE number > ? AND count > 0 ORDER BY number LIMIT ?"
)
_unpack: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode
_MOVE: Final = (
    "INSERT INTO progress VALUES ('reenact', ?, '', 1, 0) ON CONFLICT (name) DO UPDATE SET position = excluded.position"
)


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is measured."""
    sessions, turns = (50, 10) if quick else (500, 20)
    few = (20, 5) if quick else (100, 10)
    return [
        _against("projections, and the same by hand", "sqlite3", 0.7, (sessions, turns), by_hand),
        _against("projections, and the stock runner", "ProjectionRunner", 30, few, _stock("FULL")),
        _against("projections, and the stock runner at NORMAL", "ProjectionRunner", None, few, _stock("NORMAL")),
    ]


def _against(name: str, who: str, bound: float | None, size: tuple[int, int], peer: Catching) -> Workload:
    goal = None if bound is None else ratio_of_at_least(bound)

    def measure(directory: Path, number: int) -> Sequence[Sample]:
        log = directory / "log.db"
        events = write_log(log, *size)

        def side(catching: Catching, tables: str) -> float:
            return events / alone(lambda _own: catching(log, directory / tables), directory)

        if number % 2:
            sample = Sample(side(ours, "ours.db"), side(peer, "peer.db"))
        else:
            first = side(peer, "peer.db")
            sample = Sample(side(ours, "ours.db"), first)
        must(_content(directory / "ours.db") == _content(directory / "peer.db"), "both have the same rows")
        return (sample,)

    return Workload((Line(name, "events/s", who, goal),), measure)


def write_log(path: Path, sessions: int, turns: int) -> int:
    """Write a log of sessions with turns, all at once; return the number of events."""
    with SqliteJournal.open(path, codec(), synchronous="OFF") as journal:
        for session in range(sessions):
            name = f"s{session:06d}"
            created = SessionCreated(name, "bench", "bench", 1), AgentStarted(f"a{session:06d}")
            _append(journal, f"session/{name}", 0, created)
        for turn in range(turns):
            for session in range(sessions):
                stream, at = f"session/s{session:06d}", _START + turn * 1_000_000
                question_id = f"{session:06d}.{turn:06d}"
                asked = TextBlock(question(turn)), TextBlock("".join(deltas(turn)))
                _append(
                    journal,
                    stream,
                    2 + 4 * turn,
                    (
                        MessageAccepted(f"t{question_id}", f"q{question_id}", asked[:1], at),
                        TurnStarted(f"t{question_id}", at),
                    ),
                )
                usage = {"input_tokens": 100 + turn, "output_tokens": 200}
                answer = asked[1:], "end_turn", False, usage, "claude", at
                _append(
                    journal,
                    stream,
                    4 + 4 * turn,
                    (
                        AnswerRecorded(f"t{question_id}", f"m{question_id}", *answer),
                        TurnCompleted(f"t{question_id}", "completed", "end_turn", usage, 0.5, "responding"),
                    ),
                )
        journal.recover("session/s000000")
        return journal.head()


def ours(log: Path, tables: Path) -> float:
    """Let our runner catch up."""
    with (
        SqliteJournal.open(log, codec(), read_only=True) as journal,
        Runner(journal, ReadModelTables(journal, _made(tables))) as runner,
    ):
        begun = time.perf_counter()
        runner.catch_up()
        return time.perf_counter() - begun


def by_hand(log: Path, tables: Path) -> float:
    """Read the log in pages of the same size, and write the rows of each in one transaction."""
    decode, projector, number = codec().decode, Handwritten(), 0
    position = 0
    _make_tables(log, tables)
    with closing(sqlite3.connect(log)) as source, closing(sqlite3.connect(tables, isolation_level=None)) as target:
        target.execute("PRAGMA synchronous = NORMAL")
        begun = time.perf_counter()
        while page := source.execute(_PAGE, (number, ReadModelTables.batch)).fetchall():
            target.execute("BEGIN IMMEDIATE")
            for _, first, stream, events in page:
                for position, (topic, state) in enumerate(_unpack(events), first):
                    recorded_at, event = decode(topic, state)
                    projector.project(target.execute, stream, position, recorded_at, event)
            number = page[-1][0]
            target.execute(_MOVE, (position,))
            target.execute("COMMIT")
        return time.perf_counter() - begun


def _stock(synchronous: str) -> Catching:
    def catch_up(log: Path, tables: Path) -> float:
        _make_tables(log, tables)
        return stock_projection(log, tables, synchronous)

    return catch_up


def _make_tables(log: Path, tables: Path) -> None:
    with SqliteJournal.open(log, codec(), read_only=True) as journal:
        ReadModelTables(journal, _made(tables)).close(intact=True)


def _made(tables: Path) -> SqliteStore:
    store = SqliteStore(tables)
    store.make()
    return store


def _append(journal: SqliteJournal, stream: str, after: int, events: tuple[object, ...]) -> None:
    journal.append(Append(stream, after, _START + after, events), lambda _outcome: None)


def _content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of the tables."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()  # noqa: S608 - these names
            for table in ("sessions", "agents", "messages", "turns", "usage", "answers", "turn_ends")
        }
