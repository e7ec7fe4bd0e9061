"""What tools return becomes what a model is given and what is recorded; the one can be told from the other."""

from __future__ import annotations

import base64
import decimal
import math
import pathlib
import types
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.environment.tools.outcome import (
    MAX_BLOCK,
    MAX_OUTPUT,
    ToolOutcome,
    error_text,
    failure,
    outcome_of,
)
from reenact.domain.attachments import ImageBlock
from reenact.domain.loop.calls import content_of, json_text
from reenact.domain.messages import TextBlock
from reenact.domain.plain import JsonDict


class Unit(Enum):
    CELSIUS = "c"


class Reading(msgspec.Struct, rename="camel"):
    taken_at: datetime
    value: float


class Model(pydantic.BaseModel):
    day: date
    name: str = "x"


@dataclass
class Place:
    latitude: float
    longitude: float = 0.0


class Holder(msgspec.Struct):
    held: Any


class Strange:
    pass


NOON = datetime(2020, 1, 2, 12, tzinfo=UTC)
PNG = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}
IMAGE: JsonDict = {"type": "image", "source": PNG}
TEXT = {"type": "text", "text": "Hello"}
CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (None, ""),
        ("", ""),
        ("Grüße\n", "Grüße\n"),
        (42, "42"),
        (1.5, "1.5"),
        (True, "true"),
        ({"result": 42, "name": "Grüße"}, '{"result":42,"name":"Grüße"}'),
        ([1, None, "a"], '[1,null,"a"]'),
        ((1, 2), "[1,2]"),
        ({3, 1, 2}, "[1,2,3]"),
        (frozenset({"b", "a"}), '["a","b"]'),
        ({"a": {2, 1}}, '{"a":[1,2]}'),
        ({1: "a", None: "b"}, '{"1":"a","null":"b"}'),
        ({date(2020, 1, 2): 1}, '{"2020-01-02":1}'),
        ({Unit.CELSIUS: 1}, '{"c":1}'),
        (NOON, "2020-01-02T12:00:00Z"),
        ([date(2020, 1, 2), timedelta(seconds=90)], '["2020-01-02","PT90S"]'),
        ({"a": decimal.Decimal("1.50")}, '{"a":"1.50"}'),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Unit.CELSIUS, "c"),
        (pathlib.Path("/srv/files"), "/srv/files"),
        (Place(1.0), '{"latitude":1.0,"longitude":0.0}'),
        (msgspec.convert({"latitude": 1}, Place), '{"latitude":1.0,"longitude":0.0}'),
        (Holder(Model(day=date(2020, 1, 2))), '{"held":{"day":"2020-01-02","name":"x"}}'),
        ([Reading(NOON, 1.5)], '[{"takenAt":"2020-01-02T12:00:00Z","value":1.5}]'),
        (Model(day=date(2020, 1, 2)), '{"day":"2020-01-02","name":"x"}'),
        ({"at": [Model(day=date(2020, 1, 2))]}, '{"at":[{"day":"2020-01-02","name":"x"}]}'),
        (types.MappingProxyType({"a": types.MappingProxyType({"b": 1})}), '{"a":{"b":1}}'),
        ([], "[]"),
        (TEXT, '{"type":"text","text":"Hello"}'),
        ([{"type": "image", "source": "the camera"}], '[{"type":"image","source":"the camera"}]'),
        ([TEXT, {"type": "video"}], '[{"type":"text","text":"Hello"},{"type":"video"}]'),
        ([TEXT, 1], '[{"type":"text","text":"Hello"},1]'),
        ([{"type": ["string", "null"]}], '[{"type":["string","null"]}]'),
    ],
)
def test_text_stays_text_and_all_else_becomes_json(result: object, content: str) -> None:
    outcome = outcome_of(result)

    assert (outcome.content, outcome.is_error, outcome.duration) == (content, False, 0.0)
    assert content_of(outcome.result) == content


def test_text_of_a_type_of_its_own_becomes_plain_text() -> None:
    class Found(str):
        """As what parsers of pages return."""

        __slots__ = ()

        def __str__(self) -> str:
            return self

    for result in (Found("Hello"), ToolOutcome(Found("Hello"))):
        outcome = outcome_of(result)

        assert (outcome.content, outcome.result) == ("Hello", "Hello")
        assert (type(outcome.content), type(outcome.result)) == (str, str)


@pytest.mark.parametrize(
    "blocks",
    [
        [TEXT],
        [TEXT, IMAGE],
        [{"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}, "title": "A"}],
        [{"type": "search_result", "source": "https://example.org", "title": "A", "content": [TEXT]}],
    ],
    ids=["text", "image", "document", "search_result"],
)
def test_content_blocks_are_handed_on(blocks: list[dict[str, Any]]) -> None:
    outcome = outcome_of(blocks)

    assert outcome == ToolOutcome(tuple(blocks), result=blocks)
    assert content_of(outcome.result) == outcome.content


def test_blocks_may_be_of_our_own_types_too() -> None:
    assert outcome_of((TextBlock("Hello"), IMAGE)).content == (TEXT, IMAGE)


PICTURE = ImageBlock.from_bytes(b"hello", "image/png")


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (PICTURE, (IMAGE,)),
        (TextBlock("Hello"), (TEXT,)),
        (["Hello", PICTURE, ""], (TEXT, IMAGE)),
    ],
    ids=["image", "text", "texts and images"],
)
def test_a_block_need_not_be_in_a_list_and_texts_may_stand_between_blocks(result: object, content: object) -> None:
    assert outcome_of(result).content == content


def test_a_mapping_that_looks_like_a_block_is_shown_as_it_is() -> None:
    assert outcome_of(IMAGE).content == json_text(IMAGE)


def test_blank_text_which_the_api_refuses_is_left_out() -> None:
    assert outcome_of([{"type": "text", "text": " \n"}, IMAGE]).content == (IMAGE,)
    assert outcome_of([{"type": "text", "text": ""}]) == ToolOutcome()


def test_the_outcome_does_not_change_when_the_tool_changes_what_it_returned() -> None:
    kept = {"a": [1]}
    outcome = outcome_of(kept)

    kept["a"].append(2)

    assert outcome.result == {"a": [1]}


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**64, 2**100, -(2**100)])
def test_a_number_of_any_size_can_be_sent_and_recorded(number: int) -> None:
    outcome = outcome_of({"number": number})

    assert outcome.content == f'{{"number":{number}}}'
    assert content_of(outcome.result) == outcome.content
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(outcome)) is not None


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (b"x", "type bytes that cannot be sent: it holds bytes; return text, or a content block with base64 in it"),
        ({"a": [bytearray(b"x")]}, "type dict that cannot be sent: it holds bytes"),
        ([memoryview(b"x")], "type list that cannot be sent: it holds bytes"),
        (Place(math.nan), "type Place that cannot be sent: Out of range float values are not JSON compliant"),
        ([math.inf], "type list that cannot be sent: Out of range float values are not JSON compliant"),
        (CYCLE, "type list that cannot be sent: Circular reference detected"),
        ("\ud800", "type str that cannot be sent: its text contains a lone surrogate, at index 0"),
        ({"a": "\ud800"}, "type dict that cannot be sent: its text contains a lone surrogate"),
        (Strange(), "type Strange that cannot be sent: it holds a value of type Strange; return text, numbers"),
        ([{"a": Strange()}], "type list that cannot be sent: it holds a value of type Strange"),
        (Place(Strange()), "type Place that cannot be sent: it holds a value of type Strange"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - a mistake
        (Holder(Strange()), "type Holder that cannot be sent: it holds a value of type Strange"),
        (Strange, "type type that cannot be sent: it holds a value of type type"),
        ((number for number in (1, 2)), "type generator that cannot be sent: it holds a value of type generator"),
        ({(1, 2): 3}, "type dict that cannot be sent: Only dicts with str-like or number-like keys"),
        (1j, "type complex that cannot be sent: it holds a value of type complex"),
    ],
)
def test_what_json_does_not_have_makes_an_error_that_names_the_tool_and_the_type(result: object, message: str) -> None:
    outcome = outcome_of(result, tool="look")

    assert outcome.is_error
    assert str(outcome.content).startswith(f"look returned a result of {message}")
    assert outcome.result == outcome.content


@pytest.mark.parametrize("depth", [101, 960, 100_000])
def test_what_is_nested_too_deeply_makes_an_error(depth: int) -> None:
    deep: list[Any] = []
    for _ in range(depth):
        deep = [deep]

    assert "nested" in str(outcome_of(deep).content)


def test_a_set_without_an_order_can_be_sent_too() -> None:
    content = str(outcome_of({1, "a"}).content)

    assert sorted(msgspec.json.decode(content), key=str) == [1, "a"]


def test_a_text_that_is_too_long_is_cut_and_says_so() -> None:
    outcome = outcome_of("ü" * 20, limit=11)

    assert outcome.content == "üüüüü\n[cut here: 29 of 40 bytes are left out]"
    assert outcome.result == outcome.content


def test_a_text_that_just_fits_is_not_cut() -> None:
    assert outcome_of("ü" * 20, limit=40).content == "ü" * 20
    assert outcome_of("x" * MAX_OUTPUT).content == "x" * MAX_OUTPUT


def test_json_that_is_too_long_is_cut_and_recorded_as_it_was_sent() -> None:
    outcome = outcome_of(list(range(20)), limit=5)

    assert outcome.content == "[0,1,\n[cut here: 46 of 51 bytes are left out]"
    assert outcome.result == outcome.content


def test_all_text_of_several_blocks_together_has_a_limit() -> None:
    texts = [{"type": "text", "text": "abcdef"}] * 3

    outcome = outcome_of([*texts, IMAGE], limit=8)

    assert outcome.content == (
        {"type": "text", "text": "abcdef"},
        {"type": "text", "text": "ab\n[cut here: 4 of 6 bytes are left out]"},
        {"type": "text", "text": "\n[cut here: 6 of 6 bytes are left out]"},
        IMAGE,
    )


def test_an_image_that_is_too_large_is_left_out_and_the_model_is_told() -> None:
    data = base64.b64encode(bytes(MAX_BLOCK)).decode()
    large = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}

    outcome = outcome_of([large, TEXT])

    note = "[image of 13,333,414 bytes left out: at most 10,000,000 are sent]"
    assert outcome.content == ({"type": "text", "text": note}, TEXT)


def test_a_tool_may_say_itself_that_it_failed() -> None:
    assert outcome_of(ToolOutcome("no such city", is_error=True)) == ToolOutcome(
        "no such city", is_error=True, result="no such city"
    )
    assert outcome_of(ToolOutcome((IMAGE,), is_error=True)) == ToolOutcome((IMAGE,), is_error=True, result=[IMAGE])
    assert (
        outcome_of(ToolOutcome("x" * 9, is_error=True), limit=3).content == "xxx\n[cut here: 6 of 9 bytes are left out]"
    )
    assert outcome_of(ToolOutcome("\ud800")).is_error


def test_a_tool_may_give_an_outcome_its_result_alone() -> None:
    outcome = outcome_of(ToolOutcome(result={"degrees": 7}, is_error=True))

    assert (outcome.content, outcome.result, outcome.is_error) == ('{"degrees":7}', {"degrees": 7}, True)
    assert outcome_of(ToolOutcome()) == ToolOutcome()


def test_a_failure_is_told_in_words_and_recorded_as_such() -> None:
    assert failure("no such city") == ToolOutcome("no such city", is_error=True, result="no such city")
    assert failure("\ud800").content == "\\ud800"
    assert failure("x" * 9, limit=3).content == "xxx\n[cut here: 6 of 9 bytes are left out]"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("I say nothing")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (ValueError(), "ValueError"),
        (KeyError("city"), "KeyError: 'city'"),
        (SystemExit(3), "SystemExit: 3"),
        (Mute(), "Mute"),
        (
            ExceptionGroup("both", [ValueError("no"), ExceptionGroup("one", [Mute()])]),
            "ExceptionGroup: both (2 sub-exceptions): ValueError: no; ExceptionGroup: one (1 sub-exception): Mute",
        ),
    ],
)
def test_of_an_exception_its_type_and_its_message_are_told(error: BaseException, words: str) -> None:
    assert error_text(error) == words


def raising(error: Exception) -> Callable[..., Any]:
    def raise_it(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 - it returns nothing
        raise error

    return raise_it


def test_a_result_that_fails_when_it_is_read_is_the_tool_s_mistake() -> None:
    class Broken:
        model_dump = raising(ValueError("I am not ready"))

    outcome = outcome_of(Broken(), tool="look")

    assert outcome.content == "look returned a result of type Broken that cannot be sent: I am not ready"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "text", "source", "a"]), inner | st.sampled_from(["text", "image"]), max_size=3
        )
    ),
    max_leaves=10,
)


@given(JSON, st.integers(0, 30))
def test_what_the_model_was_given_can_be_told_again_from_what_was_recorded(value: object, limit: int) -> None:
    outcome = outcome_of(value, limit=limit)

    recorded = msgspec.msgpack.decode(msgspec.msgpack.encode(outcome.result))

    assert not outcome.is_error
    assert content_of(recorded) == outcome.content
