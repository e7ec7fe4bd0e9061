"""A million sessions in one log: written by actors of which few stay in memory, reopened, and queried."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.measure import Line, Sample, Workload, at_most, ratio_of_at_least

MILLION: Final = 1_000_000
FEWER: Final = 50_000

_NAME: Final = {MILLION: "a million sessions", FEWER: "50,000 sessions"}


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is measured."""
    count = FEWER if quick else MILLION
    name = _NAME[count]
    lines = (
        Line(f"{name}: created by actors", "events/s", "sqlite3", ratio_of_at_least(0.55)),
        Line(f"{name}: slowest or fastest tenth, off the mean", "%", "sqlite3", at_most(15)),
        Line(f"{name}: memory, from the second tenth to the last", "MB", goal=at_most(32)),
        Line(f"{name}: the log opened again", "ms", "sqlite3", at_most(5)),
        Line(f"{name}: the runtime opened again", "ms"),
        Line(f"{name}: sessions.get, p50", "µs", "SELECT", at_most(50)),
    )

    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        # In a process of its own, so that its memory is that of the sessions.
        child = [sys.executable, "-m", "bench.million", str(directory), str(count)]
        ran = subprocess.run(child, check=True, capture_output=True, text=True)  # noqa: S603 - ours
        said: list[tuple[float, float | None]] = json.loads(ran.stdout)
        return [Sample(*figures) for figures in said]

    return [Workload(lines, measure)]
