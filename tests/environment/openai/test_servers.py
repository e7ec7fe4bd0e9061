"""Whole streams, written by hand as each server's documentation and issues show them; none was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact.actors.environment.openai.chat import ChatReader
from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.actors.environment.wire.stream import SseDecoder
from reenact.domain.messages import TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.stream.events import MessageDelta, StreamData
from tests.environment.openai.streams import Heard

STREAMS = Path(__file__).with_name("servers")
SERVERS: dict[str, tuple[str | None, bool]] = {
    "openai": (None, True),
    "ollama": ("reasoning", True),
    "llama-server": ("reasoning_content", True),
    "vllm": ("reasoning_content", True),
    "lm-studio": ("reasoning_content", False),
    "openrouter": ("reasoning", True),
    "litellm": (None, True),
}
"""By server, the field of its thoughts, and whether it says what was used."""


def heard(stream: str) -> Heard:
    events: list[StreamData] = []

    def hear(event: Any) -> None:  # noqa: ANN401 - what a driver reports
        events.append(event)

    reader, decoder = ChatReader(MessageDecoder(hear), ()), SseDecoder()
    for name, data in decoder.feed(stream.lstrip("\n").encode()):
        reader.take(name, data)
    assert reader.is_complete
    return Heard(events)


@pytest.mark.parametrize("server", SERVERS)
def test_two_calls_are_read_from_the_stream_of_each_server(server: str) -> None:
    field, counts = SERVERS[server]

    answer = heard((STREAMS / f"{server}.txt").read_text())

    assert answer.calls == [("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})]
    assert len(set(answer.ids)) == 2
    assert answer.end.stop_reason == "tool_use"
    thoughts = [block for block in answer.content if not isinstance(block, ToolUseBlock)]
    assert thoughts == ([ThinkingBlock("Two cities.", f"openai:chat:{field}")] if field else [])
    used = [event.usage for event in answer.events if isinstance(event, MessageDelta)]
    assert used == ([{"input_tokens": 60, "output_tokens": 30}] if counts else [])


def test_a_text_is_read_where_servers_send_white_space_and_nulls_around_it() -> None:
    stream = """
data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":null,"reasoning_content":null}}]}

data: {"choices":[{"index":0,"delta":{"content":"\\n\\nHi","tool_calls":[]},"finish_reason":""}],"usage":null}

data: {"choices":[{"index":0,"delta":null,"finish_reason":"stop"}]}

data: [DONE]

"""

    assert heard(stream).content == (TextBlock("\n\nHi"),)
