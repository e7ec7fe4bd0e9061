"""The plugin's fixtures, as a user's test run sees them; and what is not imported before it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

TESTS = """
import threading

import pytest

from reenact.testing import Crash, CrashPoint, FaultyJournal, ManualClock
from tests.testing.account import Account, Deposit, Deposited, Reserve, Withdraw, Withdrawn
from tests.testing.crash_programs import append


def test_a_system_on_the_manual_clock(actor_system, manual_clock):
    account = actor_system.actor(Account, "a1")
    account.ask(Deposit(5))
    account.ask(Reserve(3))
    manual_clock.advance(3600)
    assert account.ask(Withdraw(5)) == 0


def test_ids(sequential_ids):
    assert sequential_ids("a") == "a_0001"


def test_a_faulty_journal(faulty_journal):
    assert isinstance(faulty_journal, FaultyJournal)
    assert faulty_journal.codec is not None


def test_kits(kit_for):
    first, second = kit_for(Account), kit_for(Account, "other", clock=ManualClock(start=5))
    first.given(Deposited(5)).when(Withdraw(3)).then(Withdrawn(3))
    assert (first.stream, second.stream, second.clock()) == ("account/test", "account/other", 5)


def test_programs_that_are_killed(crash_test, tmp_path):
    report = crash_test.run_until_killed(append, tmp_path, at=Crash(CrashPoint.AFTER_REPLY))
    assert report.said == ([1],)


def test_nothing_is_left_of_them():
    assert threading.active_count() == 1


@pytest.fixture
def leaving(monkeypatch, actor_system):
    monkeypatch.setattr("reenact.testing.plugin.LEAVE_TIME", 0.01)
    yield
    stays = threading.Thread(target=threading.Event().wait, name="reenact-left", daemon=True)
    stays.start()


def test_that_leaves_a_thread(leaving):
    pass
"""


def test_the_fixtures_serve_a_test_and_clean_up_behind_it(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(TESTS)

    done = run(
        "-m", "pytest", "-p", "no:reenact", "-p", "reenact.testing.plugin", "-p", "no:cacheprovider", str(tmp_path)
    )

    assert "7 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "threads are left although their system is closed: reenact-left" in done.stdout


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    done = run(
        "-c",
        dedent("""
        import sys

        before = set(sys.modules)  # what measures coverage, for one

        def loaded(*names):
            return sorted(set(names) & (set(sys.modules) - before))

        import reenact.testing
        assert not loaded("anthropic", "hypothesis", "pykka", "pytest", "reenact.actors", "sqlite3", "sqlalchemy")
        from reenact.testing import FakeMessagesAPI, ManualClock, MockEnvironment, SequentialIds, wait_until
        assert not loaded("hypothesis", "pytest")
        from reenact.testing import EventSourcedTestKit, FaultyJournal, ReplayError
        assert not loaded("hypothesis", "pytest")
        import reenact.testing.plugin
        assert not loaded("hypothesis")
        from reenact.testing import *
        assert loaded("hypothesis", "pytest")
        assert set(reenact.testing.__all__) <= set(dir(reenact.testing))
        print("done")
        """),
    )

    assert done.stdout == "done\n", done.stderr


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
