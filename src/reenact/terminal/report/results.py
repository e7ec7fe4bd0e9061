"""The results of tests, their totals, and the parts of a failure that reports show. Times are in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import isfinite
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from reenact.terminal.errors import TerminalTestErrorType, invalid
from reenact.terminal.matching.options import AssertionResult
from reenact.terminal.text import one_line

Status: TypeAlias = Literal["passed", "failed", "skipped", "error"]
"""`error` means that the fixture or the harness failed, so that the program was not judged."""
FAILED: Final[frozenset[Status]] = frozenset({"failed", "error"})


class TestResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one test; if it was retried, the result of the last attempt."""

    __test__: ClassVar[bool] = False

    name: str
    suite: str
    status: Status
    duration: float
    error: str | None = None
    """Why the test failed."""
    error_type: TerminalTestErrorType | None = None
    """The kind of error, if it is one of ours."""
    stack: str | None = None
    """The traceback, if there is one."""
    output: str | None = None
    """The output of the program, with escape sequences; of a long one its end, with a first line that says so."""
    screen: str | None = None
    """The last screen, as text."""
    assertions: tuple[AssertionResult, ...] = ()
    attempts: int = 1
    attachments: tuple[str, ...] = ()
    """Paths of the files that were kept: recordings and pictures of the screen."""
    reason: str | None = None
    """Why the test was skipped."""


class TestSuiteResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the tests of a suite in their order; `duration` is the time from its start to its end."""

    __test__: ClassVar[bool] = False

    name: str
    tests: tuple[TestResult, ...]
    duration: float
    started: float | None = None
    """Seconds since the epoch."""

    @property
    def passed(self) -> int:
        """Number of tests that passed."""
        return self.count("passed")

    @property
    def failed(self) -> int:
        """Number of tests that failed."""
        return self.count("failed")

    @property
    def skipped(self) -> int:
        """Number of tests that were skipped."""
        return self.count("skipped")

    @property
    def errors(self) -> int:
        """Number of tests that ended with an error of the fixture or harness."""
        return self.count("error")

    def count(self, status: Status) -> int:
        """Return the number of tests with this status."""
        return sum(test.status == status for test in self.tests)


Results: TypeAlias = Sequence[TestSuiteResult]


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals over all suites; `duration` is the time in seconds from the first start to the last end."""

    tests: int
    passed: int
    failed: int
    errors: int
    skipped: int
    duration: float

    @property
    def success(self) -> bool:
        """Whether no test failed or had an error."""
        return not self.failed and not self.errors

    def __str__(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.errors} errors, {self.skipped} skipped"
        return f"{counts} in {_seconds(self.duration)} s"


def totals(results: Results) -> Totals:
    """Return the totals."""
    return Totals(
        tests=sum(len(suite.tests) for suite in results),
        passed=sum(suite.passed for suite in results),
        failed=sum(suite.failed for suite in results),
        errors=sum(suite.errors for suite in results),
        skipped=sum(suite.skipped for suite in results),
        duration=_duration(results),
    )


def _seconds(duration: float) -> str:
    """Return the seconds as a decimal number without an exponent: with milliseconds, or four digits below one."""
    return f"{duration:.3f}" if duration >= 1 else f"{Decimal(f'{duration:.4g}'):f}"


def duration_text(duration: float) -> str:
    """Return the duration for people: `1.25 s`, `12.3 ms`."""
    return f"{duration:.2f} s" if duration >= 1 else f"{Decimal(f'{duration * 1000:.3g}'):f} ms"


def shown_name(text: str) -> str:
    """Return the name on one line; a blank one has a word in its place, since JUnit has no empty names."""
    return one_line(text) if text.strip() else "unnamed"


def tried(test: TestResult) -> list[str]:
    """Return the note that the test was tried several times, if it was."""
    return [f"tried {test.attempts} times"] if test.attempts > 1 else []


def _duration(results: Results) -> float:
    """Return the duration of all suites, some of which may have run at the same time."""
    starts = [suite.started for suite in results if suite.started is not None]
    if not starts or len(starts) < len(results):
        return sum(suite.duration for suite in results)
    first = min(starts)
    return max(start - first + suite.duration for start, suite in zip(starts, results, strict=True))


_YEAR_10000 = 253_402_300_800


def without_unwanted(results: Results, *, include_output: bool, include_stack: bool) -> tuple[TestSuiteResult, ...]:
    """Return the results without the parts that are not wanted.

    Without output, all text of the program is removed: `output`, `screen`, and `actual` of assertions. Diffs stay.

    Raises:
        TerminalTestError: a time is not a number of seconds (`INVALID_CONFIG`).
    """
    for suite in results:
        _check(suite)
    return tuple(
        replace(suite, tests=tuple(_without_unwanted(test, include_output, include_stack) for test in suite.tests))
        for suite in results
    )


class Part(NamedTuple):
    """A part of the description of a failure."""

    title: str
    text: str
    kind: Literal["text", "diff", "screen", "output"] = "text"


def failure_parts(test: TestResult) -> Iterator[Part]:
    """Yield all parts of a failure: its reason, then failed assertions unless the reason already contains them."""
    why = test.error or "it is not known why"
    failed = [assertion for assertion in test.assertions if not assertion.passed]
    yield Part("why", why, "diff" if any(one.diff and one.diff in why for one in failed) else "text")
    for one in failed:
        if one.message and one.message not in why:
            yield Part(f"assertion ({one.type})", one.message)
        if one.diff and one.diff not in why:
            yield Part(f"what is different ({one.type})", one.diff, "diff")
    if test.stack:
        yield Part("where", test.stack)
    if test.screen is not None:
        yield Part("the last screen", test.screen, "screen")
    if test.output:
        yield Part("the output", test.output, "output")


def _without_unwanted(test: TestResult, include_output: bool, include_stack: bool) -> TestResult:  # noqa: FBT001 - as above
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
            raise invalid(
                f"the duration of {what} is {duration}; give the seconds that it took, 0 or more",
            )
    if suite.started is not None and not 0 <= suite.started < _YEAR_10000:
        raise invalid(
            f"the start of suite {suite.name!r} is {suite.started}; give seconds since 1970 in UTC, or None",
        )
