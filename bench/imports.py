"""What `import reenact` costs a fresh process, and what it brings along."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.measure import Goal, Line, Sample, Workload, at_most

HEAVY: Final = ("anthropic", "eventsourcing", "hypothesis", "pykka", "rich", "sqlalchemy", "sqlite3", "typer")
"""What nobody waits for who has not asked for it."""

TRIES: Final = 5

_TIMED: Final = "import time; begun = time.perf_counter(); {}; print((time.perf_counter() - begun) * 1000)"
_COUNTED: Final = f"import reenact, sys; print(len(sys.modules.keys() & {set(HEAVY)}))"


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is measured."""
    tries = 1 if quick else TRIES
    heavy = Line("heavy modules that it loads", "modules", goal=at_most(0))
    return [
        _import("import reenact", "import reenact", at_most(250), tries),
        Workload((heavy,), lambda _directory, _number: (Sample(_said(_COUNTED)),)),
        _import("import ActorSystem", "from reenact import ActorSystem", None, tries),
        _import("import Runtime", "from reenact import Runtime", None, tries),
    ]


def _import(name: str, statement: str, goal: Goal | None, tries: int) -> Workload:
    def measure(_directory: Path, _number: int) -> Sequence[Sample]:
        pairs = [(_said(_TIMED.format(statement)), _bare()) for _ in range(tries)]
        return (Sample(median(ours for ours, _ in pairs), median(bare for _, bare in pairs)),)

    return Workload((Line(name, "ms", "python -c pass", goal),), measure)


def _said(program: str) -> float:
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)  # noqa: S603 - ours
    return float(ran.stdout)


def _bare() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter() - begun) * 1000
