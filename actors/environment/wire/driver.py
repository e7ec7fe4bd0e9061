"""Drivers of models over HTTP, which send a request again until any of its answer is reported, and their clients."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from reenact.actors.environment.api import Interruptible, OnEvent
from reenact.actors.environment.failures import RETRYABLE, Fault, backoff, failure, type_of
from reenact.actors.environment.tools.running import wait_for_cancellation
from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.actors.environment.wire.endpoint import (
    check_network_variables,
    connection_failure_message,
    shown_url,
    timeout_message,
)
from reenact.actors.environment.wire.stream import MalformedEventError, SseDecoder
from reenact.domain.conversation import Conversation
from reenact.domain.errors import MissingExtraError
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


Sdk = TypeVar("Sdk", bound=AbstractAsyncContextManager[object])

_SHORTEST_SECRET = 6
_DRAIN_SECONDS = 1.0
_LINGER_SECONDS = 2.0
"""How many seconds to wait for the usage once the reason for the end of an answer has arrived."""


class Response(Protocol):
    """A response, as both SDKs have it."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def status_code(self) -> int: ...
    @property
    def has_redirect_location(self) -> bool: ...
    def aiter_bytes(self) -> AsyncIterator[bytes]: ...


class Reader(Protocol):
    """Takes in an answer, event by event or whole; when it `has_ended`, only the usage may still be missing."""

    @property
    def is_complete(self) -> bool: ...
    @property
    def has_ended(self) -> bool: ...
    def take(self, name: str, data: bytes, /) -> None: ...
    def whole(self, body: bytes) -> None: ...
    def end(self) -> None: ...


class ApiClient(ABC, Generic[Sdk]):
    """Makes an SDK client for each loop that needs one, and closes it when it is disposed of or the loop ends.

    Raises:
        MissingExtraError: the SDK is not installed.
        ConfigurationError: the address of a proxy in an environment variable is not valid; the certificates that a
            variable names cannot be read.
    """

    _kind = "an API"

    def __init__(self, *, url: str, key: str, timeout: float) -> None:
        check_network_variables(os.environ)
        self._url = url
        self._key = key
        self._timeout = timeout
        self._live: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Sdk, asyncio.Task[None]]]
        self._live = WeakKeyDictionary()

    def dispose(self) -> None:
        """Close the connections. Idempotent; may be called from any thread."""
        for loop, (_, keeper) in list(self._live.items()):
            del self._live[loop]
            with contextlib.suppress(RuntimeError):  # the loop has ended, and has ended its tasks
                loop.call_soon_threadsafe(_cancel_next, keeper)

    async def stream(self, path: str, request: Mapping[str, object], reader: Reader) -> None:
        """Send the request, pass the answer to the reader, and return when it is complete.

        An answer that arrives whole, as some proxies send it, is accepted as well, whatever its content type says.

        Raises:
            Fault: there is no answer, or an incomplete one.
        """
        client = self._connected()
        with self._faults():
            async with self._post(client, path, request) as response:
                if response.headers.get("content-type", "").startswith("text/html"):
                    told = f"what answers at {shown_url(self._url)} is not {self._kind}: it sends a page for a browser"
                    raise Fault("api_error", told)
                await _read(response.aiter_bytes(), reader)

    def without_key(self, text: str) -> str:
        """Return the text with the API key removed, if it is long enough not to occur in ordinary text."""
        return text.replace(self._key, "…") if len(self._key) >= _SHORTEST_SECRET else text

    def _connected(self) -> Sdk:
        loop = asyncio.get_running_loop()
        if loop not in self._live:
            client = self._new_client()
            self._live[loop] = client, asyncio.create_task(_close_when_cancelled(client))
            return client
        return self._live[loop][0]

    @abstractmethod
    def _new_client(self) -> Sdk:
        """Return a new SDK client; the SDK is imported here, because that takes half a second."""

    @abstractmethod
    def _post(self, client: Sdk, path: str, request: Mapping[str, object]) -> AbstractAsyncContextManager[Response]:
        """Send the request, and yield the response; redirects are not followed, because they would forward the key."""

    @abstractmethod
    def _refusal(self, error: Exception) -> Fault | None:
        """Return the fault, if the error says that the API has refused the request."""

    @contextlib.contextmanager
    def _faults(self) -> Generator[None]:
        """Turn exceptions of the SDK, of its HTTP library and of the parsing of an answer into faults."""
        try:
            yield
        except MalformedEventError as error:
            raise Fault("api_error", str(error)) from error
        except RecursionError as error:
            raise Fault("api_error", "the answer cannot be read: it is nested too deeply") from error
        except Exception as error:
            refusal = self._refusal(error)
            if refusal is not None:
                raise refusal from error
            error_type = type_of(error)
            if error_type not in RETRYABLE:
                raise  # this includes faults
            is_silent = error_type == "timeout_error"
            told = (
                timeout_message(self._url, self._timeout, error)
                if is_silent
                else connection_failure_message(self._url, error)
            )
            raise Fault(error_type, told) from error

    def _refusal_text(self, said: str, response: Response) -> str:
        """Return the text of a refusal, or its status if it has none; with the target of a redirect, if it is one."""
        told = said or f"{shown_url(self._url)} answered with status {response.status_code}"
        if response.has_redirect_location:
            told += f" and sends requests on to {shown_url(response.headers['location'])}, where the key is not sent"
        return told


def check_installed(module: str, what: str, extra: str) -> None:
    """Raise `MissingExtraError` if the module is not installed; it is not imported, as that takes half a second."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(what, extra, f"no module named {module!r}")


async def _read(chunks: AsyncIterator[bytes], reader: Reader) -> None:
    decoder = SseDecoder()
    with _ignoring_lost_usage(reader):
        async with asyncio.timeout(None) as limit:
            async for chunk in chunks:
                for name, data in decoder.feed(chunk):
                    reader.take(name, data)
                if reader.is_complete:
                    break
                if reader.has_ended and limit.when() is None:
                    limit.reschedule(asyncio.get_running_loop().time() + _LINGER_SECONDS)
    if reader.is_complete:
        with contextlib.suppress(Exception):  # read the rest, so that the connection can be used again
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in chunks:
                    pass
    elif decoder.body and not reader.has_ended:
        reader.whole(decoder.body)
    else:
        reader.end()


@contextlib.contextmanager
def _ignoring_lost_usage(reader: Reader) -> Generator[None]:
    """Ignore an error that occurs when the answer has arrived, and only its usage is missing."""
    try:
        yield
    except Exception:
        if not reader.has_ended or reader.is_complete:
            raise


async def _close_when_cancelled(client: AbstractAsyncContextManager[object]) -> None:
    """Keep the client until this task is cancelled, then close it."""
    async with client:
        await wait_for_cancellation()


def _cancel_next(keeper: asyncio.Task[None]) -> None:
    """Cancel the task in the loop's next iteration; cancelled before its first step it would not close the client."""
    asyncio.get_running_loop().call_soon(keeper.cancel)
