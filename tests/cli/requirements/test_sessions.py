"""Requirement 6: sessions, left at one terminal and found again at another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reenact.terminal import SpecialKey, TerminalEmulator
from reenact.testing import FakeMessagesAPI
from tests.cli.requirements.conftest import At, Paced
from tests.cli.requirements.views import NARROW, VIEWS, WIDE, View, ask, colours, shown


def leave(terminal: TerminalEmulator) -> str:
    """Leave with Ctrl+D, and return the session that the welcome has named."""
    terminal.send_key(SpecialKey.CTRL_D)
    assert terminal.wait_for_exit().code == 0
    named = re.search(r"Session (ses_\w{26})", terminal.get_stripped_output())
    assert named is not None
    return named[1]


def said(api: FakeMessagesAPI) -> list[str]:
    """Return all that the model was sent last, from the beginning of the conversation."""
    return [message["content"][0]["text"] for message in api.requests[-1].body["messages"]]


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_requirement_6_1_a_session_is_kept_when_its_chat_is_left(
    talk: At, at: At, environ: dict[str, str], view: View
) -> None:
    terminal = talk(view)
    ask(terminal, "Remember me", "mock!")
    session = leave(terminal)

    listing = at(view, "sessions")
    status = listing.wait_for_exit()

    assert status.code == 0
    assert Path(environ["HOME"], ".local/share/reenact/reenact.db").is_file()
    (line,) = listing.get_stripped_output().splitlines()
    assert line.startswith(session)
    assert line.endswith("2 messages  Remember me")
    assert colours(listing) == set()


def test_requirement_6_1_a_chat_in_which_nothing_is_asked_leaves_no_session(talk: At, at: At) -> None:
    leave(talk(NARROW))

    listing = at(NARROW, "sessions")

    assert listing.wait_for_exit().code == 0
    assert "ses_" not in listing.get_stripped_output()


def test_requirement_6_2_continuing_goes_on_with_the_newest_session(talk: At, claude: FakeMessagesAPI) -> None:
    older = talk(WIDE)
    ask(older, "An older one")
    leave(older)
    newer = talk(NARROW)
    ask(newer, "A newer one")
    session = leave(newer)

    again = talk(NARROW, "--continue")
    welcome = " ".join(again.get_stripped_output().split())
    ask(again, "And now?")

    assert f"Session {session}, 2 messages so far" in welcome
    assert said(claude) == ["A newer one", "Hello from the fake API!", "And now?"]


def test_requirement_6_3_resuming_goes_on_with_the_session_whose_id_was_read_from_the_screen(
    talk: At, at: At, claude: FakeMessagesAPI
) -> None:
    older = talk(NARROW)
    named = older.get_by_text(re.compile(r"ses_\w{26}")).text
    ask(older, "An older one")
    leave(older)
    newer = talk(WIDE)
    ask(newer, "A newer one")
    leave(newer)

    again = talk(WIDE, "--resume", named)
    ask(again, "And now?")
    leave(again)
    by_prompt = at(NARROW, "-p", "And then?", "-r", named)

    assert by_prompt.wait_for_exit().code == 0
    answer = "Hello from the fake API!"
    assert said(claude) == ["An older one", answer, "And now?", answer, "And then?"]


def test_requirement_6_4_what_was_said_is_there_after_a_chat_was_killed_in_mid_answer(
    talk: At, paced: Paced, claude: FakeMessagesAPI
) -> None:
    first = talk(WIDE)
    ask(first, "My name is Ada")
    session = leave(first)
    pace, model = paced("As far as", " I know")
    killed = talk(WIDE, "--continue", **model)
    killed.send_line("Who am I?")
    pace.say()
    killed.wait_for("As far")
    killed.kill("SIGKILL")
    killed.wait_for_exit()

    again = talk(NARROW, "--continue")
    ask(again, "Once more: who am I?")

    assert session in shown(again.screen)
    assert said(claude)[:3] == ["My name is Ada", "Hello from the fake API!", "Who am I?"]
    assert said(claude)[-1].endswith("Once more: who am I?")


@pytest.mark.parametrize(
    ("view", "arguments"), [(WIDE, ("--resume", "ses_that_is_not")), (NARROW, ("--continue",))], ids=str
)
def test_requirement_6_5_a_session_that_is_not_there_is_an_error_before_anything_can_be_typed(
    at: At, claude: FakeMessagesAPI, view: View, arguments: tuple[str, ...]
) -> None:
    in_chat = at(view, *arguments)
    by_prompt = at(view, *arguments, "-p", "Hello", "--db", "other.db")

    for terminal in (in_chat, by_prompt):
        assert terminal.wait_for_exit().code == 2
        assert terminal.get_stripped_output().startswith("reenact: error: ")
        assert "session" in terminal.get_stripped_output()
        assert ">" not in terminal.get_stripped_output()
        assert colours(terminal) == set()
    assert claude.requests == []
