"""What became of tests: the results that every report is made from. Times are in seconds."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import msgspec

from reenact.terminal.errors import TerminalTestErrorType
from reenact.terminal.matching.options import AssertionResult

Status: TypeAlias = Literal["passed", "failed", "skipped", "error"]
"""`error`: the fixture or the harness failed, and nothing is known of the program."""


class TestResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one test; of one that was tried several times, what became of it at last."""

    __test__: ClassVar[bool] = False

    name: str
    suite: str
    status: Status
    duration: float
    error: str | None = None
    """Why it failed, in words."""
    error_type: TerminalTestErrorType | None = None
    """Of what kind that is, if it is one of ours."""
    stack: str | None = None
    """Where in the code, if that is known."""
    output: str | None = None
    """What the program showed, escape sequences and all."""
    screen: str | None = None
    """The last screen, as text."""
    assertions: tuple[AssertionResult, ...] = ()
    attempts: int = 1
    attachments: tuple[str, ...] = ()
    """Paths of files that were kept: recordings, pictures of the screen."""
    reason: str | None = None
    """Why it was skipped."""


class TestSuiteResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the tests of a suite, in their order; `duration` is the time from its start to its end."""

    __test__: ClassVar[bool] = False

    name: str
    tests: tuple[TestResult, ...]
    duration: float
    started: float | None = None
    """Seconds since the epoch."""

    @property
    def passed(self) -> int:
        """How many passed."""
        return self.count("passed")

    @property
    def failed(self) -> int:
        """How many failed."""
        return self.count("failed")

    @property
    def skipped(self) -> int:
        """How many were skipped."""
        return self.count("skipped")

    @property
    def errors(self) -> int:
        """How many could not be tried as they should."""
        return self.count("error")

    def count(self, status: Status) -> int:
        """Return how many have this status."""
        return sum(test.status == status for test in self.tests)
