from __future__ import annotations

from datetime import date

import pytest

from reenact.actors.environment.incoming import event_or_error
from reenact.actors.environment.mock import MockEvent
from reenact.domain.messages import OpaqueBlock, TextBlock
from reenact.domain.plain import Json
from reenact.domain.stream.answer import Complete
from reenact.domain.stream.events import (
    MessageDelta,
    MessageStop,
    StreamData,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
)

COMPLETE = Complete(stop_reason="end_turn", content=(TextBlock("ü"), OpaqueBlock({"type": "server_tool_use"})))


@pytest.mark.parametrize(
    "event", [TextDelta(text="ü😀"), ThinkingDelta(text=""), ToolCall(name="x", input={"a": [1, None]}), COMPLETE]
)
def test_a_ready_made_event_stays_what_it_is(event: StreamData) -> None:
    assert event_or_error(event) == event
    assert type(event_or_error(event)) is type(event)


@pytest.mark.parametrize(
    ("reported", "event"),
    [
        ({"type": "text_delta", "data": {"text": "a"}}, TextDelta(text="a")),
        ({"type": "message_stop"}, MessageStop()),
        (MockEvent("message_stop", 5, {"stop_reason": "max_tokens"}), MessageStop(stop_reason="max_tokens")),
        (MockEvent("tool_result", data={"output": "x"}), ToolResult(result="x")),
        (
            MockEvent("error", data={"code": "rate_limit_exceeded"}),
            StreamError(type="rate_limit_exceeded", message="rate_limit_exceeded", retryable=True),
        ),
        (
            MockEvent("error", data={"message": "Rate limit exceeded"}),
            StreamError(type="api_error", message="Rate limit exceeded", retryable=True),
        ),
        (
            {"type": "error", "data": {"type": "invalid_request_error", "message": "no"}},
            StreamError(type="invalid_request_error", message="no", retryable=False),
        ),
        (
            {
                "type": "tool_call",
                "data": {"name": "x", "input": {"day": date(2024, 1, 2), "bytes": b"x"}},
            },
            ToolCall(name="x", input={"day": "2024-01-02", "bytes": "eA=="}),
        ),
    ],
)
def test_each_spelling_is_understood(reported: object, event: StreamData) -> None:
    assert event_or_error(reported) == event


def nested(depth: int) -> Json:
    value: Json = None
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("reported", "complaint"),
    [
        ({"type": "texts"}, "texts"),
        ({"type": "agent_started", "data": {"agent_id": "a"}}, "agent_started"),
        ({"type": "text_delta", "data": {"text": 5}}, "text_delta"),
        ({"type": "text_delta"}, "text_delta"),
        ({"type": "text_delta", "data": "a"}, "mapping"),
        ({"type": 5}, "`type`"),
        ("text", "str"),
        (None, "NoneType"),
        (TextDelta(text="\ud800"), "surrogate"),
        (TextDelta(text=5), "text_delta"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # as careless drivers do
        (ToolCall(name="x", input=object()), "tool_call"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # likewise
        (ToolCall(name="x", input={"a": 1 << 70}), "tool_call"),
        (ToolCall(name="x", input={"a": "\udfff"}), "surrogates"),
        (ToolCall(name="x", input={"a": nested(300)}), "nested"),
        (ToolCall(name="x", input={"a": nested(960)}), "tool_call"),
        (MessageDelta(usage={"a": {1, 2} and object()}), "message_delta"),  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]  # likewise
    ],
)
def test_what_is_no_stream_event_becomes_an_error_that_says_so(reported: object, complaint: str) -> None:
    event = event_or_error(reported)

    assert isinstance(event, StreamError)
    assert event.type == "driver_error"
    assert complaint in event.message
