"""`python -m bench [--rounds N] [--quick] [--only NAME]`: run the workloads and print a table."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Literal, TypeAlias

from bench.ours import Ours
from bench.raw import Raw
from bench.workload import DELTAS
from reenact._runtime import codec
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain.session import Session, evolve

Sync: TypeAlias = Literal["FULL", "NORMAL"]
Side: TypeAlias = type[Raw] | type[Ours]
Measure: TypeAlias = Callable[[Side, Path, Sync], float]


def one_session(turns: int) -> Measure:
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
        _must(system.history(session) == 2 * (turns + 20), "every message is there")
        _must(system.heard == DELTAS * (turns + 20), "every delta was heard")
        system.close()
        return rate

    return measure


def at_once(sessions: int, turns: int) -> Measure:
    """Turns per second of many conversations at once."""

    def measure(side: Side, path: Path, sync: Sync) -> float:
        system = side(path, sync)
        names = [system.run(system.create(number)) for number in range(sessions)]
        begun = time.perf_counter()
        system.turns_at_once(names, turns)
        rate = sessions * turns / (time.perf_counter() - begun)
        _must(all(system.history(name) == 2 * turns for name in names), "every message is there")
        system.close()
        return rate

    return measure


def creation(sessions: int) -> Measure:
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


def cold_start(turns: int) -> Measure:
    """Starts per second: a new process opens a conversation of so many turns and runs one more; without imports."""

    def measure(side: Side, path: Path, sync: Sync) -> float:
        system = side(path, sync)
        session = system.run(system.create(0))
        for number in range(turns):
            system.turn(session, number)
        system.close()
        child = [sys.executable, "-m", "bench.cold", side.name, str(path), sync, str(turns)]
        return 1 / float(subprocess.run(child, check=True, capture_output=True, text=True).stdout)  # noqa: S603 - ours

    return measure


def replay(turns: int) -> Measure:
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


def workloads(*, quick: bool) -> dict[str, tuple[Sync, str, Measure]]:
    """Return what is measured, by name."""
    scale = 10 if quick else 1
    return {
        "one session, 200 turns, FULL": ("FULL", "turns/s", one_session(200 // scale)),
        "one session, 200 turns, NORMAL": ("NORMAL", "turns/s", one_session(200 // scale)),
        "one session, 2,000 turns, FULL": ("FULL", "turns/s", one_session(2000 // scale)),
        "one session, 2,000 turns, NORMAL": ("NORMAL", "turns/s", one_session(2000 // scale)),
        "100 sessions at once, FULL": ("FULL", "turns/s", at_once(100, 50 // scale)),
        "100 sessions at once, NORMAL": ("NORMAL", "turns/s", at_once(100, 50 // scale)),
        "create 10,000 sessions, FULL": ("FULL", "sessions/s", creation(10_000 // scale)),
        "cold start on 2,000 turns": ("NORMAL", "1/s", cold_start(2000 // scale)),
        "replay of 2,000 turns": ("NORMAL", "rows/s", replay(2000 // scale)),
    }


def main() -> None:
    """Run the workloads in turns, and print the median of each side and of the ratios within a round."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--dir", default=None, help="where the files go; by default the directory for temporary files")
    given = parser.parse_args()
    print(f"{'workload':36} {'reenact':>12} {'sqlite3':>12} {'ratio':>8}")
    for name, (sync, unit, measure) in workloads(quick=given.quick).items():
        if given.only not in name:
            continue
        rates: dict[str, list[float]] = {Ours.name: [], Raw.name: []}
        for number in range(given.rounds):
            sides: list[Side] = [Ours, Raw] if number % 2 else [Raw, Ours]
            for side in sides:
                with tempfile.TemporaryDirectory(dir=given.dir) as directory:
                    rates[side.name].append(measure(side, Path(directory) / "bench.db", sync))
        ratio = statistics.median(a / b for a, b in zip(rates[Ours.name], rates[Raw.name], strict=True))
        ours, raw = (statistics.median(rates[side]) for side in (Ours.name, Raw.name))
        print(f"{name:36} {ours:12,.0f} {raw:12,.0f} {ratio:8.2f}  {unit}", flush=True)


def _must(holds: bool, what: str) -> None:  # noqa: FBT001 - the condition itself
    if not holds:
        raise AssertionError(f"not so: {what}")


if __name__ == "__main__":
    main()
