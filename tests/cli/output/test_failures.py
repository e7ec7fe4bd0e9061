"""Failures beside those of the table (`tests/cli/failures`), and what is logged of them."""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.cli.output.console import Console
from reenact.domain.messages import MAX_MESSAGE_BYTES
from reenact.testing import FakeMessagesAPI
from tests.cli.conftest import KEY, Run


def test_requirement_8_3_a_wrong_key_ends_with_3_and_is_printed_nowhere(
    run: Run, claude: FakeMessagesAPI, environ: dict[str, str]
) -> None:
    wrong = f"{KEY}-but-wrong"

    done = run("-p", "Hello", "--debug", ANTHROPIC_API_KEY=wrong)

    assert done.code == 3
    assert wrong not in done.out + done.err
    assert not any(wrong.encode() in path.read_bytes() for path in Path(environ["HOME"]).rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "arguments",
    [
        ["-p", "x", "--output-format", "xml"],
        ["-p", "x", "--timeout", "nan"],
        ["-p", "x", "--resume", ""],
        ["-p", "x", "--resume", "ses_\udc80"],
        ["-p", "x", "--model", ""],
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


def test_a_line_that_is_no_text_ends_with_2(run: Run) -> None:
    assert run(stdin=b"fine\n\xff\n").code == 2


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


def test_a_turn_for_which_the_system_has_no_descriptors_left_ends(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_selector: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("reenact.actors.kernel.event_loop.asyncio.SelectorEventLoop", none_left)

    done = run("-p", "x", "--output-format", "json")

    assert done.code == 1
    assert "Too many open files" in done.result["error"]["message"]
