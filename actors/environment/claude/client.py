"""The HTTP client of the Messages API, shared by all drivers of a factory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from reenact.actors.environment.api import LLMConfig
from reenact.actors.environment.claude.request import SAMPLING
from reenact.actors.environment.failures import RETRYABLE, type_of_refusal
from reenact.actors.environment.wire.client import ApiClient, check_installed, drain
from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.actors.environment.wire.endpoint import CONNECT_SECONDS, Api, checked_key, checked_url, shown
from reenact.actors.environment.wire.faults import Fault, may_be_sent_again, wait_asked_for
from reenact.actors.environment.wire.stream import (
    ApiError,
    SseDecoder,
    WireEvent,
    is_json_object,
    whole_message,
    wire_event,
)

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, RequestOptions

CLAUDE = Api(
    name="Claude",
    url="https://api.anthropic.com",
    key_from="LLMConfig(api_key=…)",
    key_variable="ANTHROPIC_API_KEY",
    url_variable="ANTHROPIC_BASE_URL",
)
_MESSAGES = "/v1/messages"
_COUNT = "/v1/messages/count_tokens"
_SAMPLING_VERSION = {"anthropic-version": "2023-06-01"}
"""The last version of the API that takes `temperature`, `top_p` and `top_k`; the SDK sends a later one."""


class ClaudeClient(ApiClient["AsyncAnthropic"]):
    """Makes an `AsyncAnthropic` for the loop that asks for it, and closes it when it is disposed of or the loop ends.

    Raises:
        MissingExtraError: the extra `claude` is not installed.
        ConfigurationError: there is no API key, or it can be none; nothing can be at the address, or no proxy where a
            variable says; the certificates that a variable names cannot be read.
    """

    def __init__(self, config: LLMConfig) -> None:
        check_installed("anthropic", "Claude", "claude")
        self._config = config
        key = checked_key(config.api_key, CLAUDE)
        super().__init__(url=checked_url(config.base_url, CLAUDE), key=key, timeout=config.timeout)

    async def stream(self, request: dict[str, object], message: MessageDecoder) -> None:
        """Send the request, let the message take in the answer, and return when that is complete.

        An answer that comes whole, as some proxies send it, is taken in like a stream.

        Raises:
            Fault: there is no answer, or no whole one.
        """
        client = self._connected()
        import anthropic  # noqa: PLC0415 - loaded with the client

        with self._faults():
            stream = await client.post(
                _MESSAGES,
                cast_to=object,
                body=request,
                options=_options(request),
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
            )
            async with stream:
                kind: str = stream.response.headers.get("content-type", "")
                if kind.startswith("application/json"):
                    _take_whole(await stream.response.aread(), message)
                elif kind.startswith("text/html"):
                    raise Fault(
                        "api_error",
                        f"what answers at {shown(self._url)} is no Messages API: it sends a page for a browser",
                        again=True,
                    )
                else:
                    await _read(stream.response.aiter_bytes(), message)

    async def count(self, request: dict[str, object]) -> int:
        """Return how many input tokens a request has.

        Raises:
            Fault: there is no answer, or none that can be read.
        """
        client = self._connected()
        with self._faults():
            answer = await client.post(
                _COUNT,
                cast_to=object,
                body=request,
                options=_options(request),
            )
        count = answer.get("input_tokens") if is_json_object(answer) else None
        if not isinstance(count, int):
            raise Fault("api_error", f"the API answered with {answer!r:.200}, not with a number of tokens", again=True)
        return count

    def _made(self) -> AsyncAnthropic:
        import anthropic  # noqa: PLC0415 - half a second that only those pay who talk to Claude

        return anthropic.AsyncAnthropic(
            api_key=self._key,
            base_url=self._url,
            timeout=anthropic.Timeout(self._timeout, connect=min(CONNECT_SECONDS, self._timeout)),
            max_retries=0,
            default_headers={"anthropic-beta": ",".join(self._config.betas)} if self._config.betas else {},
        )

    def _refusal(self, error: Exception) -> Fault | None:
        import anthropic  # noqa: PLC0415 - loaded with the client

        if not isinstance(error, anthropic.APIStatusError):
            return None
        return Fault(
            type_of_refusal(error.type, error.status_code),
            self._told(error.api_message, error.response),
            again=may_be_sent_again(error.status_code, error.response.headers),
            wait=wait_asked_for(error.response.headers),
        )


def _options(request: dict[str, object]) -> RequestOptions:
    """Return the options of the request; redirects are not followed, for they would take the key with them."""
    return {"headers": _SAMPLING_VERSION if request.keys() & SAMPLING else {}, "follow_redirects": False}


def _take_whole(body: bytes, message: MessageDecoder) -> None:
    for event in whole_message(body):
        _take(event, message)
    if not message.complete:
        raise Fault("incomplete_stream", "the API answered with a message that gives no reason for its end", again=True)


def _take(event: WireEvent, message: MessageDecoder) -> None:
    if event.type == "error":
        error = event.error or ApiError()
        raise Fault(error.type, error.message or error.type, again=error.type in RETRYABLE)
    message.take(event)


async def _read(chunks: AsyncIterator[bytes], message: MessageDecoder) -> None:
    decoder = SseDecoder()
    async for chunk in chunks:
        for name, data in decoder.feed(chunk):
            event = wire_event(name, data)
            if event is not None:
                _take(event, message)
        if message.complete:
            await drain(chunks)
            return
    if decoder.body:
        _take_whole(decoder.body, message)
        return
    raise Fault("incomplete_stream", "the stream ended before the message was complete", again=True)
