"""Agents with tools where no person is: what runs, what is rejected, what a program reads of it."""

from __future__ import annotations

import json

import pytest

from reenact.terminal import SpecialKey
from tests.cli.conftest import PROMPT, Chat, Run, leave, logged
from tests.cli.tools import BOB, MAIL, WEATHER, Office

WHY = "no person is there to approve it; run with --allowed-tools send_mail"


def test_a_call_that_a_person_would_have_to_approve_is_rejected_and_the_model_answers(run: Run, office: Office) -> None:
    office.model_asks_for(MAIL)

    done = run("-p", "Write to Ann", *office.tools)

    assert (done.code, done.out, office.sent) == (0, "Hello from the fake API!\n", "")
    assert WHY in done.err
    (result,) = office.results
    assert result["is_error"]
    assert WHY in result["content"]


@pytest.mark.parametrize("pattern", ["send", "mail", "get_*", "SEND_MAIL"])
def test_an_option_allows_exactly_what_it_names(run: Run, office: Office, pattern: str) -> None:
    office.model_asks_for(MAIL)

    run("-p", "Write to Ann", *office.tools, "--allowed-tools", pattern)

    assert office.sent == ""


def test_what_a_policy_denies_no_option_allows(run: Run, office: Office) -> None:
    (office.directory / "policy.json").write_text('{"deny": ["send_mail"]}')
    office.model_asks_for(MAIL)

    done = run("-p", "Write", *office.tools, "--policy", "policy.json", "--allowed-tools", "*")

    assert (done.code, office.sent) == (0, "")
    assert office.results[0]["is_error"]


def test_of_several_calls_each_is_decided_by_itself(run: Run, office: Office) -> None:
    office.model_asks_for(MAIL, WEATHER, ("ask_user", {"prompt": "Which?"}))

    done = run("-p", "Go", *office.tools, "--allowed-tools", "send_mail", "--output-format", "json")

    assert office.sent == "ann@example.org: Hello\n"
    assert [(call["name"], call["is_error"]) for call in done.result["tool_calls"]] == [
        ("send_mail", False),
        ("get_weather", False),
        ("ask_user", True),
    ]


@pytest.mark.parametrize("options", [None, ["red", "green"]])
def test_a_question_to_a_person_is_rejected(run: Run, office: Office, options: list[str] | None) -> None:
    office.model_asks_person("Which?", options)

    done = run("-p", "Paint", *office.tools, "--allowed-tools", "*")

    assert done.code == 0
    assert "no person is there to answer it" in done.err
    assert "no person is there to answer it" in office.results[0]["content"]


def test_the_object_has_every_call_with_its_result(run: Run, office: Office) -> None:
    office.model_asks_for(WEATHER, text="Let me see.")
    office.model_asks_for(("fail", {}))
    office.model_asks_for(MAIL)

    done = run("-p", "Go", *office.tools, "--output-format", "json")

    weather, failed, mail = done.result["tool_calls"]
    assert weather == {
        "id": weather["id"],
        "name": "get_weather",
        "input": {"city": "Rome"},
        "result": {"city": "Rome", "sky": "clear"},
        "is_error": False,
    }
    assert (failed["result"], failed["is_error"]) == ("FileNotFoundError: no such file", True)
    assert WHY in mail["result"]
    assert len({weather["id"], failed["id"], mail["id"]}) == 3
    assert done.result["success"] is True
    assert done.result["stop_reason"] == "end_turn"
    assert done.result["result"] == "Let me see.\n\nHello from the fake API!"
    assert done.result["usage"] == {"input_tokens": 40, "output_tokens": 20}


def test_what_is_printed_as_it_comes_is_what_the_object_holds(run: Run, office: Office) -> None:
    office.model_asks_for(WEATHER, text="Let me see.")
    office.model_asks_for(MAIL, text="And write.")

    done = run("-p", "Go", *office.tools)

    assert done.out == "Let me see.\n\nAnd write.\n\nHello from the fake API!\n"


def test_a_json_stream_has_what_happens_to_calls(run: Run, office: Office) -> None:
    office.model_asks_for(MAIL, WEATHER)

    done = run("-p", "Go", *office.tools, "--allowed-tools", "send_mail", "--output-format", "stream-json")

    *events, result = done.objects
    assert [event["cursor"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["type"] for event in events]
    for kind in ("human_approve_required", "tool_approved", "tool_started", "tool_result", "tool_result_message"):
        assert kind in kinds
    assert [event["data"]["outcome"] for event in events if event["type"] == "turn_completed"] == [
        "waiting",
        "completed",
    ]
    assert [call["is_error"] for call in result["tool_calls"]] == [False, False]


def test_each_line_of_the_input_is_treated_likewise(run: Run, office: Office) -> None:
    office.model_asks_for(MAIL)
    office.api.reply("No.")
    office.model_asks_for(BOB)

    done = run(*office.tools, stdin=b"Write to Ann\nWrite to Bob\n")

    assert (done.code, done.out, office.sent) == (0, "No.\nHello from the fake API!\n", "")
    assert done.err.count(WHY) == 2


@pytest.mark.parametrize("is_prompt", [True, False])
def test_what_comes_by_a_pipe_attaches_no_file_and_runs_no_command(
    run: Run, office: Office, *, is_prompt: bool
) -> None:
    text = "Sum up @policy.json and !touch done"
    (office.directory / "policy.json").write_text('{"deny": ["send_mail"]}')

    done = run(*(("-p", "-") if is_prompt else ()), stdin=f"!touch done\n{text}\n".encode())

    assert done.code == 0
    (block,) = office.api.requests[-1].body["messages"][-1]["content"]
    assert block["text"].strip().endswith(text)
    assert "send_mail" not in str([request.body for request in office.api.requests])
    assert not (office.directory / "done").exists()


def left_waiting(chat: Chat, office: Office) -> None:
    office.model_asks_for(MAIL)
    terminal = chat(*office.tools)
    terminal.send_line("Write to Ann")
    terminal.wait_for("Run it?")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for(PROMPT)
    leave(terminal)


def test_what_a_person_has_left_waiting_is_not_decided_in_passing(chat: Chat, run: Run, office: Office) -> None:
    left_waiting(chat, office)

    done = run("--continue", "-p", "And?", *office.tools, "--allowed-tools", "*", "--output-format", "json")

    assert (done.code, done.result["error"]["type"]) == (2, "waiting_for_human_input")
    assert done.result["error"]["message"].startswith("a call waits for a person in session ses_")
    assert office.sent == ""
    assert "(waits for you)" in run("sessions").out
    (session,) = run("sessions", "--output-format", "json").objects
    assert session["waiting"] == 1


def test_a_script_can_see_and_decide_what_was_left_waiting(chat: Chat, run: Run, office: Office) -> None:
    left_waiting(chat, office)

    done = run("--continue", *office.tools, stdin=b"/pending\n/sessions\n/approve\nThanks\n")

    assert (done.code, done.out) == (0, "Hello from the fake API!\n" * 2)
    assert 'toolu_fake_1  send_mail(to: "ann@example.org", body: "Hello")' in done.err
    assert "(waits for you)" in done.err
    assert office.sent == "ann@example.org: Hello\n"


def test_a_tool_whose_function_is_not_handed_in_again_is_told_of(run: Run, office: Office) -> None:
    run("-p", "Hello", *office.tools)
    office.model_asks_for(WEATHER)

    done = run("-p", "Weather?", "--continue")

    assert done.code == 0
    assert "get_weather" in done.err
    assert "--tools" in done.err
    assert office.results[0]["is_error"]


@pytest.mark.parametrize(
    ("option", "value"), [("--policy", "p.json"), ("--mcp-config", "m.json"), ("--max-turns", "3"), ("--max-cost", "1")]
)
def test_what_a_session_was_created_with_is_not_changed_later(run: Run, option: str, value: str) -> None:
    run("-p", "Hello")

    done = run("-p", "Hello", "--continue", option, value)

    assert done.code == 2
    assert f"{option} is for a new session" in done.err


def test_a_session_stops_when_it_has_cost_too_much(run: Run, office: Office) -> None:
    for count in range(5):
        office.model_asks_for(("read_lines", {"count": count}))
    prices = ("--model", "claude-x", "--price", "claude-x=100000,100000")  # 15 tokens cost 1.5

    done = run("-p", "Go", *office.tools, *prices, "--max-cost", "2", "--output-format", "json")

    assert (done.code, done.result["stop_reason"], len(office.api.requests)) == (0, "cost_limit_exceeded", 2)
    assert done.result["cost"] == pytest.approx(3.0)
    assert "--max-cost" in done.err


@pytest.mark.parametrize("price", ["m", "m=1", "=1,2", "m=1,-2", "m=1,inf"])
def test_a_price_that_makes_no_sense_is_refused(run: Run, price: str) -> None:
    done = run("-p", "Hello", "--price", price)

    assert done.code == 2
    assert f"--price {price}: say MODEL=IN,OUT" in done.err


def test_the_log_shows_what_happened_to_calls(run: Run, office: Office) -> None:
    office.model_asks_for(("send_mail", {"to": "ann\u202e\u200b"}))
    run("-p", "Go", *office.tools)

    shown = run("log").out
    lines = {line.split()[4]: line for line in shown.splitlines()}

    assert '"name":"send_mail","arguments":{"to":"ann\\u202e\\u200b"}' in lines["human-approve-required"]
    assert WHY in lines["tool-rejected"]
    assert '"is_error":true' in lines["tool-result"]
    assert "timestamp" not in lines["tool-result"]
    assert not set(shown) & set("\u202e\u200b")
    (result,) = logged(run, "tool-result")
    assert json.dumps(result["data"]["result"])


def test_a_number_that_no_log_can_hold_ends_no_turn(office: Office, run: Run) -> None:
    deep = {"count": [2**70, {"a": -(10**30)}, 10**400, 2**64 - 1]}
    office.model_asks_for(("read_lines", {"count": 10**30}), ("read_lines", deep))

    done = run("-p", "Go", *office.tools, "--output-format", "json")

    assert (done.code, done.result["success"]) == (0, True)
    first, second = done.result["tool_calls"]
    assert (first["input"], first["is_error"]) == ({"count": str(10**30)}, True)
    assert second["input"]["count"] == [2.0**70, {"a": str(-(10**30))}, str(10**400), 2**64 - 1]
    assert office.results[0]["is_error"], "the model reads why, and may send a text"
    assert run("verify").code == 0
