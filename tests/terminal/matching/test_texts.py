"""Texts compared exactly, by what is in them, and by pattern; with and without sequences, case and white space."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, Literal, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reenact.terminal import (
    ANSIParser,
    AssertionMatcher,
    AssertionOptions,
    AssertionResult,
    ExpectationError,
    TerminalTestErrorType,
)
from reenact.terminal.matching.options import AssertionType
from tests.terminal.ansi.streams import sequences, wild
from tests.terminal.raising import raises

matcher = AssertionMatcher()
judge = matcher.assert_
Flag: TypeAlias = Literal["strip_ansi", "ignore_case", "ignore_whitespace"]

texts = st.text(st.sampled_from("aAbSs ßẞ\u017f\u212aΣςé\u0301ŉ.+*[(\\^$|#-\t\n\r\x1c\xa0\u3000"), max_size=8)
"""Texts that are often alike, of characters that are hard to fold and to escape."""


ANSI: Final[set[Flag]] = {"strip_ansi"}
CASE: Final[set[Flag]] = {"ignore_case"}
SPACE: Final[set[Flag]] = {"ignore_whitespace"}


def judged(kind: AssertionType, actual: str, expected: object, flags: Collection[Flag] = ()) -> AssertionResult:
    options = AssertionOptions(
        type=kind,
        expected=expected,
        strip_ansi="strip_ansi" in flags,
        ignore_case="ignore_case" in flags,
        ignore_whitespace="ignore_whitespace" in flags,
    )
    return judge(actual, options)


def simply_folded(text: str, flags: Collection[Flag]) -> str:
    if "ignore_whitespace" in flags:
        text = re.sub(r"\s+", " ", text).strip()
    return text.casefold() if "ignore_case" in flags else text


folding: st.SearchStrategy[set[Flag]] = st.sets(st.sampled_from(("ignore_case", "ignore_whitespace")))
flags_of_all: st.SearchStrategy[set[Flag]] = st.sets(
    st.sampled_from(("strip_ansi", "ignore_case", "ignore_whitespace"))
)


@given(texts, texts, texts, folding)
@example("Straße", "", "STRASSE", {"ignore_case"})
@example("", "", "Straßenstraße", {"ignore_case"})
@example("a \n b", "", "a b", {"ignore_whitespace"})
@example("a", "", " ", {"ignore_whitespace"})
def test_property_10_assertion_matching_correctness(before: str, behind: str, expected: str, flags: set[Flag]) -> None:
    """Property 10: Assertion Matching Correctness (requirements 4.1, 4.2, 4.4)."""
    for actual in (expected, before, before + expected + behind, expected.upper(), expected + " "):
        new, old = simply_folded(actual, flags), simply_folded(expected, flags)
        is_in = any(new.startswith(old, at) for at in range(len(new) + 1))

        assert judged("exact", actual, expected, flags).passed == (new == old)
        assert judged("contains", actual, expected, flags).passed == is_in
        assert judged("regex", actual, re.escape(expected), flags).passed == is_in


@given(st.lists(st.text("ab \n", max_size=4), min_size=1, max_size=4), st.lists(sequences, min_size=4, max_size=4))
def test_property_12_ansi_comparison_modes(parts: list[str], between: list[str]) -> None:
    """Property 12: ANSI Comparison Modes (requirements 4.5)."""
    actual = "".join(part + sequence for part, sequence in zip(parts, between, strict=False))
    plain = "".join(parts)

    assert judged("exact", actual, plain, ANSI).passed
    assert judged("exact", plain, actual, ANSI).passed
    assert judged("contains", actual, plain, ANSI).passed
    assert judged("regex", actual, f"^{re.escape(plain)}$", ANSI).passed
    assert not judged("exact", actual, plain).passed
    assert not judged("exact", plain, actual).passed
    assert not judged("regex", actual, f"^{re.escape(plain)}$").passed
    assert judged("exact", actual, actual).passed


@given(wild, wild)
def test_requirement_4_5_stripped_texts_are_compared_or_raw_ones(one: str, other: str) -> None:
    strip = ANSIParser().strip

    assert judged("exact", one, other).passed == (one == other)
    assert judged("exact", one, other, ANSI).passed == (strip(one) == strip(other))
    assert judged("contains", one, other, ANSI).passed == (strip(other) in strip(one))


def test_requirement_4_1_an_exact_match_is_of_the_whole_text() -> None:
    assert matcher.exact_match("one\r\n", "one\r\n").passed
    assert not matcher.exact_match("one\r\n", "one\n").passed
    assert not matcher.exact_match("one two", "one").passed
    assert not matcher.exact_match("One", "one").passed


def test_requirement_4_2_a_pattern_is_found_anywhere_in_the_text() -> None:
    assert matcher.regex_match("3 errors\n", r"\d+ error").passed
    assert matcher.regex_match("3 errors\n", re.compile(r"ERRORS$", re.IGNORECASE | re.MULTILINE)).passed
    assert not matcher.regex_match("no errors\n", r"\d+ error").passed


def test_requirement_4_4_a_text_is_contained_as_it_is() -> None:
    assert matcher.contains_match("a [b] c", "[b]").passed
    assert matcher.contains_match("anything", "").passed
    assert not matcher.contains_match("a [b] c", "[c]").passed


@pytest.mark.parametrize(
    ("actual", "pattern", "found"),
    [
        ("a  b", "a b", True),
        ("a b", "a   b", True),
        ("a\r\n\tb", r"a\nb", True),
        ("a b", r"a\s\s+b", True),
        ("a b", r"a\n{2,}b", True),
        ("ab", r"a\s*\n?b", True),
        ("ab", r"a\s+b", False),
        ("  a  ", " a ", True),
        ("  a  ", "^  a  $", True),
        ("  a  ", r"\A\s+a\s+\Z", True),
        ("a b", "[^ ]", True),
        ("a", r"a(?P<name> )?$", True),
        ("a b", r"a\\\sb", False),
        (r"a\ b", r"a\\\sb", True),
        ("a b", r"a(?# a comment)\ b", True),
        ("a b", r"(?<=\s{0}a) b", True),
    ],
)
def test_white_space_in_a_pattern_stands_for_any_white_space(*, actual: str, pattern: str, found: bool) -> None:
    assert judged("regex", actual, pattern, SPACE).passed is found
    assert judged("regex", actual, re.compile(pattern), SPACE).passed is found


@pytest.mark.parametrize("pattern", ["a  # a first [ letter\n\\ b", "(?x) a \\  b", "(?x: a \\  b )"])
def test_only_escaped_white_space_counts_in_a_verbose_pattern(pattern: str) -> None:
    compiled = re.compile(pattern, 0 if "?x" in pattern else re.VERBOSE)

    assert judged("regex", "a \n b", compiled, SPACE).passed
    assert not judged("regex", "ab", compiled, SPACE).passed


@pytest.mark.parametrize(
    ("actual", "pattern", "found"),
    [
        ("STRASSE", "straße", True),
        ("Straße", "STRASSE", True),
        ("STRASSES", "(ß)e[A-Z]$", True),
        ("STRASSSS", "stra(?P<größe>ß)(?P=größe)", True),
        ("STRASSE", "(?#ß)straße", True),
        ("STRASS", "straß{2}", False),
        ("STRASSSS", "straß{2}", True),
        ("STRASSE", r"stra\xdfe", True),
        ("STRASSE", r"STRA\u1e9eE", True),
        ("É", r"^\U000000c9$", True),
        ("é", r"[\xc9]", True),
        (r"a\xdf", r"\\xdf", True),
        ("a", r"\x41", True),
        ("a", "(?-i:A)", False),
        ("A", "(?-i:A)", True),
        ("ß", "(?-i:ß)", True),
        ("ẞ", "[ß]", True),
        ("SS", "^[ß]$", True),
        ("ÄÖ", "[ä]ö", True),
        ("ÄÖ", r"\Wö", False),
        ("a B", r"\SAB|A\sb", True),
    ],
)
def test_a_pattern_is_looked_for_in_any_case(*, actual: str, pattern: str, found: bool) -> None:
    assert judged("regex", actual, pattern, CASE).passed is found
    assert judged("regex", actual, re.compile(pattern), CASE).passed is found


def test_the_flags_of_a_compiled_pattern_stay() -> None:
    assert judged("regex", "x\nA\ny", re.compile("^a$", re.MULTILINE), CASE).passed
    assert not judged("regex", "x\nA\ny", re.compile("^a$"), CASE).passed


@pytest.mark.parametrize("options", [CASE, SPACE])
def test_an_ascii_pattern_finds_only_ascii_words(options: Collection[Flag]) -> None:
    assert judged("regex", "a b", re.compile(r"^a\s\w$", re.ASCII), options).passed
    assert not judged("regex", "a é", re.compile(r"^a\s\w$", re.ASCII), options).passed
    assert judged("regex", "ß", re.compile("ß", re.ASCII), options).passed


def test_sequences_are_not_taken_out_of_a_pattern() -> None:
    pattern = re.escape("\x1b[31m") + "red"

    assert judged("regex", "\x1b[31mred", pattern).passed
    assert not judged("regex", "\x1b[31mred", pattern, ANSI).passed


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "unterminated subpattern"),
        ("(" * 50_000, "not a regular expression"),
        ("a{99999999999999}", "not a regular expression"),
        ("[[a]", "nested set"),
        ("(?<=a+)b", "look-behind"),
        (3, "for regex, expected must be a pattern, as a str or compiled from one, not int"),
        (None, "not NoneType"),
        (b"a", "not bytes"),
        (re.compile(b"a"), "not a compiled pattern of bytes"),
    ],
)
@pytest.mark.parametrize("flags", [ANSI, CASE | SPACE], ids=["as it is", "folded"])
def test_a_bad_pattern_is_a_failed_result_that_says_why(pattern: object, problem: str, flags: set[Flag]) -> None:
    result = judged("regex", "text", pattern, flags)

    assert not result.passed
    assert problem in (result.message or "")


@pytest.mark.parametrize("kind", ["exact", "contains"])
@pytest.mark.parametrize("expected", [None, 1, b"a", ["a"], re.compile("a")])
def test_what_is_no_text_is_a_failed_result_that_says_what_to_give(kind: AssertionType, expected: object) -> None:
    result = judged(kind, "a", expected)

    assert not result.passed
    assert f"for {kind}, expected must be a str" in (result.message or "")
    assert ("type regex" in (result.message or "")) == isinstance(expected, re.Pattern)


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.binary() | wild | st.builds(object) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers() | wild | st.none(), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from(("exact", "contains", "regex", "json", "jsonSchema")),
    wild | st.sampled_from(("1", '{"a": [1]}')),
    anything,
    flags_of_all,
)
def test_whatever_is_expected_there_is_a_result_with_a_message_and_nothing_invisible_in_it(
    kind: AssertionType, actual: str, expected: object, flags: set[Flag]
) -> None:
    result = judged(kind, actual, expected, flags)

    assert (result.actual, result.type) == (actual, kind)
    assert result.passed == (not result.message)
    told = f"{result.message}\n{result.diff}"
    assert all(line.replace("\t", "").isprintable() for line in told.split("\n"))


@pytest.mark.parametrize(
    ("actual", "options", "problem"),
    [
        (b"a", AssertionOptions(type="exact", expected="a"), "decode bytes first"),
        ("a", "a", "must be AssertionOptions"),
        ("a", AssertionOptions(type="like", expected="a"), "one of exact, contains"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - that is the mistake
    ],
)
def test_what_cannot_be_compared_at_all_is_the_callers_mistake(
    actual: str, options: AssertionOptions, problem: str
) -> None:
    with raises(TerminalTestErrorType.INVALID_CONFIG, problem):
        judge(actual, options)


def test_check_raises_what_assert_returns() -> None:
    options = AssertionOptions(type="exact", expected="two\n")

    with pytest.raises(ExpectationError) as raised:
        matcher.check("one\n", options)

    assert "-two\n+one" in str(raised.value)
    assert raised.value.seen == "one\n"
    assert raised.value.type is TerminalTestErrorType.ASSERTION_FAILED
    assert matcher.check("two\n", options).passed


def test_a_result_has_the_texts_as_given_and_a_pattern_as_text() -> None:
    result = judged("regex", "\x1b[1mA", re.compile("b"), {"strip_ansi", "ignore_case"})

    assert (result.actual, result.expected) == ("\x1b[1mA", "b")
