"""The ASGI application of the inspector, and its guard: host, site and token are checked before anything else."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Final

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from reenact.domain.errors import InvalidInputError, NotFoundError, ReenactError
from reenact.domain.frames import SUBPROTOCOL
from reenact.inspector.addresses import Address
from reenact.inspector.pages import PAGES
from reenact.inspector.rendering import HERE, File, Page, View, render
from reenact.inspector.source import Source
from reenact.server.service import Served, Service
from reenact.server.sockets import Connection

AT_ONCE = 4
"""Pages that are made at the same time."""
COOKIE = "reenact_inspect"
POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_OTHER_SITES = frozenset({"cross-site", "same-site"})


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(24)


class Guard:
    """Lets in who has the token; it comes once in an address, and in a cookie from then on.

    A page of another site, and one that has let its own name point here (DNS rebinding), is refused: it can choose
    neither the header `Host` nor `Sec-Fetch-Site`.
    """

    def __init__(self, app: ASGIApp, token: str, service: Service[Served]) -> None:
        self._app = app
        self._token = token
        self._access = service.access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["type"] == "http":
            send = _with_headers(send)
        await (self._refusal(scope, headers) or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._access.serves(host) or not self._access.allows(origin, host):
            return _stranger(scope, "This name is not that of the inspector.", 403)
        is_navigation = (
            scope["type"] == "http" and headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        )
        if headers.get("sec-fetch-site") in _OTHER_SITES and not is_navigation:
            return _stranger(scope, "Another page has asked.", 403)
        query = QueryParams(scope["query_string"])
        if scope["type"] == "http" and self._is_token(query.get("token")):
            rest = [(name, value) for name, value in query.multi_items() if name != "token"]
            target = f"{scope['path']}{f'?{QueryParams(rest)}' if rest else ''}"
            response = RedirectResponse(target, 303)
            path = f"{scope.get('root_path', '')}/"
            response.set_cookie(COOKIE, self._token, path=path, httponly=True, samesite="lax")
            return response
        if not self._is_token(_cookie(headers)):
            return _stranger(scope, "", 401)
        return None

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self._token.encode())


def _cookie(headers: Headers) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def _stranger(scope: Scope, why: str, status: int) -> Response:
    """Return what somebody is told who may not come in: nothing of the log."""
    base = scope.get("root_path", "")
    return HTMLResponse(render(Page("stranger.html", {"why": why, "address": Address(base, "/", {})})), status)


def _with_headers(send: Send) -> Send:
    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return tell


def create_app(source: Source, token: str, *, service: Service[Served]) -> ASGIApp:
    """Return the ASGI application of a source, which stays yours to close.

    Args:
        source: the log whose pages are shown.
        token: what lets people in, see `new_token`.
        service: what the WebSocket is served by, and which names the application may be called by.
    """
    limiter = CapacityLimiter(AT_ONCE)

    async def show(view: View, request: Request) -> Response:
        base = request.scope.get("root_path", "")
        address = Address(base, request.url.path.removeprefix(base), dict(request.query_params))
        return await to_thread.run_sync(_answer, source, view, address, limiter=limiter)

    async def head(_: Request) -> Response:
        return JSONResponse({"position": await to_thread.run_sync(source.log.head, limiter=limiter)})

    async def socket(websocket: WebSocket) -> None:
        wanted = websocket.scope.get("subprotocols", [])
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in wanted else None)
        await Connection(websocket, service, True).run()  # noqa: FBT003 - the guard knows the client

    app = Starlette(
        routes=[
            *(Route(path, partial(show, view)) for path, view in PAGES.items()),
            Route("/head", head),
            WebSocketRoute("/ws", socket),
            Mount("/static", StaticFiles(directory=HERE / "static", follow_symlink=True)),
        ]
    )
    return Guard(app, token, service)


def _answer(source: Source, view: View, address: Address) -> Response:
    """Make the page; what goes wrong becomes a page as well."""
    try:
        page = view(source, address)
    except ReenactError as error:
        status = 404 if isinstance(error, NotFoundError) else 400 if isinstance(error, InvalidInputError) else 503
        page = Page("problem.html", {"code": error.code, "why": str(error)}, status)
    if isinstance(page, File):
        headers = {"content-disposition": f'attachment; filename="{page.name}"'}
        return PlainTextResponse(page.text, headers=headers)
    now = datetime.now(UTC)
    return HTMLResponse(render(page, source=source, address=address, now=now), page.status)
