"""A program ends with all that it has started, wherever that has gone, and nobody else is touched."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reenact.terminal.session import ending, live
from reenact.terminal.session.emulator import TerminalEmulator
from reenact.terminal.session.ending import ProcessTree
from reenact.terminal.session.pty import Pair
from reenact.terminal.session.spawning import ExitStatus
from reenact.testing.clock import polled
from tests.terminal.session.conftest import Start
from tests.terminal.session.programs import CAT, RAW_CAT, exists, holdings, is_alive, shell

SHORT = 0.02


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give processes less time to act on signals than they have otherwise."""
    monkeypatch.setattr(ending, "GRACE", SHORT)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give processes all the time that a busy machine may need: they act on the signal."""
    monkeypatch.setattr(ending, "GRACE", 60.0)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that is none of anybody's business."""
    with subprocess.Popen(["/bin/sleep", "60"], stdout=subprocess.DEVNULL, process_group=0) as process:
        yield process
        process.kill()


def pids(terminal: TerminalEmulator, count: int) -> list[int]:
    """Return the numbers that the program says behind the word `pid`."""
    found: list[int] = []
    for _ in range(count):
        terminal.wait_for(re.compile(r"pid (\d+)\r"))
        assert terminal.match is not None
        found.append(int(terminal.match.group(1)))
    return found


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exec sleep 60", ExitStatus(signal=signal.SIGHUP)),
        ("trap '' HUP; exec sleep 60", ExitStatus(signal=signal.SIGTERM)),
        ("trap '' HUP TERM; exec sleep 60", ExitStatus(signal=signal.SIGKILL)),
        ("echo ready; kill -STOP $$", ExitStatus(signal=signal.SIGHUP)),
    ],
)
def test_a_program_is_hung_up_terminated_and_killed(start: Start, script: str, expected: ExitStatus) -> None:
    terminal = start(*shell(script.replace("exec", "echo ready; exec")))
    terminal.wait_for("ready")

    terminal.dispose()

    assert terminal.exit_status == expected


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize(
    "script",
    [
        "sleep 60 & echo pid $!; exec cat",
        "sleep 60 & echo pid $!",
        "trap '' HUP; sleep 60 & echo pid $!; exit 3",
        "setsid sleep 60 & echo pid $!; exec cat",
        "setsid sh -c 'echo pid $$; exec sleep 60' & wait",
        "setsid sh -c 'setsid sleep 60 & echo pid $!'; exit 0",
        "env -i sh -c 'echo pid $$; exec sleep 60' & exec cat",
        "setsid env -i /bin/sh -c 'echo pid $$; exec sleep 60' & exec cat",
        "sh -c 'echo pid $$; kill -STOP $$' & exec cat",
    ],
    ids=[
        "in the background",
        "left in the background",
        "deaf to the hang-up",
        "in a session of its own",
        "found by its parent",
        "a daemon",
        "without its mark",
        "without its mark, in a session of its own",
        "stopped",
    ],
)
def test_what_a_program_has_started_ends_with_it(start: Start, script: str, bystander: subprocess.Popen[bytes]) -> None:
    terminal = start(*shell(script))
    (pid,) = pids(terminal, 1)

    terminal.dispose()

    assert not is_alive(pid)
    assert bystander.poll() is None


@pytest.mark.usefixtures("patience")
def test_jobs_of_a_shell_end_with_it_in_the_foreground_and_behind_it(start: Start) -> None:
    terminal = start("/bin/bash", "--norc", "--noprofile", "-i", env={"PS1": "$ "})
    terminal.wait_for("$ ")
    terminal.send_line("set +o notify; sleep 61 & echo pid $!; sleep 62 & echo pid $!")
    behind = pids(terminal, 2)
    terminal.send_line("sh -c 'echo pid $$; exec sleep 63'")
    in_front = pids(terminal, 1)
    assert os.getpgid(in_front[0]) == in_front[0] != terminal.pid

    terminal.dispose()

    assert not any(is_alive(pid) for pid in behind + in_front)


def test_ctrl_c_reaches_the_program_and_only_that(start: Start) -> None:
    terminal = start(*shell("trap 'echo caught' INT; echo ready; while :; do read line; done"))
    terminal.wait_for("ready")

    terminal.send_key("ctrl+c")

    terminal.wait_for("caught")
    assert terminal.is_running


@pytest.mark.usefixtures("patience")
def test_what_a_program_says_when_it_is_hung_up_is_heard(start: Start) -> None:
    terminal = start(*shell("trap 'echo goodbye; exit 5' HUP; echo ready; while :; do sleep 0.01; done"))
    terminal.wait_for("ready")

    terminal.dispose()

    assert "goodbye" in terminal.get_output()
    assert terminal.exit_status == ExitStatus(code=5)


@pytest.mark.usefixtures("hurry")
def test_others_who_keep_the_terminal_open_do_not_hold_up_the_end(start: Start) -> None:
    # Away from the session they are not hung up with it; what they hold is our end's other one all the same.
    terminal = start(*shell("trap '' HUP; setsid sleep 60 & echo done"))

    assert terminal.wait_for_exit(20) == ExitStatus(code=0)
    assert terminal.get_output() == "done\r\n"


def test_the_end_of_one_program_is_not_that_of_another(start: Start) -> None:
    first, second = start(*RAW_CAT), start(*CAT)

    first.dispose()

    second.send_line("still here")
    second.wait_for("still here\nstill here\n")


def test_a_test_of_terminals_that_is_under_test_is_ended_with_its_programs(start: Start) -> None:
    program = (
        "import sys; from reenact.terminal.session.emulator import TerminalEmulator;"
        "terminal = TerminalEmulator('/bin/cat').start();"
        "print('pid', terminal.pid, flush=True); sys.stdin.read()"
    )
    outer = start(sys.executable, "-c", program, env={"PYTHONPATH": ":".join(entry for entry in sys.path if entry)})
    (inner,) = pids(outer, 1)

    outer.dispose()

    assert not is_alive(inner)


@pytest.mark.usefixtures("hurry")
def test_where_processes_are_not_listed_their_groups_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_HAS_PROC", False)
    before = holdings()
    terminal = TerminalEmulator(shell("trap '' HUP; echo ready; sleep 60")).start()
    terminal.wait_for("ready")

    terminal.dispose()

    assert terminal.exit_status is not None
    assert terminal.exit_status.signal in (signal.SIGTERM, signal.SIGKILL)  # a busy machine may not get to the first
    assert holdings() == before


def test_where_the_end_of_processes_is_not_announced_it_is_looked_for(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("os.pidfd_open", raising=False)
    terminal = start(*shell("read line; exit 4"))

    terminal.send_line("")

    assert terminal.wait_for_exit() == ExitStatus(code=4)


@pytest.mark.usefixtures("hurry")
def test_a_number_that_has_been_given_to_another_process_is_left_alone(bystander: subprocess.Popen[bytes]) -> None:
    tree = ProcessTree(bystander.pid, "no such mark", has_ended=lambda: True, foreground=lambda: None)

    tree.end([signal.SIGKILL])

    assert bystander.poll() is None


def test_a_process_with_a_strange_name_is_read_right(tmp_path: Path, start: Start) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")

    terminal = start(*shell(f"'{program}' 60 & echo pid $!; exec cat"))
    (pid,) = pids(terminal, 1)
    terminal.dispose()

    assert not is_alive(pid)


def test_one_at_a_terminal_elsewhere_that_has_the_same_path_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a container, which has a /dev/pts of its own.
    pair = Pair(80, 24)
    ours = pair.terminal_id()
    assert ours is not None
    tree = ProcessTree(1, "no such mark", lambda: True, lambda: None, terminal=pair.terminal_id)
    with subprocess.Popen(["/bin/sleep", "60"], stdin=pair.other, process_group=0) as at_terminal:
        try:
            for other in (ours._replace(device=ours.device + 1), ours._replace(inode=ours.inode + 1)):
                with monkeypatch.context() as patch:
                    patch.setattr(pair, "_terminal_id", other)
                    tree.end([signal.SIGKILL])
                assert at_terminal.poll() is None

            tree.end([signal.SIGKILL])

            assert not is_alive(at_terminal.pid)
        finally:
            at_terminal.kill()
            pair.close()


@pytest.mark.parametrize("times", [1, 2])
def test_an_end_that_is_interrupted_is_made_at_once(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    before = holdings()
    terminal = TerminalEmulator(shell("trap '' HUP TERM; echo ready; read line")).start()
    terminal.wait_for("ready")
    pid = terminal.pid
    assert pid is not None
    left = [KeyboardInterrupt] * times

    def interrupted(condition: Callable[[], bool], timeout: float) -> bool:
        if left:
            raise left.pop()
        return polled(condition, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(ending, "polled", interrupted)
        with pytest.raises(KeyboardInterrupt):
            terminal.dispose()

    assert not exists(pid)
    terminal.dispose()
    assert terminal.exit_status == ExitStatus(signal=signal.SIGKILL)
    assert holdings() == before


@pytest.mark.usefixtures("hurry")
def test_an_end_that_could_not_be_made_is_made_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(tree: ProcessTree, signals: object = None) -> None:
        raise KeyboardInterrupt

    terminal = TerminalEmulator(shell("trap '' HUP; echo ready; exec sleep 60")).start()
    terminal.wait_for("ready")
    with monkeypatch.context() as patch:
        patch.setattr(ProcessTree, "end", interrupted)
        patch.setattr(live, "_REAP_TIMEOUT", SHORT)
        with pytest.raises(KeyboardInterrupt):
            terminal.dispose()
    assert terminal.is_running

    terminal.dispose()

    assert terminal.exit_status == ExitStatus(signal=signal.SIGTERM)
