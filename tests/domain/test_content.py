"""Which content is accepted, of a user and of a tool, and what is said of content that is not."""

from __future__ import annotations

import math
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.attachments import (
    Base64Source,
    Citations,
    ContentSource,
    DocumentBlock,
    FileSource,
    ImageBlock,
    TextSource,
    UrlSource,
)
from reenact.domain.content import (
    DOCUMENT_TYPES,
    IMAGE_TYPES,
    MAX_CONTENT_BYTES,
    check_content,
    check_result_content,
    plain_content,
)
from reenact.domain.errors import InvalidInputError, InvalidMessageError
from reenact.domain.messages import Block, OpaqueBlock, TextBlock, ThinkingBlock
from reenact.domain.plain import DEEPEST

PNG = b64encode(b"\x89PNG").decode()
PICTURE: dict[str, Any] = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
SEARCHED: dict[str, Any] = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text"}]}


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("given", "block"),
    [
        ({"type": "text", "text": " Hi "}, TextBlock(" Hi ")),
        (PICTURE, ImageBlock.from_bytes(b"\x89PNG", "image/png")),
        ({"type": "image", "source": {"type": "url", "url": "https://x/y"}}, ImageBlock.from_url("https://x/y")),
        ({"type": "image", "source": {"type": "file", "file_id": "f"}}, ImageBlock.from_file("f")),
        (
            {
                "type": "document",
                "source": {"type": "text", "data": "Hi"},
                "title": "T",
                "citations": {"enabled": True},
            },
            DocumentBlock.from_text("Hi", title="T", citations=True),
        ),
        (
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}},
            DocumentBlock.from_bytes(b"\x89PNG"),
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "http://x"}, "context": "C"},
            DocumentBlock.from_url("http://x", context="C"),
        ),
        ({"type": "document", "source": {"type": "file", "file_id": "f"}}, DocumentBlock.from_file("f")),
        (
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "Hi"}, PICTURE]}},
            DocumentBlock(ContentSource(({"type": "text", "text": "Hi"}, PICTURE))),
        ),
        (
            {"type": "document", "source": {"type": "content", "content": "Hi"}},
            DocumentBlock(ContentSource("Hi")),
        ),
        (SEARCHED, OpaqueBlock(SEARCHED)),
        ({"type": "container_upload", "file_id": "f"}, OpaqueBlock({"type": "container_upload", "file_id": "f"})),
    ],
)
def test_a_block_may_be_given_as_itself_or_as_a_plain_mapping(given: dict[str, Any], block: Block) -> None:
    assert check_content([given]) == (block,)
    assert check_content((block,)) == (block,)


def test_a_text_alone_is_a_message_of_one_block() -> None:
    assert check_content(" Hi ") == (TextBlock(" Hi "),)


@pytest.mark.parametrize("media_type", IMAGE_TYPES)
def test_images_of_the_usual_formats_are_accepted(media_type: str) -> None:
    image = ImageBlock.from_bytes(b"x", media_type)

    assert check_content([image]) == (image,)


REFUSED: list[tuple[object, str]] = [
    ("", "empty"),
    (" \n", "empty"),
    ([], "content is empty"),
    (7, "content must be text or a list of blocks, not int"),
    (b"x", "not bytes"),
    ({"type": "text", "text": "Hi"}, "not dict"),
    ("a\ud800", "index 1"),
    (["Hi"], r'content\[0\] is not a content block, but str; as a block it is \{"type": "text", "text": \'Hi\'\}'),
    ([ThinkingBlock("hm")], r"content\[0\] is not a content block, but ThinkingBlock"),
    ([{"type": "text", "text": "Hi"}, {}], r"content\[1\] has no type"),
    ([{"type": "tool_result"}], r"content\[0\] has the type 'tool_result'; here it is one of text, image"),
    ([{"type": ["text"]}], r"content\[0\] has the type \['text'\]"),
    ([{1: 2}], r"content\[0\] has the key 1, which is not text"),
    ([{"\ud800": 2}], r"content\[0\] has the key '.ud800', which is not text"),
    ([{"type": "text", "text": " "}], r"content\[0\].text is blank"),
    ([{"type": "text"}], r"content\[0\].text is missing"),
    ([{"type": "text", "text": 7}], r"content\[0\].text must be text, not int"),
    ([{"type": "text", "text": "\udfff"}], r"content\[0\].text is not valid Unicode: .* index 0"),
    ([{"type": "text", "text": "x", "cache_control": {}}], r"content\[0\] has no field 'cache_control'.*LLMConfig"),
    ([{"type": "text", "text": "x", "citations": []}], r"content\[0\] has no field 'citations'; known are text"),
    ([{"type": "image"}], r"content\[0\].source is missing"),
    ([{"type": "image", "source": "x"}], r"content\[0\].source must be a mapping, not str"),
    ([{"type": "image", "source": {"type": "text", "data": "x"}}], r"content\[0\].source.type is 'text'"),
    ([{"type": "image", "source": {"type": ["url"]}}], r"content\[0\].source.type is \['url'\]"),
    ([ImageBlock(Base64Source("image/bmp", PNG))], r"content\[0\].source.media_type is 'image/bmp'"),
    ([ImageBlock(Base64Source("image/png", "a"))], r"content\[0\].source.data is not base64"),
    ([ImageBlock(Base64Source("image/png", "ä" + PNG))], r"content\[0\].source.data is not base64"),
    ([ImageBlock(Base64Source("image/png", ""))], r"content\[0\].source.data is blank"),
    ([ImageBlock(UrlSource("file:///etc/passwd"))], r"content\[0\].source.url is 'file:///etc/passwd'"),
    ([ImageBlock(FileSource(" "))], r"content\[0\].source.file_id is blank"),
    ([DocumentBlock.from_bytes(b"x", "image/png")], f"media_type is 'image/png'.*{DOCUMENT_TYPES[0]}"),
    ([DocumentBlock(TextSource("x", "text/html"))], r"content\[0\].source.media_type is 'text/html'"),
    ([DocumentBlock.from_text(" ")], r"content\[0\].source.data is blank"),
    ([DocumentBlock.from_text("x", title=" ")], r"content\[0\].title is blank"),
    ([DocumentBlock.from_text("x", context="")], r"content\[0\].context is blank"),
    ([DocumentBlock(ContentSource(""))], r"content\[0\].source.content is blank"),
    ([DocumentBlock(ContentSource(()))], r"content\[0\].source.content is empty"),
    ([DocumentBlock(ContentSource((PICTURE, SEARCHED)))], r"content\[0\].source.content\[1\] has the type"),
    (
        [{"type": "document", "source": {"type": "text", "data": "x"}, "citations": True}],
        r"content\[0\].citations must be",
    ),
    ([{**SEARCHED, "score": math.nan}], r"content\[0\].score is nan"),
    ([{**SEARCHED, "score": math.inf}], r"content\[0\].score is inf"),
    ([{**SEARCHED, "id": 2**64}], r"content\[0\].id is an integer of more than 64 bits"),
    ([{**SEARCHED, "tags": [{1, 2}]}], r"content\[0\].tags\[0\] is a set, which is not a JSON value"),
    ([{**SEARCHED, "more": nested(DEEPEST)}], "nested more than 100 deep"),
    ([{"type": "text", "text": "x" * MAX_CONTENT_BYTES}], f"at most {MAX_CONTENT_BYTES}"),
]


@pytest.mark.parametrize(("given", "complaint"), REFUSED, ids=lambda value: repr(value)[:60])
def test_what_is_no_content_is_refused_by_the_block_and_the_field(given: object, complaint: str) -> None:
    with pytest.raises(InvalidMessageError, match=complaint):
        check_content(given)


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.floats(allow_nan=False)
plain = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(st.dictionaries(st.text(), plain))
def test_what_is_accepted_is_read_again_as_it_was(fields: dict[str, Any]) -> None:
    try:
        blocks = check_content([{**fields, "type": "search_result"}])
    except InvalidMessageError:
        assert "inf" in repr(fields)
        return

    stored = msgspec.json.encode(blocks)
    assert msgspec.json.decode(stored, type=tuple[Block, ...]) == blocks


def test_what_was_accepted_does_not_change_with_what_was_given() -> None:
    mine: dict[str, Any] = {**SEARCHED, "tags": ["a"]}

    blocks = check_content([mine])
    mine["tags"].append("b")

    assert blocks == (OpaqueBlock({**SEARCHED, "tags": ["a"]}),)


def test_a_tool_may_answer_with_nothing_with_text_or_with_blocks() -> None:
    document = DocumentBlock.from_text("Hi", citations=True)

    assert check_result_content("") == check_result_content([]) == check_result_content(()) == ""
    assert check_result_content("42 °C") == "42 °C"
    assert check_result_content([document, PICTURE, {"type": "tool_reference", "tool_name": "x"}]) == (
        {
            "type": "document",
            "source": {"type": "text", "data": "Hi", "media_type": "text/plain"},
            "citations": {"enabled": True},
        },
        PICTURE,
        {"type": "tool_reference", "tool_name": "x"},
    )


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (7, "content must be text or a list of blocks, not int"),
        ("\ud800", "content is not valid Unicode"),
        ("x" * (MAX_CONTENT_BYTES + 1), f"{MAX_CONTENT_BYTES + 1} bytes"),
        ([{"type": "container_upload", "file_id": "f"}], "has the type 'container_upload'"),
        ([{"type": "text", "text": ""}], r"content\[0\].text is blank"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_tool_s_answer_is_refused_by_the_block_and_the_field(given: object, complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint) as refused:
        check_result_content(given)

    assert not isinstance(refused.value, InvalidMessageError)


def test_a_document_is_cited_only_if_that_is_wanted() -> None:
    assert DocumentBlock.from_text("x").citations is None
    assert DocumentBlock.from_bytes(b"x", citations=True).citations == Citations(enabled=True)
    assert DocumentBlock.from_url("https://x", citations=True).citations == Citations(enabled=True)


class Rendered(str):
    """Text as a template engine returns it."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


def test_blocks_are_plain_mappings_when_they_are_sent_and_so_are_texts() -> None:
    other = {"type": "search_result"}
    picture = ImageBlock.from_bytes(b"\x89PNG", "image/png")

    assert plain_content([Rendered("Look"), picture, OpaqueBlock(other), other, 5]) == [
        {"type": "text", "text": "Look"},
        PICTURE,
        other,
        other,
        5,
    ]
