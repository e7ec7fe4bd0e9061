"""The catalogue is closed, and the schema describes what is in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator, FormatChecker

from reenact.domain.errors import UnknownCommandError
from reenact.domain.messages import Message, TextBlock, ThinkingBlock, instant
from reenact.domain.operations import table as commands
from reenact.domain.operations.table import CATALOGUE, REQUESTS, RESPONSES, json_schema, response_to
from reenact.domain.stream import events
from reenact.domain.stream.events import NOTIFICATIONS, Context, Envelope, EventData

PAIRS = [
    "container_create",
    "container_get",
    "container_list",
    "image_register",
    "image_get",
    "image_list",
    "session_create",
    "session_branch",
    "session_switch",
    "session_get",
    "session_list",
    "session_page",
    "session_delete",
    "session_forget",
    "session_run",
    "session_messages",
    "session_turns",
    "session_tool_calls",
    "session_usage",
    "turn_locate",
    "agent_get",
    "agent_list",
    "agent_interrupt",
    "agent_destroy",
    "agent_pending",
    "agent_approve",
    "agent_reject",
    "agent_respond",
    "agent_schedule",
    "agent_schedules",
    "agent_cancel_schedule",
    "message_send",
]
MESSAGE = Message(id="m", role="assistant", content=(ThinkingBlock("hm", "s"), TextBlock("Hi")), created_at=instant(1))
EXAMPLES: list[EventData] = [
    events.MessageStart(message_id="m", model=None),
    events.TextDelta(text="Hi"),
    events.ThinkingEnd(signature=None),
    events.ToolCall(name="bash", input={"command": "ls"}),
    events.ToolResult(result=["x"]),
    events.MessageDelta(usage={"output_tokens": 1}),
    events.StreamError(message="busy"),
    events.AgentStateChanged(previous="idle", current="thinking"),
    events.UserMessage(message=MESSAGE),
    events.AssistantMessage(message=MESSAGE),
    events.ErrorMessage(message="busy"),
    events.TurnCompleted(turn_id="t", outcome="completed"),
    events.ContainerCreated(container_id="c"),
    commands.MessageSendRequest(content="Hi", image_id="chat"),
    commands.AgentApproveRequest(call_id="c", arguments={"to": "ann"}),
    commands.ImageRegisterRequest(image=commands.ImageContent(id="chat")),
    RESPONSES["session_get_request"](request_id="r", result={"id": "s"}),
    RESPONSES["agent_list_request"](request_id="r", error=commands.CommandError(code="x", message="y")),
]


def envelope(data: EventData) -> dict[str, Any]:
    """Return the event as it travels."""
    heard = Envelope(
        id="e",
        type=data.event_type,
        timestamp=datetime(2026, 1, 1, tzinfo=UTC),
        source=data.source,
        category=data.category,
        intent=data.intent,
        context=Context(session_id="s"),
        cursor=1,
        data=data,
    )
    travelling: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(heard))
    return travelling


@pytest.fixture(scope="module")
def is_valid() -> Callable[[dict[str, Any]], bool]:
    validator = Draft202012Validator(json_schema(), format_checker=FormatChecker())

    def is_valid(heard: dict[str, Any]) -> bool:
        return validator.is_valid(heard)  # pyright: ignore[reportUnknownMemberType]  # an overload of it is untyped

    return is_valid


def test_every_method_of_the_facades_has_a_request_and_a_response() -> None:
    assert [kind.removesuffix("_request") for kind in REQUESTS] == PAIRS
    assert {asked: response.event_type for asked, response in RESPONSES.items()} == {
        f"{pair}_request": f"{pair}_response" for pair in PAIRS
    }
    assert {kind.intent for kind in REQUESTS.values()} == {"request"}
    assert {kind.intent for kind in RESPONSES.values()} == {"result"}


def test_the_catalogue_holds_each_type_once() -> None:
    assert len(CATALOGUE) == len(NOTIFICATIONS) + 2 * len(PAIRS)
    assert all(kind.event_type == type_ for type_, kind in CATALOGUE.items())


def test_the_response_of_a_request_is_found_by_the_requests_type() -> None:
    assert response_to("session_run_request").event_type == "session_run_response"
    with pytest.raises(UnknownCommandError) as refusal:
        response_to("session_run_response")
    assert refusal.value.type == "session_run_response"


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(json_schema())


def test_the_schema_describes_every_type_of_the_catalogue_once() -> None:
    schema: dict[str, Any] = json_schema()
    titles = [described["title"] for described in schema["oneOf"]]

    assert titles == list(CATALOGUE)


@pytest.mark.parametrize("data", EXAMPLES, ids=lambda data: data.event_type)
def test_the_schema_accepts_what_is_heard(is_valid: Callable[[dict[str, Any]], bool], data: EventData) -> None:
    assert is_valid(envelope(data))


@pytest.mark.parametrize(
    "change",
    [
        {"type": "nonsense"},
        {"type": "message_stop", "category": "turn"},
        {"cursor": 0},
        {"data": {}},
        {"timestamp": 5},
        {"context": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_schema_refuses_what_is_never_heard(
    is_valid: Callable[[dict[str, Any]], bool], change: dict[str, Any]
) -> None:
    heard = {**envelope(events.TextDelta(text="Hi")), **change}

    assert not is_valid(heard)
