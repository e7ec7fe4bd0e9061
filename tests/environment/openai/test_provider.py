"""Models behind OpenAI's APIs, over HTTP: what arrives, what fails and is sent again, what stays secret."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from reenact import Image, LLMConfig, OpenAIProvider, Runtime
from reenact.actors.environment.api import LLMDriver, LLMProvider
from reenact.domain.messages import Said, StopDetails, TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.stream.answer import Complete
from reenact.domain.stream.events import MessageDelta, MessageStart, TextDelta
from reenact.testing import FakeChatAPI, FakeChatReply, FakeError
from tests.environment.support import HELLO, answering
from tests.environment.talking import KEY, Dialect, OpenAIConversation, complete, failure, said

USAGE = {"input_tokens": 10, "output_tokens": 5}


def test_an_answer_is_reported_as_it_streams(api: FakeChatAPI, dialect: Dialect) -> None:
    api.reply(deltas=["Hel", "lo"])

    assert OpenAIConversation(api, dialect).ask() == [
        MessageStart(model="m"),
        TextDelta(text="Hel"),
        TextDelta(text="lo"),
        MessageDelta(usage=USAGE),
        Complete(stop_reason="end_turn", content=(TextBlock("Hello"),)),
    ]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("chunk_size", [None, 1])
def test_thoughts_text_and_calls_come_whole_however_they_are_sent(
    api: FakeChatAPI, dialect: Dialect, chunk_size: int | None, *, whole: bool
) -> None:
    calls: list[tuple[str, dict[str, object]]] = [("bash", {"command": "ls ü"}), ("look", {})]
    api.reply(
        thinking="Let me see …",
        text="Grüße 😀",
        tools=calls,
        chunk_size=chunk_size,
        line_end="\r\n",
        ping_every=2,
        whole=whole,
    )

    end = complete(OpenAIConversation(api, dialect, effort="low").ask())

    thought, *rest = end.content
    assert isinstance(thought, ThinkingBlock)
    assert thought.thinking == "Let me see …"
    assert (thought.signature or "").startswith(f"openai:{dialect}:")
    assert rest == [
        TextBlock("Grüße 😀"),
        ToolUseBlock("call_fake_1", "bash", {"command": "ls ü"}),
        ToolUseBlock("call_fake_2", "look", {}),
    ]
    assert end.stop_reason == "tool_use"


PECULIAR = [
    FakeChatReply(call_ids=[None, None]),
    FakeChatReply(call_ids=["same", "same"]),
    FakeChatReply(indexes=[0, 0], calls_in="whole"),
    FakeChatReply(indexes=[None, None], calls_in="whole", call_ids=[None, None]),
    FakeChatReply(calls_in="together", arguments="object"),
    FakeChatReply(calls_in="interleaved"),
    FakeChatReply(calls_in="interleaved", repeat_call_heads=True),
    FakeChatReply(null_content=True, finish_reason="stop"),
    FakeChatReply(usage=None, done=False),
    FakeChatReply(usage_in="each"),
    FakeChatReply(usage_in="last", done=False),
]


@pytest.mark.parametrize("peculiar", PECULIAR, ids=range(len(PECULIAR)))
def test_what_servers_do_otherwise_comes_to_the_same(
    peculiar: FakeChatReply, api: FakeChatAPI, dialect: Dialect
) -> None:
    api.script([replace(peculiar, text="So", tools=[("f", {"n": 1}), ("f", {"n": 2})])])

    heard = OpenAIConversation(api, dialect).ask()

    end = complete(heard)
    text, *rest = end.content
    calls = [one for one in rest if isinstance(one, ToolUseBlock)]
    assert (text, end.stop_reason) == (TextBlock("So"), "tool_use")
    assert [(one.name, one.input) for one in calls] == [("f", {"n": 1}), ("f", {"n": 2})]
    assert len({one.id for one in calls}) == 2
    used = [event.usage for event in heard if isinstance(event, MessageDelta)]
    assert used[-1:] == ([] if peculiar.usage is None else [USAGE])


def test_a_question_that_a_filter_refuses_is_answered_by_a_refusal(api: FakeChatAPI, dialect: Dialect) -> None:
    api.script([FakeError(400, code="content_filter", message="The prompt was filtered.")])

    end = complete(OpenAIConversation(api, dialect).ask())

    assert end.stop_reason == "refusal"
    assert end.stop_details == StopDetails(category="content_filter", explanation="The prompt was filtered.")
    assert len(api.requests) == 1


@pytest.mark.parametrize("bare", [False, True])
def test_a_refusal_keeps_its_words(api: FakeChatAPI, *, bare: bool) -> None:
    api.error(400, message="no such thing", bare=bare)

    assert failure(OpenAIConversation(api).ask()).message == "no such thing"


@pytest.mark.parametrize("dialect", ["chat"])
def test_what_an_answer_that_fails_has_used_is_told(api: FakeChatAPI, dialect: Literal["chat"]) -> None:
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "So"}}]},
        {"error": {"message": "no"}, "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)

    with answering("200 OK\r\ncontent-type: text/event-stream", body) as url:
        heard = OpenAIConversation(api, dialect, base_url=url).ask()

    assert heard[-2] == MessageDelta(usage={"input_tokens": 3, "output_tokens": 2})
    assert failure(heard).message == "no"


def test_what_an_answer_that_was_filtered_has_used_is_told(api: FakeChatAPI) -> None:
    error = {"code": "content_filter", "message": "The answer was filtered."}
    used = {"input_tokens": 3, "output_tokens": 2}
    event = {"type": "response.failed", "response": {"status": "failed", "error": error, "usage": used}}

    with answering("200 OK\r\ncontent-type: text/event-stream", f"data: {json.dumps(event)}\n\n") as url:
        heard = OpenAIConversation(api, "responses", base_url=url).ask()

    assert complete(heard).stop_reason == "refusal"
    assert [event.usage for event in heard if isinstance(event, MessageDelta)] == [used]


@pytest.mark.parametrize("mode", ["rst", "fin", "eof"])
def test_an_answer_is_complete_once_it_is_known_why_it_has_ended(
    mode: Literal["rst", "fin", "eof"], api: FakeChatAPI
) -> None:
    api.reply(deltas=["Hello"], drop_after=3, drop_mode=mode)

    heard = OpenAIConversation(api).ask()

    assert heard[-1] == Complete(stop_reason="end_turn", content=(TextBlock("Hello"),))
    assert not [event for event in heard if isinstance(event, MessageDelta)]


def test_who_is_silent_about_what_was_used_is_not_waited_for(api: FakeChatAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.actors.environment.wire.driver._LINGER_SECONDS", 0.05)
    api.reply(deltas=["Hello"], stall_after=3)

    assert complete(OpenAIConversation(api).ask()).content == (TextBlock("Hello"),)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [({"finish_reason": "length"}, "max_tokens"), ({"finish_reason": "content_filter"}, "refusal"), ({}, "end_turn")],
)
def test_a_stop_reason_ends_the_message(reply: dict[str, Any], reason: str, api: FakeChatAPI, dialect: Dialect) -> None:
    api.reply("so far", **reply)

    end = complete(OpenAIConversation(api, dialect).ask())

    assert (end.stop_reason, end.content) == (reason, (TextBlock("so far"),))


def test_a_page_for_browsers_is_no_answer(api: FakeChatAPI) -> None:
    api.script([FakeError(200, content_type="text/html")])

    heard = OpenAIConversation(api, max_retries=0).ask()

    assert "sends a page for a browser" in failure(heard).message


@pytest.mark.parametrize(
    ("head", "body", "told"),
    [
        ("502 Bad Gateway\r\ncontent-type: text/html", "<html>Bad Gateway</html>", "answered with status 502"),
        ("503 Busy\r\ncontent-type: text/plain", "later\n", "later"),
        ("500 Oh\r\ncontent-type: application/json", '{"detail": [{"msg": "no"}]}', '[{"msg":"no"}]'),
        ("500 Oh\r\ncontent-type: application/json", '{"errors": ["no", {"message": "never"}]}', "no; never"),
        ("500 Oh\r\ncontent-type: application/json", '[{"error": {"code": 500, "message": "no"}}]', "no"),
        ("500 Oh\r\ncontent-type: application/json", "[" * 5000, "[" * 2000),
        ("500 Oh\r\ncontent-type: application/json", "[1]", "answered with status 500"),
        ("200 OK\r\ncontent-type: application/json", '[{"error": {"code": 500, "message": "no"}}]', "no"),
        ("200 OK\r\ncontent-type: application/json", '{"choices": ' + "[" * 100_000, "it is nested too deeply"),
        ("200 OK\r\ncontent-type: text/event-stream", "data: " + "[" * 100_000 + "\n\n", "it is nested too deeply"),
    ],
)
def test_a_refusal_without_the_words_of_the_api_says_what_there_is(
    head: str, body: str, told: str, api: FakeChatAPI
) -> None:
    with answering(head, body) as url:
        heard = OpenAIConversation(api, base_url=url, max_retries=0).ask()

    assert failure(heard).message.endswith(told)
    assert failure(heard).type == "api_error"


@pytest.mark.parametrize("answer", [{"detail": [1]}, "text", {"object": "list"}])
def test_an_answer_that_is_none_is_an_error(
    answer: object, api: FakeChatAPI, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(*_: object) -> object:
        return answer

    monkeypatch.setattr(FakeChatAPI, "_reply_to", other)

    heard = OpenAIConversation(api, dialect, max_retries=0).ask()

    assert failure(heard).type in {"api_error", "incomplete_stream"}


THOUGHTFUL: dict[str, tuple[Said, ...]] = {
    dialect: (
        *HELLO,
        Said("assistant", (ThinkingBlock("hm", f"openai:{origin}"), TextBlock("Hi"))),
        Said("user", (TextBlock("And?"),)),
    )
    for dialect, origin in (("chat", "chat:reasoning_content"), ("responses", "responses:rs_1:xyz"))
}


def test_thoughts_that_the_server_does_not_accept_are_left_out(api: FakeChatAPI, dialect: Dialect) -> None:
    api.error(400, message="Unsupported field 'reasoning_content', or the encrypted content could not be verified.")
    api.reply("So")

    heard = OpenAIConversation(api, dialect).ask(THOUGHTFUL[dialect])

    assert said(heard) == "So"
    assert ["hm" in repr(request.body) for request in api.requests] == [True, False]


def test_another_refusal_is_not_one_of_thoughts(api: FakeChatAPI) -> None:
    api.error(400, message="no")

    assert failure(OpenAIConversation(api).ask(THOUGHTFUL["chat"])).message == "no"
    assert len(api.requests) == 1


def test_what_the_process_has_in_its_environment_is_not_sent(api: FakeChatAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", "other")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")

    with FakeChatAPI(api_key=KEY) as picky:
        complete(OpenAIConversation(picky).ask())
    complete(OpenAIConversation(picky := api).ask())

    (request,) = picky.requests
    assert "other" not in request.headers.values()
    assert not [name for name in request.headers if name.startswith(("x-stainless", "openai-"))]


def test_a_server_of_ones_own_needs_no_key_and_is_sent_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    keys: list[str | None] = []

    def reply(self: FakeChatAPI, request: object, headers: dict[str, str]) -> object:
        keys.append(headers.get("authorization"))
        return FakeChatReply().completion("m")

    monkeypatch.setattr(FakeChatAPI, "_reply_to", reply)

    with FakeChatAPI() as api:
        complete(OpenAIConversation(api, api_key=None).ask())

    assert keys == [None]


def test_an_address_without_a_path_is_given_that_of_the_api(api: FakeChatAPI) -> None:
    complete(OpenAIConversation(api, base_url=api.url.removesuffix("/v1")).ask())

    assert api.requests[0].path == "/v1/chat/completions"


def test_tools_of_the_messages_api_are_not_sent_and_that_is_logged_once(
    api: FakeChatAPI, caplog: pytest.LogCaptureFixture
) -> None:
    talk = OpenAIConversation(api)

    for _ in range(2):
        talk.ask(tools=[{"type": "web_search_20250305", "name": "web_search"}])

    assert ["tools" in request.body for request in api.requests] == [False, False]
    (warning,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warning == "not sent, because they are tools of the Messages API: web_search"


def test_an_agent_calls_tools_side_by_side_and_reads_what_they_return(api: FakeChatAPI, dialect: Dialect) -> None:
    def forecast(city: str) -> str:
        """Forecast the weather."""
        return f"rain in {city}"

    api.reply(text=None, thinking="hm", tools=[("forecast", {"city": "Oslo"}), ("forecast", "{oops")])
    api.reply("It will rain.")
    provider = OpenAIProvider(api.url, KEY, "m", api=dialect)

    with Runtime.in_memory(llm_provider=provider) as runtime:
        answer = runtime.ask("Well?", image=Image(id="i", tools=(forecast,), max_tokens=7))

    assert (answer.text, answer.outcome) == ("It will rain.", "completed")
    assert answer.usage == {"input_tokens": 20, "output_tokens": 10}
    told = repr(api.requests[1].body)
    assert "rain in Oslo" in told
    assert "forecast was not run: its arguments cannot be read as a JSON object" in told


def test_a_conversation_that_fills_the_model_is_summarised(api: FakeChatAPI) -> None:
    full = {"prompt_tokens": 900, "completion_tokens": 50}
    provider = OpenAIProvider(api.url, KEY, "m", context_window=1000, max_tokens=70)

    with Runtime.in_memory(llm_provider=provider) as runtime:
        session_id = None
        for _ in range(3):
            api.reply("so", usage=full)
            session_id = runtime.ask("More?", session=session_id).session_id
        api.reply("A summary.", usage={"prompt_tokens": 5, "completion_tokens": 5})
        api.reply("so")
        runtime.ask("More?", session=session_id)

    assert "A summary." in repr(api.requests[-1].body)
    assert {request.body["max_tokens"] for request in api.requests} == {70}


def test_the_runtime_s_own_configuration_goes_before_the_provider_s(api: FakeChatAPI) -> None:
    provider = OpenAIProvider(api.url, KEY, "m")

    with Runtime.in_memory(llm_provider=provider, llm=LLMConfig(model="n", max_tokens=50)) as runtime:
        runtime.ask("Hello")

    assert [(one.body["model"], one.body["max_tokens"]) for one in api.requests] == [("n", 50)]


def test_the_provider_and_its_drivers_are_what_the_protocols_ask_for() -> None:
    provider = OpenAIProvider("http://localhost:1")

    driver = asyncio.run(provider.provide())

    assert provider.name == "openai"
    assert isinstance(provider, LLMProvider)
    assert isinstance(driver, LLMDriver)
