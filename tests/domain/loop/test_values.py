"""JSON that cannot be changed: a dict and a list to its readers, and the same value wherever it comes back from."""

# What agents are made of is anybody's, and here it is lambdas mostly.
# pyright: reportUnknownLambdaType=none, reportUnknownArgumentType=none, reportUnknownVariableType=none
# pyright: reportUnknownMemberType=none

from __future__ import annotations

import copy
import json
import pickle
from collections import UserDict, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.events import Option, Options
from reenact.domain.loop.values import (
    DEEPEST,
    AppendOnlyList,
    Fields,
    Frozen,
    FrozenList,
    compact,
    frozen,
    frozen_object,
    frozen_or_named,
    mutable_copy,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


class Colour(Enum):
    RED = {"r": 1}  # noqa: RUF012


class Word(StrEnum):
    YES = "yes"


class Number(IntEnum):
    ONE = 1


@dataclass
class Point:
    x: int


class Model:
    def model_dump(self, *, mode: str) -> dict[str, str]:
        return {"mode": mode}


@given(JSON)
def test_json_stays_what_it_is(value: Any) -> None:  # noqa: ANN401
    kept = frozen(value)

    assert kept == value
    assert frozen(kept) is kept or not isinstance(kept, Frozen | FrozenList)
    assert json.loads(compact(kept)) == value
    assert mutable_copy(kept) == value
    assert copy.deepcopy(kept) == kept
    assert pickle.loads(pickle.dumps(kept)) == kept  # noqa: S301 - it is our own


@given(JSON)
def test_what_is_thawed_is_plain_and_its_own(value: Any) -> None:  # noqa: ANN401
    kept = frozen_object({"it": value}, what="it")
    free = mutable_copy(kept)

    assert type(free) is dict
    free["it"] = "changed"
    assert kept["it"] == value


@pytest.mark.parametrize(
    ("value", "made"),
    [
        (float("nan"), None),
        (float("inf"), None),
        (Colour.RED, {"r": 1}),
        (Word.YES, "yes"),
        (Number.ONE, 1),
        ({1: 1, None: 2, False: 3, 1.5: 4}, {"1": 1, "null": 2, "false": 3, "1.5": 4}),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, (2,)), [1, [2]]),
        (deque([1]), [1]),
        (UserDict({"a": 1}), {"a": 1}),
        (Point(3), {"x": 3}),
        (Model(), {"mode": "json"}),
        (datetime(2030, 1, 1, tzinfo=UTC), "2030-01-01T00:00:00Z"),
        (b"ab", "YWI="),
        (AppendOnlyList([1]), [1]),
        (10**30, 10**30),
    ],
)
def test_what_is_nearly_json_becomes_json(value: object, made: object) -> None:
    assert frozen(value) == made
    assert frozen_or_named(value) == made


def nested(depth: int) -> Any:  # noqa: ANN401
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [object(), {"a": object()}, {(1,): 1}, "\ud800", {"\ud800": 1}, nested(DEEPEST + 1)])
def test_what_is_no_json_is_refused_and_can_be_named(value: object) -> None:
    with pytest.raises(InvalidInputError, match="the result is not a JSON value: "):
        frozen(value, what="the result")
    compact(frozen_or_named(value))


def test_a_list_that_holds_itself_is_no_json() -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(InvalidInputError, match="nested deeper"):
        frozen(value)


def test_what_cannot_be_written_down_is_named_in_its_place() -> None:
    assert frozen_or_named({"a": [object(), 1], "b": "\ud800"}) == "<builtins.dict>"
    assert frozen_or_named({"a": [object(), 1]}) == {"a": ["<builtins.object>", 1]}


def test_only_a_mapping_is_an_object() -> None:
    with pytest.raises(InvalidInputError, match=r"metadata must be a mapping, not \[1\]"):
        frozen_object([1], what="metadata")


def test_members_are_attributes_too() -> None:
    message = Frozen(role="user", content="hi")

    assert (message.role, message["content"]) == ("user", "hi")
    assert not hasattr(message, "missing")


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.__setitem__("a", 2),
        lambda it: it.__delitem__("a"),
        lambda it: it.__ior__({"b": 1}),
        lambda it: it.clear(),
        lambda it: it.pop("a"),
        lambda it: it.popitem(),
        lambda it: it.setdefault("b", 1),
        lambda it: it.update(b=1),
    ],
)
def test_an_object_refuses_every_change(change: Any) -> None:  # noqa: ANN401
    value: Any = Frozen(a=1)

    with pytest.raises(TypeError, match="a Frozen cannot be changed; copy it into a dict first"):
        change(value)

    assert value == {"a": 1}
    assert copy.copy(value) is value
    assert hash(value) == hash(Frozen(a=2))
    with pytest.raises(AttributeError):
        value.a = 2


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.__setitem__(0, 2),
        lambda it: it.__delitem__(0),
        lambda it: it.__iadd__([1]),
        lambda it: it.__imul__(2),
        lambda it: it.append(1),
        lambda it: it.clear(),
        lambda it: it.extend([1]),
        lambda it: it.insert(0, 1),
        lambda it: it.pop(),
        lambda it: it.remove(1),
        lambda it: it.reverse(),
        lambda it: it.sort(),
    ],
)
def test_an_array_refuses_every_change(change: Any) -> None:  # noqa: ANN401
    value = FrozenList([1])

    with pytest.raises(TypeError, match="a FrozenList cannot be changed; copy it into a list first"):
        change(value)

    assert value == [1]
    assert value == (1,)
    assert value != (2,)
    assert copy.copy(value) is value
    assert hash(value) == hash(FrozenList([1]))


class Pair(Fields, frozen=True, eq=False):
    left: int
    right: int | None = None


def test_fields_can_be_read_as_a_mapping() -> None:
    pair = Pair(1)

    assert (pair["left"], pair.get("left"), pair.get("middle", 5), dict(pair)) == (1, 1, 5, {"left": 1, "right": None})
    with pytest.raises(KeyError):
        _ = pair["middle"]


def test_fields_equal_the_mapping_of_them() -> None:
    assert Pair(1) == {"left": 1}
    assert Pair(1) == {"left": 1, "right": None}
    assert Pair(1, 2) != {"left": 1}
    assert Pair(1) != {"left": 1, "middle": 2}
    assert Pair(1) == Pair(1)
    assert not Pair(1) != {"left": 1}  # noqa: SIM202 - a struct decides about both
    assert not Pair(1) != Pair(1)  # noqa: SIM202 - likewise
    assert Pair(1) != Pair(2)
    assert Pair(1) != 1
    assert Pair(1) != Option("a", 1)
    assert hash(Pair(1)) == hash(Pair(2))


def test_options_equal_a_list_of_the_same() -> None:
    options = Options((Option("Red", "r"),))

    assert options == [{"label": "Red", "value": "r"}]
    assert options == (Option("Red", "r"),)
    assert options != []
    assert hash(options) == hash((Option("Red", "r"),))


@given(st.lists(st.integers(0, 2)), st.lists(st.lists(st.integers(0, 2)), max_size=4))
def test_what_grows_is_a_list_that_never_changes(start: list[int], more: list[list[int]]) -> None:
    grown = [AppendOnlyList(start)]
    expected = [start]

    for items in more:
        for index in range(len(grown)):
            grown.append(grown[index].plus(items))
            expected.append([*expected[index], *items])

    assert [list(each) for each in grown] == expected
    assert grown == expected
    assert all(each == tuple(those) for each, those in zip(grown, expected, strict=True))


def test_what_grew_is_read_like_a_tuple() -> None:
    first = AppendOnlyList("ab")
    grown = first.plus("c")

    assert (grown[0], grown[-1], grown[1:], first[::-1], first[5:]) == ("a", "c", ["b", "c"], ["b", "a"], [])
    assert (repr(grown), len(first), "c" in first, list(reversed(grown))) == (
        "['a', 'b', 'c']",
        2,
        False,
        ["c", "b", "a"],
    )
    assert first != grown
    assert first != "ab"
    assert hash(first) == hash(AppendOnlyList([1, 2]))
    assert copy.copy(first) is copy.deepcopy(first) is first
    assert pickle.loads(pickle.dumps(grown)) == grown  # noqa: S301 - it is our own
    for index in (2, -3):
        with pytest.raises(IndexError):
            _ = first[index]
