"""Calls come in two shapes, are kept as they came, and say what is wrong with them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from reenact.domain.loop.calls import (
    UNREADABLE,
    ToolCall,
    call_of,
    input_of,
    is_unreadable,
    looks_like_a_call,
    with_arguments,
)
from reenact.domain.loop.faults import InvalidToolCallError

OPENAI = {"id": "c1", "type": "function", "function": {"name": "tool", "arguments": '{"x": 1}'}}
ANTHROPIC = {"type": "tool_use", "id": "c1", "name": "tool", "input": {"x": 1}, "cache_control": None}


@pytest.mark.parametrize("shape", [OPENAI, ANTHROPIC])
def test_a_call_is_what_asked_for_it(shape: dict[str, Any]) -> None:
    call = call_of(shape)

    assert call == shape
    assert (call.id, call.name, call.input) == ("c1", "tool", {"x": 1})
    assert call_of(call) is call
    assert pickle.loads(pickle.dumps(call)) == copy.deepcopy(call) == call  # noqa: S301 - it is our own


def test_the_arguments_are_json_as_the_model_wrote_them() -> None:
    assert (ToolCall(OPENAI).arguments, ToolCall(ANTHROPIC).arguments) == ('{"x": 1}', '{"x":1}')


@pytest.mark.parametrize("arguments", ['{"x":1}', {"x": 1}])
def test_a_call_can_be_written_with_its_parts(arguments: Any) -> None:  # noqa: ANN401
    assert ToolCall(id="c1", name="tool", arguments=arguments) == {
        "id": "c1",
        "type": "function",
        "function": {"name": "tool", "arguments": '{"x":1}'},
    }


def test_other_arguments_stand_in_the_calls_own_shape() -> None:
    assert with_arguments(ToolCall(OPENAI), {"y": 2}).function == {"name": "tool", "arguments": '{"y":2}'}
    assert with_arguments(ToolCall(ANTHROPIC), {"y": 2}) == {**ANTHROPIC, "input": {"y": 2}}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "a call of a tool must be a mapping with an id and a function, or a `ToolCall`, not 5"),
        ({"function": {"name": "tool", "arguments": ""}}, "needs an `id`"),
        ({"id": "", "function": {"name": "tool", "arguments": ""}}, "needs an `id`"),
        ({"id": 5, "function": {"name": "tool", "arguments": ""}}, "needs an `id`"),
        ({"id": "c1"}, "call 'c1' needs the name of a tool"),
        ({"id": "c1", "function": {"arguments": ""}}, "call 'c1' needs the name of a tool"),
        ({"id": "c1", "function": {"name": "", "arguments": ""}}, "call 'c1' needs the name of a tool"),
        ({"id": "c1", "type": "tool_use", "name": "tool"}, "the arguments of tool must be an object of JSON, not None"),
        ({"id": "c1", "function": {"name": "tool", "arguments": "[1]"}}, r"an object of JSON, not \[1\]"),
        ({"id": "c1", "function": {"name": "tool", "arguments": "null"}}, "an object of JSON, not None"),
        ({"id": "c1", "function": {"name": "tool", "arguments": " "}}, "the arguments of tool are not JSON: "),
        ({"id": "c1", "function": {"name": "tool", "arguments": "{"}}, "the arguments of tool are not JSON: "),
        ({"id": "c1", "function": {"name": "tool", "arguments": '{"x":NaN}'}}, "NaN is not a JSON number"),
        ({"id": "c1", "function": {"name": "tool", "arguments": '{"x":1e999}'}}, "inf, which is not a JSON number"),
        ({"id": "c1", "function": {"name": "tool", "arguments": {"x": [float("nan")]}}}, "not a JSON number"),
        ({"id": "c1", "function": {"name": "tool", "arguments": '{"x":"\\ud800"}'}}, "the arguments of tool"),
        ({"id": "c1", "function": {"name": "tool", "arguments": "[" * 99999}}, "the arguments of tool are not JSON"),
        ({"id": "c1", "function": object()}, "a call of a tool is not a JSON value"),
    ],
)
def test_what_is_wrong_with_a_call_is_told(value: object, message: str) -> None:
    with pytest.raises(InvalidToolCallError, match=message):
        call_of(value)


@pytest.mark.parametrize(
    ("value", "is_call"),
    [(OPENAI, True), (ANTHROPIC, True), ({"type": "function"}, True), ({"role": "user"}, False), (None, False)],
)
def test_a_call_is_told_from_a_message(value: object, is_call: bool) -> None:  # noqa: FBT001
    assert looks_like_a_call(value) is is_call


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ("", {}),
        ('{"x": [1, null, "a\\n"]}', {"x": [1, None, "a\n"]}),
        ('{"x": 18446744073709551616}', {"x": 2.0**64}),
        ('{"x": -9223372036854775809}', {"x": "-9223372036854775809"}),
        ('{"x": 1e400}', {"x": "1e400"}),
    ],
)
def test_the_input_that_a_model_writes_is_read_with_numbers_that_a_log_can_hold(written: str, given: object) -> None:
    assert input_of(written) == given
    assert not is_unreadable(input_of(written))


@pytest.mark.parametrize(
    "written",
    [
        *('{"x": ', "[1]", '"x"', "null", '{}{"x":1}', '{"x": NaN}', '{"x": "a\nb"}', '{"x": "\\ud83d"}'),
        '{"x":' + "[" * 101 + "]" * 101 + "}",
        '{"x":' + "[" * 5000 + "]" * 5000 + "}",
    ],
    ids=lambda written: written[:20],
)
def test_what_cannot_be_read_is_kept_as_the_model_wrote_it(written: str) -> None:
    assert input_of(written) == {UNREADABLE: written}
    assert is_unreadable(input_of(written))
