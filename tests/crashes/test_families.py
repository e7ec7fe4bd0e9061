"""A family of sessions whose process is killed: each call is answered once, and every child goes on or ends, once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from reenact import Audit, Runtime
from reenact.actors.journal.verify import verify
from reenact.actors.session.ports import Recovery
from reenact.testing import Crash, CrashPoint, CrashTest, Reporter, wait_until
from tests.crashes.fates import RECOVERIES
from tests.crashes.test_matrix import AROUND_A_COMMIT, THOROUGH
from tests.crashes.workloads import sessions_in
from tests.examples import some
from tests.logs import log_at, read_log
from tests.runtime.families import PRICES, Plan, come_to_rest, factory, furnish, send
from tests.runtime.witness import check, check_decisions, fold, journal_of

PLAN: Plan = [[("agent", [[("agent", [[("send", {"to": "ann"})], "sent"])], "middle"]), ("agent", ["two"])], "top"]
"""The root calls two agents at once; below the first is one whose call a person approves."""

CRASHES = (
    *(Crash(point, nth, of) for point in AROUND_A_COMMIT for of, nth in (("child-started", 1), ("child-ended", 2))),
    *(
        Crash(point, nth, of)
        for point in AROUND_A_COMMIT[1:4]
        # Not the fourth session: one commit may create both children of the root.
        for of, nth in (("session-created", 3), ("tool-approved", 1), ("child-ended", 3), ("answer-recorded", 5))
    ),
    Crash(CrashPoint.BEFORE_EFFECT, 1, "send"),
    Crash(CrashPoint.AFTER_EFFECT, 1, "send"),
)


def opened(log: str, recovery: Recovery = "close") -> Runtime:
    return Runtime.open(log, environment=factory(), prices=PRICES, tools=[send], recovery=recovery, synchronous="OFF")


def talk(reporter: Reporter, log: str) -> None:
    """Ask the root, and approve what waits below it."""
    with opened(log) as runtime:
        furnish(runtime)
        reporter.say("accepted", runtime.agents.receive(runtime.sessions.run("root"), json.dumps(PLAN)))
        come_to_rest(runtime)


def branch_off(reporter: Reporter, log: str) -> None:
    """Ask the root, and branch off from it while a person is waited for below it."""
    with opened(log) as runtime:
        furnish(runtime)
        runtime.ask(json.dumps(PLAN), session="root", timeout=60)
        runtime.sessions.branch("root", new_session_id="b")
        reporter.say("branched")


def go_on(reporter: Reporter, log: str) -> None:
    """Open what a killed process has left, and wait until its family is at rest."""
    with opened(log, "resume") as runtime:
        reporter.say("open")
        come_to_rest(runtime)


def under_way(log: str) -> set[str]:
    """Find the log whole; return the turns that are under way in it."""
    assert verify(log) == []
    with read_log(log) as journal:
        turns = [fold(journal, one).turn for one in sessions_in(journal)]
    return {turn.id for turn in turns if turn is not None}


def is_whole(log: str) -> bool:
    """Return whether the audit finds nothing wrong: in the chains, in what parents and children say, in the tables."""
    with Audit.open(log) as audit:
        return audit.verify().is_whole


def answers_in(runtime: Runtime) -> Counter[str]:
    """Return how often the sessions of the family have said what, last."""
    return Counter(runtime.sessions.messages(one.id)[-1].text for one in runtime.sessions.list())


def all_answered_once(runtime: Runtime) -> None:
    """Hold each call of the family to have one answer, and each child to have been settled once."""
    states = [fold(journal_of(runtime), one.id) for one in runtime.sessions.list()]
    for one in runtime.sessions.list():
        calls = runtime.sessions.tool_calls(one.id)
        assert {call.stage for call in calls} <= {"answered"}, one.id
        assert len({call.id for call in calls}) == len(calls)
    assert all(state.turn is None and state.round is None and not state.queue for state in states)


@pytest.mark.parametrize(
    ("crash", "recovery"),
    some(
        [
            pytest.param(crash, recovery, id=f"{crash}, {recovery}")
            for number, crash in enumerate(CRASHES)
            for recovery in (RECOVERIES if THOROUGH else (RECOVERIES[number % 2],))
        ]
    ),
)
def test_a_family_whose_process_is_killed_answers_each_call_once(
    crash: Crash, recovery: Recovery, crashes: CrashTest, tmp_path: Path
) -> None:
    log = log_at(tmp_path / "family.db")
    crashes.run_until_killed(talk, log, at=crash)
    left = under_way(log)

    with opened(log, recovery) as runtime:
        come_to_rest(runtime)

        all_answered_once(runtime)
        check(runtime, resumed=left if recovery == "resume" else ())
        if recovery == "resume":
            assert answers_in(runtime) == {"top": 1, "middle": 1, "sent": 1, "two": 1}
    assert is_whole(log)


@pytest.mark.parametrize("second", some([Crash(point, nth) for point in AROUND_A_COMMIT for nth in (1, 3)]), ids=str)
def test_a_child_that_is_killed_in_the_middle_twice_is_resumed_once(
    second: Crash, crashes: CrashTest, tmp_path: Path
) -> None:
    log = log_at(tmp_path / "family.db")
    crashes.run_until_killed(talk, log, at=Crash(CrashPoint.BEFORE_COMMIT, 3, "answer-recorded"))
    left = under_way(log)
    crashes.run_until_killed(go_on, log, at=second)
    left |= under_way(log)

    with opened(log, "resume") as runtime:
        come_to_rest(runtime)

        all_answered_once(runtime)
        check(runtime, resumed=left)
        assert answers_in(runtime) == {"top": 1, "middle": 1, "sent": 1, "two": 1}
    assert is_whole(log)


@pytest.mark.parametrize(
    "crash",
    some(
        [
            *(Crash(point, nth, "session-branched") for point in AROUND_A_COMMIT for nth in (1, 2, 3)),
            *(Crash(point, nth, "child-ended") for point in AROUND_A_COMMIT for nth in (4, 5)),
        ]
    ),
    ids=str,
)
def test_a_branch_whose_process_is_killed_has_a_branch_of_each_child_once(
    crash: Crash, crashes: CrashTest, tmp_path: Path
) -> None:
    log = log_at(tmp_path / "family.db")
    crashes.run_until_killed(branch_off, log, at=crash)
    assert verify(log) == []

    with opened(log) as runtime:
        if runtime.sessions.get("b") is None:
            runtime.sessions.branch("root", new_session_id="b")
        wait_until(lambda: len(runtime.agents.pending()) == 2, 60, "both families wait")
        for call in runtime.agents.pending():
            runtime.agents.approve(call)
        wait_until(lambda: answers_in(runtime)["top"] == 2, 60, "both have gone on")

        all_answered_once(runtime)
        assert answers_in(runtime) == {"top": 2, "middle": 2, "sent": 2, "two": 1}
        check_decisions(journal_of(runtime))
    assert is_whole(log)
