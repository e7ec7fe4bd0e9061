"""Putting a summary in the place of the older part of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from reenact.domain.loop.events import CompressionComplete
from reenact.domain.loop.instructions import CompressContext
from reenact.domain.loop.values import Frozen, Growing, is_mapping

Part: TypeAlias = tuple[int, int]
"""The place of the first message of a part, and that of the first behind it."""


def part_to_replace(messages: Sequence[Frozen], keep: int) -> Part:
    """Return which messages a summary replaces: all but system messages at the start, and the last `keep`.

    The results of tools stay with the answer that called for them: what is kept does not begin with one.
    """
    first = 0
    while first < len(messages) and messages[first].get("role") in ("system", "developer"):
        first += 1
    end = max(first, len(messages) - keep)
    while first < end < len(messages) and messages[end].get("role") == "tool":
        end -= 1
    return first, end


def request_for_summary(messages: Sequence[Frozen], part: Part, instruction: CompressContext) -> dict[str, Any]:
    """Return the payload that asks a model for the summary: the instruction's own, with the messages."""
    own: dict[str, Any] = dict(instruction.payload) if is_mapping(instruction.payload) else {}
    asked = {"role": "user", "content": instruction.prompt}
    return {**own, "messages": [*messages[: part[1]], asked]}


def compressed(
    messages: Sequence[Frozen],
    part: Part,
    summary: str,
    **used: Any,  # noqa: ANN401 - fields differ in type
) -> CompressionComplete:
    """Return what has happened when the summary stands in the place of the part; nothing, if the part is empty."""
    first, end = part
    if first == end:
        return CompressionComplete(summary=None, kept=first, **used)
    told = Frozen(role="user", content=f"Summary of the conversation so far:\n{summary}")
    return CompressionComplete(summary=told, replaced=tuple(messages[first:end]), kept=first, **used)


def shortened(messages: Growing[Frozen], event: CompressionComplete) -> Growing[Frozen]:
    """Return the messages as they are once the event has happened."""
    if event.summary is None:
        return messages
    rest = messages[event.kept + len(event.replaced) :]
    return Growing([*messages[: event.kept], Frozen(event.summary), *rest])
