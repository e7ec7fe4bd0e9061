"""A search finds which characters belong to matches, as trying everything does, in time that grows with the text."""

from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.domain.errors import ConfigurationError
from reenact.domain.policy.expressions import Search
from tests.examples import examples

PATTERNS = [
    "ab+c",
    "a|ab*c",
    "(ab|ba){2}",
    "a.c",
    "[ab]{2,3}c",
    "a(b|c)*a",
    "abc",
    "x?ab",
    "(?i)AB",
    "(?i:a)b",
    r"a\.c|b",
    "(a*b*)*c",
    "c",
]


def tried(pattern: str, text: str) -> set[int]:
    """Return the characters of all matches, found by trying every part of the text."""
    expression = re.compile(pattern)
    found: set[int] = set()
    for begin in range(len(text)):
        for end in range(begin + 1, len(text) + 1):
            if expression.fullmatch(text[begin:end]):
                found.update(range(begin, end))
    return found


@settings(max_examples=examples(200))
@given(pattern=st.sampled_from(PATTERNS), text=st.text("abcxB.", max_size=10))
def test_what_is_found_is_what_can_be_found(pattern: str, text: str) -> None:
    spans = Search(pattern).spans(text)

    assert {at for begin, end in spans for at in range(begin, end)} == tried(pattern, text)
    assert all(begin < end for begin, end in spans)
    assert all(one[1] < other[0] for one, other in pairwise(spans))


@pytest.mark.parametrize(
    ("pattern", "text", "spans"),
    [
        (r"\bab\b", "ab cab ab-ab xab", [(0, 2), (7, 9), (10, 12)]),
        (r"\bab\b", "ab ab", [(0, 2), (3, 5)]),
        ("^a", "aa", [(0, 1)]),
        ("a$", "aa", [(1, 2)]),
        ("a$", "aa\n", [(1, 2)]),
        (r"a\Z", "ab a", [(3, 4)]),
        (r"\Ba", "a ba", [(3, 4)]),
        (r"a|\bb?", "cab b", [(1, 2), (4, 5)]),
        ("4[0-9]{3}", "4111 1 4222", [(0, 4), (7, 11)]),
        ("a", "", []),
    ],
)
def test_where_something_stands_matters(pattern: str, text: str, spans: list[tuple[int, int]]) -> None:
    assert Search(pattern).spans(text) == spans


def test_a_text_that_would_take_others_years_takes_no_time() -> None:
    search = Search("(a|aa)+b?c")
    text = "a" * 5_000 + "c" + "a" * 5_000

    begun = time.process_time()
    spans = search.spans(text)

    assert spans == [(0, 5_001)]
    assert time.process_time() - begun < 20


def test_what_is_known_of_many_texts_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.domain.policy.expressions._MAX_CACHED", 3)

    assert Search("[a-z]+[0-9]").spans("ab1 cd ef2 x") == [(0, 3), (7, 10)]


@pytest.mark.parametrize("pattern", ["a*", "", "a?|b", "(", "(?=a)b"])
def test_what_matches_nothing_or_cannot_be_read_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError):
        Search(pattern)
