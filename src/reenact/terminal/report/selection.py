"""What of the results goes into a report, and what is no result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Final

from msgspec.structs import replace

from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.matching.options import AssertionResult
from reenact.terminal.report.results import TestResult, TestSuiteResult

_YEAR_10000: Final = 253_402_300_800


def selected(
    results: Sequence[TestSuiteResult], *, include_output: bool, include_stack: bool
) -> tuple[TestSuiteResult, ...]:
    """Return the results without what is not wanted.

    Without output, what the program showed goes: `output`, `screen`, what assertions were about. Diffs stay.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: a time is not a number of seconds.
    """
    for suite in results:
        _check(suite)
    return tuple(
        replace(suite, tests=tuple(_selected(test, include_output, include_stack) for test in suite.tests))
        for suite in results
    )


def failures(suite: TestSuiteResult) -> tuple[TestResult, ...]:
    """Return the tests that did not pass, and were not skipped."""
    return tuple(test for test in suite.tests if test.status in {"failed", "error"})


def unsaid(test: TestResult) -> Iterator[tuple[AssertionResult, str | None, str | None]]:
    """Yield each failed assertion, with its message and its diff as far as the error does not hold them already."""
    said = test.error or ""
    for assertion in test.assertions:
        if not assertion.passed:
            message, diff = (None if not text or text in said else text for text in (assertion.message, assertion.diff))
            if message is not None or diff is not None:
                yield assertion, message, diff


def holds_a_diff(test: TestResult) -> bool:
    """Return whether the diff of an assertion is a part of the error."""
    return any(assertion.diff and assertion.diff in (test.error or "") for assertion in test.assertions)


def _selected(test: TestResult, include_output: bool, include_stack: bool) -> TestResult:  # noqa: FBT001 - as above
    if not include_output:
        assertions = tuple(replace(assertion, actual="") for assertion in test.assertions)
        test = replace(test, output=None, screen=None, assertions=assertions)
    return test if include_stack else replace(test, stack=None)


def _check(suite: TestSuiteResult) -> None:
    for what, duration in (
        (f"suite {suite.name!r}", suite.duration),
        *((f"test {test.name!r}", test.duration) for test in suite.tests),
    ):
        if not (isfinite(duration) and duration >= 0):
            raise TerminalTestError(
                TerminalTestErrorType.INVALID_CONFIG,
                f"the duration of {what} is {duration}; give the seconds that it took, 0 or more",
            )
    if suite.started is not None and not 0 <= suite.started < _YEAR_10000:
        raise TerminalTestError(
            TerminalTestErrorType.INVALID_CONFIG,
            f"the start of suite {suite.name!r} is {suite.started}; give seconds since 1970 in UTC, or None",
        )
