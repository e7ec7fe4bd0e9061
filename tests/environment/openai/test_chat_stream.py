"""What is made of an answer of Chat Completions, in the dialect of each server."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.environment.failures import Fault
from reenact.actors.environment.openai.answer import arguments_of
from reenact.actors.environment.wire.stream import MalformedEventError
from reenact.domain.loop.calls import UNREADABLE
from reenact.domain.messages import Said, StopDetails, TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.stream.events import InputJsonDelta, MessageDelta, MessageStart, TextDelta, ThinkingDelta, ToolCall
from tests.environment.openai.streams import Json, chat, chunk, piece

DONE = "[DONE]"
COINED = re.compile(r"call_[0-9a-f]{24}")
STOP = chunk({}, "stop")


def used(**usage: object) -> Json:
    return {**chunk(), "choices": [], "usage": usage}


def test_openai_says_text_piece_by_piece_and_at_the_end_what_was_used() -> None:
    heard = chat(
        chunk({"role": "assistant", "content": "", "refusal": None}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop", usage=None),
        used(prompt_tokens=9, completion_tokens=2, total_tokens=11, prompt_tokens_details={"cached_tokens": 0}),
        DONE,
    )

    assert heard.events == [
        MessageStart(model="m"),
        TextDelta(text="Hel"),
        TextDelta(text="lo"),
        MessageDelta(usage={"input_tokens": 9, "output_tokens": 2}),
        heard.end,
    ]
    assert (heard.end.stop_reason, heard.content) == ("end_turn", (TextBlock("Hello"),))


def test_openai_writes_parallel_calls_one_after_the_other_by_index() -> None:
    heard = chat(
        chunk({"role": "assistant", "content": None}),
        chunk(piece("", name="search", index=0, id="call_a", type="function")),
        chunk(piece('{"q"', index=0)),
        chunk(piece(': "x"}', index=0)),
        chunk(piece("", name="bash", index=1, id="call_b", type="function")),
        chunk(piece("{}", index=1)),
        chunk({}, "tool_calls"),
        DONE,
    )

    assert heard.events[1:-1] == [
        InputJsonDelta(id="call_a", partial_json='{"q"'),
        InputJsonDelta(id="call_a", partial_json=': "x"}'),
        InputJsonDelta(id="call_b", partial_json="{}"),
        ToolCall(id="call_a", name="search", input={"q": "x"}),
        ToolCall(id="call_b", name="bash", input={}),
    ]
    assert (heard.end.stop_reason, heard.ids) == ("tool_use", ["call_a", "call_b"])


def test_calls_whose_pieces_are_mixed_are_told_apart_by_their_index() -> None:
    heard = chat(
        chunk(piece('{"n": ', name="one", index=0, id="a")),
        chunk(piece('{"n": ', name="two", index=1, id="b")),
        chunk(piece("1}", index=0)),
        chunk(piece("2}", index=1)),
        chunk({}, "tool_calls"),
        DONE,
    )

    assert heard.calls == [("one", {"n": 1}), ("two", {"n": 2})]


@pytest.mark.parametrize("index", [{}, {"index": 0}], ids=["without an index", "all at 0"])
@pytest.mark.parametrize("ids", [("", ""), ("call_1", "call_2"), ("call_1", "call_1"), (None, None)])
def test_ollama_gives_each_call_whole_under_the_same_index(index: Json, ids: tuple[str | None, str | None]) -> None:
    first, second = ids
    heard = chat(
        chunk({"role": "assistant", "content": "", **piece('{"path": "a"}', name="write", id=first, **index)}),
        chunk({"role": "assistant", "content": "", **piece('{"path": "a"}', name="write", id=second, **index)}),
        chunk({"role": "assistant", "content": ""}, "stop"),
        DONE,
    )

    assert heard.calls == [("write", {"path": "a"}), ("write", {"path": "a"})]
    assert len(set(heard.ids)) == 2
    assert all(call_id in ids or COINED.fullmatch(call_id) for call_id in heard.ids)
    assert heard.end.stop_reason == "tool_use"


def test_several_calls_stand_in_one_chunk_and_arguments_may_be_an_object() -> None:
    calls = [{"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": {"n": n}}} for n in range(3)]

    heard = chat(chunk({"tool_calls": calls}, "tool_calls"), DONE)

    assert heard.calls == [("f", {"n": 0}), ("f", {"n": 1}), ("f", {"n": 2})]


def test_the_name_and_the_id_may_stand_in_each_piece_of_a_call() -> None:
    pieces = [chunk(piece(text, name="f", index=0, id="a")) for text in ("", '{"n"', ": 1", "}", "")]

    heard = chat(*pieces, chunk({}, "tool_calls"), DONE)

    assert (heard.calls, heard.ids) == ([("f", {"n": 1})], ["a"])


def test_calls_without_arguments_are_told_apart_by_their_ids() -> None:
    heard = chat(
        chunk(piece(None, name="f", index=0, id="a")),
        chunk(piece("", name="g", index=0, id="b")),
        chunk({}, "tool_calls"),
        DONE,
    )

    assert (heard.calls, heard.ids) == ([("f", {}), ("g", {})], ["a", "b"])


def test_an_id_that_was_used_in_the_conversation_is_replaced_by_a_new_one() -> None:
    before = [Said("assistant", (ToolUseBlock("call_0", "f", {}),))]

    heard = chat(chunk(piece("{}", name="f", index=0, id="call_0")), chunk({}, "stop"), DONE, conversation=before)

    assert COINED.fullmatch(heard.ids[0])


def test_a_call_that_was_cut_off_by_the_limit_is_none() -> None:
    heard = chat(
        chunk({"content": "So"}),
        chunk(piece('{"n": 1}', name="f", index=0, id="a")),
        chunk(piece('{"n": 2', name="g", index=1, id="b")),
        chunk({}, "length"),
        DONE,
    )

    assert (heard.end.stop_reason, heard.calls) == ("max_tokens", [("f", {"n": 1})])


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_told_and_signed_with_the_field_that_they_came_in(field: str) -> None:
    heard = chat(
        chunk({"role": "assistant", field: "h", "content": None}),
        chunk({field: "m", "content": ""}),
        chunk({"content": "Hi"}),
        STOP,
        DONE,
    )

    assert heard.content == (ThinkingBlock("hm", f"openai:chat:{field}"), TextBlock("Hi"))
    assert [event.text for event in heard.events if isinstance(event, ThinkingDelta)] == ["h", "m"]


def test_thoughts_that_are_sent_in_two_fields_are_told_once() -> None:
    heard = chat(chunk({"reasoning_content": "hm", "reasoning": "hm"}), chunk({"content": "Hi"}), STOP, DONE)

    assert heard.content == (ThinkingBlock("hm", "openai:chat:reasoning_content"), TextBlock("Hi"))


def test_a_refusal_is_told_as_text_and_ends_the_message_as_one() -> None:
    heard = chat(chunk({"refusal": "I can"}), chunk({"refusal": "not."}), STOP, DONE)

    assert heard.content == (TextBlock("I cannot."),)
    assert (heard.end.stop_reason, heard.end.stop_details) == ("refusal", StopDetails())


def test_a_filter_that_cuts_the_answer_off_is_a_refusal() -> None:
    heard = chat(chunk({"content": "So"}), chunk({}, "content_filter"), DONE)

    assert (heard.end.stop_reason, heard.end.stop_details) == ("refusal", StopDetails(category="content_filter"))


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            {
                "input_tokens": 10,
                "output_tokens": 7,
                "cache_read_input_tokens": 60,
                "cache_creation_input_tokens": 30,
                "output_tokens_details": {"thinking_tokens": 5},
            },
        ),
        ({"prompt_tokens": 1, "prompt_tokens_details": None}, {"input_tokens": 1}),
        (
            {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 163}},
            {"input_tokens": 7, "cache_read_input_tokens": 163},
        ),
        (
            {"prompt_tokens": 2168, "prompt_tokens_details": {"cached_tokens": 2161, "cache_write_tokens": 2161}},
            {"input_tokens": 0, "cache_read_input_tokens": 2161, "cache_creation_input_tokens": 7},
        ),
        ({"prompt_tokens": -1, "completion_tokens": "many"}, {}),
        (  # xAI counts thoughts beside the answer
            {
                "prompt_tokens": 12,
                "completion_tokens": 2,
                "total_tokens": 354,
                "completion_tokens_details": {"reasoning_tokens": 340},
            },
            {"input_tokens": 12, "output_tokens": 342, "output_tokens_details": {"thinking_tokens": 340}},
        ),
        (
            {
                "prompt_tokens": 12,
                "completion_tokens": 342,
                "total_tokens": 354,
                "completion_tokens_details": {"reasoning_tokens": 340},
            },
            {"input_tokens": 12, "output_tokens": 342, "output_tokens_details": {"thinking_tokens": 340}},
        ),
        (  # Mistral
            {"prompt_tokens": 64, "completion_tokens": 6, "total_tokens": 70, "num_cached_tokens": 32},
            {"input_tokens": 32, "output_tokens": 6, "cache_read_input_tokens": 32},
        ),
        (  # Moonshot
            {"prompt_tokens": 20, "completion_tokens": 30, "total_tokens": 50, "cached_tokens": 10},
            {"input_tokens": 10, "output_tokens": 30, "cache_read_input_tokens": 10},
        ),
    ],
)
def test_what_was_used_is_told_under_the_names_of_the_messages_api(told: Json, usage: Json) -> None:
    heard = chat(chunk({"content": "Hi"}), STOP, used(**told), DONE)

    assert [event.usage for event in heard.events if isinstance(event, MessageDelta)] == ([usage] if usage else [])


def test_a_server_that_says_nothing_of_what_was_used_has_used_nothing_known() -> None:
    heard = chat(chunk({"content": "Hi"}), STOP, DONE)

    assert not [event for event in heard.events if isinstance(event, MessageDelta)]


def test_a_server_may_count_in_each_chunk() -> None:
    heard = chat(
        chunk({"content": "Hi"}, usage={"prompt_tokens": 1, "completion_tokens": 1}),
        chunk({}, "stop", usage={"prompt_tokens": 1, "completion_tokens": 2}),
    )

    assert heard.events[-2] == MessageDelta(usage={"input_tokens": 1, "output_tokens": 2})


def test_content_may_be_cut_into_parts() -> None:
    heard = chat(chunk({"content": [{"type": "text", "text": "Hel"}, {"type": "image"}, "lo"]}), STOP, DONE)

    assert heard.content == (TextBlock("Hello"),)


def test_other_choices_are_left_out() -> None:
    other = chunk({"content": "No"})
    other["choices"][0]["index"] = 1

    assert chat(chunk({"content": "Hi"}), other, STOP, DONE).content == (TextBlock("Hi"),)


def test_a_stream_may_end_without_the_last_word_once_it_is_known_why() -> None:
    assert chat(chunk({"content": "Hi"}), STOP).content == (TextBlock("Hi"),)


def test_what_comes_after_the_end_is_left_out() -> None:
    assert chat(chunk({"content": "Hi"}), STOP, DONE, "not even JSON", DONE).content == (TextBlock("Hi"),)


@pytest.mark.parametrize("reason", [None, ""])
def test_a_stream_that_ends_with_the_last_word_is_complete_without_a_reason(reason: str | None) -> None:
    said = chat(chunk({"content": "Hi"}, reason), DONE)
    called = chat(chunk(piece("{}", name="f", index=0, id="c")), chunk({}, reason), used(prompt_tokens=3), DONE)

    assert (said.end.stop_reason, said.content) == ("end_turn", (TextBlock("Hi"),))
    assert (called.end.stop_reason, called.calls) == ("tool_use", [("f", {})])


@pytest.mark.parametrize("end", [(), (used(prompt_tokens=3),)])
def test_an_answer_without_a_reason_for_its_end_has_broken_off(end: tuple[Json, ...]) -> None:
    with pytest.raises(Fault) as broken:
        chat(chunk({"content": "Hi"}), *end)

    assert (broken.value.error_type, broken.value.retryable) == ("incomplete_stream", True)


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
def test_a_server_that_breaks_off_has_failed(reason: str) -> None:
    with pytest.raises(Fault) as broken:
        chat(chunk({"content": "Hi"}), chunk({}, reason), DONE)

    assert (broken.value.error_type, broken.value.retryable) == ("api_error", True)


@pytest.mark.parametrize(
    ("error", "error_type", "message"),
    [
        ({"message": "too fast", "type": "requests", "code": "rate_limit_exceeded"}, "rate_limit_error", "too fast"),
        ({"message": "down", "code": 502}, "api_error", "down"),
        ({"message": "busy", "code": 429}, "rate_limit_error", "busy"),
        ({"message": "wrong", "type": "invalid_request_error", "code": None}, "invalid_request_error", "wrong"),
        ({"message": "no money", "type": "insufficient_quota"}, "billing_error", "no money"),
        ({"code": "server_error"}, "api_error", "server_error"),
        ("out of memory", "api_error", "out of memory"),
    ],
)
def test_an_error_in_the_stream_is_a_fault_of_its_type(error: object, error_type: str, message: str) -> None:
    with pytest.raises(Fault) as fault:
        chat(chunk({"content": "Hi"}), {"error": error})

    assert (fault.value.error_type, fault.value.message) == (error_type, message)


@pytest.mark.parametrize(
    "told",
    [
        {"object": "error", "message": "gone", "type": "InternalServerError", "code": 500},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "gone"}}]},
    ],
)
def test_an_error_may_be_the_chunk_itself_or_in_its_choice(told: Json) -> None:
    with pytest.raises(Fault, match=r"^gone$"):
        chat(chunk({"content": "Hi"}), told, DONE)


@pytest.mark.parametrize("data", ["{", "[]", "7"])
def test_an_event_that_cannot_be_read_is_malformed(data: str) -> None:
    with pytest.raises(MalformedEventError):
        chat(data)


def test_broken_characters_in_an_event_are_replaced() -> None:
    raw = json.dumps(chunk({"content": "X"})).encode()

    heard = chat(raw.replace(b"X", b"\xff"), raw.replace(b"X", rb"\ud800"), raw.replace(b"X", b"a\tb"), STOP, DONE)

    assert heard.content == (TextBlock("��a\tb"),)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        (" ", {}),
        ("null", {}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": "two\nlines\tand \x01"}', {"a": "two\nlines\tand \x01"}),
        (json.dumps('{"a": 1}'), {"a": 1}),
        (r'{"a": "\ud800"}', {"a": "�"}),
        ('{"a": ', {UNREADABLE: '{"a": '}),
        ("[1]", {UNREADABLE: "[1]"}),
        ('{"a": NaN}', {UNREADABLE: '{"a": NaN}'}),
        ('{"a": 1e400}', {"a": "1e400"}),
        ("[" * 100_000, {UNREADABLE: "[" * 100_000}),
    ],
)
def test_arguments_are_read_as_models_write_them(text: str, arguments: Json) -> None:
    assert arguments_of(text) == arguments


@pytest.mark.parametrize("written", ['{"a": oops}', '{"a":' + "[" * 200 + "]" * 200 + "}"])
def test_arguments_that_cannot_be_read_are_kept_as_they_were_written(written: str) -> None:
    heard = chat(chunk(piece(written, name="f", index=0, id="c")), chunk({}, "tool_calls"), DONE)

    assert heard.calls == [("f", {UNREADABLE: written})]


def test_an_integer_that_no_log_holds_is_told_otherwise() -> None:
    heard = chat(chunk(piece('{"a": 18446744073709551617}', name="f", index=0, id="c")), STOP, DONE)

    assert heard.calls == [("f", {"a": "18446744073709551617"})]


WRITTEN = st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.integers(-5, 5) | st.none(), max_size=3)


@given(
    calls=st.lists(st.tuples(st.sampled_from(["f", "g"]), WRITTEN), max_size=4),
    size=st.integers(1, 7),
    heads=st.booleans(),
    mixed=st.booleans(),
)
def test_calls_are_the_same_however_they_are_cut(
    *, calls: list[tuple[str, Json]], size: int, heads: bool, mixed: bool
) -> None:
    rows: list[list[Json]] = []
    for index, (name, arguments) in enumerate(calls):
        text = json.dumps(arguments)
        pieces = enumerate(text[start : start + size] for start in range(0, len(text), size))
        rows.append(
            [
                chunk(piece(one, name=name if heads or not number else None, index=index, id=f"c{index}"))
                for number, one in pieces
            ]
        )
    if mixed:
        chunks = [row[n] for n in range(max(map(len, rows), default=0)) for row in rows if n < len(row)]
    else:
        chunks = [one for row in rows for one in row]

    heard = chat(*chunks, STOP, DONE)

    assert heard.calls == calls
    assert heard.ids == [f"c{index}" for index, _ in enumerate(calls)]
