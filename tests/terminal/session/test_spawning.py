"""Programs that are started without a fork: as others, with a terminal of their own."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reenact.terminal.session.pty import Pair
from reenact.terminal.session.spawning import ForkNeededError, SpawnedProcess, spawn_without_fork
from reenact.testing.clock import polled

PATIENCE = 60.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere programs are started by a fork")
ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return a pair of a pseudo-terminal."""
    with closing(Pair(80, 24)) as pair:
        yield pair


def run(pair: Pair, *argv: str, cwd: Path | None = None) -> tuple[int, str]:
    """Run the program to its end; return its code and what it wrote."""
    process = spawn_without_fork(argv, ENV, cwd, pair.other)
    assert polled(lambda: process.poll() is not None, PATIENCE)
    code = process.poll()
    assert code is not None
    pair.release()
    said = b""
    while (more := pair.read()) is not None:
        said += more
    return code, said.decode().replace("\r\n", "\n")


def test_the_terminal_is_the_program_s_own(pair: Pair) -> None:
    code, said = run(pair, "sh", "-c", "echo by name >/dev/tty; test -t 0 && test -t 1 && test -t 2")

    assert (code, said) == (0, "by name\n")


def test_the_program_is_in_its_directory_and_we_are_in_ours(pair: Pair, tmp_path: Path) -> None:
    ours = Path.cwd()

    code, said = run(pair, "pwd", cwd=tmp_path)

    assert (code, said) == (0, f"{tmp_path}\n")
    assert Path.cwd() == ours


def test_nothing_but_the_terminal_is_inherited(pair: Pair) -> None:
    with Path(os.devnull).open() as left_open:
        os.set_inheritable(left_open.fileno(), True)  # noqa: FBT003 - it takes no name

        _, said = run(pair, "sh", "-c", f"test -e /proc/$$/fd/{left_open.fileno()} && echo inherited")

    assert said == ""


def test_how_it_ended_is_told(pair: Pair) -> None:
    code, _ = run(pair, "sh", "-c", "kill -9 $$")

    assert code == -signal.SIGKILL


def test_signals_that_python_ignores_are_not_ignored_by_the_program(pair: Pair) -> None:
    code, _ = run(pair, "sh", "-c", "kill -PIPE $$")

    assert code == -signal.SIGPIPE


def test_the_first_program_of_a_name_that_can_be_run_is_taken(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, mode in (("a", 0o644), ("b", 0o755), ("c", 0o755)):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "greet"
        program.write_text(f"#!/bin/sh\necho {name}\n")
        program.chmod(mode)
    monkeypatch.setitem(ENV, "PATH", ":".join(str(tmp_path / name) for name in ("none", "a", "b", "c")))

    code, said = run(pair, "greet")

    assert (code, said) == (0, "b\n")


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("there-is-no-such-program", FileNotFoundError),
        ("./there-is-no-such-file", FileNotFoundError),
        ("/etc/passwd", PermissionError),
        ("/etc", PermissionError),
    ],
)
def test_what_cannot_be_started_raises_here(pair: Pair, command: str, error: type[OSError]) -> None:
    with pytest.raises(error):
        spawn_without_fork([command], ENV, None, pair.other)


def test_a_directory_that_cannot_be_entered_raises_here(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spawn_without_fork(["true"], ENV, tmp_path / "none", pair.other)


def test_where_the_terminal_has_no_name_it_cannot_be_done(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    def nameless(_descriptor: int) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "ttyname", nameless)

    with pytest.raises(ForkNeededError):
        spawn_without_fork(["true"], ENV, None, pair.other)


def test_where_threads_share_the_directory_it_cannot_be_done(
    monkeypatch: pytest.MonkeyPatch, pair: Pair, tmp_path: Path
) -> None:
    def without_unshare(_name: object) -> object:
        return object()

    monkeypatch.setattr("ctypes.CDLL", without_unshare)

    with pytest.raises(ForkNeededError):
        spawn_without_fork(["true"], ENV, tmp_path, pair.other)


def test_an_end_that_others_took_note_of_is_not_made_up() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()

    with pytest.raises(ChildProcessError):
        SpawnedProcess(process.pid).poll()


def test_descriptors_are_as_many_as_before(pair: Pair, tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))

    process = spawn_without_fork(["true"], ENV, tmp_path, pair.other)
    assert polled(lambda: process.poll() is not None, PATIENCE)

    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert fcntl.fcntl(pair.other, fcntl.F_GETFD) == fcntl.FD_CLOEXEC
