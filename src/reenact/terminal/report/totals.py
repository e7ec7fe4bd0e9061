"""How many tests there were, what became of them, and how long they took, in figures and in words."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import msgspec

from reenact.terminal.report.results import TestSuiteResult


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


def totals(results: Sequence[TestSuiteResult]) -> Totals:
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


def _duration(results: Sequence[TestSuiteResult]) -> float:
    """Return the time that all suites took, of which some may have run at the same time."""
    starts = [suite.started for suite in results if suite.started is not None]
    if not starts or len(starts) < len(results):
        return sum(suite.duration for suite in results)
    first = min(starts)
    return max(start - first + suite.duration for start, suite in zip(starts, results, strict=True))
