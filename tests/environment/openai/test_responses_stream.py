"""What is made of an answer of the Responses API."""

from __future__ import annotations

import logging
import re

import pytest

from reenact.actors.environment.failures import Fault
from reenact.domain.messages import StopDetails, TextBlock, ThinkingBlock
from reenact.domain.stream.events import InputJsonDelta, MessageDelta, MessageStart, TextDelta, ThinkingDelta, ToolCall
from tests.environment.openai.streams import Json, responses

COINED = re.compile(r"call_[0-9a-f]{24}")
CREATED: Json = {"type": "response.created", "response": {"id": "resp_1", "model": "m", "status": "in_progress"}}
USED: Json = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 1},
}


def ended(status: str = "completed", **fields: object) -> Json:
    return {"type": f"response.{status}", "response": {"object": "response", "model": "m", "status": status, **fields}}


def event(kind: str, place: int, **fields: object) -> Json:
    return {"type": f"response.{kind}", "output_index": place, **fields}


def text(place: int, *pieces: str) -> list[Json]:
    item = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "".join(pieces)}]}
    deltas = [event("output_text.delta", place, delta=one) for one in pieces]
    return [
        event("output_item.added", place, item={**item, "content": []}),
        *deltas,
        event("output_item.done", place, item=item),
    ]


def call(place: int, call_id: str | None, name: str, *pieces: object) -> list[Json]:
    item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": "".join(map(str, pieces))}
    return [
        event("output_item.added", place, item={**item, "arguments": ""}),
        *(event("function_call_arguments.delta", place, delta=one) for one in pieces),
        event("output_item.done", place, item={**item, "status": "completed"}),
    ]


def thought(place: int, *parts: str, sealed: str | None = "xyz") -> list[Json]:
    summary = [{"type": "summary_text", "text": part} for part in parts]
    item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": sealed}
    told: list[Json] = []
    for part in parts:
        told.append(event("reasoning_summary_part.added", place, part={}))
        told += [event("reasoning_summary_text.delta", place, delta=letter) for letter in part]
    return [
        event("output_item.added", place, item={**item, "summary": []}),
        *told,
        event("output_item.done", place, item=item),
    ]


def test_thoughts_text_and_calls_are_told_as_they_come() -> None:
    heard = responses(
        CREATED,
        {"type": "response.in_progress", "response": {}},
        *thought(0, "h", "m"),
        *text(1, "Hel", "lo"),
        *call(2, "call_a", "f", '{"n"', ": 1}"),
        *call(3, "call_b", "g"),
        ended(usage=USED),
    )

    assert heard.events[0] == MessageStart(model="m")
    assert [one.text for one in heard.events if isinstance(one, ThinkingDelta)] == ["h", "\n\n", "m"]
    assert [one.text for one in heard.events if isinstance(one, TextDelta)] == ["Hel", "lo"]
    assert [one for one in heard.events if isinstance(one, InputJsonDelta | ToolCall)] == [
        InputJsonDelta(id="call_a", partial_json='{"n"'),
        InputJsonDelta(id="call_a", partial_json=": 1}"),
        ToolCall(id="call_a", name="f", input={"n": 1}),
        ToolCall(id="call_b", name="g", input={}),
    ]
    assert heard.content[:2] == (ThinkingBlock("h\n\nm", "openai:responses:rs_1:xyz"), TextBlock("Hello"))
    assert heard.end.stop_reason == "tool_use"
    assert [one.usage for one in heard.events if isinstance(one, MessageDelta)] == [
        {
            "input_tokens": 5,
            "output_tokens": 2,
            "cache_read_input_tokens": 4,
            "output_tokens_details": {"thinking_tokens": 1},
        }
    ]


def test_a_thought_that_is_not_shown_is_kept_with_its_seal() -> None:
    heard = responses(CREATED, *thought(0), *text(1, "Hi"), ended())

    assert heard.content == (ThinkingBlock("", "openai:responses:rs_1:xyz"), TextBlock("Hi"))


def test_a_thought_without_a_seal_has_no_signature() -> None:
    heard = responses(
        CREATED,
        event("output_item.added", 0, item={"type": "reasoning", "id": "rs_1"}),
        event("reasoning_text.delta", 0, delta="hm"),
        event("output_item.done", 0, item={"type": "reasoning", "id": "rs_1", "content": [{"text": "hm"}]}),
        *text(1, "Hi"),
        ended(),
    )

    assert heard.content == (ThinkingBlock("hm"), TextBlock("Hi"))


def test_items_that_come_without_pieces_are_told_when_they_are_done() -> None:
    only_done = [one for one in (*thought(0, "hm"), *text(1, "Hi"), *call(2, "a", "f", "{}")) if "item" in one]

    heard = responses(CREATED, *(one for one in only_done if one["type"].endswith("done")), ended())

    assert heard.content[:2] == (ThinkingBlock("hm", "openai:responses:rs_1:xyz"), TextBlock("Hi"))
    assert (heard.calls, heard.ids) == ([("f", {})], ["a"])


@pytest.mark.parametrize("streamed", [True, False])
def test_items_that_are_never_done_are_told_at_the_end(*, streamed: bool) -> None:
    events = [*thought(0, "hm"), *text(1, "Hi"), *call(2, "a", "f", "{}")]
    output = [one["item"] for one in events if one["type"] == "response.output_item.done"]
    pieces = [one for one in events if one["type"] != "response.output_item.done"] if streamed else []

    heard = responses(CREATED, *pieces, ended(output=output))

    signature = None if streamed else "openai:responses:rs_1:xyz"  # behind the text it is too late for one
    assert heard.content[:2] == (ThinkingBlock("hm", signature), TextBlock("Hi"))
    assert (heard.calls, heard.ids) == ([("f", {})], ["a"])


def test_an_item_that_is_done_is_not_reported_again_if_its_place_differs_at_the_end() -> None:
    events = text(2, "Hi")

    heard = responses(CREATED, *events, ended(output=[events[-1]["item"]]))

    assert heard.content == (TextBlock("Hi"),)


def test_items_may_be_known_by_their_ids_alone() -> None:
    item = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi"}]}

    heard = responses(
        CREATED,
        {"type": "response.output_item.added", "item": {**item, "content": []}},
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Hi"},
        ended(output=[item]),
    )

    assert heard.content == (TextBlock("Hi"),)


def test_calls_without_an_id_are_given_one_and_arguments_may_be_an_object() -> None:
    item = {"type": "function_call", "name": "f", "arguments": {"n": 1}}

    heard = responses(
        CREATED,
        event("output_item.added", 0, item={**item, "arguments": ""}),
        event("function_call_arguments.delta", 0, delta={"n": 1}),
        event("output_item.done", 0, item=item),
        event("output_item.done", 1, item=item),
        ended(),
    )

    assert heard.calls == [("f", {"n": 1})] * 2
    assert len(set(heard.ids)) == 2
    assert all(map(COINED.fullmatch, heard.ids))


def test_a_refusal_ends_the_message_as_one() -> None:
    item = {"type": "message", "id": "msg_1", "content": [{"type": "refusal", "refusal": "No."}]}
    streamed = [event("refusal.delta", 0, delta="No."), event("output_item.done", 0, item=item)]

    for events in (streamed, streamed[1:]):
        heard = responses(CREATED, *events, ended())

        assert (heard.content, heard.end.stop_reason) == ((TextBlock("No."),), "refusal")
        assert heard.end.stop_details == StopDetails()


@pytest.mark.parametrize(
    ("why", "reason", "details"),
    [
        ("max_output_tokens", "max_tokens", None),
        ("content_filter", "refusal", StopDetails(category="content_filter")),
        ("max_messages", "max_tokens", None),
    ],
)
def test_an_answer_that_was_cut_says_why_and_its_unfinished_call_is_none(
    why: str, reason: str, details: StopDetails | None
) -> None:
    cut = {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"n"', "status": "incomplete"}

    heard = responses(
        CREATED,
        *text(0, "So"),
        event("output_item.added", 1, item=cut),
        event("function_call_arguments.delta", 1, delta='{"n"'),
        event("output_item.done", 1, item=cut),
        ended("incomplete", incomplete_details={"reason": why}),
    )

    assert (heard.content, heard.end.stop_reason) == ((TextBlock("So"),), reason)
    assert heard.end.stop_details == details


@pytest.mark.parametrize(
    ("event", "error_type"),
    [
        (ended("failed", error={"code": "server_error", "message": "no"}), "api_error"),
        (ended("failed", error={"code": "rate_limit_exceeded", "message": "no"}), "rate_limit_error"),
        (ended("failed", error={"code": "invalid_prompt", "message": "no"}), "invalid_request_error"),
        (ended("failed"), "api_error"),
        ({"type": "error", "code": "server_error", "message": "no"}, "api_error"),
        ({"error": {"message": "no", "type": "invalid_request_error"}}, "invalid_request_error"),
        ({"type": "response.completed"}, "api_error"),
    ],
)
def test_a_response_that_fails_is_a_fault_of_its_type(event: Json, error_type: str) -> None:
    with pytest.raises(Fault) as fault:
        responses(CREATED, *text(0, "So"), event)

    assert fault.value.error_type == error_type


def test_a_response_that_has_only_begun_is_a_fault() -> None:
    with pytest.raises(Fault, match="`background` is not supported"):
        responses(ended("queued", output=[]) | {"type": "response.completed"})


def test_a_stream_without_an_end_has_broken_off() -> None:
    with pytest.raises(Fault) as fault:
        responses(CREATED, *text(0, "So"), "[DONE]")

    assert (fault.value.error_type, fault.value.retryable) == ("incomplete_stream", True)


def test_events_and_items_that_mean_nothing_here_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}

    heard = responses(
        CREATED,
        event("web_search_call.searching", 0),
        event("output_item.done", 0, item=search),
        event("output_item.done", 6, item={**search, "id": "ws_2"}),
        event("function_call_arguments.delta", 5, delta="{}"),
        *text(1, "Hi"),
        ended(),
        "after the end nothing is read",
    )

    assert heard.content == (TextBlock("Hi"),)
    (warning,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert "an item of type 'web_search_call'" in warning
