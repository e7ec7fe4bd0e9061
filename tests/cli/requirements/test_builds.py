"""Requirement 9: builds, which may have a terminal and have nobody at it; and runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest

from reenact.terminal import TerminalEmulator
from reenact.testing import FakeMessagesAPI
from tests.cli.conftest import PATIENCE
from tests.cli.requirements.conftest import At
from tests.cli.requirements.strictly import Json, lines_of_json
from tests.cli.requirements.views import NARROW, WIDE, colours
from tests.extensions.written import Written

BUILDS = {"CI": "true", "GITHUB_ACTIONS": "true", "GITLAB_CI": "true", "JENKINS_URL": "https://jenkins.example/"}


def logged(terminal: TerminalEmulator) -> list[Json]:
    """Return the lines of the log, in which there is nothing else and no sequence."""
    return lines_of_json(terminal.get_output())


@pytest.mark.parametrize("name", BUILDS)
def test_requirement_9_1_a_build_is_recognised_by_each_of_its_variables(at: At, name: str) -> None:
    terminal = at(WIDE, "-p", "Hello", "--resume", "ses_none", **{name: BUILDS[name]})

    assert terminal.wait_for_exit().code == 2
    (entry,) = logged(terminal)
    assert (entry["level"], entry["type"]) == ("error", "session_not_found")


def test_requirement_9_1_a_variable_that_says_no_leaves_the_person_a_chat(talk: At) -> None:
    terminal = talk(NARROW, CI="false", GITHUB_ACTIONS="0", GITLAB_CI="", JENKINS_URL=" ")

    terminal.send_line("Hello")

    terminal.wait_for("mock!")


def test_requirement_9_2_with_a_terminal_too_nobody_is_asked_anything(at: At, tmp_path: Path) -> None:
    Written(tmp_path).hook("Stop", "touch ran")

    chat = at(WIDE, CI="true")
    prompt = at(WIDE, "-p", "Hello", "--db", "other.db", CI="true")

    assert (chat.wait_for_exit().code, prompt.wait_for_exit().code) == (2, 0)
    entry = logged(chat)[-1]
    assert entry["type"] == "no_input"
    assert "-p TEXT" in entry["message"]
    assert "Hello from mock!" in prompt.get_output().splitlines()
    assert not Path(tmp_path, "ran").exists(), "hooks of a project that nobody has trusted do not run"


def test_requirement_9_3_what_is_logged_is_json_line_by_line_and_the_answer_is_beside_it(
    at: At, claude: FakeMessagesAPI, file: BinaryIO
) -> None:
    answered = at(WIDE, "-p", "Hello", "--db", "one.db", writes=file.fileno(), CI="true")
    assert answered.wait_for_exit().code == 0
    claude.error(529, message="\x1b[31m401\nUnauthorized", should_retry=False)
    failed = at(NARROW, "-p", "Hello", "--db", "two.db", CI="true")
    assert failed.wait_for_exit().code == 4

    file.seek(0)
    assert file.read() == b"Hello from the fake API!\n"
    (who,) = logged(answered)
    assert (who["level"], {"time", "logger", "message"} <= set(who)) == ("info", True)
    _, why = logged(failed)
    assert (why["level"], why["message"], why["code"]) == ("error", "\x1b[31m401\nUnauthorized", 4)
    assert colours(failed) == set()


PIPELINE = """
set -eu -o pipefail
"$@" -p Hello | tr a-z A-Z
"$@" -p Hello --resume ses_that_is_not || echo "failed with $?"
"$@" -p Hello --resume ses_that_is_not | tr a-z A-Z
echo "this step is never reached"
"""


def test_requirement_9_4_a_pipeline_stops_at_the_step_that_failed(
    command: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    shell = ["/bin/bash", "-c", PIPELINE, "pipeline", *command]
    with TerminalEmulator(shell, env={**environ, "CI": "true"}, cwd=tmp_path, timeout=PATIENCE) as terminal:
        status = terminal.wait_for_exit()

    said = [line for line in terminal.get_output().splitlines() if not line.startswith("{")]
    assert (status.code, said) == (2, ["HELLO FROM MOCK!", "failed with 2"])


def test_requirement_9_5_runs_beside_each_other_do_not_disturb_each_other(at: At, tmp_path: Path) -> None:
    names = ("one", "two", "three", "four", "five")

    runs = {
        name: at(NARROW, "-p", name, "--db", f"{name}.db", "--output-format=json", HOME=str(tmp_path / name), CI="1")
        for name in names
    }

    assert [run.wait_for_exit().code for run in runs.values()] == [0] * len(names)
    results = [logged(run)[-1] for run in runs.values()]
    assert len({result["session_id"] for result in results}) == len(names)
    assert all(Path(tmp_path, f"{name}.db").is_file() for name in names)
