"""Conversations with the fake APIs of models, and what was reported of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from reenact import OpenAIProvider
from reenact.actors.environment.api import LLMConfig
from reenact.actors.environment.claude.environment import ClaudeClient, ClaudeDriver
from reenact.actors.environment.openai.provider import OpenAIDriver
from reenact.actors.environment.wire.driver import RetryPolicy, StreamingDriver
from reenact.domain.messages import Said
from reenact.domain.stream.answer import Complete
from reenact.domain.stream.events import StreamData, StreamError, TextDelta
from reenact.testing import FakeChatAPI, FakeMessagesAPI
from tests.environment.support import HELLO, PATIENCE, until

KEY = "sk-very-secret"
Dialect: TypeAlias = Literal["chat", "responses"]


class Conversation:
    """Talks to an API with a driver that notes the waits instead of waiting."""

    driver: StreamingDriver

    def __init__(self, max_retries: int) -> None:
        self.heard: list[StreamData] = []
        self.waits: list[float] = []
        self.retry_policy = RetryPolicy(max_retries, self._wait, lambda: 0.0)

    def hear(self, event: object) -> None:
        assert isinstance(event, StreamData)
        self.heard.append(event)

    def ask(self, messages: Sequence[Said] = HELLO, **request: Any) -> list[StreamData]:  # noqa: ANN401 - what `send_message` takes
        """Return all that was reported so far, once this request is answered."""
        asyncio.run(self._ask(messages, request))
        return self.heard

    async def close(self) -> None:
        """Close the connections, and wait until no task of the driver is left."""
        self.driver._api_client.dispose()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    async def _ask(self, messages: Sequence[Said], request: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self.driver.send_message(messages=messages, on_event=self.hear, **request)
        finally:
            await self.close()

    async def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)


class ClaudeConversation(Conversation):
    """Talks to the Messages API."""

    def __init__(self, api: FakeMessagesAPI, **config: object) -> None:
        llm = msgspec.convert({"api_key": KEY, "base_url": api.url, **config}, LLMConfig)
        super().__init__(llm.max_retries)
        self.driver = ClaudeDriver(llm, ClaudeClient(llm), self.retry_policy)


class OpenAIConversation(Conversation):
    """Talks to one of OpenAI's APIs."""

    def __init__(
        self,
        api: FakeChatAPI,
        dialect: Dialect = "chat",
        *,
        base_url: str | None = None,
        api_key: str | None = KEY,
        max_retries: int = 4,
        **settings: Any,  # noqa: ANN401 - those of the provider
    ) -> None:
        super().__init__(max_retries)
        self.provider = OpenAIProvider(base_url or api.url, api_key, "m", api=dialect, **settings)
        self.driver = OpenAIDriver(self.provider, self.provider._client, self.retry_policy)


def said(events: Sequence[StreamData]) -> str:
    """Return the text of the answer."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def failure(events: Sequence[StreamData]) -> StreamError:
    """Return the error that ends the answer."""
    failed = events[-1]
    assert isinstance(failed, StreamError)
    return failed


def complete(events: Sequence[StreamData]) -> Complete:
    """Return the end of the answer, which is complete."""
    end = events[-1]
    assert isinstance(end, Complete)
    return end
