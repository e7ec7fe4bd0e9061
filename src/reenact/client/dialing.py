"""Parses server addresses, finds hosts that Ray runs, and makes single attempts to connect, with backoff and jitter."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import random
import re
import ssl
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
    ProxyError,
)
from websockets.typing import Subprotocol

from reenact._ray import NAME, Found, check_name, require_ray
from reenact.client.asking import read_frame
from reenact.domain.errors import (
    AuthenticationError,
    ConfigurationError,
    ProtocolError,
    ReenactError,
    ServerUnreachableError,
    from_wire,
)
from reenact.domain.plain import is_sequence
from reenact.domain.stream.frames import NOT_ALLOWED, PROTOCOL, SUBPROTOCOL, Hello, Refused, Welcome

_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_UNFIT = re.compile(r"[\x00-\x20\x7f-\x9f\ud800-\udfff]")
_TOKEN = re.compile(r"[\x21-\x7e]+")


def websocket_address(url: object) -> str:
    """Return the WebSocket address of a server that is given as `http://host:port` or as `ws://host:port/ws`.

    With TLS the scheme is `https` or `wss`. A path before `/ws` is that of a proxy in front of the server.

    Raises:
        ConfigurationError: the address is not valid.
    """
    if not isinstance(url, str) or _UNFIT.search(url):
        raise _wrong(url, "it is not text, or has blanks in it")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as wrong:
        raise _wrong(url, str(wrong)) from None
    if parts.scheme not in _SCHEMES:
        raise _wrong(url, f"its scheme is {parts.scheme!r}")
    if not parts.hostname:
        raise _wrong(url, "it names no host")
    if parts.username is not None or parts.password is not None:
        raise _wrong(parts.hostname, "a user or a password is not part of it; give token=…")
    if parts.query or parts.fragment:
        raise _wrong(url, "it ends with its path")
    path = parts.path.rstrip("/")
    if not path.endswith("/ws"):
        if parts.scheme in ("ws", "wss"):
            raise _wrong(url, "the WebSocket is at /ws")
        path += "/ws"
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, path, "", ""))


def websocket_addresses(urls: object) -> tuple[str, ...]:
    """Return the WebSocket addresses of one server or of several.

    Raises:
        ConfigurationError: there is no address, or one is not valid.
    """
    if not is_sequence(urls):
        return (websocket_address(urls),)
    found = tuple(websocket_address(url) for url in urls)
    if not found:
        raise ConfigurationError("an address of a server is needed, and there is none in the list")
    return found


def is_loopback(address: str) -> bool:
    """Return whether the address is on this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(token: object) -> str | None:
    """Return the token, or raise `ConfigurationError` if it is not valid; the message does not show it."""
    if token is None or (isinstance(token, str) and _TOKEN.fullmatch(token)):
        return token
    raise ConfigurationError(
        "a token is text of printable ASCII characters without blanks; the one that was given is not"
    )


def _wrong(url: object, why: str) -> ConfigurationError:
    return ConfigurationError(f"{url!r:.200} is not an address of a server: {why}; one is http://host:port, or https")


_MOST_DOUBLINGS = 60


class Reconnect(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait before reconnecting, in seconds: up to `first`, doubled after each failure, up to `longest`.

    `chance` returns the fraction of that to wait, from 0 to 1, so that clients that lose a server together do not
    return together. `wait` sleeps for the given seconds.
    """

    first: float = 0.1
    longest: float = 10.0
    chance: Callable[[], float] = random.random
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep

    def delay(self, failures: int) -> float:
        """Return how long to wait after this number of consecutive failures."""
        return self.chance() * min(self.longest, self.first * 2.0 ** min(failures, _MOST_DOUBLINGS))


SCHEME = "ray://"
"""The scheme of the address of a Ray cluster's head node."""
PORT = 10001
"""The default port for Ray clients."""
FOUND_WITHIN = 30.0
"""Seconds that finding hosts may take."""
PATIENCE = 10.0
"""Seconds that an attempt to connect may take."""
CLOSING = 1.0
"""Seconds in which a server has to complete the closing handshake."""
_LOGGER = logging.getLogger("reenact.client.websocket")
_UNAUTHORIZED = (401, 403)
_BUSY = (408, 425, 429)
_SERVER_FAILS = 500
_ELSEWHERE = range(300, 400)


class UnintelligibleError(ProtocolError):
    """The address is not that of a Reenact server, or not at present."""


class ElsewhereError(ServerUnreachableError):
    """The address redirects clients to another one; redirects are not followed."""


class _Connect(connect):
    """Does not follow redirects: a token is for one server."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


class _Greeting(msgspec.Struct):
    type: str
    protocol: int | None = None


class ServerAddress(NamedTuple):
    """The address of a server, and the token for it."""

    address: str
    token: str | None


@dataclass(frozen=True)
class RayHosts:
    """The hosts of a name on a Ray cluster, whose head node has this address."""

    address: str
    name: str

    @classmethod
    def at(cls, url: str) -> RayHosts:
        """Return the hosts at `ray://host:port/name`; port and name are optional.

        Raises:
            ConfigurationError: the address is not valid.
            MissingExtraError: Ray is not installed.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or PORT
        except ValueError as error:
            raise ConfigurationError(f"{url!r:.200} is not an address of a Ray cluster: {error}") from None
        if not host or parts.username is not None or parts.query or parts.fragment:
            raise ConfigurationError(f"{url!r:.200} is not an address of a Ray cluster; one is ray://host:{PORT}")
        name = check_name(parts.path.strip("/") or NAME)
        require_ray()
        return cls(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", name)

    def __str__(self) -> str:
        return f"{SCHEME}{self.address}/{self.name}"

    async def find(self) -> tuple[ServerAddress, ...]:
        """Return the addresses of the hosts.

        A separate program asks Ray: a Ray client is one for a whole process, which it changes for good, and which may
        be connected to a cluster already.

        Raises:
            ServerUnreachableError: Ray cannot be reached, or no host answers.
        """
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "reenact._ray", self.address, self.name),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(FOUND_WITHIN):
                printed, _ = await program.communicate()
        except TimeoutError:
            raise self._unreachable(f"Ray has not answered within {FOUND_WITHIN:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                program.kill()
            await program.wait()
        try:
            found = msgspec.json.decode(printed, type=Found)
        except msgspec.DecodeError:
            raise self._unreachable(f"looking for them ended with {program.returncode}") from None
        if found.failure is not None:
            raise self._unreachable(found.failure)
        if not found.hosts:
            raise self._unreachable("none answers; `reenact.ray.start` starts them")
        return tuple(ServerAddress(websocket_address(url), token) for url, token in found.hosts)

    def _unreachable(self, why: str) -> ServerUnreachableError:
        return ServerUnreachableError(f"the hosts at {self} cannot be found: {why}")


class Dialer:
    """Connects to one of the servers at these places, beginning with one that `chance` (0 to 1) selects.

    `heartbeat` is the seconds between pings, and the time limit for their answers. When none of the servers can be
    used, Ray is asked for the current addresses of its hosts.
    """

    def __init__(
        self, places: Sequence[ServerAddress] | RayHosts, heartbeat: float, chance: Callable[[], float] = random.random
    ) -> None:
        self._hosts = None if isinstance(places, Sequence) else places
        self._chance = chance
        self._heartbeat = heartbeat
        self._is_lost = True  # no place is known to be valid
        self._places: deque[ServerAddress] = deque()
        if isinstance(places, Sequence):
            self._learn(places)
        self.address = self._places[0].address if self._places else str(self._hosts)
        """The address of the connection, or of the last attempt."""

    async def dial(self) -> tuple[ClientConnection, Welcome]:
        """Return a connection on which the welcome has arrived. Each server is tried once, the last used one last.

        Raises:
            AuthenticationError: the server does not accept the token.
            ProtocolError: the server uses another version, or (`UnintelligibleError`) it is not a Reenact server.
            ServerUnreachableError: nothing answers in time, or (`ElsewhereError`) it redirects clients.
        """
        if self._is_lost and self._hosts is not None:
            try:
                self._learn(await self._hosts.find())
            except ServerUnreachableError:
                if not self._places:
                    raise
        errors: list[ReenactError] = []
        for _ in range(len(self._places)):
            address, token = self._places[0]
            self._places.rotate(-1)
            self.address = address
            try:
                found = await self._dial(token)
            except (UnintelligibleError, ServerUnreachableError) as error:
                errors.append(error)
            except AuthenticationError as error:
                if self._hosts is None:
                    raise
                errors.append(self._unreachable(error))  # another server is at that address now
            else:
                self._is_lost = False
                return found
        self._is_lost = True
        raise _summary(errors)

    def _learn(self, places: Sequence[ServerAddress]) -> None:
        self._places = deque(places)
        self._places.rotate(-int(self._chance() * len(places)))

    async def _dial(self, token: str | None) -> tuple[ClientConnection, Welcome]:
        try:
            socket = await self._open(token)
        except InvalidStatus as refused:
            raise self._status(refused) from None
        except ssl.SSLError as error:
            raise UnintelligibleError(f"{self.address} cannot be trusted: {error}") from None
        except (OSError, TimeoutError, ProxyError, InvalidProxy) as error:
            raise self._unreachable(error) from None
        except InvalidMessage as error:
            if isinstance(error.__cause__, EOFError | ConnectionClosed):  # it closed in the middle of its answer
                raise self._unreachable(error) from None
            raise self._unintelligible(error) from None
        except (InvalidHandshake, InvalidURI) as error:
            raise self._unintelligible(error) from None
        try:
            return socket, await self._greet(socket)
        except BaseException:
            socket.transport.abort()
            raise

    async def _open(self, token: str | None) -> ClientConnection:
        return await _Connect(
            self.address,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            compression=None,
            additional_headers={} if token is None else {"Authorization": f"Bearer {token}"},
            user_agent_header="reenact",
            proxy=None if is_loopback(self.address) else True,
            open_timeout=PATIENCE,
            ping_interval=self._heartbeat,
            ping_timeout=self._heartbeat,
            close_timeout=CLOSING,
            max_size=None,
            logger=_LOGGER,
        )

    async def _greet(self, socket: ClientConnection) -> Welcome:
        try:
            await socket.send(msgspec.json.encode(Hello()), text=True)
            answer = await socket.recv(decode=False)
        except ConnectionClosed as closed:
            raise closing_error(closed, self.address) from None
        try:
            greeting = msgspec.json.decode(answer, type=_Greeting)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._unintelligible(error) from None
        if greeting.type == "welcome" and greeting.protocol != PROTOCOL:
            raise ProtocolError(
                f"{self.address} speaks version {greeting.protocol} of the protocol; this client speaks {PROTOCOL}"
            )
        try:
            frame = read_frame(answer)
        except ProtocolError as error:
            raise self._unintelligible(error) from None
        match frame:
            case Welcome() if frame.max_message_size < 1 or frame.max_subscriptions < 0:
                raise self._unintelligible("it takes no messages, or less than no subscriptions")
            case Welcome():
                return frame
            case Refused():
                raise self._refused(frame)
            case _:
                raise self._unintelligible("it did not begin with a welcome")

    def _refused(self, refused: Refused) -> ReenactError:
        error = from_wire(refused.code, refused.message)
        return error if isinstance(error, AuthenticationError | ProtocolError) else self._unreachable(error)

    def _status(self, refused: InvalidStatus) -> ReenactError:
        status = refused.response.status_code
        if status in _UNAUTHORIZED:
            return AuthenticationError(f"{self.address} does not let this client in (HTTP {status}): check the token")
        if status in _ELSEWHERE:
            return ElsewhereError(
                f"what answers at {self.address} is not a Reenact server: HTTP {status} redirects clients, and "
                "redirects are not followed; give the address of the server itself"
            )
        if status >= _SERVER_FAILS or status in _BUSY:
            return self._unreachable(f"HTTP {status}")
        return self._unintelligible(f"HTTP {status}")

    def _unreachable(self, why: object) -> ServerUnreachableError:
        return ServerUnreachableError(f"{self.address} cannot be reached: {str(why) or type(why).__name__}")

    def _unintelligible(self, why: object) -> UnintelligibleError:
        return UnintelligibleError(f"what answers at {self.address} is not a Reenact server: {why}")


def _summary(errors: Sequence[ReenactError]) -> ReenactError:
    """Return the error to raise when no server can be used; one that is not a Reenact server takes precedence."""
    for error in errors:
        if isinstance(error, UnintelligibleError | ElsewhereError):
            return error
    return errors[0] if len(errors) == 1 else ServerUnreachableError("; ".join(map(str, errors)))


def closing_error(closed: ConnectionClosed, address: str) -> ReenactError:
    """Return the error for a connection that has been closed."""
    code = None if closed.rcvd is None else closed.rcvd.code
    reason = "" if closed.rcvd is None else closed.rcvd.reason
    if code == NOT_ALLOWED:
        return AuthenticationError(f"{address} does not let this client in: {reason or 'check the token'}")
    told = f"it was closed with {code} {reason}".rstrip() if code is not None else "it broke"
    return ServerUnreachableError(f"the connection to {address} is lost: {told}")
