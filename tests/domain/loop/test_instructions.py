"""Instructions are values or mappings, under the document's names or ours, and say what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.instructions import (
    KINDS,
    CallLLM,
    CallTool,
    CallToolsBatch,
    CompressContext,
    Finish,
    RequestHumanApprove,
    RequestHumanPrompt,
    RequestHumanSelect,
    instruction_of,
    snake,
    type_of,
)

CALL: Any = {"id": "c1", "type": "function", "function": {"name": "tool", "arguments": ""}}
OPTIONS: Any = [{"label": "Red", "value": "r"}, {"label": "Blue"}, "Green"]


@pytest.mark.parametrize(
    ("mapping", "value"),
    [
        ({"type": "call_llm", "payload": {"a": 1}}, CallLLM({"a": 1})),
        ({"type": "call_llm"}, CallLLM()),
        ({"type": "call_tool", "toolCall": CALL}, CallTool(CALL)),
        ({"type": "call_tool", "tool_call": CALL}, CallTool(CALL)),
        ({"type": "call_tool", "toolCalling": CALL}, CallTool(CALL)),
        ({"type": "call_tools_batch", "toolsCalling": [CALL]}, CallToolsBatch([CALL])),
        ({"type": "call_tools_batch", "tool_calls": (CALL,)}, CallToolsBatch([CALL])),
        ({"type": "request_human_approve", "pendingToolsCalling": [CALL]}, RequestHumanApprove([CALL])),
        ({"type": "request_human_approve", "pending_tool_calls": [CALL]}, RequestHumanApprove([CALL])),
        ({"type": "request_human_prompt", "prompt": "Why?"}, RequestHumanPrompt("Why?")),
        ({"type": "request_human_select", "prompt": "?", "options": OPTIONS}, RequestHumanSelect("?", OPTIONS)),
        ({"type": "finish"}, Finish("completed")),
        ({"type": "finish", "reason": "x", "reasonDetail": "y", "more": 1}, Finish("x", "y")),
        ({"type": "compress_context", "keep": 2}, CompressContext(keep=2)),
    ],
)
def test_a_mapping_is_as_good_as_a_value(mapping: dict[str, Any], value: Any) -> None:  # noqa: ANN401
    assert instruction_of(mapping) == value
    assert instruction_of(value) is value
    assert value == dict(value)
    assert (value.type, value["type"]) == (mapping["type"], mapping["type"])
    assert KINDS[value.type] is type(value)


def test_options_are_labels_and_values() -> None:
    options: Any = RequestHumanSelect("?", OPTIONS).options

    assert options == [
        {"label": "Red", "value": "r"},
        {"label": "Blue", "value": "Blue"},
        {"label": "Green", "value": "Green"},
    ]
    assert RequestHumanSelect("?", options).options[2].value == "Green"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"type": "call_tool"}, "call_tool needs `tool_call`, and has: type"),
        ({"type": "call_tool", "toolCall": 5}, "a call of a tool must be a mapping"),
        (
            {"type": "call_tools_batch", "toolsCalling": CALL},
            "`tool_calls` of call_tools_batch must be a list",
        ),
        ({"type": "call_tools_batch", "toolsCalling": [CALL, CALL]}, "two calls have the id 'c1'"),
        (
            {"type": "request_human_approve", "pendingToolsCalling": []},
            "a list with at least one call in it",
        ),
        ({"type": "request_human_prompt", "prompt": " "}, "`prompt` of request_human_prompt must be the text"),
        ({"type": "request_human_prompt", "prompt": "?", "metadata": 5}, "metadata must be a mapping, not 5"),
        (
            {"type": "request_human_select", "prompt": 5, "options": ["a"]},
            "`prompt` of request_human_select must be the",
        ),
        ({"type": "request_human_select", "prompt": "?", "options": []}, "a list with at least one option"),
        ({"type": "request_human_select", "prompt": "?", "options": "ab"}, "a list with at least one option"),
        ({"type": "request_human_select", "prompt": "?", "options": [5]}, "an option must be a mapping"),
        ({"type": "request_human_select", "prompt": "?", "options": [{"label": "a", "value": object()}]}, "'a' is no"),
        ({"type": "request_human_select", "prompt": "?", "options": ["a"], "multi": 1}, "`multi` of request_human_"),
        ({"type": "finish", "reason": 5}, "`reason` of finish must be text, not 5"),
        ({"type": "finish", "reasonDetail": 5}, "`reason_detail` of finish must be text, not 5"),
        ({"type": "compress_context", "keep": -1}, "`keep` of compress_context must be a number of messages, not -1"),
        ({"type": "compress_context", "keep": True}, "`keep` of compress_context must be a number of messages"),
        ({"type": "compress_context", "summary": 5}, "`summary` of compress_context must be text, not 5"),
        ({"type": "compress_context", "prompt": 5}, "`prompt` of compress_context must be the text that is asked"),
    ],
)
def test_what_is_wrong_with_an_instruction_is_told(value: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        instruction_of(value)


def test_something_else_with_a_known_type_is_no_instruction() -> None:
    class Odd:
        type = "finish"

    with pytest.raises(InvalidInputError, match="finish is asked for by a `Finish` or a mapping"):
        instruction_of(Odd())
    assert type_of(Odd()) == "finish"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("pendingToolsCalling", "pending_tools_calling"),
        ("maxTotal", "max_total"),
        ("reason", "reason"),
        ("a2B", "a2_b"),
    ],
)
def test_names_of_the_document_are_told_as_ours(theirs: str, ours: str) -> None:
    assert (snake(theirs), snake(ours)) == (ours, ours)
