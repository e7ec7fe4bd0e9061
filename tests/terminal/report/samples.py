"""Results to report: ordinary ones, and whatever results there can be."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from reenact.terminal.errors import TerminalTestErrorType
from reenact.terminal.matching.options import AssertionResult
from reenact.terminal.report.results import TestResult, TestSuiteResult

NASTY: Final = (
    "\x00",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b[",
    "\x9b1m",
    "]]>",
    "<script>alert(1)</script>",
    "\"&amp;'",
    "-->",
    "\r\n",
    "\r",
    "\ud800",
    "\udc80",
    "\ufffe",
    "\U0001fffe",
    "\u202e",
    "\u2028",
    "\x7f",
    "\x85",
    "漢字 🙂",
    "</pre>",
)

any_text = st.text(st.characters(exclude_categories=()), max_size=8)
texts = st.sampled_from(NASTY) | any_text | st.tuples(any_text, st.sampled_from(NASTY), any_text).map("".join)
durations = st.floats(min_value=0, max_value=1e6, allow_nan=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)

assertions = st.builds(
    AssertionResult,
    passed=st.booleans(),
    actual=texts,
    expected=values,
    type=st.sampled_from(["exact", "contains", "regex", "json", "jsonSchema"]),
    diff=st.none() | texts,
    message=st.none() | texts,
)
tests = st.builds(
    TestResult,
    name=texts,
    suite=texts,
    status=st.sampled_from(["passed", "failed", "skipped", "error"]),
    duration=durations,
    error=st.none() | texts,
    error_type=st.none() | st.sampled_from(TerminalTestErrorType),
    stack=st.none() | texts,
    output=st.none() | texts,
    screen=st.none() | texts,
    assertions=st.lists(assertions, max_size=2).map(tuple),
    attempts=st.integers(1, 3),
    attachments=st.lists(texts, max_size=2).map(tuple),
    reason=st.none() | texts,
)
suites = st.builds(
    TestSuiteResult,
    name=texts,
    tests=st.lists(tests, max_size=3).map(tuple),
    duration=durations,
    started=st.none() | st.floats(min_value=0, max_value=4e9),
)
results = st.lists(suites, max_size=3).map(tuple)


def passing(name: str = "it starts", duration: float = 0.0125) -> TestResult:
    return TestResult(name=name, suite="chat", status="passed", duration=duration)


def failing(name: str = "it greets", *, error: str = "waited 1 s for 'Hello'", output: str | None = None) -> TestResult:
    return TestResult(name=name, suite="chat", status="failed", duration=1.25, error=error, output=output)


def skipped(name: str = "it flies", reason: str = "no wings") -> TestResult:
    return TestResult(name=name, suite="chat", status="skipped", duration=0.0, reason=reason)


def broken(name: str = "it is set up") -> TestResult:
    return TestResult(
        name=name,
        suite="chat",
        status="error",
        duration=0.5,
        error="no room for a directory",
        error_type=TerminalTestErrorType.FIXTURE_SETUP_FAILED,
    )


def suite(*tests: TestResult, name: str = "chat", duration: float = 2.5) -> TestSuiteResult:
    return TestSuiteResult(name=name, tests=tests, duration=duration, started=1_700_000_000.0)
