"""What a tool's result is when it goes back to the model."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from reenact.domain.content import check_result_content
from reenact.domain.errors import InvalidInputError

Content: TypeAlias = str | tuple[dict[str, Any], ...]
BLOCK_TYPES: Final = frozenset({"text", "image", "document", "search_result"})
"""The content blocks that the Messages API takes in the answer to a call."""


def content_of(result: Any) -> Content:  # noqa: ANN401 - any JSON value
    """Return what the model is given of a result: text and the API's content blocks as they are, all else as JSON."""
    match result:
        case None:
            return ""
        case str():
            return result
        case [*blocks] if _are_blocks(blocks):
            return tuple(blocks)
        case _:
            return compact(result)


def compact(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return the value as JSON without white space and without ASCII escapes."""
    return msgspec.json.encode(value).decode()


def _are_blocks(value: list[Any]) -> bool:
    """Return whether the API would take them: one block that it refuses makes it refuse the whole conversation."""
    if not value or not all(_is_block(block) for block in value):
        return False
    try:
        check_result_content(value)
    except InvalidInputError:
        return False
    return True


def _is_block(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Return whether it looks like a block of content."""
    match value:
        case {"type": "text", "text": str(text)}:
            return bool(text)
        case {"type": "image" | "document", "source": {"type": str()}}:
            return True
        case {"type": "search_result", "source": str(), "title": str(), "content": [*_]}:
            return True
        case _:
            return False
