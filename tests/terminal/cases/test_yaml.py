"""YAML, read by its core schema, and refused where it is more than data."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact._yaml import LARGEST, InvalidYAMLError, read_yaml, read_yaml_with_places

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

characters = st.characters(exclude_categories=["Cs"])
data: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(characters),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(characters, max_size=5), inner, max_size=4),
    max_leaves=12,
)
MARKS = "ab01-+.:,[]{}&*!|>%@`#'\"?~<= \n\t\r\\xuU\ufeff\x07\x85\u2028\ud800"
WORDS = ("\n  ", "- ", ": ", "---", "...", "<<", "%YAML 1.2\n", "%TAG ! !\n", "\\uD83D", "\\U00110000", "!!int ", ">-")
bits = st.sampled_from([*MARKS, *WORDS])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("True", True),
        ("tRUE", "tRUE"),
        ("012", 12),
        ("0o14", 12),
        ("0x1F", 31),
        ("0b1", "0b1"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("+1", 1),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("2026-11-21", "2026-11-21"),
        ("~", None),
        ("", None),
        ("'~'", "~"),
        ('"\\u00e9\\ud83d\\ude00"', "é😀"),
        ("|\n a\n b", "a\nb"),
        ("=", "="),
    ],
)
def test_a_scalar_has_the_type_that_the_core_schema_gives_it(text: str, value: object) -> None:
    read = read_yaml(f"a: {text}")

    assert repr(read) == repr({"a": value})  # of which 1 and 1.0, which are equal, have two


def test_not_a_number_is_one() -> None:
    number = read_yaml(".nan")

    assert isinstance(number, float)
    assert math.isnan(number)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: &x 2", "line 2, column 4: an anchor is not read here; write what it stands for"),
        ("a: *x", "line 1, column 4: an alias is not read here; write what it stands for"),
        ("? *x\n: 1", "line 1, column 3: a key must be a text or a number, without an anchor or a tag"),
        ("&x a: 1", "line 1, column 1: a key must be a text or a number, without an anchor or a tag"),
        ("[a]: 1", "line 1, column 1: a key must be a text or a number, without an anchor or a tag"),
        ("a: !!str 5", "line 1, column 4: the tag tag:yaml.org,2002:str is not read here"),
        ("a: !python/object:os.system x", "line 1, column 4: the tag !python/object:os.system is not read here"),
        ("!!set {a}", "line 1, column 1: the tag tag:yaml.org,2002:set is not read here"),
        ("a: 1\nb: 2\n'a': 3", "line 3, column 1: the key 'a' comes twice"),
        ("1: a\n1.0: b", "line 2, column 1: the key '1.0' comes twice"),
        ("a: 1\n---\nb: 2", "line 2, column 1: another document begins here; one is read"),
        ("%YAML 1.1\n---\na: yes", "line 2, column 1: it says that it is of another version than YAML 1.2"),
        ('a: "\\ud800"', "line 1, column 4: half of a surrogate pair is not a character"),
        ("a: 1e999", "line 1, column 4: the number is too large"),
        ("a: [1, 2", "line 1, column 9: "),
        ("a: b\n  c: d", "line 2, column 4: mapping values are not allowed here"),
        ("a: \x07", "line 1, column 4: the character U+0007 is not allowed in YAML"),
        ("[" * 200 + "]" * 200, "line 1, column 102: it is nested more than 100 deep"),
        ("x" * (LARGEST + 1), "it has 1,000,001 characters; 1,000,000 are read at most"),
        ('"\\U00110000"', "line 1, column 2: the escape \\U00110000 is not a character"),
    ],
)
def test_what_is_more_or_less_than_data_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(InvalidYAMLError) as refused:
        read_yaml(text)

    assert str(refused.value).startswith(problem)


def test_a_merge_key_is_a_key_like_any_other() -> None:
    assert read_yaml("<<: {a: 1}\nb: 2") == {"<<": {"a": 1}, "b": 2}


def test_every_value_has_its_place() -> None:
    value, places = read_yaml_with_places("suite: x\ntests:\n  - name: a\n  - {name: b,\n     7: c}\n")

    assert value == {"suite": "x", "tests": [{"name": "a"}, {"name": "b", 7: "c"}]}
    assert places["suite",] == (1, 1)
    assert places["tests", 0] == (3, 5)
    assert places["tests", 1, "name"] == (4, 6)
    assert places["tests", 1, "7"] == (5, 6)


def test_an_empty_text_holds_nothing() -> None:
    assert [read_yaml(text) for text in ("", "\n", "# nothing\n", "---\n", "\ufeff")] == [None] * 5


@given(data)
def test_json_is_yaml(value: Json) -> None:
    assert read_yaml(json.dumps([value], indent=1)) == [value]


@given(st.lists(bits, max_size=14).map("".join))
def test_any_text_is_data_or_is_refused_and_nothing_else_happens(text: str) -> None:
    with suppress(InvalidYAMLError):
        read_yaml(text)
