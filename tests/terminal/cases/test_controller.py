"""Scripts played at a terminal, with `/bin/sh` and `cat` on the other side."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeAlias

import pytest

from reenact.terminal.cases.controller import InteractionController, TimeLimit
from reenact.terminal.cases.steps import InteractionStep, script_of
from reenact.terminal.errors import TerminalTestErrorType
from reenact.terminal.matching.options import AssertionOptions
from reenact.terminal.session.emulator import TerminalEmulator
from reenact.terminal.session.spawning import ExitStatus

Shell: TypeAlias = Callable[[str], TerminalEmulator]
TALK = 'printf "name? "; read name; echo "Hello, $name"; read answer; exit 3'


@pytest.fixture
def shell() -> Iterator[Shell]:
    """Return what makes a terminal at which a line of the shell is run; it is not started."""
    with ExitStack() as terminals:

        def shell(line: str) -> TerminalEmulator:
            terminal = TerminalEmulator(["/bin/sh", "-c", line], timeout=60)
            terminals.callback(terminal.dispose)
            return terminal

        yield shell


def test_a_script_is_played_from_the_start_of_the_program_to_its_end(shell: Shell) -> None:
    script = script_of(
        [
            {"wait": "name? "},
            {"sendLine": "Ada"},
            {"wait": {"regex": "Hello, (\\w+)"}},
            {"assert": {"contains": "Hello, Ada"}},
            {"sendKey": "enter"},
            "waitForExit",
        ]
    )
    terminal = shell(TALK)

    result = InteractionController(terminal).execute(script)

    assert [step.error for step in result.steps] == [None] * 6
    assert result.success
    assert result.exit_status == ExitStatus(code=3)
    assert result.exit_code == 3
    assert result.output == "name? Ada\r\nHello, Ada\r\n\r\n"
    assert [step.step for step in result.steps] == list(script.steps)


def test_a_terminal_that_was_started_is_not_started_again(shell: Shell) -> None:
    terminal = shell("echo once; read line")
    terminal.start()
    pid = terminal.pid

    result = InteractionController(terminal).execute(script_of([{"wait": "once"}]))

    assert result.success
    assert terminal.pid == pid
    assert result.exit_status is None


def test_what_the_program_writes_is_with_the_step_during_which_it_came(shell: Shell) -> None:
    terminal = shell("stty -echo; printf 'é 1'; read a; printf 'é 2'; read b; printf 'é 3'")

    result = InteractionController(terminal).execute(
        script_of(
            [{"wait": "é 1"}, {"sendLine": ""}, {"wait": "é 2"}, {"delay": 0}, {"sendLine": ""}, {"waitForExit": 5}]
        )
    )

    heard = [step.output or "" for step in result.steps]
    assert heard[0] == "é 1"
    assert heard[1] + heard[2] == "é 2"
    assert heard[3] + heard[4] + heard[5] == "é 3"
    assert result.output == "".join(heard)


def test_what_came_before_the_controller_belongs_to_no_step(shell: Shell) -> None:
    terminal = shell("echo before; read line; echo after")
    terminal.start()
    terminal.wait_for("before\n")

    result = InteractionController(terminal).execute(script_of([{"sendLine": ""}, "waitForExit"]))

    assert "".join(step.output or "" for step in result.steps) == "\r\nafter\r\n"
    assert result.output == "before\r\n\r\nafter\r\n"


def test_after_a_failed_assertion_the_next_steps_are_still_tried(shell: Shell) -> None:
    terminal = shell("echo red; read line; echo blue")

    result = InteractionController(terminal).execute(
        script_of(
            [
                {"wait": "red"},
                {"assert": {"contains": "green"}},
                {"assert": {"contains": "yellow"}},
                {"assert": {"contains": "red"}},
                {"sendLine": ""},
                {"wait": "blue"},
            ]
        )
    )

    assert [step.success for step in result.steps] == [True, False, False, True, True, True]
    assert not result.success
    assert result.error == result.steps[1].error
    assert result.error_type is TerminalTestErrorType.ASSERTION_FAILED
    failed = result.steps[1].assertion
    assert failed is not None
    assert not failed.passed
    assert failed.expected == "green"


def test_after_any_other_failure_nothing_more_is_tried(shell: Shell) -> None:
    terminal = shell("echo red; read line")

    result = InteractionController(terminal).execute(
        script_of([{"wait": "red"}, {"wait": "blue", "timeout": 0}, {"sendLine": "never"}])
    )

    assert [step.success for step in result.steps] == [True, False]
    assert result.error_type is TerminalTestErrorType.TIMEOUT
    assert result.error is not None
    assert "'blue'" in result.error
    assert terminal.is_running


def test_a_program_that_cannot_be_started_is_a_failure_without_steps() -> None:
    terminal = TerminalEmulator("/there/is/no/such/program")

    result = InteractionController(terminal).execute(script_of([{"wait": "x"}]))

    assert not result.success
    assert result.steps == ()
    assert result.error_type is TerminalTestErrorType.PROCESS_START_FAILED
    assert "/there/is/no/such/program" in (result.error or "")


def test_a_killed_program_has_a_signal_and_no_exit_code(shell: Shell) -> None:
    result = InteractionController(shell("kill -TERM $$")).execute(script_of(["waitForExit"]))

    assert result.success
    assert result.exit_code is None
    assert result.exit_status is not None
    assert str(result.exit_status) == "SIGTERM"


def test_the_screen_is_compared_as_it_is_and_the_output_as_it_came(shell: Shell) -> None:
    terminal = shell(r"printf 'wrong\rright\n\033[1mbold\033[0m\n'; read line")

    result = InteractionController(terminal).execute(
        script_of(
            [
                {"wait": "bold\n"},
                {"assert": {"contains": "wrong"}},
                {"assert": {"contains": "\x1b[1mbold"}},
                {"assert": {"exact": "right\nbold"}, "subject": "screen"},
                {"assert": {"regex": "^right$"}, "subject": "screen"},
            ]
        )
    )

    assert [step.success for step in result.steps] == [True, True, True, True, False]


def test_keys_and_bytes_reach_the_program(shell: Shell) -> None:
    terminal = shell("stty raw -echo; printf ready; head -c 6 | od -An -tx1 -v")

    result = InteractionController(terminal).execute(
        script_of([{"wait": "ready"}, {"sendKey": "up"}, {"send": "é"}, {"sendKey": "ctrl+c"}, "waitForExit"])
    )

    assert result.success
    assert "1b 5b 41 c3 a9 03" in result.output


def test_a_step_may_be_done_alone_and_the_state_looked_at(shell: Shell) -> None:
    terminal = shell("echo ready; read line")
    controller = InteractionController(terminal)

    step = controller.execute_step(InteractionStep.wait(re.compile("rea")))

    assert step.success
    state = controller.get_terminal_state()
    assert state.running
    assert state.pid == terminal.pid


@pytest.mark.parametrize("scope", ["new", "all", "screen"])
def test_an_expression_that_would_be_searched_for_for_ever_is_a_timeout(
    shell: Shell, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.terminal.matching.options.SHORTEST_SEARCH", 0.1)
    terminal = shell(f"echo ready {'a' * 60}!; read line")
    hopeless = {"wait": {"regex": "(a|aa)+$", "timeout": 0, "scope": scope}}

    result = InteractionController(terminal).execute(
        script_of([{"wait": {"regex": "rea(d)y.*!", "scope": scope}}, {"wait": "\n", "scope": "all"}, hopeless])
        if scope != "new"
        else script_of([{"wait": {"regex": "rea(?=dy.*!)"}}, hopeless])
    )

    assert [step.success for step in result.steps][-2:] == [True, False]
    assert result.error_type is TerminalTestErrorType.TIMEOUT
    assert "a search for the pattern '(a|aa)+$' was given up after 0.1 s" in (result.error or "")


def test_a_script_takes_no_longer_than_its_limit(shell: Shell) -> None:
    terminal = shell("read line")
    terminal.start()

    result = InteractionController(terminal).execute(
        script_of([{"wait": "never", "timeout": 60}, {"delay": 1}]), TimeLimit(0.2)
    )

    assert [step.error_type for step in result.steps] == [TerminalTestErrorType.TIMEOUT]
    assert (result.error or "").startswith("the time limit of 0.2 s is over: timed out")
    assert 0.2 <= result.total_duration < 30


def test_a_pause_is_no_longer_than_the_limit_either(shell: Shell) -> None:
    terminal = shell("read line")
    terminal.start()

    result = InteractionController(terminal).execute(script_of([{"delay": 60}, {"sendLine": "x"}]), TimeLimit(0.2))

    assert [step.error for step in result.steps] == ["the time limit of 0.2 s is over: the pause was cut short"]
    assert 0.2 <= result.total_duration < 30


def test_no_step_is_begun_when_the_time_is_over(shell: Shell) -> None:
    result = InteractionController(shell("read line")).execute(script_of([{"sendLine": "x"}]), TimeLimit(0))

    assert [step.error for step in result.steps] == ["the time limit of 0 s is over: the step was not begun"]
    assert result.output == ""


class _CalledOff(TimeLimit):
    """Is called off when something pauses."""

    def pause(self, seconds: float) -> bool:
        threading.Timer(0.02, self.cancel).start()
        return super().pause(seconds)


def test_a_pause_ends_when_it_is_called_off(shell: Shell) -> None:
    limit = _CalledOff(60)

    result = InteractionController(shell("read line")).execute(script_of([{"delay": 50}, {"sendLine": "x"}]), limit)

    assert [step.error for step in result.steps] == ["cancelled: the pause was cut short"]
    assert limit.left == 0
    assert limit.is_cancelled


def test_requirement_10_2_the_times_of_steps_are_those_of_a_clock(shell: Shell) -> None:
    before = time.monotonic()

    result = InteractionController(shell("read line")).execute(script_of([{"delay": 0.1}, {"delay": 0.05}]))

    elapsed = time.monotonic() - before
    assert [step.duration >= wanted for step, wanted in zip(result.steps, (0.1, 0.05), strict=True)] == [True, True]
    assert sum(step.duration for step in result.steps) <= result.total_duration <= elapsed


def test_an_assertion_may_be_made_in_python(shell: Shell) -> None:
    options = AssertionOptions(type="regex", expected=re.compile("HELLO", re.IGNORECASE))
    controller = InteractionController(shell("echo hello"))

    results = [
        controller.execute_step(step) for step in (InteractionStep.wait_for_exit(), InteractionStep.expect(options))
    ]

    assert [result.success for result in results] == [True, True]
