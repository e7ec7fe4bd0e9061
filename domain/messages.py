"""What is said in a conversation: messages and their content blocks, shaped as in the Messages API."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from reenact.domain.attachments import DocumentBlock, ImageBlock
from reenact.domain.errors import InvalidInputError, InvalidMessageError
from reenact.domain.plain import JsonObject, check_unicode
from reenact.domain.structs import Frozen, FrozenByName

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_MESSAGE_BYTES = 10 * 1024 * 1024
"""The largest message accepted, in bytes of UTF-8; the Messages API itself refuses requests above 32 MB."""

SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
"""The types of blocks in which an API calls a tool that it runs itself."""

Role: TypeAlias = Literal["user", "assistant"]


class TextBlock(Frozen, tag="text", omit_defaults=True):
    """Plain text; `citations` as the API sent them."""

    text: str
    citations: tuple[JsonObject, ...] | None = None


class ThinkingBlock(Frozen, tag="thinking"):
    """What the model thought; only with its signature may it be sent back, unmodified."""

    thinking: str
    signature: str | None = None


class ToolUseBlock(Frozen, tag="tool_use", omit_defaults=True):
    """A call that the model asks for; `input` is the decoded JSON object.

    `extra` holds what else the API said of the call, such as its `caller`; it goes back with the call.
    """

    id: str
    name: str
    input: JsonObject
    extra: JsonObject | None = None


class ToolResultBlock(Frozen, tag="tool_result"):
    """The answer to a call: text, or text, image, document and search result blocks as plain mappings."""

    tool_use_id: str
    content: str | tuple[JsonObject, ...]
    is_error: bool = False


class OpaqueBlock(Frozen, tag="opaque"):
    """A block of a kind that Reenact does not interpret, kept as it came so that it can be sent back as it came.

    One of type `container` stands at the end of an answer for which the API ran code, and names where.
    """

    data: JsonObject


Block: TypeAlias = TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ImageBlock | DocumentBlock | OpaqueBlock
Usage: TypeAlias = JsonObject
"""Token counts under the Messages API's names (`input_tokens`, `output_tokens`, …); empty when unknown."""


class StopDetails(FrozenByName):
    """Why the model refused, as the API says it; `category` and `explanation` are None where the API names none."""

    type: str = "refusal"
    category: str | None = None
    explanation: str | None = None


class Message(FrozenByName):
    """One message of a conversation.

    `partial` is true for an answer that an interrupt, an error or a crash cut short; `stop_reason` is then
    `interrupted` or `error`, else the API's. `stop_sequence` is the stop sequence that ended the answer, and
    `stop_details` says why the model refused. `turn_id` names the turn that the message asked for or answered.
    """

    id: str
    role: Role
    content: tuple[Block, ...]
    created_at: datetime
    turn_id: str | None = None
    stop_reason: str | None = None
    partial: bool = False
    usage: Usage | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None

    @property
    def text(self) -> str:
        """The text of the message, without thinking and tool calls."""
        return text_of(self.content)


class Said(Frozen, omit_defaults=True):
    """A message as the model is given it: who speaks, and what.

    `refused` marks an answer that the API refused to give, or to finish: its turn is not sent again.
    """

    role: Role
    content: tuple[Block, ...]
    refused: bool = False

    @property
    def text(self) -> str:
        """The text said, without thinking and tool calls."""
        return text_of(self.content)


def text_of(blocks: tuple[Block, ...]) -> str:
    """Return the text of the blocks, joined."""
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def server_calls_of(blocks: tuple[Block, ...]) -> int:
    """Return how many tools the API ran itself."""
    return sum(isinstance(block, OpaqueBlock) and block.data.get("type") in SERVER_CALLS for block in blocks)


def is_blank(blocks: tuple[Block, ...]) -> bool:
    """Return whether the blocks say nothing at all."""
    return all(
        (isinstance(block, TextBlock) and not block.text.strip())
        or (isinstance(block, ThinkingBlock) and not block.thinking and not block.signature)
        for block in blocks
    )


@functools.lru_cache(maxsize=256)  # what happens together has one time
def instant(microseconds: int) -> datetime:
    """Return the time that is so many microseconds after 1970-01-01 UTC."""
    return EPOCH + timedelta(0, 0, microseconds)


def check_message(text: object) -> str:
    """Return the text of a user's message, or raise `InvalidMessageError` saying what is wrong with it."""
    if not isinstance(text, str):
        raise InvalidMessageError(f"a message is text, not {type(text).__name__}")
    if not text.strip():
        raise InvalidMessageError("the message is empty; say something")
    size = len(check_unicode("the message", text, InvalidMessageError))
    if size > MAX_MESSAGE_BYTES:
        raise InvalidMessageError(f"the message has {size} bytes; at most {MAX_MESSAGE_BYTES} are accepted")
    return text


def check_text(what: str, text: object, *, limit: int = 1024) -> str:
    """Return an id, a name or another short text, or raise `InvalidInputError`; `limit` is in bytes of UTF-8."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} is text, not {type(text).__name__}")
    if not text.strip():
        raise InvalidInputError(f"{what} is empty")
    size = len(check_unicode(what, text))
    if size > limit or "\0" in text:
        raise InvalidInputError(f"{what} may have at most {limit} bytes, and no NUL among them; it has {size} bytes")
    return text
