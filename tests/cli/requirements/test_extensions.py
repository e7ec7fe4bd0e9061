"""Requirement 7: extensions, as somebody at a terminal uses them and is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reenact.testing import FakeMessagesAPI
from tests.cli.conftest import Json
from tests.cli.requirements.conftest import At
from tests.cli.requirements.views import NARROW, VIEWS, WIDE, View, ask, colours, shown, squeezed, torn, wait_for_prompt
from tests.cli.tools import MAIL, WEATHER, Office
from tests.extensions.written import Written

everywhere = pytest.mark.parametrize("view", VIEWS, ids=str)
REVIEW = "---\nname: review\ndescription: Reviews code\n---\nLook for mistakes first.\n"


@pytest.fixture
def project(tmp_path: Path) -> Written:
    return Written(tmp_path)


@pytest.fixture
def home(environ: Mapping[str, str]) -> Written:
    return Written(Path(environ["HOME"]))


def asked(api: FakeMessagesAPI, number: int) -> str:
    """Return what was asked of the model in this request."""
    text: str = api.requests[number].body["messages"][-1]["content"][0]["text"]
    return text


@everywhere
def test_requirement_7_1_a_skill_is_loaded_by_the_model_and_the_person_sees_it(
    talk: At, home: Written, claude: FakeMessagesAPI, view: View
) -> None:
    home.skill("review", REVIEW)
    load: Json = {"type": "tool_use", "id": "toolu_1", "name": "skill", "input": {"name": "review"}}
    claude.reply(content=[load], stop_reason="tool_use")
    claude.reply(text="I have found none.")
    terminal = talk(view)

    screen = ask(terminal, "Review this", "none.")

    assert "- review: Reviews code" in (claude.requests[0].system or "")
    (result,) = claude.requests[1].body["messages"][-1]["content"]
    assert "Look for mistakes first." in result["content"]
    assert squeezed('skill(name: "review")') in shown(screen)
    assert shown(screen).endswith("Ihavefoundnone.>")
    assert colours(terminal) == set() or view.in_colours


def test_requirement_7_2_a_command_is_sent_as_what_it_stands_for_and_help_has_it(
    talk: At, home: Written, claude: FakeMessagesAPI
) -> None:
    home.command("fix", "---\ndescription: Fixes an issue\nargument-hint: NUMBER\n---\nFix issue $1: $ARGUMENTS")
    terminal = talk(NARROW)

    ask(terminal, "/help", "Fixes an issue")
    screen = ask(terminal, "/fix 7 soon")

    assert asked(claude, 0) == "Fix issue 7: 7 soon"
    assert squeezed("/fix NUMBER") in shown(screen)


def test_requirement_7_3_a_message_to_an_agent_is_answered_by_it_and_known_to_the_session(
    talk: At, project: Written, claude: FakeMessagesAPI
) -> None:
    project.agent("boss", "---\ndescription: Decides\nmodel: claude-boss\n---\nYou decide.")
    claude.reply(text="You may, certainly.")
    terminal = talk(WIDE)

    ask(terminal, "@boss May I?", "certainly.")
    screen = ask(terminal, "What was said?")

    of_agent, of_session = claude.requests
    assert (of_agent.system, of_agent.body["model"]) == ("You decide.", "claude-boss")
    assert asked(claude, 0) == "May I?"
    told = [message["content"][0].get("text") for message in of_session.body["messages"]]
    assert told == ["@boss May I?", None, None, "You may, certainly.", "What was said?"], "a call, and its result"
    assert shown(screen).count("Youmay,certainly.") == 1, "the answer is shown once, whoever has heard it"


def test_requirement_7_4_a_hook_refuses_a_call_and_the_person_sees_why(talk: At, home: Written, office: Office) -> None:
    home.hook("PreToolUse", "echo not today >&2; exit 2", matcher="get_.*")
    office.model_asks_for(WEATHER)
    terminal = talk(NARROW, *office.tools)

    screen = ask(terminal, "Will it rain?")

    (result,) = office.results
    assert result["is_error"]
    assert "a hook refuses it: not today" in result["content"]
    assert "get_weather" in shown(screen)
    assert "error:" in shown(screen)
    assert colours(terminal) == set()


def test_requirement_7_4_hooks_and_commands_of_a_project_are_asked_about_before_they_run(
    at: At, project: Written, tmp_path: Path, claude: FakeMessagesAPI
) -> None:
    project.hook("UserPromptSubmit", "touch ran")
    project.command("fix", "Fix issue $1")
    ran: list[bool] = []

    for view, answer in ((NARROW, "n"), (WIDE, "y")):
        terminal = at(view)
        terminal.wait_for("[n]o:")
        terminal.send_line(answer)
        wait_for_prompt(terminal)
        ask(terminal, "/fix 7", "API!" if answer == "y" else "nobody has trusted")
        ran.append(Path(tmp_path, "ran").exists())
        assert "touchran" in shown(terminal.screen), "it is seen what would run"
        terminal.dispose()

    assert ran == [False, True]
    assert [asked(claude, number) for number in range(len(claude.requests))] == ["Fix issue 7"]


@everywhere
def test_requirement_7_5_what_cannot_be_loaded_is_named_with_its_line_and_the_chat_goes_on(
    *, talk: At, at: At, home: Written, project: Written, claude: FakeMessagesAPI, view: View
) -> None:
    bad = project.command("bad", "---\ndescription: [\n---\nbody")
    binary = project.skill("binary", b"\x7fELF\xff\x1b[2J")
    home.command("good", "Say hello to $1")

    terminal = talk(view)
    terminal.send_line("/good Ann")
    terminal.wait_for("API!")
    listing = at(view, "extensions")

    assert asked(claude, 0) == "Say hello to Ann"
    assert listing.wait_for_exit().code == 1
    for seen in (shown(terminal.screen), shown(listing.screen)):
        assert squeezed(f"{bad}:2:") in seen
        assert squeezed(str(binary)) in seen
    assert "good" in shown(listing.screen)
    assert colours(listing) == set()


def test_requirement_7_4_a_call_that_a_person_approves_is_still_seen_by_the_hooks(
    talk: At, home: Written, office: Office
) -> None:
    home.hook("PreToolUse", "echo the post is closed >&2; exit 2", matcher="send_mail")
    office.model_asks_for(MAIL)
    terminal = talk(NARROW, *office.tools)

    terminal.send_line("Write to Ann")
    asked_about = terminal.wait_for("Run it?").partition("send_mail may run")[2]
    terminal.wait_for("turn:")
    terminal.send_line("y")
    terminal.wait_for("API!")

    assert torn(asked_about, terminal.screen) == []
    assert office.sent == ""
    assert "the post is closed" in office.results[0]["content"]
