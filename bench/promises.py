"""Reenact, against hand-written code with the same promises."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.by_hand import ByHand, append_by_hand
from bench.journal import by_actors
from bench.measure import Line, Workload, versus
from bench.product import Sync, at_once, one_session, workload


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured."""
    scale = 10 if quick else 1
    synchronous: Sequence[Sync] = ("NORMAL", "FULL")
    return [
        *(_one_session(200 // scale, sync) for sync in synchronous),
        *(_at_once(100, 50 // scale, sync) for sync in synchronous),
        _appends(10_000, max(2, 10 // scale)),
    ]


def _one_session(turns: int, sync: Sync) -> Workload:
    return workload(f"one session, 200 turns, {sync}", sync, "turns/s", one_session(turns), ByHand)


def _at_once(sessions: int, turns: int, sync: Sync) -> Workload:
    return workload(f"{sessions} sessions at once, {sync}", sync, "turns/s", at_once(sessions, turns), ByHand)


def _appends(actors: int, each: int) -> Workload:
    def ours(directory: Path) -> float:
        took, written = by_actors(directory, actors, each)
        return written.events / took

    line = Line(f"append, {actors:,} actors, FULL", "events/s", ByHand.name)
    return Workload((line,), versus(ours, lambda directory: append_by_hand(directory, actors, each)))
