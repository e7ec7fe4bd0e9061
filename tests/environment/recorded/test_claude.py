"""What Claude said over the wire is said again without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import Image, LLMConfig, Policies, Policy, Runtime
from reenact.actors.environment.recorded.recording import RecordingFactory
from reenact.testing import FakeMessagesAPI, FakeReply, RecordedEnvironment
from tests.environment.recorded.conftest import Open
from tests.environment.recorded.stage import heard_of
from tests.runtime.witness import Ears

KEY = "sk-ant-fake-0123456789"
SEARCH: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "url": "https://x", "title": "X", "encrypted_content": "sealed"}],
    },
    {"type": "text", "text": "It will rain."},
]


def get_weather(city: str) -> str:
    """What the weather is like."""
    return f"It rains in {city}"


def send(to: str) -> str:
    """Send a report."""
    return f"sent to {to}"


IMAGE = Image(
    id="i",
    model="claude-fake-1",
    system_prompt="Be brief.",
    tools=(get_weather, send, {"type": "web_search_20250305", "name": "web_search"}),
    policies=Policies(tools={"send": Policy("required")}),
)


def converse(runtime: Runtime) -> list[tuple[str, Any]]:
    """Have a conversation with everything in it; return what was heard of it."""
    ears = Ears(runtime)
    runtime.containers.create(container_id="c")
    runtime.images.register(IMAGE)
    agent = runtime.sessions.run(runtime.sessions.create("c", "i", session_id="s").id)
    ears.wait("turn_completed", turn_id=runtime.agents.receive(agent, "What is the weather in Rome and Oslo?"))
    ears.wait("turn_completed", turn_id=runtime.agents.receive(agent, "Send that to Ann"))
    (pending,) = runtime.agents.pending(agent)
    ears.wait("turn_completed", turn_id=runtime.agents.approve(pending, by="bob"))
    for question in ("And tomorrow?", "Something forbidden", "Once more"):
        ears.wait("turn_completed", turn_id=runtime.agents.receive(agent, question))
    runtime.close()
    return heard_of(ears, "s")


@pytest.fixture
def conversation(path: Path, opened: Open) -> list[tuple[str, Any]]:
    """A conversation that was recorded, as it was heard."""
    with FakeMessagesAPI(api_key=KEY) as api:
        api.error(529, retry_after=0)
        weather = [("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Oslo"})]
        api.reply(thinking="Two cities", text="Let me see", tools=weather, stop_reason="tool_use")
        api.reply(text="It rains in both", usage={"input_tokens": 30, "output_tokens": 7})
        api.reply(text=None, tools=[("send", {"to": "Ann"})], stop_reason="tool_use")
        api.reply(text="Done")
        api.script([FakeReply(content=SEARCH)])
        api.reply(text="I cannot", stop_reason="refusal")
        api.reply(text="Half of", error_after=4)
        llm = LLMConfig(api_key=KEY, base_url=api.url, max_retries=1)
        return converse(opened(RecordedEnvironment.record(path, llm), path.with_name("first.db")))


def test_a_recorded_conversation_with_claude_is_heard_the_same_without_claude(
    path: Path, opened: Open, conversation: list[tuple[str, Any]]
) -> None:
    replay = RecordedEnvironment.replay(path)

    again = converse(opened(replay, path.with_name("second.db")))

    assert again == conversation
    assert replay.remaining == 0
    types = [type_ for type_, _ in again]
    assert types.count("tool_result") == 3
    assert [data["outcome"] for type_, data in again if type_ == "turn_completed"] == [
        "completed", "waiting", "completed", "completed", "completed", "failed"
    ]  # fmt: skip
    assert "signature" in str(again)
    assert "It will rain." in str(again)
    assert [data["type"] for type_, data in again if type_ == "error"] == ["overloaded_error"]


def test_neither_the_key_nor_where_claude_is_stands_in_the_file(
    path: Path, conversation: list[tuple[str, Any]]
) -> None:
    content = path.read_text()

    assert conversation
    assert "It rains in both" in content
    for secret in (KEY, "127.0.0.1", "x-api-key", "authorization"):
        assert secret not in content.lower()


def test_how_claude_is_reached_is_all_that_recording_needs(path: Path) -> None:
    recording = RecordedEnvironment.record(path, LLMConfig(api_key=KEY))

    assert isinstance(recording, RecordingFactory)
    recording.dispose()
    assert not path.exists()
