"""`bash`: a line editor, and jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reenact.terminal import SpecialKey, TerminalEmulator
from tests.terminal.strangers.conftest import Open

PROMPT = "bash> "
A_JOB = """sh -c 'echo ready; read line; echo "$line"'"""
"""It says when it has the terminal: Enter means something else to the line editor that had it before."""


@pytest.fixture
def bash(opened: Open) -> TerminalEmulator:
    bash = opened("bash", "--norc", "--noprofile", "-i", PS1=PROMPT, HISTFILE="", INPUTRC="/dev/null")
    bash.wait_for(PROMPT)
    return bash


def test_a_line_is_edited_with_the_keys_for_it(bash: TerminalEmulator) -> None:
    bash.write("ecko goodbye")
    bash.send_key(SpecialKey.CTRL_W)
    bash.write("hello")
    bash.send_key(SpecialKey.HOME)
    bash.send_key(SpecialKey.RIGHT)
    bash.send_key(SpecialKey.RIGHT)
    bash.send_key(SpecialKey.DELETE)
    bash.write("h")
    bash.expect_screen(f"{PROMPT}echo hello")
    bash.expect_cursor(0, len(PROMPT) + 3)
    bash.send_key(SpecialKey.ENTER)

    bash.get_by_text("hello", exact=True).expect_visible()


def test_what_was_typed_before_is_brought_back_and_changed(bash: TerminalEmulator) -> None:
    bash.send_line("echo first")
    bash.get_by_text(PROMPT).expect_count(2)

    bash.send_key(SpecialKey.UP)
    bash.get_by_text(f"{PROMPT}echo first").expect_count(2).last.expect_cursor()
    bash.send_key("b", alt=True)
    bash.send_key(SpecialKey.CTRL_K)
    bash.send_line("second")

    bash.get_by_text("second", exact=True).expect_visible()


def test_a_job_is_stopped_and_goes_on_in_the_foreground(bash: TerminalEmulator) -> None:
    bash.send_line(A_JOB)
    bash.get_by_text("ready", exact=True).expect_visible()

    bash.send_key(SpecialKey.CTRL_Z)
    bash.wait_for("Stopped")
    bash.wait_for(PROMPT)
    bash.send_line("fg")
    bash.get_by_text(A_JOB).expect_count(3)
    bash.send_line("two")
    bash.get_by_text("two", exact=True).expect_count(2)
    bash.get_by_text(PROMPT).expect_count(3)
    bash.send_line("exit 7")

    assert bash.wait_for_exit().code == 7


def test_ctrl_c_ends_the_command_and_not_bash(bash: TerminalEmulator) -> None:
    bash.send_line(A_JOB)
    bash.get_by_text("ready", exact=True).expect_visible()
    bash.send_key(SpecialKey.CTRL_C)
    bash.get_by_text(PROMPT).expect_count(2)
    bash.send_line("echo code $?")

    bash.get_by_text("code 130", exact=True).expect_visible()


def test_what_is_pasted_is_not_run_before_enter(bash: TerminalEmulator) -> None:
    bash.wait_until(lambda screen: screen.modes.bracketed_paste, what="bash to ask for brackets around what is pasted")

    bash.paste("echo one\necho two")
    bash.get_by_text("echo two").expect_cursor()
    assert not bash.get_by_text("one", exact=True).is_visible()
    bash.send_key(SpecialKey.ENTER)

    assert bash.get_by_text("one", exact=True).row + 1 == bash.get_by_text("two", exact=True).row


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked up in /proc")
def test_what_bash_has_left_in_the_background_ends_with_it(bash: TerminalEmulator) -> None:
    bash.send_line("(trap '' HUP; exec sleep 1000) & echo pid $!;")
    bash.wait_for(re.compile(r"pid (\d+)\r"))
    assert bash.match is not None
    pid = int(bash.match[1])
    assert _lives(pid)

    bash.dispose()

    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}
