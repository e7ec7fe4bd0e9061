"""A conversation that the API finds too long goes on in a shorter form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact import ClaudeProvider, Image, LLMConfig, Runtime
from reenact.domain.conversation import LEFT_OUT
from reenact.testing import FakeError, FakeMessagesAPI, FakeReply, RecordedEnvironment
from reenact.testing.fake_server import FakeRequest
from tests.runtime.conftest import Open

WINDOW = 50_000
"""How many characters the model takes."""


def answer(request: FakeRequest) -> FakeReply | FakeError:
    messages = request.body["messages"]
    length = len(json.dumps(messages))
    if length > WINDOW:
        return FakeError(400, "invalid_request_error", f"prompt is too long: {length} tokens > {WINDOW} maximum")
    last = messages[-1]["content"][-1]
    if last.get("text") == "Read.":
        return FakeReply(tools=[("read", {}), ("read", {})])
    return FakeReply(text="THE SUMMARY" if "<conversation>" in messages[0]["content"][0]["text"] else "Well.")


@pytest.fixture
def api() -> Iterator[FakeMessagesAPI]:
    with FakeMessagesAPI(default=answer) as api:
        yield api


def read() -> str:
    """Read everything."""
    return "x" * WINDOW


@pytest.fixture
def runtime(opened: Open, api: FakeMessagesAPI) -> Runtime:
    runtime = opened(llm_provider=ClaudeProvider(LLMConfig(api_key="any", base_url=api.url)), tools=[read])
    runtime.images.register(Image(id="reader", tools=(read,)))
    runtime.images.register(Image(id="whole", tools=(read,), compress_at=0))
    for image in ("reader", "whole"):
        runtime.sessions.create("default", image, session_id=image)
    return runtime


def test_a_question_with_which_it_is_too_long_is_answered_after_a_summary(runtime: Runtime) -> None:
    runtime.ask("x" * 30_000, session="reader")

    answered = runtime.ask("y" * 30_000, session="reader")

    assert (answered.text, answered.failure) == ("Well.", None)
    assert [
        event.data.summary for event in runtime.events.stream("reader").take() if event.type == "context_compressed"
    ] == ["THE SUMMARY"]
    assert runtime.ask("And now?", session="reader").text == "Well."


def test_a_conversation_that_is_too_long_to_be_summarised_is_summarised_without_its_middle(
    runtime: Runtime, api: FakeMessagesAPI
) -> None:
    runtime.ask("a" * 20_000, session="reader")
    runtime.ask("b" * 20_000, session="reader")
    for failing in "cd":
        api.error(400)
        runtime.ask(failing * 20_000, session="reader")

    answered = runtime.ask("And now?", session="reader")

    assert (answered.text, answered.failure) == ("Well.", None)
    summarised = [request.body["messages"][0]["content"][0]["text"] for request in api.requests[-3:-1]]
    assert [text.count("b" * 20_000) for text in summarised] == [1, 0]
    assert "characters left out" in summarised[1]


def test_the_longest_results_are_left_out_if_there_is_nothing_to_summarise(
    runtime: Runtime, api: FakeMessagesAPI
) -> None:
    answered = runtime.ask("Read.", session="reader")

    assert (answered.text, answered.failure) == ("Well.", None)
    results = api.requests[-1].body["messages"][-1]["content"]
    assert [result["content"] for result in results] == [LEFT_OUT, LEFT_OUT]
    assert [call.result for call in runtime.sessions.tool_calls("reader")] == [read(), read()]
    assert runtime.ask("And now?", session="reader").text == "Well."


@pytest.mark.parametrize("session", ["reader", "whole"])
def test_a_single_question_that_is_too_long_fails_as_the_api_says(runtime: Runtime, session: str) -> None:
    answered = runtime.ask("x" * WINDOW, session=session)

    assert answered.failure is not None
    assert answered.failure.type == "invalid_request_error"
    assert answered.failure.message.startswith("prompt is too long")


def test_a_question_that_was_too_long_is_summarised_when_the_next_one_is_asked(runtime: Runtime) -> None:
    assert runtime.ask("x" * WINDOW, session="reader").failure is not None

    answered = runtime.ask("What was that?", session="reader")

    assert (answered.text, answered.failure) == ("Well.", None)
    assert runtime.ask("And now?", session="reader").text == "Well."


def test_a_session_that_is_never_summarised_goes_on_in_a_branch_without_the_long_question(runtime: Runtime) -> None:
    assert runtime.ask("x" * WINDOW, session="whole").failure is not None

    branch = runtime.sessions.branch("whole", edit="Less.")

    assert runtime.ask("And now?", session=branch.id).text == "Well."


def test_a_conversation_that_is_never_to_be_summarised_fails_as_the_api_says(
    runtime: Runtime, api: FakeMessagesAPI
) -> None:
    answered = runtime.ask("Read.", session="whole")

    assert answered.failure is not None
    assert answered.failure.message.startswith("prompt is too long")
    assert len(api.requests) == 2


def test_a_recorded_failure_is_replayed_as_it_was(api: FakeMessagesAPI, tmp_path: Path) -> None:
    path = tmp_path / "recording.json"
    provider = ClaudeProvider(LLMConfig(api_key="any", base_url=api.url))

    with Runtime.in_memory(environment=RecordedEnvironment.record(path, provider)) as runtime:
        recorded = runtime.ask("Read.", image=Image(id="i", tools=(read,), compress_at=0))
    with Runtime.in_memory(environment=RecordedEnvironment.replay(path)) as runtime:
        replayed = runtime.ask("Read.", image=Image(id="i", tools=(read,)))

    assert replayed.failure == recorded.failure
    assert replayed.failure is not None
