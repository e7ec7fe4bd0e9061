"""Requests to the Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reenact.actors.environment.openai.content import (
    Part,
    arguments_in,
    joined,
    messages_for,
    question_parts,
    result_parts,
    text_at,
)
from reenact.actors.environment.wire.driver import Question
from reenact.actors.environment.wire.messages import ApiBlock

_DATA = "data:"


def input_items(question: Question, *, thoughts: bool) -> list[dict[str, object]]:
    """Return the `input` of a request.

    Raises:
        Fault: something in the question cannot be sent.
    """
    messages = messages_for("responses", question.messages, thoughts=thoughts)
    items: list[dict[str, object]] = []
    for number, message in enumerate(messages, 1):
        if message["role"] == "assistant":
            items += _answered(message["content"])
        else:
            items += _asked(message["content"], is_last=number == len(messages))
    return items


def function_tool(tool: Mapping[str, object]) -> dict[str, object]:
    """Return the definition of a tool. Its schema is not changed to a strict one, which knows no optional arguments."""
    told = {"name": tool.get("name"), "description": text_at(tool, "description"), "strict": False}
    return {"type": "function", **told, "parameters": tool.get("input_schema")}


def _answered(blocks: Sequence[ApiBlock]) -> Iterator[dict[str, object]]:
    for block in blocks:
        match block.get("type"):
            case "thinking":
                item_id, _, sealed = text_at(block, "signature").partition(":")
                thought = text_at(block, "thinking")
                summary = [{"type": "summary_text", "text": thought}] if thought else []
                yield {"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": sealed}
            case "tool_use":
                call = {"call_id": block["id"], "name": block["name"], "arguments": arguments_in(block)}
                yield {"type": "function_call", **call}
            case _:
                yield {"type": "message", "role": "assistant", "content": text_at(block, "text")}


def _asked(blocks: Sequence[ApiBlock], *, is_last: bool) -> Iterator[dict[str, object]]:
    for block in blocks:
        if block.get("type") == "tool_result":
            parts = result_parts("responses", block)
            texts = all(part.kind == "text" for part in parts)
            output = joined(parts) if texts else [_part(part) for part in parts]
            yield {"type": "function_call_output", "call_id": block["tool_use_id"], "output": output}
    parts = question_parts("responses", blocks, is_last=is_last)
    if parts:
        yield {"type": "message", "role": "user", "content": [_part(part) for part in parts]}


def _part(part: Part) -> dict[str, object]:
    if part.kind == "text":
        return {"type": "input_text", "text": part.text}
    if part.kind == "image":
        where = {"file_id": part.file_id} if part.file_id else {"image_url": part.url}
        return {"type": "input_image", "detail": "auto", **where}
    if part.file_id:
        return {"type": "input_file", "file_id": part.file_id}
    if (part.url or "").startswith(_DATA):
        return {"type": "input_file", "filename": part.name, "file_data": part.url}
    return {"type": "input_file", "file_url": part.url}
