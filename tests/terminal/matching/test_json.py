"""JSON compared with what was expected: strictly, and by structure."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal import AssertionMatcher, AssertionOptions
from reenact.terminal.matching import jsons

Plain: TypeAlias = "bool | int | float | Decimal | str | list[Plain] | dict[str, Plain] | None"

matcher = AssertionMatcher()
judge = matcher.assert_

numbers: st.SearchStrategy[Plain] = st.sampled_from(
    (0, 1, -1, 2, 10, 0.0, 1.0, 0.1, 1e2, 1e22, 2**53, 2**53 + 1, float(2**53), 10**400)
) | st.floats(allow_nan=False, allow_infinity=False)
scalars: st.SearchStrategy[Plain] = st.none() | st.booleans() | numbers | st.text('a"\\é\x1b', max_size=2)
names: st.SearchStrategy[str] = st.text("ab", max_size=1)
values: st.SearchStrategy[Plain] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


def same(one: Plain, other: Plain) -> bool:
    """Whether two values are the same JSON: by what they are, and numbers by what they are worth when written down."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float) and bool not in (type(one), type(other)):
        return Fraction(str(one)) == Fraction(str(other))
    return type(one) is type(other) and one == other


@given(values, values)
def test_json_is_equal_exactly_if_its_structure_is(actual: Plain, expected: Plain) -> None:
    written = json.dumps([actual])

    assert matcher.json_match(written, [actual]).passed
    assert matcher.json_match(written, json.dumps([actual], indent=1, ensure_ascii=False)).passed
    assert matcher.json_match(written, [expected]).passed == same(actual, expected)
    assert matcher.json_match(written, json.dumps([expected])).passed == same(actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ("1", 1.0),
        ("1.0", 1),
        ("1e2", 100),
        ("-0", 0),
        ("0.1", 0.1),
        ("0.1", Decimal("0.10")),
        ("1e400", 10**400),
        ("1e400", "1" + "0" * 400),
        ("9" * 10_000, "9" * 10_000),
        ('{"a": 1, "b": 2}', {"b": 2, "a": 1}),
        ("[1, [2]]", (1, (2,))),
        (' \r\n\t"a"\r\n', '"a"'),
        ('"\\u00e9"', '"é"'),
        ("null", None),
        ("null", "null"),
    ],
)
def test_what_means_the_same_is_equal(actual: str, expected: object) -> None:
    assert matcher.json_match(actual, expected).passed


@pytest.mark.parametrize(
    ("actual", "expected", "difference"),
    [
        ("1", True, "$: true is expected, 1 is there"),
        ("false", 0, "$: 0 is expected, false is there"),
        ('"1"', 1, '$: 1 is expected, "1" is there'),
        ("null", {}, "$: an object with 0 members is expected, null is there"),
        ("[1]", {"0": 1}, "$: an object with 1 member is expected, an array with 1 element is there"),
        ("9007199254740993", 9007199254740992.0, "$: 9007199254740992 is expected, 9007199254740993 is there"),
        ("0.10000000000000001", 0.1, "$: 0.1 is expected, 0.10000000000000001 is there"),
        ("1e-400", 0, "$: 0 is expected, 1E-400 is there"),
        ('{"a": {"b": [1, {"c": null}]}}', {"a": {"b": [1, {"c": 2}]}}, "$.a.b[1].c: 2 is expected, null is there"),
        ('{"a b": 1}', {"a b": 2}, '$["a b"]: 2 is expected, 1 is there'),
        ('{"a": 1}', {"b": 1}, '$: "b" is missing'),
        ('{"a": 1}', {}, '$: "a" is there, and not expected'),
        ("[1, 2]", [1], "$: an array with 1 element is expected, an array with 2 elements is there"),
        ("[2]", [1, 1], "$[0]: 1 is expected, 2 is there"),
    ],
)
def test_a_difference_is_told_with_its_path(actual: str, expected: object, difference: str) -> None:
    result = matcher.json_match(actual, expected)

    assert not result.passed
    assert f"\n  {difference}" in (result.message or "")
    assert result.diff is not None


def test_every_difference_is_told_but_for_very_many() -> None:
    expected = {"list": list(range(30)), "name": "a"}

    few = matcher.json_match('{"list": 1, "name": "b"}', expected)
    many = matcher.json_match(json.dumps({"list": [None] * 30, "name": "a"}), expected)

    assert (few.message or "").count("\n") == 2
    assert (many.message or "").endswith("$.list[19]: 19 is expected, null is there\n  … and 10 more")


def test_the_diff_is_of_the_values_however_they_were_written() -> None:
    result = matcher.json_match('{"b": 1.0, "a": [2, 30.0]}', '{"a": [2, 3e1], "b": 2}')

    assert result.diff == '--- expected\n+++ actual\n@@ -3,5 +3,5 @@\n     2,\n     30\n   ],\n-  "b": 2\n+  "b": 1\n }'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty"),
        (" \r\n", "it is empty"),
        ("NaN", "NaN is not JSON"),
        ("[Infinity]", "Infinity is not JSON"),
        ("-Infinity", "-Infinity is not JSON"),
        ('{"a": 1, "b": {"c": 1, "c": 1}}', 'an object has the name "c" twice'),
        ("1 2", "line 1, column 3: Extra data, at '2'"),
        ("{}\n$ ", "line 2, column 1: Extra data"),
        ("[1;]", "line 1, column 3"),
        ("{'a': 1}", "line 1, column 2"),
        ("01", "Extra data"),
        ("+1", "Expecting value"),
        ("1.", "Extra data"),
        (".5", "Expecting value"),
        ("\u0661", "Expecting value"),
        ('"\t"', "control character"),
        ("\ufeff1", "BOM"),
        ("\x1b[1m1", "at '\\x1b[1m1'"),
        ("[" * 100_000, "nested too deep"),
        ("1e99999999999999999999", "exponent too large"),
    ],
)
def test_what_is_not_strict_json_is_a_failed_result_that_says_where(text: str, problem: str) -> None:
    actual = matcher.json_match(text, 1)
    expected = matcher.json_match("1", text)

    assert not actual.passed
    assert not expected.passed
    assert (actual.message or "").startswith("the text is not JSON: ")
    assert (expected.message or "").startswith("what is expected is not JSON: ")
    assert problem.lower() in (actual.message or "").lower()
    assert problem.lower() in (expected.message or "").lower()


def circular() -> list[object]:
    inside: list[object] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ({"a": [float("nan")]}, "$.a[0]: the number nan has no form in JSON"),
        ({"a": {1: 2}}, "$.a: a name in an object is of type int, and must be str"),
        ({"a": date(2026, 1, 1)}, "$.a: a value of type date has no form in JSON"),
        (b"1", "$: a value of type bytes has no form in JSON"),
        (Decimal("inf"), "$: the number Infinity has no form in JSON"),
        (circular(), "contains itself"),
    ],
)
def test_an_expected_value_that_is_no_json_is_a_failed_result_that_says_where(expected: object, problem: str) -> None:
    result = matcher.json_match("1", expected)

    assert not result.passed
    assert problem in (result.message or "")


def test_sequences_can_be_taken_out_of_json_and_case_and_white_space_count() -> None:
    actual = '\x1b[32m{\x1b[0m"a": "B  c"}\r\n'

    def passes(expected: object, *, strip_ansi: bool) -> bool:
        options = AssertionOptions(
            type="json", expected=expected, strip_ansi=strip_ansi, ignore_case=True, ignore_whitespace=True
        )
        return judge(actual, options).passed

    assert passes({"a": "B  c"}, strip_ansi=True)
    assert passes('\x1b[1m{"a": "B  c"}', strip_ansi=True)
    assert not passes({"a": "b c"}, strip_ansi=True)
    assert not passes({"a": "B  c"}, strip_ansi=False)


def test_values_deeper_than_the_stack_are_compared_and_told_of_briefly() -> None:
    deep: jsons.JSON = []
    deeper: jsons.JSON = [True]
    for _ in range(50_000):
        deep, deeper = [deep], [deeper]

    assert list(jsons.differences(deep, deep)) == []
    assert all(told.endswith("with 1 element is there") for told in jsons.differences(deep, deeper))
    assert jsons.pretty(deep) == "an array with 1 element"
    with pytest.raises(RecursionError):
        jsons.compact(deep)


def test_json_may_be_nested_deep() -> None:
    deep = "[" * 900 + "]" * 900

    assert matcher.json_match(deep, deep).passed
    assert not matcher.json_match(deep, "[" * 900 + "1" + "]" * 900).passed
