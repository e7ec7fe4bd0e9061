"""What the HTTP clients of all APIs do alike: one SDK client per event loop, faults instead of what it raises."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from reenact.actors.environment.failures import RETRYABLE, type_of
from reenact.actors.environment.wire.endpoint import check_way, disconnection, shown, silence
from reenact.actors.environment.wire.faults import Fault
from reenact.actors.environment.wire.stream import MalformedEventError, SseDecoder
from reenact.domain.errors import MissingExtraError

Sdk = TypeVar("Sdk", bound=AbstractAsyncContextManager[object])

_SHORTEST_SECRET = 6
_DRAIN_SECONDS = 1.0
_LINGER_SECONDS = 2.0
"""How long is waited for what was used, once it is known why an answer has ended."""


class Response(Protocol):
    """A response as both SDKs have it."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def status_code(self) -> int: ...
    @property
    def has_redirect_location(self) -> bool: ...
    def aiter_bytes(self) -> AsyncIterator[bytes]: ...
    async def aread(self) -> bytes: ...


class Reader(Protocol):
    """Takes in an answer, event by event or whole. It `has_ended` when what is still missing is only what was used."""

    @property
    def is_complete(self) -> bool: ...
    @property
    def has_ended(self) -> bool: ...
    def take(self, name: str, data: bytes, /) -> None: ...
    def whole(self, body: bytes) -> None: ...
    def end(self) -> None: ...


class ApiClient(ABC, Generic[Sdk]):
    """Makes a client of an SDK for the loop that asks for it, and closes it when it is disposed of or the loop ends.

    Raises:
        MissingExtraError: the SDK is not installed.
        ConfigurationError: there is no proxy where a variable says; the certificates that a variable names cannot be
            read.
    """

    _kind = "an API"

    def __init__(self, *, url: str, key: str, timeout: float) -> None:
        check_way(url, os.environ)
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
        """Send the request, let the reader take in the answer, and return when that is complete.

        An answer that comes whole, as some proxies send it, is taken in like a stream, whatever either is labelled as.

        Raises:
            Fault: there is no answer, or no whole one.
        """
        client = self._connected()
        with self._faults():
            async with self._posted(client, path, request) as response:
                if response.headers.get("content-type", "").startswith("text/html"):
                    told = f"what answers at {shown(self._url)} is not {self._kind}: it sends a page for a browser"
                    raise Fault("api_error", told, again=True)
                await _read(response.aiter_bytes(), reader)

    def without_key(self, text: str) -> str:
        """Return the text without the API key, should it be in there; a key of a few letters stands in any text."""
        return text.replace(self._key, "…") if len(self._key) >= _SHORTEST_SECRET else text

    def _connected(self) -> Sdk:
        loop = asyncio.get_running_loop()
        if loop not in self._live:
            client = self._made()
            self._live[loop] = client, asyncio.create_task(_keep(client))
            return client
        return self._live[loop][0]

    @abstractmethod
    def _made(self) -> Sdk:
        """Return a new client of the SDK, which is imported here: that takes half a second."""

    @abstractmethod
    def _posted(self, client: Sdk, path: str, request: Mapping[str, object]) -> AbstractAsyncContextManager[Response]:
        """Send the request, and lend what is answered; redirects are not followed: they would take the key along."""

    @abstractmethod
    def _refusal(self, error: Exception) -> Fault | None:
        """Return the fault, if the error says that the API refused the request."""

    @contextlib.contextmanager
    def _faults(self) -> Generator[None]:
        """Make faults of what the SDK, its HTTP library and the reading of an answer raise."""
        try:
            yield
        except MalformedEventError as error:
            raise Fault("api_error", str(error), again=True) from error
        except RecursionError as error:
            raise Fault("api_error", "the answer cannot be read: it is nested too deeply", again=True) from error
        except Exception as error:
            refusal = self._refusal(error)
            if refusal is not None:
                raise refusal from error
            error_type = type_of(error)
            if error_type not in RETRYABLE:
                raise  # also what is a fault already
            is_silent = error_type == "timeout_error"
            told = silence(self._url, self._timeout, error) if is_silent else disconnection(self._url, error)
            raise Fault(error_type, told, again=True) from error

    def _told(self, said: str, response: Response) -> str:
        """Return what a refusal says, or that there was one; and where a redirect leads, which is not followed."""
        told = said or f"{shown(self._url)} answered with status {response.status_code}"
        if response.has_redirect_location:
            told += f" and sends requests on to {shown(response.headers['location'])}, where the key is not sent"
        return told


def check_installed(module: str, what: str, extra: str) -> None:
    """Raise `MissingExtraError` if the module is not there; it is not imported, for that takes half a second."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(what, extra, f"no module named {module!r}")


async def _read(chunks: AsyncIterator[bytes], reader: Reader) -> None:
    decoder = SseDecoder()
    with _little_left(reader):
        async with asyncio.timeout(None) as limit:
            async for chunk in chunks:
                for name, data in decoder.feed(chunk):
                    reader.take(name, data)
                if reader.is_complete:
                    break
                if reader.has_ended and limit.when() is None:
                    limit.reschedule(asyncio.get_running_loop().time() + _LINGER_SECONDS)
    if reader.is_complete:
        with contextlib.suppress(Exception):  # the little that is left, so that the connection can be used again
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in chunks:
                    pass
    elif decoder.body and not reader.has_ended:
        reader.whole(decoder.body)
    else:
        reader.end()


@contextlib.contextmanager
def _little_left(reader: Reader) -> Generator[None]:
    """Forget what goes wrong when the answer is there, and only what was used for it is not."""
    try:
        yield
    except Exception:
        if not reader.has_ended or reader.is_complete:
            raise


async def _keep(client: AbstractAsyncContextManager[object]) -> None:
    """Keep the client until this task is cancelled, then close it."""
    async with client:
        await asyncio.get_running_loop().create_future()


def _cancel_next(keeper: asyncio.Task[None]) -> None:
    """Cancel the task after the step that it may be about to take: before its first one it would not close anything."""
    asyncio.get_running_loop().call_soon(keeper.cancel)
