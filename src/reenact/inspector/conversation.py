"""The conversation in a window: messages and answers with their calls, each at its place in the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from reenact.domain.messages import Block, TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.session.agent import AnswerRecorded, ContextCompressed, MessageAccepted
from reenact.inspector.relations import Call, Relations
from reenact.inspector.timeline import idle_before
from reenact.inspector.values import Value, summary_of, value_of
from reenact.inspector.windows import Window
from reenact.projections.explain.history import event_of
from reenact.projections.log import Row

PARTS = 40
"""The most parts of a message or an answer that are shown."""

PartKind: TypeAlias = Literal["text", "thought", "call", "other"]


class Part(msgspec.Struct, frozen=True):
    """A part of a message: a value, and for a tool call the call."""

    kind: PartKind
    value: Value
    call: Call | None = None
    name: str = ""
    summary: str = ""
    """For a call, its arguments in one line."""


class Speech(msgspec.Struct, frozen=True, kw_only=True):
    """A message or an answer; `gap` is the idle time before it, in seconds, if that was long."""

    row: Row
    who: str
    is_model: bool
    parts: list[Part]
    gap: float | None = None
    note: str = ""
    """A note, such as why it is not complete."""
    more: int = 0
    """The number of parts that are not shown."""


def conversation_of(relations: Relations, window: Window) -> list[Speech]:
    """Return the conversation in the window, in the order of the log."""
    speeches: list[Speech] = []
    for place in window.shown:
        speech = _speech(relations, place, idle_before(relations, window, place) if speeches else None)
        if speech is not None:
            speeches.append(speech)
    return speeches


def _speech(relations: Relations, place: int, gap: float | None) -> Speech | None:
    row = relations.rows[place]
    match event_of(row):
        case MessageAccepted(content=content):
            return Speech(
                row=row, who="user", is_model=False, parts=list(_parts(row, content, ())), gap=gap, more=_more(content)
            )
        case AnswerRecorded(content=content, model=model, partial=partial, stop_reason=reason):
            note = f"in part: {reason}" if partial else "" if reason in ("end_turn", "tool_use") else reason
            return Speech(
                row=row,
                who=model or "model",
                is_model=True,
                parts=list(_parts(row, content, relations.calls[place])),
                gap=gap,
                note=note,
                more=_more(content),
            )
        case ContextCompressed(summary=summary, model=model, replaced=replaced):
            parts = [Part("text", value_of(row.position, "summary", summary))]
            note = f"in place of the first {replaced} messages, for the model"
            return Speech(row=row, who=model or "model", is_model=True, parts=parts, gap=gap, note=note)
        case _:
            return None


def _more(content: tuple[Block, ...]) -> int:
    return max(0, len(content) - PARTS)


def _parts(row: Row, content: tuple[Block, ...], calls: tuple[Call, ...]) -> Iterator[Part]:
    known = {call.id: call for call in calls}
    for place, block in enumerate(content[:PARTS]):
        path = f"content.{place}"
        match block:
            case TextBlock():
                yield Part("text", value_of(row.position, f"{path}.text", block.text))
            case ThinkingBlock():
                yield Part("thought", value_of(row.position, f"{path}.thinking", block.thinking))
            case ToolUseBlock():
                value = value_of(row.position, f"{path}.input", block.input)
                yield Part("call", value, known.get(block.id), block.name, summary_of(block.input))
            case _:
                value = value_of(row.position, path, msgspec.to_builtins(block))
                yield Part("other", value, name=str(block.__struct_config__.tag))
