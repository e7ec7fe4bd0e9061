"""`top`: a screen that is drawn again and again."""

from __future__ import annotations

import re
import sys

import pytest

from reenact.terminal import TerminalEmulator
from tests.terminal.strangers.conftest import Open


@pytest.fixture
def top(opened: Open) -> TerminalEmulator:
    if sys.platform != "linux":
        pytest.skip("the top of other systems has other options")
    return opened("top", "-d", "0.1")


def test_processes_are_listed_below_a_heading_and_refreshed(top: TerminalEmulator) -> None:
    heading = top.get_by_text(re.compile(r"PID\s+USER\b.*COMMAND"))
    heading.expect_style(inverse=True)
    top.get_by_text(re.compile(r"^top - \d\d:\d\d:\d\d")).expect_visible()
    shown = len(top.get_output_bytes())

    top.wait_until(lambda _: len(top.get_output_bytes()) > shown, what="another picture")

    assert heading.row > top.get_by_text("Tasks:").row


def test_q_ends_it(top: TerminalEmulator) -> None:
    top.get_by_text("Tasks:").expect_visible()

    top.write("q")

    assert top.wait_for_exit().success
