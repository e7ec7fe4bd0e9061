"""Requirement 2: a chat, at terminals of every width, with colours and without."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from reenact.terminal import Screen, SpecialKey
from reenact.testing import FakeMessagesAPI, FakeReply, FakeRequest
from tests.cli.conftest import KEY, Run
from tests.cli.requirements.conftest import At, Paced
from tests.cli.requirements.views import (
    NARROW,
    TINY,
    VIEWS,
    WIDE,
    View,
    ask,
    colours,
    shown,
    squeezed,
    torn,
    wait_for_prompt,
)

everywhere = pytest.mark.parametrize("view", [WIDE, NARROW, TINY], ids=str)
COMMANDS = ("/help", "/sessions", "/resume", "/model", "/cost", "/log", "/branch", "/approve", "/exit")
POEM = (
    "Rain on the window,",
    " a kettle that sings in the",
    " kitchen, and somewhere upstairs",
    " a floorboard complains of the feet",
    " it has carried for seventy years;",
    " nobody listens, the evening goes out",
    " like a lamp that was never quite lit,",
    " and the morning forgets all of it.",
)

MARKDOWN = """\
## By night

Water **slowly**, as `drip` does:

```python
def drip(rate: float):
    return rate / 2
```

- Done.
"""


@everywhere
def test_requirement_2_1_the_welcome_says_who_answers_and_the_prompt_waits_below_it(talk: At, view: View) -> None:
    terminal = talk(view)

    screen = terminal.screen
    said = terminal.get_stripped_output().rpartition(">")[0]
    assert "the mock answers, from its script 'default'; set ANTHROPIC_API_KEY" in " ".join(said.split())
    assert re.search(r"Sessionses_\w{26}", squeezed(said))
    assert torn(said, screen) == []
    assert screen.cursor.row == len(screen.text.splitlines()) - 1, "nothing stands below the prompt"


def test_requirement_2_1_the_welcome_has_its_looks_and_colours_only_where_they_are_wanted(talk: At) -> None:
    wide, narrow = talk(WIDE, "--db", "wide.db"), talk(NARROW, "--db", "narrow.db")

    for terminal in (wide, narrow):
        terminal.get_by_text("Reenact").expect_style(bold=True)
        terminal.get_by_text("Session ses_").expect_style(dim=True)
        terminal.get_by_text(re.compile("^>")).expect_style(bold=True)
    assert colours(narrow) == set()


@everywhere
def test_requirement_2_2_an_answer_is_there_word_for_word_and_the_prompt_waits_below_it(
    talk: At, claude: FakeMessagesAPI, view: View
) -> None:
    poem = "".join(POEM)
    claude.reply(text=f"{poem}\n\nThe word for it is 雨音, and 🌧 is its sign.")
    terminal = talk(view)

    screen = ask(terminal, "A poem, please", "sign.")

    (request,) = claude.requests
    assert request.body["messages"][-1]["content"][0]["text"] == "A poem, please"
    assert shown(screen).count(squeezed(f"{poem}The word for it is 雨音, and 🌧 is its sign.")) == 1
    assert torn(f"{poem} 雨音, 🌧 sign.", screen) == []
    assert shown(screen).endswith("sign.>"), "nothing stands between the answer and the prompt, or below it"


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_requirement_2_2_markdown_is_set_as_text_and_code_is_in_colours_where_there_are_some(
    talk: At, claude: FakeMessagesAPI, view: View
) -> None:
    claude.reply(text=MARKDOWN)
    terminal = talk(view)

    ask(terminal, "How?", "Done.")

    said = terminal.get_stripped_output()
    assert not any(mark in said for mark in ("##", "**", "```", "`"))
    terminal.get_by_text("By night").expect_style(bold=True)
    terminal.get_by_text("slowly").expect_style(bold=True)
    terminal.get_by_text("def drip(rate: float):", exact=True).expect_visible()
    assert (terminal.get_by_text("def").cells[0].style.foreground is not None) == view.in_colours
    assert colours(terminal) == set() or view.in_colours


def test_requirement_2_2_a_sign_of_life_is_there_until_the_answer_is_and_leaves_no_trace(
    talk: At, paced: Paced
) -> None:
    pace, model = paced("At", " last.")
    terminal = talk(NARROW, **model)

    terminal.send_line("Anybody there?")
    terminal.get_by_text("waiting").expect_visible()
    hidden = terminal.screen.cursor
    pace.end()
    terminal.wait_for("last.")
    screen = wait_for_prompt(terminal)

    assert not hidden.visible
    assert shown(screen).endswith(">Anybodythere?Atlast.>")


def test_requirement_2_2_in_a_file_the_answer_is_as_the_model_has_said_it_and_nothing_is_beside_it(
    at: At, claude: FakeMessagesAPI, file: BinaryIO
) -> None:
    claude.reply(text=MARKDOWN)
    terminal = at(WIDE, writes=file.fileno())
    wait_for_prompt(terminal)

    terminal.send_line("How?")
    terminal.wait_until(lambda screen: shown(screen).endswith(">How?>"), what="the next prompt")
    terminal.send_key(SpecialKey.CTRL_D)

    assert terminal.wait_for_exit().code == 0
    file.seek(0)
    assert file.read().decode() == f"{MARKDOWN}\n"
    assert "night" not in terminal.get_stripped_output()


@pytest.mark.parametrize("view", [WIDE, TINY], ids=str)
def test_requirement_2_3_exit_ends_with_0_and_leaves_the_terminal_as_it_was(talk: At, view: View) -> None:
    terminal = talk(view)

    terminal.send_line("/exit")
    status = terminal.wait_for_exit()

    screen = terminal.screen
    assert status.code == 0
    assert screen.cursor.visible
    assert screen.cursor.column == 0, "what comes next begins a line"
    assert not screen.modes.bracketed_paste
    assert not screen.modes.application_cursor


@everywhere
def test_requirement_2_4_help_lists_every_command_and_no_word_is_torn(talk: At, view: View) -> None:
    terminal = talk(view)

    terminal.send_line("/help")
    listed = terminal.wait_for(re.compile(r"Ctrl\+C\s+interrupt")).partition("\n")[2]
    screen = wait_for_prompt(terminal)

    begins = [line.split()[0] for line in listed.splitlines() if line.strip()]
    assert set(COMMANDS) <= set(begins)
    assert torn(listed, screen) == []
    assert colours(terminal) == set() or view.in_colours


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_requirement_2_5_ctrl_c_ends_the_answer_where_it_is_and_the_next_question_is_answered(
    talk: At, paced: Paced, run: Run, view: View
) -> None:
    pace, model = paced(*POEM)
    terminal = talk(view, **model)

    terminal.send_line("A poem, please")
    pace.say(3)
    terminal.wait_for("somewhere")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("Interrupted.")
    wait_for_prompt(terminal)
    pace.end()
    screen = ask(terminal, "Why did you stop?")
    terminal.send_line("/exit")

    assert terminal.wait_for_exit().code == 0
    assert shown(screen).count("upstairsInterrupted.") == 1, "what there is stays, and nothing follows it"
    outcomes = [
        event["data"]["outcome"] for event in run("log", "--type", "turn_completed", "--output-format=json").objects
    ]
    assert outcomes == ["interrupted", "completed"]


def test_requirement_2_5_ctrl_c_clears_the_line_and_a_second_one_leaves(talk: At) -> None:
    terminal = talk(NARROW)

    terminal.write("never meant")
    terminal.wait_for("meant")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("leaves")
    wait_for_prompt(terminal)
    ask(terminal, "One", "mock!")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("leaves")
    wait_for_prompt(terminal)
    terminal.send_key(SpecialKey.CTRL_C)

    assert terminal.wait_for_exit().code == 0
    assert ">One" in shown(terminal.screen)


def test_requirement_2_5_ctrl_c_in_an_answer_and_once_more_leaves(talk: At, paced: Paced) -> None:
    pace, model = paced(*POEM)
    terminal = talk(WIDE, **model)

    terminal.send_line("A poem, please")
    pace.say(3)
    terminal.wait_for("somewhere")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("Interrupted.")
    wait_for_prompt(terminal)
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("To come back: reenact --resume ses_")

    assert terminal.wait_for_exit().code == 0


def test_requirement_2_5_ctrl_c_after_an_interrupted_answer_clears_what_was_typed_and_does_not_leave(
    talk: At, paced: Paced
) -> None:
    pace, model = paced(*POEM)
    terminal = talk(WIDE, **model)

    terminal.send_line("A poem, please")
    pace.say(3)
    terminal.wait_for("somewhere")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("Ctrl+C again, or Ctrl+D, leaves.")
    wait_for_prompt(terminal)
    terminal.write("not this")
    terminal.wait_for("not this")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("Ctrl+C again, or Ctrl+D, leaves.")
    wait_for_prompt(terminal)
    pace.end()
    ask(terminal, "But this")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("leaves")
    wait_for_prompt(terminal)
    terminal.send_key(SpecialKey.CTRL_C)

    assert terminal.wait_for_exit().code == 0


@everywhere
def test_requirement_2_5_esc_interrupts_the_answer_and_does_not_count_for_leaving(
    talk: At, paced: Paced, view: View
) -> None:
    pace, model = paced(*POEM)
    terminal = talk(view, **model)

    terminal.send_line("A poem, please")
    pace.say(3)
    terminal.wait_for("somewhere")
    terminal.send_key(SpecialKey.ESCAPE)
    terminal.wait_for("Interrupted.")
    screen = wait_for_prompt(terminal)
    pace.end()
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("again")
    wait_for_prompt(terminal)
    terminal.send_line("Go on")
    terminal.wait_for("API!")

    assert shown(screen).endswith("upstairsInterrupted.>")


def _has(said: int) -> Callable[[Screen], bool]:
    """Return whether so much of the poem can be seen, but for its last word, which may go on."""
    last = squeezed(POEM[said - 1].rpartition(" ")[0])
    return lambda screen: last in shown(screen)


@everywhere
def test_what_is_typed_while_an_answer_streams_is_seen_and_found_by_the_prompt(
    talk: At, paced: Paced, view: View
) -> None:
    pace, model = paced(*POEM)
    terminal = talk(view, **model)

    terminal.send_line("A poem, please")
    pace.say(3)
    terminal.wait_for("somewhere")
    terminal.write("And fox\x7f\x7f\x7fthen?")
    terminal.wait_until(is_below("> And then?"), what="what is typed, below the answer")
    for said, columns in enumerate((view.columns - 7, view.columns + 7, view.columns), start=4):
        terminal.resize(columns, view.rows)
        pace.say(1)
        terminal.wait_until(_has(said), what="the next words")  # no terminal can change its size within a drawing
    pace.end()
    terminal.wait_for("it.")
    waiting = terminal.wait_until(
        lambda screen: screen.lines[screen.cursor.row] == "> And then?" and screen.cursor.visible, what="the prompt"
    )
    terminal.send_key(SpecialKey.ENTER)
    terminal.wait_for("API!")
    screen = wait_for_prompt(terminal)

    assert shown(waiting).endswith(f"{squeezed(''.join(POEM))}>Andthen?")
    assert shown(screen).count(squeezed("".join(POEM))) == 1
    assert "writing" not in shown(screen)


def test_a_line_below_the_answer_says_how_it_gets_on(talk: At, paced: Paced) -> None:
    pace, model = paced(*POEM)
    terminal = talk(WIDE, **model)

    terminal.send_line("A poem, please")
    pace.say(3)
    terminal.wait_until(
        is_below(re.compile(r"writing \((\d+ s, )?~\d+ tokens, claude-\S+\)$")), what="the status below the answer"
    )
    pace.end()
    terminal.wait_for("it.")
    screen = wait_for_prompt(terminal)

    assert "tokens" not in shown(screen)
    assert screen.cursor.visible


def test_without_a_terminal_that_can_be_drawn_at_there_is_no_such_line(talk: At, paced: Paced) -> None:
    pace, model = paced(*POEM)
    terminal = talk(WIDE, **model, TERM="dumb")

    terminal.send_line("A poem, please")
    pace.say(3)
    terminal.wait_for("somewhere")
    terminal.wait_idle(0.8)
    pace.end()
    terminal.wait_for("it.")

    assert "tokens" not in terminal.get_stripped_output()


def is_below(wanted: str | re.Pattern[str]) -> Callable[[Screen], bool]:
    """Return what tells whether this stands in the row below the cursor, which is hidden."""
    pattern = wanted if isinstance(wanted, re.Pattern) else re.compile(re.escape(wanted))

    def is_there(screen: Screen) -> bool:
        below = screen.lines[screen.cursor.row + 1 :][:1]
        return not screen.cursor.visible and any(map(pattern.search, below))

    return is_there


def recalling(request: FakeRequest) -> FakeReply:
    """Answer with all that was asked so far."""
    asked = [one["content"][0]["text"] for one in request.body["messages"] if one["role"] == "user"]
    return FakeReply(text=f"So far: {', '.join(asked)}.")


def test_requirement_2_6_five_chats_at_once_have_several_turns_each_and_share_nothing(talk: At, tmp_path: Path) -> None:
    names = ("ann", "bob", "eve", "joe", "zoe")
    with FakeMessagesAPI(api_key=KEY, default=recalling) as api:
        model = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url}
        chats = {
            name: talk(view, "--db", f"{name}.db", HOME=str(tmp_path / name), **model)
            for name, view in zip(names, (WIDE, NARROW, TINY, WIDE, NARROW), strict=True)
        }
        for turn in ("first", "second", "third"):
            for name, terminal in chats.items():
                terminal.send_line(f"{name}-{turn}")
            for name, terminal in chats.items():
                terminal.wait_for(f"{name}-{turn}.")
                wait_for_prompt(terminal)

    for name, terminal in chats.items():
        terminal.send_line("/exit")
        assert terminal.wait_for_exit().code == 0
        assert f"{name}-first,{name}-second,{name}-third.>" in shown(terminal.screen)
        assert not any(other in shown(terminal.screen) for other in names if other != name)
        assert (tmp_path / f"{name}.db").is_file()


def test_requirement_2_6_two_chats_in_one_log_are_both_answered(talk: At) -> None:
    first = talk(WIDE, "--db", "log.db")
    second = talk(NARROW, "--db", "log.db")

    for chat in (second, first):
        chat.send_line("Still there?")
        chat.wait_for("mock!")

    assert colours(second) == set()


def test_requirement_2_6_a_terminal_that_is_resized_in_mid_answer_loses_and_doubles_no_word(
    talk: At, paced: Paced
) -> None:
    text = "".join(POEM)
    pace, model = paced(*(text[start : start + 7] for start in range(0, len(text), 7)))
    terminal = talk(WIDE, **model)

    terminal.send_line("A poem, please")
    for columns in (160, 30, 160, 47, 30, 160):
        terminal.resize(columns, 50)
        *_, last, _ = pace.say(6).split()
        terminal.wait_for(last)
    pace.end()
    terminal.wait_for("of it.")
    screen = wait_for_prompt(terminal)
    later = ask(terminal, "And once more?")

    assert shown(screen).count(squeezed(text)) == 1
    assert shown(screen).endswith("allofit.>")
    assert torn(text, screen) == []
    assert shown(later) == f"{shown(screen)}Andoncemore?HellofromthefakeAPI!>"
