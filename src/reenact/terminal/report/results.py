"""The results of tests, which every report is made from, their sums, and what of them is reported. Times in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import isfinite
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from reenact.terminal.errors import TerminalTestErrorType, invalid
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


Results: TypeAlias = Sequence[TestSuiteResult]


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The sums over all suites; `duration` in seconds, from the start of the first to the end of the last."""

    tests: int
    passed: int
    failed: int
    errors: int
    skipped: int
    duration: float

    @property
    def success(self) -> bool:
        """Whether no test failed, and every one could be tried."""
        return not self.failed and not self.errors

    def __str__(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.errors} errors, {self.skipped} skipped"
        return f"{counts} in {_seconds(self.duration)} s"


def totals(results: Results) -> Totals:
    """Return the sums."""
    return Totals(
        tests=sum(len(suite.tests) for suite in results),
        passed=sum(suite.passed for suite in results),
        failed=sum(suite.failed for suite in results),
        errors=sum(suite.errors for suite in results),
        skipped=sum(suite.skipped for suite in results),
        duration=_duration(results),
    )


def _seconds(duration: float) -> str:
    """Return the seconds as a decimal number without an exponent: milliseconds, or four digits if it is below one."""
    return f"{duration:.3f}" if duration >= 1 else f"{Decimal(f'{duration:.4g}'):f}"


def spoken(duration: float) -> str:
    """Return the time for people: `1.25 s`, `12.3 ms`."""
    return f"{duration:.2f} s" if duration >= 1 else f"{Decimal(f'{duration * 1000:.3g}'):f} ms"


def _duration(results: Results) -> float:
    """Return the time that all suites took, of which some may have run at the same time."""
    starts = [suite.started for suite in results if suite.started is not None]
    if not starts or len(starts) < len(results):
        return sum(suite.duration for suite in results)
    first = min(starts)
    return max(start - first + suite.duration for start, suite in zip(starts, results, strict=True))


_YEAR_10000 = 253_402_300_800


def selected(results: Results, *, include_output: bool, include_stack: bool) -> tuple[TestSuiteResult, ...]:
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


class Part(NamedTuple):
    """A part of what is known of a failure."""

    title: str
    text: str
    kind: Literal["text", "diff", "screen", "output"] = "text"


def account(test: TestResult) -> Iterator[Part]:
    """Yield all that is known of a failure: why, then failed assertions as far as that does not tell them already."""
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
            raise invalid(
                f"the duration of {what} is {duration}; give the seconds that it took, 0 or more",
            )
    if suite.started is not None and not 0 <= suite.started < _YEAR_10000:
        raise invalid(
            f"the start of suite {suite.name!r} is {suite.started}; give seconds since 1970 in UTC, or None",
        )
