"""A conversation as the Messages API accepts it.

What was said is recorded as it was said, also by answers that were cut short. The API is stricter: every call of a
tool is answered by the next message, thoughts are signed and never last, no text is blank, users and the model take
turns. What must be left out or supplied for that depends only on what stands before it and on the message right
after it, so that a conversation that grows is sent as the same beginning each time: caches and signatures rely on it.
(platform.claude.com: "Handle tool calls", "Preserved thinking", "Stop reasons and fallback", "Errors".)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, Final

import msgspec

from reenact.actors.environment.claude.repairs import THOUGHTS, Turn, is_open, repaired_turns
from reenact.actors.environment.claude.stream import Json
from reenact.domain.messages import (
    Block,
    OpaqueBlock,
    Role,
    Said,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

GO_ON: Final = "Continue."
"""What the user is made to say when the model spoke last and cannot go on with its own words."""
FAILED: Final = "The tool failed and said nothing more."
"""The content of a failure that has none; the API wants some."""

_NOT_ACCEPTED_BACK = "file_id"  # the API adds it to citations, and refuses it in them
_OF_THE_USER = frozenset({"tool_result", "image", "document", "search_result"})
_OF_THE_MODEL = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "compaction", "fallback", *THOUGHTS})
_BESIDE_THE_MESSAGE = "container"


def api_messages(
    conversation: Sequence[Said], *, prefill: bool = False, resumable: bool = True, thoughts: bool = True
) -> list[Json]:
    """Return the `messages` of a request: what was said, without what would make the API refuse all of it.

    With `prefill` an answer that stands last is left there for the model to go on with. Where code that calls tools
    is not `resumable`, since its container is gone, it is left out with its calls. Without `thoughts` there are none.
    """
    turns = repaired_turns((_turn(said, thoughts=thoughts) for said in _not_refused(conversation)), resumable=resumable)
    messages: list[Json] = [{"role": role, "content": blocks} for role, blocks in turns]
    if messages and messages[-1]["role"] == "assistant" and not is_open(messages[-1]["content"]):
        _end(messages, prefill=prefill)
    return messages


def api_blocks(blocks: Iterable[Block]) -> list[Json]:
    """Return the blocks as the API has them, without what it would refuse anywhere."""
    return [block for block in map(_api_block, blocks) if not _is_void(block)]


def container_of(conversation: Sequence[Said]) -> Json | None:
    """Return what the API said last of the container in which it runs code: its `id`, and when it `expires_at`."""
    for said in reversed(conversation):
        for block in reversed(said.content):
            if isinstance(block, OpaqueBlock) and block.data.get("type") == _BESIDE_THE_MESSAGE:
                return block.data
    return None


def _not_refused(conversation: Sequence[Said]) -> Iterable[Said]:
    """Leave out each turn that the API refused, from its question on: it would be refused for ever."""
    if not any(said.refused for said in conversation):
        return conversation
    kept: list[Said] = []
    for said in conversation:
        if said.refused:
            while kept and not _asks(kept.pop()):
                pass
        else:
            kept.append(said)
    return kept


def _asks(said: Said) -> bool:
    return said.role == "user" and not all(isinstance(block, ToolResultBlock) for block in said.content)


def _turn(said: Said, *, thoughts: bool) -> Turn:
    """Return what the message says that may be sent from its side."""
    blocks = api_blocks(said.content)
    kinds = (block.get("type") for block in blocks)
    may = [_may_say(said.role, kind) and (thoughts or kind not in THOUGHTS) for kind in kinds]
    return said.role, list(compress(blocks, may))


def _may_say(role: Role, kind: object) -> bool:
    if role == "user":
        return kind not in _OF_THE_MODEL and not (isinstance(kind, str) and kind.endswith("_tool_result"))
    return kind not in _OF_THE_USER


def _api_block(block: Block) -> Json:
    match block:
        case TextBlock(text=text, citations=None):
            return {"type": "text", "text": text}
        case TextBlock(text=text, citations=citations):
            return {"type": "text", "text": text, "citations": [_citation(citation) for citation in citations or ()]}
        case ThinkingBlock(thinking=thinking, signature=signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case ToolUseBlock(id=call_id, name=name, input=arguments, extra=extra):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments, **(extra or {})}
        case ToolResultBlock(tool_use_id=call_id, content=content, is_error=is_error):
            told = _result(content, is_error=is_error)
            return {"type": "tool_result", "tool_use_id": call_id, "content": told, "is_error": is_error}
        case OpaqueBlock(data=data):
            return data
        case _:
            plain: Json = msgspec.to_builtins(block)
            return plain


def _result(content: str | tuple[Json, ...], *, is_error: bool) -> str | list[Json]:
    """Return a result's content; a failure consists of text, and there is some."""
    if isinstance(content, str):
        return FAILED if is_error and not content.strip() else content
    blocks = [block for block in content if not _is_void(block) and not (is_error and block.get("type") != "text")]
    return blocks or (FAILED if is_error else "")


def _citation(citation: Json) -> Json:
    return {name: value for name, value in citation.items() if name != _NOT_ACCEPTED_BACK}


def _is_void(block: Json) -> bool:
    """Return whether the block is refused wherever it stands: it says nothing, has no signature, or is none at all."""
    match block.get("type"):
        case "text":
            return not _text(block, "text").strip()
        case "thinking":
            return not _text(block, "signature")
        case "compaction":
            return block.get("content") == ""
        case kind:
            return kind is None or kind == _BESIDE_THE_MESSAGE


def _text(block: Json, field: str) -> str:
    value: Any = block.get(field)
    return value if isinstance(value, str) else ""


def _end(messages: list[Json], *, prefill: bool) -> None:
    """Let the user have the last word, or cut the white space from the answer that the model shall go on with."""
    if not prefill:
        messages.append({"role": "user", "content": [{"type": "text", "text": GO_ON}]})
        return
    *before, last = messages[-1]["content"]
    if last.get("type") == "text":
        messages[-1]["content"] = [*before, {**last, "text": last["text"].rstrip()}]
