"""A terminal serves one program, from its start to its end, and leaves nothing behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType, WaitTimeoutError
from reenact.terminal.screen.engine import Engine
from reenact.terminal.session.emulator import TerminalEmulator, _clean_up
from reenact.terminal.session.spawning import ExitStatus, ForkNeededError, Process, spawn
from tests.examples import examples
from tests.terminal.raising import raises
from tests.terminal.session.conftest import Start
from tests.terminal.session.programs import CAT, RAW_CAT, READY, Blind, exists, holdings, is_alive, shell

# What lives until it is ended, and what ends by itself.
LIVING = (CAT, RAW_CAT, shell("sleep 60 & exec cat"))
ENDING = (("/bin/true",), shell("trap '' HUP; kill -9 $$"))


@settings(max_examples=examples(15))
@given(
    st.sampled_from(LIVING + ENDING),
    st.integers(1, 200),
    st.integers(1, 100),
    st.booleans(),
)
def test_property_01_pty_session_lifecycle(
    command: tuple[str, ...],
    cols: int,
    rows: int,
    is_told_something: bool,  # noqa: FBT001 - drawn
) -> None:
    """Property 01: PTY Session Lifecycle (requirements 1.1)."""
    with TerminalEmulator("/bin/true") as first:  # what is imported only now is not part of it
        first.wait_for_exit()
    before = holdings()
    terminal = TerminalEmulator(command, cols=cols, rows=rows)

    terminal.start()
    pid = terminal.pid
    assert pid is not None
    if command in LIVING:
        assert terminal.is_running
        assert is_alive(pid)
    else:
        terminal.wait_for_exit()
        assert not terminal.is_running
        assert not exists(pid)
    assert (terminal.screen.columns, terminal.screen.rows) == (cols, rows)
    if is_told_something and command in {CAT, RAW_CAT}:
        terminal.send_line("Hello")
        terminal.wait_for("Hello")
    terminal.dispose()

    assert not exists(pid)
    assert not terminal.is_running
    assert terminal.exit_status is not None
    assert holdings() == before


def test_requirement_1_1_a_program_runs_at_a_terminal_of_its_own(start: Start) -> None:
    script = 'test -t 0 && test -t 1 && test -t 2 && : </dev/tty && echo "$$ leads $(ps -o sid= -p $$)"'

    terminal = start(*shell(script))

    assert terminal.wait_for_exit() == ExitStatus(code=0)
    leader, _, session = terminal.get_output().split()
    assert int(leader) == int(session) == terminal.pid


def test_a_terminal_is_not_running_before_its_start_and_says_so() -> None:
    terminal = TerminalEmulator(CAT, cols=10, rows=3)

    assert (terminal.pid, terminal.is_running, terminal.exit_status) == (None, False, None)
    assert terminal.get_output() == terminal.get_stripped_output() == terminal.screen.text == ""
    assert terminal.get_terminal_state().screen.columns == 10
    for use in (lambda: terminal.write("a"), lambda: terminal.wait_for("a"), terminal.kill):
        with raises(TerminalTestErrorType.SCRIPT_EXECUTION_ERROR, "call `start`"):
            use()


def test_a_terminal_is_started_once(start: Start) -> None:
    terminal = start(*CAT)

    with raises(TerminalTestErrorType.SCRIPT_EXECUTION_ERROR, "started before"):
        terminal.start()

    terminal.dispose()
    with pytest.raises(TerminalTestError, match="started before"):
        terminal.start()


def test_what_was_shown_can_be_read_after_the_end(start: Start) -> None:
    terminal = start(*CAT)
    terminal.send_line("Hello")
    terminal.wait_for("Hello\nHello\n")

    terminal.dispose()
    terminal.dispose()

    state = terminal.get_terminal_state()
    assert state.stripped_output == "Hello\r\nHello\r\n"
    assert state.screen.text == "Hello\nHello"
    assert (state.running, state.exit_status) == (False, ExitStatus(signal=1))
    assert terminal.wait_for("Hello", scope="all") == "Hello"
    with raises(TerminalTestErrorType.PROCESS_EXITED):
        terminal.write("more")


def test_a_program_is_ended_when_its_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), TerminalEmulator(CAT) as terminal:
        raise ZeroDivisionError

    assert terminal.exit_status == ExitStatus(signal=1)


def test_the_terminal_may_be_closed_and_opened_again(start: Start) -> None:
    script = "exec 3>&- </dev/null >/dev/null 2>&1; setsid true; exec >/dev/tty 2>&1; echo again"

    terminal = start(*shell(script))

    assert terminal.wait_for("again") == "again"


def test_many_terminals_at_once_do_not_hear_each_other() -> None:
    before = holdings()
    with ExitStack() as stack:
        terminals = [stack.enter_context(TerminalEmulator(CAT)) for _ in range(20)]

        for number, terminal in enumerate(terminals):
            terminal.send_line(f"I am {number}.")

        for number, terminal in enumerate(terminals):
            terminal.wait_for(f"I am {number}.\nI am {number}.\n")
            assert terminal.get_output().count("I am") == 2
    assert holdings() == before


def test_the_program_is_told_of_another_size(start: Start) -> None:
    terminal = start(*shell("trap 'stty size' WINCH; stty size; while :; do read line; done"), cols=90, rows=30)
    terminal.wait_for("30 90")

    terminal.resize(100, 40)

    terminal.wait_for("40 100")
    assert (terminal.screen.columns, terminal.screen.rows) == (100, 40)
    with raises(TerminalTestErrorType.INVALID_CONFIG, "rows"):
        terminal.resize(80, 0)


def test_a_program_that_asked_for_it_is_told_of_another_size_in_its_input_as_well(start: Start) -> None:
    terminal = start(*shell("stty raw -echo; printf '\\33[?2048hready\\r\\n'; exec cat -v"))
    terminal.wait_for(READY)
    terminal.wait_idle()

    terminal.resize(100, 40)

    terminal.wait_for("^[[48;40;100;")


def test_how_a_program_ended_is_told_by_code_or_signal(start: Start) -> None:
    by_code = start(*shell("exit 3"))
    by_signal = start(*CAT)

    by_signal.kill("SIGUSR1")

    assert by_code.wait_for_exit() == by_code.exit_status == ExitStatus(code=3)
    assert by_signal.wait_for_exit() == ExitStatus(signal=10)
    by_signal.kill()
    assert by_signal.exit_status == ExitStatus(signal=10)


def test_a_signal_that_there_is_not_is_named(start: Start) -> None:
    terminal = start(*CAT)

    for wrong in ("SIGNOTHING", 99):
        with raises(TerminalTestErrorType.INVALID_CONFIG, "there are SIG"):
            terminal.kill(wrong)
    terminal.kill("int")
    assert terminal.wait_for_exit() == ExitStatus(signal=2)


def test_the_echo_of_a_line_is_recorded_behind_it(start: Start) -> None:
    terminal = start(*CAT)
    lines = [f"line {number}!" for number in range(200)]
    for line in lines:
        terminal.send_line(line)
        terminal.wait_for(line)

    events = terminal.recording.events

    for line in lines:
        typed = events.index(next(event for event in events if event.code == "i" and event.data == f"{line}\r"))
        assert line not in "".join(event.data for event in events[:typed] if event.code == "o")


def test_what_happened_is_recorded(start: Start) -> None:
    terminal = start(*CAT)
    terminal.send_line("Hello")
    terminal.wait_for("Hello\nHello")
    terminal.resize(100, 30)
    terminal.write("\x04")
    terminal.wait_for_exit()

    events = terminal.recording.events

    assert "".join(event.data for event in events if event.code == "o") == terminal.get_output()
    assert [event.data for event in events if event.code == "i"] == ["Hello\r", "\x04"]
    assert [(event.code, event.data) for event in events if event.code in "rx"] == [("r", "100x30"), ("x", "0")]


def test_the_order_of_the_recording_is_that_of_the_screen(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = start(*CAT)
    feed = Engine.feed

    def resized_before(engine: Engine, data: bytes) -> bytes:
        terminal.resize(10, 3)
        return feed(engine, data)

    monkeypatch.setattr(Engine, "feed", resized_before)
    terminal.write("output that comes while the size changes\r\x04")
    terminal.wait_for_exit()

    assert next(event.code for event in terminal.recording.events if event.code in "or") == "r"


def test_a_forgotten_terminal_is_cleared_away() -> None:
    before = holdings()
    terminal = TerminalEmulator(CAT).start()
    pid = terminal.pid
    assert pid is not None

    with pytest.warns(ResourceWarning, match="not disposed of"):  # noqa: PT031 - it is collected with the last name
        del terminal
        gc.collect()

    assert not exists(pid)
    assert holdings() == before


FORGETTING = """
import gc
from reenact.terminal import Engine, TerminalEmulator
from reenact.terminal.screen import libghostty

one = {}
with libghostty._ffi._lock:
    del one
    gc.collect()
print("forgotten")
"""
SHOWING_AN_ENGINE = """Engine(10, 2)
one.feed(b"1\\r\\n2\\r\\n3")
one.screen()"""


@pytest.mark.parametrize("one", [SHOWING_AN_ENGINE, 'TerminalEmulator("/bin/cat").start()'])
def test_what_has_a_screen_can_be_forgotten_at_any_moment_also_within_a_call_of_cffi(one: str) -> None:
    program = FORGETTING.replace("{}", one)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.stdout, done.stderr) == ("forgotten\n", "")


def test_a_terminal_that_is_in_use_does_not_hold_up_the_end_of_the_interpreter() -> None:
    program = """
        from reenact.terminal.session.emulator import TerminalEmulator
        terminal = TerminalEmulator("/bin/cat").start()
        print(terminal.pid)
    """
    path = [entry for entry in sys.path if entry]

    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line.strip() for line in program.splitlines())],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": ":".join(path)},
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert not exists(int(done.stdout))


def test_a_fork_of_the_process_leaves_its_terminals_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = start(*CAT)

    live = terminal._started()
    uses: list[Callable[[], object]] = [
        lambda: terminal.write("a"),
        lambda: terminal.wait_for("a", 0),
        lambda: terminal.wait_for_exit(0),
        lambda: terminal.resize(70, 20),
        terminal.kill,
    ]

    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: 1)
        _clean_up(live, "cat")
        terminal.dispose()
        for use in uses:
            with raises(TerminalTestErrorType.SCRIPT_EXECUTION_ERROR, "fork"):
                use()
        assert terminal.is_running

    terminal.send_line("still here")
    terminal.wait_for("still here\nstill here\n")


def test_a_terminal_that_is_disposed_of_keeps_its_last_screen(start: Start) -> None:
    terminal = start("/usr/bin/printf", r"\033[?1hHello")
    terminal.wait_for_exit()

    terminal.dispose()
    terminal.resize(20, 5)

    assert (terminal.screen.columns, terminal.screen.text) == (80, "Hello")
    assert terminal.screen.modes.application_cursor
    assert terminal.wait_for("Hello", scope="screen") == "Hello"


def test_an_engine_that_fails_is_told_to_who_waits(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Blind):
        def feed(self, data: bytes) -> bytes:
            raise RuntimeError("no such glyph")

    monkeypatch.setattr("reenact.terminal.screen.engine.Engine", Broken)
    terminal = start(*CAT)
    terminal.write("a")

    with raises(TerminalTestErrorType.SCRIPT_EXECUTION_ERROR, "no such glyph"):
        terminal.wait_for("b")


def test_the_thread_has_a_name_that_says_whose_it_is(start: Start) -> None:
    start(*CAT)

    assert any(thread.name.startswith("reenact-terminal-") for thread in threading.enumerate())


def test_a_status_that_others_take_first_is_that_of_the_program() -> None:
    class Robbed(subprocess.Popen[bytes]):
        """Others wait for all children of the process, and are faster."""

        def poll(self) -> int | None:
            if self.returncode is None:
                os.waitpid(self.pid, 0)
            return super().poll()

    def robbed(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Process:
        return Robbed(argv, env=env, cwd=cwd, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)

    with TerminalEmulator(shell("exit 7"), spawner=robbed) as terminal:
        assert terminal.wait_for_exit() == ExitStatus(code=7)


@pytest.mark.parametrize("is_copied", [False, True])
def test_a_status_that_is_lost_is_not_made_up(monkeypatch: pytest.MonkeyPatch, *, is_copied: bool) -> None:
    def not_here(*_: object, **__: object) -> NoReturn:
        raise ForkNeededError

    if is_copied:
        monkeypatch.setattr("reenact.terminal.session.spawning.spawn_without_fork", not_here)

    def reaped(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Process:
        process = spawn(argv, env, cwd, terminal)
        os.waitpid(process.pid, 0)
        return process

    with TerminalEmulator(shell("echo bye; exit 7"), spawner=reaped) as terminal:
        with raises(TerminalTestErrorType.SCRIPT_EXECUTION_ERROR, r"it is not known how(?s:.*)bye"):
            terminal.wait_for_exit()

        assert (terminal.is_running, terminal.exit_status) == (False, None)
        with raises(TerminalTestErrorType.PROCESS_EXITED, "it is not known how"):
            terminal.wait_for("never")
    assert terminal.exit_status is None
    assert "x" not in {event.code for event in terminal.recording.events}


def test_output_counts_once_the_screen_has_it_and_as_long_as_it_has_not_nothing_is_quiet(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_fed, may_go_on = threading.Event(), threading.Event()

    class Slow(Blind):
        def feed(self, data: bytes) -> bytes:
            is_fed.set()
            may_go_on.wait()
            return b""

    monkeypatch.setattr("reenact.terminal.screen.engine.Engine", Slow)
    terminal = start("/usr/bin/printf", "Hello")
    try:
        is_fed.wait()
        with pytest.raises(WaitTimeoutError):
            terminal.wait_for("Hello", 0)
        with pytest.raises(WaitTimeoutError):
            terminal.wait_idle(0.001, 0.02)
        assert terminal.get_output() == ""
    finally:
        may_go_on.set()

    assert terminal.wait_for("Hello") == "Hello"
