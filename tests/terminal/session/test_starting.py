"""What cannot be started is an error in the parent, which says what to do; what can finds what it is given."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.session.emulator import TerminalEmulator
from reenact.terminal.session.spawning import ExitStatus, ForkNeededError, Process, spawn
from reenact.testing.clock import polled
from tests.started.programs import Programs
from tests.terminal.raising import raises
from tests.terminal.session.conftest import Start
from tests.terminal.session.programs import CAT, holdings, shell

ENVIRONMENT = ("/usr/bin/env", "-0")
OF_LIBRARIES = 1 << 31 | 1 << 32
"""Signals 32 and 33, which libraries of C keep for their threads, and no program uses."""


def no_more_files() -> NoReturn:
    raise OSError(24, "Too many open files")


def variables(terminal: TerminalEmulator) -> dict[str, str]:
    terminal.wait_for_exit()
    return dict(line.split("=", 1) for line in terminal.get_output().split("\0") if line)


@pytest.mark.parametrize(
    ("command", "cwd", "expected"),
    [
        ("no-such-command", None, "there is no such command in PATH (/bin:/usr/bin)"),
        ("ls -l", None, "a command line is not split"),
        ("./missing", None, "there is no such file, seen from"),
        ("plain", None, "chmod +x"),
        (".", None, "not executable"),
        ("binary", None, "neither a program nor a script"),
        ("orphan", None, "the interpreter named in its first line does not exist"),
        ("/bin/cat", "missing", "missing' does not exist; create it"),
        ("/bin/cat", "plain", "plain' is not a directory"),
    ],
)
def test_requirement_1_1_what_cannot_be_started_raises_in_the_parent(
    tmp_path: Path, command: str, cwd: str | None, expected: str
) -> None:
    (tmp_path / "plain").write_text("no program")
    for name, content in (("binary", b"\1\2\3\4"), ("orphan", b"#!/no/such/interpreter\n")):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o755)
    name = str(tmp_path / command) if (tmp_path / command).exists() else command
    before = holdings()

    with raises(TerminalTestErrorType.PROCESS_START_FAILED) as caught:
        TerminalEmulator(name, cwd=tmp_path if cwd is None else tmp_path / cwd, env={"PATH": "/bin:/usr/bin"}).start()

    assert expected in caught.value.message
    assert holdings() == before


def test_arguments_that_are_too_long_are_said_to_be_so() -> None:
    with raises(TerminalTestErrorType.PROCESS_START_FAILED, "too long"):
        TerminalEmulator("/bin/echo", ["x" * 300_000]).start()


@pytest.mark.parametrize("step", ["os.openpty", "reenact.terminal.session.emulator.Waker"])
def test_a_terminal_that_cannot_be_had_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    before = holdings()

    with monkeypatch.context() as patch:
        patch.setattr(step, no_more_files)
        with raises(TerminalTestErrorType.PTY_CREATE_FAILED, "ulimit -n"):
            TerminalEmulator(CAT).start()

    assert holdings() == before


def test_a_start_that_fails_half_way_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: object) -> None:
        raise RuntimeError("can't start new thread")

    before = holdings()

    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            TerminalEmulator(CAT).start()

    assert holdings() == before


def test_a_process_that_would_not_be_told_of_the_end_starts_nothing() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with raises(TerminalTestErrorType.PROCESS_START_FAILED, r"ignores SIGCHLD.*SIG_DFL"):
            TerminalEmulator(CAT).start()
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize(("code", "advice"), [(errno.EMFILE, "ulimit -n"), (errno.EAGAIN, "ulimit -u")])
def test_a_start_for_which_too_much_is_in_use_says_what_to_raise(code: int, advice: str) -> None:
    def refusing(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Process:
        raise OSError(code, "too much")

    with pytest.raises(TerminalTestError, match=advice):
        TerminalEmulator(CAT, spawner=refusing).start()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"command": ""}, "command"),
        ({"command": ()}, "command"),
        ({"command": b"ls"}, "command"),
        ({"command": 7}, "command"),
        ({"command": "a\0b"}, "command"),
        ({"command": "ls", "args": "-l"}, "args"),
        ({"command": "ls", "args": [1]}, "args"),
        ({"command": "ls", "cwd": 3}, "cwd"),
        ({"command": "ls", "env": {"A=B": "c"}}, "env"),
        ({"command": "ls", "env": {"A": 1}}, "env"),
        ({"command": "ls", "env": {"": "c"}}, "env"),
        ({"command": "ls", "env": ["A=b"]}, "env"),
        ({"command": "ls", "term": "a\0"}, "env"),
        ({"command": "ls", "cols": 0}, "cols"),
        ({"command": "ls", "rows": True}, "rows"),
        ({"command": "ls", "rows": 2.5}, "rows"),
        ({"command": "ls", "cols": 70_000}, "cols"),
        ({"command": "ls", "timeout": 0}, "timeout"),
        ({"command": "ls", "timeout": float("nan")}, "timeout"),
        ({"command": "ls", "timeout": "5"}, "timeout"),
        ({"command": "ls", "max_output": 0}, "max_output"),
    ],
)
def test_arguments_that_cannot_be_are_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with raises(TerminalTestErrorType.INVALID_CONFIG, named):
        TerminalEmulator(**wrong)


def test_arguments_arrive_as_they_are(start: Start) -> None:
    terminal = TerminalEmulator(Path("/usr/bin/printf"), ["%s|", "a b", "*", "$HOME", "", "é'\"\\"])

    with terminal:
        terminal.wait_for_exit()

    assert terminal.command[0] == "/usr/bin/printf"
    assert terminal.get_output() == "a b|*|$HOME||é'\"\\|"


def test_the_environment_has_what_is_on_the_list_and_what_is_given(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name not in {"PATH", "HOME"} and not name.startswith("PYTEST"):
            monkeypatch.delenv(name)
    for name in ("LANG", "LC_CTYPE", "TMPDIR", "OURS", "COLUMNS", "LINES"):
        monkeypatch.setenv(name, f"our {name}")

    found = variables(start(*ENVIRONMENT, env={"LANG": "C", "EXTRA": "a=b\nc"}, term="vt100"))

    assert re.fullmatch("[0-9a-f]{16}", found.pop("REENACT_TERMINAL"))
    assert found == {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "LC_CTYPE": "our LC_CTYPE",
        "TMPDIR": "our TMPDIR",
        "LANG": "C",
        "EXTRA": "a=b\r\nc",  # as the terminal writes it
        "TERM": "vt100",
    }


def test_all_of_our_environment_is_inherited_on_demand_but_not_the_size_of_our_terminal(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OURS", "COLUMNS", "LINES"):
        monkeypatch.setenv(name, "7")
    ours = dict(os.environ)

    found = variables(start(*ENVIRONMENT, inherit_env=True, env={"COLUMNS": "33"}))

    assert found["OURS"] == "7"
    assert "LINES" not in found
    assert (found["COLUMNS"], found["TERM"]) == ("33", "xterm-256color")
    assert dict(os.environ) == ours


def test_a_program_starts_in_its_directory_and_we_stay_in_ours(start: Start, tmp_path: Path) -> None:
    here = Path.cwd()

    terminal = start("/bin/pwd", cwd=tmp_path)

    assert terminal.wait_for_exit() == ExitStatus(code=0)
    assert terminal.get_output().strip() == str(tmp_path)
    assert Path.cwd() == here


@pytest.fixture(params=["without a fork", "by a fork"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have programs started in each of the two ways; where a fork is needed, both are the same."""
    if request.param == "by a fork":
        monkeypatch.setattr("reenact.terminal.session.spawning.spawn_without_fork", _not_here)


def _not_here(*_: object, **__: object) -> NoReturn:
    raise ForkNeededError


@pytest.mark.usefixtures("way")
def test_what_cannot_be_started_is_told_alike_in_both_ways(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/there/is/no/interpreter\n")
    (tmp_path / "script").chmod(0o755)

    with raises(TerminalTestErrorType.PROCESS_START_FAILED, "the interpreter named in its first line"):
        TerminalEmulator("./script", cwd=tmp_path).start()


@pytest.mark.usefixtures("way")
def test_a_program_has_its_terminal_and_its_directory_in_both_ways(tmp_path: Path) -> None:
    with TerminalEmulator("/bin/sh", ["-c", "pwd >/dev/tty"], cwd=tmp_path) as terminal:
        terminal.wait_for(f"{tmp_path}\n")

        assert terminal.wait_for_exit().success


@pytest.mark.usefixtures("way")
def test_signals_that_we_ignore_are_not_ignored_by_the_program() -> None:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGINT)}
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        terminal = TerminalEmulator("/bin/grep", ["-E", "^Sig(Ign|Blk)", "/proc/self/status"]).start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        for number, handler in before.items():
            signal.signal(number, handler)
    with terminal:
        terminal.wait_for_exit()
        found = re.findall(r"Sig\w+:\s+(\w+)\r", terminal.get_output())

    assert [int(signals, 16) & ~OF_LIBRARIES for signals in found] == [0, 0]


def test_programs_can_be_started_by_others(programs: Programs, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}

    with TerminalEmulator("reenact", ["--help"], env=home, cwd=tmp_path, spawner=programs.at_terminal) as terminal:
        assert terminal.wait_for_exit() == ExitStatus(code=0)

    assert "Usage: reenact" in terminal.get_stripped_output()


def test_one_who_starts_programs_may_be_late_to_know_of_their_end() -> None:
    class Late:
        def __init__(self, process: Process) -> None:
            self._process = process
            self._asked = 0
            self.pid = process.pid

        def poll(self) -> int | None:
            code = self._process.poll()
            self._asked += code is not None
            return None if self._asked < 5 else code

    def late(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Process:
        return Late(spawn(argv, env, cwd, terminal))

    with TerminalEmulator(shell("echo bye; exit 6"), spawner=late) as terminal:
        assert terminal.wait_for_exit() == ExitStatus(code=6)

    assert terminal.get_output() == "bye\r\n"


def test_what_another_spawner_refuses_is_told(tmp_path: Path) -> None:
    def refusing(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Process:
        process = spawn(["/bin/true"], env, cwd, terminal)
        assert polled(lambda: process.poll() is not None, 60)
        raise OSError(5, "the machine is on fire")

    with raises(TerminalTestErrorType.PROCESS_START_FAILED, "the machine is on fire"):
        TerminalEmulator(CAT, spawner=refusing).start()
