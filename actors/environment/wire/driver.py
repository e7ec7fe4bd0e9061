"""Drivers of models over HTTP, which send a request again as long as nothing of its answer has been reported."""

from __future__ import annotations

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from reenact.actors.environment.api import Interruptible, OnEvent
from reenact.actors.environment.failures import Fault, backoff, failure
from reenact.actors.environment.wire.client import ApiClient, Sdk
from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.domain.conversation import Conversation
from reenact.domain.messages import Said
from reenact.domain.output import OutputSpec
from reenact.domain.stream.events import StreamError

_log = logging.getLogger(__name__)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the model; for fields that are None or empty, the configuration applies."""

    messages: Sequence[Said]
    system: str | None = None
    model: str | None = None
    max_tokens: int | None = None
    tools: Sequence[Mapping[str, object]] = ()
    output: OutputSpec | None = None


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often a request is sent again; `sleep` waits before that, `chance` returns a random number from 0 to 1."""

    max_retries: int
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def run(self, send: Callable[[], Awaitable[None]], message: MessageDecoder) -> None:
        """Send a request until it is answered; raise its fault if it may not be sent again, or has failed too often."""
        attempt = 0
        while True:
            try:
                return await send()
            except Fault as fault:
                if message.published or not fault.retryable or attempt >= self.max_retries:
                    raise
                seconds = backoff(attempt, fault.wait, self.chance())
            _log.info("the request failed and is sent again in %.1f s", seconds)
            await self.sleep(seconds)
            message.start_over()
            attempt += 1


class StreamingDriver(ABC, Interruptible):
    """Streams answers of an API's model, over a shared client; each API has a subclass with three methods."""

    def __init__(self, client: ApiClient[Sdk], retry_policy: RetryPolicy) -> None:
        self._api_client = client
        self._retry_policy = retry_policy
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
        output: OutputSpec | None = None,
    ) -> None:
        """Send the conversation and report the answer, which ends with a `message_stop` or an `error`."""
        question = Question(
            messages=messages, system=system, model=model, max_tokens=max_tokens, tools=tools, output=output
        )
        question, on_event = self.prepared(question, on_event)
        message = MessageDecoder(on_event)
        unsent = self.unsent(question)
        if unsent and not self._warned:
            self._warned = True
            _log.warning("not sent, because %s", unsent)
        with self.working():
            try:
                if isinstance(messages, Conversation) and not messages.is_read:
                    # It is still in the log, and reading it would block the loop.
                    await asyncio.to_thread(list, messages)
                await self._answer(question, message)
            except Fault as fault:
                message.break_off()
                on_event(self.error_event(fault))

    def error_event(self, fault: Fault) -> StreamError:
        """Return the `error` event of the fault, without the key, and with its message cut to a limit."""
        return failure(fault.error_type, self._api_client.without_key(fault.message), retryable=fault.retryable)

    def prepared(self, question: Question, on_event: OnEvent) -> tuple[Question, OnEvent]:
        """Return the question that is sent in its place, and the function that receives the answer's events."""
        return question, on_event

    @abstractmethod
    def unsent(self, question: Question) -> str:
        """Return why which settings or tools are not sent, for a warning; empty if all are."""

    @abstractmethod
    async def converse(self, question: Question, message: MessageDecoder, *, thoughts: bool) -> None:
        """Send the question and pass the answer to the message; without `thoughts`, none are sent."""

    @abstractmethod
    def is_about_thoughts(self, fault: Fault) -> bool:
        """Return whether the API has refused the request because of the thoughts in the conversation.

        Thoughts are bound to the content before them, and to the model; APIs report this only in the error's text.
        """

    async def _answer(self, question: Question, message: MessageDecoder) -> None:
        try:
            await self.converse(question, message, thoughts=True)
        except Fault as fault:
            if message.announced or not self.is_about_thoughts(fault):
                raise
            _log.info("the API does not accept the thoughts of the conversation any more; it is sent without them")
            message.start_over()
            await self.converse(question, message, thoughts=False)
