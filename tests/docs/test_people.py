"""What the page about people shows of the command line is what happens."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest

from reenact.testing import FakeMessagesAPI
from tests.docs.pages import ROOT, blocks
from tests.docs.test_readme import SECONDS, surroundings
from tests.started.programs import Programs

PAGE = list(blocks(ROOT / "docs" / "people.md"))
COMMANDS = [line for block in PAGE if block.language == "sh" for line in block.text.splitlines()]
REJECTED, APPROVED, AS_JSON = COMMANDS
KEY = "sk-ant-this-is-a-secret"
MAIL = {"to": "ada@example.org", "body": "Dear Ada,\nsee you tomorrow."}


@pytest.fixture
def ran(tmp_path: Path, programs: Programs, request: pytest.FixtureRequest) -> subprocess.CompletedProcess[str]:
    """Run the command line of the page, with the tools of the page, and a model that wants to send a mail."""
    (tools,) = (block.text for block in PAGE if block.text.startswith("# tools.py"))
    (tmp_path / "tools.py").write_text(tools, encoding="utf-8")
    command, *arguments = shlex.split(str(request.param))
    assert command == "reenact"
    with FakeMessagesAPI(api_key=KEY) as api:
        api.reply(tools=[("send_mail", MAIL)], stop_reason="tool_use")
        claude = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url}
        return programs.command(arguments, {**surroundings(tmp_path), **claude}, tmp_path, SECONDS)


@pytest.mark.parametrize("ran", [REJECTED], indirect=True)
def test_a_script_is_told_what_was_rejected(ran: subprocess.CompletedProcess[str]) -> None:
    warning = PAGE[-1].text

    assert (ran.returncode, ran.stderr) == (0, warning)


@pytest.mark.parametrize("ran", [APPROVED], indirect=True)
def test_a_script_may_allow_a_tool(ran: subprocess.CompletedProcess[str]) -> None:
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("ran", [AS_JSON], indirect=True)
def test_a_script_reads_what_became_of_the_calls(ran: subprocess.CompletedProcess[str]) -> None:
    (call,) = msgspec.json.decode(ran.stdout)["tool_calls"]

    assert {field: call[field] for field in call if field != "id"} == {
        "name": "send_mail",
        "input": MAIL,
        "result": "sent to ada@example.org",
        "is_error": False,
    }
