"""Conversations through the public facades, against hand-written sqlite3 that stores the minimum."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Literal, TypeAlias

from bench.by_hand import ByHand
from bench.measure import Line, Workload, must, versus
from bench.ours import Ours
from bench.raw import Raw
from bench.workload import DELTAS
from reenact._runtime import codec
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain.session.state import Session, evolve

Sync: TypeAlias = Literal["FULL", "NORMAL"]
Side: TypeAlias = type[Raw] | type[Ours] | type[ByHand]
Figure: TypeAlias = Callable[[Side, Path, Sync], float]


def workload(name: str, sync: Sync, unit: str, figure: Figure, peer: Side = Raw) -> Workload:
    """Return the workload that measures both sides."""
    measure = versus(
        lambda directory: figure(Ours, directory / "bench.db", sync),
        lambda directory: figure(peer, directory / "bench.db", sync),
    )
    return Workload((Line(name, unit, peer.name),), measure)


def one_session(turns: int) -> Figure:
    """Turns per second of one conversation, one turn after the other."""

    def measure(side: Side, path: Path, sync: Sync) -> float:
        system = side(path, sync)
        session = system.run(system.create(0))
        for number in range(20):
            system.turn(session, number)
        begun = time.perf_counter()
        for number in range(20, 20 + turns):
            system.turn(session, number)
        rate = turns / (time.perf_counter() - begun)
        must(system.history(session) == 2 * (turns + 20), "every message is there")
        must(system.heard == DELTAS * (turns + 20), "every delta was heard")
        system.close()
        return rate

    return measure


def at_once(sessions: int, turns: int) -> Figure:
    """Turns per second of many conversations at once."""

    def measure(side: Side, path: Path, sync: Sync) -> float:
        system = side(path, sync)
        names = [system.run(system.create(number)) for number in range(sessions)]
        begun = time.perf_counter()
        system.turns_at_once(names, turns)
        rate = sessions * turns / (time.perf_counter() - begun)
        must(all(system.history(name) == 2 * turns for name in names), "every message is there")
        system.close()
        return rate

    return measure


def creation(sessions: int) -> Figure:
    """Sessions per second, each durable before the next."""

    def measure(side: Side, path: Path, sync: Sync) -> float:
        system = side(path, sync)
        begun = time.perf_counter()
        for number in range(sessions):
            system.create(number)
        rate = sessions / (time.perf_counter() - begun)
        system.close()
        return rate

    return measure


def cold_start(turns: int) -> Figure:
    """Starts per second: a new process opens a long conversation and runs one more turn; without imports."""

    def measure(side: Side, path: Path, sync: Sync) -> float:
        system = side(path, sync)
        session = system.run(system.create(0))
        for number in range(turns):
            system.turn(session, number)
        system.close()
        child = [sys.executable, "-m", "bench.cold", side.name, str(path), sync, str(turns)]
        return 1 / float(subprocess.run(child, check=True, capture_output=True, text=True).stdout)  # noqa: S603 - ours

    return measure


def replay(turns: int) -> Figure:
    """Events per second folded into the state of one session; for sqlite3, rows of messages read."""

    def measure(side: Side, path: Path, sync: Sync) -> float:
        system = side(path, sync)
        session = system.run(system.create(0))
        for number in range(turns):
            system.turn(session, number)
        if isinstance(system, Raw):
            begun = time.perf_counter()
            count = system.history(session)
            rate = count / (time.perf_counter() - begun)
            system.close()
            return rate
        system.close()
        return _fold(path, session)

    return measure


def _fold(path: Path, session: str) -> float:
    with SqliteJournal.open(path, codec(), read_only=True) as journal:
        begun = time.perf_counter()
        recorded = journal.read(f"session/{session}")
        reduce(evolve, (one.event for one in recorded), Session())
        return len(recorded) / (time.perf_counter() - begun)
