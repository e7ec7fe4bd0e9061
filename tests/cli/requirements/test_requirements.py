"""What the command must do that is seen from outside alone: its sessions, and its place in a pipeline."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.testing import FakeMessagesAPI, MockEnvironmentFactory
from tests.cli.conftest import Run
from tests.started.programs import Programs

PATIENCE = 20.0


def test_requirement_6_1_a_session_is_in_the_log_when_the_command_has_ended(
    programs: Programs, environ: dict[str, str], tmp_path: Path
) -> None:
    done = programs.command(["-p", "Remember me"], environ, tmp_path, PATIENCE)

    log = Path(environ["HOME"], ".local/share/reenact/reenact.db")
    assert done.returncode == 0
    with Runtime.open(log, environment=MockEnvironmentFactory()) as runtime:
        (session,) = runtime.sessions.list_by_container("default")
        said = [(message.role, message.text) for message in runtime.sessions.messages(session.id)]
    assert said == [("user", "Remember me"), ("assistant", "Hello from mock!")]


def test_requirement_6_4_the_model_is_sent_all_that_was_said_before(
    run: Run, api: FakeMessagesAPI, claude: dict[str, str]
) -> None:
    for number in range(3):
        api.reply(text=f"Answer {number}")
        run("-p", f"Question {number}", *(["--continue"] if number else []), **claude)

    sent = [(message["role"], message["content"][0]["text"]) for message in api.requests[-1].body["messages"]]
    assert sent == [
        ("user", "Question 0"),
        ("assistant", "Answer 0"),
        ("user", "Question 1"),
        ("assistant", "Answer 1"),
        ("user", "Question 2"),
    ]


@pytest.mark.parametrize("option", [["--resume", "ses_that_is_not"], ["--continue"]])
def test_requirement_6_5_a_session_that_is_not_there_is_an_error_in_words(run: Run, option: list[str]) -> None:
    done = run("-p", "Hello", *option)

    assert (done.code, done.out) == (2, "")
    assert "session" in done.err
    assert done.err.startswith("reenact: error: ")


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
    done = subprocess.run(
        ["/bin/bash", "-c", PIPELINE, "pipeline", *command],
        env={**environ, "CI": "true"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, "HELLO FROM MOCK!\nfailed with 2\n")
