"""The HTTP client of both APIs, shared by all drivers of a provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reenact.actors.environment.failures import type_of_refusal
from reenact.actors.environment.openai.answer import FILTERED, fault_of
from reenact.actors.environment.wire.client import ApiClient, Response, check_installed
from reenact.actors.environment.wire.endpoint import CONNECT_SECONDS, Api, checked_key, checked_url
from reenact.actors.environment.wire.faults import Fault, error_in, error_text_in, may_be_sent_again, requested_wait

if TYPE_CHECKING:
    from openai import AsyncOpenAI, Omit

OPENAI = Api(
    name="OpenAI",
    url="https://api.openai.com/v1",
    key_from="OpenAIProvider(api_key=…)",
    key_variable="OPENAI_API_KEY",
    url_variable="OPENAI_BASE_URL",
)
PATH = "/v1"
"""The path of the API at an address that has none."""
_UNSENT = (
    "X-Stainless-Lang",
    "X-Stainless-Package-Version",
    "X-Stainless-OS",
    "X-Stainless-Arch",
    "X-Stainless-Runtime",
    "X-Stainless-Runtime-Version",
    "X-Stainless-Async",
    "X-Stainless-Retry-Count",
    "X-Stainless-Read-Timeout",
    "OpenAI-Organization",
    "OpenAI-Project",
)
"""Headers in which the SDK would send details of the machine and of its environment variables."""


class OpenAIClient(ApiClient["AsyncOpenAI"]):
    """Makes an `AsyncOpenAI` for each loop that needs one, and closes it when it is disposed of or the loop ends.

    A server of one's own needs no key; then none is sent.

    Raises:
        MissingExtraError: the extra `openai` is not installed.
        ConfigurationError: there is no API key for OpenAI, or it is not a valid one; the address is not valid, or that
            of a
        proxy in an environment variable; the certificates that a variable names cannot be read.
    """

    def __init__(self, base_url: str | None, api_key: str | None, timeout: float) -> None:
        check_installed("openai", "OpenAI", "openai")
        key = checked_key(api_key, OPENAI) if api_key or base_url is None else ""
        url = checked_url(base_url, OPENAI)
        with_path = url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}{PATH}"
        super().__init__(url=with_path, key=key, timeout=timeout)

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI's own server, or its models at Azure, which know the newer names of some fields."""
        host = urlsplit(self._url).hostname or ""
        return host.endswith((".openai.com", ".azure.com"))

    def _new_client(self) -> AsyncOpenAI:
        import openai  # noqa: PLC0415 - half a second, spent only where it is used

        return openai.AsyncOpenAI(
            api_key=self._key,
            base_url=self._url,
            timeout=openai.Timeout(self._timeout, connect=min(CONNECT_SECONDS, self._timeout)),
            max_retries=0,
            _enforce_credentials=False,
        )

    @asynccontextmanager
    async def _post(self, client: AsyncOpenAI, path: str, request: Mapping[str, object]) -> AsyncGenerator[Response]:
        import openai  # noqa: PLC0415 - loaded with the client

        stream = await client.post(
            path,
            cast_to=object,
            body=request,
            options={"headers": self._headers(), "follow_redirects": False},
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )
        async with stream:
            yield stream.response

    def _headers(self) -> dict[str, str | Omit]:
        import openai  # noqa: PLC0415 - loaded with the client

        unsent = openai.Omit()
        key = f"Bearer {self._key}" if self._key else unsent
        return {**dict.fromkeys(_UNSENT, unsent), "Authorization": key}

    def _refusal(self, error: Exception) -> Fault | None:
        import openai  # noqa: PLC0415 - loaded with the client

        if not isinstance(error, openai.APIStatusError):
            return None
        named = fault_of(error_in(error.body)).error_type
        is_final = named in {"billing_error", FILTERED}
        return Fault(
            named if is_final else type_of_refusal(None, error.status_code),
            self._refusal_text(error_text_in(error.body), error.response),
            retryable=may_be_sent_again(error.status_code, error.response.headers) and not is_final,
            wait=requested_wait(error.response.headers),
        )
