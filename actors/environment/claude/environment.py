"""Claude: a driver for the Messages API, its environment, and the factory that shares one HTTP client among them."""

from __future__ import annotations

import asyncio
import functools
import importlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from reenact.actors.environment.api import EnvironmentConfig, Interruptible, LLMConfig, OnEvent
from reenact.actors.environment.claude.client import ClaudeClient, Fault, backoff
from reenact.actors.environment.claude.decode import PAUSED, MessageDecoder
from reenact.actors.environment.claude.messages import api_blocks
from reenact.actors.environment.claude.models import DEFAULT_MODEL
from reenact.actors.environment.claude.request import Question, count_request, left_out, message_request
from reenact.actors.environment.failures import RETRYABLE, failure
from reenact.actors.environment.model import ModelEnvironment
from reenact.domain.conversation import Conversation
from reenact.domain.errors import LLMError
from reenact.domain.messages import Said
from reenact.domain.plain import is_sequence

T = TypeVar("T")

MAX_CONTINUATIONS = 16
"""How often a message that the API pauses is continued."""

_log = logging.getLogger(__name__)


class ClaudeDriver(Interruptible):
    """Lets Claude answer, streaming; sends a request again while nothing of its answer has been reported.

    `sleep` is what waits before another attempt, `chance` draws how long, from 0 to 1, and `now` tells the time.
    Without a `client` to share the driver has one of its own.

    Raises:
        ConfigurationError: there is no API key.
    """

    def __init__(
        self,
        config: LLMConfig,
        *,
        client: ClaudeClient | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._config = config
        self._client = client or ClaudeClient(config)
        self._shares_client = client is not None
        self._sleep = sleep
        self._chance = chance
        self._now = now
        self._warned = False

    async def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None = None,
        model: str | None = None,
        max_tokens: int | None = None,
        tools: Sequence[Mapping[str, object]] = (),
        on_event: OnEvent,
    ) -> None:
        """Send the conversation and report the answer, which ends with a `message_stop` or an `error`."""
        question = Question(messages=messages, system=system, model=model, max_tokens=max_tokens, tools=tools)
        message = MessageDecoder(on_event)
        self._warn(question)
        with self.working():
            try:
                await _read(messages)
                await self._answer(question, message)
            except Fault as fault:
                message.break_off()
                on_event(failure(fault.error_type, self._client.without_key(fault.message)))

    async def count_tokens(
        self,
        *,
        messages: Sequence[Said],
        system: str | None = None,
        model: str | None = None,
        tools: Sequence[Mapping[str, object]] = (),
    ) -> int:
        """Return how many input tokens the conversation has, as the API counts them.

        Raises:
            LLMError: the API did not count them.
        """
        question = Question(messages=messages, system=system, model=model, tools=tools)
        await _read(messages)
        request = count_request(question, self._config, now=self._now())
        try:
            return await self._retried(lambda: self._client.count(request))
        except Fault as fault:
            told = self._client.without_key(fault.message)
            raise LLMError(fault.error_type, told, retryable=fault.error_type in RETRYABLE) from None

    async def aclose(self) -> None:
        """Close the connections, unless they are shared."""
        if not self._shares_client:
            self._client.dispose()

    async def _answer(self, question: Question, message: MessageDecoder) -> None:
        try:
            await self._converse(self._request(question), message)
        except Fault as fault:
            if message.announced or not fault.is_about_thoughts:
                raise
            _log.info("the API does not accept the thoughts of the conversation any more; it is sent without them")
            message.start_over()
            await self._converse(self._request(question, thoughts=False), message)

    def _request(self, question: Question, *, thoughts: bool = True) -> dict[str, object]:
        return message_request(question, self._config, now=self._now(), thoughts=thoughts)

    def _warn(self, question: Question) -> None:
        """Log once what of the configuration is not sent."""
        names = left_out(question, self._config)
        if names and not self._warned:
            self._warned = True
            model = question.model or self._config.model or DEFAULT_MODEL
            what = ", ".join(names)
            _log.warning("not sent, because %s does not take them: %s; remove them from LLMConfig", model, what)

    async def _converse(self, request: dict[str, object], message: MessageDecoder) -> None:
        """Send the request, and as long as the API pauses, what it has said so far for it to go on."""
        asked = request["messages"]
        assert is_sequence(asked)  # as `message_request` makes it
        for _ in range(MAX_CONTINUATIONS):
            await self._retried(functools.partial(self._client.stream, request, message), message)
            if message.stop_reason != PAUSED:
                return
            message.proceed()
            request = {**request, "messages": [*asked, {"role": "assistant", "content": api_blocks(message.content)}]}
            if message.container is not None and "id" in message.container:
                request["container"] = message.container["id"]
        message.end(PAUSED)

    async def _retried(self, send: Callable[[], Awaitable[T]], message: MessageDecoder | None = None) -> T:
        """Send a request until it is answered, or has failed so often, or in such a way, that it is given up."""
        attempt = 0
        while True:
            try:
                return await send()
            except Fault as fault:
                published = message is not None and message.published
                if published or not fault.again or attempt >= self._config.max_retries:
                    raise
                seconds = backoff(attempt, fault.wait, self._chance())
            _log.info("the request failed and is sent again in %.1f s", seconds)
            await self._sleep(seconds)
            if message is not None:
                message.start_over()
            attempt += 1


class ClaudeEnvironment(ModelEnvironment):
    """An environment in which Claude answers."""

    def __init__(self, config: EnvironmentConfig, *, client: ClaudeClient | None = None) -> None:
        shared = client or ClaudeClient(config.llm)
        super().__init__("claude", config, lambda: ClaudeDriver(config.llm, client=shared))
        self._own_client = None if client else shared

    def dispose(self) -> None:
        """End what is under way and release everything. Idempotent."""
        super().dispose()
        if self._own_client is not None:
            self._own_client.dispose()


class ClaudeEnvironmentFactory:
    """Makes environments in which Claude answers, with the HTTP connections shared among them.

    Raises:
        ConfigurationError: there is no API key.
    """

    def __init__(self, llm: LLMConfig) -> None:
        self._llm = llm
        self._client = ClaudeClient(llm)

    def create(self, config: EnvironmentConfig) -> ClaudeEnvironment:
        """Return a new environment, not yet connected; what the factory was told about the model holds in it."""
        importlib.import_module("anthropic")  # now, since a turn that is timed should not have to wait for it
        return ClaudeEnvironment(msgspec.structs.replace(config, llm=self._llm), client=self._client)

    def dispose(self) -> None:
        """Close the connections. Idempotent; they are opened again if an environment still needs them."""
        self._client.dispose()


async def _read(messages: Sequence[Said]) -> None:
    """Have what is still in the log read beside the event loop."""
    if isinstance(messages, Conversation) and not messages.is_read:
        await asyncio.to_thread(list, messages)
