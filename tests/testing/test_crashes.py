"""The kit that kills: each point is where it says, a program tells all that it said, and nothing is left behind."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from reenact import InvalidInputError, RuntimeClosedError
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.writer import Writer
from reenact.testing import Crash, CrashPoint, CrashTest, crash_at, wait_until
from reenact.testing.crash_test import Reporter
from tests.journal.support import CODEC
from tests.testing import crash_programs
from tests.testing.crash_programs import COUNT, noted

NEVER = 10**9


@pytest.mark.parametrize(
    ("crash", "left"),
    [
        (Crash(CrashPoint.BEFORE_APPEND, 3), (2, 2, 2)),
        (Crash(CrashPoint.BEFORE_COMMIT, 3), (2, 2, 2)),
        (Crash(CrashPoint.IN_COMMIT, 3), (2, 2, 2)),
        (Crash(CrashPoint.AFTER_COMMIT, 3), (3, 2, 2)),
        (Crash(CrashPoint.AFTER_PUBLISH, 3), (3, 3, 2)),
        (Crash(CrashPoint.AFTER_REPLY, 3), (3, 3, 3)),
        (Crash(CrashPoint.BEFORE_APPEND, 1, "cleared"), (3, 3, 3)),
        (Crash(CrashPoint.AFTER_COMMIT, 1, "cleared"), (4, 3, 3)),
        (Crash(CrashPoint.AFTER_OUTCOME, 2, "added"), (2, 1, 1)),
    ],
    ids=str,
)
def test_around_a_commit_a_process_is_killed_just_where_the_point_says(
    crash: Crash, left: tuple[int, int, int], crashes: CrashTest, tmp_path: Path
) -> None:
    durable, heard, told = left

    report = crashes.run_until_killed(crash_programs.append, tmp_path, at=crash)

    with SqliteJournal.open(tmp_path / "log.db", CODEC, read_only=True) as journal:
        assert journal.head() == durable
    assert len(noted(tmp_path / "heard")) == heard
    assert len(noted(tmp_path / "told")) == told
    assert report.said == tuple([number + 1] for number in range(told))


@pytest.mark.parametrize(
    ("crash", "done"),
    [
        (Crash(CrashPoint.BEFORE_EFFECT), []),
        (Crash(CrashPoint.AFTER_EFFECT), ["knock"]),
        (Crash(CrashPoint.BEFORE_EFFECT, 2), ["knock"]),
        (Crash(CrashPoint.BEFORE_EFFECT, of="ring"), ["knock"]),
        (Crash(CrashPoint.AFTER_EFFECT, of="ring"), ["knock", "ring"]),
    ],
    ids=str,
)
def test_around_an_effect_a_process_is_killed_just_where_the_point_says(
    crash: Crash, done: list[str], crashes: CrashTest, tmp_path: Path
) -> None:
    report = crashes.run_until_killed(crash_programs.act, tmp_path, at=crash)

    assert noted(tmp_path / "done") == done
    assert report.said == ()


def test_an_effect_is_what_it_was_where_nothing_crashes(tmp_path: Path) -> None:
    said: list[object] = []

    crash_programs.act(_Heard(said), tmp_path)

    assert said == [1, 2]


@pytest.mark.parametrize(
    ("point", "is_behind"),
    [
        (CrashPoint.BEFORE_PROJECTION, True),
        (CrashPoint.IN_PROJECTION, True),
        (CrashPoint.AFTER_PROJECTION, False),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_around_a_projection_a_process_is_killed_just_where_the_point_says(
    point: CrashPoint, crashes: CrashTest, tmp_path: Path, *, is_behind: bool
) -> None:
    log = tmp_path / "agents.db"

    crashes.run_until_killed(crash_programs.converse, log, at=Crash(point))

    with closing(sqlite3.connect(f"{log}.projections")) as tables:
        (position,) = tables.execute("SELECT position FROM progress").fetchone()
        (images,) = tables.execute("SELECT count(*) FROM images").fetchone()
    assert (position == 0) == is_behind
    assert (images == 0) == is_behind


@pytest.mark.parametrize("point", list(CrashPoint), ids=lambda point: point.name)
def test_every_point_is_counted_where_a_tool_is_run(point: CrashPoint, tmp_path: Path) -> None:
    said: list[object] = []

    with crash_at(point, NEVER) as fuse:
        reporter = _Heard(said, partial(fuse.reach, CrashPoint.AFTER_REPLY))
        crash_programs.converse(reporter, tmp_path / "agents.db")

    assert said == ["over"]
    assert fuse.reached >= 1


def test_what_is_opened_behind_the_block_is_as_ever(tmp_path: Path) -> None:
    begin, call = Writer.__init__, Toolbox.call

    with crash_at(CrashPoint.AFTER_COMMIT, NEVER) as fuse:
        assert Writer.__init__ is not begin
        with SqliteJournal.open(tmp_path / "log.db", CODEC) as inside:
            inside.delete_snapshots()
            reached = fuse.reached
    with SqliteJournal.open(tmp_path / "log.db", CODEC) as outside:
        outside.delete_snapshots()

    assert (Writer.__init__, Toolbox.call) == (begin, call)
    assert fuse.reached == reached == 1


def test_a_program_may_say_from_when_on_points_are_counted(crashes: CrashTest, tmp_path: Path) -> None:
    crash = Crash(CrashPoint.AFTER_COMMIT)

    crashes.run_until_killed(crash_programs.count_late, tmp_path, at=crash, armed=False)

    with SqliteJournal.open(tmp_path / "log.db", CODEC, read_only=True) as journal:
        assert journal.head() == 3


def test_a_program_that_comes_to_no_such_point_ends_by_itself(crashes: CrashTest, tmp_path: Path) -> None:
    crash = Crash(CrashPoint.AFTER_COMMIT, COUNT + 1)

    report = crashes.run(crash_programs.append, tmp_path, at=crash)

    assert (report.killed, report.reached) == (False, COUNT)
    with pytest.raises(AssertionError, match="append has ended by itself: the point AFTER_COMMIT, time 5 was reached"):
        crashes.run_until_killed(crash_programs.append, tmp_path / "..", at=crash)


def test_a_program_can_be_killed_because_of_what_it_has_said(crashes: CrashTest) -> None:
    report = crashes.run_until_killed(crash_programs.talk, "yes", until=lambda said: len(said) == 50)

    assert len(report.said) >= 50
    assert report.told("yes")[0] == [report.said[-1][1]]
    assert report.told("no") == []
    _must_be_gone(report.said[0][1])


def test_a_program_that_raises_is_not_taken_for_one_that_was_killed(crashes: CrashTest) -> None:
    with pytest.raises(
        AssertionError, match=r"(?s)fail has raised, having said \[\['before'\]\].*OSError: no such luck"
    ):
        crashes.run(crash_programs.fail)


def test_a_program_that_ends_its_process_is_not_taken_for_one_that_was_killed(crashes: CrashTest) -> None:
    with pytest.raises(AssertionError, match="end has ended with 3"):
        crashes.run(crash_programs.end, 3)


def test_a_program_that_does_not_end_in_time_is_ended(crashes: CrashTest) -> None:
    with pytest.raises(AssertionError, match=r"has not ended in time, having said \[\[(\d+)\]\]") as late:
        crashes.run(crash_programs.wait, timeout=2)

    _must_be_gone(int(str(late.value).rpartition("[")[2].rstrip("]")))
    assert not crashes.run(crash_programs.nothing).killed


def test_what_another_process_could_not_find_is_refused(crashes: CrashTest) -> None:
    with pytest.raises(InvalidInputError, match="give a function at the top of a module"):
        crashes.run(lambda: None)


def test_an_argument_that_cannot_be_handed_over_is_refused(crashes: CrashTest) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot pickle .*lock.* arguments that pickle takes"):
        crashes.run(crash_programs.end, threading.Lock())


@pytest.mark.parametrize("no_program", [None, "append"])
def test_what_is_no_program_is_refused(crashes: CrashTest, no_program: Any) -> None:  # noqa: ANN401 - the mistake
    with pytest.raises(InvalidInputError, match="is not a program; give a function"):
        crashes.run(no_program)


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (CrashPoint.AFTER_REPLY, r"give it Crash\(CrashPoint.AFTER_REPLY\)"),
        ("AFTER_REPLY", "give it a Crash, not 'AFTER_REPLY'"),
    ],
)
def test_a_point_that_is_no_crash_is_refused_before_anything_is_started(at: Any, told: str) -> None:  # noqa: ANN401 - likewise
    with CrashTest() as crashes:
        for run in (crashes.run, crashes.run_until_killed):
            with pytest.raises(TypeError, match=told):
                run(crash_programs.nothing, at=at)

        assert crashes._server is None


def test_what_is_no_point_is_refused() -> None:
    no_point: Any = "AFTER_REPLY"

    with pytest.raises(TypeError, match=r"such as CrashPoint\.AFTER_COMMIT, not at 'AFTER_REPLY'"):
        Crash(no_point)


def test_an_error_that_is_not_valid_unicode_is_told(crashes: CrashTest) -> None:
    with pytest.raises(AssertionError, match=r"(?s)fail has raised, having said .*OSError: half of a pair: \\ud800"):
        crashes.run(crash_programs.fail, "half of a pair: \ud800")


def test_what_keeps_a_child_from_running_its_program_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hindering.py").write_text(
        "import faulthandler, sys\n"
        "if 'pytest' not in sys.modules:\n"
        "    faulthandler.dump_traceback_later = 'not to be called'\n"
        "def program(reporter): pass\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    hindering = __import__("hindering")

    with (
        CrashTest() as crashes,
        pytest.raises(AssertionError, match=r"(?s)having said \[\]:.*'str' object is not"),
    ):
        crashes.run(hindering.program)


def test_a_module_that_starts_threads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "restless.py").write_text(
        "import sys, threading\n"
        "if 'pytest' not in sys.modules:\n"
        "    threading.Thread(target=threading.Event().wait, name='restless-1', daemon=True).start()\n"
        "def program(reporter): pass\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    restless = __import__("restless")

    with CrashTest() as crashes, pytest.raises(AssertionError, match=r"restless has started threads: \['restless-1'\]"):
        crashes.run(restless.program)


def test_closing_ends_the_process_and_nothing_runs_any_more() -> None:
    crashes = CrashTest()
    crashes.run(crash_programs.nothing)
    server = crashes._server
    assert server is not None

    crashes.close()
    crashes.close()

    assert server.exitcode == 0
    with pytest.raises(RuntimeClosedError):
        crashes.run(crash_programs.nothing)


PARENT = """
import os
from reenact.testing import CrashTest


def wait(reporter):
    reporter.say(os.getpid(), os.getppid())
    import threading
    threading.Event().wait()


def tell(said):
    print(*said[0], flush=True)
    os._exit(0)


if __name__ == "__main__":
    CrashTest().run(wait, until=tell)
"""


def test_nothing_outlives_a_test_run_that_is_ended_itself(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(PARENT)

    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)

    child, server = map(int, ran.stdout.split())
    wait_until(lambda: not _lives(child), what="the child to end")
    wait_until(lambda: not _lives(server), what="the process that forks to end")


def test_a_point_is_reached_for_the_first_time_or_later() -> None:
    with pytest.raises(ValueError, match="not below 1"):
        Crash(CrashPoint.AFTER_COMMIT, 0)


class _Heard(Reporter):
    """Hears in this process what a program says."""

    def __init__(self, said: list[object], reach: object = None) -> None:
        super().__init__(Pipe(duplex=False)[1], lambda: None, lambda: None)
        self._said = said
        self._then = reach

    def say(self, *words: object) -> None:
        self._said.extend(words)
        if callable(self._then):
            self._then()


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _must_be_gone(pid: int) -> None:
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
