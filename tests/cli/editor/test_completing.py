"""What is offered to somebody who types, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.application import Application
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from reenact.cli.editor.editor import lines_editor, read_question
from reenact.cli.editor.keys import ChoiceCompleter
from reenact.terminal import SpecialKey
from tests.cli.conftest import PROMPT, Chat, ask
from tests.examples import examples

TAB, ENTER, ESCAPE, DOWN, BACKSPACE = "\t", "\r", "\x1b", "\x1b[B", "\x7f"


@dataclass
class Table:
    """What can be typed, as a test says."""

    words: dict[str, str] = field(
        default_factory=lambda: {
            "/help": "say this",
            "/sessions": "list them",
            "/sell [WHAT]": "sell",
            "/resume": "go on",
        }
    )
    people: dict[str, str] = field(default_factory=lambda: {"@critic": "criticises", "@crafter": "crafts"})

    def commands(self) -> Mapping[str, str]:
        return self.words

    def agents(self) -> Mapping[str, str]:
        return self.people

    def arguments(self, word: str) -> Sequence[tuple[str, str]]:
        return [("ses_1", "the first"), ("ses_2", "the second")] if word == "/resume" else []


def offered(before: str, after: str = "", table: Table | None = None) -> list[Completion]:
    """Return what is offered at the cursor."""
    document = Document(before + after, len(before))
    return [*ChoiceCompleter(table or Table()).get_completions(document, CompleteEvent())]


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ("/", ["/help", "/sessions", "/sell", "/resume"]),
        ("/se", ["/sessions", "/sell"]),
        ("/help", ["/help"]),
        ("/nothing", []),
        ("/resume ", ["ses_1", "ses_2"]),
        ("/resume  ses_2", ["ses_2"]),
        ("/sell ", []),
        ("@", ["@critic ", "@crafter ", "crumbs.txt"]),
        ("@cri", ["@critic "]),
        ("@cr", ["@critic ", "@crafter ", "crumbs.txt"]),
        ("see @cru", ["crumbs.txt"]),
        ("see\n@cru", ["crumbs.txt"]),
        ("ada@cru", []),
        ("@crumbs.txt @", ["crumbs.txt"]),
        ("@critic ", []),
        ("", []),
        ("say /", []),
        (" /", []),
        ("Hello @", ["crumbs.txt"]),
        ("a\n/", []),
        ("/etc/", []),
        ("/etc/pa", []),
        ("//", []),
        ("/resume\n", []),
    ],
)
def test_what_goes_on_as_the_text_does_is_offered(
    before: str, texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("crumbs.txt", "with blanks"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)

    assert [completion.text for completion in offered(before)] == texts


@pytest.mark.parametrize(("after", "count"), [("", 2), (" \n", 2), ("lp", 0), (" more", 0)])
def test_nothing_is_offered_in_the_middle_of_a_text(after: str, count: int) -> None:
    assert len(offered("/se", after)) == count


def test_what_is_shown_says_how_a_command_is_typed_and_what_it_does() -> None:
    (completion,) = offered("/sel")

    assert (completion.display_text, completion.display_meta_text) == ("/sell [WHAT]", "sell")


@settings(max_examples=examples(50))
@given(st.text(), st.text())
def test_nothing_that_is_offered_can_drive_a_terminal_or_takes_more_than_a_line(name: str, about: str) -> None:
    for completion in offered("/", table=Table(words={f"/{name}": about})):
        shown = completion.display_text + completion.display_meta_text + completion.text
        assert shown.isprintable()
        assert len(completion.display_text) <= 80 >= len(completion.display_meta_text)


@pytest.fixture
def keyboard() -> Iterator[PipeInput]:
    """Return a keyboard."""
    with create_pipe_input() as keyboard:
        yield keyboard


def said(keyboard: PipeInput, *typed: str) -> str:
    """Type at an editor, whatever is offered being there before the next keys come, and return what is sent."""
    editor = lines_editor(keyboard, DummyOutput(), InMemoryHistory(), {}, Table())
    left = [*typed]

    def go_on(_: object) -> None:
        if left:
            keyboard.send_text(left.pop(0))

    editor.app.after_render += go_on  # something is drawn after all keys, and when what is offered has come
    return read_question(editor)


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        (["/se", ENTER], "/se"),
        (["/h", TAB, ENTER], "/help"),
        (["/s", TAB, ENTER], "/se"),
        (["/s", TAB, TAB, ENTER, ENTER], "/sessions"),
        (["/s", DOWN, ENTER, " x", ENTER], "/sessions x"),
        (["/s", DOWN, DOWN, ENTER, ENTER], "/sell"),
        (["/res", TAB, " ", TAB, "1", ENTER], "/resume ses_1"),
        (["@c", TAB, "i", TAB, "see this", ENTER], "@critic see this"),
        (["/sx", BACKSPACE, DOWN, ENTER, ENTER], "/sessions"),
        (["/etc/passwd", TAB, ENTER], "/etc/passwd"),
        (["Hello", TAB, ENTER], "Hello"),
        (["/s", ESCAPE + ENTER, "more", ENTER], "/s\nmore"),
    ],
)
def test_tab_adds_what_is_common_the_next_one_chooses_and_enter_takes_or_sends(
    keyboard: PipeInput, typed: list[str], sent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert said(keyboard, *typed) == sent


@pytest.mark.parametrize(("typed", "sent"), [("/h\t\r", "/help"), ("/s\t\r", "/se"), ("@cra\tgo\r", "@crafter go")])
def test_keys_that_come_all_at_once_do_the_same(keyboard: PipeInput, typed: str, sent: str) -> None:
    assert said(keyboard, typed) == sent


def test_commands_are_offered_while_typing_and_leave_no_trace(chat: Chat) -> None:
    terminal = chat()

    terminal.write("/")
    terminal.wait_for("list the conversations")
    terminal.get_by_text("/help").in_row(terminal.get_by_text("show this help")).expect_visible()
    terminal.write("sess\t")
    terminal.get_by_text("> /sessions").expect_cursor()
    terminal.get_by_text("show this help").expect_count(0)
    terminal.send_key(SpecialKey.ENTER)
    terminal.wait_for("There are no sessions yet")
    terminal.wait_for(PROMPT)

    assert terminal.get_by_text("There are no sessions yet").row == terminal.get_by_text("> /sessions").row + 1


def test_esc_closes_what_is_offered_and_the_arrows_choose_from_it(chat: Chat) -> None:
    terminal = chat()

    terminal.write("/")
    terminal.wait_for("list the conversations")
    terminal.send_key(SpecialKey.DOWN)
    terminal.get_by_text("> /help").expect_cursor()
    terminal.send_key(SpecialKey.ESCAPE)
    terminal.get_by_text("list the conversations").expect_count(0)
    terminal.get_by_text("> /help").expect_cursor()
    terminal.send_key(SpecialKey.ENTER)

    terminal.wait_for("list the conversations")


def test_what_is_offered_fits_into_twenty_columns_and_scrolls_no_further_than_it_needs(
    chat: Chat, tmp_path: Path
) -> None:
    agents = tmp_path / ".reenact" / "agents"
    agents.mkdir(parents=True)
    for name in ("ann", "bob"):
        (agents / f"{name}.md").write_text(f"---\ndescription: {'knows everything ' * 20}\n---\nBe {name}.\n")
    terminal = chat()
    ask(terminal, "one")
    terminal.resize(20, 12)
    terminal.wait_idle()
    terminal.write("@")
    terminal.get_by_text("@bob").expect_visible()
    above = terminal.get_by_text("> @").row

    assert above >= 12 - 4
    assert all(len(line) <= 20 for line in terminal.screen.text.splitlines())


_ROOMY = 20
"""Rows in which something is offered anyhow."""


class Small(DummyOutput):
    """A terminal of few rows."""

    def __init__(self, rows: int, columns: int = 40) -> None:
        self._size = Size(rows=rows, columns=columns)

    def get_size(self) -> Size:
        return self._size


def drawn(keyboard: PipeInput, output: DummyOutput, *typed: str) -> tuple[str, list[list[str]]]:
    """Type at an editor that draws there; return what is sent, and the rows as they were each time."""
    editor = lines_editor(keyboard, output, InMemoryHistory(), {}, Table())
    left, screens = [*typed], list[list[str]]()

    def look(application: Application[str]) -> None:
        screen = application.renderer.last_rendered_screen
        if screen is not None:
            rows = [screen.data_buffer[row] for row in range(screen.height)]
            screens.append(["".join(row[x].char for x in range(output.get_size().columns)).rstrip() for row in rows])
        if left and (
            output.get_size().rows < _ROOMY or not editor.default_buffer.text or editor.default_buffer.complete_state
        ):
            keyboard.send_text(left.pop(0))

    editor.app.after_render += look
    return read_question(editor), screens


@settings(max_examples=examples(20), deadline=None)
@given(rows=st.integers(1, 12), columns=st.integers(1, 60))
def test_in_the_smallest_terminal_the_text_stays_and_what_is_chosen_is_seen(rows: int, columns: int) -> None:
    with create_pipe_input() as keyboard:
        sent, screens = drawn(keyboard, Small(rows, columns), "/", DOWN, DOWN, ENTER, ENTER)

    assert not any("too small" in "".join(screen) for screen in screens)
    assert columns < 14 or any(sent in screen[0] for screen in screens)


def test_what_is_offered_stands_below_what_it_goes_on_with(keyboard: PipeInput) -> None:
    _, screens = drawn(keyboard, Small(_ROOMY), "/s", "e", ENTER)

    menu = next(screen for screen in screens if len(screen) > 2 and "/sessions" in screen[1])
    assert menu[1].index("/sessions") == len("> ") + 1
