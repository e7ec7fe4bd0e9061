"""Compression of a conversation: which messages a summary may replace, and how the model is given the summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reenact.domain.messages import Said, TextBlock, ToolResultBlock

LEAST: Final = 2
"""So many messages have to be replaced, for a summary to be worth its price."""
_INTRODUCTION: Final = "This is a summary of the conversation so far, which had become too long to be kept whole:\n\n"


def introduced(summary: str) -> Said:
    """Return the summary as the model is given it, at the beginning of what is left of the conversation."""
    return Said("user", (TextBlock(_INTRODUCTION + summary),))


def cut_of(messages: Sequence[Said]) -> int:
    """Return how many messages, from the first on, a summary may replace; 0 if it would not be worth it.

    The question that is being answered stays as it is, unless the answer to it is what has become so long: then what is
    kept begins with the last answer, so that the results of calls follow the calls.
    """
    question = max(
        (
            at
            for at, said in enumerate(messages)
            if said.role == "user" and not any(isinstance(block, ToolResultBlock) for block in said.content)
        ),
        default=0,
    )
    answer = max((at for at, said in enumerate(messages) if said.role == "assistant"), default=0)
    cut = question if 2 * question >= len(messages) else answer
    return cut if cut >= LEAST else 0
