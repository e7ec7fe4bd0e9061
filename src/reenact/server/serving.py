"""A server in this process: it listens, on a thread of its own, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Collection
from typing import Final, Self

import uvicorn

from reenact.actors.runtime import LocalRuntime
from reenact.domain.errors import ConfigurationError
from reenact.domain.frames import TOO_SLOW
from reenact.server.access import hosts_of, is_loopback
from reenact.server.app import application, service_of
from reenact.server.limits import Limits
from reenact.server.service import Service
from reenact.server.transports import FIRST_SIZE, Transports, http_protocol, socket_protocol

GRACE: Final = 0.6
"""Seconds in which requests may still be answered, and close frames sent, when the server ends."""
FLUSH: Final = 0.3
"""Seconds in which what was written must have gone out then."""
_BACKLOG: Final = 512
_log: Final = logging.getLogger("reenact.server")


class Server:
    """Serves a runtime over WebSocket and HTTP. `start` and `stop` it, or use it as a context manager.

    The runtime stays open when the server has stopped.
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
    ) -> None:
        """Prepare to serve.

        Args:
            runtime: what clients use.
            host: the address to listen on, or a name of it.
            port: 0 takes any that is free.
            tokens: those that open the server; on a loopback address it may be open to all who can reach it.
            origins: of web pages that may use it, such as `https://example.org`, besides its own.
            host_names: what requests may call it by, besides its own address.
            limits: how much a client may ask for.

        Raises:
            ConfigurationError: the address is no loopback address and there is no token, it is none of this machine,
                or a token or an origin cannot be one.
        """
        family, address = _resolved(host, port)
        if not tokens and not is_loopback(address[0]):
            msg = f"{host} can be reached from other machines, so a token is needed: --token-file, or tokens=…"
            raise ConfigurationError(msg)
        self._host = host
        self._family = family
        self._address = address
        self._limits = limits or Limits()
        self._service = service_of(
            runtime,
            tokens=tokens,
            origins=origins,
            limits=self._limits,
            hosts=hosts_of(host, address[0], host_names),
        )
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._uvicorn: _Uvicorn | None = None
        self._stopped = False
        self.port = port

    @property
    def url(self) -> str:
        """Where it listens, such as `http://127.0.0.1:8000`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def start(self) -> Self:
        """Listen; when this returns, clients can connect.

        Raises:
            ConfigurationError: the port is in use, may not be used, or the server was started before.
        """
        with self._lock:
            if self._thread is not None or self._stopped:
                raise ConfigurationError("a server is started once; make another one")
            listening = _bound(self._family, self._address, self._host, self.port)
            self.port = listening.getsockname()[1]
            started = threading.Event()
            self._uvicorn = _Uvicorn(self._service, self._limits, started.set)
            self._thread = threading.Thread(
                target=self._serve, args=(self._uvicorn, listening, started), name="reenact-server", daemon=True
            )
            self._thread.start()
            started.wait()
        return self

    def stop(self) -> None:
        """Close all connections and end; takes less than 2 seconds. Idempotent."""
        with self._lock:
            self._stopped = True
            if self._uvicorn is not None:
                self._uvicorn.should_exit = True
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join()
        self._service.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, at most `timeout` seconds; return whether it has."""
        thread = self._thread
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _serve(self, server: _Uvicorn, listening: socket.socket, started: threading.Event) -> None:
        try:
            asyncio.run(server.serve([listening]))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a thread has nobody else to tell
            _log.critical("the server has ended", exc_info=error)
        finally:
            listening.close()
            started.set()


class _Uvicorn(uvicorn.Server):
    """Uvicorn, with our connections, and with an end that no client can put off."""

    def __init__(self, service: Service, limits: Limits, started: Callable[[], None]) -> None:
        self._service = service
        self._on_started = started
        self._transports = Transports(limits.connections)
        super().__init__(
            uvicorn.Config(
                application(service),
                http=http_protocol(self._transports, limits),
                ws=socket_protocol(self._transports, limits, TOO_SLOW),
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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let everybody go, then send away who has not gone."""
        for server in self.servers:
            server.close()
        self._service.leave()
        if self.server_state.tasks:
            await asyncio.wait(tuple(self.server_state.tasks), timeout=GRACE)
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        await self._transports.wait_for_none(FLUSH)
        self._transports.cut()
        await super().shutdown(sockets)


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError) as error:
        msg = f"there is no address {host!r} here: {error}"
        raise ConfigurationError(msg) from error
    found.sort(key=lambda one: one[0] != socket.AF_INET)  # a name may mean both; most clients try this first
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


def _bound(family: socket.AddressFamily, address: tuple[str, int], host: str, port: int) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        msg = f"port {port} of {host} cannot be listened on ({error.strerror}); choose another one with --port"
        raise ConfigurationError(msg) from error
    except OverflowError as error:
        listening.close()
        msg = f"a port is a number from 0 to 65535, not {port}"
        raise ConfigurationError(msg) from error
    listening.setblocking(False)  # noqa: FBT003 - the name of the thing is its meaning
    return listening
