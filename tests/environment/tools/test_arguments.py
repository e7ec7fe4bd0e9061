"""What a model gives is checked before a tool runs, and what is wrong is said so that the model can mend it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.environment.tools.tool import tool
from reenact.domain.tools import InvalidArgumentsError
from tests.environment.tools.support import fits
from tests.jsons import at, object_at


class Unit(Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Range(TypedDict):
    low: int
    high: int


@dataclass
class Place:
    latitude: float
    longitude: float = 0.0
    unit: Unit = Unit.CELSIUS


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    value: int


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    barks: bool


class Tree(msgspec.Struct):
    kind: Literal["leaf", "branch"]
    inside: list[Tree] = []


class Model(pydantic.BaseModel):
    number: int
    when: datetime | None = None


Given = dict[str, Any]
WHEN = datetime.fromisoformat("2020-01-02T03:04:05+00:00")


@tool
def look(
    *,
    city: str = "",
    unit: Literal["c", "f"] = "c",
    place: Place | None = None,
    places: list[Place] | None = None,
    days: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1,
    share: float = 0.0,
    exact: bool = False,
    when: datetime | None = None,
    limits: Range | None = None,
    by_name: dict[str, Unit] | None = None,
    pair: tuple[int, Literal["a"]] | None = None,
    strict: Strict | None = None,
    tree: Tree | None = None,
    pet: Cat | Dog | None = None,
    model: Model | None = None,
    text: Annotated[str, msgspec.Meta(max_length=3)] = "",
) -> Given:
    return {name: value for name, value in locals().items() if at(object, look.spec.input_schema, "properties", name)}


@tool
def need(city: str, unit: Unit) -> str:
    return f"{city} {unit}"


NAMES = ", ".join(f"`{name}`" for name in object_at(look.spec.input_schema, "properties"))


def run(arguments: object) -> Given:
    """Return what the tool was given."""
    result: Given = asyncio.run(look.run(arguments))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType, reportAssignmentType] - a model may give anything
    return result


def problems(arguments: object) -> tuple[str, ...]:
    """Return what is wrong with the arguments."""
    with pytest.raises(InvalidArgumentsError) as refused:
        run(arguments)
    assert str(refused.value) == f"look: {'; '.join(refused.value.problems)}"
    return refused.value.problems


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"city": "Oslo"}, {"city": "Oslo"}),
        ({"unit": "f"}, {"unit": "f"}),
        ({"place": {"latitude": 1}}, {"place": Place(1.0)}),
        ({"place": {"latitude": 1.5, "unit": "f", "more": 1}}, {"place": Place(1.5, unit=Unit.FAHRENHEIT)}),
        ({"place": None}, {"place": None}),
        ({"days": 9}, {"days": 9}),
        ({"days": 5.0}, {"days": 5}),
        ({"share": 1}, {"share": 1.0}),
        ({"exact": True}, {"exact": True}),
        ({"when": "2020-01-02T03:04:05Z"}, {"when": WHEN}),
        ({"limits": {"low": 1, "high": 2.0}}, {"limits": {"low": 1, "high": 2}}),
        ({"by_name": {"a": "c"}}, {"by_name": {"a": Unit.CELSIUS}}),
        ({"pair": [1, "a"]}, {"pair": (1, "a")}),
        ({"model": {"number": 1, "when": "2020-01-02T03:04:05Z"}}, {"model": Model(number=1, when=WHEN)}),
    ],
    ids=str,
)
def test_arguments_come_as_the_types_that_the_function_wants(given: Given, seen: Given) -> None:
    received = run(given)

    assert {name: received[name] for name in seen} == seen
    assert {name: type(received[name]) for name in seen} == {name: type(value) for name, value in seen.items()}


def test_keys_that_are_no_text_are_read_from_the_text_that_they_are_in_json() -> None:
    @tool
    def count(by_number: dict[int, Unit], by_day: dict[date, list[dict[Unit, int]]]) -> object:
        return by_number, by_day

    given = {"by_number": {"7": "c"}, "by_day": {"2020-01-02": [{"f": 1.0}]}}
    assert asyncio.run(count.run(given)) == ({7: Unit.CELSIUS}, {date(2020, 1, 2): [{Unit.FAHRENHEIT: 1}]})

    with pytest.raises(InvalidArgumentsError, match="a key of argument `by_number` must be of type integer"):
        asyncio.run(count.run({**given, "by_number": {"seven": "c"}}))


def test_what_is_not_given_is_left_to_the_function() -> None:
    assert run({}) == look()


def test_any_mapping_will_do() -> None:
    assert run(MappingProxyType({"city": "Oslo", "days": 2.0}))["days"] == 2


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"city": 3}, "argument `city` must be of type string; got 3"),
        ({"city": None}, "argument `city` must be of type string; got null"),
        ({"unit": "k"}, "argument `unit` must be one of 'c', 'f'; got 'k'"),
        ({"unit": 1}, "argument `unit` must be of type string; got 1"),
        ({"days": 0}, "argument `days` must be integer >= 1; got 0"),
        ({"days": 10}, "argument `days` must be integer <= 9; got 10"),
        ({"days": "1"}, "argument `days` must be of type integer; got '1'"),
        ({"days": True}, "argument `days` must be of type integer; got true"),
        ({"days": 1.5}, "argument `days` must be of type integer; got 1.5"),
        ({"share": "0"}, "argument `share` must be of type number; got '0'"),
        ({"exact": "true"}, "argument `exact` must be of type boolean; got 'true'"),
        ({"when": "noon"}, "argument `when` must be a valid RFC3339 encoded datetime; got 'noon'"),
        ({"place": []}, "argument `place` must be of type object | null; got []"),
        ({"place": {}}, "argument `place` lacks `latitude`"),
        ({"place": {"latitude": "1"}}, "argument `place.latitude` must be of type number; got '1'"),
        ({"place": {"latitude": 1, "unit": "k"}}, "argument `place.unit` must be one of 'c', 'f'; got 'k'"),
        (
            {"places": [{"latitude": 1}, {"latitude": None}]},
            "argument `places[1].latitude` must be of type number; got null",
        ),
        ({"places": [{"latitude": 1, "unit": "k"}]}, "argument `places[0].unit` must be one of 'c', 'f'; got 'k'"),
        ({"limits": {"low": 1}}, "argument `limits` lacks `high`"),
        ({"by_name": {"a": "c", "b": "k"}}, "argument `by_name[…]` must be one of 'c', 'f'"),
        ({"pair": [1]}, "argument `pair` must be array of length 2; got [1]"),
        ({"pair": [1, "b"]}, "argument `pair[1]` must be one of 'a'; got 'b'"),
        ({"strict": {"value": 1, "more": 2}}, "argument `strict` has no field `more`"),
        ({"tree": {"kind": "root"}}, "argument `tree.kind` must be one of 'branch', 'leaf'; got 'root'"),
        (
            {"tree": {"kind": "leaf", "inside": [{"kind": "root"}]}},
            "argument `tree.inside[0].kind` must be one of 'branch', 'leaf'; got 'root'",
        ),
        ({"pet": {"type": "Cow"}}, "argument `pet.type` must be one of 'Cat', 'Dog'; got 'Cow'"),
        ({"text": "abcd"}, "argument `text` must be string of length <= 3; got 'abcd'"),
        (
            {"model": {"number": "1"}},
            'argument `model` is not valid: number: Input should be a valid integer; got {"number":"1"}',
        ),
        (
            {"citty": "Oslo"},
            f"there is no argument `citty`; it takes: {NAMES}",
        ),
    ],
    ids=str,
)
def test_a_problem_names_the_argument_what_is_expected_and_what_came(given: Given, problem: str) -> None:
    assert problems(given) == (problem,)


class Odd(pydantic.BaseModel):
    number: int

    @pydantic.model_validator(mode="after")
    def is_odd(self) -> Odd:
        if self.number % 2 == 0:
            raise ValueError("an odd number is wanted")
        return self


class OfOurOwn:
    """What does what a model does, but refuses in its own words."""

    @classmethod
    def model_json_schema(cls, *, ref_template: str) -> Given:
        return {"type": "integer"}

    @classmethod
    def model_validate_json(cls, json_data: bytes, *, strict: bool) -> OfOurOwn:
        raise ValueError(f"not {json_data.decode()}")


def test_a_model_says_in_its_own_words_what_is_wrong() -> None:
    @tool
    def check(odd: Odd | None = None, own: OfOurOwn | None = None) -> None: ...

    with pytest.raises(InvalidArgumentsError) as refused:
        asyncio.run(check.run({"odd": {"number": 2}, "own": 5}))

    assert refused.value.problems == (
        'argument `odd` is not valid: Value error, an odd number is wanted; got {"number":2}',
        "argument `own` is not valid: not 5; got 5",
    )


@pytest.mark.parametrize(("given", "shown"), [([1], "[1]"), ("Oslo", "'Oslo'"), (None, "null"), (b"", "b''")])
def test_arguments_that_are_no_object_are_refused(given: object, shown: str) -> None:
    assert problems(given) == (f"its arguments must be a JSON object; got {shown}",)


def test_what_came_is_not_shown_at_any_length() -> None:
    (problem,) = problems({"days": "9" * 1000})

    assert problem == f"argument `days` must be of type integer; got '{'9' * 79}…"


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidArgumentsError) as refused:
        asyncio.run(need.run({"citty": "Oslo", "unit": "k"}))

    assert str(refused.value) == (
        "need: there is no argument `citty`; it takes: `city`, `unit`; argument `city` is missing; "
        "argument `unit` must be one of 'c', 'f'; got 'k'"
    )


def test_a_tool_that_takes_nothing_says_so() -> None:
    @tool
    def now() -> str:
        return "now"

    with pytest.raises(InvalidArgumentsError, match="now: there is no argument `zone`; it takes: none"):
        asyncio.run(now.run({"zone": "UTC"}))


class Box(TypedDict):
    size: int
    label: str | None


@tool
def store(
    *,
    number: int,
    share: float,
    name: str,
    flag: bool,
    unit: Literal["c", "f"] = "c",
    boxes: list[Box] | None = None,
    counts: dict[str, int] | None = None,
    pair: tuple[int, str] | None = None,
    either: int | str = 0,
    few: Annotated[list[int], msgspec.Meta(max_length=2)] = [],  # noqa: B006 - it is not changed
) -> str:
    return "stored"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -2.0, "", "c", "f", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["size", "label", "c"]), inner, max_size=3)
    ),
    max_leaves=5,
)
BOXES: st.SearchStrategy[Given] = st.fixed_dictionaries(
    {"size": st.integers(0, 3)}, optional={"label": st.none() | st.just("a")}
)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "unit": st.sampled_from("cfk"),
    "boxes": st.lists(BOXES),
    "counts": st.dictionaries(st.sampled_from("ab"), st.integers(0, 3) | st.just(1.0)),
    "pair": st.tuples(st.integers(0, 3), st.just("a")).map(list),
    "either": st.integers(0, 3) | st.just("a"),
    "few": st.lists(st.integers(0, 3), max_size=3),
}
REQUIRED: dict[str, st.SearchStrategy[Any]] = {
    "number": st.integers(-3, 3) | st.sampled_from([1.0, 0.5]),
    "share": st.integers(-3, 3) | st.just(0.5),
    "name": st.text(max_size=2),
    "flag": st.booleans(),
}
FITTING = st.fixed_dictionaries(REQUIRED, optional=OPTIONAL)
STRANGE = st.dictionaries(
    st.sampled_from([*object_at(store.spec.input_schema, "properties"), "other"]), VALUES, max_size=4
)


@given(FITTING, STRANGE)
def test_a_tool_takes_what_its_schema_describes_and_nothing_else(fitting: Given, strange: Given) -> None:
    arguments = fitting | strange

    try:
        taken = asyncio.run(store.run(arguments)) == "stored"
    except InvalidArgumentsError:
        taken = False

    assert taken == fits(store.spec.input_schema, arguments)
