"""The state that the parts of a server share: its access rules, and the threads that carry out requests."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from reenact._version import version
from reenact.actors.api.requests import context_of
from reenact.actors.envelopes import enveloped, is_response, passing_id
from reenact.actors.feed.hub import Feed
from reenact.actors.journal.api import Entry
from reenact.actors.kernel.timetable import microseconds
from reenact.domain.errors import ConfigurationError, ReenactError, RuntimeClosedError
from reenact.domain.operations.images import check_from_afar
from reenact.domain.operations.table import RESPONSES, CommandError, Response, refusal_of
from reenact.domain.stream.events import Envelope
from reenact.server.answers import LARGE, READS
from reenact.server.limits import Counts, Limits, Unread

SHORTEST = 16
"""The least number of characters of a token."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_TOKEN = re.compile(r"[\x21-\x7e]+")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s]+")
_OPEN_TO_OTHERS = 0o066


@dataclass(frozen=True)
class Hosts:
    """The host names and addresses that requests may use for the server, without the port.

    A page elsewhere can have its own name point here (DNS rebinding), but it cannot choose the name in the request.
    """

    names: frozenset[str] = LOOPBACK
    any_address: bool = False
    any_name: bool = False


class Access:
    """Decides which requests may use the server, by token, origin and host.

    Raises:
        ConfigurationError: a token or an origin is not valid.
    """

    def __init__(self, tokens: Collection[str], origins: Collection[str], hosts: Hosts) -> None:
        self._tokens = tuple(_digest(check_token(token)) for token in tokens)
        self._origins = frozenset(_check_origin(origin) for origin in origins)
        self._hosts = hosts

    @property
    def needs_token(self) -> bool:
        """Whether a token is required."""
        return bool(self._tokens)

    def knows(self, token: str | None) -> bool:
        """Return whether the token is valid; the time that this takes reveals nothing about the valid tokens."""
        given = _digest(token or "")
        found = [hmac.compare_digest(given, known) for known in self._tokens]
        return not self._tokens or any(found)

    def lists(self, origin: str) -> bool:
        """Return whether pages of this origin are explicitly allowed."""
        return origin.lower() in self._origins

    def allows(self, origin: str | None, host: str) -> bool:
        """Return whether a request with this origin may be answered; requests of programs have none."""
        if origin is None or self.lists(origin):
            return True
        scheme, _, rest = origin.lower().partition("://")
        return scheme in ("http", "https") and rest == host.lower()

    def serves(self, host: str) -> bool:
        """Return whether this `Host` header names the server."""
        hosts, name = self._hosts, _host_name(host)
        return hosts.any_name or name in hosts.names or (hosts.any_address and _address(name) is not None)


def check_token(token: str) -> str:
    """Return the token, or raise `ConfigurationError` if it is not valid."""
    if len(token) < SHORTEST:
        raise ConfigurationError(f"a token has at least {SHORTEST} characters; one has {len(token)}")
    if not _TOKEN.fullmatch(token):
        raise ConfigurationError("a token has printable ASCII characters and no space in it; one has others")
    return token


def read_tokens(path: str) -> tuple[str, ...]:
    """Return the tokens in a file: one on each line; blank lines and lines that begin with `#` are skipped.

    Raises:
        ConfigurationError: it cannot be read, has no token, or one that is not valid.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"--token-file {path}: it cannot be read ({why})") from error
    lines = [line.strip() for line in text.splitlines()]
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise ConfigurationError(f"--token-file {path}: there is no token in it; write one a line")
    try:
        return tuple(check_token(token) for token in tokens)
    except ConfigurationError as error:
        raise ConfigurationError(f"--token-file {path}: {error}") from None


def is_exposed(path: str) -> bool:
    """Return whether users other than the file's owner may read or write it."""
    return bool(Path(path).stat().st_mode & _OPEN_TO_OTHERS)


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach the address."""
    found = _address(address)
    return found is not None and found.is_loopback


def _check_origin(origin: str) -> str:
    found = origin.lower()
    if found != "null" and not _ORIGIN.fullmatch(found):
        raise ConfigurationError(
            f"an origin is like https://example.org, or with a port, and nothing behind; not {origin!r}"
        )
    return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


T = TypeVar("T")
INTERNAL = CommandError(code="internal_error", message="something unexpected happened; the server's log has more")
OK = "ok"
LARGE_AT_ONCE = 2
"""Large answers, of all clients, that are made at the same time."""
_log = logging.getLogger("reenact.server")


class Served(Protocol):
    """The source for clients: a runtime, or a log that is only read."""

    @property
    def feed(self) -> Feed:
        """The feed of events that clients subscribe to."""
        ...

    def request(self, type: str, data: Mapping[str, object], timeout: float | None) -> Envelope[Response]:  # noqa: A002
        """Carry out a request of the command protocol, as `Runtime.request` does."""
        ...


@dataclass
class Service:
    """A runtime with access rules and limits; carries out the requests of clients. Used on one event loop."""

    runtime: Served
    access: Access
    limits: Limits
    allow_programs: bool
    _closed = False

    def __post_init__(self) -> None:
        self.name = f"reenact {version()}"
        """The server's name and version."""
        self.counts = Counts()
        self.unread = Unread()
        self.ends = asyncio.Event()
        """Set when the server ends: each connection is then closed."""
        self.since = time.time()
        """When the server was made, in seconds since 1970-01-01 UTC."""
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._pool = ThreadPoolExecutor(self.limits.threads, thread_name_prefix="reenact-server")

    async def ask(
        self,
        type_: str,
        data: Mapping[str, object],
        request_id: str,
        timeout: float | None,  # noqa: ASYNC109 - the timeout of the request, for the code that carries it out
        encode: Callable[[Envelope[Response]], T],
    ) -> T:
        """Carry out a request of the command protocol; return its response as converted by `encode`.

        Raises:
            UnknownCommandError: there is no such request, and so no type for its response.
        """
        wait = self.limits.longest_request if timeout is None else min(max(timeout, 0.0), self.limits.longest_request)
        self.counts.in_progress += 1
        code = "abandoned"
        try:
            work = partial(self._carry_out, type_, {**data}, request_id, wait, encode)
            code, answer = await (self.read(work, large=type_ in LARGE) if type_ in READS else self.call(work))
        except ReenactError as error:
            code = error.code
            raise
        finally:
            self.counts.in_progress -= 1
            self.counts.requests[type_ if type_ in RESPONSES else "unknown", code] += 1
        return answer

    async def read(self, work: Callable[[], T], *, large: bool = True) -> T:
        """Call a function that reads, on a thread, and return its result; wait first while too much is unread."""
        async with self._large if large else nullcontext():
            await self.unread.room()
            return await self.call(work)

    async def call(self, work: Callable[[], T]) -> T:
        """Call a function that may block, on a thread, and return its result."""
        if self._closed:
            raise RuntimeClosedError("the server is ending")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Accept no more work; functions that have not started are not called."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _carry_out(
        self,
        type_: str,
        data: dict[str, object],
        request_id: str,
        timeout: float,
        encode: Callable[[Envelope[Response]], T],
    ) -> tuple[str, T]:
        data["request_id"] = request_id
        try:
            check_from_afar(type_, data, allow_programs=self.allow_programs)
            answer = self.runtime.request(type_, data, timeout)
        except Exception as error:
            refusal = refusal_of(error) if isinstance(error, ReenactError) else INTERNAL
            if refusal is INTERNAL:
                _log.exception("a request %r could not be carried out", type_)
            if type_ not in RESPONSES:
                raise
            answer = _refusal(RESPONSES[type_], data, refusal)
        error_ = answer.data.error
        return (OK if error_ is None else error_.code), encode(answer)


def _refusal(kind: type[Response], data: Mapping[str, object], error: CommandError) -> Envelope[Response]:
    response = kind(request_id=str(data["request_id"]), error=error)
    context = context_of(data, response.request_id)
    refusal = enveloped(Entry(kind.event_type, microseconds(), response), context, passing_id(response, str))
    assert is_response(refusal)  # as it was made of one
    return refusal
