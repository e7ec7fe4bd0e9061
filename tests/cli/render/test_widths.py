"""Lines of the terminal's width of the moment, counted in columns."""

from __future__ import annotations

import io
import os
import pty
import termios
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from reenact.cli.render.flow import Plain, can_be_styled, width_of
from reenact.cli.render.markdown import StreamedMarkdown
from tests.cli.render.kit import console, plain, shown, told, written
from tests.examples import examples

WORDS = st.lists(st.text("abcé日本。e\u0301\U0001f600", min_size=1, max_size=9), min_size=1, max_size=30)


@given(WORDS, st.integers(20, 60))
@settings(max_examples=examples(80), deadline=None)
def test_no_line_is_wider_than_the_terminal_and_none_is_shorter_than_it_need_be(words: list[str], width: int) -> None:
    lines = plain(written("x " + " ".join(words), width)).split("\n")[:-1]

    assert all(cell_len(line) <= width for line in lines)
    for line, after in pairwise(lines):
        first = after.split(" ")[0]
        assert cell_len(line) + 1 + cell_len(first) > width or len(first) > 1


@given(WORDS, st.sampled_from([1, 2, 5, 20, 300]))
@settings(max_examples=examples(40), deadline=None)
@example(["a" * 50], 20)
def test_every_character_is_on_a_terminal_of_any_width(words: list[str], width: int) -> None:
    text = "x " + " ".join(words)

    assert "".join(plain(written(text, width)).split()) == "".join(text.split())


def test_a_word_that_is_wider_than_a_line_is_broken_by_the_terminal() -> None:
    address = "http://example.org/" + "a" * 30

    output = plain(written(f"see {address} and more words", 20))

    assert output == f"see\n{address} and more\nwords\n"


def test_a_word_without_an_end_has_no_line_end_inside() -> None:
    assert written("x" * 100_000, 20) == "x" * 100_000 + "\n"


def test_scripts_without_blanks_are_broken_between_characters_but_not_before_a_full_stop() -> None:
    assert shown("日本語。日本語", 7) == ["日本", "語。日", "本語"]


def test_a_margin_leaves_half_of_the_line_to_the_text() -> None:
    rows = shown("> > > > > > > one two three four", 20)

    assert rows[0].startswith("│ │ │ │ │ │ │ one")
    assert all(row.startswith("│ │ │ │ │ ") and not row.startswith("│ │ │ │ │ │") for row in rows[1:])


class Pty(io.StringIO):
    """What is written, and a terminal that knows its size."""

    def __init__(self, terminal: int) -> None:
        super().__init__()
        self._terminal = terminal

    def fileno(self) -> int:
        return self._terminal

    def isatty(self) -> bool:
        return True

    def resize(self, columns: int) -> None:
        """Give the terminal another width."""
        termios.tcsetwinsize(self._terminal, (24, columns))


@pytest.fixture
def file() -> Iterator[Pty]:
    """Return a terminal of 80 columns."""
    leader, follower = pty.openpty()
    try:
        file = Pty(follower)
        file.resize(80)
        yield file
    finally:
        os.close(leader)
        os.close(follower)


def test_the_size_of_the_terminal_counts_and_not_that_of_the_environment(file: Pty) -> None:
    screen = Console(file=file, force_terminal=True, _environ={"COLUMNS": "200", "TERM": "xterm"})

    file.resize(33)

    assert width_of(screen) == 33
    file.resize(0)
    assert width_of(screen) == 80


def test_what_follows_is_as_wide_as_the_terminal_is_then(file: Pty) -> None:
    # A terminal that becomes narrower breaks what stands there: of 25 columns one is on the third line of 12.
    prose = StreamedMarkdown(Console(file=file, force_terminal=True, color_system=None, _environ={}))

    prose.write("- one two three four five ")
    file.resize(12)
    prose.write("six seven eight ")
    file.resize(80)
    prose.write("nine ten eleven\n")
    prose.end()

    assert file.getvalue() == "• one two three four five six seven\n  eight nine ten eleven\n"


@pytest.mark.parametrize(("variables", "styled"), [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False)])
def test_a_dumb_terminal_cannot_be_styled(file: Pty, variables: dict[str, str], styled: bool) -> None:  # noqa: FBT001
    assert can_be_styled(Console(file=file, _environ=variables)) == styled


def test_what_is_no_terminal_cannot_be_styled_whatever_the_environment_says() -> None:
    assert not can_be_styled(Console(file=io.StringIO(), _environ={"TERM": "xterm", "FORCE_COLOR": "1"}))


@given(st.text("ab \n\t日", max_size=80), st.lists(st.integers(0, 80), max_size=5))
@settings(max_examples=examples(40), deadline=None)
def test_plain_text_is_broken_in_the_same_places_in_whatever_pieces_it_comes(text: str, places: list[int]) -> None:
    cuts = sorted({place % (len(text) + 1) for place in places})

    def written_in(pieces: list[str]) -> str:
        screen = console(10)
        whole = Plain(screen, "dim")
        for piece in pieces:
            whole.write(piece)
        whole.end()
        return plain(told(screen))

    one = written_in([text])

    assert one.split() == text.split() or any("日" in word for word in text.split())
    assert written_in([text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]) == one
    assert "".join(one.split()) == "".join(text.split())


def test_plain_text_is_not_markdown() -> None:
    screen = console(20)
    text = Plain(screen, "dim italic")

    text.write("**a** and so on and `b")
    text.end()

    assert plain(told(screen)) == "**a** and so on and\n`b\n"
