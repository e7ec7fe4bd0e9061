"""Many sessions in one log, in a process of its own: prints the figures of each line of `bench.scale`."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final, TypeAlias

from bench.live import resident
from bench.measure import must
from bench.written import Written, events_in
from reenact import Image, Runtime
from reenact._runtime import codec
from reenact.actors.ids import TimeOrderedIds
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.kernel import ActorSystem, EventSourcedActor
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.timetable import microseconds
from reenact.domain.session.commands import CreateSession, SessionCommand
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, SessionEvent, evolve

LIVE: Final = 10_000
"""The most actors that stay in memory."""

AT_ONCE: Final = 1_000
"""So many are created together, and as many are under way already."""

TENTHS: Final = 10
GETS: Final = 2_000

Figures: TypeAlias = tuple[float, float | None]


class Small(EventSourcedActor[Session, SessionCommand, SessionEvent]):
    """The rules of a session as a bare actor."""

    category = "session"
    initial = Session()
    decide = staticmethod(decide)
    evolve = staticmethod(evolve)

    @classmethod
    def stream(cls, id: str) -> str:  # noqa: A002 - the word users know it by
        return f"session/{id}"


def main() -> None:
    """Write the sessions, then measure opening, reading and listing."""
    directory, count = Path(sys.argv[1]), int(sys.argv[2])
    path = directory / "log.db"
    with Runtime.open(path) as runtime:
        runtime.containers.create(container_id="bench")
        runtime.images.register(Image(id="bench"))
    ids, seconds, grown, written = _write(path, count)
    again = _tenths(written, written.write_again(directory))
    with Runtime.open(path):  # the tables catch up with the log
        pass
    figures: list[Figures] = [
        (count / sum(seconds), count / sum(again)),
        (_uneven(seconds), _uneven(again)),
        (grown / 1e6, None),
        (_opening(lambda: SqliteJournal.open(path, codec())), _opening(lambda: _raw(path))),
        (_opening(lambda: Runtime.open(path)), None),
        _gets(path, random.Random(7).sample(ids, GETS)),
    ]
    print(json.dumps(figures))


def _write(path: Path, count: int) -> tuple[list[str], list[float], int, Written]:
    """Return the ids, the seconds of each tenth, the memory of all but the first two, and the rows."""
    commits: list[int] = []
    ids: list[str] = []
    seconds: list[float] = []
    memory: list[int] = []
    new_id = TimeOrderedIds(microseconds)
    waiting: deque[list[PooledFuture[Any]]] = deque()
    with SqliteJournal.open(path, codec()) as journal, ActorSystem(journal, max_live=LIVE) as system:
        before = journal.head()
        journal.watch(commits.append)
        for _ in range(TENTHS):
            begun = time.perf_counter()
            for _ in range(count // TENTHS // AT_ONCE):
                created = [new_id("ses") for _ in range(AT_ONCE)]
                ids.extend(created[:: AT_ONCE // 50])  # all of them would be most of the memory
                waiting.append([system.actor(Small, one).ask_future(_creation(one)) for one in created])
                if len(waiting) > 1:
                    _settle(waiting.popleft())
            while waiting:
                _settle(waiting.popleft())
            seconds.append(time.perf_counter() - begun)
            memory.append(resident())
        must(system.live() <= 2 * LIVE, "few actors stay in memory")
    return ids, seconds, memory[-1] - memory[1], Written.found_in(path, before=before, commits=commits)


def _creation(session_id: str) -> CreateSession:
    return CreateSession(session_id=session_id, container_id="bench", image_id="bench", image_revision=1)


def _settle(futures: Sequence[PooledFuture[Any]]) -> None:
    for future in futures:
        future.get()


def _tenths(written: Written, seconds: Sequence[float]) -> list[float]:
    """Return the seconds of each tenth of the events, from those of each transaction."""
    tenths = [0.0] * TENTHS
    done, total = 0, written.events
    for rows, took in zip(written.transactions, seconds, strict=True):
        tenths[done * TENTHS // total] += took
        done += events_in(rows)
    return tenths


def _uneven(seconds: Sequence[float]) -> float:
    """Return the largest deviation of a tenth's rate from the mean, in percent."""
    rates = [1 / each for each in seconds]
    mean = fmean(rates)
    return max(abs(rate - mean) for rate in rates) / mean * 100


def _opening(open_it: Callable[[], AbstractContextManager[object]]) -> float:
    """Return the milliseconds that opening takes."""
    took: list[float] = []
    for _ in range(5):
        begun = time.perf_counter()
        with open_it():
            took.append((time.perf_counter() - begun) * 1000)
    return median(took)


@contextmanager
def _raw(path: Path) -> Generator[None]:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        must(connection.execute("SELECT max(position) FROM steps").fetchone()[0] > 0, "the log is not empty")
        yield


def _gets(path: Path, ids: Sequence[str]) -> Figures:
    """Return the median microseconds of a get by id, and of a SELECT of the same row."""
    with Runtime.open(path) as runtime, closing(sqlite3.connect(f"{path}.projections")) as connection:
        ours, peer = (
            [_microseconds(lambda: runtime.sessions.get(one) is not None) for one in ids],  # noqa: B023 - called at once
            [_microseconds(lambda: _select(connection, one)) for one in ids],  # noqa: B023 - likewise
        )
    return median(ours), median(peer)


def _select(connection: sqlite3.Connection, session_id: str) -> bool:
    query = "SELECT id, container_id, image_id, image_revision, created_at FROM sessions WHERE id = ?"
    return connection.execute(query, (session_id,)).fetchone() is not None


def _microseconds(found: Callable[[], bool]) -> float:
    begun = time.perf_counter()
    must(found(), "the session is there")
    return (time.perf_counter() - begun) * 1e6


if __name__ == "__main__":
    main()
