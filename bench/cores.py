"""Turns in a process that is limited to one core, against the same turns with all cores."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.measure import Line, Workload, versus
from bench.ours import Ours
from bench.product import Figure, Sync, at_once, one_session
from bench.tooling import OursWithTools


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return the workloads; none where a process cannot choose its cores."""
    if not hasattr(os, "sched_setaffinity"):
        return []
    scale = 10 if quick else 1
    return [
        _workload("one session, 200 turns, FULL", Ours, "FULL", one_session(200 // scale)),
        _workload("one session, 200 turns, NORMAL", Ours, "NORMAL", one_session(200 // scale)),
        _workload("one session, 200 turns of two calls, NORMAL", OursWithTools, "NORMAL", one_session(200 // scale)),
        _workload("100 sessions at once, FULL", Ours, "FULL", at_once(100, 50 // scale)),
        _workload("100 sessions at once, NORMAL", Ours, "NORMAL", at_once(100, 50 // scale)),
    ]


def _workload(name: str, kind: type[Ours], sync: Sync, figure: Figure) -> Workload:
    def on_one(directory: Path) -> float:
        with _one_core():
            return figure(kind, directory / "bench.db", sync)

    def on_all(directory: Path) -> float:
        return figure(kind, directory / "bench.db", sync)

    return Workload((Line(f"{name}, one core", "turns/s", "all cores"),), versus(on_one, on_all))


@contextmanager
def _one_core() -> Generator[None]:
    """Keep this thread, and those that it starts, on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
