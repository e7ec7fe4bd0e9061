from __future__ import annotations

from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.environment.wire.stream import SseDecoder

STREAM = (
    ": hello\n\nevent: one\ndata: {}\n\ndata:no space\ndata: two lines ü😀\nid: 7\n\nevent: empty\n\n\n\ndata\n\n"
).encode()
EVENTS = [("one", b"{}"), ("", "no space\ntwo lines ü😀".encode()), ("", b"")]


def decoded(*chunks: bytes) -> list[tuple[str, bytes]]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_lines_may_end_in_each_of_the_three_ways(line_end: bytes) -> None:
    assert decoded(STREAM.replace(b"\n", line_end)) == EVENTS


@given(line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]), cuts=st.lists(st.integers(0, 120)))
def test_it_does_not_matter_where_the_stream_is_cut(line_end: bytes, cuts: list[int]) -> None:
    stream = STREAM.replace(b"\n", line_end)
    places = [0, *sorted(cuts), len(stream)]

    chunks = [stream[start:end] for start, end in pairwise(places)]

    assert decoded(*chunks) == EVENTS


def test_each_byte_may_come_alone() -> None:
    assert decoded(*(bytes([byte]) for byte in STREAM)) == EVENTS


def test_a_byte_order_mark_is_passed_over() -> None:
    assert decoded(b"\xef\xbb\xbfdata: 1\n\n") == [("", b"1")]


def test_an_event_without_its_blank_line_is_never_seen() -> None:
    assert decoded(b"data: 1\n\ndata: 2\n") == [("", b"1")]


def test_an_event_is_seen_as_soon_as_its_blank_line_is_there() -> None:
    decoder = SseDecoder()

    assert list(decoder.feed(b"data: 1\r\n\r")) == [("", b"1")]
    assert list(decoder.feed(b"\ndata: 2\r\r")) == [("", b"2")]


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b" \n\n", b": processing\n\n\n"])
def test_json_in_the_place_of_a_stream_is_its_body_whatever_lines_it_has(before: bytes) -> None:
    body = b'[{"a":\n\n"data: 1\\n\\n"}]'
    decoder = SseDecoder()

    assert [event for byte in before + body for event in decoder.feed(bytes([byte]))] == []
    assert decoder.body.strip() == body


def test_json_in_the_place_of_an_event_is_the_body_too() -> None:
    decoder = SseDecoder()

    assert list(decoder.feed(b'data: 1\n\n{"error": 1}\n\ndata: 2\n\n')) == [("", b"1"), ("", b"2")]
    assert decoder.body == b'{"error": 1}'


def test_an_error_may_be_a_field_of_its_own() -> None:
    assert decoded(b'error: {"code": 500}\n\n') == [("error", b'{"code": 500}')]


def test_blanks_without_end_take_little_time() -> None:
    decoder = SseDecoder()
    began = process_time()

    for _ in range(20_000):
        assert not list(decoder.feed(b" " * 20))

    assert process_time() - began < 1
