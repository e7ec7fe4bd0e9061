"""`vim`: a whole screen, modes, and keys in application mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.terminal import SpecialKey, TerminalEmulator
from tests.terminal.strangers.conftest import Open

PLAIN = ("-u", "NONE", "-N", "-i", "NONE", "-n")
"""Nobody's settings, no traces, no swap file."""


@pytest.fixture
def vim(opened: Open, directory: Path) -> TerminalEmulator:
    (directory / "poem.txt").write_text("Roses are red\nViolets are blue\n")
    vim = opened("vim", *PLAIN, "poem.txt")
    vim.get_by_text("Violets are blue", exact=True).expect_visible()
    vim.expect_cursor(0, 0)
    return vim


def test_what_is_inserted_and_written_is_in_the_file(vim: TerminalEmulator, directory: Path) -> None:
    vim.write("Go")
    vim.get_by_text("-- INSERT --").expect_visible()
    vim.write("Sugar is sweet")
    vim.send_key(SpecialKey.ESCAPE)
    vim.get_by_text("-- INSERT --").expect_hidden()
    vim.send_line(":wq")

    assert vim.wait_for_exit().success
    assert (directory / "poem.txt").read_text() == "Roses are red\nViolets are blue\nSugar is sweet\n"


def test_arrows_move_as_vim_has_asked_for_them(vim: TerminalEmulator) -> None:
    vim.wait_until(lambda screen: screen.modes.application_cursor, what="vim to ask for application keys")

    vim.send_key(SpecialKey.DOWN)
    vim.send_key(SpecialKey.RIGHT)
    vim.expect_cursor(1, 1)
    vim.send_key(SpecialKey.END)

    vim.expect_cursor(1, len("Violets are blue") - 1)


def test_an_option_changes_what_is_shown(vim: TerminalEmulator) -> None:
    vim.send_line(":set number")

    vim.get_by_text("  1 Roses are red").expect_visible()
    assert vim.get_by_text("Violets").column == 4


def test_vim_has_a_screen_of_its_own_and_leaves_it_at_the_end(opened: Open, directory: Path) -> None:
    shell = opened("sh", "-c", f"echo before; vim {' '.join(PLAIN)}; echo after")
    shell.wait_until(lambda screen: screen.modes.alternate_screen, what="vim to take a screen of its own")
    shell.get_by_text("~", exact=True).first.expect_visible()

    shell.send_line(":q!")
    shell.wait_for_exit()

    assert not shell.screen.modes.alternate_screen
    assert [line for line in shell.screen.lines if line] == ["before", "after"]


def test_vim_fills_a_terminal_that_has_grown(vim: TerminalEmulator) -> None:
    vim.resize(100, 40)

    vim.get_by_text("~", exact=True).expect_count(37)
