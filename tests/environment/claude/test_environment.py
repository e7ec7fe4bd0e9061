from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Sequence
from typing import Any

import anthropic
import msgspec
import pytest

from reenact import Answer, ClaudeProvider, Image, Runtime
from reenact.actors.environment.api import (
    Environment,
    EnvironmentConfig,
    EnvironmentFactory,
    LLMConfig,
)
from reenact.actors.environment.claude.environment import (
    MAX_CONTINUATIONS,
    ClaudeClient,
    ClaudeEnvironment,
    ClaudeEnvironmentFactory,
)
from reenact.actors.environment.claude.models import DEFAULT_MODEL
from reenact.actors.kernel.event_loop import EventLoopThread
from reenact.domain import conversation
from reenact.domain.errors import ConfigurationError
from reenact.domain.messages import OpaqueBlock, Said, StopDetails, TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.plain import Json
from reenact.domain.stream.answer import Complete
from reenact.domain.stream.events import MessageDelta, MessageStart, TextDelta
from reenact.testing import FakeMessagesAPI, FakeReply
from tests.environment.support import HELLO, Bus, answering
from tests.environment.talking import KEY, ClaudeConversation, failure, said

PREFILLED = "claude-sonnet-4-5"
"""A model that goes on with an answer that stands last, whatever that ends with."""


def test_an_answer_is_reported_as_it_streams(api: FakeMessagesAPI) -> None:
    api.reply(deltas=["Hel", "lo"], usage={"input_tokens": 3, "output_tokens": 2})

    assert ClaudeConversation(api).ask() == [
        MessageStart(message_id="msg_fake", model=DEFAULT_MODEL),
        TextDelta(text="Hel"),
        TextDelta(text="lo"),
        MessageDelta(usage={"input_tokens": 3, "output_tokens": 2}),
        Complete(stop_reason="end_turn", content=(TextBlock("Hello"),)),
    ]


def test_what_was_asked_for_and_what_was_configured_arrive(api: FakeMessagesAPI) -> None:
    ClaudeConversation(api, model="configured", betas=("one", "two"), extra={"top_k": 5}).ask(
        system="Be brief.", tools=[{"name": "bash", "input_schema": {"type": "object"}}], max_tokens=5
    )
    ClaudeConversation(api).ask(model="asked")

    first, second = api.requests
    assert (first.body["model"], first.body["max_tokens"], first.body["top_k"]) == ("configured", 5, 5)
    assert (first.body["system"][0]["text"], first.body["tools"][0]["name"]) == ("Be brief.", "bash")
    assert first.headers["anthropic-beta"] == "one,two"
    assert second.body["model"] == "asked"
    assert "anthropic-beta" not in second.headers


def test_what_is_still_in_the_log_is_read_beside_the_event_loop(api: FakeMessagesAPI) -> None:
    readers: list[threading.Thread] = []

    def read() -> Sequence[Said]:
        readers.append(threading.current_thread())
        return HELLO

    ClaudeConversation(api).ask(conversation.Conversation.unread(1, read))

    assert [message["role"] for message in api.requests[0].body["messages"]] == ["user"]
    assert len(readers) == 1
    assert readers[0] is not threading.main_thread()


def test_an_answer_that_comes_whole_is_reported_like_one_that_streams(api: FakeMessagesAPI) -> None:
    api.error(529)
    api.reply(whole=True, thinking="hm", text="Hello", tools=[("bash", {"a": 1})], stop_reason="tool_use")

    heard = ClaudeConversation(api).ask()

    assert said(heard) == "Hello"
    assert heard[-1] == Complete(
        stop_reason="tool_use",
        content=(
            ThinkingBlock("hm", "signature"),
            TextBlock("Hello"),
            ToolUseBlock("toolu_fake_1", "bash", {"a": 1}),
        ),
    )


def test_a_whole_answer_that_gives_no_reason_for_its_end_is_not_complete(api: FakeMessagesAPI) -> None:
    api.reply(whole=True, text="Hello", stop_reason=None)

    heard = ClaudeConversation(api).ask()

    assert (said(heard), failure(heard).type) == ("Hello", "incomplete_stream")


@pytest.mark.parametrize("chunk_size", [None, 1, 7])
def test_thoughts_text_and_calls_come_whole_however_they_are_cut(chunk_size: int | None, api: FakeMessagesAPI) -> None:
    api.reply(
        thinking="Let me see. Hm …",
        signature="sig",
        text="Grüße 😀",
        tools=[("bash", {"command": "ls ü"})],
        stop_reason="tool_use",
        chunk_size=chunk_size,
        line_end="\r\n",
        ping_every=2,
        repeat_message_start=True,
    )

    assert ClaudeConversation(api).ask()[-1] == Complete(
        stop_reason="tool_use",
        content=(
            ThinkingBlock("Let me see. Hm …", "sig"),
            TextBlock("Grüße 😀"),
            ToolUseBlock("toolu_fake_1", "bash", {"command": "ls ü"}),
        ),
    )


@pytest.mark.parametrize(
    ("status", "body", "error_type", "words"),
    [
        (403, '{"detail": "Not authenticated"}', "permission_error", "Not authenticated"),
        (404, '{"error": "no such model"}', "not_found_error", "no such model"),
        (429, '{"message": "Limit exceeded"}', "rate_limit_error", "Limit exceeded"),
        (429, "slow down, please", "rate_limit_error", "slow down, please"),
        (400, '{"errors": [{"message": "one"}, "two"]}', "invalid_request_error", "one; two"),
        (422, '{"detail": [{"loc": ["body"], "msg": "no"}]}', "invalid_request_error", '[{"loc":["body"],"msg":"no"}]'),
        (529, '{"type": "error", "error": "come back later"}', "overloaded_error", "come back later"),
        (400, '{"error": {"message": "no such model", "type": "None"}}', "invalid_request_error", "no such model"),
        (400, '[{"error": {"code": 400, "message": "in a list"}}]', "invalid_request_error", "in a list"),
        (503, '[{"error": {"type": "overloaded_error", "message": "in a list"}}]', "overloaded_error", "in a list"),
        (200, '[{"error": {"type": "overloaded_error", "message": "in a list"}}]', "overloaded_error", "in a list"),
        (200, '{"error": "come back later"}', "api_error", "come back later"),
        (500, "[" * 5000, "api_error", "[" * 2000),
    ],
)
def test_a_refusal_in_other_words_than_the_apis_keeps_them(
    status: int, body: str, error_type: str, words: str, api: FakeMessagesAPI
) -> None:
    with answering(f"{status} Oh\r\ncontent-type: application/json", body) as url:
        heard = ClaudeConversation(api, base_url=url, max_retries=0).ask()

    assert (failure(heard).type, failure(heard).message) == (error_type, words)


STARTED = json.dumps({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3}}})
SAID = json.dumps({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}})
ENDED = json.dumps({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}})
STOPPED = json.dumps({"type": "message_stop"})


@pytest.mark.parametrize(
    ("event", "error_type", "words"),
    [
        ('data: {"type": "error", "error": "come back later"}', "api_error", "come back later"),
        ('data: {"error": {"message": "come back later"}}', "api_error", "come back later"),
        ("event: error\ndata: come back later", "api_error", "come back later"),
        (
            'data: {"type": "error", "error": {"type": "overloaded_error", "message": null}}',
            "overloaded_error",
            "overloaded_error",
        ),
        ('data: {"type": "content_block_start", "content_block": ' + "[" * 100_000, "api_error", "nested too deeply"),
    ],
)
def test_an_error_within_a_stream_keeps_its_words(
    event: str, error_type: str, words: str, api: FakeMessagesAPI
) -> None:
    with answering("200 OK\r\ncontent-type: text/event-stream", f"data: {STARTED}\n\n{event}\n\n") as url:
        heard = ClaudeConversation(api, base_url=url, max_retries=0).ask()

    assert failure(heard).type == error_type
    assert words in failure(heard).message


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream", ""])
def test_a_stream_is_one_whatever_it_is_labelled_as(kind: str, api: FakeMessagesAPI) -> None:
    body = "".join(f"data: {event}\n\n" for event in (STARTED, SAID, ENDED, STOPPED))

    with answering(f"200 OK\r\ncontent-type: {kind}" if kind else "200 OK", body) as url:
        heard = ClaudeConversation(api, base_url=url, max_retries=0).ask()

    assert heard[-1] == Complete(stop_reason="end_turn", content=(TextBlock("Hi"),))


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain", ""])
def test_a_whole_message_is_one_whatever_it_is_labelled_as(kind: str, api: FakeMessagesAPI) -> None:
    message = {"type": "message", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
    body = f"\n\n{json.dumps(message, indent=1)}".replace("\n", "\n\n")

    with answering(f"200 OK\r\ncontent-type: {kind}" if kind else "200 OK", body) as url:
        heard = ClaudeConversation(api, base_url=url, max_retries=0).ask()

    assert heard[-1] == Complete(stop_reason="end_turn", content=(TextBlock("Hi"),))


def test_a_model_whose_call_cannot_be_read_is_told_so_and_may_repeat_it(api: FakeMessagesAPI) -> None:
    calls: list[float] = []

    def pay(amount: float = 0) -> str:
        """Pay somebody."""
        calls.append(amount)
        return "paid"

    for amount in (math.nan, 5):  # the first one is no JSON
        api.reply(tools=[("pay", {"amount": amount})], stop_reason="tool_use")
    api.reply("Done.")

    with Runtime.in_memory(llm=LLMConfig(api_key=KEY, base_url=api.url)) as runtime:
        answer = runtime.ask("Pay 5.", image=Image(id="i", tools=(pay,)))

    assert (answer.text, answer.outcome, calls) == ("Done.", "completed", [5])
    *_, call, result = api.requests[1].body["messages"]
    assert call["content"][-1]["input"] == {"INVALID_JSON": '{"amount": NaN}'}
    assert result["content"][0]["is_error"]
    assert "cannot be read as a JSON object" in result["content"][0]["content"]


SAMPLING: dict[str, Any] = {"temperature": 0.3, "extra": {"top_p": 0.9, "top_k": 5, "metadata": {"user_id": "u"}}}


@pytest.mark.parametrize("model", ["claude-sonnet-4-6", "us.anthropic.claude-opus-4-5-20251101-v1:0", "my-own-model"])
def test_a_model_that_takes_sampling_parameters_is_sent_them_under_the_version_that_has_them(
    model: str, api: FakeMessagesAPI, caplog: pytest.LogCaptureFixture
) -> None:
    assert said(ClaudeConversation(api, model=model, **SAMPLING).ask()) == "Hello from the fake API!"

    (request,) = api.requests
    assert [request.body[name] for name in ("temperature", "top_p", "top_k")] == [0.3, 0.9, 5]
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert "not sent" not in caplog.text


@pytest.mark.parametrize("model", [DEFAULT_MODEL, "claude-opus-4-7", "anthropic.claude-opus-4-8", "claude-fable-5-2"])
def test_sampling_parameters_are_left_out_for_a_model_that_takes_none_and_that_is_logged_once(
    model: str, api: FakeMessagesAPI, caplog: pytest.LogCaptureFixture
) -> None:
    talk = ClaudeConversation(api, model="claude-sonnet-4-6", **SAMPLING)

    for _ in range(2):
        assert said(talk.ask(model=model)).endswith("Hello from the fake API!")

    for request in api.requests:
        assert not {"temperature", "top_p", "top_k"} & request.body.keys()
        assert request.body["metadata"] == {"user_id": "u"}
        assert request.headers["anthropic-version"] == anthropic._constants.ANTHROPIC_API_VERSION
    (warning,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warning == (
        f"not sent, because {model} does not take them: temperature, top_p, top_k; remove them from LLMConfig"
    )


@pytest.mark.parametrize("reason", ["refusal", "max_tokens", "stop_sequence"])
def test_a_stop_reason_ends_the_message(reason: str, api: FakeMessagesAPI) -> None:
    api.reply("so far", stop_reason=reason)

    assert ClaudeConversation(api).ask()[-1] == Complete(stop_reason=reason, content=(TextBlock("so far"),))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({"stop_reason": "stop_sequence", "stop_sequence": "\n\nEND"}, {"stop_sequence": "\n\nEND"}),
        (
            {"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "bio", "explanation": "No."}},
            {"stop_details": StopDetails(category="bio", explanation="No.")},
        ),
        (
            {"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": None, "later": [1]}},
            {"stop_details": StopDetails()},
        ),
    ],
)
def test_why_a_message_has_ended_is_told_with_its_end(
    sent: dict[str, Any], told: dict[str, Any], api: FakeMessagesAPI, *, whole: bool
) -> None:
    api.reply("so far", whole=whole, **sent)

    end = Complete(stop_reason=sent["stop_reason"], content=(TextBlock("so far"),), **told)
    assert ClaudeConversation(api).ask()[-1] == end


def test_a_paused_message_is_continued_as_the_same_message(api: FakeMessagesAPI) -> None:
    api.reply("one", stop_reason="pause_turn", usage={"input_tokens": 3, "output_tokens": 2, "tier": "x"})
    api.error(529)
    api.reply(" two", message_id="msg_other", usage={"input_tokens": 5, "output_tokens": 4, "tier": "y"})

    heard = ClaudeConversation(api, model=PREFILLED).ask()

    assert [event for event in heard if not isinstance(event, MessageDelta)] == [
        MessageStart(message_id="msg_fake", model=PREFILLED),
        TextDelta(text="one"),
        TextDelta(text=" two"),
        Complete(stop_reason="end_turn", content=(TextBlock("one"), TextBlock(" two"))),
    ]
    each: list[Json] = [
        {"type": "request", "input_tokens": 3, "output_tokens": 2, "tier": "x"},
        {"type": "request", "input_tokens": 5, "output_tokens": 4, "tier": "y"},
    ]
    assert heard[-2] == MessageDelta(usage={"input_tokens": 8, "output_tokens": 6, "tier": "y", "iterations": each})
    assert api.requests[-1].body["messages"][1:] == [
        {"role": "assistant", "content": [{"type": "text", "text": "one"}]}
    ]


def test_an_answer_that_pauses_after_the_api_s_own_summary_is_continued(api: FakeMessagesAPI) -> None:
    summary = {"type": "compaction", "content": "So far so good."}
    api.reply(content=[summary], stop_reason="compaction")
    api.reply("Now the answer.")

    heard = ClaudeConversation(api).ask()

    assert heard[-1] == Complete(stop_reason="end_turn", content=(OpaqueBlock(summary), TextBlock("Now the answer.")))
    assert api.requests[-1].body["messages"][-1] == {"role": "assistant", "content": [summary]}


def test_a_message_that_is_paused_again_and_again_ends_at_last(api: FakeMessagesAPI) -> None:
    api.script([FakeReply(text="x", stop_reason="pause_turn")] * (MAX_CONTINUATIONS + 5))

    heard = ClaudeConversation(api, model=PREFILLED).ask()

    assert heard[-1] == Complete(stop_reason="pause_turn", content=(TextBlock("x"),) * MAX_CONTINUATIONS)
    assert len(api.requests) == MAX_CONTINUATIONS


def test_a_paused_message_goes_on_in_the_same_container(api: FakeMessagesAPI) -> None:
    container = {"id": "c", "expires_at": "2026-01-01T00:00:00Z"}
    api.reply("one", stop_reason="pause_turn", container=container)
    api.reply(" two")

    heard = ClaudeConversation(api, model=PREFILLED).ask()

    assert isinstance(heard[-1], Complete)
    assert heard[-1].content[-1] == OpaqueBlock({**container, "type": "container"})
    assert [request.body.get("container") for request in api.requests] == [None, "c"]


def test_what_the_api_s_own_tools_did_comes_back_and_goes_back_unmodified(api: FakeMessagesAPI) -> None:
    content: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u"}]},
        {"type": "mcp_tool_use", "id": "m", "name": "echo", "server_name": "e", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": []},
        {"type": "compaction", "content": "So far so good."},
        {"type": "text", "text": "Found.", "citations": [{"type": "web_search_result_location", "url": "u"}]},
    ]
    api.reply(content=content)

    answer = ClaudeConversation(api).ask()[-1]
    assert isinstance(answer, Complete)
    ClaudeConversation(api).ask([*HELLO, Said("assistant", answer.content), *HELLO])

    assert api.requests[-1].body["messages"][1]["content"] == content


THOUGHTFUL = (
    *HELLO,
    Said("assistant", (ThinkingBlock("hm", "sig"), TextBlock("Hi"))),
    Said("user", (TextBlock("And?"),)),
)
BOUND = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."


def test_thoughts_that_the_api_does_not_accept_any_more_are_left_out(api: FakeMessagesAPI) -> None:
    api.error(400, message=BOUND)
    api.reply("So")

    heard = ClaudeConversation(api).ask(THOUGHTFUL)

    assert said(heard) == "So"
    assert [[block["type"] for block in request.body["messages"][1]["content"]] for request in api.requests] == [
        ["thinking", "text"],
        ["text"],
    ]


def test_what_was_told_is_not_asked_for_again_without_thoughts(api: FakeMessagesAPI) -> None:
    api.reply("one", stop_reason="pause_turn")
    api.error(400, message=BOUND)

    heard = ClaudeConversation(api).ask(THOUGHTFUL)

    assert (said(heard), failure(heard).type) == ("one", "invalid_request_error")
    assert len(api.requests) == 2


def test_a_request_that_is_refused_without_thoughts_too_is_given_up(api: FakeMessagesAPI) -> None:
    api.error(400, message=BOUND)
    api.error(400, message=BOUND)

    assert failure(ClaudeConversation(api).ask(THOUGHTFUL)).type == "invalid_request_error"
    assert len(api.requests) == 2


def test_a_key_of_a_few_letters_is_no_secret_and_takes_no_letters_out_of_words(api: FakeMessagesAPI) -> None:
    api.error(400, message="too many tokens: remove any image")

    assert failure(ClaudeConversation(api, api_key="any").ask()).message == "too many tokens: remove any image"


def test_the_environment_of_the_process_is_not_consulted(api: FakeMessagesAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-other")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "other")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")

    with FakeMessagesAPI(api_key=KEY) as picky:
        assert isinstance(ClaudeConversation(picky).ask()[-1], Complete)
    with pytest.raises(ConfigurationError, match="API key"):
        ClaudeClient(LLMConfig())


def test_a_wrong_key_is_an_authentication_error() -> None:
    with FakeMessagesAPI(api_key="another") as api:
        failed = failure(ClaudeConversation(api).ask())

    assert (failed.type, failed.retryable) == ("authentication_error", False)


@pytest.mark.parametrize("key", [None, "", "  "])
def test_a_factory_without_a_key_is_refused_at_once(key: str | None) -> None:
    with pytest.raises(ConfigurationError, match="API key"):
        ClaudeEnvironmentFactory(LLMConfig(api_key=key))


def test_a_provider_answers_as_the_config_alone_does(api: FakeMessagesAPI) -> None:
    llm = LLMConfig(api_key=KEY, base_url=api.url, model="claude-sonnet-4-5", max_tokens=3000, thinking_budget=2000)
    texts = [_answer(api, llm=llm).text, _answer(api, llm_provider=ClaudeProvider(llm)).text]

    assert texts == ["Hello", "Hello"]
    assert api.requests[0].body == api.requests[1].body


def _answer(api: FakeMessagesAPI, **opened: Any) -> Answer[object]:  # noqa: ANN401 - arguments of `Runtime.in_memory`
    api.reply("Hello")
    with Runtime.in_memory(**opened) as runtime:
        return runtime.ask("Hi", image=Image(id="chat", system_prompt="Be brief."))


@pytest.mark.parametrize("key", [None, "", "  "])
def test_a_provider_without_a_key_is_refused_at_once(key: str | None) -> None:
    with pytest.raises(ConfigurationError, match="API key"):
        ClaudeProvider(LLMConfig(api_key=key))


def test_the_environments_of_a_factory_share_its_connections(
    api: FakeMessagesAPI, config: EnvironmentConfig, outside: EventLoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    make = anthropic.AsyncAnthropic.__init__

    def count(self: anthropic.AsyncAnthropic, **settings: Any) -> None:  # noqa: ANN401 - those of the client
        made.append(self)
        make(self, **settings)

    monkeypatch.setattr(anthropic.AsyncAnthropic, "__init__", count)
    factory = ClaudeEnvironmentFactory(LLMConfig(api_key=KEY, base_url=api.url, model="factory's"))
    environments = [factory.create(config) for _ in range(3)]

    for environment in environments:
        bus = Bus()
        bus.connect(environment)
        assert bus.answer("trn_1")[-1] == Complete(stop_reason="end_turn", content=(TextBlock(FakeReply().text or ""),))
        environment.dispose()
    factory.dispose()
    factory.dispose()

    assert isinstance(factory, EnvironmentFactory)
    assert isinstance(environments[0], Environment)
    assert environments[0].name == "claude"
    assert {request.body["model"] for request in api.requests} == {"factory's"}
    assert len(made) == 1
    outside.close()
    factory.dispose()


def test_an_interrupted_turn_hangs_up_and_the_next_one_is_answered(
    api: FakeMessagesAPI, config: EnvironmentConfig
) -> None:
    llm = LLMConfig(api_key=KEY, base_url=api.url)
    environment, bus = ClaudeEnvironment(msgspec.structs.replace(config, llm=llm)), Bus()
    bus.connect(environment)
    api.reply(text="first words, then silence", stall_after=3)
    bus.start("trn_1")
    bus.wait("trn_1", said)

    bus.complete("trn_1")

    assert api.wait_for_hang_up()
    assert isinstance(bus.answer("trn_2")[-1], Complete)
    assert said(bus.events("trn_1")) == "first words,"
    environment.dispose()
