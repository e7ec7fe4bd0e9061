"""Test cases: a program, its fixture, a script, and how the program is to end."""

from __future__ import annotations

import signal
from enum import StrEnum
from typing import Final

import msgspec

from reenact.terminal.config import LONGEST, TerminalSize, is_time
from reenact.terminal.errors import invalid
from reenact.terminal.fixture.options import FixtureOptions
from reenact.terminal.script.steps import InteractionScript
from reenact.terminal.text import described

_LARGEST_CODE: Final = 255


class TestCategory(StrEnum):
    """What a test is about."""

    __test__ = False

    INTERACTIVE = "interactive"
    NON_INTERACTIVE = "non-interactive"
    SESSION = "session"
    EXTENSION = "extension"
    ERROR = "error"
    CI = "ci"


class TerminalTestCase(msgspec.Struct, frozen=True, kw_only=True):
    """A test.

    Attributes:
        command: the program and its first arguments; empty for the configuration's `cliCommand`.
        cli_args: more arguments.
        expected_exit_code: the script ends with waiting for the end of the program, which is to be this one.
        expected_signal: likewise; the program is to be ended by the signal of this name, as `SIGTERM`.
        timeout: seconds for the whole test; None for the configuration's.
        skip: it is not run; a text says why.
        only: of a run with such tests, only they are run.
        retries: how often it is tried again if it fails; None for what the run says.
        size: of the terminal; None for the configuration's.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: a value cannot be.
    """

    name: str
    script: InteractionScript
    description: str | None = None
    category: TestCategory = TestCategory.INTERACTIVE
    fixture: FixtureOptions | None = None
    command: tuple[str, ...] = ()
    cli_args: tuple[str, ...] = ()
    expected_exit_code: int | None = None
    expected_signal: str | None = None
    timeout: float | None = None
    skip: bool | str = False
    only: bool = False
    retries: int | None = None
    size: TerminalSize | None = None

    def __post_init__(self) -> None:
        if problem := _problem_of(self):
            raise invalid(problem)


def _problem_of(case: TerminalTestCase) -> str | None:
    if not case.name.strip():
        return "the name of the test is empty"
    if case.timeout is not None and not (is_time(case.timeout) and case.timeout > 0):
        return f"timeout is a number of seconds above 0, {LONGEST:,} (a day) at most, not {described(case.timeout)}"
    if case.retries is not None and case.retries < 0:
        return f"retries is 0 or more, not {described(case.retries)}"
    if any("\0" in word for word in (*case.command, *case.cli_args)):
        return "no program takes NUL in its name or in an argument"
    if case.expected_exit_code is not None and not 0 <= case.expected_exit_code <= _LARGEST_CODE:
        code = described(case.expected_exit_code)
        return f"expectedExitCode is from 0 to {_LARGEST_CODE}, not {code}; for a signal there is expectedSignal"
    if case.expected_signal is not None and case.expected_signal not in signal.Signals.__members__:
        return f"expectedSignal is the name of a signal, as SIGTERM, not {described(case.expected_signal)}"
    if case.expected_signal is not None and case.expected_exit_code is not None:
        return "a program ends with an exit code or by a signal; give expectedExitCode or expectedSignal"
    return None
