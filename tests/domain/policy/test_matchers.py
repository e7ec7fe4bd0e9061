"""What matches what: values, beginnings, wildcards, regular expressions."""

from __future__ import annotations

import random
import re
import time
from typing import Any, TypeAlias

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reenact.domain.errors import ConfigurationError
from reenact.domain.plain import Json
from reenact.domain.policy.expressions import Expression
from reenact.domain.policy.matchers import Matcher, exact, glob, prefix, ready, regex
from reenact.domain.policy.patterns import Match, MatchContext, alternatives, fits, is_one, part, parts

Unchecked: TypeAlias = Any
"""What the types would forbid."""

YES, PARTLY, NO = Match.YES, Match.PARTLY, Match.NO


def match(matcher: Matcher, value: object) -> Match:
    return ready(matcher)(value, MatchContext()).match


@pytest.mark.parametrize(
    ("wanted", "value", "found"),
    [
        (None, None, YES),
        (None, False, NO),
        (None, 0, NO),
        (True, True, YES),
        (True, 1, NO),
        (1, True, NO),
        (0, False, NO),
        (1, 1, YES),
        (1, 1.0, PARTLY),
        (1.0, 1, PARTLY),
        (1, 2, NO),
        (2**80, 2**80, YES),
        (1.5, 1.5, YES),
        (1, "1", NO),
        ("1", 1, NO),
        ("a", "a", YES),
        ("a", "A", NO),
        ("", "", YES),
        ("a", None, NO),
        ([], [], YES),
        ([], {}, NO),
        ([1, [2]], [1, [2]], YES),
        ([1, [2]], [1, [2.0]], PARTLY),
        ([1, 2], [2, 1], NO),
        ([1], [1, 2], NO),
        ({}, {}, YES),
        ({"a": 1, "b": True}, {"b": True, "a": 1}, YES),
        ({"a": 1, "b": True}, {"b": 1, "a": 1}, NO),
        ({"a": 1.0}, {"a": 1}, PARTLY),
        ({"a": 1}, {"a": 1, "b": 2}, NO),
        ({"a": 1}, [["a", 1]], NO),
    ],
)
def test_a_value_is_equal_as_json_is(wanted: Json, value: object, found: Match) -> None:
    assert match(exact(wanted), value) is found


def test_the_beginning_of_a_text_is_compared_as_it_is() -> None:
    assert match(prefix("/srv/"), "/srv/../etc") is YES
    assert match(prefix("/srv/"), "/SRV/a") is NO
    assert match(prefix(""), "") is YES


@pytest.mark.parametrize(
    ("pattern", "fitting", "unfitting"),
    [
        ("*", ["", "a", "a/b\nc"], []),
        ("a*c", ["ac", "abc", "a\nc", "abcc"], ["abcd", "xac", "AC"]),
        ("a**c", ["ac", "abc"], ["a"]),
        ("*a*b*", ["ab", "xaxbx", "bab"], ["ba", "a", "b"]),
        ("a?c", ["abc", "a\nc"], ["ac", "abbc"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx", "^x"], ["ax"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]]x", ["]x"], ["x"]),
        ("[.|&~]", [".", "|", "&", "~"], ["a"]),
        ("[", ["["], [""]),
        ("a]", ["a]"], ["a"]),
        ("{a,b}.{py,txt}", ["a.py", "b.txt"], ["a.", "c.py", "{a,b}.py"]),
        ("{a,{b,c}}", ["a", "b", "c"], [",", "{b"]),
        ("{a}", ["{a}"], ["a"]),
        ("a{,b}", ["a", "ab"], ["b"]),
        (r"\*", ["*"], ["a", r"\*"]),
        (r"\{a,b}", ["{a,b}"], ["a"]),
        ("a\\", ["a\\"], ["a"]),
        ("a.c", ["a.c"], ["abc"]),
        ("", [""], ["a"]),
    ],
)
def test_wildcards_fit_a_whole_text(pattern: str, fitting: list[str], unfitting: list[str]) -> None:
    assert [text for text in fitting if match(glob(pattern), text) is not YES] == []
    assert [text for text in unfitting if match(glob(pattern), text) is not NO] == []


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=10))
def test_wildcards_mean_the_same_as_trying_everything(pattern: str, text: str) -> None:
    def tried(wanted: str, given: str) -> bool:
        if not wanted:
            return not given
        if wanted[0] == "*":
            return tried(wanted[1:], given) or (bool(given) and tried(wanted, given[1:]))
        return bool(given) and wanted[0] in {"?", given[0]} and tried(wanted[1:], given[1:])

    assert is_one(part(pattern), text) == tried(pattern, text)


@given(st.lists(st.sampled_from(["**", "a", "b", "*"]), max_size=6), st.lists(st.sampled_from("ab"), max_size=7))
def test_any_number_of_names_means_the_same_as_trying_everything(pattern: list[str], names: list[str]) -> None:
    def tried(wanted: list[str], given: list[str]) -> bool:
        if not wanted:
            return not given
        if wanted[0] == "**":
            return tried(wanted[1:], given) or (bool(given) and tried(wanted, given[1:]))
        return bool(given) and wanted[0] in {"*", given[0]} and tried(wanted[1:], given[1:])

    assert fits(parts(pattern), names) == tried(pattern, names)


def test_wildcards_take_bounded_time() -> None:
    began = time.process_time()

    assert match(glob("*a" * 50 + "b"), "a" * 100_000) is NO

    assert time.process_time() - began < 5


def test_there_are_not_too_many_alternatives() -> None:
    assert len(alternatives("{a,b}" * 8)) == 256
    with pytest.raises(ConfigurationError, match="more than 256 alternatives"):
        alternatives("{a,b}" * 9)


ATOMS = [
    "a",
    "b",
    "A",
    "_",
    ".",
    "[ab]",
    "[^a]",
    "[]a]",
    r"\w",
    r"\s",
    r"\n",
    r"\.",
    r"\x61",
    r"\141",
    "é",
    "{",
    "}",
    "]",
]
PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\Z"]
REPEATS = ["*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "{,}", "*?", "+?", "??", "{1,2}?"]
expressions = st.recursive(
    st.sampled_from(ATOMS + PLACES),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(REPEATS)).map(lambda one: f"(?:{one[0]}){one[1]}"),
        inner.map(lambda one: f"({one})"),
        inner.map(lambda one: f"(?i:{one})"),
        inner.map(lambda one: f"(?s-i:{one})"),
    ),
    max_leaves=8,
)


@given(
    st.sampled_from(["", "(?i)", "(?s)", "(?is)"]),
    expressions,
    st.lists(st.text("abAé_ \n.{]", max_size=6), max_size=6),
)
def test_an_expression_matches_what_python_matches(flags: str, pattern: str, texts: list[str]) -> None:
    expression, told = Expression(flags + pattern), re.compile(flags + pattern)

    for text in texts:
        assume(text or r"\B" not in pattern)  # whether nothing has no edge is another matter in each version of Python
        assert expression.fullmatch(text) == (told.fullmatch(text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(a|a)*b", "a" * 100_000),
        (r"(a*)*b", "a" * 100_000),
        (r"(\w+\s?)*", "word " * 19_000 + "!"),
        (r".*a.*b.*c.*d", "abc" * 33_000),
        (r"(.*,)*x", "," * 100_000),
    ],
)
def test_no_text_makes_an_expression_run_for_ever(pattern: str, text: str) -> None:
    began = time.process_time()

    assert match(regex(pattern), text) is NO

    assert time.process_time() - began < 5


def test_an_expression_with_very_many_states_forgets_some_of_them() -> None:
    chance = random.Random(5)
    text = "".join(chance.choice("ab") for _ in range(20_000))

    expression = Expression("(a|b)*a(a|b){13}")

    assert expression.fullmatch(text) == (text[-14] == "a")
    assert expression.fullmatch(text[:-3]) == (text[-17] == "a")


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        "(?<!a)b",
        r"(a)\1",
        "(?P<x>a)(?P=x)",
        "a*+",
        "a++",
        "(?>a)",
        "(?m)^a",
        "(?x)a",
        "(?#a)",
        "(?a)a",
    ],
)
def test_what_cannot_be_matched_in_bounded_time_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be matched in bounded time"):
        Expression(pattern)


@pytest.mark.parametrize(
    "pattern", ["(", "a{2,1}", "[z-a]", "*", "(?P<1>a)", "\\", "(" * 5_000 + ")" * 5_000, "a{99999999999}"]
)
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a regular expression"):
        Expression(pattern)


@pytest.mark.parametrize("pattern", ["a{3000}", "(a{100}){100}", "((a{0,20}){0,20}){0,20}"])
def test_an_expression_that_is_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="too large"):
        Expression(pattern)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("^a$", ["a"], ["", "ba"]),
        ("a$\n", ["a\n"], ["a\n\n"]),
        ("a$\n\n", [], ["a\n\n"]),
        (r"\Aa\Z", ["a"], ["a\n"]),
        (r"a\b.", ["a "], ["ab", "a_", "aé"]),
        (r"a\B.", ["ab", "a1"], ["a-"]),
        (r".\bb", ["-b"], ["ab"]),
        ("a^b", [], ["ab"]),
        ("(?i)straße|É", ["STRAßE", "é"], ["strasse"]),
    ],
)
def test_a_place_between_characters_is_looked_at(pattern: str, matching: list[str], others: list[str]) -> None:
    assert [text for text in matching if not Expression(pattern).fullmatch(text)] == []
    assert [text for text in others if Expression(pattern).fullmatch(text)] == []


def test_a_named_group_is_a_group() -> None:
    assert match(regex(r"(?P<year>\d{4})-(\d\d)"), "2025-07") is YES
    assert match(regex("a|b"), "ab") is NO


@pytest.mark.parametrize("wanted", [prefix, glob, regex])
def test_a_pattern_that_is_no_text_is_refused(wanted: Unchecked) -> None:
    with pytest.raises(ConfigurationError, match=f"{wanted.__name__.lower()} must be a text, not 5"):
        ready(wanted(5))
