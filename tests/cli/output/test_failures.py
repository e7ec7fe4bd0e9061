"""Failures: the exit code by the type, an object on standard output for who asked for JSON, words for everybody."""

from __future__ import annotations

import errno
import io
import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.cli.output.console import Console
from reenact.cli.output.failures import ExitCode, problem_of, problem_of_turn
from reenact.domain.messages import MAX_MESSAGE_BYTES
from reenact.testing import FakeMessagesAPI
from tests.cli.conftest import KEY, Run
from tests.logs import log_at, written_elsewhere


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (400, (2, "invalid_request_error")),
        (401, (3, "authentication_error")),
        (403, (3, "permission_error")),
        (404, (2, "not_found_error")),
        (429, (4, "rate_limit_error")),
        (500, (4, "api_error")),
        (504, (4, "timeout_error")),
        (529, (4, "overloaded_error")),
    ],
)
def test_requirement_3_6_what_the_api_refuses_decides_the_exit_code(
    run: Run, claude: FakeMessagesAPI, status: int, failure: tuple[int, str]
) -> None:
    code, error_type = failure
    for _ in range(9):
        claude.error(status, message="no such luck", retry_after=0)

    done = run("-p", "Hello", "--output-format", "json")

    assert done.code == code
    assert done.result["success"] is False
    assert done.result["error"] == {"code": code, "type": error_type, "message": "no such luck"}
    assert done.result["stop_reason"] == "error"
    assert "no such luck" in done.err


def test_requirement_8_3_a_wrong_key_ends_with_3_and_is_printed_nowhere(
    run: Run, claude: FakeMessagesAPI, environ: dict[str, str]
) -> None:
    wrong = f"{KEY}-but-wrong"

    done = run("-p", "Hello", "--debug", ANTHROPIC_API_KEY=wrong)

    assert done.code == 3
    assert wrong not in done.out + done.err
    assert not any(wrong.encode() in path.read_bytes() for path in Path(environ["HOME"]).rglob("*") if path.is_file())


def test_requirement_8_2_a_refused_connection_ends_with_4(run: Run, claude: FakeMessagesAPI) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]

    done = run("-p", "Hello", ANTHROPIC_BASE_URL=f"http://127.0.0.1:{port}")

    assert (done.code, done.out) == (4, "")


def test_requirement_3_4_what_has_no_answer_in_time_is_interrupted(run: Run, claude: FakeMessagesAPI) -> None:
    claude.reply(deltas=["Wait", "…"], stall_after=3)

    done = run("-p", "Hello", "--timeout", "0.3", "--output-format", "json")

    assert done.code == 5
    assert done.result["error"]["type"] == "timeout"
    assert done.result["result"] == "Wait"
    assert done.result["stop_reason"] == "interrupted"
    assert claude.wait_for_hang_up()


def test_requirement_8_4_a_line_without_an_answer_in_time_makes_the_code_5(run: Run, claude: FakeMessagesAPI) -> None:
    claude.reply(stall_after=2)
    claude.error(401)
    claude.reply(text="Back again")

    done = run("--timeout", "0.3", stdin=b"one\ntwo\nthree\n")

    assert (done.code, done.out) == (5, "Back again\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nonsense"],
        ["nonsense"],
        ["-p"],
        ["-p", "x", "--output-format", "xml"],
        ["-p", "x", "--timeout", "0"],
        ["-p", "x", "--timeout", "nan"],
        ["-p", "x", "--timeout", "soon"],
        ["-p", "x", "--continue", "--resume", "ses_1"],
        ["-p", "x", "--resume", "ses_that_is_not"],
        ["-p", "x", "--resume", ""],
        ["-p", "x", "--continue"],
        ["-p", "x", "--model", ""],
        ["-p", "x", "--db", "mysql://host/base"],
        ["-p", "x", "--db", "missing/directory/log.db"],
        ["-p", "x", "--db", "."],
        ["-p", "x", "--db", "not-a-log"],
        ["-p", " "],
        ["-p", "a lone surrogate \udc80"],
        ["-p", "-"],
        ["-p", "x", "sessions"],
        ["--continue", "log"],
        ["--resume", "x", "log"],
        ["log", "--db", "missing.db"],
        ["log", "--db", "not-a-log"],
        ["sessions", "--db", "not-a-log"],
        ["log", "--type", "nonsense"],
        ["log", "--since", "yesterday-ish"],
        ["log", "--since", "999999999999d"],
    ],
    ids=" ".join,
)
def test_requirement_8_1_what_cannot_be_done_as_it_was_asked_for_ends_with_2(
    run: Run, tmp_path: Path, arguments: list[str]
) -> None:
    Path(tmp_path, "not-a-log").write_text("a shopping list\n" * 100)

    done = run(*arguments)

    assert (done.code, done.out) == (2, "")
    assert "reenact: error: " in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "error_type"),
    [
        (["--nonsense"], "invalid_arguments"),
        (["-p", "x", "--continue"], "nothing_to_continue"),
        (["-p", "x", "--resume", "ses_\udc80"], "invalid_input"),
        (["-p", "x", "--resume", "ses_none"], "session_not_found"),
        (["-p", ""], "invalid_message"),
        ([], "no_input"),
    ],
)
def test_who_asked_for_json_gets_an_object_whatever_is_wrong(run: Run, arguments: list[str], error_type: str) -> None:
    for form in (["--output-format", "json"], ["--output-format=stream-json"]):
        done = run(*form, *arguments)

        assert done.code == 2
        assert done.result["error"]["code"] == 2
        assert done.result["error"]["type"] == error_type


def test_bad_input_and_a_bad_scenario_are_2(run: Run) -> None:
    not_text = run("-p", "-", stdin=b"\xff\xfe")
    not_lines = run(stdin=b"fine\n\xff\n")
    no_scenario = run("-p", "x", MOCK_SCENARIO="tragedy")

    assert [not_text.code, not_lines.code, no_scenario.code] == [2, 2, 2]
    assert "tragedy" in no_scenario.err


@pytest.mark.parametrize("arguments", [("-p", "-"), ("-p", "What is wrong?"), ()])
def test_no_more_of_the_input_is_read_than_a_message_may_have(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    endless = io.BytesIO(b"x" * 3 * MAX_MESSAGE_BYTES)

    def given(_: Console) -> io.BytesIO:
        return endless

    monkeypatch.setattr(Console, "input", given)

    done = run(*arguments)

    assert done.code == 2
    assert "has more than 10,485,760 bytes" in done.err
    assert endless.tell() == MAX_MESSAGE_BYTES + 1


def test_a_log_that_another_process_writes_names_that_process(run: Run, tmp_path: Path) -> None:
    with written_elsewhere(log_at(tmp_path / "busy.db")):
        done = run("-p", "x", "--db", "busy.db", "--output-format", "json")
        listed = run("sessions", "--db", "busy.db")

    assert (done.code, done.result["error"]["type"]) == (2, "log_locked")
    assert "is being written by process" in done.err
    assert listed.code == 0


def test_a_home_that_cannot_be_written_is_2(run: Run, environ: dict[str, str]) -> None:
    Path(environ["HOME"], "file").write_text("")

    done = run("-p", "x", XDG_DATA_HOME=f"{environ['HOME']}/file")

    assert done.code == 2
    assert "--db" in done.err


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what breaks the program, in a way that the key is part of."""

    def broken() -> None:
        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError(f"with {KEY}")

        monkeypatch.setattr("reenact.cli.chat.conversation.Conversation.ask", fail)

    return broken


def test_requirement_8_5_the_unexpected_ends_with_1_and_its_traceback_is_logged(
    run: Run, broken: Callable[[], None], environ: dict[str, str]
) -> None:
    broken()

    done = run("-p", "x", "--output-format", "json", ANTHROPIC_API_KEY=KEY, MOCK_LLM="1")

    assert done.code == 1
    assert done.result["error"] == {"code": 1, "type": "internal_error", "message": "ZeroDivisionError: with …"}
    assert "Traceback" not in done.err
    kept = Path(environ["HOME"], ".local/state/reenact/errors.log").read_text()
    assert "Traceback" in kept
    assert KEY not in done.out + done.err + kept


def test_the_log_of_errors_is_its_owners_and_can_be_looked_at_on_a_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("\x1b]0;owned\x07\u202e\n2026-11-21 00:00:00,000 ERROR reenact.cli: forged")

    monkeypatch.setattr("reenact.cli.chat.conversation.Conversation.ask", fail)

    before = os.umask(0o022)
    try:
        run("-p", "x")
    finally:
        os.umask(before)

    (log,) = Path(environ["HOME"], ".local/state/reenact").glob("errors.log")
    kept = log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    assert all(line.isprintable() for line in kept.splitlines())
    assert len(re.findall(r"^\S.*", kept, re.MULTILINE)) == 1, "one record begins a line, and nothing else does"


def test_who_looks_for_the_cause_sees_the_traceback_at_once(run: Run, broken: Callable[[], None]) -> None:
    broken()

    done = run("-p", "x", "--debug", ANTHROPIC_API_KEY=KEY, MOCK_LLM="1")

    assert done.code == 1
    assert "Traceback" in done.err
    assert KEY not in done.err


def test_a_state_directory_that_cannot_be_written_hides_no_failure(
    run: Run, broken: Callable[[], None], environ: dict[str, str]
) -> None:
    broken()
    Path(environ["HOME"], "file").write_text("")

    done = run("-p", "x", XDG_STATE_HOME=f"{environ['HOME']}/file")

    assert done.code == 1
    assert "ZeroDivisionError" in done.err


def test_an_agent_that_ends_without_a_word_is_not_waited_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.cli.chat.conversation.LOOK_AROUND", 0.0)

    def gone(*_: object) -> None:
        return None

    monkeypatch.setattr("reenact.actors.api.facades.Agents.get", gone)

    done = run("-p", "x", "--output-format", "json")

    assert (done.code, done.result["error"]["type"]) == (1, "answer_lost")


@pytest.mark.parametrize("error_type", ["driver_error", "something_new"])
def test_a_failure_of_no_known_type_is_unexpected(error_type: str) -> None:
    assert problem_of_turn(error_type, "").code == ExitCode.UNEXPECTED


def test_ctrl_c_before_there_is_anything_to_interrupt_is_130() -> None:
    assert problem_of(KeyboardInterrupt()).code == 130


def test_streams_that_are_closed_are_no_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        patch.setattr(sys, "stderr", None)
        answered = run("-p", "x")

    assert answered.code == 0


def test_a_turn_for_which_the_system_has_no_descriptors_left_ends(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_selector: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("reenact.actors.kernel.event_loop.asyncio.SelectorEventLoop", none_left)

    done = run("-p", "x", "--output-format", "json")

    assert done.code == 1
    assert "Too many open files" in done.result["error"]["message"]
