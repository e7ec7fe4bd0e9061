"""What a server sends is read late, whole, and never with a gap."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.client.asking import PendingRequest, next_cursor, read_envelope, read_frame, read_head
from reenact.domain.errors import ProtocolError
from reenact.domain.messages import Message, TextBlock, ThinkingBlock, ToolUseBlock, instant
from reenact.domain.operations.table import RESPONSES, CommandError
from reenact.domain.stream.events import AssistantMessage, Context, Envelope, TextDelta
from tests.client.scripted import event


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def heard(data: Any) -> Envelope:  # noqa: ANN401 - the data of any event
    return Envelope(
        id="e",
        type=data.event_type,
        timestamp=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        source=data.source,
        category=data.category,
        intent=data.intent,
        context=Context(session_id="s", turn_id="t"),
        cursor=7,
        data=data,
    )


MESSAGE = Message(
    id="m",
    role="assistant",
    content=(ThinkingBlock("hm", "sig"), TextBlock("Grüße 😀"), ToolUseBlock("c", "f", {"a": [1, None, 2.5]})),
    created_at=instant(1_700_000_000_123_456),
    usage={"input_tokens": 3},
)


@pytest.mark.parametrize(
    "data",
    [
        TextDelta(text="Hi"),
        AssistantMessage(message=MESSAGE),
        RESPONSES["session_list_request"](request_id="r", result=[{"id": "s"}]),
        RESPONSES["session_list_request"](request_id="r", error=CommandError(code="x", message="y", details={"id": 1})),
    ],
    ids=lambda data: data.event_type,
)
def test_an_event_that_has_travelled_is_what_it_was(data: object) -> None:
    envelope = heard(data)

    assert read_envelope(msgspec.json.encode(envelope)) == envelope


def test_an_event_of_a_type_that_is_not_known_keeps_its_data_as_json_has_it() -> None:
    envelope = read_envelope(json.dumps(event(1, type_="aurora", data={"colour": ["green"]})).encode())

    assert (envelope.type, envelope.data) == ("aurora", {"colour": ["green"]})


@pytest.mark.parametrize(
    "message",
    [b"", b"{", b"[]", b"{}", b'{"type": "acked", "id": "1"}', b"\xff", b"[" * 100_000],
    ids=["empty", "cut", "list", "no type", "incomplete", "no text", "deep"],
)
def test_what_is_no_frame_of_a_server_is_refused(message: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_frame(message)


def test_a_frame_of_a_type_that_is_not_known_is_none() -> None:
    assert read_frame(b'{"type": "aurora", "id": "1"}') is None


@pytest.mark.parametrize("wrong", [{}, {"id": "e", "type": 5, "context": {}}, [], {**event(1), "cursor": "first"}])
def test_what_is_no_event_is_refused(wrong: object) -> None:
    with pytest.raises(ProtocolError):
        read_head(raw(wrong))
    with pytest.raises(ProtocolError):
        read_envelope(raw(wrong))


def test_what_is_no_response_is_refused() -> None:
    asked = PendingRequest("r", "container_list_request", b"{}", None)
    asked.handle(raw({"data": {"error": "late"}}))

    with pytest.raises(ProtocolError):
        asked.answer.result(0)


def step(received: int, told: dict[str, Any]) -> int | None:
    """Return where an event leads to."""
    return next_cursor(received, read_head(raw(told)), raw(told))


@given(st.integers(0, 50), st.integers(1, 50))
def test_the_next_event_is_taken_an_old_one_dropped_and_one_too_far_ahead_refused(received: int, cursor: int) -> None:
    told = event(cursor)

    if cursor <= received:
        assert step(received, told) is None
    elif cursor == received + 1:
        assert step(received, told) == cursor
    else:
        with pytest.raises(ProtocolError, match="left out"):
            step(received, told)


@given(st.integers(0, 30), st.integers(1, 30), st.integers(0, 30))
def test_what_stands_for_compacted_deltas_covers_their_cursors_and_no_others(
    received: int, first: int, further: int
) -> None:
    last = first + further
    told = event(last, type_="deltas_compacted", data={"first_cursor": first, "last_cursor": last})

    if last <= received:
        assert step(received, told) is None
    elif first <= received + 1:
        assert step(received, told) == last
    else:
        with pytest.raises(ProtocolError, match="left out"):
            step(received, told)


def test_an_event_without_a_cursor_has_no_place_in_a_subscription() -> None:
    with pytest.raises(ProtocolError, match="without a cursor"):
        step(0, event(None))


def test_a_compacted_range_that_does_not_say_where_it_begins_is_refused() -> None:
    with pytest.raises(ProtocolError):
        step(0, event(3, type_="deltas_compacted", data={}))
