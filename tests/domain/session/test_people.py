"""What people hand in is recorded as it is, or refused with the name of the part that cannot be."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.ledger import MOST_TOKENS, Spent
from reenact.domain.plain import DEEPEST
from reenact.domain.session.people import check_arguments, check_json, check_reason
from reenact.domain.session.told import usage_info

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
numbers = st.one_of(st.integers(-(1 << 63), (1 << 64) - 1), st.floats(allow_nan=False, allow_infinity=False))
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)


@given(values)
def test_a_json_value_comes_back_as_it_is_and_can_be_stored_and_read(value: object) -> None:
    checked = check_json("it", value)

    assert checked == value
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(checked)) == checked


@given(st.dictionaries(texts, values))
def test_arguments_are_copied(arguments: dict[str, Any]) -> None:
    before = dict(arguments)

    copied = check_arguments(MappingProxyType(arguments))
    arguments["later"] = 1

    assert copied == before


def test_a_tuple_is_a_list() -> None:
    assert check_json("it", {"to": ("ann", ("bob",))}) == {"to": ["ann", ["bob"]]}


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        (float("inf"), "it is inf, which JSON does not have"),
        ([{"a": float("nan")}], r"it\[0\]\.a is nan"),
        (1 << 64, "it is an integer of more than 64 bits"),
        (-(1 << 63) - 1, "more than 64 bits"),
        ("\ud800", "it is not valid Unicode"),
        ({"\ud800": 1}, "it has the key '.ud800', which is not text"),
        ({"a": {1: 2}}, r"it\.a has the key 1, which is not text"),
        ({"a": [b"x"]}, r"it\.a\[0\] is a bytes, which is not a JSON value"),
        ("x" * (10 * 1024 * 1024), "it has 10485762 bytes as JSON; at most 10485760"),
    ],
)
def test_what_is_no_json_value_is_named(value: object, wrong: str) -> None:
    with pytest.raises(InvalidInputError, match=wrong):
        check_json("it", value)


def test_what_is_nested_too_deep_is_refused_also_when_it_has_no_end() -> None:
    deep: list[Any] = []
    for _ in range(DEEPEST - 1):
        deep = [deep]
    endless: list[Any] = []
    endless.append(endless)

    assert check_json("it", deep) == deep
    for too_deep in ([deep], endless):
        with pytest.raises(InvalidInputError, match="nested more than 100 deep"):
            check_json("it", too_deep)


@pytest.mark.parametrize("arguments", [None, [], "to", 7])
def test_arguments_are_an_object(arguments: object) -> None:
    with pytest.raises(InvalidInputError, match=f"must be a JSON object, not {type(arguments).__name__}"):
        check_arguments(arguments)


def test_a_reason_may_be_left_out_but_not_be_blank() -> None:
    assert (check_reason(""), check_reason("too early")) == ("", "too early")
    for nonsense in (" ", None, 7, "\ud800"):
        with pytest.raises(InvalidInputError, match="the reason"):
            check_reason(nonsense)


def test_what_was_used_is_summed_over_models_and_tools() -> None:
    models = {"": Spent(1, {"input_tokens": 1}, 0.0, 1), "m": Spent(2, {"input_tokens": 2, "output_tokens": 3}, 0.5, 0)}
    tools = {"search": Spent(4, {}, 0.25, 2)}

    used = usage_info("s", models, tools)

    assert (used.session_id, used.models, used.tools) == ("s", models, tools)
    assert (used.usage, used.cost, used.unpriced) == ({"input_tokens": 3, "output_tokens": 3}, 0.75, 3)


def test_sums_of_tokens_may_exceed_the_limit_of_one_count() -> None:
    usage = {"input_tokens": MOST_TOKENS}
    models = {"m": Spent(2, usage, 0.0, 2), "n": Spent(2, usage, 0.0, 2)}

    assert usage_info("s", models, {}).usage == {"input_tokens": 2 * MOST_TOKENS}
