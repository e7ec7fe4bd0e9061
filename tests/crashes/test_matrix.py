"""Whatever a process is doing, and wherever it is killed: what it was promised is kept, and its sessions go on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from reenact.actors.session.ports import Recovery
from reenact.testing import Crash, CrashPoint, CrashTest
from tests.crashes.evidence import examine, left
from tests.crashes.fates import RECOVERIES
from tests.crashes.workloads import live, recover
from tests.examples import some
from tests.logs import copy_directory, log_at, stands_in

AROUND_A_COMMIT = (
    CrashPoint.BEFORE_APPEND,
    CrashPoint.BEFORE_COMMIT,
    CrashPoint.IN_COMMIT,
    CrashPoint.AFTER_COMMIT,
    CrashPoint.AFTER_PUBLISH,
)
AROUND_A_PROJECTION = (CrashPoint.BEFORE_PROJECTION, CrashPoint.IN_PROJECTION, CrashPoint.AFTER_PROJECTION)

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


class Case(NamedTuple):
    """A process does some work and is killed; it counts from the place on that the work says, or from its beginning."""

    workload: str
    crash: Crash
    recovery: Recovery
    from_a_place: bool = False

    def __str__(self) -> str:
        return f"{self.workload}: {self.crash}, {self.recovery}"


COMMITS = {
    "text": ("message-accepted", "answer-recorded", ("message-accepted", 2)),
    "tools": ("tools-requested", "tool-result", ("tool-result", 3), "results-recorded", "turn-completed"),
    "approval": ("human-approve-required", "turn-completed", "tool-approved", ("tool-result", 2)),
    "queue": (("message-accepted", 3), ("turn-started", 2), ("turn-completed", 2)),
    "interrupt": ("turn-interrupted", ("turn-completed", 2)),
    "destroy": ("agent-stopped", ("agent-started", 2)),
    "delete": ("session-deleted",),
    "branch": ("session-branched", ("turn-completed", 2)),
    "requests": ("container-created", "message-accepted", "session-created"),
}
"""Which events of a workload a process is killed around, and which time they are of their kind if not the first."""

EFFECTS = {"tools": ("pay", "send", "peek", "look"), "approval": ("buy", "look")}
REPLIES = {"text": (3, 17), "tools": (9,), "approval": (30,), "queue": (4, 20), "interrupt": (6,), "delete": (5,)}
"""Behind how many things that it says a process is killed: what it was promised, and what it hears."""

COMPACTIONS = 3
"""How much is made durable while consumers acknowledge and feeds are compacted, at the least."""


def cases() -> Iterator[Case]:
    """Yield what is tried; each kind of recovery in turn, and both if there is time."""
    for number, (workload, crash, *place) in enumerate(_crashes()):
        for recovery in RECOVERIES if THOROUGH else (RECOVERIES[(number + number // 5) % 2],):
            yield Case(workload, crash, recovery, bool(place))


def _crashes() -> Iterator[tuple[str, Crash] | tuple[str, Crash, bool]]:
    for workload, events in COMMITS.items():
        for place, event in enumerate(events):
            of, nth = event if isinstance(event, tuple) else (event, 1)
            # What differs from event to event is whether it is durable by then.
            for point in AROUND_A_COMMIT if THOROUGH or not place else AROUND_A_COMMIT[1:4]:
                yield workload, Crash(point, nth, of)
    for workload, names in EFFECTS.items():
        for name in names:
            for _ in RECOVERIES:
                yield workload, Crash(CrashPoint.BEFORE_EFFECT, 1, name)
            for _ in RECOVERIES:
                yield workload, Crash(CrashPoint.AFTER_EFFECT, 1, name)
    for nth in (1, 4):
        yield "tools", Crash(CrashPoint.BEFORE_OUTCOME, nth)
        yield "tools", Crash(CrashPoint.AFTER_OUTCOME, nth)
    for point in AROUND_A_PROJECTION:
        yield "approval", Crash(point)
        yield "requests", Crash(point, 3)
    for workload, numbers in REPLIES.items():
        for nth in numbers:
            yield workload, Crash(CrashPoint.AFTER_REPLY, nth)
    for nth in range(1, COMPACTIONS + 1):
        for point in AROUND_A_COMMIT[1:4]:
            yield "compaction", Crash(point, nth), True


@pytest.mark.parametrize("case", some(tuple(cases())), ids=str)
def test_a_process_that_is_killed_has_lost_nothing_that_it_was_promised(
    case: Case, crashes: CrashTest, home: Path
) -> None:
    armed = not case.from_a_place
    report = crashes.run_until_killed(live, home, case.workload, at=case.crash, armed=armed)

    examine(home, case.recovery, [report], [left(home)])


@pytest.mark.parametrize("case", tuple(cases())[:: 1 if THOROUGH else 11], ids=str)
def test_a_process_of_an_encrypted_log_has_lost_nothing_either_and_has_said_nothing_in_plain(
    case: Case, crashes: CrashTest, encrypted: Path, tmp_path: Path
) -> None:
    home = copy_directory(encrypted, tmp_path / "home")
    armed = not case.from_a_place
    report = crashes.run_until_killed(live, home, case.workload, at=case.crash, armed=armed)

    log = log_at(home / "agents.db")
    for said in (b"you said", b"use pay", b"use buy"):
        assert not stands_in(said, log)
    examine(home, case.recovery, [report], [left(home)])
    assert not stands_in(b"you said", log)


IN_RECOVERY: dict[Recovery, tuple[Crash, ...]] = {
    "close": (
        *(Crash(point) for point in AROUND_A_COMMIT),
        *(Crash(point) for point in AROUND_A_PROJECTION),
        Crash(CrashPoint.AFTER_REPLY),
    ),
    "resume": (
        *(Crash(point, nth) for point in AROUND_A_COMMIT for nth in (1, 2)),
        Crash(CrashPoint.BEFORE_PROJECTION),
        Crash(CrashPoint.AFTER_REPLY),
    ),
}
FIRST = {
    "text": Crash(CrashPoint.BEFORE_COMMIT, of="answer-recorded"),
    "tools": Crash(CrashPoint.AFTER_COMMIT, 2, of="tool-result"),
}


@pytest.mark.parametrize(
    ("workload", "recovery", "crash"),
    some(
        [
            pytest.param(workload, recovery, crash, id=f"{workload}, {recovery}: {crash}")
            for workload in FIRST
            for recovery in RECOVERIES
            for crash in IN_RECOVERY[recovery]
        ]
    ),
)
def test_a_process_that_is_killed_while_it_recovers_is_as_one_that_never_began_to(
    workload: str, recovery: Recovery, crash: Crash, crashes: CrashTest, home: Path
) -> None:
    first = crashes.run_until_killed(live, home, workload, at=FIRST[workload])
    before = left(home)

    second = crashes.run_until_killed(recover, home, recovery, at=crash)

    examine(home, recovery, [first, second], [before, left(home)], [recovery])
