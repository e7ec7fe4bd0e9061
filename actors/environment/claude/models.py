"""What is known of Claude's models by their names.

Platforms put a prefix before the names, such as `anthropic.` or `us.anthropic.`; they are known all the same.
(platform.claude.com: "Models overview", "Context windows", "Errors".)
"""

from __future__ import annotations

import re

DEFAULT_MODEL = "claude-sonnet-5"
"""The model that answers when neither the image nor the configuration names one."""
CONTEXT_WINDOW = 200_000
"""The context window of a model that is not known to have another, in tokens."""
LARGE_CONTEXT_WINDOW = 1_000_000
LARGE = (
    "claude-fable-",
    "claude-mythos-",
    "claude-opus-5",
    "claude-opus-4-6",
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-sonnet-5",
    "claude-sonnet-4-6",
    "claude-haiku-5",
)
"""How the names of the models begin that have the large context window."""

_PREFILLED = re.compile(r"claude-(?:2|3|instant|(?:opus|sonnet|haiku)-(?:3|4-[0-5](?!\d)|4-20\d{6}))")
"""Up to 4.5; later ones refuse a conversation that ends with what they said."""
_BUDGETED = re.compile(r"claude-(?:3|mythos-preview|(?:opus|sonnet|haiku)-(?:3|4-[0-6](?!\d)|4-20\d{6}))")
"""Up to 4.6; later ones decide themselves how much they think."""

_SAMPLED = re.compile(r"claude-(?:2|3|instant|(?:opus|sonnet|haiku)-(?:3|4-[0-6](?!\d)|4-20\d{6}))")
"""Up to 4.6; later ones refuse `temperature`, `top_p` and `top_k`."""


_UNFORMATTED = re.compile(r"claude-(?:2|3|instant|(?:opus|sonnet|haiku)-(?:3|4-0|4-20\d{6}|4$|4@))")
"""Up to 4.0; later ones are held to a schema by the API."""


def context_window(model: str | None) -> int:
    """Return how many tokens of input and output together the model takes."""
    return LARGE_CONTEXT_WINDOW if (model or "")[_start(model) :].startswith(LARGE) else CONTEXT_WINDOW


def takes_prefill(model: str) -> bool:
    """Return whether the model goes on with an answer that stands last in the conversation."""
    return bool(_PREFILLED.match(model, _start(model)))


def takes_thinking_budget(model: str) -> bool:
    """Return whether how much the model thinks is said in tokens; one that is not of Claude's is told as it is."""
    start = _start(model)
    return not model.startswith("claude-", start) or bool(_BUDGETED.match(model, start))


def takes_sampling(model: str) -> bool:
    """Return whether the model takes `temperature`, `top_p` and `top_k`; one that is not of Claude's is sent them."""
    start = _start(model)
    return not model.startswith("claude-", start) or bool(_SAMPLED.match(model, start))


def takes_output_format(model: str) -> bool:
    """Return whether the API has the model's answer fit a schema; of one that is not of Claude's, nobody knows."""
    start = _start(model)
    return model.startswith("claude-", start) and not _UNFORMATTED.match(model, start)


def _start(model: str | None) -> int:
    return max(0, (model or "").find("claude-"))
