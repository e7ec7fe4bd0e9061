"""A conversation as both APIs take it: their counterparts of blocks, and text in place of the other blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from reenact.actors.environment.failures import Fault
from reenact.actors.environment.received_json import is_json_object, object_in, objects_in, text_in
from reenact.actors.environment.wire.messages import FOREIGN, ApiBlock, ApiMessage, Limits, api_blocks, api_messages
from reenact.domain.attachments import DocumentBlock, ImageBlock
from reenact.domain.messages import Block, OpaqueBlock, Said, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock

LIMITS = Limits(call_id=40, name=64)
Dialect: TypeAlias = Literal["chat", "responses"]

_FILE_PREFIX = "file-"
_KINDS = {"image": "image", "document": "file"}
_USER_BLOCKS = frozenset({"search_result", "container_upload"})
"""Blocks of a user that have no counterpart in either API and are sent as text."""


class Part(msgspec.Struct, frozen=True):
    """A part of a user's message: text, or an image or a file, given by its URL or by the id of a file at the API."""

    kind: str
    text: str = ""
    url: str | None = None
    file_id: str | None = None
    name: str = "document.pdf"
    problem: str = ""
    """Why the part cannot be sent, and what to do."""


def messages_for(dialect: Dialect, conversation: Sequence[Said], *, thoughts: bool) -> list[ApiMessage]:
    """Return the conversation as messages of the Messages API, without blocks that only Claude understands.

    The thoughts in it are those of this API; their signatures say how they are sent back. Other blocks that only this
    API understands are sent back with them.

    Raises:
        Fault: a part of the last message cannot be sent.
    """
    told = [_for_dialect(said, dialect, thoughts=thoughts) for said in conversation]
    if told and told[-1].role == "user":
        _check_sendable(dialect, api_blocks(told[-1].content))
    return api_messages(told, limits=LIMITS)


def _check_sendable(dialect: Dialect, blocks: Sequence[ApiBlock]) -> None:
    for part in _question_parts(dialect, blocks):
        if part.problem:
            raise Fault("invalid_request_error", part.problem)


def _for_dialect(said: Said, dialect: Dialect, *, thoughts: bool) -> Said:
    blocks = (_block_for_dialect(block, f"{FOREIGN}{dialect}", thoughts=thoughts) for block in said.content)
    return Said(said.role, tuple(block for block in blocks if block is not None), refused=said.refused)


def _block_for_dialect(block: Block, origin: str, *, thoughts: bool) -> Block | None:
    match block:
        case TextBlock(text=text):
            return TextBlock(text)
        case ThinkingBlock(thinking=thinking, signature=signature):
            signed = thoughts and (signature or "").startswith(f"{origin}:")
            return ThinkingBlock(thinking, (signature or "").removeprefix(f"{origin}:")) if signed else None
        case ToolUseBlock(id=call_id, name=name, input=arguments, extra=extra):
            kept = (extra or {}).get(origin) if thoughts else None
            return ToolUseBlock(call_id, name, arguments, kept if is_json_object(kept) else None)
        case OpaqueBlock(data=data):
            kind = str(data.get("type"))
            if thoughts and kind.startswith(f"{origin}:"):
                return OpaqueBlock({**data, "type": kind.removeprefix(f"{origin}:")})
            return block if kind in _USER_BLOCKS else None
        case ToolResultBlock() | ImageBlock() | DocumentBlock():
            return block


def joined_text(blocks: Sequence[ApiBlock]) -> str:
    """Return the texts of the blocks, joined."""
    return "".join(text_in(block, "text") for block in blocks if block.get("type") == "text")


def question_parts(dialect: Dialect, blocks: Sequence[ApiBlock]) -> list[Part]:
    """Return the parts of a user's messages; a part that cannot be sent is named in text."""
    return [_named_if_unsendable(part) for part in _question_parts(dialect, blocks)]


def _question_parts(dialect: Dialect, blocks: Sequence[ApiBlock]) -> Iterator[Part]:
    return (part for block in blocks if block.get("type") != "tool_result" for part in _parts(dialect, block))


def result_parts(dialect: Dialect, result: ApiBlock) -> list[Part]:
    """Return the parts of a tool's result; a failure begins with "Error:"."""
    content = result.get("content")
    parts = [Part("text", content)] if isinstance(content, str) else []
    parts += [_named_if_unsendable(part) for block in objects_in(result, "content") for part in _parts(dialect, block)]
    if result.get("is_error") is True:
        return [Part("text", "Error:"), *parts]
    return parts or [Part("text", "")]


def text_of(parts: Sequence[Part]) -> str:
    """Return the text of the parts, in paragraphs."""
    return "\n\n".join(part.text for part in parts if part.kind == "text")


def _named_if_unsendable(part: Part) -> Part:
    return Part("text", f"[{part.kind} that cannot be shown here]") if part.problem else part


def _parts(dialect: Dialect, block: ApiBlock) -> Iterator[Part]:
    kind = text_in(block, "type")
    match kind:
        case "text":
            yield Part("text", text_in(block, "text"))
        case "image":
            yield _attached(dialect, "image", block)
        case "document":
            yield from _document(dialect, block)
        case "search_result":
            yield Part("text", "\n".join([text_in(block, "title"), text_in(block, "source"), *_texts(block)]))
        case "tool_reference":
            yield Part("text", text_in(block, "tool_name"))
        case _:
            yield Part(kind, problem=f"a block of type {kind!r} is Claude's own: hand in the content itself")


def _texts(block: ApiBlock) -> list[str]:
    content = block.get("content")
    return [content] if isinstance(content, str) else [text_in(one, "text") for one in objects_in(block, "content")]


def _document(dialect: Dialect, block: ApiBlock) -> Iterator[Part]:
    title, context = text_in(block, "title"), text_in(block, "context")
    if title or context:
        yield Part("text", "\n".join(filter(None, [title, context])))
    source = object_in(block, "source")
    match source.get("type"):
        case "text":
            yield Part("text", text_in(source, "data"))
        case "content":
            if isinstance(text := source.get("content"), str):
                yield Part("text", text)
            for piece in objects_in(source, "content"):
                yield from _parts(dialect, piece)
        case _:
            yield _attached(dialect, "document", block)


def _attached(dialect: Dialect, what: str, block: ApiBlock) -> Part:
    """Return an image or a document as a part; Chat Completions takes no document by URL, and no image by file id."""
    source = object_in(block, "source")
    kind, name = _KINDS[what], f"{text_in(block, 'title').removesuffix('.pdf') or 'document'}.pdf"
    match source.get("type"):
        case "base64":
            return Part(kind, url=f"data:{text_in(source, 'media_type')};base64,{text_in(source, 'data')}", name=name)
        case "url" if what == "image" or dialect == "responses":
            return Part(kind, url=text_in(source, "url"), name=name)
        case "file" if text_in(source, "file_id").startswith(_FILE_PREFIX):
            if what == "document" or dialect == "responses":
                return Part(kind, file_id=text_in(source, "file_id"))
            problem = 'Chat Completions takes no image by the id of a file: hand in its bytes, or use api="responses"'
        case "file":
            problem = f"the {what} is a file at another provider, which the model cannot read: hand in its bytes"
        case _:
            problem = 'Chat Completions takes no document by its address: hand in its bytes, or use api="responses"'
    return Part(kind, problem=problem)
