"""A test case: a program, what is around it, a script, and how it is to end."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from reenact.terminal.config import TerminalSize
from reenact.terminal.fixture.options import FixtureOptions
from reenact.terminal.script.steps import InteractionScript


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
        timeout: seconds for the whole test; None for the configuration's.
        skip: it is not run; a text says why.
        only: of a run with such tests, only they are run.
        retries: how often it is tried again if it fails; None for what the run says.
        size: of the terminal; None for the configuration's.
    """

    name: str
    script: InteractionScript
    description: str | None = None
    category: TestCategory = TestCategory.INTERACTIVE
    fixture: FixtureOptions | None = None
    command: tuple[str, ...] = ()
    cli_args: tuple[str, ...] = ()
    expected_exit_code: int | None = None
    timeout: float | None = None
    skip: bool | str = False
    only: bool = False
    retries: int | None = None
    size: TerminalSize | None = None
