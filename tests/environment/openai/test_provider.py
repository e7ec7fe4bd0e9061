"""Models behind OpenAI's APIs, over HTTP: what arrives, what fails and is sent again, what stays secret."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from reenact import Image, LLMConfig, OpenAIProvider, Runtime
from reenact.actors.environment.api import LLMDriver, LLMProvider
from reenact.actors.environment.openai.provider import OpenAIDriver
from reenact.actors.environment.wire.driver import RetryPolicy
from reenact.domain.messages import Said, StopDetails, TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.stream.answer import Complete
from reenact.domain.stream.events import MessageDelta, MessageStart, StreamData, StreamError, TextDelta
from reenact.testing import FakeChatAPI, FakeChatReply, FakeError
from tests.environment.support import HELLO, PATIENCE, answering, until

KEY = "sk-very-secret"
USAGE = {"input_tokens": 10, "output_tokens": 5}


@pytest.fixture
def api() -> Iterator[FakeChatAPI]:
    with FakeChatAPI() as api:
        yield api


@pytest.fixture(params=["chat", "responses"])
def dialect(request: pytest.FixtureRequest) -> Literal["chat", "responses"]:
    return "chat" if request.param == "chat" else "responses"


class Conversation:
    """Talks to the fake API with a driver that notes the waits instead of waiting."""

    def __init__(
        self,
        api: FakeChatAPI,
        dialect: Literal["chat", "responses"] = "chat",
        *,
        base_url: str | None = None,
        api_key: str | None = KEY,
        effort: str | None = None,
        timeout: float = 600.0,
        max_retries: int = 4,
    ) -> None:
        self.heard: list[StreamData] = []
        self.waits: list[float] = []
        self.provider = OpenAIProvider(
            api.url if base_url is None else base_url,
            api_key,
            "m",
            api=dialect,
            effort=effort,
            timeout=timeout,
            max_retries=max_retries,
        )
        patience = RetryPolicy(max_retries, self._wait, lambda: 0.0)
        self.driver = OpenAIDriver(self.provider, self.provider._client, patience)

    async def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)

    def hear(self, event: object) -> None:
        assert isinstance(event, StreamData)
        self.heard.append(event)

    def ask(self, messages: Sequence[Said] = HELLO, **request: Any) -> list[StreamData]:  # noqa: ANN401 - what `send_message` takes
        asyncio.run(self._ask(messages, request))
        return self.heard

    async def _ask(self, messages: Sequence[Said], request: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self.driver.send_message(messages=messages, on_event=self.hear, **request)
        finally:
            self.provider._client.dispose()
            await until(lambda: len(asyncio.all_tasks()) == 1)


def said(events: Sequence[StreamData]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def failure(events: Sequence[StreamData]) -> StreamError:
    failed = events[-1]
    assert isinstance(failed, StreamError)
    return failed


def complete(events: Sequence[StreamData]) -> Complete:
    end = events[-1]
    assert isinstance(end, Complete)
    return end


def test_an_answer_is_reported_as_it_streams(api: FakeChatAPI, dialect: Literal["chat", "responses"]) -> None:
    api.reply(deltas=["Hel", "lo"])

    assert Conversation(api, dialect).ask() == [
        MessageStart(model="m"),
        TextDelta(text="Hel"),
        TextDelta(text="lo"),
        MessageDelta(usage=USAGE),
        Complete(stop_reason="end_turn", content=(TextBlock("Hello"),)),
    ]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("chunk_size", [None, 1])
def test_thoughts_text_and_calls_come_whole_however_they_are_sent(
    api: FakeChatAPI, dialect: Literal["chat", "responses"], chunk_size: int | None, *, whole: bool
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

    end = complete(Conversation(api, dialect, effort="low").ask())

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
    peculiar: FakeChatReply, api: FakeChatAPI, dialect: Literal["chat", "responses"]
) -> None:
    api.script([replace(peculiar, text="So", tools=[("f", {"n": 1}), ("f", {"n": 2})])])

    heard = Conversation(api, dialect).ask()

    end = complete(heard)
    text, *rest = end.content
    calls = [one for one in rest if isinstance(one, ToolUseBlock)]
    assert (text, end.stop_reason) == (TextBlock("So"), "tool_use")
    assert [(one.name, one.input) for one in calls] == [("f", {"n": 1}), ("f", {"n": 2})]
    assert len({one.id for one in calls}) == 2
    used = [event.usage for event in heard if isinstance(event, MessageDelta)]
    assert used[-1:] == ([] if peculiar.usage is None else [USAGE])


@pytest.mark.parametrize(
    "fault",
    [
        FakeError(408),
        FakeError(409),
        FakeError(429),
        FakeError(500),
        FakeError(503, bare=True),
        FakeError(400, should_retry=True),
        FakeChatReply(drop_after=0),
        FakeChatReply(drop_after=1, drop_mode="fin"),
        FakeChatReply(drop_after=1, drop_mode="eof"),
        FakeChatReply(error_after=0, error_type="server_error"),
        FakeChatReply(error_after=1, error_type="rate_limit_exceeded"),
    ],
)
def test_a_request_is_sent_again_while_nothing_was_published(
    fault: FakeError | FakeChatReply, api: FakeChatAPI, dialect: Literal["chat", "responses"]
) -> None:
    api.script([fault, fault, FakeChatReply(text="at last")])

    heard = (talk := Conversation(api, dialect)).ask()

    assert heard[-1] == Complete(stop_reason="end_turn", content=(TextBlock("at last"),))
    assert talk.waits == [0.5, 1.0]


@pytest.mark.parametrize(
    ("fault", "error_type"),
    [
        (FakeChatReply(drop_after=6), "api_connection_error"),
        (FakeChatReply(drop_after=6, drop_mode="fin"), "api_connection_error"),
        (FakeChatReply(drop_after=6, drop_mode="eof"), "incomplete_stream"),
        (FakeChatReply(error_after=6), "api_error"),
        (FakeChatReply(error_after=6, fails=True), "api_error"),
    ],
)
def test_what_was_published_is_never_said_twice(
    fault: FakeChatReply, error_type: str, api: FakeChatAPI, dialect: Literal["chat", "responses"]
) -> None:
    api.script([replace(fault, deltas=["one ", "two ", "three ", "four ", "five ", "six "])])

    heard = (talk := Conversation(api, dialect)).ask()

    assert said(heard).startswith("one two ")
    assert (failure(heard).type, failure(heard).retryable) == (error_type, True)
    assert (talk.waits, len(api.requests)) == ([], 1)


@pytest.mark.parametrize(
    ("fault", "error_type"),
    [
        (FakeError(400), "invalid_request_error"),
        (FakeError(401), "authentication_error"),
        (FakeError(403), "permission_error"),
        (FakeError(404), "not_found_error"),
        (FakeError(422, bare=True), "invalid_request_error"),
        (FakeError(429, code="insufficient_quota"), "billing_error"),
        (FakeError(500, should_retry=False), "api_error"),
        (FakeChatReply(error_after=1, error_type="invalid_prompt"), "invalid_request_error"),
    ],
)
def test_a_refusal_that_will_not_change_is_not_asked_for_again(
    fault: FakeError | FakeChatReply, error_type: str, api: FakeChatAPI
) -> None:
    api.script([fault])

    heard = Conversation(api).ask()

    assert [event.event_type for event in heard] == ["error"]
    assert failure(heard).type == error_type
    assert len(api.requests) == 1


def test_a_question_that_a_filter_refuses_is_answered_by_a_refusal(
    api: FakeChatAPI, dialect: Literal["chat", "responses"]
) -> None:
    api.script([FakeError(400, code="content_filter", message="The prompt was filtered.")])

    end = complete(Conversation(api, dialect).ask())

    assert end.stop_reason == "refusal"
    assert end.stop_details == StopDetails(category="content_filter", explanation="The prompt was filtered.")
    assert len(api.requests) == 1


@pytest.mark.parametrize("bare", [False, True])
def test_a_refusal_keeps_its_words(api: FakeChatAPI, *, bare: bool) -> None:
    api.error(400, message="no such thing", bare=bare)

    assert failure(Conversation(api).ask()).message == "no such thing"


@pytest.mark.parametrize("dialect", ["chat"])
def test_what_an_answer_that_fails_has_used_is_told(api: FakeChatAPI, dialect: Literal["chat"]) -> None:
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "So"}}]},
        {"error": {"message": "no"}, "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)

    with answering("200 OK\r\ncontent-type: text/event-stream", body) as url:
        heard = Conversation(api, dialect, base_url=url).ask()

    assert heard[-2] == MessageDelta(usage={"input_tokens": 3, "output_tokens": 2})
    assert failure(heard).message == "no"


def test_attempts_come_to_an_end(api: FakeChatAPI) -> None:
    api.script([FakeError(500)] * 9)

    heard = (talk := Conversation(api, max_retries=3)).ask()

    assert (failure(heard).type, failure(heard).retryable) == ("api_error", True)
    assert (len(api.requests), talk.waits) == (4, [0.5, 1.0, 2.0])


def test_the_server_is_given_the_time_it_asks_for_but_not_for_ever(api: FakeChatAPI) -> None:
    api.error(429, retry_after=7)
    api.error(429, retry_after=86_400)

    (talk := Conversation(api)).ask()

    assert talk.waits == [7.0, 60.0]


def test_silence_is_a_timeout(api: FakeChatAPI) -> None:
    api.reply(deltas=["first words,", " then silence"], stall_after=2)

    heard = Conversation(api, timeout=0.3, max_retries=0).ask()

    assert (said(heard), failure(heard).type) == ("first words,", "timeout_error")


def test_nobody_at_the_other_end_is_a_connection_error(api: FakeChatAPI) -> None:
    api.close()

    heard = (talk := Conversation(api)).ask()

    assert (failure(heard).type, len(talk.waits)) == ("api_connection_error", 4)
    assert "cannot be reached" in failure(heard).message


@pytest.mark.parametrize("mode", ["rst", "fin", "eof"])
def test_an_answer_is_complete_once_it_is_known_why_it_has_ended(
    mode: Literal["rst", "fin", "eof"], api: FakeChatAPI
) -> None:
    api.reply(deltas=["Hello"], drop_after=3, drop_mode=mode)

    heard = Conversation(api).ask()

    assert heard[-1] == Complete(stop_reason="end_turn", content=(TextBlock("Hello"),))
    assert not [event for event in heard if isinstance(event, MessageDelta)]


def test_who_is_silent_about_what_was_used_is_not_waited_for(api: FakeChatAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.actors.environment.wire.client._LINGER_SECONDS", 0.05)
    api.reply(deltas=["Hello"], stall_after=3)

    assert complete(Conversation(api).ask()).content == (TextBlock("Hello"),)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [({"finish_reason": "length"}, "max_tokens"), ({"finish_reason": "content_filter"}, "refusal"), ({}, "end_turn")],
)
def test_a_stop_reason_ends_the_message(
    reply: dict[str, Any], reason: str, api: FakeChatAPI, dialect: Literal["chat", "responses"]
) -> None:
    api.reply("so far", **reply)

    end = complete(Conversation(api, dialect).ask())

    assert (end.stop_reason, end.content) == (reason, (TextBlock("so far"),))


def test_a_page_for_browsers_is_no_answer(api: FakeChatAPI) -> None:
    api.script([FakeError(200, content_type="text/html")])

    heard = Conversation(api, max_retries=0).ask()

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
        ("200 OK\r\ncontent-type: application/json", '{"choices": ' + "[" * 5000, "it is nested too deeply"),
        ("200 OK\r\ncontent-type: text/event-stream", "data: " + "[" * 5000 + "\n\n", "it is nested too deeply"),
    ],
)
def test_a_refusal_without_the_words_of_the_api_says_what_there_is(
    head: str, body: str, told: str, api: FakeChatAPI
) -> None:
    with answering(head, body) as url:
        heard = Conversation(api, base_url=url, max_retries=0).ask()

    assert failure(heard).message.endswith(told)
    assert failure(heard).type == "api_error"


def test_a_redirect_is_not_followed_for_it_would_take_the_key_along(api: FakeChatAPI) -> None:
    with answering(f"307 There\r\nlocation: {api.url}/chat/completions", "") as url:
        heard = Conversation(api, base_url=url).ask()

    assert "where the key is not sent" in failure(heard).message
    assert api.requests == []


@pytest.mark.parametrize("kind", ["text/event-stream", "text/plain", "application/json"])
def test_an_error_keeps_its_words_whatever_it_is_labelled_as(kind: str, api: FakeChatAPI) -> None:
    api.script([FakeError(200, message="come back later", content_type=kind)])

    heard = Conversation(api, max_retries=0).ask()

    assert failure(heard).message == "come back later"


@pytest.mark.parametrize("answer", [{"detail": [1]}, "text", {"object": "list"}])
def test_an_answer_that_is_none_is_an_error(
    answer: object, api: FakeChatAPI, dialect: Literal["chat", "responses"], monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(*_: object) -> object:
        return answer

    monkeypatch.setattr(FakeChatAPI, "_reply_to", other)

    heard = Conversation(api, dialect, max_retries=0).ask()

    assert failure(heard).type in {"api_error", "incomplete_stream"}


THOUGHTFUL: dict[str, tuple[Said, ...]] = {
    dialect: (
        *HELLO,
        Said("assistant", (ThinkingBlock("hm", f"openai:{origin}"), TextBlock("Hi"))),
        Said("user", (TextBlock("And?"),)),
    )
    for dialect, origin in (("chat", "chat:reasoning_content"), ("responses", "responses:rs_1:xyz"))
}


def test_thoughts_that_the_server_does_not_accept_are_left_out(
    api: FakeChatAPI, dialect: Literal["chat", "responses"]
) -> None:
    api.error(400, message="Unsupported field 'reasoning_content', or the encrypted content could not be verified.")
    api.reply("So")

    heard = Conversation(api, dialect).ask(THOUGHTFUL[dialect])

    assert said(heard) == "So"
    assert ["hm" in repr(request.body) for request in api.requests] == [True, False]


def test_another_refusal_is_not_one_of_thoughts(api: FakeChatAPI) -> None:
    api.error(400, message="no")

    assert failure(Conversation(api).ask(THOUGHTFUL["chat"])).message == "no"
    assert len(api.requests) == 1


def test_an_interrupt_closes_the_stream_at_once(api: FakeChatAPI) -> None:
    api.reply(deltas=["first words,", " then silence"], stall_after=2)
    talk = Conversation(api)

    async def interrupted() -> None:
        asking = asyncio.create_task(talk.driver.send_message(messages=HELLO, on_event=talk.hear))
        await until(lambda: said(talk.heard))

        talk.driver.interrupt()

        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await asyncio.to_thread(api.wait_for_hang_up)
        talk.provider._client.dispose()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(interrupted())

    assert said(talk.heard) == "first words,"


def test_a_connection_serves_one_message_after_the_other(
    api: FakeChatAPI, dialect: Literal["chat", "responses"]
) -> None:
    talk = Conversation(api, dialect)

    async def twice() -> None:
        for _ in range(2):
            await talk.driver.send_message(messages=HELLO, on_event=talk.hear)
        talk.provider._client.dispose()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(twice())

    assert (len(api.requests), api.connections) == (2, 1)


def test_the_key_is_told_to_the_server_and_to_nobody_else(api: FakeChatAPI, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    api.error(400, message=f"your key {KEY} is odd")
    api.error(500)

    refused = Conversation(api).ask()
    (talk := Conversation(api)).ask()

    assert "odd" in failure(refused).message
    for told in (failure(refused).message, caplog.text, repr((talk.provider, talk.driver, vars(talk.provider)))):
        assert "very-secret" not in told


def test_what_the_process_has_in_its_environment_is_not_sent(api: FakeChatAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", "other")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")

    with FakeChatAPI(api_key=KEY) as picky:
        complete(Conversation(picky).ask())
    complete(Conversation(picky := api).ask())

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
        complete(Conversation(api, api_key=None).ask())

    assert keys == [None]


def test_an_address_without_a_path_is_given_that_of_the_api(api: FakeChatAPI) -> None:
    complete(Conversation(api, base_url=api.url.removesuffix("/v1")).ask())

    assert api.requests[0].path == "/v1/chat/completions"


def test_tools_of_the_messages_api_are_not_sent_and_that_is_logged_once(
    api: FakeChatAPI, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Conversation(api)

    for _ in range(2):
        talk.ask(tools=[{"type": "web_search_20250305", "name": "web_search"}])

    assert ["tools" in request.body for request in api.requests] == [False, False]
    (warning,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warning == "not sent, because they are tools of the Messages API: web_search"


def test_an_agent_calls_tools_side_by_side_and_reads_what_they_return(
    api: FakeChatAPI, dialect: Literal["chat", "responses"]
) -> None:
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


def test_importing_the_provider_does_not_load_the_sdk_and_making_one_does_not_either() -> None:
    code = "import sys, reenact; reenact.OpenAIProvider('http://localhost:1'); sys.exit('openai' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_provider_and_its_drivers_are_what_the_protocols_ask_for() -> None:
    provider = OpenAIProvider("http://localhost:1")

    driver = asyncio.run(provider.provide())

    assert provider.name == "openai"
    assert isinstance(provider, LLMProvider)
    assert isinstance(driver, LLMDriver)
