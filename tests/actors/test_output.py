"""Types as outputs: their schemas, and the values of them that answers are."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import ConfigurationError, Image, InvalidOutputError, OutputSpec
from reenact.actors.output import output_of, spec_of, with_spec
from reenact.domain.output import faults_of_value


class Currency(Enum):
    EURO = "EUR"
    DOLLAR = "USD"


class Line(msgspec.Struct):
    text: str
    price: float


class Invoice(msgspec.Struct, forbid_unknown_fields=True):
    """An invoice."""

    total: Annotated[float, msgspec.Meta(ge=0, description="with VAT")]
    currency: Currency
    due: date | None = None
    lines: list[Line] = []


class Tree(msgspec.Struct):
    value: int
    children: list[Tree] = []


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list[str])


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1)
    friends: list[Person] = []


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tricks: list[str]


class Even(msgspec.Struct):
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("it is odd")


class Clash(pydantic.BaseModel):
    first: int
    second: int

    @pydantic.model_validator(mode="after")
    def _differ(self) -> Clash:
        if self.first == self.second:
            raise ValueError("they are the same")
        return self


class Either(pydantic.RootModel[Person | Clash]):
    """One of two models."""


VALUES: list[tuple[Any, Any, Any]] = [
    (Invoice, {"total": 5, "currency": "EUR"}, Invoice(5.0, Currency.EURO)),
    (
        Invoice,
        {"total": 1.5, "currency": "USD", "due": "2026-11-24", "lines": [{"text": "tea", "price": 1.5}]},
        Invoice(1.5, Currency.DOLLAR, date(2026, 11, 24), [Line("tea", 1.5)]),
    ),
    (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(1, [Tree(2)])),
    (Tree, {"value": 1.0}, Tree(1)),
    (Point, {"x": 1, "tags": ["a"]}, Point(1, 0, ["a"])),
    (Movie, {"title": "M"}, {"title": "M"}),
    (Person, {"name": "Ann", "friends": [{"name": "Bob"}]}, Person(name="Ann", friends=[Person(name="Bob")])),
    (list[Point], {"value": [{"x": 1}]}, [Point(1)]),
    (list[Tree], {"value": [{"value": 1}]}, [Tree(1)]),
    (list[Person], {"value": [{"name": "Ann"}]}, [Person(name="Ann")]),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (int, {"value": 5}, 5),
    (Literal["yes", "no"], {"value": "yes"}, "yes"),
    (Currency, {"value": "EUR"}, Currency.EURO),
    (Cat | Dog, {"value": {"type": "Dog", "tricks": ["sit"]}}, Dog(["sit"])),
    (Either, {"value": {"first": 1, "second": 2}}, Either(Clash(first=1, second=2))),
]


@pytest.mark.parametrize(("kind", "answer", "value"), VALUES, ids=lambda one: str(one)[:40])
def test_an_answer_that_fits_is_a_value_of_the_type(kind: Any, answer: Any, value: Any) -> None:  # noqa: ANN401
    output = output_of(kind)

    assert faults_of_value(output.spec.schema, answer) == ()
    assert output.value(answer, "t") == value


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (Invoice, {"total": -1, "currency": "EUR"}),
        (Invoice, {"total": 1, "currency": "EUR", "vat": 1}),
        (Invoice, {"total": 1, "currency": "EUR", "due": "soon"}),
        (Tree, {"value": 1, "children": [{"value": "two"}]}),
        (Point, {"y": 1}),
        (Movie, {"title": 1}),
        (Person, {"name": ""}),
        (list[Point], {"value": [1]}),
        (Literal["yes", "no"], {"value": "perhaps"}),
        (Cat | Dog, {"value": {"type": "Cow"}}),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_is_no_value_of_the_type_does_not_fit(kind: Any, answer: Any) -> None:  # noqa: ANN401 - any type
    assert faults_of_value(output_of(kind).spec.schema, answer) != ()


def test_a_schema_says_what_the_type_says() -> None:
    spec = output_of(Invoice).spec
    properties: Any = spec.schema["properties"]

    assert (spec.name, spec.retries, spec.schema["description"]) == ("Invoice", 2, "An invoice.")
    assert properties["total"]["description"] == "with VAT"
    assert properties["currency"]["enum"] == ["EUR", "USD"]
    assert "$defs" not in spec.schema


@pytest.mark.parametrize(
    "answer", [(Even, {"number": 3}), (Clash, {"first": 1, "second": 1})], ids=["msgspec", "pydantic"]
)
def test_a_rule_that_no_schema_says_is_the_type_s_own(answer: tuple[Any, Any]) -> None:
    kind, value = answer
    output = output_of(kind)
    assert faults_of_value(output.spec.schema, value) == ()

    with pytest.raises(InvalidOutputError, match=r"turn 't1'.*(odd|the same)") as invalid:
        output.value(value, "t1")
    assert invalid.value.turn_id == "t1"


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"enum": (1, 2)}}}


@pytest.mark.parametrize("given", [SCHEMA, OutputSpec(name="answer", schema=SCHEMA)], ids=["schema", "spec"])
def test_a_schema_gives_values_as_json_has_them(given: Any) -> None:  # noqa: ANN401 - both
    output = output_of(given)

    assert output.spec == OutputSpec(name="answer", schema={"type": "object", "properties": {"a": {"enum": [1, 2]}}})
    assert output.value({"a": 1}, "t") == {"a": 1}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (complex, "output 'complex': the type has no JSON Schema"),
        (Person | Clash, "if these are pydantic models, use a RootModel of them)"),
        (5, "output 'answer': the type has no JSON Schema"),
        ([1], "output must be a type, a JSON Schema or an OutputSpec, not"),
        ("a JSON object", "output must be a type, a JSON Schema or an OutputSpec, not"),
        ({"type": "array"}, "its `type` is 'object'"),
        ({"type": "object", "properties": {"a": {"pattern": "(?=a)"}}}, "cannot be matched in bounded time"),
        ({"type": "object", "default": object()}, "output 'answer'"),
    ],
)
def test_what_no_answer_could_be_held_to_is_refused(given: Any, problem: str) -> None:  # noqa: ANN401 - anything
    with pytest.raises(ConfigurationError) as refused:
        output_of(given)

    assert problem in str(refused.value)


def test_an_image_is_registered_with_the_schema_of_its_output() -> None:
    assert with_spec(Image(id="i", output=Point)) == Image(id="i", output=output_of(Point).spec)
    assert with_spec(Image(id="i")) == Image(id="i")
    assert spec_of(None) is None


class Many(msgspec.Struct):
    numbers: list[Annotated[int, msgspec.Meta(ge=-3, le=3)]]
    word: Annotated[str, msgspec.Meta(min_length=1, max_length=3, pattern="^[ab]*$")]
    choice: Literal["x", "y"] | None = None
    pair: tuple[int, str] | None = None
    inner: Many | None = None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("abx", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["numbers", "word", "choice", "pair", "inner"]), inner, max_size=5)
    ),
    max_leaves=10,
)
likely = st.fixed_dictionaries(
    {"numbers": st.lists(st.integers(-4, 4), max_size=2), "word": st.text("abc", max_size=4)},
    optional={"choice": st.sampled_from(["x", "y", "z", None]), "pair": json_values, "inner": json_values},
)


@given(json_values | likely)
def test_what_fits_the_schema_of_a_type_is_read_as_it_and_nothing_else_is(value: Any) -> None:  # noqa: ANN401 - JSON
    output = output_of(Many)

    try:
        msgspec.convert(value, Many)
    except msgspec.ValidationError:
        assert faults_of_value(output.spec.schema, value) != ()
    else:
        assert faults_of_value(output.spec.schema, value) == ()
        assert output.value(value, "t") == msgspec.convert(value, Many)
