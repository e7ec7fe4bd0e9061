"""However an environment says it, what is published is regular, and adds up to the answer."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.loop.calls import UNREADABLE
from reenact.domain.messages import OpaqueBlock, StopDetails, TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.plain import JsonObject
from reenact.domain.stream.answer import Answer, Complete, gather
from reenact.domain.stream.events import (
    InputJsonDelta,
    Interrupted,
    MessageDelta,
    MessageStart,
    MessageStop,
    StreamData,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCall,
    ToolResult,
)

STARTED = MessageStart(message_id="m1")

words = st.sampled_from(["", "a", "Hello", " mock!"])
said: st.SearchStrategy[StreamData] = st.one_of(
    st.builds(MessageStart, message_id=st.sampled_from([None, "", "m7"]), model=st.sampled_from([None, "model"])),
    st.builds(TextDelta, text=words),
    st.builds(ThinkingStart),
    st.builds(ThinkingDelta, text=words),
    st.builds(ThinkingEnd, signature=st.sampled_from([None, "signed"])),
    st.builds(
        ToolCall,
        id=st.sampled_from([None, "call"]),
        name=st.just("bash"),
        input=st.sampled_from([{"a": 1}, "ls", None]),
    ),
    st.builds(InputJsonDelta, id=st.sampled_from([None, "call"]), partial_json=st.sampled_from(["", "{", "}", "{}"])),
    st.builds(ToolResult, result=words),
    st.builds(MessageDelta, usage=st.sampled_from([{"output_tokens": 1}, {"output_tokens": 9}])),
    st.builds(Interrupted, reason=st.just("user")),
)
ends: st.SearchStrategy[StreamData] = st.one_of(
    st.builds(
        MessageStop,
        stop_reason=st.sampled_from(["end_turn", "max_tokens"]),
        stop_sequence=st.sampled_from([None, "END"]),
        stop_details=st.sampled_from([None, StopDetails(category="bio", explanation="No.")]),
    ),
    st.builds(StreamError, message=st.just("broken")),
)
streams = st.builds(
    lambda *parts: [event for part in parts for event in part],
    *[st.lists(said, max_size=12), st.lists(ends, max_size=2), st.lists(said | ends, max_size=4)],
)


def heard(*events: StreamData) -> tuple[list[StreamData], Answer]:
    """Return what is published, and the answer that it is of."""
    numbers = count(1)
    answer = Answer(lambda: f"m{next(numbers)}")
    return [published for event in events for published in answer.accept(event)], answer


def test_a_missing_message_start_is_inserted_with_an_id() -> None:
    published, answer = heard(TextDelta(text="Hi"), MessageStop())

    assert published == [STARTED, TextDelta(text="Hi"), MessageStop()]
    assert (answer.message_id, answer.blocks, answer.stop_reason) == ("m1", (TextBlock("Hi"),), "end_turn")


@pytest.mark.parametrize("given", [None, ""])
def test_a_message_start_without_an_id_gets_one(given: str | None) -> None:
    published, answer = heard(MessageStart(message_id=given, model="model"))

    assert published == [MessageStart(message_id="m1", model="model")]
    assert answer.model == "model"


def test_a_second_message_start_is_dropped() -> None:
    published, answer = heard(MessageStart(message_id="first"), MessageStart(message_id="second"))

    assert published == [MessageStart(message_id="first")]
    assert answer.message_id == "first"


def test_text_within_thinking_is_thinking() -> None:
    published, answer = heard(
        ThinkingStart(), ThinkingStart(), TextDelta(text="Hm"), ThinkingEnd(signature="s"), TextDelta(text="Hi")
    )

    assert published == [
        STARTED,
        ThinkingStart(),
        ThinkingDelta(text="Hm"),
        ThinkingEnd(signature="s"),
        TextDelta(text="Hi"),
    ]
    assert answer.blocks == (ThinkingBlock("Hm", "s"), TextBlock("Hi"))


def test_a_thought_that_nobody_began_begins() -> None:
    published, answer = heard(TextDelta(text="Well"), ThinkingDelta(text="Hm"), ThinkingDelta(text="m"))

    assert [event.event_type for event in published][2:] == ["thinking_start", "thinking_delta", "thinking_delta"]
    assert answer.blocks == (TextBlock("Well"), ThinkingBlock("Hmm"))


def test_a_thought_that_nobody_ended_ends_with_the_message() -> None:
    published, answer = heard(ThinkingStart(), TextDelta(text="Hm"), MessageStop())

    assert published[-2:] == [ThinkingEnd(), MessageStop()]
    assert answer.blocks == (ThinkingBlock("Hm"),)


def test_the_end_of_no_thought_is_dropped() -> None:
    assert heard(STARTED, ThinkingEnd())[0] == [STARTED]


def test_an_empty_thought_leaves_no_block_unless_it_is_signed() -> None:
    assert heard(ThinkingStart(), ThinkingEnd())[1].blocks == ()
    assert heard(ThinkingStart(), ThinkingEnd(signature="s"))[1].blocks == (ThinkingBlock("", "s"),)


def test_a_tool_call_stands_between_what_was_said_before_and_after() -> None:
    call = ToolCall(id="c1", name="bash", input={"command": "ls"})

    published, answer = heard(
        TextDelta(text="Let me check"),
        call,
        InputJsonDelta(partial_json="{}"),
        ToolResult(result="x"),
        TextDelta(text="!"),
    )

    assert published[2:5] == [call, InputJsonDelta(partial_json="{}"), ToolResult(result="x")]
    assert answer.blocks == (TextBlock("Let me check"), ToolUseBlock("c1", "bash", {"command": "ls"}), TextBlock("!"))


def test_a_tool_call_ends_a_thought() -> None:
    published, _ = heard(ThinkingStart(), ThinkingDelta(text="Hm"), ToolCall(name="bash", input="ls"))

    assert [event.event_type for event in published][-2:] == ["thinking_end", "tool_call"]


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        (['{"a"', ": 1}"], {"a": 1}),
        ([""], {}),
        ([], {}),
        (['{"a": '], {UNREADABLE: '{"a": '}),
        (["[1]"], {UNREADABLE: "[1]"}),
        (['{"a": 99999999999999999999999}'], {"a": "99999999999999999999999"}),
    ],
)
@pytest.mark.parametrize(
    "then", [MessageStop(stop_reason="tool_use"), TextDelta(text="so"), ToolCall(id="d", name="x", input={})]
)
def test_the_input_of_a_call_may_follow_in_pieces(pieces: list[str], arguments: JsonObject, then: StreamData) -> None:
    deltas = [InputJsonDelta(id=id_, partial_json=piece) for id_, piece in zip(("c", None), pieces, strict=False)]

    published, answer = heard(ToolCall(id="c", name="bash"), *deltas, then)

    assert published == [STARTED, *deltas, ToolCall(id="c", name="bash", input=arguments), then]
    blocks = [block for block in answer.blocks if isinstance(block, ToolUseBlock) and block.id == "c"]
    assert blocks == [ToolUseBlock("c", "bash", arguments)]


@pytest.mark.parametrize("then", [MessageStop(stop_reason="max_tokens"), StreamError(message="broken")])
def test_a_call_whose_input_was_cut_off_with_the_message_is_none(then: StreamData) -> None:
    piece = InputJsonDelta(id="c", partial_json='{"a": ')

    published, answer = heard(ToolCall(id="c", name="bash"), piece, then)

    assert published == [STARTED, piece, then]
    assert answer.blocks == ()


def test_pieces_of_another_call_are_not_taken_for_those_of_this_one() -> None:
    _, answer = heard(
        ToolCall(id="c", name="bash"),
        InputJsonDelta(id="d", partial_json='{"b": 2}'),
        MessageStop(stop_reason="tool_use"),
    )

    assert answer.blocks == (ToolUseBlock("c", "bash", {}),)


@pytest.mark.parametrize("given", [None, "", " "])
def test_a_call_without_an_id_is_published_with_the_one_it_is_recorded_with(given: str | None) -> None:
    published, answer = heard(TextDelta(text="Hi"), ToolCall(id=given, name="bash", input="ls"))

    assert published[2:] == [ToolCall(id="m1_1", name="bash", input="ls")]
    assert answer.blocks[1] == ToolUseBlock("m1_1", "bash", {"input": "ls"})


def test_an_input_that_is_no_object_becomes_one() -> None:
    assert heard(ToolCall(name="bash", input="ls"))[1].blocks == (ToolUseBlock("m1_0", "bash", {"input": "ls"}),)


def test_usage_replaces_what_was_said_before() -> None:
    _, answer = heard(
        MessageDelta(usage={"input_tokens": 3, "output_tokens": 1}), MessageDelta(usage={"output_tokens": 7})
    )

    assert answer.usage == {"output_tokens": 7}


def test_an_error_ends_the_answer_and_keeps_its_part() -> None:
    error = StreamError(message="broken")

    published, answer = heard(TextDelta(text="H"), error, TextDelta(text="i"))

    assert published == [STARTED, TextDelta(text="H"), error]
    assert (answer.finished, answer.error, answer.blocks) == (True, error, (TextBlock("H"),))


def test_an_interrupt_is_not_the_environments_to_say() -> None:
    assert heard(Interrupted(reason="me"))[0] == []


def test_a_driver_that_knows_the_whole_message_is_believed() -> None:
    whole = (TextBlock("Hi", citations=({"url": "u"},)), OpaqueBlock({"type": "server_tool_use"}))

    published, answer = heard(TextDelta(text="Hi"), Complete(stop_reason="end_turn", content=whole))

    assert published[-1] == MessageStop()
    assert type(published[-1]) is MessageStop
    assert answer.blocks == whole


@given(streams)
def test_what_was_published_adds_up_to_the_answer(stream: list[StreamData]) -> None:
    published, live = heard(*stream)

    gathered = gather(published)

    assert (gathered.message_id, gathered.model, gathered.blocks) == (live.message_id, live.model, live.blocks)
    assert (gathered.usage, gathered.stop_reason, gathered.error) == (live.usage, live.stop_reason, live.error)
    assert (gathered.stop_sequence, gathered.stop_details) == (live.stop_sequence, live.stop_details)


@given(streams, st.integers(0, 20))
def test_it_adds_up_at_every_moment(stream: list[StreamData], moment: int) -> None:
    published, live = heard(*stream[:moment])

    assert gather(published).blocks == live.blocks


@given(streams)
def test_what_is_regular_stays_as_it_is(stream: list[StreamData]) -> None:
    published, _ = heard(*stream)

    assert heard(*published)[0] == published


@given(streams)
def test_what_is_published_is_regular(stream: list[StreamData]) -> None:
    types = [event.event_type for event in heard(*stream)[0]]

    said = [type_ for type_ in types if type_ != "error"]
    assert said[:1] in ([], ["message_start"])
    assert said.count("message_start") <= 1
    assert not {"message_stop", "error"} & set(types[:-1])
    thinking = False
    for type_ in types:
        assert (type_ in {"thinking_delta", "thinking_end"}) <= thinking
        assert (type_ in {"text_delta", "thinking_start", "tool_call", "message_stop"}) <= (not thinking)
        thinking = type_ == "thinking_start" or (thinking and type_ != "thinking_end")


@given(streams)
def test_no_text_is_lost_and_none_is_invented(stream: list[StreamData]) -> None:
    published, answer = heard(*stream)

    text = "".join(event.text for event in published if isinstance(event, TextDelta))
    assert "".join(block.text for block in answer.blocks if isinstance(block, TextBlock)) == text
