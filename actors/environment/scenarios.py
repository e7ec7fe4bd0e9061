"""What the mock says: scripted events, and the predefined scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from reenact.domain.messages import Said


class MockEvent(msgspec.Struct, frozen=True):
    """One event of a script: its type, the milliseconds to wait before it, and its data."""

    type: str
    delay: float = 0
    data: Mapping[str, Any] | None = None


class MockScenario(msgspec.Struct, frozen=True):
    """A script: what the mock says to a message, whatever the message is."""

    name: str
    events: Sequence[MockEvent]


Script: TypeAlias = MockScenario | Iterable[MockEvent] | Callable[[Sequence[Said]], Iterable[MockEvent]]
"""A scenario, its events alone, or a function that makes them from the conversation."""


def _text(text: str, delay: float = 0) -> MockEvent:
    return MockEvent("text_delta", delay, {"text": text})


def _tool(arguments: Any, delay: float = 0) -> MockEvent:  # noqa: ANN401 - a mapping or, in one script, plain text
    return MockEvent("tool_call", delay, {"name": "bash", "input": arguments})


def _answer(name: str, *events: MockEvent) -> MockScenario:
    return MockScenario(name, (MockEvent("message_start", 10), *events, MockEvent("message_stop", 10)))


def _hundred_chunks(name: str) -> MockScenario:
    chunks = (_text(f"chunk-{number} ", 5) for number in range(100))
    return MockScenario(name, (*chunks, MockEvent("message_stop", 10)))


def _error(name: str, delay: float, **data: str) -> MockScenario:
    return MockScenario(name, (MockEvent("message_start", 10), MockEvent("error", delay, data)))


PREDEFINED_SCENARIOS: Final[Mapping[str, MockScenario]] = MappingProxyType(
    {
        "default": _answer("Simple text response", _text("Hello", 10), _text(" from", 10), _text(" mock!", 10)),
        "simple-text": _answer("simple-text", _text("Hi", 10)),
        "with-thinking": _answer(
            "Response with thinking",
            MockEvent("thinking_start", 5),
            _text("Let me analyze...", 10),
            MockEvent("thinking_end", 5),
            _text("Answer", 10),
        ),
        "with-tool": _answer(
            "Tool use scenario",
            _text("Let me check", 10),
            _tool({"command": "ls"}, 20),
            _text("I found files", 10),
        ),
        "with-tool-use": _answer(
            "with-tool-use",
            _tool("ls", 10),
            MockEvent("tool_result", 10, {"output": "file1.txt\nfile2.txt"}),
            _text("I see 2 files", 10),
        ),
        "error": _error("Error scenario", 20, message="Rate limit exceeded"),
        "rate-limit-error": _error("rate-limit-error", 10, code="rate_limit_exceeded"),
        "long-stream": _hundred_chunks("100 text deltas for reliability testing"),
        "long-response": _hundred_chunks("long-response"),
    }
)
"""The scenarios that every mock knows.

Documents that list no delays say that each event takes 10 ms. Where an `error` has only a `code`, that is its type.
"""
