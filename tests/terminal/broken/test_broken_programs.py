"""Programs that do what no program should: each is judged right, in time, and nothing of it is left behind."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.terminal.errors import TerminalTestError, WaitTimeoutError
from reenact.terminal.session.spawning import ExitStatus
from reenact.testing import wait_until
from tests.terminal.broken.conftest import Opening
from tests.terminal.session.programs import shell

SOON = 0.2
"""Seconds after which there is no more hope of what never comes."""

DAEMON = """
import os, time
said, say = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("daemon", os.getpid(), flush=True)
        os.close(say)
        time.sleep(1000)
    os._exit(0)
os.close(say)
os.wait()
os.read(said, 1)
print("parent is done", flush=True)
"""


def test_a_flood_without_end_fills_no_memory_and_is_searched_as_it_goes_by(opened: Opening) -> None:
    terminal = opened("yes", "a flood", max_output=65_536)
    terminal.wait_for("a flood")

    with pytest.raises(WaitTimeoutError) as caught:
        terminal.wait_for("the end of it", SOON)

    assert "a flood\na flood" in str(caught.value)
    assert len(str(caught.value)) < 5000
    wait_until(lambda: terminal.dropped > 0, what="more than is kept")
    assert len(terminal.get_output_bytes()) <= 65_536
    terminal.dispose()
    assert "a flood" in terminal.screen.text


def test_a_flood_can_be_stopped_by_ctrl_c(opened: Opening) -> None:
    terminal = opened("yes")
    terminal.wait_for("y")

    terminal.send_key("ctrl+c")

    assert terminal.wait_for_exit() == ExitStatus.of(-2)


@pytest.mark.parametrize(
    "data", [bytes(range(256)) * 8, random.Random(4).randbytes(50_000)], ids=["every byte", "random bytes"]
)
def test_binary_output_arrives_to_the_byte_and_harms_nothing(data: bytes, opened: Opening, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(data)
    terminal = opened(*shell(f"stty -opost -echo; cat {tmp_path}/data"))

    status = terminal.wait_for_exit()

    assert status.success
    assert terminal.get_output_bytes() == data
    assert len(terminal.screen.lines) == 24
    assert "\x1b" not in terminal.get_stripped_output()


def test_a_daemon_that_outlives_its_parent_is_ended_with_the_terminal(
    opened: Opening, left: Callable[[], list[int]]
) -> None:
    terminal = opened(sys.executable, "-S", "-c", DAEMON)
    terminal.wait_for("parent is done")

    status = terminal.wait_for_exit()
    (daemon,) = left()
    terminal.dispose()

    assert status.success
    assert f"daemon {daemon}" in terminal.get_output()
    assert left() == []


def test_a_daemon_that_left_its_environment_too_is_known_by_the_terminal_it_still_has(opened: Opening) -> None:
    forgetful = DAEMON.replace("time.sleep(1000)", "os.execve('/bin/sleep', ['sleep', '1000'], {})")
    terminal = opened(sys.executable, "-S", "-c", forgetful)
    terminal.wait_for("parent is done")
    daemon = Path("/proc") / terminal.get_output().split()[1]
    terminal.wait_for_exit()
    command = (daemon / "cmdline").read_bytes()

    terminal.dispose()

    assert command == b"sleep\0001000\0"
    assert not daemon.exists() or (daemon / "cmdline").read_bytes() == b""  # nobody has taken note of its end yet


def test_a_flood_by_others_when_a_program_has_ended_is_heard_for_a_while_only(opened: Opening) -> None:
    terminal = opened(*shell("trap '' HUP; yes child & read word; exit 5"))
    terminal.wait_for("child")
    terminal.send_line("end")

    status = terminal.wait_for_exit()

    assert status == ExitStatus(code=5)


def test_who_prints_when_all_is_over_is_not_heard_and_harms_nothing(opened: Opening, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    terminal = opened(*shell(f"trap '' HUP; (read word < {go}; echo later) & echo now"))
    terminal.wait_for("now")

    status = terminal.wait_for_exit()
    go.write_text("go\n")

    assert status.success
    assert terminal.get_output() == "now\r\n"


def test_a_program_that_closes_its_streams_and_goes_on_has_not_ended(opened: Opening, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    terminal = opened(*shell(f"echo bye; exec 0<&- 1>&- 2>&-; read word < {go}; exit 4"))
    terminal.wait_for("bye")

    with pytest.raises(WaitTimeoutError):
        terminal.wait_for("more", SOON)
    is_running = terminal.is_running
    go.write_text("go\n")

    assert is_running
    assert terminal.wait_for_exit() == ExitStatus(code=4)


def test_nothing_is_lost_of_what_was_in_flight_when_a_program_ended(opened: Opening) -> None:
    terminal = opened(*shell("head -c 262144 /dev/zero | tr '\\0' x; printf end; exit 7"))

    status = terminal.wait_for_exit()

    assert status == ExitStatus(code=7)
    assert terminal.get_output_bytes() == b"x" * 262_144 + b"end"


def test_a_character_that_is_cut_at_the_end_is_replaced_and_a_sequence_that_is_cut_is_dropped(opened: Opening) -> None:
    terminal = opened(*shell(r"printf 'ok \342\202'; printf ' then \033[3'"))

    terminal.wait_for_exit()

    assert terminal.get_output_bytes() == b"ok \xe2\x82 then \x1b[3"
    assert terminal.get_output() == "ok \ufffd then \x1b[3"
    assert terminal.get_stripped_output() == "ok \ufffd then "
    assert terminal.screen.lines[0].startswith("ok \ufffd then")


def test_a_program_that_dies_with_the_terminal_in_disorder_spoils_it_for_no_other(opened: Opening) -> None:
    spoilt = opened(*shell("stty raw -echo; printf '\\033[?1049h\\033[?25l\\033[31mmess'; kill -KILL $$"))
    with pytest.raises(TerminalTestError, match="SIGKILL"):
        spoilt.wait_for("order")
    other = opened("cat")

    other.send_line("hello")

    assert other.wait_for("hello\nhello") == "hello\r\nhello"
    assert not spoilt.screen.cursor.visible
    assert spoilt.screen.modes.alternate_screen


def test_who_asks_without_end_and_never_reads_the_answers_fills_nothing(opened: Opening) -> None:
    terminal = opened(*shell("stty raw -echo; exec yes \"$(printf '\\033[6n')\""), max_output=1000)
    wait_until(lambda: terminal.dropped > 200_000, timeout=60, what="many questions")

    terminal.dispose()

    assert terminal.exit_status is not None


def test_a_program_that_stops_itself_goes_on_when_it_is_told(opened: Opening) -> None:
    terminal = opened(*shell("echo before; kill -STOP $$; echo after"))
    terminal.wait_for("before")
    wait_until(lambda: Path(f"/proc/{terminal.pid}/stat").read_text().split()[2] == "T", what="its stop")

    terminal.kill("CONT")

    terminal.wait_for("after")
    assert terminal.wait_for_exit().success


def test_an_answer_that_comes_late_is_there_for_the_next_wait(opened: Opening, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    terminal = opened(*shell(f"echo question; read word < {go}; echo answer"))

    with pytest.raises(WaitTimeoutError) as caught:
        terminal.wait_for("answer", SOON)
    go.write_text("go\n")

    assert caught.value.seen == "question\r\n"
    assert terminal.wait_for("answer") == "question\r\nanswer"


def test_a_huge_line_is_one_line_and_the_screen_shows_its_end(opened: Opening) -> None:
    terminal = opened(*shell("head -c 999990 /dev/zero | tr '\\0' x; printf end; sleep 1000"), max_output=2_000_000)

    found = terminal.wait_for("end")

    assert found == "x" * 999_990 + "end"
    terminal.wait_until(lambda screen: screen.text.endswith("xend"), what="the end of the line")
