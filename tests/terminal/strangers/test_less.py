"""`less`: pages, searches, and a terminal that changes its size."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.terminal import SpecialKey, TerminalEmulator
from tests.terminal.strangers.conftest import Open

ROWS = 11


@pytest.fixture
def less(opened: Open, directory: Path) -> TerminalEmulator:
    (directory / "lines.txt").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    less = opened("less", "lines.txt", cols=40, rows=ROWS, LESS="", LESSHISTFILE="-")
    less.get_by_text("lines.txt").in_row(ROWS - 1).expect_style(inverse=True)
    return less


def top_line(terminal: TerminalEmulator, line: str) -> None:
    terminal.wait_until(lambda screen: screen.lines[0] == line, what=f"{line!r} at the top")


def test_pages_and_lines_are_turned(less: TerminalEmulator) -> None:
    top_line(less, "line 1")

    less.send_key(SpecialKey.SPACE)
    top_line(less, "line 11")
    less.send_key(SpecialKey.DOWN)
    top_line(less, "line 12")
    less.send_key(SpecialKey.UP)
    top_line(less, "line 11")
    less.write("G")
    less.get_by_text("(END)").expect_visible()

    assert less.screen.lines[ROWS - 2] == "line 100"


def test_what_is_searched_for_is_marked(less: TerminalEmulator) -> None:
    less.send_line("/line 42")

    top_line(less, "line 42")
    less.get_by_text("line 42").in_row(0).expect_style(inverse=True)
    assert not less.get_by_text("line 43").style.inverse


def test_a_larger_terminal_shows_more(less: TerminalEmulator) -> None:
    less.wait_idle()  # it overlooks a new size between drawing and reading
    less.resize(40, 21)

    less.get_by_text("line 20").expect_visible()
    assert less.screen.lines[0] == "line 1"


def test_q_leaves_and_gives_the_screen_back(less: TerminalEmulator) -> None:
    less.write("q")

    assert less.wait_for_exit().success
    assert not less.screen.modes.alternate_screen
    assert not less.get_by_text("line 1").is_visible()
