"""The chat with a person at a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.terminal import ANSIParser, SpecialKey, TerminalEmulator
from tests.cli.conftest import PATIENCE, PROMPT, Chat, Run


def test_commands_are_obeyed_and_refused(chat: Chat) -> None:
    terminal = chat()

    terminal.send_line("/sessions")
    terminal.wait_for("There are no sessions yet")
    terminal.wait_for(PROMPT)
    terminal.send_line("/nonsense")
    terminal.wait_for("There is no command /nonsense; /help lists")
    terminal.wait_for(PROMPT)
    terminal.send_line("A question to remember")
    terminal.wait_for("Hello from mock!")
    terminal.wait_for(PROMPT)
    terminal.send_line("/sessions")
    listed = terminal.wait_for("2 messages  A question to remember")

    assert "* ses_" in listed


def test_what_was_typed_and_said_is_there_the_next_time(chat: Chat, environ: dict[str, str]) -> None:
    first = chat()
    first.send_line("Something worth repeating")
    first.wait_for("Hello from mock!")
    first.wait_for(PROMPT)
    first.send_key(SpecialKey.CTRL_D)
    first.wait_for_exit()

    second = chat("--continue")
    second.send_key(SpecialKey.UP)
    second.wait_for("Something worth repeating")

    assert ", 2 messages so far" in second.get_stripped_output()
    history = Path(environ["HOME"], ".local/state/reenact/history")
    assert history.stat().st_mode & 0o077 == 0


def test_thoughts_and_failures_are_shown_beside_the_answer(chat: Chat) -> None:
    thinking = chat("--db", "one.db", MOCK_SCENARIO="with-thinking")
    thinking.send_line("Think")
    thinking.wait_for("Let me analyze...")
    thinking.wait_for("Answer")

    failing = chat("--db", "two.db", MOCK_SCENARIO="error")
    failing.send_line("Fail")
    failing.wait_for("Rate limit exceeded")
    failing.wait_for(PROMPT)
    failing.send_key(SpecialKey.CTRL_D)

    assert failing.wait_for_exit().code == 0


def test_the_end_of_the_process_ends_the_turn_as_well(chat: Chat, run: Run) -> None:
    terminal = chat(MOCK_SCENARIO="long-stream")
    terminal.send_line("Tell me everything")
    terminal.wait_for("chunk-0")

    terminal.kill()

    assert terminal.wait_for_exit().code == 143
    (completed,) = run("log", "--type", "turn_completed", "--output-format", "json").objects
    assert completed["data"]["outcome"] == "interrupted"


def test_a_chat_is_no_object(command: list[str], environ: dict[str, str], tmp_path: Path) -> None:
    with TerminalEmulator(
        [*command, "--output-format", "json"], env=environ, cwd=tmp_path, timeout=PATIENCE
    ) as terminal:
        status = terminal.wait_for_exit()

    assert status.code == 2
    assert "invalid_configuration" in terminal.get_stripped_output()


def test_bytes_that_are_no_text_are_refused_and_the_chat_goes_on(chat: Chat) -> None:
    terminal = chat()

    terminal.write(b"\xff\xfe\r")
    terminal.wait_for("not valid Unicode")
    terminal.wait_for(PROMPT)
    terminal.send_line("Hello")
    terminal.wait_for("Hello from mock!")


def test_a_history_that_cannot_be_kept_is_a_warning(chat: Chat, environ: dict[str, str]) -> None:
    Path(environ["HOME"], "file").write_text("")

    terminal = chat(XDG_STATE_HOME=f"{environ['HOME']}/file")

    assert "what is typed will not be remembered" in terminal.get_stripped_output()


def has_colours(terminal: TerminalEmulator) -> bool:
    """Tell whether anything was shown in another colour than the usual one."""
    tokens = ANSIParser().parse(terminal.get_output())
    return any(token.style.foreground is not None or token.style.background is not None for token in tokens)


@pytest.mark.parametrize("variable", ["NO_COLOR", "TERM"])
def test_a_terminal_without_colours_gets_none(chat: Chat, variable: str) -> None:
    terminal = chat(**{variable: "dumb"})
    terminal.send_line("Hello")
    terminal.wait_for("Hello from mock!")
    terminal.wait_for(PROMPT)

    assert not has_colours(terminal)


def test_a_terminal_with_colours_gets_some_when_something_fails(chat: Chat) -> None:
    terminal = chat(MOCK_SCENARIO="error")
    terminal.send_line("Hello")
    terminal.wait_for("Rate limit exceeded")

    assert has_colours(terminal)


def test_only_the_answers_go_where_the_output_is_sent(
    command: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    sent = ["/bin/sh", "-c", 'exec "$@" >answers.txt', "sh", *command]
    with TerminalEmulator(sent, env=environ, cwd=tmp_path, timeout=PATIENCE) as terminal:
        terminal.wait_for(PROMPT)
        terminal.send_line("Hello")
        terminal.wait_for("\n\r\n")  # the answer itself is not to be seen, but the blank line behind it is
        terminal.wait_for(PROMPT)
        terminal.send_key(SpecialKey.CTRL_D)
        terminal.wait_for_exit()

    assert Path(tmp_path, "answers.txt").read_text() == "Hello from mock!\n"


def test_the_loss_of_the_agent_is_told_and_the_chat_goes_on_with_another(
    command: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(AN_AGENT_THAT_IS_GONE_ONCE)
    path = f"{tmp_path}:{environ['PYTHONPATH']}"
    with TerminalEmulator(
        [*command, "--db", "log.db"], env={**environ, "PYTHONPATH": path}, cwd=tmp_path, timeout=PATIENCE
    ) as terminal:
        terminal.wait_for(PROMPT)

        terminal.send_line("Hello")
        terminal.wait_for("agent 'agt_")
        terminal.wait_for(PROMPT)
        terminal.send_line("Hello again")
        terminal.wait_for("Hello from mock!")


AN_AGENT_THAT_IS_GONE_ONCE = """
from reenact.actors.facades import Agents
receive = Agents.receive
def once(self, agent_id, message):
    Agents.receive = receive
    self.destroy(agent_id)
    return receive(self, agent_id, message)
Agents.receive = once
"""
