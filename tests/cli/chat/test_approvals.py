"""Calls that wait for the person at the terminal: seen whole, approved, rejected, edited, answered, left for later."""

from __future__ import annotations

import os
import pwd
import shlex
from pathlib import Path

import pytest

from reenact.terminal import SpecialKey, TerminalEmulator
from tests.cli.conftest import PATIENCE, PROMPT, Chat, Run, ask, leave, logged
from tests.cli.tools import BOB, MAIL, Office

QUESTION = "Run it? [y]es, [n]o, [a]lways, [e]dit, [q]uit the turn:"
CTRL_U = "\x15"


@pytest.fixture
def asked(chat: Chat, office: Office) -> TerminalEmulator:
    """A chat in which the person is asked about one mail."""
    office.model_asks_for(MAIL)
    terminal = chat(*office.tools, LOGNAME="somebody", USER="somebody")
    terminal.send_line("Write to Ann")
    terminal.wait_for(QUESTION)
    return terminal


def test_a_call_is_shown_whole_and_runs_when_it_is_approved(asked: TerminalEmulator, office: Office, run: Run) -> None:
    shown, too_early = asked.get_stripped_output(), office.sent
    asked.send_line("y")
    asked.wait_for("sent to ann@example.org")
    asked.wait_for("Hello from the fake API!")
    asked.wait_for(PROMPT)
    leave(asked)

    assert "send_mail may run only if you approve" in shown
    assert 'to: "ann@example.org"' in shown
    assert 'body: "Hello"' in shown
    assert (too_early, office.sent) == ("", "ann@example.org: Hello\n")
    (result,) = office.results
    assert (result["content"], result["is_error"]) == ("sent to ann@example.org", False)
    (approved,) = logged(run, "tool_approved")
    assert approved["data"]["by"] == pwd.getpwuid(os.getuid()).pw_name


def test_whoever_is_asked_sees_the_call_also_where_standard_error_goes_to_a_file(
    office: Office, command: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    office.model_asks_for(MAIL)
    line = f"{shlex.join([*command, *office.tools])} 2> errors.txt"

    with TerminalEmulator("sh", ["-c", line], env=environ, cwd=tmp_path, cols=120, timeout=PATIENCE) as terminal:
        terminal.wait_for(PROMPT)
        terminal.send_line("Write to Ann")
        terminal.wait_for("send_mail may run only if you approve")
        terminal.wait_for('to: "ann@example.org"')
        terminal.wait_for(QUESTION)
        terminal.send_line("y")
        terminal.wait_for("sent to ann@example.org")


def test_a_rejection_tells_the_model_why(asked: TerminalEmulator, office: Office) -> None:
    asked.send_line("n")
    asked.wait_for("Why not?")
    asked.send_line("she is on holiday")
    asked.wait_for("Hello from the fake API!")

    assert office.sent == ""
    (result,) = office.results
    assert result["is_error"]
    assert "she is on holiday" in result["content"]


def test_edited_arguments_are_those_that_run(asked: TerminalEmulator, office: Office, run: Run) -> None:
    asked.send_line("e")
    asked.wait_for("Arguments:")
    asked.send_line(CTRL_U + '{"to": "bob@example.org", "body": "Hi"}')
    asked.wait_for('to: "bob@example.org"')
    asked.wait_for(QUESTION)
    asked.send_line("y")
    asked.wait_for("Hello from the fake API!")

    asked.wait_for(PROMPT)
    assert office.sent == "bob@example.org: Hi\n"
    leave(asked)
    (edited,) = logged(run, "tool-edited")
    assert (edited["data"]["original"], edited["data"]["edited"]["to"]) == (MAIL[1], "bob@example.org")


def test_quitting_ends_the_turn_and_the_next_question_is_answered(asked: TerminalEmulator, office: Office) -> None:
    asked.send_line("q")
    asked.wait_for(PROMPT)
    before = len(office.api.requests)
    asked.send_line("Never mind")
    asked.wait_for("Hello from the fake API!")

    assert (before, office.sent) == (1, "")


def test_ctrl_c_leaves_the_call_waiting_and_pending_asks_again(asked: TerminalEmulator, office: Office) -> None:
    asked.send_key(SpecialKey.CTRL_C)
    asked.wait_for("goes on waiting")
    asked.wait_for("/pending asks again")
    asked.wait_for("reenact --resume ses_")
    asked.wait_for(PROMPT)
    ask(asked, "Something else", "a call waits for a person")
    asked.send_line("/pending")
    asked.wait_for(QUESTION)
    asked.send_line("y")
    asked.wait_for("Hello from the fake API!")

    assert office.sent == "ann@example.org: Hello\n"


def test_a_call_whose_function_is_not_there_goes_on_waiting_when_it_is_approved(
    asked: TerminalEmulator, chat: Chat, office: Office, run: Run
) -> None:
    asked.send_key(SpecialKey.CTRL_C)
    asked.wait_for(PROMPT)
    leave(asked)
    (session,) = run("sessions", "--output-format", "json").objects

    without = chat("--resume", session["id"], until=QUESTION)
    ask(without, "y", "send_mail cannot be approved")
    leave(without)
    script = run("--resume", session["id"], stdin=b"/approve\n")

    assert (script.code, office.sent) == (1, "")
    assert "--tools on the command line" in script.err
    assert "(waits for you)" in run("sessions").out


def test_a_process_that_was_killed_at_the_question_changes_nothing(
    asked: TerminalEmulator, chat: Chat, office: Office
) -> None:
    asked.kill()
    status = asked.wait_for_exit()

    again = chat("--continue", *office.tools, until=QUESTION)
    again.send_line("y")
    again.wait_for("Hello from the fake API!")

    assert status.code == 143
    assert office.sent == "ann@example.org: Hello\n"


def test_of_two_calls_one_is_approved_and_one_rejected(chat: Chat, office: Office) -> None:
    office.model_asks_for(MAIL, ("send_mail", {"to": "bob@example.org"}))
    terminal = chat(*office.tools)
    terminal.send_line("Write to both")
    terminal.wait_for("1 of 2:")
    terminal.wait_for(QUESTION)
    terminal.write("y\ry\r")  # what is typed too early is not an answer to the second
    terminal.wait_for("2 of 2:")
    terminal.wait_for("bob@example.org")
    terminal.wait_for(QUESTION)
    undecided = office.sent
    terminal.send_line("n")
    terminal.wait_for("Why not?")
    terminal.send_line("not Bob")
    terminal.wait_for("Hello from the fake API!")

    assert (undecided, office.sent) == ("", "ann@example.org: Hello\n")
    assert [result["is_error"] for result in office.results] == [False, True]


def test_a_model_that_asks_again_is_asked_about_again(asked: TerminalEmulator, office: Office) -> None:
    office.model_asks_for(("send_mail", {"to": "bob@example.org"}), text="And now Bob.")
    asked.send_line("y")
    asked.wait_for("And now Bob.")
    asked.wait_for(QUESTION)
    asked.send_line("y")
    asked.wait_for("Hello from the fake API!")

    assert office.sent == "ann@example.org: Hello\nbob@example.org: \n"


def test_what_was_typed_before_the_question_is_no_answer(chat: Chat, office: Office) -> None:
    office.model_asks_for(MAIL, delay=0.05)
    terminal = chat(*office.tools)
    terminal.send_line("Write to Ann\ry")
    terminal.wait_for(QUESTION)
    terminal.send_line("maybe")
    terminal.wait_for("Type y, n, a, e or q")

    assert office.sent == ""


def test_no_row_of_a_call_is_wider_than_the_terminal_whatever_the_environment_says(chat: Chat, office: Office) -> None:
    office.model_asks_for(("send_mail", {"to": "ann@example.org", "body": "word " * 60}))
    terminal = chat(*office.tools, COLUMNS="400")

    terminal.send_line("Write to Ann")
    terminal.wait_for(QUESTION)

    rows = [row.strip() for row in terminal.screen.text.splitlines() if "word" in row]
    assert len(rows) > 1
    assert [row for row in rows if not row.startswith(("| ", ": "))] == []


def test_characters_that_would_hide_something_are_shown_as_escapes(chat: Chat, office: Office) -> None:
    hidden = 'a"b\x1b[2K\x1b[1A\rx\u202egnp.exe\u2066\u200b\ufeff\U000e0041\x00\x9b\u2028\nQUESTION: fine\u3164'
    office.model_asks_for(("send_mail", {"to": hidden, "bo\rdy\u202e": "[bold]:bomb: :heavy_check_mark:"}))
    terminal = chat(*office.tools)
    terminal.send_line("Write")
    terminal.wait_for("may run only if you approve")
    shown = terminal.wait_for(QUESTION)

    lines = [line.strip() for line in shown.splitlines()]
    assert r'| a"b\u001b[2K\u001b[1A\rx\u202egnp.exe\u2066\u200b\ufeff\udb40\udc41\u0000\u009b\u2028' in lines
    assert r"| QUESTION: fine\u3164" in lines
    assert r'"bo\rdy\u202e": "[bold]:bomb: :heavy_check_mark:"' in shown
    assert not set(terminal.get_output()) & set("\u202e\u2066\u200b\ufeff\U000e0041\x00\x9b\u2028\u3164")


@pytest.mark.parametrize(("options", "typed"), [(None, "Ada"), (["red", "green"], "2")])
def test_the_answer_to_a_question_goes_to_the_model(
    chat: Chat, office: Office, options: list[str] | None, typed: str
) -> None:
    office.model_asks_person("Which?", options)
    terminal = chat(*office.tools)
    terminal.send_line("Paint")
    terminal.wait_for("or /no [REASON]:")
    terminal.send_line(typed)
    terminal.wait_for("Hello from the fake API!")

    assert [result["content"] for result in office.results] == ["Ada" if options is None else "green"]


def test_commands_decide_about_what_waits(asked: TerminalEmulator, office: Office, run: Run) -> None:
    asked.send_key(SpecialKey.CTRL_C)
    asked.wait_for(PROMPT)
    asked.send_line("/approve nonsense")
    asked.wait_for("No call nonsense waits; these do:")
    asked.wait_for('toolu_fake_1  send_mail(to: "ann@example.org", body: "Hello")')
    asked.wait_for(PROMPT)
    ask(asked, "/approve toolu_fake_1", "Hello from the fake API!")
    asked.send_line("/approve")
    asked.wait_for("Nothing waits for you.")
    leave(asked)

    assert office.sent == "ann@example.org: Hello\n"
    (approved,) = logged(run, "tool_approved")
    assert approved["data"]["by"] == pwd.getpwuid(os.getuid()).pw_name


def test_of_several_calls_a_command_must_name_one(chat: Chat, office: Office) -> None:
    office.model_asks_for(MAIL, ("send_mail", {"to": "bob@example.org"}))
    terminal = chat(*office.tools)
    terminal.send_line("Write to both")
    terminal.wait_for(QUESTION)
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("They all go on waiting")
    terminal.wait_for(PROMPT)
    terminal.send_line("/approve")
    terminal.wait_for("name the one you mean")
    terminal.wait_for("toolu_fake_2")
    terminal.wait_for(PROMPT)
    terminal.send_line("/reject toolu_fake_2 not Bob")
    terminal.wait_for(QUESTION)
    terminal.send_line("y")
    terminal.wait_for("Hello from the fake API!")

    assert office.sent == "ann@example.org: Hello\n"
    assert [result["is_error"] for result in office.results] == [False, True]


def test_calls_and_results_are_shown_while_the_turn_runs(chat: Chat, office: Office) -> None:
    office.model_asks_for(("get_weather", {"city": "Rome"}), ("read_lines", {"count": 9}), ("fail", {}))
    terminal = chat(*office.tools)
    terminal.send_line("Go")
    terminal.wait_for("Hello from the fake API!")

    assert '→ get_weather(city: "Rome")' in terminal.get_stripped_output()
    assert '{"city":"Rome","sky":"clear"}' in terminal.get_stripped_output()
    assert "→ read_lines(count: 9)" in terminal.get_stripped_output()
    assert "line 3" in terminal.get_stripped_output()
    assert "line 4" not in terminal.get_stripped_output()
    assert "… 6 more lines" in terminal.get_stripped_output()
    assert "error: FileNotFoundError: no such file" in terminal.get_stripped_output()


def test_what_is_always_approved_is_asked_about_again_in_another_session_and_the_log_says_how_it_was(
    asked: TerminalEmulator, office: Office, run: Run
) -> None:
    asked.send_line("a")
    asked.wait_for("Hello from the fake API!")
    office.model_asks_for(BOB)
    asked.send_line("And to Bob")
    asked.wait_for("(approved for this chat)")
    asked.wait_for("Hello from the fake API!")
    sent = office.sent
    office.model_asks_for(MAIL)
    asked.send_line("/new")
    asked.send_line("Once more")
    asked.wait_for(QUESTION)
    asked.send_line("q")
    asked.wait_for(PROMPT)
    leave(asked)

    assert sent == office.sent == "ann@example.org: Hello\nbob@example.org: Hi\n"
    by = [one["data"]["by"] for one in logged(run, "tool_approved")]
    assert [one.endswith("earlier, with [a]lways") for one in by] == [False, True]


def test_a_call_with_deeply_nested_arguments_is_asked_about_shown_whole_and_run(
    chat: Chat, office: Office, run: Run
) -> None:
    deep: object = "#"
    for _ in range(90):
        deep = [deep]
    office.model_asks_for(("send_mail", {"to": "ann@example.org", "body": deep}))
    terminal = chat(*office.tools)
    terminal.send_line("Write to Ann")
    terminal.wait_for(QUESTION)
    terminal.send_key(SpecialKey.CTRL_D)
    terminal.wait_for("/pending asks again")
    ask(terminal, "/reject 7 none of these", "Hello from the fake API!")

    office.model_asks_for(("send_mail", {"to": "bob@example.org", "body": deep}))
    terminal.send_line("Write to Bob")
    terminal.wait_for(QUESTION)
    terminal.send_key(SpecialKey.CTRL_D)
    terminal.wait_for("/pending asks again")
    leave(terminal)
    again = chat("--continue", *office.tools, until=QUESTION)
    again.send_line("v")
    again.wait_for('"#"')
    again.send_line("e")
    again.wait_for("Arguments:")
    again.send_line("")
    again.wait_for("It would run with:")
    again.send_line("q")
    again.wait_for(PROMPT)
    leave(again)

    assert (run("log", "--last", "3").code, run("verify").code) == (0, 0)
    assert run("-p", "And?", "--continue", *office.tools).code == 0
