"""A conversation as the Messages API accepts it.

What was said is recorded as it was said, also by answers that were cut short. The API is stricter: every call of a
tool is answered by the next message, thoughts are signed, no text is blank, users and the model take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TypeAlias

from reenact.actors.environment.wire import Json
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

_Turn: TypeAlias = tuple[Role, list[Block]]
_NOT_ACCEPTED_BACK = "file_id"  # the API adds it to citations, and refuses it in them


def api_messages(conversation: Sequence[Said]) -> list[Json]:
    """Return the `messages` of a request: what was said, without what would make the API refuse all of it."""
    turns = _merged((said.role, [block for block in said.content if _is_sendable(block)]) for said in conversation)
    while (valid := _merged(_with_paired_calls(_from_first_question(turns)))) != turns:
        turns = valid  # what was left out may have been what something else needed
    messages: list[Json] = [{"role": role, "content": api_blocks(blocks)} for role, blocks in turns]
    if messages and messages[-1]["role"] == "assistant":
        _trim(messages)
    return messages


def api_blocks(blocks: Iterable[Block]) -> list[Json]:
    """Return the blocks as the API has them."""
    return [_api_block(block) for block in blocks]


def _api_block(block: Block) -> Json:
    match block:
        case TextBlock(text=text, citations=None):
            return {"type": "text", "text": text}
        case TextBlock(text=text, citations=citations):
            return {"type": "text", "text": text, "citations": [_citation(citation) for citation in citations or ()]}
        case ThinkingBlock(thinking=thinking, signature=signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case ToolUseBlock(id=call_id, name=name, input=arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case ToolResultBlock(tool_use_id=call_id, content=content, is_error=is_error):
            return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
        case OpaqueBlock(data=data):
            return data


def _citation(citation: Json) -> Json:
    return {name: value for name, value in citation.items() if name != _NOT_ACCEPTED_BACK}


def _is_sendable(block: Block) -> bool:
    match block:
        case TextBlock(text=text):
            return bool(text.strip())
        case ThinkingBlock(signature=signature):
            return bool(signature)
        case _:
            return True


def _merged(turns: Iterable[_Turn]) -> list[_Turn]:
    """Join what one side said in several messages; leave out a message that says nothing."""
    spoken = (turn for turn in turns if turn[1])
    return [(role, [block for _, blocks in group for block in blocks]) for role, group in groupby(spoken, _speaker)]


def _speaker(turn: _Turn) -> Role:
    return turn[0]


def _from_first_question(turns: list[_Turn]) -> list[_Turn]:
    return turns[1:] if turns and turns[0][0] == "assistant" else turns


def _with_paired_calls(turns: list[_Turn]) -> Iterable[_Turn]:
    """Leave out calls that the next message does not answer, and answers to no call; answers come first."""
    asked: set[str] = set()
    for number, (role, blocks) in enumerate(turns):
        if role == "user":
            results = {block.tool_use_id: block for block in blocks if isinstance(block, ToolResultBlock)}
            others = (block for block in blocks if not isinstance(block, ToolResultBlock))
            yield role, [*(result for call_id, result in results.items() if call_id in asked), *others]
            asked = set()
        else:
            answered = _answered_by(turns[number + 1 : number + 2])
            kept: list[Block] = []
            for block in blocks:
                if not isinstance(block, ToolUseBlock):
                    kept.append(block)
                elif block.id in answered - asked:
                    asked.add(block.id)
                    kept.append(block)
            yield role, kept


def _answered_by(following: Sequence[_Turn]) -> set[str]:
    return {block.tool_use_id for _, blocks in following for block in blocks if isinstance(block, ToolResultBlock)}


def _trim(messages: list[Json]) -> None:
    """Cut the white space at the end of an answer that the model shall go on with; the API refuses it."""
    last = messages[-1]["content"][-1]
    if last["type"] == "text":
        last["text"] = last["text"].rstrip()
