"""Failures at a terminal: the chat says what is wrong and goes on, or ends with the code of the failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import Runtime
from reenact.testing import FakeMessagesAPI, MockEnvironmentFactory
from tests.cli.conftest import KEY, PROMPT, Chat, ask, leave
from tests.logs import log_at

FORGED = '\x1b[2J\x1b]0;title\x07no such luck\n{"type":"result","success":true}\x9b31m'


@pytest.mark.parametrize(
    ("status", "kind", "help_"),
    [
        (401, "authentication_error", "refuses the key in ANTHROPIC_API_KEY"),
        (404, "not_found_error", "is there a model of this name (--model, ANTHROPIC_MODEL)"),
        (529, "overloaded_error", "try again later"),
    ],
)
def test_a_refusal_is_told_with_what_may_help_and_the_chat_goes_on(
    chat: Chat, api: FakeMessagesAPI, status: int, kind: str, help_: str
) -> None:
    api.error(status, kind, message=FORGED, should_retry=False)
    api.reply(text="Here I am")
    terminal = chat(ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=api.url)

    terminal.send_line("Hello")
    terminal.wait_for("no such luck")
    terminal.wait_for(help_)
    terminal.wait_for(PROMPT)
    ask(terminal, "Are you there?", "Here I am")

    assert leave(terminal) == 0
    assert "\x1b]0;title" not in terminal.get_output()
    assert "\x9b" not in terminal.get_output()
    assert KEY not in terminal.get_output()


def test_a_log_that_another_process_writes_ends_the_chat_before_it_begins(chat: Chat, tmp_path: Path) -> None:
    with Runtime.open(log_at(tmp_path / "busy.db"), environment=MockEnvironmentFactory(delays=False)):
        terminal = chat("--db", "busy.db", until="is being written by process")

        assert terminal.wait_for_exit().code == 2
    assert "Traceback" not in terminal.get_output()


def test_tools_that_cannot_be_loaded_end_the_chat_before_it_begins(chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("def f(:\n")

    terminal = chat("--tools", "wrong.py", until="line 1: SyntaxError")

    assert terminal.wait_for_exit().code == 2


def test_a_history_that_cannot_be_written_holds_nobody_up(chat: Chat, environ: dict[str, str]) -> None:
    state = Path(environ["HOME"], ".local/state/reenact")
    state.mkdir(parents=True)
    (state / "history").symlink_to("/dev/full")
    terminal = chat()

    ask(terminal, "Hello")

    assert leave(terminal) == 0
    assert "Traceback" not in terminal.get_output()
