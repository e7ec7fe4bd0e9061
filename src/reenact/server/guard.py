"""Checks host, origin, token and rate of each HTTP request and handshake before anything else sees it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reenact.server.answers import failure
from reenact.server.limits import Bucket, Limits
from reenact.server.service import Service

OPEN: Final = frozenset({"/health", "/ready", "/openapi.json", "/schemas/events.json", "/schemas/frames.json"})
"""What needs no token: it says nothing of what the runtime holds."""
_ALLOWED: Final = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "Authorization, Content-Type, Idempotency-Key",
    "access-control-max-age": "600",
}
_CLIENTS: Final = 10_000
"""So many clients are remembered for the rate of their requests."""


class Guard:
    """Lets in who may come in; what it refuses, nothing behind it hears of."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._access = service.access
        self._rates = Rates(service.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        listed = origin is not None and self._access.lists(origin)
        is_http = scope["type"] == "http"
        if is_http:
            send = self._counting(_telling(send, origin) if listed and origin is not None else send)
        refusal = self._refusal(scope, headers, origin)
        if refusal is None and is_http and listed and scope["method"] == "OPTIONS":
            refusal = Response(status_code=204, headers=_ALLOWED)
        if refusal is None and is_http:
            refusal = self._of_request(scope, headers)
        elif refusal is None and not self._access.knows(
            bearer(headers)
        ):  # the token of a WebSocket may come later, too
            refusal = self._too_many(scope, None)
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers, origin: str | None) -> Response | None:
        host = headers.get("host", "")
        if not self._access.serves(host):
            return failure("host_not_served", f"this server is not known as {host!r}; see --host-name")
        if not self._access.allows(origin, host):
            return failure("origin_not_allowed", f"pages of {origin} may not use this server; see --origin")
        return None

    def _of_request(self, scope: Scope, headers: Headers) -> Response | None:
        if "content-length" in headers and "transfer-encoding" in headers:  # who stands between may read another end
            refusal = failure("invalid_input", "a body has a Content-Length or a Transfer-Encoding, not both")
            refusal.headers["connection"] = "close"
            return refusal
        if scope["path"] in OPEN:
            return None
        token = bearer(headers)
        known = self._access.knows(token)
        too_many = self._too_many(scope, token if known and self._access.needs_token else None)
        if too_many is None and not known:
            return failure("authentication", "the token is not known" if token else "a token is needed")
        return too_many

    def _too_many(self, scope: Scope, token: str | None) -> Response | None:
        """Count a request of a client that is known by its token, or else by its address; return what refuses it."""
        client = scope.get("client")
        wait = self._rates.wait((client[0] if client else "", token))
        return failure("too_many_requests", f"try again in {wait:.2f} s", retry_after=wait) if wait else None

    def _counting(self, send: Send) -> Send:
        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._service.counts.http[message["status"]] += 1
            await send(message)

        return count


class Rates:
    """How often each client has asked lately."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buckets: OrderedDict[tuple[str, str | None], Bucket] = OrderedDict()

    def wait(self, client: tuple[str, str | None]) -> float:
        """Return 0 if the client may ask now, else the seconds until it may."""
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = Bucket(self._limits.rate, self._limits.burst)
            if len(self._buckets) > _CLIENTS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(client)
        return bucket.try_take()


def bearer(headers: Headers) -> str | None:
    """Return the token that comes with a request, None if none does."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _telling(send: Send, origin: str) -> Send:
    """Return what sends a response that a page of the origin may read."""

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers["access-control-expose-headers"] = "Retry-After"
            headers.add_vary_header("Origin")
        await send(message)

    return tell
