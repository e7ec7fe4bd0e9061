"""Requirement 3: one prompt, at a terminal, and where its input or its output is a file or a pipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from reenact.terminal import TerminalEmulator
from reenact.testing import FakeMessagesAPI, FakeReply
from tests.cli.requirements.conftest import At, Paced
from tests.cli.requirements.strictly import lines_of_json
from tests.cli.requirements.views import NARROW, VIEWS, WIDE, View, colours, shown, squeezed

FORMATS = ("text", "json", "stream-json")
ANSWER = "Twenty-three flights of stairs, and not one of them leads anywhere at all."


def sent(file: BinaryIO) -> str:
    """Return what was sent there."""
    file.seek(0)
    return file.read().decode()


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_requirement_3_1_a_prompt_is_answered_at_the_terminal_and_nothing_is_asked(
    at: At, claude: FakeMessagesAPI, view: View
) -> None:
    claude.reply(text=ANSWER)

    terminal = at(view, "-p", "How many?")
    status = terminal.wait_for_exit()

    assert status.code == 0
    assert terminal.get_output() == f"{ANSWER}\r\n", "the answer, and not one sequence or word besides"
    assert shown(terminal.screen) == squeezed(ANSWER)
    assert (terminal.screen.cursor.column, terminal.screen.cursor.visible) == (0, True)


def test_requirement_3_1_the_answer_goes_to_the_file_and_what_is_said_about_it_to_the_terminal(
    at: At, file: BinaryIO
) -> None:
    terminal = at(NARROW, "-p", "Hello", writes=file.fileno())
    status = terminal.wait_for_exit()

    assert (status.code, sent(file)) == (0, "Hello from mock!\n")
    assert "the mock answers, from its script 'default'" in terminal.get_stripped_output()
    assert "Hello" not in terminal.get_stripped_output()


def test_requirement_3_1_what_is_piped_in_is_the_prompt_and_the_answer_is_at_the_terminal(
    at: At, claude: FakeMessagesAPI, tmp_path: Path
) -> None:
    Path(tmp_path, "lines").write_text("one\ntwo\n")

    with Path(tmp_path, "lines").open("rb") as whole, Path(tmp_path, "lines").open("rb") as by_line:
        at_once = at(WIDE, "-p", "-", reads=whole.fileno())
        status = at_once.wait_for_exit()
        each = at(NARROW, reads=by_line.fileno())
        statuses = [status, each.wait_for_exit()]

    assert [status.code for status in statuses] == [0, 0]
    asked = [request.body["messages"][-1]["content"][0]["text"] for request in claude.requests]
    assert asked == ["one\ntwo\n", "one", "two"]
    assert at_once.get_output() == "Hello from the fake API!\r\n"
    assert each.get_output() == "Hello from the fake API!\r\n" * 2
    assert colours(each) == set()


def test_requirement_3_2_json_is_one_object_in_a_file_whatever_the_terminal_shows(at: At, file: BinaryIO) -> None:
    terminal = at(NARROW, "-p", "Hello", "--output-format", "json", writes=file.fileno())

    assert terminal.wait_for_exit().code == 0
    (result,) = lines_of_json(sent(file))
    assert (result["success"], result["result"]) == (True, "Hello from mock!")
    assert sent(file).count("\n") == 1


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_requirement_3_2_json_at_a_terminal_is_the_same_object_in_no_colour(
    at: At, claude: FakeMessagesAPI, view: View
) -> None:
    terminal = at(view, "-p", "Hello", "--output-format=json")

    assert terminal.wait_for_exit().code == 0
    (result,) = lines_of_json(terminal.get_output())
    assert result["result"] == "Hello from the fake API!"


def test_requirement_3_3_each_event_is_a_line_in_the_pipe_when_it_happens(at: At, paced: Paced) -> None:
    pace, model = paced("One, ", "two, ", "three.")
    ours, its = os.pipe()
    with os.fdopen(ours, encoding="utf-8") as pipe:
        terminal = at(NARROW, "-p", "Count", "--output-format", "stream-json", writes=its, **model)
        os.close(its)
        heard: list[str] = []
        for piece in ("One, ", "two, ", "three."):
            pace.say()
            while piece not in (line := pipe.readline()):
                heard.append(line)
            heard.append(line)
            assert terminal.is_running, "the rest has not been said yet"
        pace.end()
        *events, result = lines_of_json("".join(heard) + pipe.read())

    assert terminal.wait_for_exit().code == 0
    assert [event["cursor"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "turn_completed"
    assert result["result"] == "One, two, three."
    assert terminal.get_output() == ""


def test_requirement_3_4_an_answer_that_takes_longer_is_cut_off_with_5_in_every_form(
    at: At, claude: FakeMessagesAPI, tmp_path: Path
) -> None:
    claude.script([FakeReply(deltas=["Half of", " it"], stall_after=4)] * 3)

    terminals: dict[str, TerminalEmulator] = {}
    for form in FORMATS:  # all at the same time, for each of them takes a second
        with Path(tmp_path, form).open("wb") as file:
            options = ("--timeout", "1", "--output-format", form, "--db", f"{form}.db")
            terminals[form] = at(NARROW, "-p", "All of it", *options, writes=file.fileno())

    for terminal in terminals.values():
        assert terminal.wait_for_exit().code == 5
        assert "there was no whole answer within 1 s" in terminal.get_stripped_output()
    assert claude.wait_for_hang_up(3), "nobody goes on listening"
    assert Path(tmp_path, "text").read_text() == "Half of it\n"
    for form in ("json", "stream-json"):
        result = lines_of_json(Path(tmp_path, form).read_text())[-1]
        assert (result["result"], result["error"]["code"], result["error"]["type"]) == ("Half of it", 5, "timeout")


def test_requirement_3_4_in_a_chat_the_same_is_said_and_the_prompt_waits_again(
    talk: At, claude: FakeMessagesAPI
) -> None:
    claude.reply(deltas=["Half of", " it"], stall_after=4)
    terminal = talk(NARROW, "--timeout", "1")

    terminal.send_line("All of it")
    terminal.wait_for("within 1 s")
    terminal.wait_for(">")
    terminal.send_line("Go on")
    terminal.wait_for("API!")

    assert "Half of it\n" in terminal.screen.text


def test_requirement_3_5_a_success_ends_with_0_also_if_nothing_is_said(at: At, claude: FakeMessagesAPI) -> None:
    claude.script([FakeReply(content=[])] * 3)

    runs = {
        form: at(view, "-p", "Hi", "--output-format", form, "--db", f"{form}.db")
        for form, view in zip(FORMATS, (WIDE, NARROW, WIDE), strict=True)
    }

    assert [run.wait_for_exit().code for run in runs.values()] == [0, 0, 0]
    assert runs["text"].get_output() == ""
    for form in ("json", "stream-json"):
        result = lines_of_json(runs[form].get_output())[-1]
        assert (result["success"], result["result"], result["error"]) == (True, "", None)


@pytest.mark.parametrize(("view", "status", "code"), [(WIDE, 400, 2), (NARROW, 401, 3), (NARROW, 529, 4)], ids=str)
def test_requirement_3_6_a_failure_has_the_code_of_its_kind_and_not_of_its_words(
    *, at: At, claude: FakeMessagesAPI, file: BinaryIO, view: View, status: int, code: int
) -> None:
    claude.error(status, message="everything went well, exit code 0", should_retry=False)

    terminal = at(view, "-p", "Hi", writes=file.fileno())

    assert (terminal.wait_for_exit().code, sent(file)) == (code, "")
    assert terminal.get_stripped_output().startswith("reenact: error: everything went well, exit code 0")
    assert colours(terminal) == set() or view.in_colours
