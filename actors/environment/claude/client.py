"""The HTTP client of the Messages API, shared by all drivers of a factory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from reenact.actors.environment.api import LLMConfig
from reenact.actors.environment.claude.request import SAMPLING
from reenact.actors.environment.failures import RETRYABLE, type_of_refusal
from reenact.actors.environment.received_json import is_json_object
from reenact.actors.environment.wire.client import ApiClient, Response, check_installed
from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.actors.environment.wire.endpoint import CONNECT_SECONDS, Api, checked_key, checked_url
from reenact.actors.environment.wire.faults import Fault, error_in, error_text_in, may_be_sent_again, requested_wait
from reenact.actors.environment.wire.stream import ERROR, WireEvent, events_of_whole_message, wire_event

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

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
            in
        an environment variable; the certificates that a variable names cannot be read.
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
            raise Fault("incomplete_stream", told, retryable=True)

    def end(self) -> None:
        """Raise `Fault`: the stream broke off before the end of the answer."""
        raise Fault("incomplete_stream", "the stream ended before the message was complete", retryable=True)

    def _take(self, event: WireEvent) -> None:
        if event.type == ERROR:
            error_type = _type_of(event.error) or "api_error"
            raise Fault(error_type, error_text_in(event.error) or error_type, retryable=error_type in RETRYABLE)
        self._message.take(event)


def _type_of(error: object) -> str | None:
    """Return the type of an error as the API names it, if it does; gateways may send other values, or only text."""
    kind = error.get("type") if is_json_object(error) else None
    return kind if isinstance(kind, str) else None
