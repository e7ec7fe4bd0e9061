"""Regular expressions that come as text."""

from __future__ import annotations

import re
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal import AssertionMatcher, AssertionOptions
from reenact.terminal.matching.options import BadPatternError, Expression, SlowSearchError

BACKTRACKING = "(a|aa)+$"
LONG = "a" * 60 + "!"

ATOMS = r"""
    a b ß . \d \w \s \b ^ $ [a-c] [^a{] []}] \. { } {s} {e<=1} {,} {1 x{0} (?=a) (?<!b) (?i:A) (?:) \Z \x61 \{
"""
atoms = st.sampled_from(ATOMS.split())
quantifiers = st.sampled_from(("", "", "", "*", "+", "?", "{2}", "{1,2}", "{,1}", "*?", "{1,}?", "?+"))
patterns = st.recursive(
    st.tuples(atoms, quantifiers).map("".join),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map("".join)
        | st.tuples(inner, inner).map("|".join)
        | inner.map(lambda one: f"({one})")
    ),
    max_leaves=5,
)


@given(
    patterns, st.text("aAbßs1{}e \n", max_size=8), st.integers(0, 3), st.sampled_from((0, re.IGNORECASE, re.MULTILINE))
)
def test_an_expression_finds_what_python_does(pattern: str, text: str, pos: int, flags: re.RegexFlag) -> None:
    try:
        compiled = re.compile(pattern, flags)
    except re.error:
        with pytest.raises(BadPatternError, match="is not a regular expression"):
            Expression(pattern, flags)
        return

    expected, found = compiled.search(text, pos), Expression(pattern, flags).search(text, pos)

    assert (None if found is None else found.end()) == (None if expected is None else expected.end())


@pytest.mark.parametrize("pattern", ["(", "*", r"\h", "(?<n>a)", "a(?i)b", "(?L)a"])
def test_what_python_does_not_take_is_refused(pattern: str) -> None:
    with pytest.raises(BadPatternError, match="is not a regular expression"):
        Expression(pattern)


def test_a_search_that_would_not_end_is_given_up_and_other_threads_run_meanwhile() -> None:
    over = threading.Event()
    ticks: list[float] = []
    ran: list[float] = []

    def run_beside() -> None:
        while not over.wait(0.01):
            ticks.append(time.monotonic())

    beside = threading.Thread(target=run_beside)
    beside.start()
    try:
        for seconds in (0.2, 2, 20):  # on a busy machine, the other thread may have to wait for its turn
            begun = time.monotonic()
            with pytest.raises(SlowSearchError, match=rf"'\(a\|aa\)\+\$' was given up after {seconds} s"):
                Expression(BACKTRACKING).search(LONG, seconds=seconds)
            ran = [tick for tick in [*ticks] if begun + seconds / 10 < tick < begun + seconds]
            if ran:
                break
    finally:
        over.set()
        beside.join()

    assert ran


def test_a_pattern_that_would_not_end_is_a_failed_result() -> None:
    options = AssertionOptions(type="regex", expected=BACKTRACKING)

    result = AssertionMatcher().assert_(LONG, options, seconds=0.1)  # noqa: PT009 - no unittest

    assert not result.passed
    assert "was given up after 0.1 s; it tries too many ways" in (result.message or "")
