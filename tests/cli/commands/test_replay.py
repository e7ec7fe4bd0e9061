"""`reenact replay`: histories of a log, and golden ones in a folder, decided once more."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact._runtime import codec
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.audit import Audit
from reenact.domain.history.decision_replay import DecisionReplay
from reenact.domain.session import decide as sessions
from reenact.domain.session.agent import TurnCompleted
from reenact.domain.session.commands import SessionCommand
from reenact.domain.session.state import Session, SessionEvent
from tests.cli.conftest import Json, Run
from tests.journal.support import CODEC, Added, commit, step
from tests.verification.test_replay import steps_of, written

pytestmark = pytest.mark.sqlite_only("files, by their paths")


@pytest.fixture
def talk(run: Run) -> str:
    """Talk once, and return the session."""
    return str(run("-p", "Hello", "--output-format", "json").result["session_id"])


@pytest.fixture
def log(environ: dict[str, str], talk: str) -> Path:
    """The log that somebody has talked into."""
    (found,) = Path(environ["HOME"]).rglob("reenact.db")
    return found


@pytest.fixture
def golden(log: Path, tmp_path: Path) -> Path:
    """A folder of histories that are as they are to be: an export, and a log."""
    folder = tmp_path / "golden"
    (folder / "more").mkdir(parents=True)
    with Audit.open(log) as audit:
        audit.export(folder / "hello.jsonl", feeds=False)
    written(folder / "more" / "same.db", steps_of(log), codec())
    (folder / "README.txt").write_text("What came of the first talks.")
    return folder


@pytest.fixture
def other_code(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have today's code decide otherwise about the end of turns."""

    def decide(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:
        return tuple(
            msgspec.structs.replace(event, from_state="error") if isinstance(event, TurnCompleted) else event
            for event in sessions.decide(session, command)
        )

    def change() -> None:
        monkeypatch.setattr(
            DecisionReplay.__init__,
            "__kwdefaults__",
            {**(DecisionReplay.__init__.__kwdefaults__ or {}), "decide": decide},
        )

    return change


def test_each_session_is_a_line(run: Run, talk: str) -> None:
    second = run("-p", "And again", "--output-format", "json").result["session_id"]

    outcome = run("replay")

    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()] == [talk, second, "2"]
    assert all("as recorded" in line for line in outcome.out.splitlines())


def test_one_of_something_is_in_the_singular(run: Run, talk: str) -> None:
    branch = run("branch", talk).out.strip()

    assert run("replay", branch).out.splitlines()[0] == f"{branch}  as recorded: 1 step, 1 event"


def test_one_session_may_be_named(run: Run, talk: str) -> None:
    run("-p", "And again")

    found = run("replay", talk, "--output-format", "json").objects

    assert [(one["session_id"], one["divergence"], one["source"]) for one in found] == [(talk, None, None)]
    assert found[0]["steps"] > 2


def test_a_session_that_is_not_there_is_an_error(run: Run, talk: str) -> None:
    assert run("replay", "nobody").code == 2
    assert run("replay", talk, "nobody").code == 2


def test_where_there_is_no_log_there_is_nothing_to_decide(run: Run) -> None:
    assert run("replay").code == 0
    assert run("replay", "nobody").code == 2


def test_a_name_with_a_slash_at_its_end_is_that_of_a_folder(run: Run) -> None:
    outcome = run("replay", "nowhere/")

    assert outcome.code == 2
    assert "nowhere does not exist; name sessions, or files and folders of histories" in outcome.err


def test_a_pipe_is_not_a_history(run: Run) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer):
        outcome = run("replay", f"/dev/fd/{reader}")

    assert outcome.code == 2
    assert "is not a file; name sessions, or files and folders of histories" in outcome.err


def test_a_folder_of_golden_histories_is_one_command(run: Run, golden: Path, talk: str) -> None:
    outcome = run("replay", str(golden))

    assert outcome.code == 0
    exported, log, summary = outcome.out.splitlines()
    assert exported.removeprefix(str(golden / "hello.jsonl")).split()[0] == talk
    assert log.removeprefix(str(golden / "more" / "same.db")).split()[0] == talk
    assert summary == "2 histories, all as recorded"


def test_code_that_decides_otherwise_fails_the_command_and_both_sides_are_shown(
    run: Run, golden: Path, other_code: Callable[[], None]
) -> None:
    other_code()

    outcome = run("replay", str(golden / "hello.jsonl"))
    found: Json = run("replay", str(golden), "--output-format", "json").objects[0]

    assert outcome.code == 1
    lines = outcome.out.splitlines()
    assert "differs at position" in lines[0]
    assert "another from_state of turn-completed" in lines[0]
    assert lines[1].startswith('    recorded: turn-completed  {"')
    assert '"from_state":"responding"' in lines[1]
    assert '"from_state":"error"' in lines[2]
    assert lines[-1] == "1 history, 1 not as recorded"
    assert found["divergence"]["field"] == "from_state"
    assert found["divergence"]["command"] == "Finish"
    assert found["divergence"]["decided"]["data"]["from_state"] == "error"


def test_a_history_that_breaks_off_says_only_what_todays_code_decides(run: Run, log: Path, tmp_path: Path) -> None:
    *before, step, _ = steps_of(log)
    assert isinstance(step.events[-1], TurnCompleted)
    written(tmp_path / "short.db", [*before, step._replace(events=step.events[:-1])], codec())

    lines = run("replay", str(tmp_path / "short.db")).out.splitlines()

    assert "differs, behind" in lines[0]
    assert [line.split()[0] for line in lines[1:-1]] == ["decided:"]


def test_files_that_are_no_histories_of_ours_are_findings(run: Run, golden: Path) -> None:
    (golden / "broken.jsonl").write_text("{}\n")
    with SqliteJournal.open(golden / "foreign.db", CODEC) as journal:
        commit(journal, step("ses_1", 0, Added(1)), step("ses_2", 0, Added(2)))

    outcome = run("replay", str(golden))
    found = run("replay", str(golden), "--output-format", "json").objects

    assert outcome.code == 1
    assert "3 not as recorded" in outcome.out
    assert "cannot be decided at position 1, behind 0 steps: the log holds an event of the unknown type" in outcome.out
    assert "broken.jsonl, line 1: the file is not an export" in outcome.out
    broken = [Path(one["source"]).name for one in found if one["divergence"] is not None]
    assert broken == ["broken.jsonl", "foreign.db", "foreign.db"]


@pytest.mark.parametrize("what", ["empty", "gone.jsonl", "gone.db"])
def test_a_place_without_histories_is_bad_usage(run: Run, tmp_path: Path, what: str) -> None:
    (tmp_path / "empty").mkdir()

    outcome = run("replay", str(tmp_path / what))

    assert outcome.code == 2
    assert what in outcome.err


def test_what_a_terminal_would_obey_is_not_printed(
    run: Run, environ: dict[str, str], log: Path, tmp_path: Path
) -> None:
    forged = [step._replace(events=[_named(event) for event in step.events]) for step in steps_of(log)]
    written(tmp_path / "forged.db", forged, codec())

    outcome = run("replay", str(tmp_path / "forged.db"))

    assert outcome.code == 1
    assert "\x1b" not in outcome.out


def _named(event: Any) -> Any:  # noqa: ANN401 - any event
    return msgspec.structs.replace(event, turn_id="\x1b[2J") if isinstance(event, TurnCompleted) else event
