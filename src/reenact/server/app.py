"""The ASGI application of a runtime, and its guard: host, origin, token and rate are checked before anything else."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from reenact.actors.runtime import LocalRuntime
from reenact.domain.errors import ConfigurationError
from reenact.domain.stream.frames import SUBPROTOCOL
from reenact.server.answers import failure
from reenact.server.http import ERRORS, routes
from reenact.server.limits import Bucket, Limits
from reenact.server.service import Access, Hosts, Service
from reenact.server.sockets import Connection

OPEN = frozenset({"/health", "/ready", "/openapi.json", "/schemas/events.json", "/schemas/frames.json"})
"""Paths that need no token: they reveal nothing about the runtime's content."""
INSPECTOR = "/inspect"
"""The path of the inspector, which has a token of its own."""
_PREFLIGHT_HEADERS = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "Authorization, Content-Type, Idempotency-Key",
    "access-control-max-age": "600",
}
_MOST_CLIENTS = 10_000
"""The number of clients whose request rate is remembered."""


@dataclass
class Guard:
    """Checks host, origin, token and rate of each request; a refused request does not reach the application."""

    app: ASGIApp
    service: Service
    inspects: bool = False

    def __post_init__(self) -> None:
        self._access = self.service.access
        self._buckets: OrderedDict[tuple[str, str | None], Bucket] = OrderedDict()
        """The token bucket of each recent client."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the application, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        listed = origin is not None and self._access.lists(origin)
        is_http = scope["type"] == "http"
        if is_http:
            send = before_response(send, self._count)
            if listed and origin is not None:
                send = before_response(send, partial(_allow_page, origin))
        refusal = self._refusal(scope, headers, origin)
        if refusal is None and is_http and listed and scope["method"] == "OPTIONS":
            refusal = Response(status_code=204, headers=_PREFLIGHT_HEADERS)
        if refusal is None and is_http:
            refusal = self._check_request(scope, headers)
        elif refusal is None and not self._access.knows(
            bearer(headers)
        ):  # a WebSocket client may send its token later, in the hello
            refusal = self._refusal_for_rate(scope, None)
        await (refusal or self.app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers, origin: str | None) -> Response | None:
        host = headers.get("host", "")
        if not self._access.serves(host):
            return failure("host_not_served", f"this server is not known as {host!r}; see --host-name")
        if not self._access.allows(origin, host):
            return failure("origin_not_allowed", f"pages of {origin} may not use this server; see --origin")
        return None

    def _check_request(self, scope: Scope, headers: Headers) -> Response | None:
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may see another end
            refusal = failure("invalid_input", "a body has a Content-Length or a Transfer-Encoding, not both")
            refusal.headers["connection"] = "close"
            return refusal
        if _path(scope) in OPEN:
            return None
        if self._is_inspected(scope):
            return self._refusal_for_rate(scope, None)
        token = bearer(headers)
        known = self._access.knows(token)
        too_many = self._refusal_for_rate(scope, token if known and self._access.needs_token else None)
        if too_many is None and not known:
            return failure("authentication", "the token is not known" if token else "a token is needed")
        return too_many

    def _is_inspected(self, scope: Scope) -> bool:
        return self.inspects and f"{_path(scope)}/".startswith(f"{INSPECTOR}/")

    def _refusal_for_rate(self, scope: Scope, token: str | None) -> Response | None:
        """Count a request of a client, known by its token or else its address; return a refusal if it is too many."""
        address = scope.get("client")
        client = (address[0] if address else "", token)
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = Bucket(self.service.limits.rate, self.service.limits.burst)
            if len(self._buckets) > _MOST_CLIENTS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(client)
        wait = bucket.try_take()
        return failure("too_many_requests", f"try again in {wait:.2f} s", retry_after=wait) if wait else None

    def _count(self, start: Message) -> None:
        self.service.counts.http[start["status"]] += 1


def _path(scope: Scope) -> str:
    """Return the path within the application, which may be mounted under a path of another one, or of a proxy."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def bearer(headers: Headers) -> str | None:
    """Return the bearer token of a request, or None."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def before_response(send: Send, act: Callable[[Message], None]) -> Send:
    """Return a `send` that first calls the function with the message that begins the response, which it may change."""

    async def send_response(message: Message) -> None:
        if message["type"] == "http.response.start":
            act(message)
        await send(message)

    return send_response


def _allow_page(origin: str, start: Message) -> None:
    """Add headers with which a page of the origin may read the response."""
    headers = MutableHeaders(scope=start)
    headers["access-control-allow-origin"] = origin
    headers["access-control-expose-headers"] = "Retry-After"
    headers.add_vary_header("Origin")


async def _no_websocket_here(websocket: WebSocket) -> None:
    await websocket.send_denial_response(failure("not_found", "there is no WebSocket here; it is at /ws"))


async def _redirect_to_inspector(request: Request) -> Response:
    return RedirectResponse(f"{INSPECTOR[1:]}/?{request.url.query}")


def create_app(
    runtime: LocalRuntime,
    *,
    tokens: Collection[str] = (),
    origins: Collection[str] = (),
    limits: Limits | None = None,
    hosts: Hosts | None = None,
    allow_programs: bool = False,
) -> Starlette:
    """Return the ASGI application of the runtime, which the caller still has to close.

    Args:
        runtime: the runtime that clients use.
        tokens: tokens that clients may use; without any, every client that reaches the server may use it.
        origins: of web pages that may use it, such as `https://example.org`, besides its own.
        limits: how much a client may ask for.
        hosts: the host names that requests may use. Default: names of this machine; any, if there are tokens.
        allow_programs: whether images that clients register may have MCP servers that are programs, which this machine
        starts, or that receive its environment variables.

    Raises:
        ConfigurationError: a token or an origin is not valid, or it is not a `Runtime`.
    """
    check_runtime(runtime)
    access = Access(tokens, origins, hosts or Hosts(any_name=bool(tokens)))
    return application(Service(runtime, access, limits or Limits(), allow_programs), runtime)


def check_runtime(runtime: object) -> None:
    """Check that clients can be served from it.

    Raises:
        ConfigurationError: it is not a `Runtime`.
    """
    if not isinstance(runtime, LocalRuntime):
        raise ConfigurationError(
            f"a server needs a Runtime, not a value of type {type(runtime).__name__}; asyncio programs open a Runtime, "
            "and use it by `AsyncRuntime.connect(server.url)`"
        )


def application(service: Service, runtime: LocalRuntime, inspector: ASGIApp | None = None) -> Starlette:
    """Return the application of a runtime; it closes the service at its end, and an inspector has its own guard."""

    async def socket(websocket: WebSocket) -> None:
        token = bearer(websocket.headers)
        if token is not None and not service.access.knows(token):
            await websocket.send_denial_response(failure("authentication", "the token is not known"))
            return
        wanted = websocket.scope.get("subprotocols", [])
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in wanted else None)
        connection = Connection(websocket, service, token is not None or not service.access.needs_token)
        service.counts.connections += 1
        service.counts.connected += 1
        try:
            await connection.run()
        finally:
            service.counts.connected -= 1

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        service.close()

    app = Starlette(
        routes=[
            WebSocketRoute("/ws", socket),
            *routes(service, runtime),
            *([] if inspector is None else [Route(INSPECTOR, _redirect_to_inspector), Mount(INSPECTOR, inspector)]),
            WebSocketRoute("/{path:path}", _no_websocket_here),
        ],
        middleware=[Middleware(Guard, service=service, inspects=inspector is not None)],
        exception_handlers=ERRORS,
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # its redirects name http://, even if the client used a proxy's TLS
    return app
