"""Turns in an encrypted log, against the same turns in a plain one: the cost of encryption."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from bench.measure import Line, Workload, versus
from bench.ours import Ours
from bench.product import Figure, Sync, at_once, one_session
from reenact import KeyRing, Runtime


class Encrypted(Ours):
    """The same with an encrypted log."""

    def open(self, path: Path, synchronous: Literal["FULL", "NORMAL"]) -> Runtime:
        """Open a runtime whose log is encrypted."""
        file = path.with_suffix(".keys")
        keys = KeyRing.file(file) if file.exists() else KeyRing.generate(file)
        return Runtime.open(path, llm_provider=self.provider(), synchronous=synchronous, keys=keys)


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured of encryption."""
    scale = 10 if quick else 1
    return [
        _workload("one session, 200 turns, FULL, keys", "FULL", "turns/s", one_session(200 // scale)),
        _workload("one session, 200 turns, NORMAL, keys", "NORMAL", "turns/s", one_session(200 // scale)),
        _workload("100 sessions at once, FULL, keys", "FULL", "turns/s", at_once(100, 50 // scale)),
    ]


def _workload(name: str, sync: Sync, unit: str, figure: Figure) -> Workload:
    def ours(directory: Path) -> float:
        return figure(Encrypted, directory / "bench.db", sync)

    def without(directory: Path) -> float:
        return figure(Ours, directory / "bench.db", sync)

    return Workload((Line(name, unit, "no keys"),), versus(ours, without))
