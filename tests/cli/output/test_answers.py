"""One answer for a program, or one for each line of the input: what is printed where, and the exit code."""

from __future__ import annotations

import io
import signal
import sys

import pytest

from reenact.cli.output.console import Console
from reenact.testing import FakeMessagesAPI, FakeReply
from tests.cli.conftest import Chat, Json, Outcome, Run, accepted, logged

FIELDS = [
    "type",
    "success",
    "result",
    "session_id",
    "agent_id",
    "turn_id",
    "stop_reason",
    "stop_sequence",
    "stop_details",
    "usage",
    "cost",
    "duration",
    "tool_calls",
    "error",
]


@pytest.mark.parametrize(
    ("stopped", "told"),
    [
        ({"category": "cyber", "explanation": "No.\x1b[2J"}, "The model refused to answer (cyber): No."),
        ({"category": None, "explanation": None}, "The model refused to answer."),
        (None, "The model refused to answer."),
    ],
)
def test_a_refusal_is_told_on_standard_error_in_the_object_and_in_the_log(
    stopped: Json | None, told: str, run: Run, claude: FakeMessagesAPI
) -> None:
    details = None if stopped is None else {"type": "refusal", **stopped}
    claude.script([FakeReply(text="Well", stop_reason="refusal", stop_details=details)] * 2)

    text = run("-p", "How?")
    (result,) = run("-p", "How?", "--output-format", "json").objects

    assert (text.code, text.out) == (0, "Well\n")
    assert f"warning: {told}" in text.err
    assert "\x1b" not in text.err
    assert (result["success"], result["stop_reason"], result["stop_details"]) == (True, "refusal", details)
    (answer, _) = logged(run, "answer-recorded")
    assert answer["data"]["stop_details"] == details
    (turn, _) = logged(run, "turn-completed")
    assert turn["data"]["stop_details"] == details


def test_the_stop_sequence_that_ended_the_answer_is_in_the_object(run: Run, claude: FakeMessagesAPI) -> None:
    claude.reply("Well", stop_reason="stop_sequence", stop_sequence="END")

    (result,) = run("-p", "How?", "--output-format", "json").objects

    assert (result["stop_reason"], result["stop_sequence"]) == ("stop_sequence", "END")


def test_a_terminal_obeys_nothing_of_an_answer_that_a_file_gets_as_it_is(
    chat: Chat, start: Run, claude: FakeMessagesAPI
) -> None:
    hostile = "\x1b]0;owned\x07a\x1b[2J\x9b31mb\u202ec\rd\U000e0041e\x1b]52;c;aGk=\x07 end\tx"
    claude.reply(hostile)
    claude.reply(hostile)

    terminal = chat("-p", "Hi", until="end")
    kept = start("-p", "Hi")

    assert terminal.wait_for_exit().code == 0
    assert "]0;owneda[2J31mb\\u202ecd\\udb40\\udc41e]52;c;aGk= end" in terminal.get_output()
    assert not set(terminal.get_output()) & set("\x1b\x07\x9b\u202e\U000e0041")
    assert kept.out == f"{hostile}\n"


def test_each_line_of_the_input_is_answered_in_order_in_one_session(run: Run) -> None:
    done = run(stdin=b"first\n\n  \nsecond\n")

    assert (done.code, done.out) == (0, "Hello from mock!\n" * 2)
    (session_id, first), (same_id, second) = accepted(run)
    assert (first, second) == ("first", "second")
    assert session_id == same_id


def test_lines_may_be_commands_as_in_a_chat(run: Run) -> None:
    done = run(stdin=b"/help\n/sessions\nHi\n/sessions\n/exit\nnever asked\n")

    assert (done.code, done.out) == (0, "Hello from mock!\n")
    assert "/exit" in done.err
    assert "There are no sessions yet" in done.err
    assert "2 messages  Hi" in done.err


def test_no_input_is_the_end_and_not_a_failure(run: Run) -> None:
    done = run()

    assert (done.code, done.out) == (0, "")


def test_a_json_answer_is_exactly_one_object(run: Run) -> None:
    done = run("-p", "Hello", "--output-format", "json")

    assert list(done.result) == FIELDS
    assert done.result["type"] == "result"
    assert done.result["success"] is True
    assert done.result["result"] == "Hello from mock!"
    assert done.result["stop_reason"] == "end_turn"
    assert done.result["duration"] > 0
    assert done.result["error"] is None
    assert done.result["session_id"].startswith("ses_")


def test_a_json_answer_has_what_the_model_used(run: Run, claude: FakeMessagesAPI) -> None:
    claude.reply(text="Yes", usage={"input_tokens": 7, "output_tokens": 3})

    done = run("-p", "Hello", "--output-format", "json")

    assert done.result["usage"] == {"input_tokens": 7, "output_tokens": 3}
    assert done.err == ""


def test_a_json_stream_is_every_event_of_the_session_and_then_the_same_object(run: Run) -> None:
    done = run("-p", "Hello", "--output-format", "stream-json")

    *events, result = done.objects
    assert [event["cursor"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "session_created"
    assert events[-1]["type"] == "turn_completed"
    assert "".join(event["data"]["text"] for event in events if event["type"] == "text_delta") == result["result"]
    assert list(result) == FIELDS


def test_each_line_has_a_json_object_of_its_own(run: Run) -> None:
    done = run("--output-format=json", stdin=b"one\ntwo\n")

    assert [answer["result"] for answer in done.objects] == ["Hello from mock!"] * 2


def test_an_event_is_printed_when_it_happens(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def write(_console: Console, text: str) -> None:
        written.append(text)

    monkeypatch.setattr("reenact.cli.output.console.Console.write", write)

    run("-p", "Hello", "--output-format", "stream-json", MOCK_SCENARIO="long-stream")

    assert sum("chunk-" in line for line in written) > 100, "each delta is written by itself"


def test_model_and_instructions_are_those_of_the_session_unless_others_are_given(
    run: Run, claude: FakeMessagesAPI
) -> None:
    run("-p", "one", "--model", "claude-a", "--system-prompt", "Be brief")
    run("-p", "two", "--continue", ANTHROPIC_MODEL="claude-b")
    other = run("-p", "three", "--continue", "--model", "claude-c", "--system-prompt", "Be long")
    run("-p", "four", ANTHROPIC_MODEL="claude-b")

    asked = [(request.body["model"], request.system) for request in claude.requests]
    assert asked == [("claude-a", "Be brief"), ("claude-a", "Be brief"), ("claude-c", "Be long"), ("claude-b", None)]
    assert "claude-a" in other.err
    assert "claude-c" in other.err


def test_the_log_is_where_it_is_said_to_be(run: Run, environ: dict[str, str]) -> None:
    named = run("-p", "x", "--db", "named.db")
    by_url = run("-p", "x", "--db", "sqlite:///named.db", "--continue")
    by_variable = run("-p", "x", "--continue", REENACT_DB="named.db")
    in_data = run("-p", "x", XDG_DATA_HOME=f"{environ['HOME']}/data")
    counts = [run("sessions", "--db", name).out for name in ("named.db", f"{environ['HOME']}/data/reenact/reenact.db")]

    assert [done.code for done in (named, by_url, by_variable, in_data)] == [0] * 4
    assert [" 6 messages " in counts[0], " 2 messages " in counts[1]] == [True, True]


def test_who_gives_a_session_its_first_model_is_told_so(run: Run) -> None:
    run("-p", "one")

    done = run("-p", "two", "--continue", "--model", "claude-a")

    assert "created with no model of its own; this run has the model claude-a" in done.err


class InterruptingOutput(io.StringIO):
    """Presses Ctrl+C, as often as it is told to, when the answer begins."""

    times = 1

    def write(self, text: str) -> int:
        if "chunk-" in text and self.times:
            self.times -= 1
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_the_answer_with_130(run: Run, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    out = InterruptingOutput()
    out.times = times
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        done: Outcome = run("-p", "Hello", MOCK_SCENARIO="long-stream")

    assert done.code == 130
    assert "chunk-0 " in out.getvalue()
    assert "chunk-99 " not in out.getvalue()
    (completed,) = logged(run, "turn_completed")
    assert completed["data"]["outcome"] == "interrupted"


def test_ctrl_c_ends_a_list_of_prompts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", InterruptingOutput())
        done = run(stdin=b"one\ntwo\n", MOCK_SCENARIO="long-stream")

    assert done.code == 130
    assert len(run("log", "--type", "message-accepted").out.splitlines()) == 1


def test_no_line_is_read_behind_ctrl_c(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.BytesIO(b"one\ntwo\n")

    def given(_: Console) -> io.BytesIO:
        return lines

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", InterruptingOutput())
        patch.setattr(Console, "input", given)
        done = run(MOCK_SCENARIO="long-stream")

    assert (done.code, lines.read()) == (130, b"two\n")


class NobodyReads(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_bad_arguments_that_nobody_reads_of_are_still_bad(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", NobodyReads())
        done = run("--nonsense", "--output-format", "json")

    assert done.code == 2
