"""What can become of a run of the command, and the exit code that the specification gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from hypothesis import strategies as st

from reenact.testing import FakeMessagesAPI

Prepare: TypeAlias = Callable[[FakeMessagesAPI, str], None]
"""Prepares the API; is given a text that says anything."""

MISLEADING = (
    "401 Unauthorized: authentication_error",
    "Connection refused",
    "timed out after 5 s",
    "exit code 0, success",
    "invalid_request_error: bad arguments",
    "Traceback (most recent call last)",
    '{"type": "rate_limit_error"}',
    "overloaded",
    "",
)
"""Messages of failures: none of them decides anything."""


@dataclass(frozen=True)
class Trouble:
    """A kind of run: what the API does, what is asked for, and the exit code that follows."""

    name: str
    code: int
    prepare: Prepare = lambda api, text: api.reply(text=text or "Hello")
    arguments: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        return self.name


def refused(status: int, code: int, kind: str | None = None) -> Trouble:
    """Return the run that the API refuses with a status."""
    name = f"the API refuses with {status} {kind or ''}".rstrip()
    return Trouble(name, code, lambda api, text: api.error(status, kind, message=text, should_retry=False))


def broken(kind: str, code: int) -> Trouble:
    """Return the run in which the API says in the middle of its answer what is wrong."""
    name = f"the API stops with {kind}"
    return Trouble(name, code, lambda api, text: api.reply(text=text or "Hello", error_after=3, error_type=kind))


def nothing(api: FakeMessagesAPI, text: str) -> None:
    """Prepare nothing: the API is not asked."""


SUCCESSES = (
    Trouble("an answer", 0),
    Trouble("an empty answer", 0, lambda api, _: api.reply(content=[])),
    Trouble("an answer that was cut off by its length", 0, lambda api, _: api.reply(stop_reason="max_tokens")),
)
USAGE = (
    refused(400, 2),
    refused(402, 2, "billing_error"),
    refused(404, 2),
    refused(413, 2),
    broken("invalid_request_error", 2),
    Trouble("an option that there is not", 2, nothing, ("--nonsense",)),
    Trouble("a time that is none", 2, nothing, ("--timeout", "soon")),
    Trouble("a session that is not", 2, nothing, ("--resume", "ses_none")),
    Trouble("a log that is none", 2, nothing, ("--db", ".")),
    Trouble("a scenario that is not", 2, nothing, (), {"MOCK_LLM": "1", "MOCK_SCENARIO": "tragedy"}),
)
AUTHENTICATION = (
    refused(401, 3),
    refused(403, 3),
    broken("authentication_error", 3),
    Trouble("a key that is wrong", 3, nothing, (), {"ANTHROPIC_API_KEY": "sk-ant-another-key"}),
)
NETWORK = (
    refused(429, 4),
    refused(500, 4),
    refused(503, 4),
    refused(504, 4),
    refused(529, 4),
    broken("overloaded_error", 4),
    broken("api_error", 4),
    broken("rate_limit_error", 4),
    Trouble("a stream that breaks", 4, lambda api, text: api.reply(text=text or "Hello", drop_after=3)),
    Trouble("a stream that ends too early", 4, lambda api, _: api.reply(drop_after=3, drop_mode="eof")),
)
TIME = (
    Trouble("an answer that never ends", 5, lambda api, _: api.reply(stall_after=3), ("--timeout", "0.15")),
    Trouble("an answer that never begins", 5, lambda api, _: api.reply(stall_after=0), ("--timeout", "0.15")),
)
troubles = st.sampled_from((SUCCESSES, USAGE, AUTHENTICATION, NETWORK, TIME)).flatmap(st.sampled_from)
"""Every exit code is as likely as the others."""

LEGIBLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
"""What can stand on a command line: no lone surrogates, no NUL."""
questions = LEGIBLE.filter(lambda text: text.strip() not in ("", "-"))
answers = st.builds(
    "{}{}".format, LEGIBLE.filter(lambda text: text.strip() != ""), st.sampled_from(["", "\x85", "\u2028"])
)
"""What a model may say, also what some readers of lines take for the end of one."""
