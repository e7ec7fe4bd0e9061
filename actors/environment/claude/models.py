"""What Claude's models support, by their names.

Platforms put a prefix before the names, such as `anthropic.` or `us.anthropic.`; such names are recognised too.
(platform.claude.com: "Models overview", "Context windows", "Errors".)
"""

from __future__ import annotations

import re

DEFAULT_MODEL = "claude-sonnet-5"
"""The model that answers when neither the image nor the configuration names one."""
CONTEXT_WINDOW = 200_000
"""The context window, in tokens, of a model that is not listed with a larger one."""
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
"""The prefixes of the names of models that have the large context window."""

_PREFILLED = re.compile(r"claude-(?:2|3|instant|(?:opus|sonnet|haiku)-(?:3|4-[0-5](?!\d)|4-20\d{6}))")
"""Models up to 4.5; later ones refuse a conversation that ends with a message of the model."""
_BUDGETED = re.compile(r"claude-(?:3|mythos-preview|(?:opus|sonnet|haiku)-(?:3|4-[0-6](?!\d)|4-20\d{6}))")
"""Models up to 4.6; later ones decide themselves how much they think."""

_SAMPLED = re.compile(r"claude-(?:2|3|instant|(?:opus|sonnet|haiku)-(?:3|4-[0-6](?!\d)|4-20\d{6}))")
"""Models up to 4.6; later ones refuse `temperature`, `top_p` and `top_k`."""


_UNFORMATTED = re.compile(r"claude-(?:2|3|instant|(?:opus|sonnet|haiku)-(?:3|4-0|4-20\d{6}|4$|4@))")
"""Models up to 4.0; later ones can be held to a schema by the API."""


def context_window(model: str | None) -> int:
    """Return how many tokens of input and output together the model takes."""
    return LARGE_CONTEXT_WINDOW if (model or "")[_start(model) :].startswith(LARGE) else CONTEXT_WINDOW


def takes_prefill(model: str) -> bool:
    """Return whether the model continues an answer that is the last message of the conversation."""
    return bool(_PREFILLED.match(model, _start(model)))


def takes_thinking_budget(model: str) -> bool:
    """Return whether the model takes a thinking budget in tokens; a model that is not Claude is assumed to."""
    return _is_listed(model, _BUDGETED)


def takes_sampling(model: str) -> bool:
    """Return whether the model takes `temperature`, `top_p` and `top_k`; a model that is not Claude is assumed to."""
    return _is_listed(model, _SAMPLED)


def takes_output_format(model: str) -> bool:
    """Return whether the API can hold the model's answer to a schema; a model that is not Claude is assumed not to."""
    return not _is_listed(model, _UNFORMATTED)


def _is_listed(model: str, names: re.Pattern[str]) -> bool:
    """Return whether the model is one of these, or not Claude."""
    start = _start(model)
    return not model.startswith("claude-", start) or names.match(model, start) is not None


def _start(model: str | None) -> int:
    return max(0, (model or "").find("claude-"))
