"""What may be asked for on the command line: options, their bad values, and what is not known."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
import typer
from anthropic.types import ModelParam
from typer.core import TyperGroup, TyperOption

from reenact.cli.app import app
from reenact.cli.parsing.commands import options_of
from reenact.cli.parsing.help_page import spellings
from reenact.cli.settings.configuration import KNOWN_PRICES
from reenact.testing import FakeMessagesAPI
from tests.cli.conftest import Outcome, Run, accepted
from tests.cli.tools import BOB, MAIL, Office

ROOT: TyperGroup = typer.main.get_group(app)
FREE = {"--db", "--debug", "--help"}
OF_CONVERSATIONS = [(name, option) for name, option in options_of(ROOT).items() if name not in FREE]


def refused(done: Outcome, *words: str) -> None:
    assert (done.code, done.out) == (2, "")
    assert [word for word in words if word not in done.err] == []
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "allowed",
    [
        ["--allowed-tools", "send_mail"],
        ["--allowed-tools", "get_weather,send_mail"],
        ["--allowed-tools", " get_weather  send_mail "],
        ["--allowed-tools", "get_weather", "--allowed-tools", "send_*"],
        ["--allow-tool", "send_mail"],
        ["--allowed-tools", "*"],
    ],
    ids=" ".join,
)
def test_the_tools_that_are_named_may_run_where_no_person_is(run: Run, office: Office, allowed: list[str]) -> None:
    office.model_asks_for(MAIL, BOB)

    done = run("-p", "Write", *office.tools, *allowed)

    assert (done.code, office.sent.count("\n")) == (0, 2)
    assert "warning" not in done.err


def test_a_name_that_no_tool_has_is_told_of_with_the_nearest(run: Run, office: Office) -> None:
    done = run("-p", "Hello", *office.tools, "--allowed-tools", "send_male, *_weather, zzz")

    assert done.code == 0
    assert "--allowed-tools send_male: the session has no such tool; is send_mail meant?" in done.err
    assert "--allowed-tools zzz: the session has no such tool; its tools are: " in done.err
    assert "_weather:" not in done.err


def test_a_name_is_told_of_in_a_session_that_goes_on_too(run: Run, office: Office) -> None:
    run("-p", "Hello", *office.tools)

    done = run("-p", "Again", "--continue", *office.tools, "--allowed-tools", "sned_mail,mcp__x__y")

    assert "sned_mail: the session has no such tool; is send_mail meant?" in done.err
    assert "mcp__x__y" not in done.err, "what servers have is not known yet"


def test_where_there_is_no_server_none_of_their_tools_is_known(run: Run) -> None:
    done = run("-p", "Hello", "--allowed-tools", "mcp__files__*")

    assert '--allowed-tools "mcp__files__*"' in done.err.replace("'", '"')
    assert "its tools are: none" in done.err


@pytest.mark.parametrize("names", ["", " ", ",", " , "])
def test_who_allows_tools_names_some(run: Run, names: str) -> None:
    refused(run("-p", "Hello", "--allowed-tools", names), "--allowed-tools names tools")


@pytest.mark.parametrize("option", ["--max-turns", "--max-steps"])
def test_the_model_is_asked_no_more_often_than_is_allowed(run: Run, office: Office, option: str) -> None:
    for count in range(4):
        office.model_asks_for(("read_lines", {"count": count}))

    done = run("-p", "Go", *office.tools, option, "2")

    assert (done.code, len(office.api.requests)) == (0, 2)
    assert "(--max-turns)" in done.err


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "nan", "1e400", "ten", "", "1_0", "9" * 30, "٣"])
def test_a_number_of_turns_is_a_number_from_1_on(run: Run, value: str) -> None:
    refused(run("-p", "Hello", f"--max-turns={value}"), "--max-turns must be a whole number from 1 on", f"not {value}")


@pytest.mark.parametrize("value", ["-1", "nan", "1e400", "ten", "", "inf"])
def test_a_cost_is_an_amount(run: Run, value: str) -> None:
    refused(
        run("-p", "Hello", f"--max-cost={value}", "--price", "m=1,2"), "--max-cost must be an amount", f"not {value}"
    )


@pytest.mark.parametrize("value", ["0", "-1", "nan", "1e400", "1000001", "soon", ""])
def test_a_timeout_is_seconds(run: Run, value: str) -> None:
    refused(run("-p", "Hello", f"--timeout={value}"), "--timeout must be a number of seconds above 0", f"not {value}")


@pytest.mark.parametrize("value", ["99.", "+99", "0_99", "099", " 99 ", "9.9e1"])
def test_amounts_and_seconds_are_written_as_python_writes_them(start: Run, value: str) -> None:
    limits = (f"--timeout={value}", f"--max-cost={value}", "--price", "m=1,2", "--model", "m")

    assert start("-p", "Hello", *limits).out == "Hello from mock!\n"


def test_a_fraction_needs_no_zero_before_it(start: Run) -> None:
    assert start("-p", "Hello", "--max-cost", ".5", "--price", "m=1,2", "--model", "m").out == "Hello from mock!\n"


def test_the_longest_timeout_is_one_that_the_system_takes(start: Run) -> None:
    assert start("-p", "Hello", "--timeout", "1000000").out == "Hello from mock!\n"


def test_costs_are_known_of_models_that_are_well_known_unless_options_say_otherwise(
    run: Run, claude: FakeMessagesAPI
) -> None:
    asked = ("-p", "Hello", "--output-format", "json", "--max-cost", "1")
    by_table = run(*asked, "--model", "claude-opus-5")
    dated = run(*asked, "--model", "claude-haiku-4-5-20251001")
    by_option = run(*asked, "--model", "claude-opus-5", "--price", "claude-opus-5=100,1000")

    used = by_table.result["usage"]
    given, written = used["input_tokens"], used["output_tokens"]
    costs = [done.result["cost"] for done in (by_table, dated, by_option)]
    assert costs == pytest.approx(
        [(given * into + written * out) / 1e6 for into, out in ((5, 25), (1, 5), (100, 1000))]
    )


def test_every_price_that_is_known_is_of_a_model_that_the_sdk_names() -> None:
    literal, _ = get_args(ModelParam)

    assert set(KNOWN_PRICES) <= set(get_args(literal))
    assert all(0 < price.input < price.output for price in KNOWN_PRICES.values())


@pytest.mark.parametrize(
    ("data", "sent"),
    [
        (b"", "Explain"),
        (b" \n", "Explain"),
        (b"a,b\n1,2\n", "Explain\n\na,b\n1,2\n"),
        ("Grüße 🎭".encode(), "Explain\n\nGrüße 🎭"),
    ],
)
def test_a_prompt_and_what_is_piped_both_go_to_the_model(
    run: Run, claude: FakeMessagesAPI, data: bytes, sent: str
) -> None:
    assert run("-p", "Explain", stdin=data).code == 0

    assert claude.requests[0].body["messages"][-1]["content"][0]["text"] == sent


@pytest.mark.parametrize("data", [b"a\0b", b"\xff\xfe"])
def test_what_is_piped_beside_a_prompt_is_text(run: Run, data: bytes) -> None:
    refused(run("-p", "Explain", stdin=data), "standard input")


def test_a_pipe_that_gives_nothing_is_not_waited_for(
    command: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    with subprocess.Popen(
        [*command, "-p", "Hello"],
        env=environ,
        cwd=tmp_path,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        code = process.wait(60)  # while its standard input is open
        out, err = process.communicate()

    assert (code, out) == (0, "Hello from mock!\n")
    assert "standard input sent nothing for 3 s" in err


@pytest.mark.parametrize("arguments", [("--resume",), ("-r", "--model", "x"), ("--resume", "")])
def test_a_list_to_choose_from_is_for_a_chat(run: Run, arguments: tuple[str, ...]) -> None:
    refused(run(*arguments, "--db", "log.db", stdin=b"Hello\n"), "--resume needs the ID of a session")


@pytest.mark.parametrize(("name", "option"), OF_CONVERSATIONS, ids=[name for name, _ in OF_CONVERSATIONS])
def test_an_option_before_a_command_that_would_not_heed_it_is_refused(run: Run, name: str, option: TyperOption) -> None:
    value = [] if option.is_flag else ["json" if name == "--output-format" else "1"]

    done = run(name, *value, "sessions")

    assert done.code == 2
    assert f"error: {max(spellings(option), key=len)} " in done.err
    assert "sessions" in done.err


def test_the_log_may_be_named_before_a_command_or_behind_it(run: Run) -> None:
    run("-p", "Hello", "--db", "x.db")

    before, behind = run("--db", "x.db", "sessions"), run("--debug", "sessions", "--db", "x.db")

    assert before.code == behind.code == 0
    assert before.out == behind.out != ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--modle", "x"], ["no option --modle", "Did you mean --model?"]),
        (["--mod", "x"], ["no option --mod.", "Did you mean --model?"]),
        (["--outputformat", "json"], ["Did you mean --output-format?"]),
        (["-model", "x"], ["no option -model", "Did you mean --model?"]),
        (["--zzzzzz"], ["no option --zzzzzz"]),
        (["--last", "3", "log"], ["reenact log --last"]),
        (["log", "--lst", "3"], ["`reenact log` has no option --lst", "Did you mean --last?", "reenact log --help"]),
        (["log", "--model", "x"], ["--model is for a conversation"]),
        (["log", "--reverse", "--follow"], ["give one of them", "reenact log --help"]),
        (["replay", "--max-turns", "0"], ["a whole number from 1 on", "reenact replay --help"]),
        (["sesions"], ["no command 'sesions'", "Did you mean sessions?"]),
        (["extensions", "trsut"], ["no command 'trsut'", "Did you mean trust?"]),
        (["help", "lgo"], ["no command 'lgo'", "Did you mean log?", "reenact --help"]),
        (["help", "extensions", "trsut"], ["Did you mean trust?", "reenact extensions --help"]),
        (["why", "3"], ["no command 'why'", "`reenact log --why POSITION`"]),
        (["approve", "c1"], ["no command 'approve'", "decided in the chat"]),
        (["log", "--why", "x"], ["--why", "it must be a whole number"]),
        (["log", "--last", "-1"], ["--last", "it must be at least 0"]),
        (["help", "log", "x"], ["`reenact log` has no commands of its own"]),
        (["hello", "world"], ["no command 'hello'", 'quote all of that: reenact -p "hello"']),
        (["-p", "x", "file"], ["no command 'file'", 'quote all of that: reenact -p "x file"']),
        (["-p", "x", "log"], ["is for a conversation", "`log`"]),
        (["-p", "x", "--version", "log"], ["is for a conversation"]),
        (["log", "x"], ["unexpected extra argument"]),
        (["-p"], ["requires an argument"]),
        (["export", "file", "--html"], ["requires an argument", "reenact export --help"]),
        (["log", "--follow=x"], ["does not take a value", "reenact log --help"]),
        (["--output-format", "xml", "-p", "x"], ["--output-format", "xml"]),
    ],
    ids=" ".join,
)
def test_what_is_not_known_is_named_and_so_is_what_was_meant(
    run: Run, arguments: list[str], words: Sequence[str]
) -> None:
    refused(run(*arguments), *words)


def test_an_unknown_word_cannot_drive_the_terminal(run: Run) -> None:
    done = run("\x1b[2J\u202e")

    refused(done, "there is no command")
    assert not set(done.err) & set("\x1b\u202e")


def test_a_prompt_may_be_long_and_come_from_standard_input(run: Run) -> None:
    question = "How long? " * 100_000

    done = run("-p", "-", "--output-format", "json", stdin=question.encode())
    ((_, asked),) = accepted(run)

    assert done.result["success"]
    assert asked == question


@pytest.mark.parametrize("content", [b"a\0b", b"\xff\xfe", b"", b" \n\t ", "\ud800".encode("utf-8", "surrogatepass")])
def test_what_is_no_text_is_no_prompt(run: Run, content: bytes) -> None:
    refused(run("-p", "-", stdin=content))
    if content.strip():
        refused(run(stdin=content + b"\n"))


@pytest.mark.parametrize("option", ["-p", "--print"])
@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_a_blank_prompt_is_refused(run: Run, option: str, text: str) -> None:
    refused(run(option, text), "the message is empty")


def test_the_long_form_of_p_answers_too(run: Run) -> None:
    assert run("--print", "Hello").out == run("-p", "Hello").out == "Hello from mock!\n"


def test_a_failure_that_settings_want_as_json_is_json(run: Run, environ: dict[str, str]) -> None:
    folder = Path(environ["HOME"], ".reenact")
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"outputFormat": "json"}))

    assert run("-p", "Hello").result["success"]
    assert run("-p", "Hello", "--continue", "--resume", "x").out == "", "what the command line says is read first"
    assert run("-p", "Hello", "--resume", "x").result["error"]["type"] == "session_not_found"
    assert run("-p", "Hello", "--output-format", "text").out == "Hello from mock!\n"


def test_a_value_that_looks_like_an_option_may_be_meant(run: Run) -> None:
    assert run("--print=--continue").code == 0
    assert run("-p", "--no-option-of-ours").code == 0
