"""What is shown of a difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal import AssertionMatcher, AssertionOptions
from reenact.terminal.matching.matcher import most_similar, unified

matcher = AssertionMatcher()
judge = matcher.assert_


def lines_of(diff: str, sign: str) -> list[str]:
    return [line[1:] for line in diff.split("\n")[2:] if line.startswith(sign)]


def test_requirement_4_6_a_failed_assertion_says_where_the_texts_differ_and_shows_it() -> None:
    result = matcher.exact_match("one\ntwo\nthree\nfour\n", "one\ntwo\nthird\nfour\n")

    assert result.message == "the text is not the expected one, first in line 3, column 3"
    assert result.diff == ("--- expected\n+++ actual\n@@ -1,4 +1,4 @@\n one\n two\n-third\n+three\n four")


@pytest.mark.parametrize(
    ("expected", "actual", "shown"),
    [
        ("a b", "a\tb", ["-a·b", "+a\\tb"]),
        ("a\n", "a", ["-a\\n", "+a"]),
        ("a\n", "a\r\n", ["-a\\n", "+a\\r\\n"]),
        ("a ", "a", ["-a·", "+a"]),
        ("a b", "a\xa0b", ["-a·b", "+a\\xa0b"]),
        ("a\n\n", "a\n", ["-\\n"]),
        ("red", "\x1b[31mred", ["-red", "+\\x1b[31mred"]),
        ("e\u0301", "é", ["-e\\u0301", "+\\xe9"]),
        ("ab", "a\u200bb", ["-ab", "+a\\u200bb"]),
        ("a\ud800", "a", ["-a\\ud800", "+a"]),
    ],
)
def test_requirement_4_6_what_is_not_seen_is_made_visible_where_it_differs(
    expected: str, actual: str, shown: list[str]
) -> None:
    diff = unified(expected, actual)

    assert [line for line in diff.split("\n")[3:] if line[0] in "+-"] == shown


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_a_diff_takes_the_expected_lines_to_the_actual_ones(old: list[str], new: list[str]) -> None:
    diff = unified("".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new))

    removed, added = lines_of(diff, "-"), lines_of(diff, "+")
    assert sorted(old + added) == sorted(new + removed)
    assert (not removed and not added) == (old == new)


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 0), (1, 0), (0, 1), (5, 5), (300, 300)],
    ids=["only", "last", "first", "inside", "far inside"],
)
def test_a_diff_says_which_lines_it_shows(start: int, end: int) -> None:
    before = [f"before {number}\n" for number in range(start)]
    behind = [f"behind {number}\n" for number in range(end)]

    diff = unified("".join([*before, "old\n", *behind]), "".join([*before, "new\n", "newer\n", *behind]))

    above, below = min(start, 3), min(end, 3)
    assert diff.split("\n") == [
        "--- expected",
        "+++ actual",
        f"@@ -{start - above + 1},{above + 1 + below} +{start - above + 1},{above + 2 + below} @@",
        *(f" {line[:-1]}" for line in before[start - above :]),
        "-old",
        "+new",
        "+newer",
        *(f" {line[:-1]}" for line in behind[:below]),
    ]


def test_lines_that_differ_only_in_what_does_not_count_are_no_difference() -> None:
    options = AssertionOptions(
        type="exact", expected="One  two\n\nthree\nfour", ignore_case=True, ignore_whitespace=True
    )

    diff = judge("one two\nTHREE\n  five", options).diff or ""

    assert lines_of(diff, "-") == ["four"]
    assert lines_of(diff, "+") == ["  five"]


def test_of_the_text_the_part_is_shown_that_is_most_like_what_it_should_contain() -> None:
    lines = [f"line {number}" for number in range(1000)]
    lines[700:702] = ["the third step failed", "see the log"]

    result = matcher.contains_match("\n".join(lines), "the first step failed\nsee the log")

    assert result.diff is not None
    assert "@@ -1,2 +701,2 @@" in result.diff
    assert lines_of(result.diff, "-") == ["the first step failed"]
    assert lines_of(result.diff, "+") == ["the third step failed"]


@pytest.mark.parametrize(
    ("expected", "actual", "nearest"),
    [
        ("", "a", ("a", 1)),
        ("a", "", ("", 1)),
        ("\nb", "a\nb\n", ("a\nb", 1)),
        ("b\nc", "b\nx\nb\nc\n", ("b\nc", 3)),
    ],
)
def test_what_resembles_a_text_has_as_many_lines(expected: str, actual: str, nearest: tuple[str, int]) -> None:
    assert most_similar(expected, actual) == nearest


def test_a_pattern_that_is_not_found_is_shown_with_the_end_of_the_text() -> None:
    result = matcher.regex_match("".join(f"line {number}\n" for number in range(100)), r"line \d{3}")

    assert result.diff is not None
    assert result.diff.startswith("--- pattern\n+++ actual\n-line \\d{3}\n… 81 lines before\n+line 81\n")
    assert result.message == "the pattern 'line \\d{3}' is not found in the text"


HUGE = [
    ("x" * 1_500_000 + "a", "x" * 1_500_000 + "b"),
    ("ab" * 1_000_000, "ba" * 1_000_000),
    ("same\n" * 200_000 + "old\n" + "same\n" * 200_000, "same\n" * 400_000),
    ("".join(f"{number}\n" for number in range(100_000)), "".join(f"{7 * number}\n" for number in range(100_000))),
    ("a\nb\n" * 100_000, "b\na\n" * 100_000),
    ("\n" * 500_000, " \n" * 500_000),
    ("red", "\x1b[31m" * 500_000),
]


@pytest.mark.no_cover
@pytest.mark.timeout(30)
@pytest.mark.parametrize(("expected", "actual"), HUGE, ids=range(len(HUGE)))
@pytest.mark.parametrize("kind", ["exact", "contains"])
def test_requirement_4_6_the_diff_of_huge_texts_is_short(kind: str, expected: str, actual: str) -> None:
    match = matcher.exact_match if kind == "exact" else matcher.contains_match

    result = match(actual, expected)

    assert not result.passed
    assert result.diff is not None
    assert lines_of(result.diff, "-") or lines_of(result.diff, "+")
    assert len(result.diff) < 150_000
    assert len(result.message or "") < 2_000


def test_a_diff_that_leaves_lines_out_says_how_many() -> None:
    diff = unified("a\n" * 1000, "b\n" * 500)

    assert diff.endswith("… not compared: 801 more lines of what is expected, 301 of what is there")
