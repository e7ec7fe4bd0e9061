"""The chat with a person at a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import Runtime
from reenact.cli.chat import chat as chatting
from reenact.terminal import ANSIParser, SpecialKey, TerminalEmulator
from reenact.testing import FakeMessagesAPI, MockEnvironmentFactory
from tests.cli.conftest import PATIENCE, PROMPT, Chat, Run, ask, leave, logged
from tests.cli.talks import beginning
from tests.cli.tools import MAIL, Office
from tests.logs import log_at


def test_what_was_said_is_there_the_next_time(chat: Chat, environ: dict[str, str]) -> None:
    first = chat()
    ask(first, "Something worth repeating")
    leave(first)

    second = chat("--continue")

    shown = second.get_stripped_output()
    assert ", 2 messages so far" in shown
    assert "  │ You: Something worth repeating" in shown
    assert "  │ Hello from mock!" in shown
    history = Path(environ["HOME"], ".local/state/reenact/history")
    assert history.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("word", ["exit", " quit ", "/quit"])
def test_who_types_that_they_leave_leaves(chat: Chat, word: str) -> None:
    terminal = chat()
    terminal.send_line(word)

    assert terminal.wait_for_exit().code == 0
    assert "mock!" not in terminal.get_stripped_output().replace("mock answers", "")


def test_a_session_is_chosen_from_a_list(chat: Chat, run: Run) -> None:
    for about in ("apples", "pears", "plums"):
        assert run("-p", f"About {about}").code == 0

    terminal = chat("--resume", until="Which one?")
    terminal.send_line("4")
    terminal.wait_for("there is no session number 4")
    terminal.wait_for("Which one?")
    ask(terminal, "2", "You: About pears")
    ask(terminal, "/clear", "Session ses_")
    ask(terminal, "About figs")
    leave(terminal)

    listed = terminal.get_stripped_output()
    assert listed.index("About plums") < listed.index("About pears") < listed.index("About apples")
    assert [session["messages"] for session in run("sessions", "--output-format", "json").objects] == [2, 2, 2, 2]


def test_who_chooses_no_session_has_none(chat: Chat, run: Run) -> None:
    assert run("-p", "About apples").code == 0

    terminal = chat("--resume", until="Which one?")

    assert leave(terminal) == 130


def test_thoughts_and_failures_are_shown_beside_the_answer(chat: Chat) -> None:
    thinking = chat("--db", "one.db", MOCK_SCENARIO="with-thinking")
    thinking.send_line("Think")
    thinking.wait_for("Let me analyze...")
    thinking.wait_for("Answer")

    failing = chat("--db", "two.db", MOCK_SCENARIO="error")
    ask(failing, "Fail", "Rate limit exceeded")

    assert leave(failing) == 0


def test_the_end_of_the_process_ends_the_turn_as_well(chat: Chat, run: Run) -> None:
    terminal = chat(MOCK_SCENARIO="long-stream")
    terminal.send_line("Tell me everything")
    terminal.wait_for("chunk-0")

    terminal.kill()

    assert terminal.wait_for_exit().code == 143
    (completed,) = logged(run, "turn_completed")
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


def test_a_terminal_with_colours_gets_some_when_something_fails(chat: Chat) -> None:
    terminal = chat(MOCK_SCENARIO="error")
    terminal.send_line("Hello")
    terminal.wait_for("Rate limit exceeded")

    assert has_colours(terminal)


def test_the_loss_of_the_agent_is_told_and_the_chat_goes_on_with_another(
    command: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(AN_AGENT_THAT_IS_GONE_ONCE)
    path = f"{tmp_path}:{environ['PYTHONPATH']}"
    with TerminalEmulator(
        [*command, "--db", "log.db"], env={**environ, "PYTHONPATH": path}, cwd=tmp_path, timeout=PATIENCE
    ) as terminal:
        terminal.wait_for(PROMPT)

        ask(terminal, "Hello", "agent 'agt_")
        terminal.send_line("Hello again")
        terminal.wait_for("Hello from mock!")


def test_a_chat_goes_from_session_to_session_and_shows_where_one_is(chat: Chat) -> None:
    terminal = chat()
    ask(terminal, "About apples")
    ask(terminal, "/new", "Session ses_")
    ask(terminal, "About pears")
    listed = ask(terminal, "/sessions", "2 messages  About apples")

    terminal.send_line("/resume 2")
    terminal.wait_for("2 messages so far")
    shown = terminal.wait_for("  │ Hello from mock!")
    terminal.wait_for(PROMPT)
    terminal.send_line("/branch About plums")
    where = terminal.wait_for("goes back.")
    terminal.wait_for("Hello from mock!")
    terminal.wait_for(PROMPT)
    terminal.send_line("/exit")
    back = terminal.wait_for("To come back: reenact --resume ses_")

    assert " 1 * ses_" in listed
    assert " 2   ses_" in listed
    assert "  │ You: About apples" in shown
    assert "It branches off from ses_" in where
    assert back
    assert terminal.wait_for_exit().code == 0


def test_a_call_that_waits_in_another_session_is_asked_about_when_one_comes_there(chat: Chat, office: Office) -> None:
    office.model_asks_for(MAIL)
    terminal = chat(*office.tools)
    terminal.send_line("Write to Ann")
    terminal.wait_for("Run it?")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for(PROMPT)
    ask(terminal, "/new", "Session ses_")

    terminal.send_line("/resume 1")
    terminal.wait_for("You: Write to Ann")
    terminal.wait_for("Run it?")
    terminal.send_line("y")
    terminal.wait_for("Hello from the fake API!")

    assert office.sent == "ann@example.org: Hello\n"


def test_a_message_that_waits_behind_a_call_is_answered_once_that_is_decided(
    chat: Chat, office: Office, tmp_path: Path
) -> None:
    office.model_asks_for(MAIL)
    first = chat("--db", "log.db", *office.tools)
    first.send_line("Write to Ann")
    first.wait_for("Run it?")
    first.send_key(SpecialKey.CTRL_C)
    first.wait_for(PROMPT)
    leave(first)
    with Runtime.open(log_at(tmp_path / "log.db"), environment=MockEnvironmentFactory()) as runtime:
        (call,) = runtime.agents.pending()
        runtime.agents.receive(runtime.sessions.run(call.session_id), "And thank you")
    for text in ("The mail is sent.", "You are welcome."):
        office.api.reply(text=text)

    again = chat("--db", "log.db", "--continue", *office.tools, until="Run it?")
    again.send_line("y")
    again.wait_for("The mail is sent.")
    again.wait_for("You are welcome.")
    again.wait_for(PROMPT)

    assert office.sent == "ann@example.org: Hello\n"


def test_what_the_session_costs_its_model_and_its_log_can_be_looked_at(chat: Chat, claude: FakeMessagesAPI) -> None:
    terminal = chat("--price", "claude-two=1000,1000")
    ask(terminal, "/model claude-two", "Claude (claude-two) answers from now on, in this run.")
    ask(terminal, "Hello", "Hello from the fake API!")
    cost = ask(terminal, "/cost", "The last answer: 10 tokens in, 5 out, cost 0.015")
    terminal.send_line("/log 3")
    log = terminal.wait_for("turn-completed")

    assert "claude-two: 1 answer, 10 tokens in, 5 out, cost 0.015" in cost
    assert claude.requests[0].body["model"] == "claude-two"
    assert [line.split()[2] for line in log.splitlines() if line.strip()[:1].isdigit()] == [
        "turn-started",
        "answer-recorded",
        "turn-completed",
    ]


def test_a_command_that_fails_is_told_and_the_chat_goes_on_with_what_can_be_done(chat: Chat, tmp_path: Path) -> None:
    terminal = chat("--db", "log.db")
    ask(terminal, "/resume nowhere", "session 'nowhere' does not exist")
    ask(terminal, "Hello")
    (tmp_path / "log.db").rename(tmp_path / "elsewhere.db")

    ask(terminal, "/log", "log.db")
    terminal.send_line("Still there?")
    terminal.wait_for("Hello from mock!")


def test_the_way_back_is_told_only_where_there_is_something_to_come_back_to(chat: Chat) -> None:
    terminal = chat()

    assert leave(terminal) == 0
    assert "To come back" not in terminal.get_stripped_output()


def test_a_log_that_is_deleted_in_the_middle_is_told_of_and_no_way_back_is_promised(
    chat: Chat, environ: dict[str, str], tmp_path: Path
) -> None:
    terminal = chat("--db", "log.db")
    ask(terminal, "One")
    for file in tmp_path.glob("log.db*"):
        file.unlink()

    terminal.send_key(SpecialKey.CTRL_D)
    terminal.wait_for("this conversation is not in the log any more")

    assert terminal.wait_for_exit().code == 0
    assert "To come back" not in terminal.get_stripped_output()


AN_AGENT_THAT_IS_GONE_ONCE = """
from reenact.actors.api.facades import Agents
receive = Agents.receive
def once(self, agent_id, message):
    Agents.receive = receive
    self.destroy(agent_id)
    return receive(self, agent_id, message)
Agents.receive = once
"""


@pytest.mark.parametrize(
    ("pressed", "stays"),
    [
        ("CC", False),
        ("C", True),
        ("C w C", True),
        ("C w CC", False),
        ("C t C", True),
        ("C t CC", False),
        ("C m C", True),
        ("i C", False),
        ("i w C", True),
        ("i t C", True),
        ("i m C", True),
    ],
)
def test_ctrl_c_leaves_only_if_nothing_was_typed_and_little_time_passed_since_that_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pressed: str, *, stays: bool
) -> None:
    now, typed = [0.0], [False]
    keys = iter(f"{pressed.replace(' ', '')}.")
    read: list[str] = []

    class Asked(chatting.Chat):
        def ask(self, text: str, *, as_it_is: bool = False) -> None:
            self.interrupted = text == "i"

    def read_question(_editor: object) -> str:
        typed[0] = False
        for key in keys:
            read.append(key)
            if key == "C":
                raise KeyboardInterrupt
            if key == "w":
                now[0] += 6
            elif key == "t":
                typed[0] = True
            else:
                return key
        raise EOFError

    def no_editor(*_: object) -> None: ...

    def has_typed(_: object) -> bool:
        return typed[0]

    monkeypatch.setattr("reenact.cli.chat.chat.editor_of_questions", no_editor)
    monkeypatch.setattr("reenact.cli.chat.chat.editor_of_decisions", no_editor)
    monkeypatch.setattr("reenact.cli.chat.chat.read_question", read_question)
    monkeypatch.setattr("reenact.cli.chat.chat.has_typed", has_typed)
    with beginning(tmp_path) as current:
        Asked(current, lambda: now[0]).run_lines()

    assert (read[-1] == ".") == stays, read
