"""Messages of a conversation and their content blocks, shaped as in the Messages API."""

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
"""The types of the blocks that stand for calls of tools which the API runs itself."""

Role: TypeAlias = Literal["user", "assistant"]


class TextBlock(Frozen, tag="text", omit_defaults=True):
    """Plain text; `citations` are kept as the API sent them."""

    text: str
    citations: tuple[JsonObject, ...] | None = None


class ThinkingBlock(Frozen, tag="thinking"):
    """The model's reasoning; it may be sent back only unmodified and with its signature."""

    thinking: str
    signature: str | None = None


class ToolUseBlock(Frozen, tag="tool_use", omit_defaults=True):
    """A tool call requested by the model; `input` is the decoded JSON object.

    `extra` holds the other fields that the API sent with the call, such as its `caller`; they are sent back with the
    call.
    """

    id: str
    name: str
    input: JsonObject
    extra: JsonObject | None = None


class ToolResultBlock(Frozen, tag="tool_result"):
    """The result of a call: text, or text, image, document and search result blocks as plain mappings."""

    tool_use_id: str
    content: str | tuple[JsonObject, ...]
    is_error: bool = False


class OpaqueBlock(Frozen, tag="opaque"):
    """A block of a type that Reenact does not interpret, kept unchanged so that it can be sent back unchanged.

    One of type `container` at the end of an answer names the container in which the API ran code for it.
    """

    data: JsonObject


Block: TypeAlias = TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ImageBlock | DocumentBlock | OpaqueBlock
Usage: TypeAlias = JsonObject
"""Token counts under the Messages API's names (`input_tokens`, `output_tokens`, …); empty when unknown."""


class StopDetails(FrozenByName):
    """Why the model refused, as reported by the API; `category` and `explanation` are None if the API gives none."""

    type: str = "refusal"
    category: str | None = None
    explanation: str | None = None


class Message(FrozenByName):
    """One message of a conversation.

    `partial` is true for an answer that an interrupt, an error or a crash cut short; `stop_reason` is then
    `interrupted` or `error`, else the API's. `stop_sequence` is the stop sequence that ended the answer, and
    `stop_details` says why the model refused. `turn_id` names the turn that the message began or answered.
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

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The results of tool calls in the message."""
        return results_in(self.content)


class Said(Frozen, omit_defaults=True):
    """A message as it is sent to the model: its role and its content.

    `refused` marks an answer that the API refused to give or to finish: its turn is not sent again.
    """

    role: Role
    content: tuple[Block, ...]
    refused: bool = False

    @property
    def text(self) -> str:
        """The text of the message, without thinking and tool calls."""
        return text_of(self.content)

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The results of tool calls in the message."""
        return results_in(self.content)


def results_in(blocks: tuple[Block, ...]) -> tuple[ToolResultBlock, ...]:
    """Return those of the blocks that are results of tool calls."""
    return tuple(block for block in blocks if isinstance(block, ToolResultBlock))


def text_of(blocks: tuple[Block, ...]) -> str:
    """Return the text of the blocks, joined."""
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def server_calls_of(blocks: tuple[Block, ...]) -> int:
    """Return the number of tool calls that the API ran itself."""
    return sum(isinstance(block, OpaqueBlock) and block.data.get("type") in SERVER_CALLS for block in blocks)


def is_blank(blocks: tuple[Block, ...]) -> bool:
    """Return whether the blocks have no content at all."""
    return all(
        (isinstance(block, TextBlock) and not block.text.strip())
        or (isinstance(block, ThinkingBlock) and not block.thinking and not block.signature)
        for block in blocks
    )


@functools.lru_cache(maxsize=256)  # events of one commit share one time
def instant(microseconds: int) -> datetime:
    """Return the time `microseconds` after 1970-01-01 UTC."""
    return EPOCH + timedelta(0, 0, microseconds)


def microseconds_of(time: datetime) -> int:
    """Return the microseconds from 1970-01-01 UTC to the time."""
    return (time - EPOCH) // timedelta(microseconds=1)


def check_message(text: object) -> str:
    """Return the text of a user's message, or raise `InvalidMessageError` if it is not valid."""
    if not isinstance(text, str):
        raise InvalidMessageError(f"a message must be text, not {type(text).__name__}")
    if not text.strip():
        raise InvalidMessageError("the message is empty; say something")
    size = len(check_unicode("the message", text, InvalidMessageError))
    if size > MAX_MESSAGE_BYTES:
        raise InvalidMessageError(f"the message has {size} bytes; at most {MAX_MESSAGE_BYTES} are accepted")
    return text


def check_text(what: str, text: object, *, limit: int = 1024) -> str:
    """Return an id, a name or another short text, or raise `InvalidInputError`; `limit` is in bytes of UTF-8.

    What is returned is a plain `str`, whatever subclass was given: only those can be stored.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} must be text, not {type(text).__name__}")
    if not text.strip():
        raise InvalidInputError(f"{what} is empty")
    size = len(check_unicode(what, text))
    if size > limit or "\0" in text:
        raise InvalidInputError(f"{what} may have at most {limit} bytes, and no NUL among them; it has {size} bytes")
    return str.__str__(text)
