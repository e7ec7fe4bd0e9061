"""Requests to Chat Completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reenact.actors.environment.openai.chat_stream import THOUGHTS
from reenact.actors.environment.openai.content import (
    Part,
    arguments_in,
    joined,
    messages_for,
    question_parts,
    result_parts,
    text_at,
    text_in,
)
from reenact.actors.environment.wire.driver import Question
from reenact.actors.environment.wire.messages import ApiBlock


def chat_messages(question: Question, *, thoughts: bool) -> list[dict[str, object]]:
    """Return the `messages` of a request.

    Raises:
        Fault: something in the question cannot be sent.
    """
    told: list[dict[str, object]] = []
    if (question.system or "").strip():
        told.append({"role": "system", "content": question.system})
    messages = messages_for("chat", question.messages, thoughts=thoughts)
    for number, message in enumerate(messages, 1):
        if message["role"] == "assistant":
            told.append(_answer(message["content"]))
        else:
            told += _asked(message["content"], is_last=number == len(messages))
    return told


def chat_tool(tool: Mapping[str, object]) -> dict[str, object]:
    """Return the definition of a tool."""
    function = {"name": tool.get("name"), "description": text_at(tool, "description")}
    return {"type": "function", "function": {**function, "parameters": tool.get("input_schema")}}


def _answer(blocks: Sequence[ApiBlock]) -> dict[str, object]:
    """Return a message of the model; its thoughts go back in the field that they came in."""
    message: dict[str, object] = {"role": "assistant", "content": text_in(blocks) or None}
    for block in blocks:
        field = text_at(block, "signature")
        if field in THOUGHTS:
            message[field] = text_at(message, field) + text_at(block, "thinking")
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": arguments_in(block)},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return {**message, "tool_calls": calls} if calls else message


def _asked(blocks: Sequence[ApiBlock], *, is_last: bool) -> Iterator[dict[str, object]]:
    """Yield the results of tools, which are texts, and after them what the user says, and what tools have shown."""
    shown: list[Part] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            parts = result_parts("chat", block)
            pictures = [part for part in parts if part.kind != "text"]
            if pictures:
                shown += [Part("text", f"What {block['tool_use_id']} has returned:"), *pictures]
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": joined(parts)}
    parts = [*shown, *question_parts("chat", blocks, is_last=is_last)]
    if parts:
        texts = all(part.kind == "text" for part in parts)
        yield {"role": "user", "content": joined(parts) if texts else [_part(part) for part in parts]}


def _part(part: Part) -> dict[str, object]:
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": part.url}}
    file = {"file_id": part.file_id} if part.file_id else {"filename": part.name, "file_data": part.url}
    return {"type": "file", "file": file}
