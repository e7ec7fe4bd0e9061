"""Wherever a process is killed while it forgets a session: that is readable, deleted or forgotten, nothing between."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import KeyRing, SessionForgottenError, SessionNotFoundError
from reenact.audit import verify_log
from reenact.testing import Crash, CrashPoint, CrashTest, Reporter
from tests.crashes.test_matrix import AROUND_A_COMMIT
from tests.crashes.workloads import Life
from tests.crashes.world import RING, World
from tests.logs import copy_directory, execute, log_at, stands_in

CRASHES = (
    *(Crash(point, 1, "agent-stopped") for point in AROUND_A_COMMIT),
    *(Crash(point, 1, "session-deleted") for point in AROUND_A_COMMIT),
    *(Crash(point, nth) for point in (CrashPoint.BEFORE_COMMIT, CrashPoint.AFTER_COMMIT) for nth in (1, 2)),
    *(Crash(CrashPoint.IN_COMMIT, nth) for nth in (1, 2)),
    Crash(CrashPoint.AFTER_REPLY, 1),
)


def forget(reporter: Reporter, home: Path) -> None:
    """Talk, have an agent begin an answer that does not go on, and forget the session."""
    with World(home) as world, world.opened() as runtime:
        life = Life(runtime, world, reporter)
        life.ask_and_wait("one")
        life.hold()
        reporter.arm()
        runtime.sessions.forget("s", by="ada")
        reporter.say("forgotten")


@pytest.mark.parametrize("crash", CRASHES, ids=str)
def test_a_process_that_is_killed_while_it_forgets_has_done_it_or_not(
    crash: Crash, crashes: CrashTest, encrypted: Path, tmp_path: Path
) -> None:
    home = copy_directory(encrypted, tmp_path / "home")
    log, ring = log_at(home / "agents.db"), KeyRing.file(home / RING)
    ((before,),) = execute(log, "SELECT wrapped FROM keys WHERE stream = 'session/s'")

    report = crashes.run_until_killed(forget, home, at=crash, armed=False)

    ((wrapped,),) = execute(log, "SELECT wrapped FROM keys WHERE stream = 'session/s'")
    assert verify_log(log).findings == ()
    assert wrapped in (None, before)
    assert wrapped is None or not report.told("forgotten")
    with World(home, holds=False) as world, world.opened() as runtime:
        found = runtime.sessions.get("s")
        if wrapped is None:
            assert found is not None
            assert found.forgotten is not None
            with pytest.raises(SessionForgottenError):
                runtime.sessions.messages("s")
        elif found is None:
            with pytest.raises(SessionNotFoundError):
                runtime.sessions.messages("s")
        else:
            assert [message.text for message in runtime.sessions.messages("s")][:2] == ["one", "you said one."]
        runtime.sessions.forget("s", by="ada")
        runtime.sessions.create("c", "i", session_id="t")
        assert runtime.ask("two", session="t").text == "you said two."
    assert execute(log, "SELECT wrapped FROM keys WHERE stream = 'session/s'") == [(None,)]
    assert not stands_in(before, log)
    verdict = verify_log(log, keys=ring)
    assert (verdict.findings, verdict.read_model) == ((), "agrees")
