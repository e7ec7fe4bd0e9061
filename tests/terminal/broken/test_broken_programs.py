"""Programs that do what no program should: each is judged right, in time, and nothing of it is left behind."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType, WaitTimeoutError
from reenact.terminal.status import ExitStatus
from reenact.testing import wait_until
from tests.terminal.broken.conftest import Opening

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


def shell(script: str) -> tuple[str, ...]:
    return "/bin/sh", "-c", script


def test_a_program_that_hangs_is_too_late_and_goes_on_until_the_end(opened: Opening) -> None:
    terminal = opened("sleep", "1000")

    with pytest.raises(WaitTimeoutError, match=r"timed out after 0\.2 s waiting for 'ready' from 'sleep'") as caught:
        terminal.wait_for("ready", SOON)

    assert caught.value.type == TerminalTestErrorType.TIMEOUT
    assert "nothing was shown" in str(caught.value)
    assert terminal.is_running
    terminal.dispose()
    assert terminal.exit_status == ExitStatus.of(-1)


def test_a_program_whose_end_is_waited_for_in_vain_is_ended(opened: Opening, left: Callable[[], list[int]]) -> None:
    terminal = opened(*shell("sleep 1000 & sleep 1000 & echo both; wait"))
    terminal.wait_for("both")

    with pytest.raises(WaitTimeoutError, match="waiting for its end") as caught:
        terminal.wait_for_exit(SOON)

    assert "both" in str(caught.value)
    assert not terminal.is_running
    assert left() == []


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


@pytest.mark.parametrize(("signal", "number"), [("KILL", 9), ("SEGV", 11), ("ABRT", 6)])
def test_a_program_that_is_killed_has_a_signal_and_no_exit_code(signal: str, number: int, opened: Opening) -> None:
    terminal = opened(*shell(f"ulimit -c 0; printf 'going '; kill -{signal} $$; echo never"))

    with pytest.raises(TerminalTestError, match=rf"has ended \(SIG{signal}\) while waiting for 'never'") as caught:
        terminal.wait_for("never")

    assert caught.value.type == TerminalTestErrorType.PROCESS_EXITED
    assert caught.value.seen == "going "
    assert terminal.wait_for_exit() == ExitStatus(signal=number)


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


def test_a_program_that_ignores_what_asks_it_to_end_is_killed(opened: Opening) -> None:
    terminal = opened(*shell("trap '' HUP INT TERM; echo deaf; while :; do sleep 1000; done"))
    terminal.wait_for("deaf")

    terminal.kill("INT")
    terminal.kill("TERM")
    terminal.send_key("ctrl+c")
    terminal.dispose()

    assert terminal.exit_status == ExitStatus.of(-9)


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


def test_the_last_words_are_waited_for_when_a_program_ends_at_once(opened: Opening) -> None:
    terminal = opened(*shell("head -c 262144 /dev/zero | tr '\\0' x; printf last; kill -KILL $$"))

    assert terminal.wait_for("last").endswith("xlast")


def test_a_character_that_is_cut_at_the_end_is_replaced_and_a_sequence_that_is_cut_is_dropped(opened: Opening) -> None:
    terminal = opened(*shell(r"printf 'ok \342\202'; printf ' then \033[3'"))

    terminal.wait_for_exit()

    assert terminal.get_output_bytes() == b"ok \xe2\x82 then \x1b[3"
    assert terminal.get_output() == "ok \ufffd then \x1b[3"
    assert terminal.get_stripped_output() == "ok \ufffd then "
    assert terminal.screen.lines[0].startswith("ok \ufffd then")


def test_a_character_that_never_gets_its_last_byte_is_no_reason_to_wait_longer(opened: Opening) -> None:
    terminal = opened(*shell(r"printf 'cut \342\202'; exit 1"))

    with pytest.raises(TerminalTestError, match="exit code 1") as caught:
        terminal.wait_for("€")

    assert caught.value.type == TerminalTestErrorType.PROCESS_EXITED
    assert caught.value.seen == "cut \ufffd"


def test_a_program_that_dies_with_the_terminal_in_disorder_spoils_it_for_no_other(opened: Opening) -> None:
    spoilt = opened(*shell("stty raw -echo; printf '\\033[?1049h\\033[?25l\\033[31mmess'; kill -KILL $$"))
    with pytest.raises(TerminalTestError, match="SIGKILL"):
        spoilt.wait_for("order")
    other = opened("cat")

    other.send_line("hello")

    assert other.wait_for("hello\nhello") == "hello\r\nhello"
    assert not spoilt.screen.cursor.visible
    assert spoilt.screen.modes.alternate_screen


def test_who_asks_for_the_cursor_and_waits_is_answered(opened: Opening) -> None:
    terminal = opened(*shell("stty raw -echo; printf 'abc\\033[6n'; head -c 6 | tr '\\033' '^'"))

    terminal.wait_for("abc^[1;4R")

    assert terminal.wait_for_exit().success


def test_who_asks_without_end_and_never_reads_the_answers_fills_nothing(opened: Opening) -> None:
    terminal = opened(*shell("stty raw -echo; exec yes \"$(printf '\\033[6n')\""), max_output=1000)
    wait_until(lambda: terminal.dropped > 200_000, timeout=60, what="many questions")

    terminal.dispose()

    assert terminal.exit_status is not None


def test_to_write_to_a_program_that_never_reads_does_not_hang(opened: Opening) -> None:
    terminal = opened(*shell("stty raw -echo; echo ready; exec sleep 1000"), timeout=SOON)
    terminal.wait_for("ready", 60)

    with pytest.raises(WaitTimeoutError, match=r"to read: \d+ of 1000000 bytes went") as caught:
        terminal.write(b"x" * 1_000_000)

    assert caught.value.type == TerminalTestErrorType.TIMEOUT
    assert terminal.is_running


def test_a_program_that_ends_before_its_prompt_is_not_waited_for(opened: Opening) -> None:
    terminal = opened(*shell("echo 'no configuration'; exit 3"))

    with pytest.raises(TerminalTestError, match=r"\(exit code 3\) while waiting for '> '") as caught:
        terminal.wait_for("> ", 1000)

    assert caught.value.type == TerminalTestErrorType.PROCESS_EXITED
    assert "this was shown:\nno configuration" in str(caught.value)


def test_a_program_that_has_ended_cannot_be_written_to(opened: Opening) -> None:
    terminal = opened("true")
    terminal.wait_for_exit()

    with pytest.raises(TerminalTestError, match="has ended") as caught:
        terminal.write("hello")

    assert caught.value.type == TerminalTestErrorType.PROCESS_EXITED


def test_a_program_that_stops_itself_is_too_late_and_can_be_ended(opened: Opening) -> None:
    terminal = opened(*shell("echo before; kill -STOP $$; echo after"))
    terminal.wait_for("before")

    with pytest.raises(WaitTimeoutError):
        terminal.wait_for("after", SOON)
    with pytest.raises(WaitTimeoutError):
        terminal.wait_for_exit(SOON)

    assert terminal.exit_status == ExitStatus.of(-1)


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


def test_a_script_whose_interpreter_is_missing_is_not_started_and_the_error_says_why(
    opened: Opening, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)

    with pytest.raises(TerminalTestError, match="the interpreter named in its first line does not exist") as caught:
        opened(str(script))

    assert caught.value.type == TerminalTestErrorType.PROCESS_START_FAILED
    assert str(script) in caught.value.message


def test_a_script_that_is_not_executable_is_not_started_and_the_error_says_what_to_do(
    opened: Opening, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")

    with pytest.raises(TerminalTestError, match=r"chmod \+x") as caught:
        opened(str(script))

    assert caught.value.type == TerminalTestErrorType.PROCESS_START_FAILED


def test_a_file_that_is_no_program_is_not_started(opened: Opening, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(b"\0\1\2")
    script.chmod(0o755)

    with pytest.raises(TerminalTestError, match="neither a program nor a script") as caught:
        opened(str(script))

    assert caught.value.type == TerminalTestErrorType.PROCESS_START_FAILED
