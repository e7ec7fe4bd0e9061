"""Killed at each point of each kind of work, the process has lost nothing that it was promised."""

from __future__ import annotations
from pathlib import Path

import pytest

from reenact.actors.session import Recovery
from reenact.testing import Crash, CrashPoint, CrashTest
from tests.crashes.evidence import examine, left
from tests.crashes.workloads import live

AROUND = (
    CrashPoint.BEFORE_APPEND,
    CrashPoint.BEFORE_COMMIT,
    CrashPoint.IN_COMMIT,
    CrashPoint.AFTER_COMMIT,
    CrashPoint.AFTER_PUBLISH,
)
MOMENTS = {
    "text": (("message-accepted", 1), ("answer-recorded", 1), ("message-accepted", 2)),
    "tools": (
        ("tools-requested", 1),
        ("tool-result", 1),
        ("tool-result", 3),
        ("results-recorded", 1),
        ("turn-completed", 1),
    ),
    "approval": (("human-approve-required", 1), ("turn-completed", 1), ("tool-approved", 1), ("tool-result", 2)),
    "queue": (("message-accepted", 3), ("turn-started", 2), ("turn-completed", 2)),
    "interrupt": (("turn-interrupted", 1), ("turn-completed", 2)),
    "destroy": (("agent-stopped", 1), ("agent-started", 2)),
    "delete": (("session-deleted", 1),),
    "requests": (("container-created", 1), ("message-accepted", 1), ("session-created", 1)),
}
CASES = [(workload, of, nth, point) for workload, moments in MOMENTS.items() for of, nth in moments for point in AROUND]


@pytest.mark.parametrize("recovery", ["close", "resume"])
@pytest.mark.parametrize(("workload", "of", "nth", "point"), CASES)
def test_it(
    crashes: CrashTest, home: Path, workload: str, of: str, nth: int, point: CrashPoint, recovery: Recovery
) -> None:
    report = crashes.run_until_killed(live, home, workload, at=Crash(point, nth, of))

    examine(home, recovery, [report], left(home))
