"""Errors of terminal tests, by kind, each with the last of what the program showed."""

from __future__ import annotations

from enum import StrEnum
from functools import partial

from reenact.domain.errors import ReenactError
from reenact.terminal.text import plain_lines

_SHOWN = 2000


class TerminalTestErrorType(StrEnum):
    """The kinds of errors; the values are stable."""

    PTY_CREATE_FAILED = "PTY_CREATE_FAILED"
    PROCESS_START_FAILED = "PROCESS_START_FAILED"
    PROCESS_EXITED = "PROCESS_EXITED"
    """The program ended before what was waited for came."""
    TIMEOUT = "TIMEOUT"
    ASSERTION_FAILED = "ASSERTION_FAILED"
    FIXTURE_SETUP_FAILED = "FIXTURE_SETUP_FAILED"
    FIXTURE_TEARDOWN_FAILED = "FIXTURE_TEARDOWN_FAILED"
    SCRIPT_EXECUTION_ERROR = "SCRIPT_EXECUTION_ERROR"
    """A step cannot be carried out: it is not a step, or the terminal is not in a state for it."""
    INVALID_CONFIG = "INVALID_CONFIG"


class TerminalTestError(ReenactError):
    """An error of a terminal test: its `type`, what it is about, and in `seen` the last of what the program showed.

    In its text control characters are made visible, so that it can be printed; `message` and `seen` are as they are.
    """

    def __init__(
        self,
        type: TerminalTestErrorType,  # noqa: A002 - the name that the document gives it
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
        self.cause = cause
        self.seen = seen
        if cause is not None:
            self.__cause__ = cause


class WaitTimeoutError(TerminalTestError, TimeoutError):
    """What was waited for did not come in time (`TIMEOUT`). The process lives, unless its end was waited for."""

    def __init__(self, message: str, *, seen: str | None = None) -> None:
        super().__init__(TerminalTestErrorType.TIMEOUT, message, seen=seen)


class ExpectationError(TerminalTestError, AssertionError):
    """What is shown is not what was expected; `type` is `ASSERTION_FAILED`."""

    def __init__(self, message: str, *, seen: str | None = None) -> None:
        super().__init__(TerminalTestErrorType.ASSERTION_FAILED, message, seen=seen)


invalid = partial(TerminalTestError, TerminalTestErrorType.INVALID_CONFIG)
"""Makes the error for an argument, an option or a file that cannot be used."""
not_possible = partial(TerminalTestError, TerminalTestErrorType.SCRIPT_EXECUTION_ERROR)
"""Makes the error for a call that the present state does not allow."""
not_set_up = partial(TerminalTestError, TerminalTestErrorType.FIXTURE_SETUP_FAILED)
"""Makes the error for what could not be set up here and now."""
not_started = partial(TerminalTestError, TerminalTestErrorType.PROCESS_START_FAILED)
"""Makes the error for a program that could not be started."""


def _excerpt(seen: str) -> str:
    if not seen.strip():
        return "nothing was shown"
    if len(seen) <= _SHOWN:
        return f"this was shown:\n{seen}"
    return f"this was shown at last, of {len(seen)} characters:\n{seen[-_SHOWN:]}"
