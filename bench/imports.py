"""The cost of `import reenact` in a new process, the modules that it imports, and the time until a session is ready."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.measure import Goal, Line, Sample, Workload, at_most
from bench.ours import Ours

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
        _import(
            "import Runtime and open a log",
            "from reenact import Runtime; runtime = Runtime.in_memory()",
            at_most(250),
            tries,
        ),
        _ready(200 if quick else 2000, at_most(30), tries),
        _ready(2000 if quick else 20_000, at_most(60), tries),
    ]


def _ready(turns: int, goal: Goal, tries: int) -> Workload:
    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        path = directory / "ready.db"
        before = Ours(path, "NORMAL")
        session = before.run(before.create(0))
        for number in range(turns):
            before.turn(session, number)
        before.close()
        return (Sample(median(_run("-m", "bench.ready", str(path), str(turns + one)) for one in range(tries))),)

    return Workload((Line(f"from opening to the first delta, after {turns:,} turns", "ms", goal=goal),), measure)


def _import(name: str, statement: str, goal: Goal | None, tries: int) -> Workload:
    def measure(_directory: Path, _number: int) -> Sequence[Sample]:
        pairs = [(_said(_TIMED.format(statement)), _bare()) for _ in range(tries)]
        return (Sample(median(ours for ours, _ in pairs), median(bare for _, bare in pairs)),)

    return Workload((Line(name, "ms", "python -c pass", goal),), measure)


def _said(program: str) -> float:
    return _run("-c", program)


def _run(*arguments: str) -> float:
    ran = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)  # noqa: S603 - ours
    return float(ran.stdout)


def _bare() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter() - begun) * 1000
