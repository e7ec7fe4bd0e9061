"""Branching off from a long session through the public facades, against creating an empty session."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from bench.measure import Line, Sample, Workload, at_most, must
from bench.workload import question
from reenact import Image, Runtime, SessionInfo, TextBlock
from reenact._runtime import codec
from reenact.actors.journal.api import Append, Committed, Outcome
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain.session.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    MessageAccepted,
    TurnCompleted,
    TurnStarted,
)
from reenact.domain.session.state import SessionCreated, SessionEvent
from reenact.projections.generations import Generations

EVENTS: Final = 10_000
TIMES: Final = 10
_OF_A_TURN: Final = 4
_USED: Final = {"input_tokens": 1000, "output_tokens": 100}


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured of branching."""
    events = EVENTS // 10 if quick else EVENTS
    lines = (
        Line(f"branch off, of {events:,} events", "ms", "created", at_most(100)),
        Line(f"branch off and read its info, of {events:,} events", "ms", "created", at_most(100)),
        Line(f"branch off 100 events ago, of {events:,} events", "ms", "created"),
        Line("rows in log and tables for it", "rows", "created", at_most(10)),
        Line(f"read the messages of a branch, {events:,} events", "ms", "the original's"),
    )
    return [Workload(lines, lambda directory, _: _measure(directory, events))]


def _measure(directory: Path, events: int) -> Sequence[Sample]:
    path = directory / "log.db"
    with Runtime.open(path) as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i", model="m"))
    _write(path, events)
    with Runtime.open(path) as runtime:
        sessions = runtime.sessions
        original = sessions.messages("long")
        with SqliteJournal.open(path, codec(), read_only=True) as log:
            earlier = log.head() - 100
        rows = _rows(runtime, path)
        created = _milliseconds(lambda: sessions.create("c", "i"))
        rows_created = _rows(runtime, path) - rows
        branched = _milliseconds(lambda: sessions.branch("long"))
        rows_branched = _rows(runtime, path) - rows - rows_created
        with_info = _milliseconds(lambda: _found(sessions.get(sessions.branch("long").id)))
        with_info_created = _milliseconds(lambda: _found(sessions.get(sessions.create("c", "i").id)))
        in_the_past = _milliseconds(lambda: sessions.branch("long", at=earlier))
        branch = sessions.branch("long").id
        must(sessions.messages(branch) == original, "the branch has all messages")
        read, read_original = (_milliseconds(partial(sessions.messages, id_)) for id_ in (branch, "long"))
        return (
            Sample(branched, created),
            Sample(with_info, with_info_created),
            Sample(in_the_past, created),
            Sample(rows_branched / TIMES, rows_created / TIMES),
            Sample(read, read_original),
        )


def _milliseconds(act: Callable[[], object]) -> float:
    """Return the average duration."""
    begun = time.perf_counter()
    for _ in range(TIMES):
        act()
    return 1000 * (time.perf_counter() - begun) / TIMES


def _found(session: SessionInfo | None) -> None:
    must(session is not None, "what was created can be read")


def _rows(runtime: Runtime, path: Path) -> int:
    """Return the number of rows in the log and in the tables, once these have caught up."""
    runtime.containers.list()
    return sum(map(_count, (path, Generations(Path(f"{path}.projections")).current())))


def _count(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = [connection.execute(f'SELECT count(*) FROM "{name}"').fetchone() for name in tables]  # noqa: S608 - these names
        return sum(count for (count,) in counts)


def _write(path: Path, events: int) -> None:
    """Write the events of a session with that many turns, in one append."""
    happened: list[SessionEvent] = [SessionCreated("long", "c", "i", 1), AgentStarted("a")]
    for number in range((events - len(happened) - 1) // _OF_A_TURN):
        turn_id, at = f"t{number}", 1_700_000_000_000_000 + number
        content = (TextBlock(question(number)),)
        happened += [
            MessageAccepted(turn_id, f"q{number}", content, at),
            TurnStarted(turn_id, at),
            AnswerRecorded(turn_id, f"a{number}", content, "end_turn", partial=False, usage=_USED, model="m", at=at),
            TurnCompleted(turn_id, "completed", "end_turn", _USED, 0.0, "thinking"),
        ]
    happened.append(AgentStopped("a", "destroyed"))
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    with SqliteJournal.open(path, codec()) as journal:
        journal.append(Append("session/long", 0, 1_700_000_000_000_000, tuple(happened)), outcomes.put)
        must(isinstance(outcomes.get(), Committed), "the session is in the log")
