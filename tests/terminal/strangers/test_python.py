"""The interactive interpreter of Python."""

from __future__ import annotations

import sys

import pytest

from reenact.terminal import SpecialKey, TerminalEmulator
from tests.terminal.strangers.conftest import Open


@pytest.fixture
def python(opened: Open) -> TerminalEmulator:
    python = opened(sys.executable, "-I", "-q", "-i", PYTHON_BASIC_REPL="1")
    python.get_by_text(">>> ").expect_cursor()
    return python


def test_a_block_is_typed_and_run(python: TerminalEmulator) -> None:
    python.send_line("for word in ('one', 'two'):")
    python.get_by_text("... ").expect_visible()  # since 3.15 the cursor stands behind four blanks more
    python.send_line("    print(word.upper())")
    python.get_by_text("... ").expect_count(2)
    python.send_key(SpecialKey.CTRL_U)
    python.send_key(SpecialKey.ENTER)

    assert python.get_by_text("ONE", exact=True).row + 1 == python.get_by_text("TWO", exact=True).row


def test_a_failure_is_shown_and_the_interpreter_goes_on(python: TerminalEmulator) -> None:
    python.send_line("1 / 0")
    python.get_by_text("ZeroDivisionError: division by zero").expect_visible()
    python.get_by_text(">>> ").last.expect_cursor()

    python.send_line("6 * 7")

    python.get_by_text("42", exact=True).expect_visible()


def test_ctrl_c_interrupts_what_it_computes(python: TerminalEmulator) -> None:
    python.send_line("import time; print('go' + 'ing'); time.sleep(1000)")
    python.get_by_text("going", exact=True).expect_visible()

    python.send_key(SpecialKey.CTRL_C)

    python.get_by_text("KeyboardInterrupt", exact=True).expect_visible()
    python.get_by_text(">>> ").last.expect_cursor()


def test_ctrl_d_leaves_and_so_does_exit_with_a_code(python: TerminalEmulator, opened: Open) -> None:
    other = opened(sys.executable, "-I", "-q", "-i", PYTHON_BASIC_REPL="1")
    other.wait_for(">>> ")

    python.send_key(SpecialKey.CTRL_D)
    other.send_line("raise SystemExit(5)")

    assert (python.wait_for_exit().code, other.wait_for_exit().code) == (0, 5)
