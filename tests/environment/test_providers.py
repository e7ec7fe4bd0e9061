"""Every API of models over HTTP: what fails is sent again or reported, and the key stays secret."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from reenact.actors.environment.api import LLMDriver
from reenact.domain.messages import TextBlock
from reenact.testing import FakeChatAPI, FakeError, FakeMessagesAPI
from tests.environment.support import HELLO, answering, until
from tests.environment.talking import KEY, ClaudeConversation, Conversation, OpenAIConversation, complete, failure, said

SIX_DELTAS = ["one ", "two ", "three ", "four ", "five ", "six "]


class ModelAPI:
    """One of the fake APIs, and conversations with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.server = FakeMessagesAPI() if name == "messages" else FakeChatAPI()

    def conversation(self, **settings: Any) -> Conversation:  # noqa: ANN401 - those of the provider
        if isinstance(self.server, FakeMessagesAPI):
            return ClaudeConversation(self.server, **settings)
        return OpenAIConversation(self.server, "chat" if self.name == "chat" else "responses", **settings)

    def will(self, *faults: FakeError | dict[str, Any]) -> None:
        """Answer the next requests with these refusals, and with replies of these fields."""
        for fault in faults:
            if isinstance(fault, FakeError):
                self.server.script([fault])
            else:
                self.server.reply(**fault)


APIS = ["messages", "chat", "responses"]


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Iterator[ModelAPI]:
    api = ModelAPI(request.param)
    with api.server:
        yield api


TRANSIENT: list[FakeError | dict[str, Any]] = [
    *(FakeError(status) for status in (408, 409, 429, 500, 529)),
    FakeError(503, bare=True),
    FakeError(400, should_retry=True),
    {"drop_after": 0},
    {"drop_after": 1, "drop_mode": "fin"},
    {"drop_after": 1, "drop_mode": "eof"},
    {"error_after": 0},
]


@pytest.mark.parametrize(
    ("api", "fault"),
    [
        *product(APIS, TRANSIENT),
        ("messages", {"drop_after": 2, "drop_mode": "eof"}),
        ("messages", {"error_after": 2, "error_type": "api_error"}),
        ("messages", {"stop_reason": None, "text": None}),
        *product(["chat", "responses"], [{"error_after": 1, "error_type": "rate_limit_exceeded"}]),
    ],
    indirect=["api"],
)
def test_a_request_is_sent_again_while_nothing_was_published(fault: FakeError | dict[str, Any], api: ModelAPI) -> None:
    api.will(fault, fault, {"text": "at last"})

    heard = (talk := api.conversation()).ask()

    assert (complete(heard).stop_reason, complete(heard).content) == ("end_turn", (TextBlock("at last"),))
    assert said(heard) == "at last"
    assert talk.waits == [0.5, 1.0]


BROKEN_OFF: list[tuple[dict[str, Any], str]] = [
    ({"drop_after": 6}, "api_connection_error"),
    ({"drop_after": 6, "drop_mode": "fin"}, "api_connection_error"),
    ({"drop_after": 6, "drop_mode": "eof"}, "incomplete_stream"),
    ({"error_after": 6, "error_type": "api_error"}, "api_error"),
]


@pytest.mark.parametrize(
    ("api", "fault", "error_type"),
    [
        *((api, *broken) for api, broken in product(APIS, BROKEN_OFF)),
        ("messages", {"drop_after": 9, "drop_mode": "eof"}, "incomplete_stream"),
        ("responses", {"error_after": 6, "fails": True}, "api_error"),
    ],
    indirect=["api"],
)
def test_what_was_published_is_never_said_twice(fault: dict[str, Any], error_type: str, api: ModelAPI) -> None:
    api.will({**fault, "deltas": SIX_DELTAS})

    heard = (talk := api.conversation()).ask()

    assert said(heard).startswith("one two ")
    assert (failure(heard).type, failure(heard).retryable) == (error_type, True)
    assert (talk.waits, len(api.server.requests)) == ([], 1)


FINAL: list[tuple[FakeError | dict[str, Any], str]] = [
    (FakeError(400), "invalid_request_error"),
    (FakeError(401), "authentication_error"),
    (FakeError(403), "permission_error"),
    (FakeError(404), "not_found_error"),
    (FakeError(422, bare=True), "invalid_request_error"),
    (FakeError(500, should_retry=False), "api_error"),
]


@pytest.mark.parametrize(
    ("api", "fault", "error_type"),
    [
        *((api, *refusal) for api, refusal in product(APIS, FINAL)),
        ("messages", {"error_after": 1, "error_type": "invalid_request_error"}, "invalid_request_error"),
        ("chat", {"error_after": 1, "error_type": "invalid_prompt"}, "invalid_request_error"),
        ("chat", FakeError(429, code="insufficient_quota"), "billing_error"),
    ],
    indirect=["api"],
)
def test_a_refusal_that_will_not_change_is_not_asked_for_again(
    fault: FakeError | dict[str, Any], error_type: str, api: ModelAPI
) -> None:
    api.will(fault)

    heard = api.conversation().ask()

    assert [event.event_type for event in heard] == ["error"]
    assert (failure(heard).type, failure(heard).retryable) == (error_type, False)
    assert len(api.server.requests) == 1


def test_what_may_be_sent_again_is_reported_as_such(api: ModelAPI) -> None:
    api.will(FakeError(400, should_retry=True))

    heard = api.conversation(max_retries=0).ask()

    assert (failure(heard).type, failure(heard).retryable) == ("invalid_request_error", True)


def test_attempts_come_to_an_end(api: ModelAPI) -> None:
    api.will(*[FakeError(500)] * 9)

    heard = (talk := api.conversation(max_retries=3)).ask()

    assert (failure(heard).type, failure(heard).retryable) == ("api_error", True)
    assert (len(api.server.requests), talk.waits) == (4, [0.5, 1.0, 2.0])


def test_the_server_is_given_the_time_it_asks_for_but_not_for_ever(api: ModelAPI) -> None:
    api.will(FakeError(429, retry_after=7), FakeError(529, retry_after=86_400))

    (talk := api.conversation()).ask()

    assert talk.waits == [7.0, 60.0]


@pytest.mark.parametrize(("after", "is_begun"), [(1, False), (6, True)])
def test_silence_is_a_timeout(after: int, api: ModelAPI, *, is_begun: bool) -> None:
    api.will({"deltas": SIX_DELTAS, "stall_after": after})

    heard = api.conversation(timeout=0.3, max_retries=0).ask()

    assert (said(heard) != "", failure(heard).type) == (is_begun, "timeout_error")


def test_nobody_at_the_other_end_is_a_connection_error(api: ModelAPI) -> None:
    api.server.close()

    heard = (talk := api.conversation()).ask()

    assert (failure(heard).type, failure(heard).retryable) == ("api_connection_error", True)
    assert "cannot be reached" in failure(heard).message
    assert len(talk.waits) == 4


@pytest.mark.parametrize(
    ("kind", "status"),
    [("text/event-stream", 200), ("text/event-stream; charset=utf-8", 529), ("text/plain", 200), ("", 200)],
)
def test_an_error_in_json_keeps_its_words_whatever_it_is_labelled_as(kind: str, status: int, api: ModelAPI) -> None:
    api.will(FakeError(status, message="come back later", content_type=kind))

    heard = api.conversation(max_retries=0).ask()

    assert [failure(heard)] == heard
    assert failure(heard).message == "come back later"


def test_an_interrupt_closes_the_stream_at_once(api: ModelAPI) -> None:
    api.will({"deltas": SIX_DELTAS, "stall_after": 6})
    talk = api.conversation()

    async def interrupted() -> None:
        asking = asyncio.create_task(talk.driver.send_message(messages=HELLO, on_event=talk.hear))
        await until(lambda: said(talk.heard))

        talk.driver.interrupt()
        talk.driver.interrupt()

        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await asyncio.to_thread(api.server.wait_for_hang_up)
        talk.driver.interrupt()
        await talk.close()

    asyncio.run(interrupted())

    assert said(talk.heard).startswith("one ")


def test_a_connection_serves_one_message_after_the_other(api: ModelAPI) -> None:
    talk = api.conversation()

    async def twice() -> None:
        for _ in range(2):
            await talk.driver.send_message(messages=HELLO, on_event=talk.hear)
        await talk.close()

    asyncio.run(twice())

    assert (len(api.server.requests), api.server.connections) == (2, 1)


def test_the_key_is_told_to_the_api_and_to_nobody_else(api: ModelAPI, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    api.will(FakeError(400, message=f"your key {KEY} is odd"), FakeError(500))

    refused = api.conversation().ask()
    (talk := api.conversation()).ask()

    assert "odd" in failure(refused).message
    for told in (failure(refused).message, caplog.text, repr(talk.driver)):
        assert "very-secret" not in told


def test_a_redirect_is_not_followed_for_it_would_take_the_key_along(api: ModelAPI) -> None:
    with answering(f"307 There\r\nlocation: {api.server.url}", "") as url:
        heard = api.conversation(base_url=url, max_retries=0).ask()

    assert "where the key is not sent" in failure(heard).message
    assert api.server.requests == []


@pytest.mark.parametrize(
    ("code", "module"),
    [
        ("reenact.actors.environment.claude.environment", "anthropic"),
        ("reenact; reenact.OpenAIProvider('http://localhost:1')", "openai"),
    ],
)
def test_importing_a_provider_does_not_load_the_sdk(code: str, module: str) -> None:
    program = f"import sys, {code}; sys.exit({module!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_driver_is_what_the_protocol_asks_for(api: ModelAPI) -> None:
    assert isinstance(api.conversation().driver, LLMDriver)
