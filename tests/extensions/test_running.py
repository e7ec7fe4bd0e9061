"""RunningHooks a hook: what it is given, what is kept of what it says, and how it ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from reenact.extensions.running import LARGEST, HookResult, RunningHooks, run
from reenact.testing import wait_until


def ran(
    command: str, cwd: Path, *, given: bytes = b"", timeout: float = 60.0, stop: threading.Event | None = None
) -> HookResult:
    return run(command, given, environ={"PATH": os.environ["PATH"]}, cwd=cwd, timeout=timeout, stop=stop)


def is_gone(pid_file: Path) -> bool:
    """Return whether the process whose id is in the file has ended."""
    try:
        return Path(f"/proc/{pid_file.read_text().strip()}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_hook_is_given_its_input_and_what_it_says_is_kept(tmp_path: Path) -> None:
    assert ran("cat; echo problem >&2; exit 3", tmp_path, given=b"told") == HookResult(3, "told", "problem\n")


def test_a_hook_runs_where_it_is_told_to_with_nothing_but_its_environment(tmp_path: Path) -> None:
    assert ran("pwd; env | grep -c '^PATH='; echo $HOME", tmp_path).out == f"{tmp_path}\n1\n\n"


def test_a_hook_that_reads_nothing_is_no_failure_however_much_it_is_given(tmp_path: Path) -> None:
    assert ran("exit 0", tmp_path, given=b"x" * 1_000_000) == HookResult(0, "", "")


def test_a_hook_may_be_given_more_than_a_pipe_holds_and_say_it_back(tmp_path: Path) -> None:
    given = b"0123456789" * 9_000

    assert ran("cat", tmp_path, given=given).out == given.decode()


def test_of_what_a_hook_says_only_so_much_is_kept(tmp_path: Path) -> None:
    said = ran("head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2", tmp_path)

    assert (len(said.out), said.is_cut) == (LARGEST, True)
    assert said.err == "end\n"


def test_a_hook_that_takes_too_long_is_killed_with_all_it_has_started(tmp_path: Path) -> None:
    began = time.monotonic()

    done = ran("sleep 60 & echo $! > pid; echo half; wait", tmp_path, timeout=3)

    assert done == HookResult(None, "half\n", "")
    assert time.monotonic() - began < 30
    wait_until(lambda: is_gone(tmp_path / "pid"))


def test_a_hook_that_is_stopped_is_killed_as_well(tmp_path: Path) -> None:
    stop = threading.Event()

    def stop_it() -> None:
        wait_until((tmp_path / "pid").exists)
        stop.set()

    stopper = threading.Thread(target=stop_it)
    stopper.start()

    done = ran("echo $$ > pid; sleep 60", tmp_path, stop=stop)
    stopper.join()

    assert done.code is None


def test_what_a_hook_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()

    done = ran("sleep 60 & echo $! > pid; echo done", tmp_path)

    assert (done.code, done.out) == (0, "done\n")
    assert time.monotonic() - began < 30
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_what_is_kept_whole_is_not_cut(tmp_path: Path) -> None:
    said = ran(f"head -c {LARGEST} /dev/zero; head -c {LARGEST + 1} /dev/zero >&2", tmp_path)

    assert (len(said.out), len(said.err), said.is_cut) == (LARGEST, LARGEST, False)


def test_hooks_on_other_threads_are_ended_with_all_they_have_started(tmp_path: Path) -> None:
    running = RunningHooks()
    done: list[HookResult] = []

    def hook() -> None:
        command = "sleep 60 & echo $! > child; echo $$ > pid; wait"
        done.append(run(command, b"", environ={"PATH": os.environ["PATH"]}, cwd=tmp_path, timeout=60, running=running))

    thread = threading.Thread(target=hook)
    thread.start()
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))

    running.end()

    assert is_gone(tmp_path / "pid")
    wait_until(lambda: is_gone(tmp_path / "child"))
    thread.join()
    assert [one.code for one in done] == [128 + signal.SIGKILL]
    assert run("touch late", b"", environ={}, cwd=tmp_path, timeout=9, running=running).code is None
    assert not (tmp_path / "late").exists()


def test_a_hook_that_a_signal_ends_says_so(tmp_path: Path) -> None:
    assert ran("kill -TERM $$", tmp_path).code == 128 + signal.SIGTERM


def test_a_hook_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        ran("true", tmp_path / "nowhere")
