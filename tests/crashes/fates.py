"""What a process does until it is killed at random, what others do as they recover, and what must be true then."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from reenact.actors.session.ports import Recovery
from reenact.testing import Crash, CrashReport, CrashTest
from tests.crashes.evidence import examine, left
from tests.crashes.workloads import live, recover
from tests.logs import copy_directory

RECOVERIES: tuple[Recovery, ...] = ("close", "resume")


class Fate(NamedTuple):
    """What a process does until it crashes, the processes that crash as they recover, and how it is done in the end."""

    workload: str
    is_encrypted: bool
    first: Crash | int
    """At a point, or behind so many things that it has said."""
    others: Sequence[tuple[Recovery, Crash | int]]
    recovery: Recovery


def suffer(fate: Fate, crashes: CrashTest, furnished: Path) -> int:
    """Have processes be killed as the fate says, and examine what is left; return how many were."""
    with tempfile.TemporaryDirectory(prefix="reenact-") as directory:
        home = copy_directory(furnished, Path(directory, "home"))
        reports = [_run(crashes, fate.first, live, home, fate.workload)]
        before = [left(home)]
        recoveries: list[Recovery] = []

        for how, again in fate.others:
            reports.append(_run(crashes, again, recover, home, how))
            recoveries.append(how)
            before.append(left(home))

        examine(home, fate.recovery, reports, before, recoveries)
        return sum(report.killed for report in reports)


def _run(crashes: CrashTest, crash: Crash | int, program: Callable[..., object], *arguments: object) -> CrashReport:
    if isinstance(crash, Crash):
        return crashes.run(program, *arguments, at=crash)
    return crashes.run(program, *arguments, until=lambda said: len(said) >= crash)
