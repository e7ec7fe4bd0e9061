"""Signals come at any moment, and what they stop is stopped once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from reenact.cli.editor.editor import read_line
from reenact.cli.interrupts import (
    around_suspension,
    cleaning_up,
    deferring_end_requests,
    ending_on_request,
    ignoring_interrupts,
    interrupting,
    kill_if_stuck,
    stopping,
)
from reenact.cli.output.failures import TerminatedError, problem_of
from tests.cli.conftest import PATIENCE


def test_the_first_ctrl_c_calls_and_the_second_raises() -> None:
    calls: list[str] = []

    with interrupting(lambda: calls.append("called")):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    assert calls == ["called"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGQUIT, 131)])
def test_a_request_to_end_is_heard_once(number: signal.Signals, code: int) -> None:
    with ending_on_request():
        with pytest.raises(TerminatedError) as ended:
            signal.raise_signal(number)
        assert problem_of(ended.value).code == code
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)


def test_a_hangup_that_nohup_has_the_command_ignore_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_on_request(), cleaning_up(), deferring_end_requests(lambda: None), stopping():
            inside = signal.getsignal(signal.SIGHUP)
        outside = signal.getsignal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)

    assert (inside, outside) == (signal.SIG_IGN, signal.SIG_IGN)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_who_cannot_wait_for_the_end_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    with cleaning_up():
        signal.raise_signal(number)

    assert codes == [code]


def test_only_the_first_of_many_signals_stops_what_is_ending_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.cli.interrupts._ignored_until_exit", set[object]())
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = {number: signal.getsignal(number) for number in numbers}

    try:
        with stopping() as is_asked:
            asked_at_first = is_asked(0)
            signal.raise_signal(signal.SIGTERM)
            within = {signal.getsignal(number) for number in numbers}
            signal.raise_signal(signal.SIGINT)
            asked = [is_asked(0), is_asked(0)]
        behind = {signal.getsignal(number) for number in numbers}
    finally:
        for number, act in before.items():
            signal.signal(number, act)

    assert (asked_at_first, asked, within, behind) == (False, [True, False], {signal.SIG_IGN}, {signal.SIG_IGN})


def test_a_request_to_end_is_heard_at_any_moment_of_the_waiting() -> None:
    program = f"""
import os, signal, sys
from reenact.cli.interrupts import stopping

def asks_behind(lines):
    def trace(frame, event, argument):
        nonlocal lines
        lines -= event == "line"
        if event == "line" and lines == 0:
            signal.raise_signal(signal.SIGTERM)
        return trace
    return trace

def waits(lines):
    signal.alarm({PATIENCE:.0f})
    with stopping() as is_asked:
        sys.settrace(asks_behind(lines))
        heard = is_asked(0.001)
        sys.settrace(None)
        signal.raise_signal(signal.SIGTERM)
        return heard or is_asked(0)

for lines in range(1, 30):
    child = os.fork()
    if not child:
        os._exit(0 if waits(lines) else 1)
    assert os.waitpid(child, 0)[1] == 0, lines
"""

    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=2 * PATIENCE)

    assert done.returncode == 0, done.stderr


def test_signals_are_handled_as_before_when_all_is_over() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    with ending_on_request(), interrupting(lambda: None), cleaning_up():
        pass

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_a_process_that_hangs_at_its_end_is_ended_and_tells_where(tmp_path: Path) -> None:
    errors = tmp_path / "state" / "errors.log"
    program = """
import signal, sys, threading
from pathlib import Path
from reenact.cli.interrupts import kill_if_stuck, ending_on_request
kill_if_stuck(Path(sys.argv[1]), seconds=0.1)
with ending_on_request():
    try:
        signal.raise_signal(signal.SIGHUP)
    finally:
        threading.Event().wait()
"""

    done = subprocess.run([sys.executable, "-c", program, str(errors)], check=False, timeout=PATIENCE)

    assert done.returncode == 143
    first, *others = errors.read_text().splitlines()
    assert first == "0.1 s after it was asked to end, the process has not:"
    assert any("in wait" in line for line in others)


def test_a_thread_that_may_not_handle_signals_does_without(tmp_path: Path) -> None:
    reached = threading.Event()

    def work() -> None:
        kill_if_stuck(tmp_path / "errors.log")
        with ending_on_request(), interrupting(lambda: None), cleaning_up():
            reached.set()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert reached.is_set()


def test_a_request_to_end_is_passed_on_when_what_it_would_have_hurt_has_been_left() -> None:
    left: list[str] = []

    def be_asked_and_go_on() -> None:
        with deferring_end_requests(lambda: left.append("left")):
            signal.raise_signal(signal.SIGTERM)
            left.append("went on")

    with ending_on_request():
        with pytest.raises(TerminatedError):
            be_asked_and_go_on()
        signal.raise_signal(signal.SIGHUP)  # the first one was heard

    assert left == ["left", "went on"]


def test_a_process_that_goes_on_after_a_stop_is_told() -> None:
    told: list[str] = []

    with around_suspension(lambda: told.append("left"), lambda: told.append("back")):
        signal.raise_signal(signal.SIGCONT)
    signal.raise_signal(signal.SIGCONT)

    assert told == ["back"]


def test_ctrl_c_is_for_the_program_that_has_the_terminal_and_no_event_loop_hears_of_it() -> None:
    hears, wakes = socket.socketpair()
    with hears, wakes:
        wakes.setblocking(False)  # noqa: FBT003 - its own form
        hears.setblocking(False)  # noqa: FBT003
        before = signal.set_wakeup_fd(wakes.fileno())
        try:
            with ignoring_interrupts():
                signal.raise_signal(signal.SIGINT)
            with pytest.raises(BlockingIOError):
                hears.recv(1)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        finally:
            signal.set_wakeup_fd(before)


@pytest.mark.parametrize("moment", ["_pre_run", "_redraw", "_on_resize"])
def test_a_request_to_end_leaves_the_line_editor_at_any_moment(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    with create_pipe_input() as keyboard:
        editor: PromptSession[str] = PromptSession(input=keyboard, output=DummyOutput())
        usual = getattr(editor.app, moment)

        def asked_to_end(*args: object, **kwargs: object) -> None:
            monkeypatch.setattr(editor.app, moment, usual)
            signal.raise_signal(signal.SIGTERM)
            usual(*args, **kwargs)

        monkeypatch.setattr(editor.app, moment, asked_to_end)
        if moment == "_on_resize":  # a callback of the event loop, as those for keys and for drawing are
            resized = lambda: os.kill(os.getpid(), signal.SIGWINCH)  # noqa: E731 - a name is all it needs
            monkeypatch.setattr(editor.app, "_request_absolute_cursor_position", resized)

        with ending_on_request(), pytest.raises(TerminatedError):
            read_line(editor, "> ")
