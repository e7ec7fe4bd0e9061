"""What the interpreter lock, its switch interval and the writer's thread cost."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from bench.account import Deposited, open_log
from bench.journal import by_actors
from bench.measure import Line, Measure, Sample, Workload, alone, must, versus
from bench.written import Written
from reenact.actors.journal.api import Append, Committed, Outcome
from reenact.actors.kernel.timetable import microseconds

ACTORS: Final = 100

_INTERVALS: Final = (0.005, 0.0005)
"""Python's own interval, and a tenth of it, in seconds."""


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is measured."""
    scale = 10 if quick else 1
    each = 1_000 // scale
    quiet = Line(f"append, {ACTORS} actors, nobody else busy", "events/s", "sqlite3")
    return [
        Workload((quiet,), _rates(each, None)),
        *(_beside_a_busy_thread(each // 5, interval) for interval in _INTERVALS),
        Workload((Line("one append and its outcome, without a disk", "µs", "sqlite3"),), _round_trip(10_000 // scale)),
    ]


def _beside_a_busy_thread(each: int, interval: float) -> Workload:
    beside = f"beside a busy thread, switch interval {interval * 1000:g} ms"
    lines = (
        Line(f"append, {ACTORS} actors, {beside}", "events/s", "sqlite3"),
        Line(f"what the busy thread keeps of its speed, {beside}", "%", "sqlite3"),
    )
    return Workload(lines, _rates(each, interval))


def _rates(each: int, interval: float | None) -> Measure:
    """Measure appends; with a switch interval also beside a computing thread, and the rate of that thread."""
    idle = _spins_alone() if interval is not None else 1.0

    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        kept: list[float] = []
        written: list[Written] = []

        def ours(own: Path) -> float:
            with _company(interval, kept, idle):
                took, result = by_actors(own, ACTORS, each)
            written.append(result)
            return result.events / took

        def peer(own: Path) -> float:
            with _company(interval, kept, idle):
                return written[0].events / sum(written[0].write_again(own))

        rates = Sample(alone(ours, directory), alone(peer, directory))
        return (rates,) if interval is None else (rates, Sample(*kept))

    return measure


@contextmanager
def _company(interval: float | None, kept: list[float], idle: float) -> Generator[None]:
    if interval is None:
        yield
        return
    usual = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    over = threading.Event()
    spins: list[float] = []
    busy = threading.Thread(target=lambda: spins.append(_spin(over.is_set)))
    busy.start()
    try:
        yield
    finally:
        over.set()
        busy.join()
        sys.setswitchinterval(usual)
        kept.append(spins[0] / idle * 100)


def _spins_alone() -> float:
    until = time.perf_counter() + 0.2
    return _spin(lambda: time.perf_counter() > until)


def _spin(is_over: Callable[[], bool]) -> float:
    """Compute until the measurement ends; return the rounds per second."""
    begun = time.perf_counter()
    rounds = 0
    while not is_over():
        sum(range(1_000))
        rounds += 1
    return rounds / (time.perf_counter() - begun)


def _round_trip(times: int) -> Measure:
    """Measure the time from an append to its outcome without a disk: two thread switches."""

    def ours(directory: Path) -> float:
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        with open_log(directory / "log.db", "OFF") as journal:
            begun = time.perf_counter()
            for version in range(times):
                journal.append(Append("account/one", version, microseconds(), (Deposited(1),)), outcomes.put)
                must(isinstance(outcomes.get(), Committed), "every append is committed")
            return (time.perf_counter() - begun) / times * 1e6

    def peer(directory: Path) -> float:
        with closing(sqlite3.connect(directory / "raw.db", isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(
                "CREATE TABLE events (position INTEGER PRIMARY KEY, stream, version, topic, state, digest)"
            )
            begun = time.perf_counter()
            for version in range(times):
                connection.execute(
                    "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
                    (version + 1, "account/one", version, "deposited:1", b"0123456789", b"0" * 32),
                )
            return (time.perf_counter() - begun) / times * 1e6

    return versus(ours, peer)
