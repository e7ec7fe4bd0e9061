"""The HTTP client of the Messages API, shared by all drivers of a factory, and checks of where it is reached."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import importlib.util
import os
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from reenact.actors.environment.api import LLMConfig
from reenact.actors.environment.claude.decode import MessageDecoder
from reenact.actors.environment.claude.request import SAMPLING
from reenact.actors.environment.claude.stream import (
    ApiError,
    MalformedEventError,
    SseDecoder,
    WireEvent,
    is_json_object,
    whole_message,
    wire_event,
)
from reenact.actors.environment.failures import RETRYABLE, type_of, type_of_refusal
from reenact.domain.errors import MissingExtraError

if TYPE_CHECKING:
    from anthropic import APIStatusError, AsyncAnthropic, RequestOptions
import importlib
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from reenact.domain.errors import ConfigurationError

_MESSAGES = "/v1/messages"
_COUNT = "/v1/messages/count_tokens"
_SAMPLING_VERSION = {"anthropic-version": "2023-06-01"}
"""The last version of the API that takes `temperature`, `top_p` and `top_k`; the SDK sends a later one."""
RETRYABLE_STATUS = frozenset({408, 409, 429})
LONGEST_WAIT = 60.0
"""The longest that a `retry-after` is obeyed, in seconds."""

_DRAIN_SECONDS = 1.0
_FIRST_WAIT = 0.5
_LONGEST_OWN_WAIT = 8.0
_SERVER_ERROR = 500
_MILLISECONDS = 1000


class Fault(Exception):
    """A request failed: why, whether it may be sent again, and how long the server asks to wait, in seconds."""

    def __init__(self, error_type: str, message: str, *, again: bool, wait: float | None = None) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message
        self.again = again
        self.wait = wait

    @property
    def is_about_thoughts(self) -> bool:
        """Whether it is the thoughts in the conversation that the API does not accept.

        They are bound to what they were thought after, and to the model; the API tells that only in words.
        """
        return self.error_type == "invalid_request_error" and "`thinking`" in self.message


class ClaudeClient:
    """Makes an `AsyncAnthropic` for the loop that asks for it, and closes it when it is disposed of or the loop ends.

    Raises:
        MissingExtraError: the extra `claude` is not installed.
        ConfigurationError: there is no API key, or it can be none; nothing can be at the address, or no proxy where a
            variable says; the certificates that a variable names cannot be read.
    """

    def __init__(self, config: LLMConfig) -> None:
        if importlib.util.find_spec("anthropic") is None:  # not imported: that takes half a second
            raise MissingExtraError("Claude", "claude", "no module named 'anthropic'")
        self._config = config
        self._key = checked_key(config.api_key)
        self._url = checked_url(config.base_url)
        check_way(self._url, os.environ)
        self._live: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncAnthropic, asyncio.Task[None]]]
        self._live = WeakKeyDictionary()

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

    def dispose(self) -> None:
        """Close the connections. Idempotent; may be called from any thread."""
        for loop, (_, keeper) in list(self._live.items()):
            del self._live[loop]
            with contextlib.suppress(RuntimeError):  # the loop has ended, and has ended its tasks
                loop.call_soon_threadsafe(_cancel_next, keeper)

    def without_key(self, text: str) -> str:
        """Return the text without the API key, should it be in there."""
        return text.replace(self._key, "…")

    def _connected(self) -> AsyncAnthropic:
        loop = asyncio.get_running_loop()
        if loop not in self._live:
            client = self._made()
            self._live[loop] = client, asyncio.create_task(_keep(client))
            return client
        return self._live[loop][0]

    def _made(self) -> AsyncAnthropic:
        import anthropic  # noqa: PLC0415 - half a second that only those pay who talk to Claude

        return anthropic.AsyncAnthropic(
            api_key=self._key,
            base_url=self._url,
            timeout=anthropic.Timeout(self._config.timeout, connect=min(CONNECT_SECONDS, self._config.timeout)),
            max_retries=0,
            default_headers={"anthropic-beta": ",".join(self._config.betas)} if self._config.betas else {},
        )

    @contextlib.contextmanager
    def _faults(self) -> Generator[None]:
        """Make faults of what the SDK, its HTTP library and the reading of an answer raise."""
        import anthropic  # noqa: PLC0415 - loaded with the client

        try:
            yield
        except anthropic.APIStatusError as error:
            raise _refusal(error, shown(self._url)) from error
        except MalformedEventError as error:
            raise Fault("api_error", str(error), again=True) from error
        except Exception as error:
            error_type = type_of(error)
            if error_type not in RETRYABLE:
                raise  # also what is a fault already
            is_silent = error_type == "timeout_error"
            told = silence(self._url, self._config.timeout, error) if is_silent else disconnection(self._url, error)
            raise Fault(error_type, told, again=True) from error


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
            await _drain(chunks)
            return
    if decoder.body:
        _take_whole(decoder.body, message)
        return
    raise Fault("incomplete_stream", "the stream ended before the message was complete", again=True)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the little that is left, so that the connection can be used again; if it does not come, never mind."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in chunks:
                pass


async def _keep(client: AsyncAnthropic) -> None:
    """Keep the client until this task is cancelled, then close it."""
    async with client:
        await asyncio.get_running_loop().create_future()


def _cancel_next(keeper: asyncio.Task[None]) -> None:
    """Cancel the task after the step that it may be about to take: before its first one it would not close anything."""
    asyncio.get_running_loop().call_soon(keeper.cancel)


def _refusal(error: APIStatusError, where: str) -> Fault:
    headers = error.response.headers
    said = error.api_message or f"{where} answered with status {error.status_code}"
    if error.response.has_redirect_location:
        said += f" and sends requests on to {shown(headers['location'])}, where the key is not sent"
    return Fault(
        type_of_refusal(error.type, error.status_code),
        said,
        again=may_be_sent_again(error.status_code, headers),
        wait=wait_asked_for(headers),
    )


def may_be_sent_again(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether a request that was answered like this may be sent again; the server has the last word."""
    verdict = headers.get("x-should-retry")
    if verdict in {"true", "false"}:
        return verdict == "true"
    return status in RETRYABLE_STATUS or status >= _SERVER_ERROR


def wait_asked_for(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that `retry-after-ms` or `retry-after` (seconds or a date) asks to wait, if one does."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / _MILLISECONDS
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - now())


def backoff(attempt: int, asked_for: float | None, chance: float) -> float:
    """Return the seconds to wait before sending a request again that failed for the `attempt`-th time, from 0.

    Twice as long each time, up to a limit, shortened by up to a half by `chance` (0 to 1), so that many that failed
    together do not come back together; but never less than was asked for, up to a minute.
    """
    own: float = min(_FIRST_WAIT * 2**attempt, _LONGEST_OWN_WAIT) * (1 - chance / 2)
    return max(own, min(asked_for or 0.0, LONGEST_WAIT))


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < float("inf") else None


DEFAULT_BASE_URL = "https://api.anthropic.com"
CONNECT_SECONDS = 10.0
_SCHEMES = frozenset({"http", "https"})
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_SCHEMES_OF_PROXIES = _SCHEMES | {"socks5", "socks5h"}
_CERTIFICATES = "SSL_CERT_FILE"
_HOST = re.compile(r"([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")
_WRONG_IN_KEYS = re.compile(r"\A | \Z|[^ -~]")


def checked_key(key: str | None) -> str:
    """Return the key, which travels in a header.

    Raises:
        ConfigurationError: there is none, or it has a character that no header takes; the message has none of it.
    """
    if key is None or not key.strip():
        raise ConfigurationError(
            "Claude needs an API key: LLMConfig(api_key=…), or ANTHROPIC_API_KEY on the command line"
        )
    if wrong := _WRONG_IN_KEYS.search(key):
        what = "a blank or a line end" if wrong[0].isspace() else "a character that is not ASCII, or is invisible"
        place = f"place {wrong.start() + 1} of {len(key)}"
        raise ConfigurationError(f"the API key has {what} at {place}, as no key has; copy it again (ANTHROPIC_API_KEY)")
    return key


def checked_url(url: str | None) -> str:
    """Return the address of the API; that of Anthropic if none is given.

    Raises:
        ConfigurationError: nothing can be at that address.
    """
    if url is None:
        return DEFAULT_BASE_URL
    if not _is_address(url, _SCHEMES) or not url.isprintable() or " " in url:
        raise ConfigurationError(
            f"the API cannot be at {shown(url)!r}: an address is like {DEFAULT_BASE_URL} or http://localhost:8080 "
            "(base_url, or ANTHROPIC_BASE_URL on the command line)"
        )
    return url


def check_way(url: str, environ: Mapping[str, str]) -> None:
    """See to the variables that say how the HTTP library is to reach the address.

    Raises:
        ConfigurationError: no proxy can be where one says, or the certificates that one names cannot be read.
    """
    for name in _PROXIES:
        for variable in (name.lower(), name.upper()):
            proxy = environ.get(variable, "").strip()
            if proxy and not _is_address(proxy if "://" in proxy else f"http://{proxy}", _SCHEMES_OF_PROXIES):
                raise ConfigurationError(
                    f"no proxy can be at {shown(proxy)!r} ({variable}): an address is like http://proxy.example:3128"
                )
    if url.startswith("https:"):
        _check_certificates(environ)


def _check_certificates(environ: Mapping[str, str]) -> None:
    path = environ.get(_CERTIFICATES)
    if not path:
        return
    ssl = importlib.import_module("ssl")  # which takes a while, and is needed by few
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except OSError as error:  # also that of `ssl`
        why = "they are no certificates" if isinstance(error, ssl.SSLError) else error.strerror or str(error)
        raise ConfigurationError(f"the certificates in {path} cannot be read ({_CERTIFICATES}): {why}") from error


def _is_address(url: str, schemes: frozenset[str]) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and _is_host(parts.hostname or "") and parts.port != 0
    except ValueError:  # a port, a bracket, or an IPv6 address that is none
        return False


def _is_host(host: str) -> bool:
    """Return whether there may be a host of this name, or with this address."""
    if ":" in host:
        return True  # an IPv6 address, which `urlsplit` has checked
    try:
        name = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return False
    return bool(_HOST.fullmatch(name))


def shown(url: str) -> str:
    """Return the address without what may be secret in it: a password, a query."""
    beginning, slashes, rest = url.partition("//")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    return f"{beginning}{slashes}{host}{slash}{path}".partition("?")[0].partition("#")[0]


def silence(url: str, seconds: float, error: BaseException) -> str:
    """Return in words that the limit of `seconds` has passed without a byte; it is another one while connecting."""
    if any(type(one).__name__ == "ConnectTimeout" for one in _chain(error)):
        return f"{shown(url)} could not be reached within {min(CONNECT_SECONDS, seconds):g} s"
    return f"nothing came from {shown(url)} for {seconds:g} s"


def disconnection(url: str, error: BaseException) -> str:
    """Return in words that there was no connection, or no whole answer on it, and why."""
    chain = list(_chain(error))
    kinds = {type(one).__name__ for one in chain}
    what = f"the connection to {shown(url)} failed"
    if "DecodingError" in kinds:
        what = f"the answer of {shown(url)} cannot be unpacked"
    elif "ConnectError" in kinds:
        what = f"{shown(url)} cannot be reached"
    elif "RemoteProtocolError" in kinds:
        what = f"what answers at {shown(url)} broke off, or speaks no HTTP"
    return f"{what}: {_reason(chain)}"


def _reason(chain: list[BaseException]) -> str:
    """Return what the system says, if it was asked, else what was said last by who has something to say."""
    for one in reversed(chain):
        if isinstance(one, ConnectionError) and one.errno:
            return os.strerror(one.errno)
        if isinstance(one, OSError) and one.strerror:
            return one.strerror
    said = [one for one in chain if str(one)]
    return str(said[-1]) if said else type(chain[-1]).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and what it came from; of several that came together, the first."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        several: tuple[BaseException, ...] = getattr(one, "exceptions", ())
        one = several[0] if several else one.__cause__ or one.__context__
