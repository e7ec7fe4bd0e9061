"""`sh` is everywhere."""

from __future__ import annotations

import signal

from reenact.terminal import SpecialKey
from tests.terminal.strangers.conftest import Open


def test_sh_asks_runs_and_says_how_it_ended(opened: Open) -> None:
    sh = opened("sh", "-i", PS1="ready> ")
    sh.wait_for("ready> ")

    sh.send_line("echo $((6 * 7))")
    sh.wait_for("\n42")
    sh.wait_for("ready> ")
    sh.send_line("exit 3")

    assert sh.wait_for_exit().code == 3
    assert sh.get_by_text("42", exact=True).row == 1


def test_ctrl_c_reaches_what_sh_runs_and_not_sh(opened: Open) -> None:
    sh = opened("sh", "-i", PS1="ready> ")
    sh.wait_for("ready> ")
    sh.send_line("cat")
    sh.send_line("read and shown again")
    sh.get_by_text("read and shown again", exact=True).expect_count(2)

    sh.send_key(SpecialKey.CTRL_C)
    sh.wait_for("ready> ")
    sh.send_line("echo $?")

    sh.wait_for("\n130")


def test_what_a_script_reads_is_what_was_typed(opened: Open) -> None:
    sh = opened("sh", "-c", 'printf "Name: "; read -r name; printf "%s\\n" "$name" >read; kill -KILL $$')
    sh.wait_for("Name: ")

    sh.send_line("Ada \\ Lovelace")

    assert sh.wait_for_exit().signal == signal.SIGKILL
    assert sh.screen.text == "Name: Ada \\ Lovelace"
