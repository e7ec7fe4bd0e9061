from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.actors.environment.wire.stream import MalformedEventError, SseDecoder, events_of_whole_message, wire_event
from reenact.domain.loop.calls import UNREADABLE
from reenact.domain.messages import Block, OpaqueBlock, TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.stream.answer import Answer, Complete, gather
from reenact.domain.stream.events import (
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    StreamData,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCall,
)

Json = dict[str, Any]

START: Json = {
    "type": "message_start",
    "message": {"id": "msg_1", "model": "claude", "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}},
}
STOP: Json = {"type": "message_stop"}
SEARCH: Json = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
RESULT: Json = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"x": None}]}


def opened(index: int | None, **block: object) -> Json:
    return {"type": "content_block_start", **_at(index), "content_block": block}


def delta(index: int | None, kind: str, **fields: object) -> Json:
    return {"type": "content_block_delta", **_at(index), "delta": {"type": kind, **fields}}


def closed(index: int | None) -> Json:
    return {"type": "content_block_stop", **_at(index)}


def _at(index: int | None) -> Json:
    return {} if index is None else {"index": index}


def near_end(reason: str = "end_turn", **usage: object) -> Json:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


STOP_NOW: Json = near_end("tool_use")


def decoded(*events: Json) -> tuple[MessageDecoder, list[StreamData]]:
    said: list[StreamData] = []
    decoder = MessageDecoder(lambda event: said.append(event) if isinstance(event, StreamData) else None)
    for event in events:
        wired = wire_event(event["type"], json.dumps(event).encode())
        if wired is not None:
            decoder.take(wired)
    return decoder, said


TABLE: dict[str, tuple[list[Json], list[Block], list[StreamData]]] = {
    "text": (
        [opened(0, type="text", text=""), delta(0, "text_delta", text="Hel"), delta(0, "text_delta", text="lo")],
        [TextBlock("Hello")],
        [TextDelta(text="Hel"), TextDelta(text="lo")],
    ),
    "text that is there from the start": (
        [opened(0, type="text", text="Hel"), delta(0, "text_delta", text="lo"), closed(0)],
        [TextBlock("Hello")],
        [TextDelta(text="Hel"), TextDelta(text="lo")],
    ),
    "text of a block that was never opened": (
        [delta(3, "text_delta", text="Hello")],
        [TextBlock("Hello")],
        [TextDelta(text="Hello")],
    ),
    "citations": (
        [
            opened(0, type="text", text="", citations=[]),
            delta(0, "citations_delta", citation={"url": "u"}),
            delta(0, "text_delta", text="Hi"),
            closed(0),
        ],
        [TextBlock("Hi", ({"url": "u"},))],
        [TextDelta(text="Hi")],
    ),
    "a thought and its signature": (
        [
            opened(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="hm"),
            delta(0, "signature_delta", signature="sig"),
            closed(0),
        ],
        [ThinkingBlock("hm", "sig")],
        [ThinkingStart(), ThinkingDelta(text="hm"), ThinkingEnd(signature="sig")],
    ),
    "a thought that is never closed": (
        [opened(0, type="thinking", thinking="hm")],
        [ThinkingBlock("hm")],
        [ThinkingStart(), ThinkingDelta(text="hm"), ThinkingEnd()],
    ),
    "a call": (
        [
            opened(0, type="tool_use", id="t", name="bash", input={}),
            delta(0, "input_json_delta", partial_json=""),
            delta(0, "input_json_delta", partial_json='{"a":'),
            delta(0, "input_json_delta", partial_json=" 1}"),
            closed(0),
        ],
        [ToolUseBlock("t", "bash", {"a": 1})],
        [
            InputJsonDelta(id="t", partial_json='{"a":'),
            InputJsonDelta(id="t", partial_json=" 1}"),
            ToolCall(id="t", name="bash", input={"a": 1}),
        ],
    ),
    "calls without input": (
        [
            opened(0, type="tool_use", id="t", name="bash", input={}),
            closed(0),
            opened(1, type="tool_use", id="u", name="bash", input={}),
            closed(1),
        ],
        [ToolUseBlock("t", "bash", {}), ToolUseBlock("u", "bash", {})],
        [ToolCall(id="t", name="bash", input={}), ToolCall(id="u", name="bash", input={})],
    ),
    "a call whose input is there from the start": (
        [opened(0, type="tool_use", id="t", name="bash", input={"a": 1}), closed(0)],
        [ToolUseBlock("t", "bash", {"a": 1})],
        [ToolCall(id="t", name="bash", input={"a": 1})],
    ),
    "a call whose input is not JSON": (
        [
            opened(0, type="tool_use", id="t", name="bash", input={}),
            delta(0, "input_json_delta", partial_json='{"a":'),
            closed(0),
        ],
        [ToolUseBlock("t", "bash", {UNREADABLE: '{"a":'})],
        [
            InputJsonDelta(id="t", partial_json='{"a":'),
            ToolCall(id="t", name="bash", input={UNREADABLE: '{"a":'}),
        ],
    ),
    "a call whose input is not an object": (
        [
            opened(0, type="tool_use", id="t", name="bash", input={}),
            delta(0, "input_json_delta", partial_json="[1]"),
            closed(0),
            opened(1, type="text", text="Hi"),
        ],
        [ToolUseBlock("t", "bash", {UNREADABLE: "[1]"}), TextBlock("Hi")],
        [
            InputJsonDelta(id="t", partial_json="[1]"),
            ToolCall(id="t", name="bash", input={UNREADABLE: "[1]"}),
            TextDelta(text="Hi"),
        ],
    ),
    "a call that is never closed": (
        [
            opened(0, type="tool_use", id="t", name="bash", input={}),
            delta(0, "input_json_delta", partial_json="{}"),
        ],
        [],
        [InputJsonDelta(id="t", partial_json="{}")],
    ),
    "what the server does by itself": (
        [
            opened(0, **SEARCH),
            delta(0, "input_json_delta", partial_json='{"query": "x"}'),
            closed(0),
            opened(1, **RESULT),
            closed(1),
            opened(2, type="redacted_thinking", data="xyz"),
            closed(2),
            opened(3, type="compaction", content=None),
            delta(3, "compaction_delta", content="short"),
            closed(3),
        ],
        [
            OpaqueBlock({**SEARCH, "input": {"query": "x"}}),
            OpaqueBlock(RESULT),
            OpaqueBlock({"type": "redacted_thinking", "data": "xyz"}),
            OpaqueBlock({"type": "compaction", "content": "short"}),
        ],
        [],
    ),
    "a thought that is not shown": (
        [opened(0, type="thinking", thinking=""), delta(0, "signature_delta", signature="sig"), closed(0)],
        [ThinkingBlock("", "sig")],
        [ThinkingStart(), ThinkingEnd(signature="sig")],
    ),
    "a tool of an MCP server": (
        [
            opened(0, type="mcp_tool_use", id="m", name="echo", server_name="e", input={}),
            delta(0, "input_json_delta", partial_json='{"a": 1}'),
            closed(0),
            opened(1, type="mcp_tool_result", tool_use_id="m", is_error=False, content=[{"type": "text"}]),
            closed(1),
        ],
        [
            OpaqueBlock({"type": "mcp_tool_use", "id": "m", "name": "echo", "server_name": "e", "input": {"a": 1}}),
            OpaqueBlock(
                {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": [{"type": "text"}]}
            ),
        ],
        [],
    ),
    "a search that waits for a call": (
        [
            opened(0, type="tool_use", id="t", name="bash", input={}),
            delta(0, "input_json_delta", partial_json="{}"),
            closed(0),
            opened(1, **SEARCH),
            closed(1),
        ],
        [ToolUseBlock("t", "bash", {}), OpaqueBlock(SEARCH)],
        [InputJsonDelta(id="t", partial_json="{}"), ToolCall(id="t", name="bash", input={})],
    ),
    "another model that takes over": (
        [
            opened(0, **{"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}),
            closed(0),
            opened(1, type="text", text=""),
            delta(1, "text_delta", text="Hi"),
            closed(1),
        ],
        [OpaqueBlock({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}), TextBlock("Hi")],
        [TextDelta(text="Hi")],
    ),
    "a server's call that was cut": (
        [opened(0, **SEARCH), delta(0, "input_json_delta", partial_json='{"query'), closed(0)],
        [],
        [],
    ),
    "what means nothing": (
        [
            {"type": "ping"},
            {"type": "news", "index": "x"},
            opened(0, type="text", text=""),
            delta(0, "news_delta", news=[1]),
            delta(0, "news_delta", text={"a": 1}, content=[1]),
            delta(0, "news_delta", text="news"),
            delta(7, "thinking_delta", thinking="whose?"),
            delta(0, "text_delta", text="Hi"),
            START,
            closed(0),
            closed(0),
            closed(9),
        ],
        [TextBlock("Hi")],
        [TextDelta(text="Hi")],
    ),
    "blocks of a new type": (
        [
            opened(0, type="text", text="Hi"),
            opened(1, type="news", text=""),
            delta(1, "text_delta", text="x"),
            delta(1, "thinking_delta", thinking="x"),
            closed(1),
            opened(2, type="news"),
            delta(2, "news_delta", content=[1]),
            closed(2),
            opened(3, type="news", data=[1]),
            closed(3),
        ],
        [TextBlock("Hi"), OpaqueBlock({"type": "news", "data": [1]})],
        [TextDelta(text="Hi")],
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_a_message_is_put_together(case: str) -> None:
    events, content, said = TABLE[case]

    decoder, reported = decoded(START, *events, near_end(output_tokens=9), STOP)

    assert decoder.complete
    assert reported == [
        MessageStart(message_id="msg_1", model="claude"),
        *said,
        MessageDelta(usage={"input_tokens": 7, "output_tokens": 9}),
        Complete(stop_reason="end_turn", content=tuple(content)),
    ]


@given(
    case=st.sampled_from(sorted(TABLE)),
    line_end=st.sampled_from(["\n", "\r\n"]),
    places=st.lists(st.floats(0, 1), max_size=30),
)
def test_it_comes_out_the_same_wherever_the_stream_is_cut(case: str, line_end: str, places: list[float]) -> None:
    events = [START, *TABLE[case][0], near_end(), STOP]
    stream = "".join(
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events
    ).replace("\n", line_end).encode()  # fmt: skip
    cuts = sorted(int(place * len(stream)) for place in places)
    said: list[object] = []
    sse, decoder = SseDecoder(), MessageDecoder(said.append)

    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        for name, data in sse.feed(stream[start:end]):
            wired = wire_event(name, data)
            if wired is not None:
                decoder.take(wired)

    assert said == decoded(*events)[1]


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "stop_sequence", "refusal", "tool_use"])
def test_the_stop_reason_is_the_apis(reason: str) -> None:
    decoder, said = decoded(START, near_end(reason), STOP)

    assert decoder.stop_reason == reason
    assert said[-1] == Complete(stop_reason=reason, content=())


@pytest.mark.parametrize("events", [(near_end(),), (STOP,), ()])
def test_a_message_is_complete_only_with_its_stop_and_a_reason(events: tuple[Json, ...]) -> None:
    decoder, said = decoded(START, opened(0, type="text", text="Hi"), *events)

    assert not decoder.complete
    assert not any(isinstance(event, Complete) for event in said)


@pytest.mark.parametrize("pieces", [[], ['{"path": "/']])
def test_a_call_that_was_cut_before_the_end_of_its_input_is_none(pieces: list[str]) -> None:
    call = opened(0, type="tool_use", id="t", name="rm", input={})
    deltas = [delta(0, "input_json_delta", partial_json=piece) for piece in pieces]

    _, said = decoded(START, call, *deltas, closed(0), near_end("max_tokens"), STOP)

    assert said[-1] == Complete(stop_reason="max_tokens", content=())
    assert not any(isinstance(event, ToolCall) for event in said)


def test_a_type_that_is_not_known_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    news = delta(0, "news_delta", text={"a": 1})

    decoded(START, opened(0, type="text", text="Hi"), news, news, near_end(), STOP)

    (warning,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert "a delta of type 'news_delta'" in warning


@pytest.mark.parametrize("none", [{"id": None, "name": None}, {"id": 5, "name": []}, {"id": " "}, {}])
def test_a_call_without_an_id_is_reported_and_recorded_with_the_same_new_one(none: Json) -> None:
    call = opened(1, type="tool_use", input={}, **none)
    piece = delta(1, "input_json_delta", partial_json='{"a": 1}')

    decoder, said = decoded(START, opened(0, **RESULT), closed(0), call, piece, closed(1), STOP_NOW, STOP)

    recorded = decoder.content[-1]
    assert isinstance(recorded, ToolUseBlock)
    assert recorded.id.startswith("call_")
    assert InputJsonDelta(id=recorded.id, partial_json='{"a": 1}') in said
    assert ToolCall(id=recorded.id, name="", input={"a": 1}) in said


def test_a_message_without_content_is_empty() -> None:
    start = {**START, "message": {**START["message"], "content": None}}

    assert decoded(start, near_end(), STOP)[1][-1] == Complete(stop_reason="end_turn", content=())
    assert taken({**WHOLE, "content": None})[-1] == Complete(stop_reason="tool_use", content=())


def test_a_block_that_no_log_can_hold_is_malformed() -> None:
    deep: object = None
    for _ in range(200):
        deep = [deep]

    with pytest.raises(MalformedEventError, match="the block at index 1 cannot be kept"):
        decoded(START, opened(1, **{**RESULT, "content": deep}))


@pytest.mark.parametrize(
    ("event", "what"),
    [
        (opened(0, type="tool_use", id="t", name="bash", input={}, caller={"n": 2**64}), "the block at index 0"),
        (delta(0, "citations_delta", citation={"n": 2**64}), "a citation"),
        ({**STOP_NOW, "delta": {"stop_reason": "end_turn", "container": {"n": 2**64}}}, "the container"),
    ],
)
def test_an_integer_that_no_log_can_hold_is_malformed_wherever_it_is_kept(event: Json, what: str) -> None:
    opening = [opened(0, type="text", text="")] if event["type"] == "content_block_delta" else []

    with pytest.raises(MalformedEventError, match=rf"{what} cannot be kept: it.* is an integer of more than 64 bits"):
        decoded(START, *opening, event)


def test_an_integer_that_no_log_can_hold_is_kept_in_the_input_of_a_call_as_its_digits() -> None:
    call = opened(0, type="tool_use", id="t", name="bash", input={"a": 2**64 + 1})

    assert decoded(START, call, closed(0))[1][-1] == ToolCall(id="t", name="bash", input={"a": "18446744073709551617"})


@pytest.mark.parametrize("iterations", [[{"input_tokens": 2**64}], [2**64], [{"input_tokens": [-1]}]])
def test_a_number_in_a_list_of_the_usage_that_cannot_be_a_count_is_malformed(iterations: Json) -> None:
    with pytest.raises(MalformedEventError, match=r"the usage is invalid: (input_tokens|iterations) is"):
        decoded(START, near_end(iterations=iterations))


def test_a_block_whose_type_is_no_text_is_malformed() -> None:
    with pytest.raises(MalformedEventError, match="the type of the block at index 1 is not text"):
        decoded(START, opened(1, **{**RESULT, "type": {"name": "text"}}))


def test_content_that_stands_in_the_beginning_counts() -> None:
    call = {"type": "tool_use", "id": "t", "name": "bash", "input": {"a": 1}}
    message = {**START["message"], "content": [{"type": "text", "text": "Hi"}, call], "stop_reason": "tool_use"}

    _, said = decoded({"type": "message_start", "message": message}, STOP)

    assert said == [
        MessageStart(message_id="msg_1", model="claude"),
        TextDelta(text="Hi"),
        ToolCall(id="t", name="bash", input={"a": 1}),
        MessageDelta(usage={"input_tokens": 7, "output_tokens": 1}),
        Complete(stop_reason="tool_use", content=(TextBlock("Hi"), ToolUseBlock("t", "bash", {"a": 1}))),
    ]


def test_usage_replaces_key_by_key_and_null_changes_nothing() -> None:
    _, said = decoded(START, near_end(output_tokens=5, input_tokens=None), near_end(output_tokens=9), STOP)

    deltas = [event.usage for event in said if isinstance(event, MessageDelta)]
    assert deltas == [{"input_tokens": 7, "output_tokens": 5}, {"input_tokens": 7, "output_tokens": 9}]


def test_nothing_is_said_before_there_is_something_to_say() -> None:
    decoder, said = decoded(START, opened(0, type="text", text=""), opened(1, **SEARCH), closed(1))

    assert said == []
    assert not decoder.published


def test_a_message_starts_over_without_a_trace_of_the_first_attempt() -> None:
    decoder, said = decoded(START, opened(0, type="text", text=""), opened(1, **SEARCH), closed(1))

    decoder.start_over()
    for event in (START, opened(0, type="text", text="Hi"), near_end(), STOP):
        wired = wire_event("", json.dumps(event).encode())
        assert wired is not None
        decoder.take(wired)

    assert said[-1] == Complete(stop_reason="end_turn", content=(TextBlock("Hi"),))


def test_lone_surrogates_and_broken_utf_8_become_replacement_characters() -> None:
    surrogate = rb'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud800b"}}'
    broken = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\xffb"}}'

    for data in (surrogate, broken):
        event = wire_event("content_block_delta", data)
        assert event is not None
        assert event.delta is not None
        assert event.delta.text == "a\ufffdb"


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"type":"content_block_delta","delta":{"type":"text_delta","text":5}}']
)
def test_an_event_that_cannot_be_read_is_not_passed_over(data: bytes) -> None:
    with pytest.raises(MalformedEventError):
        wire_event("content_block_delta", data)


def test_an_unknown_event_may_look_as_it_likes() -> None:
    for data in (b"{", b"[]", b'{"type":"news","index":"x"}', b'{"type":{"a":1}}'):
        assert wire_event("news", data) is None


WHOLE: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "Hi", "citations": [{"url": "u"}]},
        SEARCH,
        RESULT,
        {"type": "tool_use", "id": "t", "name": "bash", "input": {}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 7, "output_tokens": 9},
}


def taken(message: Json) -> list[StreamData]:
    """Return what is reported of a message that was sent whole."""
    said: list[StreamData] = []
    decoder = MessageDecoder(lambda event: said.append(event) if isinstance(event, StreamData) else None)
    for event in events_of_whole_message(json.dumps(message).encode()):
        decoder.take(event)
    return said


def test_a_message_that_was_sent_whole_is_reported_like_one_that_streams() -> None:
    assert taken(WHOLE) == [
        MessageStart(message_id="msg_1", model="claude"),
        ThinkingStart(),
        ThinkingDelta(text="hm"),
        ThinkingEnd(signature="sig"),
        TextDelta(text="Hi"),
        ToolCall(id="t", name="bash", input={}),
        MessageDelta(usage={"input_tokens": 7, "output_tokens": 9}),
        Complete(
            stop_reason="tool_use",
            content=(
                ThinkingBlock("hm", "sig"),
                TextBlock("Hi", ({"url": "u"},)),
                OpaqueBlock(SEARCH),
                OpaqueBlock(RESULT),
                ToolUseBlock("t", "bash", {}),
            ),
        ),
    ]


@pytest.mark.parametrize("last", [{"type": "tool_use", "id": "t", "name": "rm", "input": {"path": "/"}}, SEARCH])
@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "model_context_window_exceeded"])
def test_of_a_whole_message_that_was_cut_the_last_call_is_none_though_it_looks_whole(reason: str, last: Json) -> None:
    said = taken({**WHOLE, "content": [{"type": "text", "text": "Hi"}, last], "stop_reason": reason})

    assert said[-1] == Complete(stop_reason=reason, content=(TextBlock("Hi"),))
    assert not any(isinstance(event, ToolCall) for event in said)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"content": 5}', b'{"content": [1]}', b"<html>", b"\xff"])
def test_what_is_no_message_is_told_so(body: bytes) -> None:
    with pytest.raises(MalformedEventError):
        events_of_whole_message(body)


def test_an_error_that_was_sent_whole_is_one() -> None:
    (event,) = events_of_whole_message(b'{"type": "error", "error": {"type": "overloaded_error", "message": "later"}}')

    assert (event.type, event.error) == ("error", {"type": "overloaded_error", "message": "later"})


def test_what_else_the_api_says_of_a_call_is_kept_with_it() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "s"}

    _, said = decoded(
        START, opened(0, type="tool_use", id="t", name="x", input={}, caller=caller), closed(0), STOP_NOW, STOP
    )

    assert said[-1] == Complete(stop_reason="tool_use", content=(ToolUseBlock("t", "x", {}, {"caller": caller}),))


def test_where_code_was_run_stands_at_the_end_of_an_answer_that_says_something() -> None:
    ran = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "container": {"id": "c", "expires_at": "x"}}}
    container = OpaqueBlock({"id": "c", "expires_at": "x", "type": "container"})

    _, said = decoded(START, opened(0, type="text", text="Hi"), closed(0), ran, STOP)
    _, nothing = decoded(START, ran, STOP)
    whole = taken({**WHOLE, "content": [{"type": "text", "text": "Hi"}], "container": {"id": "c", "expires_at": "x"}})

    assert said[-1] == Complete(stop_reason="end_turn", content=(TextBlock("Hi"), container))
    assert nothing[-1] == Complete(stop_reason="end_turn", content=())
    assert whole[-1] == Complete(stop_reason="tool_use", content=(TextBlock("Hi"), container))


@pytest.mark.parametrize(
    "before",
    [
        [opened(0, **SEARCH), closed(0), opened(1, **RESULT), closed(1)],
        [opened(0, type="redacted_thinking", data="x"), closed(0)],
        [opened(0, type="text", text="Hi"), delta(0, "citations_delta", citation={"url": "u"}), closed(0)],
    ],
)
def test_a_signature_is_not_told_of_a_thought_that_follows_what_is_not(before: list[Json]) -> None:
    """A message that is cut short is gathered from what was told: the thought would stand after other words there."""
    thought = opened(9, type="thinking", thinking="so", signature="sig")

    _, said = decoded(START, *before, thought, closed(9), near_end(), STOP)

    assert [event.signature for event in said if isinstance(event, ThinkingEnd)] == [None]
    assert isinstance(said[-1], Complete)
    assert said[-1].content[-1] == ThinkingBlock("so", "sig")


def test_a_signature_is_not_told_either_after_a_pause() -> None:
    decoder, said = decoded(START, opened(0, **SEARCH), closed(0), near_end("pause_turn"), STOP)

    decoder.begin_continuation()
    for event in (START, opened(0, type="thinking", thinking="so", signature="sig"), closed(0), near_end(), STOP):
        wired = wire_event("", json.dumps(event).encode())
        assert wired is not None
        decoder.take(wired)

    assert [event.signature for event in said if isinstance(event, ThinkingEnd)] == [None]
    assert said[-1] == Complete(stop_reason="end_turn", content=(OpaqueBlock(SEARCH), ThinkingBlock("so", "sig")))


def test_a_summary_of_the_server_s_keeps_what_is_sealed_in_it() -> None:
    sealed = delta(0, "compaction_delta", encrypted_content="xyz")

    _, said = decoded(START, opened(0, type="compaction", content=None), sealed, closed(0), near_end(), STOP)

    assert said[-1] == Complete(
        stop_reason="end_turn",
        content=(OpaqueBlock({"type": "compaction", "content": None, "encrypted_content": "xyz"}),),
    )


def test_a_call_of_the_server_s_own_that_is_never_closed_is_none() -> None:
    _, said = decoded(START, opened(0, **SEARCH), near_end("max_tokens"), STOP)

    assert said[-1] == Complete(stop_reason="max_tokens", content=())


def call(index: int | None, id_: str) -> list[Json]:
    start = opened(index, type="tool_use", id=id_, name="bash", input={})
    return [start, delta(index, "input_json_delta", partial_json='{"a": 1}')]


def text(index: int | None, words: str) -> list[Json]:
    return [opened(index, type="text", text=""), delta(index, "text_delta", text=words)]


OTHER: Json = {"type": "message_start", "message": {**START["message"], "id": "msg_2"}}
T, U = (ToolUseBlock(id_, "bash", {"a": 1}) for id_ in "tu")
MALFORMED: dict[str, tuple[list[Json], list[Block] | str]] = {
    "text and a call at one index": ([*text(0, "Hi"), *call(0, "t"), closed(0)], [TextBlock("Hi"), T]),
    "two calls at one index": ([*call(0, "t"), closed(0), *call(0, "u"), closed(0)], [T, U]),
    "two calls at one index, both open": ([*call(0, "t"), *call(0, "u"), closed(0)], "before the call at index 0"),
    "two calls at two indices, both open": ([*call(0, "t"), *call(1, "u"), closed(0)], "before the call at index 0"),
    "no index anywhere": ([*text(None, "Hi"), *call(None, "t"), closed(None)], [TextBlock("Hi"), T]),
    "pieces of a call without its index": ([call(0, "t")[0], call(None, "t")[1], closed(0)], "index None"),
    "the same beginning twice": ([START, *text(0, "Hi"), START], [TextBlock("Hi")]),
    "the beginning of another message": ([*text(0, "Hi"), OTHER, *text(0, "Ho")], "'msg_2' begins within"),
    "a text that begins twice": ([text(0, "")[0], *text(0, "Hi"), closed(0)], [TextBlock(""), TextBlock("Hi")]),
    "a call that begins twice": ([call(0, "t")[0], *call(0, "t"), closed(0)], "before the call at index 0"),
    "pieces of a call that never began": ([call(0, "t")[1], closed(0)], "index 0, where none is open"),
    "pieces of a call that has ended": ([*call(0, "t"), closed(0), call(0, "t")[1]], "index 0, where none is open"),
    "pieces of a call in a text": ([*text(0, "Hi"), call(0, "t")[1]], "continues a block of type 'text'"),
    "text in a call": ([*call(0, "t"), text(0, "Hi")[1], closed(0)], "continues a block of type 'tool_use'"),
    "a thought in a text": ([*text(0, "Hi"), delta(0, "thinking_delta", thinking="hm")], "block of type 'text'"),
    "text after the end of its block": (
        [*text(0, "a"), closed(0), *call(1, "t"), closed(1), text(0, "b")[1]],
        [TextBlock("a"), T, TextBlock("b")],
    ),
    "two texts in turns": (
        [*text(0, "a"), *text(1, "b"), text(0, "c")[1]],
        [TextBlock("a"), TextBlock("b"), TextBlock("c")],
    ),
    "the end of a block that never began": ([closed(4), *text(0, "Hi")], [TextBlock("Hi")]),
}


def answered(*events: Json) -> tuple[list[StreamData], Answer]:
    """Return what is published of the stream, and the answer that is recorded; a contradiction fails it."""
    answer, published = Answer(lambda: "new"), list[StreamData]()

    def publish(event: object) -> None:
        assert isinstance(event, StreamData)
        published.extend(answer.accept(event))

    decoder = MessageDecoder(publish)
    try:
        for event in events:
            wired = wire_event(event["type"], json.dumps(event).encode())
            if wired is not None:
                decoder.take(wired)
    except MalformedEventError as error:
        publish(StreamError(message=str(error)))
    return published, answer


@pytest.mark.parametrize("case", MALFORMED)
def test_a_stream_that_contradicts_itself_is_an_error_unless_it_is_clear_what_it_means(case: str) -> None:
    events, outcome = MALFORMED[case]

    published, answer = answered(START, *events, near_end(), STOP)

    if isinstance(outcome, str):
        assert answer.error is not None
        assert outcome in answer.error.message
    else:
        assert answer.blocks == tuple(outcome)
    assert as_heard(gather(published).blocks) == as_heard(answer.blocks)


indices = st.sampled_from([0, 0, 1, None])
wire_events = st.one_of(
    st.sampled_from([START, OTHER, near_end("tool_use"), near_end("max_tokens")]),
    st.builds(opened, indices, type=st.just("text"), text=st.sampled_from(["", "so"])),
    st.builds(opened, indices, type=st.just("thinking"), thinking=st.sampled_from(["", "hm"])),
    st.builds(
        opened,
        indices,
        type=st.just("tool_use"),
        id=st.sampled_from(["t", "u", ""]),
        name=st.just("bash"),
        input=st.sampled_from([{}, {"b": 2}]),
    ),
    st.builds(opened, indices, **{name: st.just(value) for name, value in SEARCH.items()}),
    st.builds(opened, indices, **{name: st.just(value) for name, value in RESULT.items()}),
    st.builds(delta, indices, st.just("text_delta"), text=st.sampled_from(["a", "b"])),
    st.builds(delta, indices, st.just("thinking_delta"), thinking=st.sampled_from(["x", "y"])),
    st.builds(delta, indices, st.just("signature_delta"), signature=st.just("sig")),
    st.builds(delta, indices, st.just("input_json_delta"), partial_json=st.sampled_from(["{", "}", '{"a": 1}'])),
    st.builds(closed, indices),
    st.builds(closed, indices),
)


@given(st.lists(wire_events, max_size=14))
def test_whatever_a_stream_says_what_is_recorded_is_what_was_published(events: list[Json]) -> None:
    published, answer = answered(START, *events, near_end(), STOP)

    assert answer.finished
    assert as_heard(gather(published).blocks) == as_heard(answer.blocks)
    said = "".join(event.text for event in published if isinstance(event, TextDelta))
    assert "".join(block.text for block in answer.blocks if isinstance(block, TextBlock)) == said


def as_heard(blocks: Sequence[Block]) -> list[tuple[str, object]]:
    """Return what deltas tell of the blocks: where one text ends and the next begins is not among it."""
    heard: list[tuple[str, object]] = []
    for block in blocks:
        match block:
            case TextBlock(text=text) if heard and heard[-1][0] == "text":
                heard[-1] = ("text", f"{heard[-1][1]}{text}")
            case TextBlock(text=text) if text:
                heard.append(("text", text))
            case ThinkingBlock(thinking=thinking) if thinking:
                heard.append(("thinking", thinking))
            case ToolUseBlock():
                heard.append((block.id, block.input))
            case _:
                pass
    return heard


@pytest.mark.parametrize(
    ("digits", "held"),
    [
        (str(2**64 - 1), 2**64 - 1),
        (str(-(2**63)), -(2**63)),
        (str(2**64), 2.0**64),
        (str(-(2**63) - 1), str(-(2**63) - 1)),
        ("9" * 400, "9" * 400),
        ("9" * 4000, "9" * 4000),
    ],
)
def test_an_integer_that_no_log_can_hold_becomes_a_float_or_its_digits(digits: str, held: object) -> None:
    written = f'{{"n": [{digits}]}}'

    _, said = decoded(START, call(0, "t")[0], delta(0, "input_json_delta", partial_json=written), closed(0), STOP_NOW)

    assert [event.input for event in said if isinstance(event, ToolCall)] == [{"n": [held]}]
