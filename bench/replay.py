"""Reading streams and whole logs, against a plain SELECT of the same rows, and the recovery of actors."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import reduce
from pathlib import Path
from statistics import median
from typing import Final

import pykka

from bench.account import Account, Command, Deposit, Deposited, Look, evolve, open_log
from bench.measure import Line, Measure, Sample, Workload, at_most, must, ratio_of_at_least
from reenact.actors.journal.api import Append, Outcome
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.kernel import ActorSystem, PooledActor, Reference

HISTORY: Final = 100
"""The events of an actor that comes back."""

PAGE: Final = 1_000

_EVENTS: Final = "SELECT stream, version, position, cause, events FROM steps"
_STREAM: Final = f"{_EVENTS} WHERE stream = ? AND count > 0 ORDER BY version"
_LOG: Final = f"{_EVENTS} WHERE count > 0 ORDER BY number"
_SNAPSHOT: Final = """
    SELECT * FROM stored_snapshots WHERE originator_id = ? ORDER BY originator_version DESC LIMIT 1
"""


class Condensed(Account):
    """An account that is recovered from a snapshot."""

    category = "condensed"
    snapshot_every = HISTORY


class _Asker(PooledActor):
    """Asks one actor after the other, so that it is recovered, and returns the milliseconds of each."""

    def on_receive(self, message: Sequence[Reference[Command]]) -> list[float]:
        return [_look(reference) for reference in message]


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is measured."""
    scale = 10 if quick else 1
    return [
        _rate("replay of one stream", 0.4, _one_stream(50_000 // scale)),
        _rate("replay of a whole log", 0.3, _whole_log(2_000 // scale, 50)),
        _back("first answer, 100 events", Account, 0.2, _STREAM, 500 // scale),
        _back("first answer, from a snapshot", Condensed, 0.1, _SNAPSHOT, 500 // scale),
    ]


def _rate(name: str, bound: float, measure: Measure) -> Workload:
    return Workload((Line(name, "events/s", "SELECT", ratio_of_at_least(bound)),), measure)


def _one_stream(events: int) -> Measure:
    def measure(directory: Path, number: int) -> Sequence[Sample]:
        path = directory / "log.db"
        with open_log(path, "OFF") as journal:
            fill(journal, ["account/one"], events)

            def ours() -> float:
                recorded = journal.read("account/one")
                return reduce(evolve, (one.event for one in recorded), 0)

            rates = _both(ours, lambda: _select(path, _STREAM, "account/one"), events, number)
        return (rates,)

    return measure


def _whole_log(streams: int, each: int) -> Measure:
    def measure(directory: Path, number: int) -> Sequence[Sample]:
        path = directory / "log.db"
        with open_log(path, "OFF") as journal:
            fill(journal, [f"account/{number:06d}" for number in range(streams)], each)

            def ours() -> float:
                count = position = 0
                while page := journal.read_all(after=position, limit=PAGE):
                    position = page[-1].position
                    count += len(page)
                return count

            rates = _both(ours, lambda: _select_in_pages(path, _LOG), streams * each, number)
        return (rates,)

    return measure


def _both(ours: Callable[[], float], peer: Callable[[], float], events: int, number: int) -> Sample:
    def rate(side: Callable[[], float]) -> float:
        begun = time.perf_counter()
        must(side() == events, "every event was read")
        return events / (time.perf_counter() - begun)

    if number % 2:
        first = rate(ours)
        return Sample(first, rate(peer))
    first = rate(peer)
    return Sample(rate(ours), first)


def _select(path: Path, query: str, *parameters: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return len(connection.execute(query, parameters).fetchall())


def _select_in_pages(path: Path, query: str) -> int:
    count = 0
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute(query)
        while page := cursor.fetchmany(PAGE):
            count += len(page)
    return count


def _back(name: str, actor_class: type[Account], bound: float, query: str, actors: int) -> Workload:
    lines = (
        Line(f"{name}, asked by an actor, p50", "ms", "SELECT", at_most(bound)),
        Line(f"{name}, asked from outside, p50", "ms", "SELECT", at_most(bound)),
    )

    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        path = directory / "log.db"
        with open_log(path, "OFF") as journal, ActorSystem(journal) as system:
            references = [system.actor(actor_class, f"{number:06d}") for number in range(actors)]
            for reference in references:
                for last in [reference.ask_future(Deposit(1)) for _ in range(HISTORY)]:
                    last.get()
                reference.stop()
            asker: pykka.ActorRef[_Asker] = system.start(_Asker)
            inside = median(asker.ask(references, block=True))
            for reference in references:
                reference.stop()
            outside = median(_look(reference) for reference in references)
            peer = median(_milliseconds_of_selects(path, query, [actor_class.stream(one.id) for one in references]))
        return Sample(inside, peer), Sample(outside, peer)

    return Workload(lines, measure)


def _look(reference: Reference[Command]) -> float:
    begun = time.perf_counter()
    balance = reference.ask(Look())
    took = time.perf_counter() - begun
    must(balance == HISTORY, "the actor knows its history")
    return took * 1000


def _milliseconds_of_selects(path: Path, query: str, streams: Sequence[str]) -> list[float]:
    took: list[float] = []
    with closing(sqlite3.connect(path)) as connection:
        for stream in streams:
            begun = time.perf_counter()
            rows = connection.execute(query, (stream,)).fetchall()
            took.append((time.perf_counter() - begun) * 1000)
            must(len(rows) in (1, HISTORY), "the rows are there")
    return took


def fill(journal: SqliteJournal, streams: Sequence[str], each: int) -> None:
    """Append events to each stream, each as a row of its own."""

    def ignore(_outcome: Outcome) -> None:
        pass  # `recover` waits for all of them

    for number, stream in enumerate(streams):
        for version in range(each):
            journal.append(Append(stream, version, 1_700_000_000_000_000 + number, (Deposited(1),)), ignore)
    journal.recover(streams[-1])
