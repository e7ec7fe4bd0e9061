"""The inspector's ASGI application, behind a guard that checks host, site and token before anything else."""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeAlias

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from reenact.actors.api.asking import Asking
from reenact.actors.journal.deadline import reading_for
from reenact.domain.errors import (
    ConfigurationError,
    InvalidInputError,
    KeyRingError,
    LogEncryptedError,
    NotFoundError,
    ReadTooLongError,
    ReenactError,
    SessionForgottenError,
)
from reenact.domain.stream.frames import SUBPROTOCOL
from reenact.inspector.actions import Actions, Form
from reenact.inspector.pages import ACTS, PAGES
from reenact.inspector.pages.chain import seals_of
from reenact.inspector.rendering import HERE, Act, Address, File, Page, View, render
from reenact.inspector.source import Source, TablesNotReadyError
from reenact.projections.errors import QueryTooLongError, ReadModelError
from reenact.projections.read_model.waiting_list import count
from reenact.server.app import before_response
from reenact.server.limits import Limits
from reenact.server.service import Access, Service, is_loopback
from reenact.server.serving import Listener, check_port, hosts_at
from reenact.server.sockets import Connection

AT_ONCE = 4
"""The number of pages that are made at the same time."""
SECONDS = 10.0
"""Seconds that a page may read the log; each query on the tables has a limit of its own."""
COOKIE = "reenact_inspect"
POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with `no-referrer` forms would come with the origin `null`
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_logger = logging.getLogger("reenact.inspector")
_STATUSES = ((NotFoundError, 404), (SessionForgottenError, 410), (InvalidInputError, 400))
_FROM_TABLES = frozenset({"/", "/waiting", "/costs", "/branches"})
_OTHER_SITES = frozenset({"cross-site", "same-site"})
_Make: TypeAlias = Callable[[], Page | File | str]


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(24)


class Guard:
    """Admits requests with the token, which comes in an address once, and in a cookie from then on.

    A page of another site, and one that has let its own name point here (DNS rebinding), is refused: it can choose
    neither the header `Host` nor `Sec-Fetch-Site`.
    """

    def __init__(self, app: ASGIApp, token: str, service: Service) -> None:
        self._app = app
        self._token = token
        self._access = service.access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the application, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["type"] == "http":
            send = before_response(send, _add_headers)
        await (self._refusal(scope, headers) or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._access.serves(host) or not self._access.allows(origin, host):
            return _refused(scope, "This name is not that of the inspector.", 403)
        is_navigation = (
            scope["type"] == "http" and headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        )
        if headers.get("sec-fetch-site") in _OTHER_SITES and not is_navigation:
            return _refused(scope, "Another page has asked.", 403)
        query = QueryParams(scope["query_string"])
        if scope["type"] == "http" and self._is_token(query.get("token")):
            rest = [(name, value) for name, value in query.multi_items() if name != "token"]
            here = f"/{scope['path'].lstrip('/')}"  # two slashes would lead to another host
            target = f"{here}{f'?{QueryParams(rest)}' if rest else ''}"
            response = RedirectResponse(target, 303)
            path = f"{scope.get('root_path', '')}/"
            response.set_cookie(_cookie_at(host), self._token, path=path, httponly=True, samesite="lax")
            return response
        if not self._is_token(HTTPConnection(scope).cookies.get(_cookie_at(host))):
            return _refused(scope, "", 401)
        return None

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self._token.encode())


def _cookie_at(host: str) -> str:
    """Return the cookie's name: browsers send the cookies of one port to all, and each inspector has its own token."""
    port = host.rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdecimal() else COOKIE


def _refused(scope: Scope, why: str, status: int) -> Response:
    """Return the answer to a refused request; it shows nothing of the log."""
    base = scope.get("root_path", "")
    return HTMLResponse(render(Page("stranger.html", {"why": why, "address": Address(base, "/", {})})), status)


def _add_headers(start: Message) -> None:
    headers = MutableHeaders(scope=start)
    headers.update(_HEADERS)
    headers.setdefault("cache-control", "no-store")


def create_app(source: Source, token: str, *, service: Service, owner: Asking | None = None, by: str = "") -> ASGIApp:
    """Return the ASGI application of a source, which the caller still has to close.

    Args:
        source: the log whose pages are shown.
        token: the token that admits people, see `new_token`.
        service: serves the WebSocket, and says which host names are allowed.
        owner: the runtime that writes the log, here or behind a server, if people may act; the caller still has to
            close it.
        by: the name that is recorded for their decisions.
    """
    actions = None if owner is None else Actions(owner, by, token)
    limiter = CapacityLimiter(AT_ONCE)

    async def show(view: View, request: Request) -> Response:
        address = _address(request)
        make = partial(view, source, address)
        return await to_thread.run_sync(_answer_in_time, source, address, actions, make, limiter=limiter)

    async def act(carry_out: Act, request: Request) -> Response:
        address = _address(request)
        read = await Form.reading(request)

        def do() -> Page | str:
            form = read()
            if actions is None:
                return Page("looking.html", {}, 403)
            actions.check(form)
            return carry_out(source, address, actions, form)

        return await to_thread.run_sync(_answer, source, address, actions, do, limiter=limiter)

    async def head(_: Request) -> Response:
        return JSONResponse({"position": await to_thread.run_sync(source.log.head, limiter=limiter)})

    async def socket(websocket: WebSocket) -> None:
        wanted = websocket.scope.get("subprotocols", [])
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in wanted else None)
        await Connection(websocket, service, True).run()  # noqa: FBT003 - the guard has checked the client

    app = Starlette(
        routes=[
            *(Route(path, partial(show, view)) for path, view in PAGES.items()),
            *(Route(path, partial(act, carry_out), methods=["POST"]) for path, carry_out in ACTS.items()),
            Route("/head", head),
            WebSocketRoute("/ws", socket),
            Mount("/static", StaticFiles(directory=HERE / "static", follow_symlink=True)),
            Route("/{path:path}", partial(show, _no_such_page)),
        ]
    )
    return Guard(app, token, service)


def _no_such_page(_: Source, address: Address) -> Page:
    return _problem(InvalidInputError(f"there is no page {address.path}"), 404)


def _address(request: Request) -> Address:
    base = request.scope.get("root_path", "")
    return Address(base, request.url.path.removeprefix(base), dict(request.query_params))


def _answer_in_time(source: Source, address: Address, actions: Actions | None, make: _Make) -> Response:
    with reading_for(SECONDS):
        return _answer(source, address, actions, make)


def _answer(source: Source, address: Address, actions: Actions | None, make: _Make) -> Response:
    """Make the page, or redirect to another address; an error becomes a page as well."""
    try:
        page = make()
    except ReenactError as error:
        page = _problem(error, next((status for kind, status in _STATUSES if isinstance(error, kind)), 503))
    except Exception as error:
        _logger.exception("the page %s cannot be made", address.path)
        page = _problem(ReenactError(f"{type(error).__name__}: {error}"), 500)
    if isinstance(page, str):
        return RedirectResponse(page, 303)
    if isinstance(page, File):
        headers = {"content-disposition": f'attachment; filename="{page.name}"'}
        return PlainTextResponse(page.text, headers=headers)
    now = datetime.now(UTC)
    frame: dict[str, object] = {"source": source, "address": address, "now": now, "actions": actions}
    frame["waiting"] = _waiting(source)
    frame["notice"] = _notice(source, address)
    frame["seals"] = seals_of(source, address)
    return HTMLResponse(render(page, **frame), page.status)


def _problem(error: ReenactError, status: int) -> Page:
    """Return the page that replaces one that could not be made."""
    match error:
        case TablesNotReadyError():
            return Page("making.html", {"done": error.done, "total": error.total}, status)
        case QueryTooLongError() | ReadTooLongError():
            sign, title = "wait", "This page would take too long"
        case LogEncryptedError() | KeyRingError() | ReadModelError(__cause__=LogEncryptedError() | KeyRingError()):
            sign, title = "warn", "This log is encrypted"
        case ReadModelError():
            sign, title = "warn", "The tables of this log cannot be read"
        case SessionForgottenError():
            sign, title = "none", "This session was forgotten"
        case _ if status == 404:  # noqa: PLR2004 - as it is in HTTP
            sign, title = "none", "There is nothing like that in this log"
        case _:
            sign, title = "warn", "This page cannot be shown"
    return Page("problem.html", {"code": error.code, "why": str(error), "sign": sign, "title": title}, status)


def _notice(source: Source, address: Address) -> str:
    """Return a notice for a page that is made from the tables, or ""."""
    tables = source.tables_now
    if address.path not in _FROM_TABLES or tables is None:
        return ""
    try:
        behind = tables.lag()
        if behind and not tables.is_private:
            return f"The tables are {behind:,} events behind the log; whoever writes it brings them up."
    except ReenactError as error:
        return str(error)
    return ""


def _waiting(source: Source) -> int:
    """Return how many calls wait for people; 0 if that is not known."""
    tables = source.tables_now
    try:
        return 0 if tables is None else count(tables)[0]
    except ReenactError:
        return 0


class Inspector(Listener):
    """Serves the pages of a log on this machine. `start` and `stop` it, or use it as a context manager."""

    def __init__(
        self, source: Source, host: str = "127.0.0.1", port: int = 0, *, owner: Asking | None = None, by: str = ""
    ) -> None:
        """Prepare to serve the source, which the caller still has to close; port 0 chooses a free port.

        With the `owner`, the runtime that writes the log, here or behind a server, people may act, in the name `by`.

        Raises:
            ConfigurationError: the address is not a loopback address, or not one of this machine.
        """
        check_port(port)
        self.token = new_token()
        hosts = hosts_at(host, ())
        service = Service(source.served, Access((), (), hosts), Limits(), allow_programs=False)
        super().__init__(create_app(source, self.token, service=service, owner=owner, by=by), service, host, port)
        if not is_loopback(self._address):
            raise ConfigurationError(f"the inspector is for this machine alone, and {host} can be reached from others")

    @property
    def address(self) -> str:
        """The address that opens the pages; anyone who has it can read the log."""
        return f"{self.url}/?token={self.token}"
