"""What a row holds of a feed is read as it was packed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.stream.events import Context, InputJsonDelta, TextDelta, ThinkingDelta
from reenact.domain.stream.feed import Entry, FeedPart, Segment, pack_feed, pack_segments, unpack_feed

A, B = {"agent": "a"}, {"agent": "b"}
STREAM = "session/s"
OWN_TYPES = st.sampled_from(["own", "", "text_delta"])
OWN_DATA: st.SearchStrategy[Any] = st.sampled_from([None, 1, "a", {}, {"text": "a"}, {"text": 1}, [], ["a"], ["a", 1]])

TEXTS = st.text(max_size=5) | st.text("as", max_size=9)
datas: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(st.just("text_delta"), st.builds(TextDelta, text=TEXTS)),
    st.tuples(st.just("text_delta"), st.fixed_dictionaries({"text": TEXTS})),
    st.tuples(st.just("thinking_delta"), st.builds(ThinkingDelta, text=TEXTS)),
    st.tuples(st.just("input_json_delta"), st.builds(InputJsonDelta, id=st.just("c"), partial_json=TEXTS)),
    st.sampled_from([("text_delta", {"text": 1}), ("text_delta", {"text": "a", "more": 1}), ("text_delta", {})]),
    st.tuples(OWN_TYPES, OWN_DATA),
)
times = st.integers(0, 3) | st.integers(-(2**62), 2**62)
entries = st.tuples(datas, times).map(lambda drawn: Entry(drawn[0][0], drawn[1], drawn[0][1]))
contexts = st.sampled_from([A, B]) | st.dictionaries(
    st.sampled_from([*Context.__struct_fields__, "other"]), st.sampled_from(["s", "t", "", "long"])
)
segments = st.lists(st.tuples(contexts, st.lists(entries, max_size=6)), max_size=3)


def stored(packed: bytes) -> Any:  # noqa: ANN401 - MessagePack
    return msgspec.msgpack.decode(packed)


@given(segments, st.lists(st.text("as", max_size=9), max_size=3).map(msgspec.msgpack.encode))
def test_what_is_packed_is_read_as_it_was(given: list[tuple[dict[str, str], list[Entry]]], beside: bytes) -> None:
    part = unpack_feed(pack_feed(pack_segments(given, STREAM, beside)), STREAM, beside)

    assert part.segments == tuple(
        Segment(context, tuple(Entry(each.type, each.at, msgspec.to_builtins(each.data)) for each in of_segment))
        for context, of_segment in given
    )


def test_what_derives_the_rest_stands_behind_the_segments() -> None:
    part = unpack_feed(pack_feed(pack_segments([], STREAM), 7, msgspec.msgpack.encode([1])), STREAM, None)

    assert part == FeedPart((), 7, msgspec.Raw(b"\x91\x01"))


def test_texts_of_a_type_that_follow_each_other_are_a_run() -> None:
    said = [
        Entry("message_start", 5, {"model": None}),
        *(Entry("text_delta", 5, TextDelta(text=text)) for text in "abc"),
        Entry("thinking_delta", 6, ThinkingDelta(text="h")),
        *(Entry("text_delta", at, {"text": str(at)}) for at in (7, 9, 8)),
    ]

    assert stored(pack_feed(pack_segments([(A, said), (B, said[1:2])], STREAM))) == [
        [
            [
                A,
                [
                    ["message_start", 5, {"model": None}],
                    ["text_delta", [5], ["a", "b", "c"]],
                    ["thinking_delta", [6], ["h"]],
                    ["text_delta", [7, 2, -1], ["7", "9", "8"]],
                ],
            ],
            [B, [["text_delta", [5], ["a"]]]],
        ]
    ]


@pytest.mark.parametrize(
    "entry",
    [
        ["text_delta", [1, 0], ["a"]],
        ["text_delta", [1, 0], ["a", "b", "c"]],
        ["text_delta", [], ["a"]],
        ["text_delta", [1], {"text": "a"}],
        ["text_delta", [1], "a"],
        ["text_delta", [1], [1, 8]],
        ["text_delta", [1], [1, "a"]],
        ["text_delta", [1], ["a", 1]],
        ["text_delta", [1, 0], [1, 2, 2, 2]],
        ["own", [1], [1, 2]],
        ["text_delta", ["1"], ["a"]],
        ["text_delta", None, ["a"]],
        ["own", [1], ["a"]],
    ],
)
def test_what_nobody_has_packed_is_refused(entry: list[object]) -> None:
    with pytest.raises(ValueError, match=r"entr(y|ies) of type|Expected|texts end"):
        unpack_feed(msgspec.msgpack.encode([[[A, [entry]]]]), STREAM, b"any text")


def test_what_a_context_says_stands_once() -> None:
    context = {
        "container_id": "c",
        "image_id": "i",
        "session_id": "s",
        "agent_id": "a",
        "turn_id": "t",
        "correlation_id": "t",
        "causation_id": "m",
    }

    packed = pack_feed(pack_segments([(context, []), ({"session_id": "other"}, [])], STREAM))

    assert stored(packed) == [
        [[["c", "i", 0, "a", "t", 5, "m"], []], [[None, None, "other", None, None, None, None], []]]
    ]
    assert [segment.context for segment in unpack_feed(packed, STREAM, None).segments] == [
        context,
        {"session_id": "other"},
    ]


@pytest.mark.parametrize("context", [[1], [-1], ["a", 2], [True], [1.5], ["a"] * 8, "a", [[1, 8]], [[-1, 1]], [[]]])
def test_a_context_that_nobody_has_packed_is_refused(context: object) -> None:
    with pytest.raises(ValueError, match=r"the context of a segment|Expected|texts end|not enough"):
        unpack_feed(msgspec.msgpack.encode([[[context, []]]]), STREAM, b"any text")


def test_what_stands_in_the_row_already_is_not_said_again() -> None:
    events = msgspec.msgpack.encode(["turn_1234", "Grüße an alle"])
    needs = msgspec.msgpack.encode(["agent_123456"])
    context = {"session_id": "s", "agent_id": "agent_123456", "turn_id": "turn_1234", "correlation_id": "turn_1234"}
    texts = ("Grü", "", "ße an alle")
    said = [Entry("text_delta", 5, TextDelta(text=text)) for text in texts]

    packed = pack_feed(pack_segments([(context, said)], STREAM, events + needs), 1, needs)

    (((stored_context, (run,)),), *_) = stored(packed)
    begin = events.index("Grüße".encode())
    assert run == ["text_delta", [5], [begin, 4, 0, 11]]
    assert stored_context == [None, None, 0, [len(events) + 2, 12], [2, 9], 5, None]
    assert unpack_feed(packed, STREAM, events).segments == (
        Segment(context, tuple(Entry("text_delta", 5, {"text": text}) for text in texts)),
    )
