"""JSON checked against schemas."""

from __future__ import annotations

import json
import operator
import socket
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal import AssertionMatcher, AssertionOptions
from reenact.terminal.matching import jsons
from reenact.terminal.matching.options import Expression

Plain: TypeAlias = "bool | int | float | Decimal | str | list[Plain] | dict[str, Plain] | None"

matcher = AssertionMatcher()
judge = matcher.assert_

OLD = "http://json-schema.org/draft-04/schema#"
KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")


small: st.SearchStrategy[Plain] = st.integers(-3, 3)
LONG = ("0.30000000000000001", "0.99999999999999999999", "1.00000000000000000001", "12345678901234567890.5")
SHORT = ("0.07", "4.35", "-0.14", "1.10", "0.3", "1e2", "1e-400", "1e400", "3e400")
fractions: st.SearchStrategy[Plain] = st.sampled_from((0.5, 1.0)) | st.sampled_from([*map(Decimal, LONG + SHORT)])
numbers = small | fractions
steps: st.SearchStrategy[Plain] = st.sampled_from((1, 2, 3, 0.5, Decimal("0.01"), Decimal("0.07"), Decimal("1e-400")))


def any_scalar() -> st.SearchStrategy[Plain]:
    return st.none() | st.booleans() | numbers | st.text("ab", max_size=3)


scalars = any_scalar()
names: st.SearchStrategy[str] = st.text(st.sampled_from("abc"), min_size=1, max_size=1)
values: st.SearchStrategy[Plain] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=5
)
Rules: TypeAlias = dict[str, st.SearchStrategy[Plain]]
ALONE: Rules = {
    "type": st.sampled_from(KINDS),
    "enum": st.lists(scalars, min_size=1, max_size=3),
    "const": scalars,
    "minimum": numbers,
    "maximum": numbers,
    "exclusiveMinimum": numbers,
    "exclusiveMaximum": numbers,
    "multipleOf": steps,
    "uniqueItems": st.booleans(),
    "minLength": st.integers(0, 2),
    "maxItems": st.integers(0, 2),
    "required": st.lists(names, max_size=2, unique=True).map(list[Plain]),
}


def larger(inner: st.SearchStrategy[Plain]) -> st.SearchStrategy[Plain]:
    optional: Rules = {
        **ALONE,
        "items": inner,
        "properties": st.dictionaries(names, inner, max_size=2),
        "not": inner,
        "anyOf": st.lists(inner, min_size=1, max_size=2),
    }
    return st.fixed_dictionaries(NONE, optional=optional)


NONE: Rules = {}
schemas: st.SearchStrategy[Plain] = st.recursive(
    st.booleans() | st.fixed_dictionaries(NONE, optional=ALONE), larger, max_leaves=4
)
"""Schemas of a part of the language that can be checked in a few lines."""


def kinds_of(value: Plain) -> set[str]:
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case int() | float() | Decimal():
            return {"number", "integer"} if Fraction(value).denominator == 1 else {"number"}
        case str():
            return {"string"}
        case list():
            return {"array"}
        case dict():
            return {"object"}


def conforms(value: Plain, schema: Plain) -> bool:
    """Whether the value conforms, by the plainest reading of the rules."""
    return all(holds(rule, of, value) for rule, of in schema.items()) if isinstance(schema, dict) else bool(schema)


def same(one: Plain, other: Plain) -> bool:
    """Whether two values are equal in JSON, in which 1 is 1.0 and not true."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return kinds_of(one) == kinds_of(other) and one == other


def written(value: Plain) -> str:
    """Return the value as JSON, with numbers as they are."""
    match value:
        case list():
            return f"[{', '.join(map(written, value))}]"
        case dict():
            return f"{{{', '.join(f'{json.dumps(name)}: {written(member)}' for name, member in value.items())}}}"
        case Decimal():
            return str(value)
        case _:
            return json.dumps(value)


OF_NUMBERS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
    "multipleOf": lambda number, of: (number / of).denominator == 1,
}


def number_of(value: Plain) -> Fraction | None:
    return Fraction(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None


def holds(rule: str, of: Plain, value: Plain) -> bool:
    if rule in OF_NUMBERS:
        number, other = number_of(value), number_of(of)
        return number is None or other is None or OF_NUMBERS[rule](number, other)
    if rule == "anyOf" and isinstance(of, list):
        return any(conforms(value, one) for one in of)
    return holds_of_others(rule, of, value)


def holds_of_others(rule: str, of: Plain, value: Plain) -> bool:
    match rule, of, value:
        case "type", str(), _:
            return of in kinds_of(value)
        case "enum", list(), _:
            return any(same(allowed, value) for allowed in of)
        case "const", _, _:
            return same(of, value)
        case "uniqueItems", bool(), list():
            return not of or not any(same(one, other) for at, one in enumerate(value) for other in value[:at])
        case "minLength", int(), str():
            return len(value) >= of
        case "maxItems", int(), list():
            return len(value) <= of
        case "required", list(), dict():
            return all(name in value for name in of)
        case "items", _, list():
            return all(conforms(element, of) for element in value)
        case "properties", dict(), dict():
            return all(conforms(value[name], of[name]) for name in of if name in value)
        case "not", _, _:
            return not conforms(value, of)
        case _:
            return True


@given(values, schemas)
def test_property_11_json_schema_validation(value: Plain, schema: Plain) -> None:
    """Property 11: JSON Schema Validation (requirements 4.3)."""
    result = matcher.json_schema_match(written(value), schema)
    as_text = matcher.json_schema_match(written(value), written(schema))

    assert result.passed == conforms(value, schema)
    assert as_text.passed == result.passed
    assert result.passed == (not result.message)


@given(values)
def test_requirement_4_3_a_value_conforms_to_a_schema_of_itself_and_to_no_other_constant(value: Plain) -> None:
    assert matcher.json_schema_match(written(value), {"const": value}).passed
    assert not matcher.json_schema_match(written(value), {"const": [value]}).passed


def test_requirement_4_3_every_violation_is_told_with_its_path_and_its_rule() -> None:
    schema = {
        "properties": {"name": {"type": "string"}, "steps": {"items": {"minimum": 1}}},
        "required": ["name", "id"],
    }

    result = matcher.json_schema_match('{"name": 1, "steps": [1, 0, {}, -1]}', schema)

    assert sorted((result.message or "").split("\n")) == [
        "  $.name: 1 is not of type 'string'",
        "  $.steps[1]: 0 is less than the minimum of 1",
        "  $.steps[3]: -1 is less than the minimum of 1",
        "  $: 'id' is a required property",
        "the JSON does not conform to the schema:",
    ]
    assert '@@ $.name @@\n-{"type": "string"}\n+1' in (result.diff or "")


def test_why_no_alternative_holds_is_told() -> None:
    schema = {"anyOf": [{"type": "integer"}, {"properties": {"a": {"type": "integer"}}}]}

    result = matcher.json_schema_match('{"a": "b"}', schema)

    assert "alternative 0: $: {'a': 'b'} is not of type 'integer'" in (result.message or "")
    assert "alternative 1: $.a: 'b' is not of type 'integer'" in (result.message or "")


@pytest.mark.parametrize("rule", ["anyOf", "oneOf"])
def test_an_alternative_that_allows_nothing_is_told_with_its_number(rule: str) -> None:
    schema = {"items": {rule: [{"type": "integer"}, False]}}

    result = matcher.json_schema_match('["b"]', schema)

    assert "alternative 0: $[0]: 'b' is not of type 'integer'" in (result.message or "")
    assert "alternative 1: $[0]: False schema does not allow 'b'" in (result.message or "")


@pytest.mark.parametrize(
    ("actual", "schema", "place"),
    [
        ('{"a": 1}', {"properties": {"a": False}}, "$.a"),
        ('[{"a": 1}]', {"items": {"patternProperties": {"a": False}}}, "$[0].a"),
        ("[1]", {"prefixItems": [False]}, "$[0]"),
        ("[1]", {"allOf": [False]}, "$"),
        ("[1]", False, "$"),
    ],
)
def test_a_value_that_may_not_be_there_is_told_with_its_place(actual: str, schema: object, place: str) -> None:
    result = matcher.json_schema_match(actual, schema)

    assert f"{place}: False schema does not allow" in (result.message or "")


def test_very_many_violations_are_counted() -> None:
    result = matcher.json_schema_match(json.dumps(list(range(1000))), {"items": {"type": "string"}})

    assert (result.message or "").endswith("  … and 800 more")


def test_of_more_than_very_many_violations_only_some_are_looked_for() -> None:
    result = matcher.json_schema_match(f"[{'0, ' * 20_000}0]", {"items": {"type": "string"}})

    assert (result.message or "").endswith("  … and at least 5,000 more")


def test_whether_elements_are_unique_is_known_in_time_that_grows_with_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []

    def counted(value: object) -> str:
        seen.append(value)
        return jsons.compact(value)

    monkeypatch.setattr("reenact.terminal.matching.schema.compact", counted)
    unique = written([{"a": number} for number in range(1000)])

    assert matcher.json_schema_match(unique, {"uniqueItems": True}).passed
    assert len(seen) == 1000
    assert not matcher.json_schema_match('[{"a": 1, "b": 2}, {"b": 2.0, "a": 1}]', {"uniqueItems": True}).passed


@pytest.mark.parametrize(
    ("number", "schema", "conforms"),
    [
        ("0.07", {"multipleOf": 0.01}, True),
        ("4.35", {"multipleOf": 0.01}, True),
        ("4.355", {"multipleOf": 0.01}, False),
        ("1e308", {"multipleOf": 0.123456789}, False),
        ("1e999999999", {"multipleOf": 7}, False),
        ("7e999999999", {"multipleOf": 7}, True),
        ("7e-999999999", {"multipleOf": 7}, False),
        ("0", {"multipleOf": 7}, True),
        ("9" * 10_000, {"multipleOf": 3}, True),
        ("0.99999999999999999999", {"exclusiveMaximum": 1}, True),
        ("1e-400", {"exclusiveMinimum": 0}, True),
        ("0.30000000000000001", {"const": 0.3}, False),
        ("12345678901234567890.5", {"type": "integer"}, False),
        ("12345678901234567891.0", {"const": 12345678901234567891}, True),
        ("1.00000000000000000001", {"type": "integer"}, False),
        ("1e5000", {"type": "integer", "minimum": 10**400}, True),
        ("[1e5000, 1e5001]", {"uniqueItems": True}, True),
        ('"a"', {"maxLength": Decimal("1e5000")}, True),
        ("1.0", {"$schema": OLD, "type": "integer"}, False),
        ("1", {"$schema": OLD, "type": "integer"}, True),
        ("0.07", {"$schema": "http://json-schema.org/draft-03/schema#", "divisibleBy": 0.01}, True),
        ("1", {"$schema": OLD, "minimum": 1, "exclusiveMinimum": True}, False),
        ("0.5", {"$ref": "#/$defs/a", "$defs": {"a": {"$id": "urn:a", "$schema": OLD, "multipleOf": 0.1}}}, True),
        ("1.0", {"$ref": "#/$defs/a", "$defs": {"a": {"$id": "urn:a", "$schema": OLD, "type": "integer"}}}, False),
    ],
)
def test_numbers_are_exact_and_of_any_size(number: str, schema: object, *, conforms: bool) -> None:
    assert matcher.json_schema_match(number, schema).passed is conforms


@pytest.mark.parametrize(
    ("text", "schema", "conforms"),
    [
        ("a", {"pattern": "^a$"}, True),
        ("a\n", {"pattern": "^a$"}, False),
        ("a$", {"pattern": r"^a[$]$"}, True),
        ("a$", {"pattern": r"^a\$$"}, True),
        ({"a\n": 1}, {"patternProperties": {"^a$": False}}, True),
        ({"a\n": 1}, {"patternProperties": {"^a$": True}, "additionalProperties": False}, False),
        ({"a": 1, "b": 1}, {"patternProperties": {"^a$": {"const": 1}}, "additionalProperties": False}, False),
        ({"a": 1, "b": 1}, {"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, False),
        ({"a": 1, "b": 1}, {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}, True),
    ],
)
def test_a_dollar_in_a_pattern_is_the_end_of_the_text(text: object, schema: object, *, conforms: bool) -> None:
    assert matcher.json_schema_match(json.dumps(text), schema).passed is conforms


def test_a_pattern_that_would_be_searched_for_for_ever_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Expression.search, "__kwdefaults__", {"seconds": 0.1})

    result = matcher.json_schema_match(json.dumps("a" * 60 + "!"), {"pattern": "(a|aa)+$"})

    assert not result.passed
    assert "the schema cannot be applied: a search for the pattern" in (result.message or "")


@pytest.mark.parametrize(
    ("schema", "conforms"),
    [
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [False]}, False),
        ({"prefixItems": [False]}, False),
        ({"$schema": "https://json-schema.org/draft/2019-09/schema", "items": [False]}, False),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [False]}, True),
        ({"$schema": "http://json-schema.org/draft-07/schema", "items": [False]}, False),
        ({"$schema": "http://json-schema.org/draft-06/schema#", "items": [False]}, False),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "items": [{"type": "string"}]}, False),
        ({"$schema": "http://json-schema.org/draft-03/schema#", "items": [{"type": "string"}]}, False),
    ],
)
def test_the_draft_is_the_one_that_the_schema_names(schema: object, *, conforms: bool) -> None:
    assert matcher.json_schema_match("[1]", schema).passed is conforms


FORMATS = [
    ("date", "2026-02-28", "2026-02-30"),
    ("date-time", "2026-02-28T23:59:59.5+01:00", "2026-02-30T00:00:00Z"),
    ("date-time", "1998-12-31T15:59:60-08:00", "1998-12-31T15:58:60-08:00"),
    ("date-time", "1985-04-12t23:20:50z", "1985-04-12 23:20:50Z"),
    ("time", "23:59:60Z", "24:00:00Z"),
    ("time", "00:59:60+01:00", "12:00:00"),
    ("duration", "P1Y2M3DT4H5M6S", "P"),
    ("duration", "P4W", "PT"),
    ("email", "a@example.org", "a"),
    ("hostname", "www.example.org", "-a.example.org"),
    ("ipv4", "127.0.0.1", "127.0.0.256"),
    ("ipv6", "::1", ":::1"),
    ("iri", "https://é.example/ü?q=%20#中", "https://example.org/a b"),
    ("iri", "urn:\U00020000", "urn:\ufdd0"),
    ("iri", "mailto:é@example.org", "/é"),
    ("iri-reference", "/é", "<é>"),
    ("iri-reference", "", "é\u200b %"),
    ("json-pointer", "/a~1b/0", "/a~2"),
    ("relative-json-pointer", "0", "/a"),
    ("relative-json-pointer", "1/a~0b", "01/a"),
    ("relative-json-pointer", "2#", "2#/a"),
    ("relative-json-pointer", "0-1/a", "-1/a"),
    ("uri-template", "https://example.org/{a}/{b,c*}{?d:3,e.f}", "/{a"),
    ("uri-template", "{+a}é{#b}%20", "/{a b}"),
    ("uri-template", "", "a}"),
    ("uri-template", "{%41}", "{a:0}"),
    ("uri-template", "[]", "{a:10000}"),
    ("uri-template", "~", "{a*:3}"),
    ("uri-template", "@", "a<b"),
    ("uri-template", ":", "{}"),
    ("regex", "a+", "a("),
    ("uri", "https://example.org/?q=%20", "https://example.org/a b"),
    ("uri", "urn:a:b", "/relative"),
    ("uri-reference", "/relative", "<>"),
    ("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08"),
]


@pytest.mark.parametrize(("name", "right", "wrong"), FORMATS)
def test_formats_are_asserted(name: str, right: str, wrong: str) -> None:
    assert matcher.json_schema_match(json.dumps(right), {"format": name}).passed
    assert not matcher.json_schema_match(json.dumps(wrong), {"format": name}).passed
    assert matcher.json_schema_match("1", {"format": name}).passed


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "nothing"}, "the schema is not valid: $.type: 'nothing'"),
        ({"$schema": "https://example.org/schema"}, "of a draft that is not known: 'https://example.org/schema'"),
        ({"$schema": 1}, "$schema must be a text"),
        ({"pattern": "("}, "$.pattern: '(' is not a 'regex'"),
        ({"patternProperties": {"(": {}}}, "'(' is not a 'regex'"),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "patternProperties": {"(": {}}},
            "cannot be applied: the pattern '(' is not a regular expression: missing )",
        ),
        ({"$ref": "#/nowhere"}, "the schema refers to '/nowhere', which is not in it"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/a"}}}, "refers to itself without end"),
        ({"$id": "http://[", "$ref": "a"}, "the schema cannot be applied"),
        ("not JSON", "the schema is not JSON: line 1, column 1"),
        ('{"type": "string", "type": "null"}', 'an object has the name "type" twice'),
        ({"minimum": float("nan")}, "the schema is not JSON: $.minimum"),
        ([], "a schema must be an object, true or false, not an array with 0 elements"),
        (None, "a schema must be an object, true or false, not null"),
        (b"{}", "the schema is not JSON: $: a value of type bytes"),
    ],
)
def test_a_schema_that_cannot_be_used_is_a_failed_result_that_says_why(schema: object, problem: str) -> None:
    result = matcher.json_schema_match('{"a": 1}', schema)

    assert not result.passed
    assert problem in (result.message or "")


def test_a_reference_to_elsewhere_is_refused_and_nothing_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"

        for reference in (address, (tmp_path / "schema.json").as_uri()):
            result = matcher.json_schema_match("1", {"$ref": reference})
            relative = matcher.json_schema_match("1", {"$id": reference, "$ref": "other.json"})

            assert not result.passed
            assert not relative.passed
            assert f"refers to '{reference}', which is not in it; nothing is fetched" in (result.message or "")
        with pytest.raises(BlockingIOError):
            server.accept()


def test_references_inside_the_schema_and_to_the_drafts_are_followed() -> None:
    tree = {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}

    assert matcher.json_schema_match("[[], [[]]]", tree).passed
    assert not matcher.json_schema_match("[[], [[1]]]", tree).passed
    assert not matcher.json_schema_match('{"type": 1}', {"$ref": "http://json-schema.org/draft-07/schema#"}).passed


@pytest.mark.parametrize("text", ["", "{", '{"a": 1, "a": 1}', "NaN", "[" * 100_000])
def test_text_that_is_not_strict_json_conforms_to_nothing(text: str) -> None:
    result = matcher.json_schema_match(text, {})

    assert not result.passed
    assert (result.message or "").startswith("the text is not JSON: ")


def test_sequences_can_be_taken_out_before_json_is_checked() -> None:
    options = AssertionOptions(type="jsonSchema", expected={"type": "integer"}, strip_ansi=True)

    assert judge("\x1b[1m1\x1b[m\r\n", options).passed
    assert not matcher.json_schema_match("\x1b[1m1\x1b[m\r\n", {"type": "integer"}).passed


def test_the_library_is_loaded_by_the_first_schema_and_by_nothing_before() -> None:
    program = (
        "import sys; from reenact.terminal import AssertionMatcher as M; M().json_match('1', 1);"
        "before = 'jsonschema' in sys.modules; M().json_schema_match('1', True);"
        "print(before, 'jsonschema' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False True\n"
