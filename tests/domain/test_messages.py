"""Which texts are accepted, and what a message says."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.errors import InvalidInputError, InvalidMessageError
from reenact.domain.messages import (
    MAX_MESSAGE_BYTES,
    Block,
    Message,
    OpaqueBlock,
    Said,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    check_message,
    check_text,
    instant,
    is_blank,
    microseconds_of,
)


@pytest.mark.parametrize("text", ["x", "  x ", "\0", "x" * MAX_MESSAGE_BYTES, "é" * (MAX_MESSAGE_BYTES // 2)])
def test_a_message_is_accepted_as_it_is(text: str) -> None:
    assert check_message(text) is text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        (" \n\t\u3000", "empty"),
        ("x" * (MAX_MESSAGE_BYTES + 1), str(MAX_MESSAGE_BYTES + 1)),
        ("é" * (MAX_MESSAGE_BYTES // 2 + 1), str(MAX_MESSAGE_BYTES + 2)),
        ("ab\ud800", "index 2"),
        (b"bytes", "bytes"),
        (None, "NoneType"),
    ],
    ids=["empty", "blank", "too large", "too large in UTF-8", "lone surrogate", "bytes", "nothing"],
)
def test_a_message_is_refused_with_the_reason(text: object, why: str) -> None:
    with pytest.raises(InvalidMessageError, match=why):
        check_message(text)


@pytest.mark.parametrize(
    "text", ["", " ", "x" * 1025, "é" * 513, "a\0b", "\udc00", 7, None], ids=lambda text: repr(text)[:8]
)
def test_a_short_text_is_refused(text: object) -> None:
    with pytest.raises(InvalidInputError, match="the name"):
        check_text("the name", text)


def test_a_short_text_may_be_as_long_as_its_limit() -> None:
    assert check_text("the name", "é" * 512) == "é" * 512
    assert check_text("the name", "abc", limit=3) == "abc"


@given(st.text())
def test_every_text_that_is_not_blank_is_a_message(text: str) -> None:
    blank = not text.strip()

    try:
        accepted = check_message(text) == text
    except InvalidMessageError:
        accepted = False

    assert accepted != blank


def test_the_text_of_a_message_is_what_was_said_aloud() -> None:
    content = (ThinkingBlock("hm"), TextBlock("He"), ToolUseBlock("c", "bash", {}), TextBlock("llo"))

    message = Message(id="m", role="assistant", content=content, created_at=instant(0))

    assert message.text == Said("assistant", content).text == "Hello"


@pytest.mark.parametrize(
    ("blocks", "blank"),
    [
        ((), True),
        ((TextBlock(" \n"),), True),
        ((ThinkingBlock(""),), True),
        ((TextBlock(""), TextBlock("x")), False),
        ((ThinkingBlock("", "signed"),), False),
        ((ThinkingBlock("hm"),), False),
        ((ToolUseBlock("c", "bash", {}),), False),
        ((OpaqueBlock({}),), False),
    ],
)
def test_blank_is_what_says_nothing_at_all(blocks: tuple[TextBlock | ThinkingBlock, ...], *, blank: bool) -> None:
    assert is_blank(blocks) == blank


def test_messages_stored_before_blocks_had_more_fields_are_read() -> None:
    stored = b"""[{"type":"tool_use","id":"c","name":"bash","input":{}},
        {"type":"tool_result","tool_use_id":"c","content":"ok","is_error":false},
        {"type":"text","text":"Hi"},{"type":"thinking","thinking":"hm","signature":null}]"""

    blocks = msgspec.json.decode(stored, type=tuple[Block, ...])

    assert blocks == (ToolUseBlock("c", "bash", {}), ToolResultBlock("c", "ok"), TextBlock("Hi"), ThinkingBlock("hm"))
    assert msgspec.json.decode(msgspec.json.encode(blocks)) == msgspec.json.decode(stored)


def test_times_are_in_utc_to_the_microsecond() -> None:
    assert instant(1_700_000_000_000_001) == datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=UTC)


@pytest.mark.parametrize("microseconds", [0, 1, 1_795_824_000_123_456, -1])
def test_the_time_of_an_event_is_converted_there_and_back(microseconds: int) -> None:
    assert microseconds_of(instant(microseconds)) == microseconds
