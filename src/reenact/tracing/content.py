"""Messages, calls and results in the JSON of the conventions, cut to sizes that collectors accept."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from reenact.domain.image import Definition
from reenact.domain.loop.calls import content_of
from reenact.domain.messages import Block, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.plain import is_sequence
from reenact.domain.tools import is_object

LONGEST = 20_000
"""Characters of one text; a longer one is cut in the middle."""
LARGEST = 200_000
"""Characters of one attribute; of longer messages, the first ones are left out."""


def message(role: str, blocks: Iterable[Block], finish_reason: str | None = None) -> str:
    """Return a message as JSON."""
    encoded: dict[str, object] = {"role": role, "parts": [_part(block) for block in blocks]}
    if finish_reason is not None:
        encoded["finish_reason"] = finish_reason
    text = _json(encoded)
    if len(text) > LARGEST:
        text = _json(encoded | {"parts": [{"type": "text", "content": _left_out(len(text))}]})
    return text


class Messages:
    """The messages of a turn as JSON; if they are too long together, the newest of them."""

    def __init__(self) -> None:
        self._messages: deque[str] = deque()
        self._size = 0

    def add(self, encoded: str) -> None:
        """Add a message, and drop the oldest ones if all are too long together."""
        self._messages.append(encoded)
        self._size += len(encoded)
        while self._size > LARGEST and len(self._messages) > 1:
            self._size -= len(self._messages.popleft())

    def text(self) -> str:
        """Return the messages as a JSON list."""
        return _listed(self._messages)


def one_message(role: str, blocks: Iterable[Block], finish_reason: str | None = None) -> str:
    """Return a JSON list with one message."""
    return _listed([message(role, blocks, finish_reason)])


def instructions_of(definition: Definition) -> str | None:
    """Return the system prompt, or None if there is none."""
    prompt = definition.system_prompt
    return None if not prompt else _json([{"type": "text", "content": _short(prompt)}])


def definitions_of(definition: Definition) -> str | None:
    """Return the tools in the image's definition, or None if there are none."""
    tools = [
        {
            "type": "function",
            "name": tool.name,
            "description": _short(tool.description),
            "parameters": tool.input_schema,
        }
        for tool in definition.tools
    ]
    api_tools = [{"type": str(tool.get("type")), "name": str(tool.get("name", ""))} for tool in definition.api_tools]
    return _bounded([*tools, *api_tools]) if tools or api_tools else None


def arguments_of(arguments: object) -> str:
    """Return a call's arguments as JSON."""
    return _bounded(_shortened(arguments))


def result_of(result: object) -> str:
    """Return a call's result, as the model gets it."""
    response = _response(content_of(result))
    return response if isinstance(response, str) else _bounded(response)


def _part(block: Block) -> dict[str, object]:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "content": _short(text)}
        case ThinkingBlock(thinking=thinking):
            return {"type": "reasoning", "content": _short(thinking)}
        case ToolUseBlock():
            return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": _shortened(block.input)}
        case ToolResultBlock(tool_use_id=call_id, content=content):
            return {"type": "tool_call_response", "id": call_id, "response": _response(content)}
        case _:  # the content of images and files is not sent
            return {"type": str(msgspec.to_builtins(block).get("type"))}


def _response(content: str | Iterable[object]) -> str | list[object]:
    return _short(content) if isinstance(content, str) else [_piece(one) for one in content]


def _piece(piece: object) -> object:
    """Return a block of a result; of an image or a file only its type."""
    if not is_object(piece):
        return _shortened(piece)
    return {name: _shortened(piece[name]) for name in ("type", "text") if name in piece}


def _shortened(value: object) -> object:
    if isinstance(value, str):
        return _short(value)
    if is_object(value):
        return {name: _shortened(one) for name, one in value.items()}
    if is_sequence(value):
        return [_shortened(one) for one in value]
    return value


def _short(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} … {_left_out(len(text) - 2 * half)} … {text[-half:]}"


def _left_out(count: int) -> str:
    return f"({count} characters left out)"


def _listed(encoded: Iterable[str]) -> str:
    return f"[{','.join(encoded)}]"


def _bounded(value: object) -> str:
    text = _json(value)
    return text if len(text) <= LARGEST else _left_out(len(text))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
