"""Claude behind the Messages API: the driver, its provider, environment and factory, and their HTTP client."""

from __future__ import annotations

import asyncio
import functools
import importlib
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from reenact.actors.environment.api import EnvironmentConfig, LLMConfig
from reenact.actors.environment.claude.models import DEFAULT_MODEL, takes_output_format
from reenact.actors.environment.claude.request import SAMPLING, is_format, leave_out_refused, left_out, message_request
from reenact.actors.environment.failures import (
    Fault,
    error_in,
    error_text_in,
    may_be_sent_again,
    requested_wait,
    type_of_refusal,
)
from reenact.actors.environment.model import ModelEnvironment
from reenact.actors.environment.received_json import is_json_object
from reenact.actors.environment.wire.decode import PAUSED, PAUSES, MessageDecoder
from reenact.actors.environment.wire.driver import (
    ApiClient,
    Question,
    Response,
    RetryPolicy,
    StreamingDriver,
    check_installed,
)
from reenact.actors.environment.wire.endpoint import CONNECT_SECONDS, Api, checked_key, checked_url
from reenact.actors.environment.wire.messages import api_blocks
from reenact.actors.environment.wire.stream import ERROR, WireEvent, events_of_whole_message, wire_event
from reenact.domain.output import OutputSpec
from reenact.domain.plain import is_sequence

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


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


CLAUDE = Api(
    name="Claude",
    url="https://api.anthropic.com",
    key_from="LLMConfig(api_key=…)",
    key_variable="ANTHROPIC_API_KEY",
    url_variable="ANTHROPIC_BASE_URL",
)
MESSAGES = "/v1/messages"
_SAMPLING_VERSION = {"anthropic-version": "2023-06-01"}
"""The last version of the API that takes `temperature`, `top_p` and `top_k`; the SDK sends a later one."""


class ClaudeClient(ApiClient["AsyncAnthropic"]):
    """Makes an `AsyncAnthropic` for each loop that needs one, and closes it when it is disposed of or the loop ends.

    Raises:
        MissingExtraError: the extra `claude` is not installed.
        ConfigurationError: there is no API key, or it is not a valid one; the address is not valid, or that of a proxy
            in an environment variable; the certificates that a variable names cannot be read.
    """

    _kind = "a Messages API"

    def __init__(self, config: LLMConfig) -> None:
        check_installed("anthropic", "Claude", "claude")
        self._config = config
        key = checked_key(config.api_key, CLAUDE)
        super().__init__(url=checked_url(config.base_url, CLAUDE), key=key, timeout=config.timeout)

    def _new_client(self) -> AsyncAnthropic:
        import anthropic  # noqa: PLC0415 - half a second, spent only where Claude is used

        return anthropic.AsyncAnthropic(
            api_key=self._key,
            base_url=self._url,
            timeout=anthropic.Timeout(self._timeout, connect=min(CONNECT_SECONDS, self._timeout)),
            max_retries=0,
            default_headers={"anthropic-beta": ",".join(self._config.betas)} if self._config.betas else {},
        )

    @asynccontextmanager
    async def _post(self, client: AsyncAnthropic, path: str, request: Mapping[str, object]) -> AsyncGenerator[Response]:
        import anthropic  # noqa: PLC0415 - loaded with the client

        stream = await client.post(
            path,
            cast_to=object,
            body=request,
            options={"headers": _SAMPLING_VERSION if request.keys() & SAMPLING else {}, "follow_redirects": False},
            stream=True,
            stream_cls=anthropic.AsyncStream[object],
        )
        async with stream:
            yield stream.response

    def _refusal(self, error: Exception) -> Fault | None:
        import anthropic  # noqa: PLC0415 - loaded with the client

        if not isinstance(error, anthropic.APIStatusError):
            return None
        return Fault(
            type_of_refusal(_type_of(error_in(error.body)), error.status_code),
            self._refusal_text(error_text_in(error.body), error.response),
            retryable=may_be_sent_again(error.status_code, error.response.headers),
            wait=requested_wait(error.response.headers),
        )


class ClaudeReader:
    """Passes the events of an answer to a message decoder."""

    has_ended = False
    """False: nothing may be missing after the stop reason."""

    def __init__(self, message: MessageDecoder) -> None:
        self._message = message

    @property
    def is_complete(self) -> bool:
        """Whether the message is complete."""
        return self._message.complete

    def take(self, name: str, data: bytes) -> None:
        """Take in the next event.

        Raises:
            Fault: it reports an error.
            MalformedEventError: it cannot be read.
        """
        event = wire_event(name, data)
        if event is not None:
            self._take(event)

    def whole(self, body: bytes) -> None:
        """Take in an answer that was not streamed; raises as `take` does, and a `Fault` if it is not complete."""
        for event in events_of_whole_message(body):
            self._take(event)
        if not self._message.complete:
            told = "the API answered with a message that gives no reason for its end"
            raise Fault("incomplete_stream", told)

    def end(self) -> None:
        """Raise `Fault`: the stream broke off before the end of the answer."""
        raise Fault("incomplete_stream", "the stream ended before the message was complete")

    def _take(self, event: WireEvent) -> None:
        if event.type == ERROR:
            error_type = _type_of(event.error) or "api_error"
            raise Fault(error_type, error_text_in(event.error) or error_type)
        self._message.take(event)


def _type_of(error: object) -> str | None:
    """Return the type of an error as the API names it, if it does; gateways may send other values, or only text."""
    kind = error.get("type") if is_json_object(error) else None
    return kind if isinstance(kind, str) else None
