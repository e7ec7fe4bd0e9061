"""The chat with a person at a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Chat, Run
from tests.cli.terminal import CTRL_C, CTRL_D, ENTER, PROMPT, UP, Terminal


def test_a_person_is_told_who_answers_and_in_which_session(chat: Chat) -> None:
    terminal = chat()

    assert "Reenact" in terminal.shown
    assert "the mock answers, from its script 'default'; set ANTHROPIC_API_KEY" in terminal.shown
    assert "Session ses_" in terminal.shown


def test_a_conversation_has_several_turns_and_ends_with_the_command_for_it(chat: Chat) -> None:
    terminal = chat()

    for question in ("Good morning", "And good night"):
        terminal.type(question + ENTER)
        terminal.wait_for("Hello from mock!")
        terminal.wait_for(PROMPT)
    terminal.type("/exit" + ENTER)

    assert terminal.wait_for_exit() == 0


def test_commands_are_listed_obeyed_and_refused(chat: Chat) -> None:
    terminal = chat()

    terminal.type("/sessions" + ENTER)
    terminal.wait_for("There are no sessions yet")
    terminal.wait_for(PROMPT)
    terminal.type("/help" + ENTER)
    terminal.wait_for("/sessions ")
    terminal.wait_for("Ctrl+C ")
    terminal.wait_for(PROMPT)
    terminal.type("/nonsense" + ENTER)
    terminal.wait_for("There is no command /nonsense; /help lists")
    terminal.wait_for(PROMPT)
    terminal.type("A question to remember" + ENTER)
    terminal.wait_for("Hello from mock!")
    terminal.wait_for(PROMPT)
    terminal.type("/sessions" + ENTER)
    listed = terminal.wait_for("2 messages  A question to remember")

    assert "* ses_" in listed


def test_ctrl_c_interrupts_the_answer_and_the_chat_goes_on(chat: Chat, run: Run) -> None:
    terminal = chat(MOCK_SCENARIO="long-stream")

    terminal.type("Tell me everything" + ENTER)
    terminal.wait_for("chunk-0")
    terminal.type(CTRL_C)
    terminal.wait_for("Interrupted.")
    terminal.wait_for(PROMPT)
    terminal.type("/exit" + ENTER)

    assert terminal.wait_for_exit() == 0
    assert "chunk-99" not in terminal.shown
    (completed,) = run("log", "--type", "turn_completed", "--output-format", "json").objects
    assert completed["data"]["outcome"] == "interrupted"


def test_ctrl_c_clears_the_line_and_twice_leaves(chat: Chat) -> None:
    terminal = chat()

    terminal.type("not meant")
    terminal.wait_for("not meant")
    terminal.type(CTRL_C)
    terminal.wait_for("Ctrl+C again, or Ctrl+D, leaves.")
    terminal.wait_for(PROMPT)
    terminal.type("meant" + ENTER)
    terminal.wait_for("Hello from mock!")
    terminal.wait_for(PROMPT)
    terminal.type(CTRL_C)
    terminal.wait_for("leaves.")
    terminal.wait_for(PROMPT)
    terminal.type(CTRL_C)

    assert terminal.wait_for_exit() == 0


def test_what_was_typed_and_said_is_there_the_next_time(chat: Chat, environ: dict[str, str]) -> None:
    first = chat()
    first.type("Something worth repeating" + ENTER)
    first.wait_for("Hello from mock!")
    first.wait_for(PROMPT)
    first.type(CTRL_D)
    first.wait_for_exit()

    second = chat("--continue")
    second.type(UP)
    second.wait_for("Something worth repeating")

    assert ", 2 messages so far" in second.shown
    history = Path(environ["HOME"], ".local/state/reenact/history")
    assert history.stat().st_mode & 0o077 == 0


def test_thoughts_and_failures_are_shown_beside_the_answer(chat: Chat) -> None:
    thinking = chat("--db", "one.db", MOCK_SCENARIO="with-thinking")
    thinking.type("Think" + ENTER)
    thinking.wait_for("Let me analyze...")
    thinking.wait_for("Answer")

    failing = chat("--db", "two.db", MOCK_SCENARIO="error")
    failing.type("Fail" + ENTER)
    failing.wait_for("Rate limit exceeded")
    failing.wait_for(PROMPT)
    failing.type(CTRL_D)

    assert failing.wait_for_exit() == 0


def test_the_end_of_the_process_ends_the_turn_as_well(chat: Chat, run: Run) -> None:
    terminal = chat(MOCK_SCENARIO="long-stream")
    terminal.type("Tell me everything" + ENTER)
    terminal.wait_for("chunk-0")

    terminal.terminate()

    assert terminal.wait_for_exit() == 143
    (completed,) = run("log", "--type", "turn_completed", "--output-format", "json").objects
    assert completed["data"]["outcome"] == "interrupted"


def test_a_build_has_nobody_to_type(command: list[str], environ: dict[str, str], tmp_path: Path) -> None:
    with Terminal(command, {**environ, "CI": "true"}, tmp_path) as terminal:
        code = terminal.wait_for_exit()

    assert code == 2
    assert '"type": "no_input"' in terminal.shown


def test_a_chat_is_no_object(command: list[str], environ: dict[str, str], tmp_path: Path) -> None:
    with Terminal([*command, "--output-format", "json"], environ, tmp_path) as terminal:
        code = terminal.wait_for_exit()

    assert code == 2
    assert "invalid_configuration" in terminal.shown


def test_bytes_that_are_no_text_are_refused_and_the_chat_goes_on(chat: Chat) -> None:
    terminal = chat()

    terminal.type(b"\xff\xfe" + ENTER.encode())
    terminal.wait_for("not valid Unicode")
    terminal.wait_for(PROMPT)
    terminal.type("Hello" + ENTER)
    terminal.wait_for("Hello from mock!")


def test_a_history_that_cannot_be_kept_is_a_warning(chat: Chat, environ: dict[str, str]) -> None:
    Path(environ["HOME"], "file").write_text("")

    terminal = chat(XDG_STATE_HOME=f"{environ['HOME']}/file")

    assert "what is typed will not be remembered" in terminal.shown


@pytest.mark.parametrize("variable", ["NO_COLOR", "TERM"])
def test_a_terminal_without_colours_gets_none(chat: Chat, variable: str) -> None:
    terminal = chat(**{variable: "dumb"})
    terminal.type("Hello" + ENTER)
    terminal.wait_for("Hello from mock!")
    terminal.wait_for(PROMPT)

    assert not terminal.has_colours


def test_a_terminal_with_colours_gets_some_when_something_fails(chat: Chat) -> None:
    terminal = chat(MOCK_SCENARIO="error")
    terminal.type("Hello" + ENTER)
    terminal.wait_for("Rate limit exceeded")

    assert terminal.has_colours


def test_only_the_answers_go_where_the_output_is_sent(
    command: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    sent = ["/bin/sh", "-c", 'exec "$@" >answers.txt', "sh", *command]
    with Terminal(sent, environ, tmp_path) as terminal:
        terminal.wait_for(PROMPT)
        terminal.type("Hello" + ENTER)
        terminal.wait_for("\n\r\n")  # the answer itself is not to be seen, but the blank line behind it is
        terminal.wait_for(PROMPT)
        terminal.type(CTRL_D)
        terminal.wait_for_exit()

    assert Path(tmp_path, "answers.txt").read_text() == "Hello from mock!\n"


def test_the_loss_of_the_agent_is_told_and_the_chat_goes_on_with_another(
    command: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(AN_AGENT_THAT_IS_GONE_ONCE)
    path = f"{tmp_path}:{environ['PYTHONPATH']}"
    with Terminal([*command, "--db", "log.db"], {**environ, "PYTHONPATH": path}, tmp_path) as terminal:
        terminal.wait_for(PROMPT)

        terminal.type("Hello" + ENTER)
        terminal.wait_for("agent 'agt_")
        terminal.wait_for(PROMPT)
        terminal.type("Hello again" + ENTER)
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
