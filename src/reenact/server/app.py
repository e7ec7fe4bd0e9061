"""The ASGI application of a runtime: the guard, the JSON API and the WebSocket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from reenact.actors.runtime import LocalRuntime
from reenact.domain.frames import SUBPROTOCOL
from reenact.server.access import Hosts
from reenact.server.answers import failure
from reenact.server.guard import Guard, bearer
from reenact.server.http import ERRORS, routes
from reenact.server.limits import Limits
from reenact.server.service import Service
from reenact.server.sockets import Connection


def create_app(
    runtime: LocalRuntime,
    *,
    tokens: Collection[str] = (),
    origins: Collection[str] = (),
    limits: Limits | None = None,
    hosts: Hosts | None = None,
    allow_programs: bool = False,
) -> Starlette:
    """Return the ASGI application of the runtime, which stays yours to close.

    Args:
        runtime: what clients use.
        tokens: those that open the server; none: anybody may come in who can reach it.
        origins: of web pages that may use it, such as `https://example.org`, besides its own.
        limits: how much a client may ask for.
        hosts: what requests may call the server by. Default: names of this machine; any, if there are tokens.
        allow_programs: whether images that clients register may have MCP servers that are programs, which this machine
            starts, or that are told its environment variables.

    Raises:
        ConfigurationError: a token or an origin cannot be one.
    """
    return application(
        Service(runtime, tokens=tokens, origins=origins, limits=limits, hosts=hosts, allow_programs=allow_programs)
    )


def application(service: Service) -> Starlette:
    """Return the application of a service, which ends with it."""

    async def socket(websocket: WebSocket) -> None:
        token = bearer(websocket.headers)
        if token is not None and not service.access.knows(token):
            await websocket.send_denial_response(failure("authentication", "the token is not known"))
            return
        wanted = websocket.scope.get("subprotocols", [])
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in wanted else None)
        connection = Connection(websocket, service, known=token is not None or not service.access.needs_token)
        service.counts.connections += 1
        service.counts.connected += 1
        try:
            await connection.run()
        finally:
            service.counts.connected -= 1

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        service.executor.close()

    return Starlette(
        routes=[WebSocketRoute("/ws", socket), *routes(service)],
        middleware=[Middleware(Guard, service=service)],
        exception_handlers=ERRORS,
        lifespan=lifespan,
    )
