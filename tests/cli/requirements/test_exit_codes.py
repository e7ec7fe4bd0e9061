"""Requirement 8: exit codes, as a person at a terminal gets them, and what is said to that person."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.terminal import TerminalEmulator
from reenact.testing import FakeMessagesAPI
from tests.cli.conftest import KEY
from tests.cli.requirements.conftest import At
from tests.cli.requirements.views import NARROW, VIEWS, WIDE, View, ask, colours, shown, squeezed

SABOTAGE = """
from reenact import ask_user
from reenact.cli.chat.conversation import Conversation

def fail(*_, **__):
    raise ZeroDivisionError("exit code 0, success")

Conversation.ask = fail
"""


def ended(terminal: TerminalEmulator) -> tuple[int | None, str]:
    """Return the exit code and what was said, on one line."""
    status = terminal.wait_for_exit()
    return status.code, " ".join(terminal.get_stripped_output().split())


@pytest.mark.parametrize(
    ("view", "arguments", "named"),
    [
        (WIDE, ("--nonsense",), "--nonsense"),
        (NARROW, ("nonsense",), "nonsense"),
        (NARROW, ("-p", "x", "--timeout", "soon"), "--timeout"),
        (WIDE, ("--output-format", "json"), "-p TEXT"),
        (NARROW, ("--db", "."), "cannot be opened"),
    ],
    ids=str,
)
def test_requirement_8_1_bad_arguments_end_with_2_and_are_named(
    at: At, view: View, arguments: tuple[str, ...], named: str
) -> None:
    terminal = at(view, *arguments)

    code, said = ended(terminal)

    assert code == 2
    assert "error" in said
    assert named in said
    assert colours(terminal) == set() or view.in_colours


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_requirement_8_2_a_network_that_fails_ends_with_4(at: At, claude: FakeMessagesAPI, view: View) -> None:
    claude.reply(deltas=["Half of", " it"], drop_after=4)
    claude.error(529, message="401 Unauthorized", should_retry=False)

    broken = ended(at(view, "-p", "Hello"))
    overloaded = ended(at(view, "-p", "Hello"))

    assert (broken[0], overloaded[0]) == (4, 4)
    assert broken[1].startswith("Half of it reenact: error: ")
    assert overloaded[1].startswith("reenact: error: 401 Unauthorized")


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_requirement_8_3_a_key_that_is_refused_ends_with_3_and_is_not_shown(
    at: At, claude: FakeMessagesAPI, view: View
) -> None:
    wrong = f"{KEY}-but-wrong"

    terminal = at(view, "-p", "Hello", ANTHROPIC_API_KEY=wrong)
    code, said = ended(terminal)

    assert code == 3
    assert said.startswith("reenact: error: ")
    assert wrong not in terminal.get_output()


def test_requirement_8_3_in_a_chat_it_is_said_and_the_chat_goes_on(talk: At, claude: FakeMessagesAPI) -> None:
    claude.error(401, message="invalid x-claude-key")
    narrow = talk(NARROW)

    ask(narrow, "Hello", "invalid x-claude-key")
    narrow.send_line("/exit")

    assert narrow.wait_for_exit().code == 0, "the chat itself has not failed"
    assert colours(narrow) == set()


def test_requirement_8_4_time_that_is_over_ends_with_5_where_lines_are_piped_in(
    at: At, claude: FakeMessagesAPI, tmp_path: Path
) -> None:
    claude.reply(stall_after=2)
    claude.error(401)
    Path(tmp_path, "lines").write_text("one\ntwo\nthree\n")

    with Path(tmp_path, "lines").open("rb") as lines:
        terminal = at(WIDE, "--timeout", "1", reads=lines.fileno())
        code, said = ended(terminal)

    assert code == 5, "the first failure counts"
    assert said.endswith("Hello from the fake API!"), "and the others are tried"


def test_requirement_8_5_a_chat_survives_it_and_tells_where_the_log_is(
    talk: At, environ: dict[str, str], tmp_path: Path
) -> None:
    Path(tmp_path, "sabotage.py").write_text(SABOTAGE)
    terminal = talk(NARROW, "--tools", "sabotage.py")

    screen = ask(terminal, "Hello", "ZeroDivisionError: exit code 0, success")
    terminal.send_line("/exit")

    log = Path(environ["HOME"], ".local/state/reenact/errors.log")
    assert terminal.wait_for_exit().code == 0, "the person has left it in peace"
    assert "Traceback" in log.read_text()
    assert squeezed(str(log)) in shown(screen)
    assert colours(terminal) == set()
