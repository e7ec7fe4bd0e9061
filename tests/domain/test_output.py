"""What an answer must be: which schemas can be checked, what fits them, and that no schema and no answer takes long."""

from __future__ import annotations

from collections.abc import Mapping
from time import process_time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

from reenact.domain.errors import ConfigurationError, InvalidInputError
from reenact.domain.image import Image, define
from reenact.domain.messages import TextBlock, ThinkingBlock
from reenact.domain.output import (
    MAX_ANSWER,
    MAX_SCHEMA_BYTES,
    MAX_WORK,
    MOST_ERRORS,
    OutputSpec,
    check_output,
    correction,
    example_of,
    faults_of_answer,
    faults_of_value,
    is_checked,
    read_output,
)
from reenact.domain.plain import DEEPEST, Json, JsonObject

WRONG: Any = [1]
INVOICE = OutputSpec(
    name="invoice",
    schema={
        "type": "object",
        "properties": {"total": {"type": "number", "minimum": 0}, "currency": {"enum": ["EUR", "USD"]}},
        "required": ["total", "currency"],
        "additionalProperties": False,
    },
)


def spec(**schema: object) -> OutputSpec:
    return OutputSpec(name="x", schema=plain_object(type="object", **schema))


def plain_object(**members: object) -> dict[str, Json]:
    """Return the members as plain values, so far as they are any."""
    found: Any = members
    return dict(found)


def of(**value: object) -> OutputSpec:
    """Return what has one member, `v`, of this schema."""
    return spec(properties={"v": value}, required=["v"])


def faults(output: OutputSpec, value: object) -> tuple[str, ...]:
    return faults_of_value(check_output(output).schema, plain_object(v=value))


def said(text: str) -> tuple[TextBlock, ...]:
    return (TextBlock(text),)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


# The text of an answer


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '  {"a":\n1}\n',
        '```json\n{"a": 1}\n```',
        'Here it is:\n```\n{"a":\n1}\n```\nAnything else?',
        'Let me see.\n{"a": 1}',
    ],
)
def test_the_value_is_all_of_the_text_or_what_is_fenced_or_the_last_line(text: str) -> None:
    assert read_output(said(text)) == {"a": 1}


def test_the_end_of_a_fence_is_looked_for_once() -> None:
    began = process_time()

    with pytest.raises(InvalidInputError, match="the answer is not JSON"):
        read_output(said("here: ```\n" * 20_000))

    assert process_time() - began < 1


def test_thoughts_are_no_part_of_it() -> None:
    assert read_output((ThinkingBlock("[3]"), TextBlock("[1,"), TextBlock("2]"))) == [1, 2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the answer has no text"),
        (" \n", "the answer has no text"),
        ("five", "the answer is not JSON"),
        ('{"a": NaN}', "the answer is not JSON"),
        ("[1e400]", "the answer is not JSON"),
        (f"[{2**64}]", "is an integer of more than 64 bits"),
        ("[" * 100_000, f"the answer is nested more than {DEEPEST} deep"),
        (f"{'[' * 150}{']' * 150}", f"nested more than {DEEPEST} deep"),
        ("1" * (MAX_ANSWER + 1), f"the answer has more than {MAX_ANSWER} characters"),
    ],
)
def test_a_text_that_is_no_value_is_told_why(text: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        read_output(said(text))

    (told,) = faults_of_answer(INVOICE, said(text))
    assert problem in told


@pytest.mark.parametrize(
    ("stop_reason", "checked"),
    [("end_turn", True), ("stop_sequence", True), ("refusal", False), ("max_tokens", False), ("pause_turn", False)],
)
def test_what_is_refused_or_cut_off_is_no_answer_to_be_checked(stop_reason: str, checked: bool) -> None:  # noqa: FBT001
    assert is_checked(stop_reason) is checked


# What fits


def test_an_answer_that_fits_has_no_faults() -> None:
    assert faults_of_answer(INVOICE, said('{"total": 5, "currency": "EUR"}')) == ()


def test_each_place_that_does_not_fit_is_told() -> None:
    assert faults_of_answer(INVOICE, said('{"total": -1, "currency": "DM", "vat": 2}')) == (
        "`total` must be at least 0; got -1",
        '`currency` must be one of "EUR", "USD"; got "DM"',
        "`vat` may not be there",
    )


BRANCH = {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "n": {"type": "integer"}}}
TREE = spec(properties={"v": {"$ref": "#/$defs/tree"}}, **{"$defs": {"tree": BRANCH}})
BROKEN: list[tuple[OutputSpec, object, str]] = [
    (of(type="integer"), 1.5, "`v` must be an integer; got 1.5"),
    (of(type=["integer", "null"]), "a", '`v` must be an integer or null; got "a"'),
    (of(type="boolean"), 1, "`v` must be true or false; got 1"),
    (of(type="object"), [], "`v` must be an object; got []"),
    (of(type="array"), {}, "`v` must be an array; got {}"),
    (of(const=1), True, "`v` must be 1; got true"),
    (of(enum=[1, "a"]), 2, '`v` must be one of 1, "a"; got 2'),
    (of(enum=[1], const=2), 2, "`v` must be 1; got 2"),
    (of(minLength=2), "a", "`v` has 1 characters; it must have at least 2"),
    (of(maxLength=1), "ab", "`v` has 2 characters; it must have at most 1"),
    (of(pattern="^a+$"), "b", "`v` must match the pattern '^a+$'; got \"b\""),
    (of(format="date"), "soon", '`v` must be a valid date; got "soon"'),
    (of(format="time"), "25:00", '`v` must be a valid time; got "25:00"'),
    (of(format="date-time"), "2000-01-01", '`v` must be a valid date-time; got "2000-01-01"'),
    (of(format="uuid"), "x", '`v` must be a valid uuid; got "x"'),
    (of(maximum=1), 2, "`v` must be at most 1; got 2"),
    (of(exclusiveMinimum=1), 1, "`v` must be more than 1; got 1"),
    (of(exclusiveMaximum=1), 1, "`v` must be less than 1; got 1"),
    (of(multipleOf=2), 3, "`v` must be a multiple of 2; got 3"),
    (of(multipleOf=0.1), 0.25, "`v` must be a multiple of 0.1; got 0.25"),
    (of(minItems=1), [], "`v` has 0 items; it must have at least 1"),
    (of(maxItems=1), [1, 2], "`v` has 2 items; it must have at most 1"),
    (of(uniqueItems=True), [1, 1.0], "`v` has the same item twice"),
    (of(items={"type": "string"}), ["a", 1], "`v[1]` must be a string; got 1"),
    (of(prefixItems=[{"type": "string"}], items=False), ["a", 1], "`v[1]` may not be there"),
    (of(contains={"const": 1}), [2], "`v` has 0 items of a kind of which it must have at least 1"),
    (of(contains={"const": 1}, maxContains=1), [1, 1], "`v` has 2 items of a kind of which it must have at most 1"),
    (of(minProperties=1), {}, "`v` has 0 members; it must have at least 1"),
    (of(required=["a"]), {}, '`v` lacks "a"'),
    (of(dependentRequired={"a": ["b"]}), {"a": 1}, '`v` lacks "b"'),
    (of(dependentSchemas={"a": {"required": ["c"]}}), {"a": 1}, '`v` lacks "c"'),
    (of(patternProperties={"^n": {"type": "integer"}}), {"n1": "x"}, '`v.n1` must be an integer; got "x"'),
    (of(propertyNames={"maxLength": 1}), {"ab": 1}, "`v.ab (the name)` has 2 characters; it must have at most 1"),
    (of(additionalProperties={"type": "integer"}), {"a": "x"}, '`v.a` must be an integer; got "x"'),
    (of(allOf=[{"minimum": 3}]), 2, "`v` must be at least 3; got 2"),
    (
        of(anyOf=[{"type": "string"}, {"type": "null"}]),
        1,
        "`v` fits none of the alternatives: `v` must be a string; got 1 / `v` must be null; got 1",
    ),
    (of(oneOf=[{"minimum": 1}, {"minimum": 2}]), 3, "`v` fits 2 of the alternatives, and may fit only one"),
    (of(**{"not": {"type": "null"}}), None, "`v` is what it may not be; got null"),
    (of(**{"if": {"minimum": 5}, "then": {"maximum": 6}}), 7, "`v` must be at most 6; got 7"),
    (of(**{"if": {"minimum": 5}, "else": {"const": 1}}), 2, "`v` must be 1; got 2"),
    (TREE, {"left": {"left": {"n": "x"}}}, '`v.left.left.n` must be an integer; got "x"'),
    (of(type="string"), nested(99), f"`v` must be a string; got {'[' * 80}…"),
]


@pytest.mark.parametrize(("output", "value", "problem"), BROKEN, ids=lambda one: str(one)[:60])
def test_what_does_not_fit_says_where_and_why(output: OutputSpec, value: object, problem: str) -> None:
    assert faults(output, value) == (problem,)


@pytest.mark.parametrize(
    ("output", "value"),
    [
        (of(type="integer"), 5.0),
        (of(const=1), 1.0),
        (of(type=["string", "null"]), None),
        (of(format="date"), "2026-11-23"),
        (of(format="time"), "23:00:00"),
        (of(format="date-time"), "2026-11-23T23:00:00Z"),
        (of(format="uuid"), "00000000-0000-0000-0000-000000000000"),
        (of(format="email"), "anything"),
        (of(multipleOf=0.01), 1e300),
        (of(contains={"const": 1}, minContains=0), []),
        (of(pattern="b"), "abc"),
        (of(oneOf=[{"type": "string"}, {"type": "integer"}]), 1),
        (of(**{"not": {"type": "null"}, "if": {"type": "string"}, "then": {"minLength": 1}}), 1),
        (of(**{"$comment": "a note", "title": "T", "x-mine": 1}), 1),
        (of(dependentRequired={"a": ["b"]}, dependentSchemas={"a": False}), {}),
        (of(prefixItems=[{"type": "string"}]), []),
        (of(uniqueItems=True), [1, True, "1", [1], {"a": 1.5}]),
        (spec(properties={"v": True}), 1),
        (TREE, {"left": {"left": {"n": 1}}}),
    ],
    ids=lambda one: str(one)[:60],
)
def test_what_fits_has_no_faults(output: OutputSpec, value: object) -> None:
    assert faults(output, value) == ()


def test_only_some_of_many_faults_are_told() -> None:
    many = faults(of(items={"type": "string"}, additionalProperties={"type": "string"}), list(range(100)))

    assert many == tuple(f"`v[{place}]` must be a string; got {place}" for place in range(MOST_ERRORS))
    assert len(faults(of(additionalProperties=False), {f"m{number}": 1 for number in range(100)})) == MOST_ERRORS


def test_the_model_is_told_what_does_not_fit() -> None:
    told = correction(("`a` is missing", "`b` is wrong"))

    assert "\n- `a` is missing\n- `b` is wrong\n" in told
    assert "again" in told


# Whatever the schema and the answer are, it ends soon


def test_a_schema_that_leads_to_itself_ends() -> None:
    endless = spec(**{"$ref": "#"})
    told = "the answer is nested too deep"

    assert faults(endless, 1)[0].startswith(told)
    assert faults(of(**{"$ref": "#/properties/v"}), 1)[0].startswith(told)


def test_alternatives_in_alternatives_end() -> None:
    levels = {f"s{level}": {"allOf": [{"$ref": f"#/$defs/s{level + 1}"}] * 8} for level in range(20)}
    output = spec(**{"$defs": {**levels, "s20": {"minLength": 1}}, "properties": {"v": {"$ref": "#/$defs/s0"}}})

    assert faults(output, "x") == ("the answer is too large to be checked",)


def test_a_pattern_that_others_try_for_years_is_matched_at_once() -> None:
    assert faults(of(pattern="^(a+)+$"), "a" * 5000 + "b") != ()
    assert faults(of(pattern="(x*)*y"), "x" * 5000 + "y") == ()


def test_a_text_too_long_for_its_pattern_is_told_to_be() -> None:
    assert faults(of(pattern="^(a|b|ab)*c$"), "a" * (MAX_WORK // 4)) == ("the answer is too large to be checked",)


def test_large_values_that_are_compared_over_and_over_are_told_to_be_too_large() -> None:
    large = ["x" * 1000] * 1000

    assert faults(of(items={"enum": ["a", "b"]}, allOf=[{"const": 1}] * 10), large)[-1].endswith("to be checked")


# Which schemas can be checked


def test_a_schema_is_copied() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": (1, 2)}}}

    checked = check_output(OutputSpec(name="x", schema=plain_object(**schema)))

    assert checked.schema == {"type": "object", "properties": {"a": {"enum": [1, 2]}}}
    assert checked.schema is not schema


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (OutputSpec(name="", schema=INVOICE.schema), "a name has 1 to 64"),
        (OutputSpec(name="x", schema=INVOICE.schema, retries=-1), "`retries` must be a number from 0 to 10"),
        (OutputSpec(name="x", schema={"type": "array"}), "its `type` is 'object'"),
        (OutputSpec(name="x", schema=WRONG), "a schema must be a mapping"),
        (spec(anyOf=[True]), "may not have `anyOf` at its top"),
        (spec(properties={"a b": True}), "argument 'a b'"),
        (spec(properties=1), "is not an object"),
        (of(description="x" * MAX_SCHEMA_BYTES), f"it may have {MAX_SCHEMA_BYTES}"),
        (of(enum=[float("nan")]), "which JSON does not have"),
        (of(items=nested(DEEPEST)), "nested more than"),
        (of(properties={"a": 1}), "there is no schema at #/properties/v/properties/a"),
        (of(properties=[]), "there is no mapping of names to schemas at #/properties/v/properties"),
        (of(anyOf=[]), "there is no list of schemas at #/properties/v/anyOf"),
        (of(anyOf=[1]), "there is no schema at #/properties/v/anyOf/0"),
        (of(items=[True]), "there is no schema at #/properties/v/items"),
        (of(unevaluatedProperties=False), "`unevaluatedProperties` at #/properties/v is not supported"),
        (of(type="text"), "`type` cannot be 'text', at #/properties/v"),
        (of(type=[]), "`type` cannot be"),
        (of(enum=[]), "`enum` cannot be"),
        (of(required="a"), "`required` cannot be"),
        (of(dependentRequired={"a": 1}), "`dependentRequired` cannot be"),
        (of(multipleOf=0), "`multipleOf` cannot be 0"),
        (of(uniqueItems=1), "`uniqueItems` cannot be 1"),
        (of(minLength=-1), "`minLength` cannot be -1"),
        (of(minLength=True), "`minLength` cannot be True"),
        (of(minimum="1"), "`minimum` cannot be '1'"),
        (of(pattern="(?=a)"), "cannot be matched in bounded time"),
        (of(pattern="("), "is not a regular expression"),
        (of(pattern=1), "a pattern must be a text, not 1"),
        (of(patternProperties={"a)(": True}), "is not a regular expression"),
        (of(**{"$ref": "https://example.com/x"}), "is not in the schema"),
        (of(**{"$ref": "#/$defs/x"}), "is not in the schema"),
        (of(**{"$ref": "#/required/0"}), "is not in the schema"),
        (of(**{"$ref": 1}), "is not in the schema"),
    ],
    ids=lambda one: str(one)[:60],
)
def test_a_schema_that_cannot_be_checked_is_refused(output: OutputSpec, problem: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_output(output)

    assert problem in str(refused.value)


def test_an_image_takes_no_output_that_is_no_schema() -> None:
    with pytest.raises(ConfigurationError, match="must be a type, a JSON Schema or an OutputSpec, not 5"):
        define(Image(output=5), "i")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_reference_may_lead_into_a_list_and_through_escaped_names() -> None:
    output = of(anyOf=[{"$ref": "#/$defs/a~1b~0c"}], **{"$defs": dict[str, object]()})
    schema = {**output.schema, "$defs": {"a/b~c": {"type": "null"}, "first": {"$ref": "#/properties/v/anyOf/0"}}}

    assert faults(msgspec.structs.replace(output, schema=schema), None) == ()


def test_a_schema_that_nobody_has_checked_does_not_break_a_check() -> None:
    unchecked: dict[str, Any] = {
        "pattern": "(?=a)",
        "allOf": 1,
        "properties": 1,
        "required": 1,
        "items": 1,
        "$ref": "x",
    }

    assert faults_of_value({**unchecked, "enum": 5, "minLength": "a", "type": 7}, {}) != ()
    assert faults_of_value(unchecked, "a") == ()


# The same as another checker says

names = st.sampled_from(["a", "b", "c"])
texts = st.text("ab1", max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, 2.5]) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
counts = st.integers(0, 3)


def schemas(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    several = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(names, inner, max_size=2)
    kinds = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
    return st.fixed_dictionaries(
        {},
        optional={
            "type": kinds | st.lists(kinds, min_size=1, max_size=2, unique=True),
            "enum": st.lists(values, min_size=1, max_size=3),
            "const": values,
            "minLength": counts,
            "maxLength": counts,
            "pattern": st.sampled_from(["^a", "b+", "^[ab]*$", "1|b"]),
            "minimum": counts,
            "exclusiveMaximum": counts,
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "items": inner,
            "prefixItems": several,
            "minItems": counts,
            "maxItems": counts,
            "uniqueItems": st.booleans(),
            "contains": inner,
            "minContains": counts,
            "maxContains": counts,
            "properties": named,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c"]), inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
            "required": st.lists(names, max_size=2, unique=True),
            "minProperties": counts,
            "maxProperties": counts,
            "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2, unique=True), max_size=2),
            "dependentSchemas": named,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )


def another_checker(schema: JsonObject) -> Validator:
    return Draft202012Validator(dict(schema))


@given(st.recursive(st.booleans() | schemas(st.booleans()), schemas, max_leaves=6), values)
def test_it_says_what_another_checker_says(schema: object, value: object) -> None:
    whole = spec(properties={"v": schema}).schema

    fits = faults_of_value(check_output(OutputSpec(name="x", schema=whole)).schema, plain_object(v=value)) == ()

    assert fits == another_checker(whole).is_valid(plain_object(v=value))


# Examples


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        ({"type": "integer"}, 0),
        ({"type": "number", "minimum": 2}, 2),
        ({"type": "integer", "exclusiveMinimum": 2}, 3),
        ({"type": "string"}, ""),
        ({"type": "string", "minLength": 3}, "aaa"),
        ({"type": "string", "format": "date"}, "2000-01-01"),
        ({"type": "boolean"}, False),
        ({"type": "null"}, None),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [0, 0]),
        ({"type": "array", "prefixItems": [{"const": "a"}]}, ["a"]),
        ({"enum": ["a", "b"]}, "a"),
        ({"examples": [5]}, 5),
        ({"default": 7}, 7),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
        ({"$ref": "#/$defs/d"}, "d"),
        (True, None),
    ],
)
def test_an_example_fits(schema: object, example: object) -> None:
    output = check_output(
        spec(properties={"v": schema, "other": {"type": "string"}}, required=["v"], **{"$defs": {"d": {"const": "d"}}})
    )

    assert example_of(output.schema) == {"v": example}
    assert faults_of_value(output.schema, example_of(output.schema)) == ()


def test_an_example_of_what_never_ends_ends() -> None:
    endless: Mapping[str, Any] = {"type": "object", "properties": {"v": {"$ref": "#"}}, "required": ["v"]}

    assert isinstance(example_of(endless), dict)
