"""Events as subscribers read them."""

from __future__ import annotations

import msgspec
import pytest

from reenact.domain.errors import UnknownEventTypeError
from reenact.domain.stream.events import NOTIFICATIONS, STREAM, StreamError, TextDelta, stream_event


def test_data_reads_as_attributes_and_as_a_mapping() -> None:
    data = TextDelta(text="Hi")

    assert data.text == data["text"] == data.get("text") == "Hi"
    assert dict(data) == {"text": "Hi"}
    assert list(data) == ["text"]


def test_what_is_not_there_is_not_found() -> None:
    data = TextDelta(text="Hi")

    assert data.get("type") is None
    assert data.get("type", "else") == "else"
    with pytest.raises(KeyError, match="type"):
        data["type"]


def test_an_errors_type_is_read_under_its_own_name() -> None:
    data = StreamError(type="overloaded_error", message="busy")

    assert (data["type"], data.get("type")) == ("overloaded_error", "overloaded_error")
    assert dict(data) == {"type": "overloaded_error", "message": "busy", "retryable": False}
    assert (data.type, data.event_type) == ("overloaded_error", "error")


def test_a_mapping_reads_the_same_before_and_after_the_wire() -> None:
    data = StreamError(type="overloaded_error", message="busy")

    assert msgspec.json.decode(msgspec.json.encode(data)) == dict(data)


def test_a_stream_event_is_made_of_its_type_and_data() -> None:
    assert stream_event("text_delta", {"text": "Hi"}) == TextDelta(text="Hi")
    assert stream_event("message_stop", None) == STREAM["message_stop"]()
    assert stream_event("error", {"type": "t", "message": "m"}) == StreamError(type="t", message="m")


@pytest.mark.parametrize("type_", ["", "turn_completed", "user_message", "nonsense"])
def test_only_stream_events_are_the_environments_to_say(type_: str) -> None:
    with pytest.raises(UnknownEventTypeError) as refusal:
        stream_event(type_, {})

    assert refusal.value.type == type_


@pytest.mark.parametrize("data", [{}, {"text": 7}, {"text": None}, [], "text"])
def test_data_that_does_not_fit_is_refused(data: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        stream_event("text_delta", data)


def test_each_notification_has_a_type_of_its_own() -> None:
    types = [kind.event_type for kind in NOTIFICATIONS]

    assert len(types) == len(set(types))
    assert {kind.event_type for kind in NOTIFICATIONS if kind.intent == "request"} == {
        "step_started",
        "tool_started",
        "human_approve_required",
        "human_prompt_required",
        "human_select_required",
    }
