"""Errors of terminal tests by kind, each with the end of what the program showed."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from operator import methodcaller

from reenact.domain.errors import ReenactError
from reenact.terminal.text import plain_lines

_SHOWN = 2000


class TerminalTestErrorType(StrEnum):
    """The kinds of errors; their values are stable."""

    PTY_CREATE_FAILED = "PTY_CREATE_FAILED"
    PROCESS_START_FAILED = "PROCESS_START_FAILED"
    PROCESS_EXITED = "PROCESS_EXITED"
    """The program ended before the awaited output or state was seen."""
    TIMEOUT = "TIMEOUT"
    ASSERTION_FAILED = "ASSERTION_FAILED"
    FIXTURE_SETUP_FAILED = "FIXTURE_SETUP_FAILED"
    FIXTURE_TEARDOWN_FAILED = "FIXTURE_TEARDOWN_FAILED"
    SCRIPT_EXECUTION_ERROR = "SCRIPT_EXECUTION_ERROR"
    """A step cannot be executed: it is invalid, or the terminal's state does not allow it."""
    INVALID_CONFIG = "INVALID_CONFIG"


class TerminalTestError(ReenactError):
    """An error of a terminal test: its `type`, its message, and in `seen` the end of what the program showed.

    `str(error)` shows control characters as escapes, so that it can be printed; `message` and `seen` are unchanged.
    """

    def __init__(
        self,
        type: TerminalTestErrorType,  # noqa: A002 - the attribute's name in the specification
        message: str,
        cause: BaseException | None = None,
        *,
        seen: str | None = None,
    ) -> None:
        shown = "" if seen is None else f"\n{_excerpt(seen)}"
        super().__init__(plain_lines(f"{message}{shown}"))
        self.type = type
        self.code = type.value.lower()
        self.message = message
        self.seen = seen
        if cause is not None:
            self.__cause__ = cause

    @property
    def cause(self) -> BaseException | None:
        """The exception that caused it, if there is one."""
        return self.__cause__


class WaitTimeoutError(TerminalTestError, TimeoutError):
    """What was awaited did not come in time (`TIMEOUT`). The process still runs, unless its end was awaited."""

    def __init__(self, message: str, *, seen: str | None = None) -> None:
        super().__init__(TerminalTestErrorType.TIMEOUT, message, seen=seen)


class ExpectationError(TerminalTestError, AssertionError):
    """The output is not what was expected; `type` is `ASSERTION_FAILED`."""

    def __init__(self, message: str, *, seen: str | None = None) -> None:
        super().__init__(TerminalTestErrorType.ASSERTION_FAILED, message, seen=seen)


invalid = partial(TerminalTestError, TerminalTestErrorType.INVALID_CONFIG)
"""Creates the error for an invalid argument, option or file."""
not_possible = partial(TerminalTestError, TerminalTestErrorType.SCRIPT_EXECUTION_ERROR)
"""Creates the error for a call that the current state does not allow."""
not_set_up = partial(TerminalTestError, TerminalTestErrorType.FIXTURE_SETUP_FAILED)
"""Creates the error for a fixture that could not be set up on this machine."""
not_started = partial(TerminalTestError, TerminalTestErrorType.PROCESS_START_FAILED)
"""Creates the error for a program that could not be started."""


is_kit_error = methodcaller("errisinstance", (TerminalTestError, OSError))
"""As `__tracebackhide__` of a module, hides the module's frames when pytest shows one of these errors.

The cause of a `TerminalTestError` may be an `OSError`. Any other error is unforeseen, and is shown with all frames.
"""


def _excerpt(seen: str) -> str:
    if not seen.strip():
        return "nothing was shown"
    if len(seen) <= _SHOWN:
        return f"this was shown:\n{seen}"
    return f"this was shown at last, of {len(seen)} characters:\n{seen[-_SHOWN:]}"
