"""The driver for Claude's Messages API, its provider, its environment, and the factory that shares one HTTP client."""

from __future__ import annotations

import asyncio
import functools
import importlib
import logging
from datetime import UTC, datetime

import msgspec

from reenact.actors.environment.api import EnvironmentConfig, LLMConfig
from reenact.actors.environment.claude.client import MESSAGES, ClaudeClient, ClaudeReader
from reenact.actors.environment.claude.models import DEFAULT_MODEL, takes_output_format
from reenact.actors.environment.claude.request import is_format, leave_out_refused, left_out, message_request
from reenact.actors.environment.model import ModelEnvironment
from reenact.actors.environment.wire.decode import PAUSED, PAUSES, MessageDecoder
from reenact.actors.environment.wire.driver import Question, RetryPolicy, StreamingDriver
from reenact.actors.environment.wire.faults import Fault
from reenact.actors.environment.wire.messages import api_blocks
from reenact.domain.output import OutputSpec
from reenact.domain.plain import is_sequence

_log = logging.getLogger(__name__)
MAX_CONTINUATIONS = 16
"""How often at most a message that the API has paused is continued."""


class ClaudeDriver(StreamingDriver):
    """Streams an answer of Claude; sends a request again as long as nothing of its answer has been reported."""

    def __init__(self, config: LLMConfig, client: ClaudeClient, retry_policy: RetryPolicy) -> None:
        super().__init__(client, retry_policy)
        self._client = client
        self._config = config

    def takes_output(self, output: OutputSpec, model: str | None) -> bool:
        """Return whether the API can hold the model's answer to this schema."""
        return takes_output_format(model or self._config.model or DEFAULT_MODEL) and is_format(output.schema)

    def unsent(self, question: Question) -> str:
        """Return which settings the model does not take."""
        names = ", ".join(left_out(question, self._config))
        model = question.model or self._config.model or DEFAULT_MODEL
        return names and f"{model} does not take them: {names}; remove them from LLMConfig"

    async def converse(self, question: Question, message: MessageDecoder, *, thoughts: bool) -> None:
        """Send the question, again without each image or document of earlier messages that the API refuses."""
        request = message_request(question, self._config, now=datetime.now(UTC), thoughts=thoughts)
        while True:
            try:
                return await self._converse(request, message)
            except Fault as fault:
                if message.announced or not leave_out_refused(request, question.messages[-1], fault):
                    raise
                _log.info("the API does not accept an image or a document of the conversation; it is left out")
            message.start_over()

    async def _converse(self, request: dict[str, object], message: MessageDecoder) -> None:
        """Send the request; while the API pauses its answer, send the partial answer back for it to continue."""
        asked = request["messages"]
        assert is_sequence(asked)  # as `message_request` makes it
        for _ in range(MAX_CONTINUATIONS):
            await self._retry_policy.run(
                functools.partial(self._client.stream, MESSAGES, request, ClaudeReader(message)), message
            )
            if message.stop_reason not in PAUSES:
                return
            message.begin_continuation()
            request = {**request, "messages": [*asked, {"role": "assistant", "content": api_blocks(message.content)}]}
            if message.container is not None and "id" in message.container:
                request["container"] = message.container["id"]
        message.end(PAUSED)

    def is_about_thoughts(self, fault: Fault) -> bool:
        """Return whether the API has refused the request because of the thoughts in the conversation."""
        return fault.error_type == "invalid_request_error" and "`thinking`" in fault.message


class ClaudeProvider:
    """Claude as one of several models, or with requests that are changed before they are sent.

    A runtime that Claude alone answers needs no provider, but only the `LLMConfig`.

    Raises:
        MissingExtraError: the extra `claude` is not installed.
        ConfigurationError: there is no API key, or the address is not valid.
    """

    def __init__(self, llm: LLMConfig) -> None:
        self._llm = llm
        self._client = ClaudeClient(llm)

    @property
    def name(self) -> str:
        """The kind of model: `claude`."""
        return "claude"

    @property
    def llm(self) -> LLMConfig:
        """The settings."""
        return self._llm

    async def provide(self) -> ClaudeDriver:
        """Return a driver; the first call imports the SDK on another thread, so that the event loop is not blocked."""
        await asyncio.to_thread(importlib.import_module, "anthropic")
        return ClaudeDriver(self._llm, self._client, RetryPolicy(self._llm.max_retries))


class ClaudeEnvironment(ModelEnvironment):
    """An environment in which Claude answers."""

    def __init__(self, config: EnvironmentConfig, *, client: ClaudeClient | None = None) -> None:
        shared = client or ClaudeClient(config.llm)
        super().__init__(
            "claude", config, lambda: ClaudeDriver(config.llm, shared, RetryPolicy(config.llm.max_retries))
        )
        self._own_client = None if client else shared

    def dispose(self) -> None:
        """End all running work and release all resources. Idempotent."""
        super().dispose()
        if self._own_client is not None:
            self._own_client.dispose()


class ClaudeEnvironmentFactory:
    """Makes environments in which Claude answers; they share the HTTP connections.

    Raises:
        ConfigurationError: there is no API key.
    """

    def __init__(self, llm: LLMConfig) -> None:
        self._llm = llm
        self._client = ClaudeClient(llm)

    def create(self, config: EnvironmentConfig) -> ClaudeEnvironment:
        """Return a new environment, not yet connected; it uses the factory's `LLMConfig`."""
        importlib.import_module("anthropic")  # now, so that no turn with a time limit waits for the import
        return ClaudeEnvironment(msgspec.structs.replace(config, llm=self._llm), client=self._client)

    def dispose(self) -> None:
        """Close the connections. Idempotent; they are opened again if an environment still needs them."""
        self._client.dispose()
