"""Runs a server in this process, on a thread of its own, until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Collection
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from reenact.actors.kernel.at_exit import AtExit
from reenact.actors.runtime import LocalRuntime
from reenact.domain.errors import ConfigurationError
from reenact.domain.plain import seconds_of
from reenact.server.app import application, check_runtime
from reenact.server.limits import Limits
from reenact.server.service import LOOPBACK, Access, Hosts, Service, is_loopback
from reenact.server.transports import FIRST_SIZE, Transports, http_protocol, socket_protocol

GRACE = 0.6
"""Seconds in which requests may still be answered, and close frames sent, when the server ends."""
FLUSH = 0.3
"""Seconds in which written data must then have been sent."""
_BACKLOG = 512
_LAST_PORT = 65535
_BUFFER = 256 * 1024
"""Approximate bytes that the system buffers for a client that has not taken them yet."""
_TICK = 1.0
_SETTLE = 0.02
"""Seconds after which a connection that was just accepted is registered."""
_log = logging.getLogger("reenact.server")


class Listener:
    """Serves an application on a thread of its own. `start` and `stop` it, or use it as a context manager.

    If it still runs when the program ends, it is stopped then.
    """

    _thread: threading.Thread | None = None
    _uvicorn: _Uvicorn | None = None
    _at_exit: AtExit | None = None
    _stopped = False

    def __init__(self, application: ASGIApp, service: Service, host: str, port: int) -> None:
        """Set the application, its service, which is closed with it, and the address; port 0 chooses a free port."""
        self._application = application
        self._service = service
        self._host = host
        self._family, self._address = _resolved(host)
        self._lock = threading.Lock()
        self.port = port

    @property
    def url(self) -> str:
        """The address on which it listens, such as `http://127.0.0.1:8000`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def start(self) -> Self:
        """Start listening; when this returns, clients can connect.

        Raises:
            ConfigurationError: the port is in use, may not be used, or the server was started before.
        """
        with self._lock:
            if self._thread is not None or self._stopped:
                raise ConfigurationError("a server is started once; make another one")
            listening = _bound(self._family, (self._address, self.port), self._host)
            self.port = listening.getsockname()[1]
            started = threading.Event()
            self._uvicorn = _Uvicorn(self._application, self._service, started.set)
            self._thread = threading.Thread(
                target=self._serve, args=(self._uvicorn, listening, started), name="reenact-server", daemon=True
            )
            self._thread.start()
            started.wait()
            self._at_exit = AtExit(f"the server at {self.url}", self.stop)
        return self

    def stop(self) -> None:
        """Close all connections and end; takes less than 2 seconds. Idempotent."""
        with self._lock:
            self._stopped = True
            if self._uvicorn is not None:
                self._uvicorn.end()
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join()
        self._service.close()
        if self._at_exit is not None:
            self._at_exit.closed()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the server has ended, at most `timeout` seconds; return whether it has.

        Raises:
            InvalidInputError: the timeout is not a number.
        """
        seconds, thread = seconds_of(timeout), self._thread
        if thread is None:
            return True
        thread.join(seconds)
        return not thread.is_alive()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _serve(self, server: _Uvicorn, listening: socket.socket, started: threading.Event) -> None:
        try:
            asyncio.run(server.serve([listening]))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - no one else would report it
            _log.critical("the server has ended", exc_info=error)
        finally:
            listening.close()
            started.set()


class Server(Listener):
    """Serves a runtime over WebSocket and HTTP. `start` and `stop` it, or use it as a context manager.

    The runtime stays open when the server has stopped. If the server still runs when the program ends, it is stopped
    then.
    """

    def __init__(
        self,
        runtime: LocalRuntime,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        tokens: Collection[str] = (),
        origins: Collection[str] = (),
        host_names: Collection[str] = (),
        limits: Limits | None = None,
        allow_programs: bool = False,
        inspector: ASGIApp | None = None,
    ) -> None:
        """Prepare to serve.

        Args:
            runtime: the runtime that clients use.
            host: the address to listen on, or a name of it.
            port: 0 chooses a free port.
            tokens: tokens that clients may use; on a loopback address they may be omitted, and any client may use the
                server.
            origins: of web pages that may use it, such as `https://example.org`, besides its own.
            host_names: host names that requests may use, besides the server's own address.
            limits: how much a client may ask for.
            allow_programs: whether images that clients register may have MCP servers that are programs, which this
                machine starts, or that receive its environment variables.
            inspector: an application of `reenact.inspector`, which is served under `/inspect`; it has its own token.

        Raises:
            ConfigurationError: it is not a `Runtime`; the address is not a loopback address and there is no token, or
                it is not one of this machine; or a token or an origin is not valid.
        """
        check_runtime(runtime)
        check_port(port)
        if not tokens and not is_loopback(_resolved(host)[1]):
            raise ConfigurationError(
                f"{host} can be reached from other machines, so a token is needed: --token-file, or tokens=…"
            )
        access = Access(tokens, origins, hosts_at(host, host_names))
        service = Service(runtime, access, limits or Limits(), allow_programs)
        super().__init__(application(service, runtime, inspector), service, host, port)


class _Uvicorn(uvicorn.Server):
    """Uvicorn with our connection classes, and a shutdown that no client can delay."""

    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, app: ASGIApp, service: Service, started: Callable[[], None]) -> None:
        self._service = service
        limits = service.limits
        self._on_started = started
        self._end_requested = asyncio.Event()
        self._transports = Transports(limits.connections)
        super().__init__(
            uvicorn.Config(
                app,
                http=http_protocol(self._transports, limits, service.unread),
                ws=socket_protocol(self._transports, limits, service.unread),
                ws_max_size=min(FIRST_SIZE, limits.message_size),
                ws_ping_interval=limits.ping_interval,
                ws_ping_timeout=limits.ping_interval,
                ws_per_message_deflate=False,
                loop="asyncio",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=1,
            )
        )

    def end(self) -> None:
        """Begin to shut down. May be called on any thread, and more than once."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._end_requested.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and report it."""
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._on_started()

    async def main_loop(self) -> None:
        """Update the date in response headers until told to end."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self._end_requested.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let connections end by themselves, then close the remaining ones."""
        for listening in sockets or ():  # asyncio would lose a connection that arrives while it closes these
            asyncio.get_running_loop().remove_reader(listening)
        await asyncio.sleep(_SETTLE)
        for server in self.servers:
            server.close()
        self._service.ends.set()
        if self.server_state.tasks:
            await asyncio.wait(tuple(self.server_state.tasks), timeout=GRACE)
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        await self._transports.wait_for_none(FLUSH)
        self._transports.cut()
        await self._transports.wait_for_none(FLUSH)
        for server in self.servers:
            await server.wait_closed()
        await self.lifespan.shutdown()


def hosts_at(host: str, names: Collection[str]) -> Hosts:
    """Return the host names of a server that listens on this address; `names` are added to them.

    Raises:
        ConfigurationError: it is not an address of this machine.
    """
    address = _resolved(host)[1]
    loopback = is_loopback(address)
    known = {host.lower(), address, *(name.lower() for name in names), *(LOOPBACK if loopback else ())}
    return Hosts(frozenset(known), any_address=not loopback)


def check_port(port: object) -> None:
    """Raise `ConfigurationError` unless it is a valid port."""
    if not isinstance(port, int) or not 0 <= port <= _LAST_PORT:
        raise ConfigurationError(f"a port must be a number from 0 to {_LAST_PORT}, not {port!r:.100}")


def _resolved(host: str) -> tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, ValueError) as error:
        raise ConfigurationError(f"there is no address {host!r} here: {error}") from error
    found.sort(key=lambda one: one[0] != socket.AF_INET)  # a name may resolve to both; most clients try IPv4 first
    family, _, _, _, address = found[0]
    return family, str(address[0])


def _bound(family: socket.AddressFamily, address: tuple[str, int], host: str) -> socket.socket:
    # The protocol is named because asyncio sends small frames at once (TCP_NODELAY) only on such sockets.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)  # inherited by accepted connections
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigurationError(
            f"port {address[1]} of {host} cannot be listened on ({error.strerror}); choose another one with --port"
        ) from error
    listening.setblocking(False)  # noqa: FBT003 - the method's name says what it means
    return listening
