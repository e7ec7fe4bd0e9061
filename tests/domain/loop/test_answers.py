"""What the model is given of a result: text, the API's content blocks, or JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.loop.calls import content_of, json_text

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}, "title": "t"}
FOUND = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]}
TEXT = {"type": "text", "text": "sunny"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("aé ", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text"]), inner, max_size=2),
    max_leaves=5,
)


def test_text_goes_back_as_it_is() -> None:
    assert content_of("Grüße\n ") == "Grüße\n "


def test_nothing_goes_back_as_no_text() -> None:
    assert content_of(None) == ""


def test_json_goes_back_compact_and_unescaped() -> None:
    assert content_of({"result": 42, "stadt": "Köln"}) == '{"result":42,"stadt":"Köln"}'
    assert json_text([1, True, None]) == "[1,true,null]"


@pytest.mark.parametrize("blocks", [[TEXT], [IMAGE, TEXT], (DOCUMENT,), [FOUND]])
def test_content_blocks_go_back_as_they_are(blocks: Any) -> None:  # noqa: ANN401 - as tools return them
    assert content_of(blocks) == tuple(blocks)


@pytest.mark.parametrize(
    "blocks",
    [
        [],
        [TEXT, "text"],
        [TEXT, {"type": "text"}],
        [{"type": "text", "text": ""}],
        [{"type": "text", "text": 7}],
        [{"type": "image", "url": "https://example.org/a.png"}],
        [{"type": "document", "source": "a.pdf"}],
        [{"type": "search_result", "source": "s", "title": "t"}],
        [{"type": "tool_use", "id": "a", "name": "look", "input": {}}],
        [{"text": "sunny"}],
    ],
)
def test_what_only_resembles_content_blocks_goes_back_as_json(blocks: Any) -> None:  # noqa: ANN401 - as tools return them
    assert content_of(blocks) == json_text(blocks)


@given(json_values)
def test_whatever_a_tool_returns_is_text_or_blocks(result: Any) -> None:  # noqa: ANN401 - any JSON value
    content = content_of(result)

    assert isinstance(content, str) or (content and all(block["type"] == "text" for block in content))


@pytest.mark.parametrize(
    "source",
    [
        {"type": "base64", "media_type": "image/jpg", "data": "iVBORw0KGgo="},
        {"type": "base64", "media_type": "image/png", "data": "no base64"},
        {"type": "base64", "media_type": "image/png", "data": ""},
    ],
)
def test_an_image_that_the_api_refuses_goes_back_as_json_and_spoils_no_conversation(source: dict[str, str]) -> None:
    blocks = [{"type": "image", "source": source}]

    assert content_of(blocks) == json_text(blocks)
