"""The schema of a tool says what the function takes, as its signature and its docstring have it."""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union, get_origin

import msgspec
import pydantic
import pytest
from jsonschema import Draft202012Validator

from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.tool import Tool, tool
from reenact.domain.errors import ConfigurationError
from tests.environment.tools.support import fits
from tests.jsons import at, object_at


class Unit(Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Range(TypedDict):
    low: int
    high: NotRequired[int]


@dataclass
class Place:
    """Where something is."""

    latitude: float
    longitude: float = 0.0
    names: list[str] = field(default_factory=list[str])


class Tree(msgspec.Struct):
    value: int
    left: Tree | None = None
    right: Tree | None = None


class Folder(msgspec.Struct):
    files: list[File]


class File(msgspec.Struct):
    linked: Folder | None = None


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    barks: bool


class Model(pydantic.BaseModel):
    number: int = pydantic.Field(description="Any number.", ge=1)
    nodes: list[Node] = []


class Node(pydantic.BaseModel):
    nodes: list[Node] = []


def schema_of(annotation: object) -> dict[str, Any]:
    """Return the schema of a parameter of this type."""

    def look(value: Any) -> None: ...  # noqa: ANN401 - whatever it is

    look.__annotations__["value"] = annotation
    whole = tool(look).spec.input_schema
    Draft202012Validator.check_schema(whole)
    return object_at(whole, "properties", "value")


NULL = {"type": "null"}
TIME = {"type": "string", "format": "date-time"}
PLACE = {
    "title": "Place",
    "description": "Where something is.",
    "type": "object",
    "properties": {
        "latitude": {"type": "number"},
        "longitude": {"type": "number", "default": 0.0},
        "names": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["latitude"],
}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, NULL),
        (Any, {}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (Optional[int], {"anyOf": [{"type": "integer"}, NULL]}),  # noqa: UP045 - people write it
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007 - likewise
        (int | str | None, {"anyOf": [{"type": "integer"}, {"type": "string"}, NULL]}),
        (Literal["c", "f"], {"enum": ["c", "f"]}),
        (Literal[1, 2], {"enum": [1, 2]}),
        (Unit, {"title": "Unit", "enum": ["c", "f"]}),
        (Size, {"title": "Size", "enum": [1, 2]}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (datetime, TIME),
        (datetime | None, {"anyOf": [TIME, NULL]}),
        (list[datetime], {"type": "array", "items": TIME}),
        (dict[str, datetime], {"type": "object", "additionalProperties": TIME}),
        (Annotated[datetime, "when"], TIME | {"description": "when"}),
        (date, {"type": "string", "format": "date"}),
        (timedelta, {"type": "string", "format": "duration"}),
        (Decimal, {"type": "string", "format": "decimal"}),
        (
            Range,
            {
                "title": "Range",
                "type": "object",
                "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}},
                "required": ["low"],
            },
        ),
        (Place, PLACE),
        (list[Place], {"type": "array", "items": PLACE}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (
            Annotated[int, msgspec.Meta(ge=1, description="how many")],
            {"type": "integer", "minimum": 1, "description": "how many"},
        ),
        (Annotated[Place, "where"], PLACE | {"description": "where"}),
    ],
    ids=str,
)
def test_a_type_has_the_schema_of_its_values(annotation: object, schema: object) -> None:
    assert schema_of(annotation) == schema


@pytest.mark.parametrize("name", ["List", "Tuple", "Set", "FrozenSet", "Dict"])
def test_a_collection_may_be_that_of_typing_without_the_type_of_its_items(name: str) -> None:
    collection = getattr(typing, name)

    assert schema_of(collection) == schema_of(get_origin(collection))


def test_alternatives_are_told_apart_by_their_tags() -> None:
    first, second = schema_of(Cat | Dog)["anyOf"]

    assert [first["properties"]["type"], second["properties"]["type"]] == [{"enum": ["Cat"]}, {"enum": ["Dog"]}]
    assert "discriminator" not in schema_of(Cat | Dog)


def test_a_parameter_may_be_named_like_what_alternatives_are_told_apart_by() -> None:
    @tool
    def look(discriminator: str, pet: Cat | Dog) -> None: ...

    assert at(object, look.spec.input_schema, "properties", "discriminator") == {"type": "string"}


def test_a_type_that_holds_itself_is_defined_once_and_referred_to() -> None:
    @tool
    def plant(tree: Tree, others: list[Tree]) -> None: ...

    schema = plant.spec.input_schema

    Draft202012Validator.check_schema(schema)
    assert at(object, schema, "properties", "tree") == {"$ref": "#/$defs/Tree"}
    assert list(object_at(schema, "$defs")) == ["Tree"]
    assert fits(schema, {"tree": {"value": 1, "left": {"value": 2}}, "others": []})
    assert not fits(schema, {"tree": {"value": 1, "left": {"value": "2"}}, "others": []})


def test_types_that_hold_each_other_are_both_defined() -> None:
    @tool
    def store(folder: Folder) -> None: ...

    schema = store.spec.input_schema

    assert list(object_at(schema, "$defs")) == ["File", "Folder"]
    cases: list[tuple[Any, bool]] = [(None, True), ({"files": []}, True), ({"files": 5}, False)]
    for inside, fit in cases:
        assert fits(schema, {"folder": {"files": [{"linked": inside}]}}) == fit


def test_nothing_else_is_referred_to() -> None:
    @tool
    def look(place: Place, others: list[Place], by_name: dict[str, Place], unit: Unit | None = None) -> None: ...

    assert "$ref" not in json.dumps(look.spec.input_schema)
    assert "$defs" not in look.spec.input_schema


def test_a_pydantic_model_is_a_type_too() -> None:
    @tool
    def look(model: Model, others: list[Model]) -> None: ...

    schema = look.spec.input_schema

    Draft202012Validator.check_schema(schema)
    assert at(object, schema, "properties", "model", "properties", "number") == {
        "type": "integer",
        "minimum": 1,
        "description": "Any number.",
        "title": "Number",
    }
    assert list(object_at(schema, "$defs")) == ["Node"]


def test_two_types_of_one_name_are_refused() -> None:
    other = msgspec.defstruct("Node", [("name", str)])

    def look(model: Model, node: Any) -> None: ...  # noqa: ANN401 - the other

    look.__annotations__["node"] = other
    with pytest.raises(ConfigurationError, match="tool look: its arguments have no JSON Schema: two different types"):
        tool(look)


def test_the_whole_is_an_object_that_has_no_other_arguments() -> None:
    @tool
    def look(city: str, unit: Literal["c", "f"] = "c", *, days: int | None = None) -> None: ...

    assert look.spec.input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"enum": ["c", "f"], "default": "c"},
            "days": {"anyOf": [{"type": "integer"}, NULL], "default": None},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_a_tool_may_take_nothing() -> None:
    @tool
    def now() -> str:
        return "now"

    assert now.spec.input_schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        (Unit.CELSIUS, "c"),
        ([1, 2], [1, 2]),
        ({"a": 1}, {"a": 1}),
        (Place(1.0), {"latitude": 1.0, "longitude": 0.0, "names": []}),
        (date(2020, 1, 2), "2020-01-02"),
    ],
    ids=str,
)
def test_a_default_is_shown_as_json(default: object, shown: object) -> None:
    def look(value: Any = default) -> None: ...  # noqa: ANN401 - any JSON value

    assert at(object, tool(look).spec.input_schema, "properties", "value") == {"default": shown}


def test_a_set_has_one_order_in_every_process() -> None:
    names = frozenset("hgfedcba")
    whole = msgspec.defstruct("Whole", [("names", frozenset[str], names)], frozen=True)
    given = whole()

    def look(first: Any = names, second: Any = given) -> None: ...  # noqa: ANN401 - any JSON value

    look.__annotations__ |= {"first": frozenset[str], "second": whole}
    first, second = object_at(tool(look).spec.input_schema, "properties").values()

    assert first["default"] == list("abcdefgh")
    assert second["default"] == {"names": list("abcdefgh")}
    assert at(object, second, "properties", "names", "default") == list("abcdefgh")


@pytest.mark.parametrize("default", [object(), float("nan"), ...], ids=["object", "nan", "ellipsis"])
def test_a_default_that_json_does_not_have_is_not_shown(default: object) -> None:
    def look(value: Any = default) -> None: ...  # noqa: ANN401 - any JSON value

    schema = tool(look).spec.input_schema

    assert schema["properties"] == {"value": {}}
    assert schema["required"] == []


def test_what_an_annotation_says_of_a_parameter_comes_before_the_docstring() -> None:
    @tool
    def look(city: Annotated[str, "A city."], days: int, unit: str = "c") -> None:  # noqa: D417 - not said of `unit`
        """Look.

        Args:
            city: Not this.
            days: How many.
        """

    described = {name: of.get("description") for name, of in object_at(look.spec.input_schema, "properties").items()}
    assert described == {"city": "A city.", "days": "How many.", "unit": None}
    assert look.spec.description == "Look."


def test_classes_that_are_local_to_a_function_are_found() -> None:
    @dataclass
    class Local:
        name: str

    @tool
    def look(local: Local) -> str:
        return local.name

    @tool(name="glance")
    def look_again(local: Local) -> str:
        return local.name

    for one in (look, look_again, tool(look_again, name="peek")):
        assert at(object, one.spec.input_schema, "properties", "local", "title") == "Local"


def test_types_in_quotes_are_found_and_what_is_returned_need_not_be() -> None:
    def look(place: Any, places: Any) -> None: ...  # noqa: ANN401 - written below

    look.__annotations__ |= {"place": "Place", "places": "list['Place']", "return": "Nowhere"}

    assert tool(look).spec.input_schema["properties"] == {"place": PLACE, "places": {"type": "array", "items": PLACE}}


class Strange:
    """JSON has nothing like it."""


def wrong(source: str) -> Callable[..., None]:
    """Return a function with this signature."""
    names: dict[str, Any] = {"Strange": Strange, "Any": Any, "ToolContext": ToolContext}
    exec(f"def look({source}) -> None: ...", names)  # noqa: S102 - signatures that no checker would let pass
    made: Callable[..., None] = names["look"]
    return made


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("*cities: str", "parameter `cities` stands for any number of arguments, .*: declare a list"),
        ("**cities: str", "parameter `cities` stands for any argument, .*: declare each, or a dict"),
        ("city: str, /", "parameter `city` is positional-only, .*: remove the `/`"),
        ("city", "parameter `city` has no type: write `city: str`, or `city: Any`"),
        ("city: 'Nowhere'", "parameter `city` has a type that cannot be resolved: name 'Nowhere' is not defined"),
        ("city: 'not a type'", "parameter `city` has a type that cannot be resolved"),
        ("city: ''", "parameter `city` has a type that cannot be resolved"),
        ("__city: str", "parameter `__city` begins with two underscores, as internal names do: rename it"),
        ("__module__: str", "parameter `__module__` begins with two underscores"),
        ("a: ToolContext, b: ToolContext", "parameter `b` is a second ToolContext, beside `a`: remove one"),
        ("ok: int, city: Strange", "parameter `city` has a type that JSON does not have .*Strange.*: use str, int"),
        ("city: object", "parameter `city` has a type that JSON does not have"),
        ("city: complex", "parameter `city` has a type that JSON does not have"),
        (
            "city: list[int] | tuple[int, ...]",
            "parameter `city` has a type that JSON does not have .*more than one array",
        ),
        ("größe: int", "parameter `größe` has a name that the Messages API refuses"),
        (f"{'a' * 65}: int", "parameter `a*` has a name that the Messages API refuses"),
    ],
)
def test_what_a_model_could_not_give_is_refused_with_what_to_do(signature: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^tool look: {message}"):
        tool(wrong(signature))


def test_a_function_without_a_readable_signature_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"tool max: its signature cannot be read .*; wrap it"):
        tool(max)


def test_a_type_of_which_something_inside_is_not_defined_is_refused() -> None:
    broken = msgspec.defstruct("Broken", [("inside", "Missing")])

    def look(ok: int, broken: Any) -> None: ...  # noqa: ANN401 - the broken one

    look.__annotations__["broken"] = broken
    with pytest.raises(ConfigurationError, match=r"parameter `broken` has a type that JSON does not have .*'Missing'"):
        tool(look)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python has no such aliases")
def test_an_alias_that_holds_itself_is_refused() -> None:
    names: dict[str, Any] = {}
    exec("type Nested = list[Nested]", names)  # noqa: S102 - Python 3.11 cannot read it

    def look(nested: Any) -> None: ...  # noqa: ANN401 - the alias

    look.__annotations__["nested"] = names["Nested"]
    with pytest.raises(ConfigurationError, match="parameter `nested` has a type that JSON does not have"):
        tool(look)


def test_the_schema_is_the_same_each_time() -> None:
    def made() -> Tool[..., Any]:
        def look(a: Place, b: Tree | None = None, c: set[str] | None = None) -> None: ...

        return tool(look)

    assert json.dumps(made().spec.input_schema) == json.dumps(made().spec.input_schema)
