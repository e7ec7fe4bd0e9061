"""The JSON API, with a route for each request of the command protocol; health, metrics and schemas."""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar, get_args

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route

from reenact.actors.runtime import LocalRuntime
from reenact.domain.errors import InvalidInputError, ReenactError
from reenact.domain.operations import table as commands
from reenact.domain.operations.table import REQUESTS, json_schema, refusal_of
from reenact.domain.stream.events import Envelope
from reenact.server.answers import (
    ANY_REQUEST,
    EVENTS,
    PAGE,
    error_response,
    failure,
    fields_outside_path,
    frames_schema,
    not_found_code,
    openapi,
    status_of,
    success,
)
from reenact.server.reading import MOST_VALUES, TOO_LARGE, has_too_many_values
from reenact.server.service import INTERNAL, Service

TIMEOUT = 30.0
"""Seconds after which a request times out."""
PAGE_SIZE = 1024 * 1024
"""Bytes of events after which a page ends."""
_DISCARDED = 4
"""A body is read to its end before it is refused, unless it exceeds this many times the largest allowed size."""
READY_WITHIN = 1.0
"""Seconds within which the read model of a server that is ready catches up with the log."""
_OBJECT = msgspec.json.Decoder(dict[str, object])
_log = logging.getLogger("reenact.server")
_CODES = {404: "not_found", 405: "method_not_allowed"}

Endpoint = Callable[[Request], Awaitable[Response]]


class _Refusal(Exception):
    """A request is refused with this code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def routes(service: Service, runtime: LocalRuntime) -> list[Route]:
    """Return the routes of the application, except that of the WebSocket."""
    api = _Api(service, runtime)
    document, events, frames = _documents(service.name, service.access.needs_token)
    return [
        Route("/health", _constant(success({"status": "ok", "server": service.name}))),
        Route("/ready", _with_error_responses(api.ready)),
        Route("/metrics", _with_error_responses(api.metrics)),
        Route("/openapi.json", _constant(document)),
        Route("/schemas/events.json", _constant(events)),
        Route("/schemas/frames.json", _constant(frames)),
        Route(EVENTS, _with_error_responses(api.events)),
        Route(ANY_REQUEST, _with_error_responses(api.any_request), methods=["POST"]),
        *(
            Route(kind.route.path, _with_error_responses(partial(api.resource, kind)), methods=[kind.route.method])
            for kind in REQUESTS.values()
        ),
    ]


@cache
def _documents(name: str, needs_token: bool) -> tuple[Response, ...]:  # noqa: FBT001 - `cache` tells names apart
    """Return the OpenAPI document and the schemas of events and frames, which take most of the start-up time."""
    return success(openapi(name, needs_token=needs_token)), success(json_schema()), success(frames_schema())


@dataclass
class _Api:
    _service: Service
    _runtime: LocalRuntime

    async def resource(self, kind: type[commands.Request[object]], request: Request) -> Response:
        given: dict[str, object] = (
            await self._body(request) if kind.route.method == "POST" else _query_values(kind, request.query_params)
        )
        if kind.route.body is not None:
            given = {kind.route.body: given}
        _check_names(given, fields_outside_path(kind))
        return await self._ask(kind.event_type, {**given, **request.path_params}, _key_of(request), kind)

    async def any_request(self, request: Request) -> Response:
        given = await self._body(request)
        named, key = given.get("request_id"), _key_of(request)
        if named is not None and not isinstance(named, str):
            raise InvalidInputError(f"request_id must be text, not {type(named).__name__}")
        if named is not None and key not in (None, named):
            raise InvalidInputError("request_id and the header Idempotency-Key are not the same; give one")
        return await self._ask(request.path_params["type"], given, named if key is None else key, None)

    async def events(self, request: Request) -> Response:
        _check_names(request.query_params, PAGE)
        after, limit = (_number(request.query_params, name) for name in PAGE)
        page = partial(self._page, request.path_params["session_id"], after, limit)
        return success(await self._service.read(page), unread=self._service.unread)

    async def ready(self, request: Request) -> Response:
        try:
            await self._service.call(partial(self._runtime.check_ready, READY_WITHIN))
        except ReenactError as error:
            return failure("unready", f"{error.code}: {error}")
        return success({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        text = await self._service.call(partial(exposition, self._service, self._runtime))
        return Response(text, media_type=CONTENT_TYPE)

    def _page(self, session_id: str, after: int, limit: int) -> bytes:
        following = self._runtime.feed.subscribe(session_id, after=after)
        events: list[bytes] = []
        size = 0
        try:
            while size < PAGE_SIZE and len(events) < limit and (one := following.take(1)):
                events.append(msgspec.json.encode(one[0]))
                size += len(events[-1])
        finally:
            following.unsubscribe()
        return b'{"events":[%b],"cursor":%d}' % (b",".join(events), following.cursor)

    async def _ask(
        self, type_: str, data: dict[str, object], key: str | None, kind: type[commands.Request[object]] | None
    ) -> Response:
        request_id = uuid.uuid4().hex if key is None else key
        return await self._service.ask(type_, data, request_id, TIMEOUT, partial(self._encoded, kind))

    def _encoded(self, kind: type[commands.Request[object]] | None, answer: Envelope[commands.Response]) -> Response:
        """Return a request's response as an HTTP response; called on the thread that carried out the request."""
        data = answer.data
        if data.error is not None:
            return error_response(data.error)
        code = None if kind is None else not_found_code(kind)
        if code is not None and data.result is None:
            return failure(code, f"there is no {code.removesuffix('_not_found')} with this id")
        status = 200 if kind is None else kind.route.status
        content = {"request_id": data.request_id, "result": data.result}
        return success(content, status, unread=self._service.unread)

    async def _body(self, request: Request) -> dict[str, object]:
        body = await _read_body(request, self._service.limits.message_size, self._service.limits.head_timeout)
        if request.query_params:
            raise InvalidInputError("a POST takes no query; put its fields into the body")
        if has_too_many_values(body):
            raise _Refusal(TOO_LARGE, f"a body has at most {MOST_VALUES:,} names and values")
        try:
            return _OBJECT.decode(body) if body.strip() else {}
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"the body must be a JSON object: {error}") from None


def _key_of(request: Request) -> str | None:
    """Return the request id in the `Idempotency-Key` header, or None."""
    key = request.headers.get("idempotency-key")
    try:
        return None if key is None else key.encode("latin-1").decode()  # Starlette reads headers as Latin-1
    except UnicodeDecodeError:
        raise InvalidInputError("the header Idempotency-Key must be UTF-8") from None


def _query_values(kind: type[commands.Request[object]], given: Mapping[str, str]) -> dict[str, object]:
    """Return the query parameters, converted to numbers and booleans; a value that does not convert stays text."""
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    return {name: _converted(text, types.get(name, str)) for name, text in given.items()}


def _converted(text: str, kind: object) -> object:
    if kind is str or str in get_args(kind):
        return text
    with suppress(msgspec.ValidationError):
        return msgspec.convert(text, kind, strict=False)
    return text


async def _read_body(request: Request, most: int, seconds: float) -> bytes:
    """Return the body; raise `_Refusal` if it is too large or does not arrive.

    Most clients send the whole body before they read an answer, so a body that is too large is read to its end too,
    unless it is much too large.
    """
    chunks: list[bytes] = []
    size = 0
    too_large = _Refusal(TOO_LARGE, f"a body has at most {most} bytes")
    length = request.headers.get("content-length", "")
    expected = int(length) if length.isdecimal() else 0
    if expected > most and (
        "expect" in request.headers or expected > _DISCARDED * most
    ):  # or the client waits for permission to send
        raise too_large
    try:
        async with asyncio.timeout(seconds) as patience:
            async for chunk in request.stream():
                size += len(chunk)
                if size > _DISCARDED * most:
                    break
                if max(size, expected) <= most:
                    chunks.append(chunk)
                patience.reschedule(asyncio.get_running_loop().time() + seconds)
    except TimeoutError:
        raise _Refusal("too_slow", f"nothing of the body came for {seconds:g} s") from None
    if max(size, expected) > most:
        raise too_large
    return b"".join(chunks)


def _check_names(given: Iterable[str], known: Collection[str]) -> None:
    for name in sorted(given):
        if name not in known:
            raise InvalidInputError(f"there is no field {name!r} here; there are: {', '.join(known) or 'none'}")


def _number(given: Mapping[str, str], name: str) -> int:
    schema = PAGE[name]
    text, least, most = given.get(name, str(schema["default"])), schema["minimum"], schema.get("maximum", math.inf)
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1  # noqa: PLR2004 - 64 bits
    if not least <= number <= most:
        bounds = f"from {least} on" if most == math.inf else f"from {least} to {most}"
        raise InvalidInputError(f"{name} must be a whole number {bounds}, not {text!r}")
    return number


def _with_error_responses(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint with its exceptions turned into responses."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except _Refusal as refusal:
            return failure(refusal.code, str(refusal))
        except ReenactError as error:
            return error_response(refusal_of(error))
        except ClientDisconnect:
            return Response(status_code=400)  # the client is gone
        except Exception:  # noqa: BLE001 - it is logged
            _log.exception("%s %s could not be answered", request.method, request.url.path)
            return error_response(INTERNAL)

    return answer


def _constant(response: Response) -> Endpoint:
    async def answer(_: Request) -> Response:
        return response

    return answer


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    response = failure(_CODES.get(status, "internal_error"), str(getattr(error, "detail", "internal error")))
    response.headers.update(getattr(error, "headers", None) or {})
    if response.status_code == status_of("method_not_allowed"):
        response.headers["allow"] = ", ".join(sorted(_methods(request)))
    return response


def _methods(request: Request) -> set[str]:
    """Return the methods of the path, over all its routes."""
    routes: list[BaseRoute] = request.app.routes
    return {
        method
        for route in routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


ERRORS = {HTTPException: _http_error}

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

K = TypeVar("K", int, str)


def exposition(service: Service, runtime: LocalRuntime) -> str:
    """Return the metrics of the server and its runtime. Reads the log, and may block."""
    return "".join((*_server_metrics(service), *_runtime_metrics(runtime)))


def _server_metrics(service: Service) -> Iterable[str]:
    counts = service.counts
    yield _single("reenact_start_time_seconds", "When the server began, since 1970-01-01 UTC.", service.since)
    yield _single("reenact_connections", "WebSockets that are open.", counts.connected)
    yield _single("reenact_connections_total", "WebSockets that were opened.", counts.connections)
    yield _single("reenact_subscriptions", "Open subscriptions.", counts.subscriptions)
    yield _single("reenact_requests_in_progress", "Requests that are being carried out.", counts.in_progress)
    yield _single("reenact_unread_bytes", "Bytes of answers that clients have not read.", service.unread.size)
    yield _single("reenact_events_sent_total", "Events sent over WebSockets.", counts.events)
    yield _single("reenact_received_bytes_total", "Bytes of messages from WebSockets.", counts.received)
    yield _single("reenact_sent_bytes_total", "Bytes of messages to WebSockets.", counts.sent)
    yield _family(
        "reenact_requests_total",
        "Requests of the command protocol that were answered, by type and the code of the outcome.",
        [(f'{{type="{type_}",code="{code}"}}', number) for (type_, code), number in sorted(counts.requests.items())],
    )
    yield _by_label("reenact_http_responses_total", "HTTP responses, by status.", "status", counts.http)
    refused = "Frames that were not accepted, by the code that says why."
    yield _by_label("reenact_refused_frames_total", refused, "code", counts.refused)
    closed = "WebSockets that the server closed, by the code of the close frame."
    yield _by_label("reenact_closed_total", closed, "code", counts.closed)


def _runtime_metrics(runtime: LocalRuntime) -> Iterable[str]:
    yield _single("reenact_failing", "Whether turns cannot be recorded.", runtime.failure is not None)
    try:
        position, lag, agents = runtime.position, runtime.lag, len(runtime.agents.list())
    except ReenactError:  # the log cannot be read, so these are not known
        return
    yield _single("reenact_log_position", "The position of the last event of the log.", position)
    yield _single("reenact_projection_lag", "Events that the read model has yet to take in.", lag)
    yield _single("reenact_live_agents", "Agents that are live.", agents)


def _single(name: str, help_: str, value: float) -> str:
    return _family(name, help_, [("", value)])


def _by_label(name: str, help_: str, label: str, numbers: Mapping[K, int]) -> str:
    """Return a counter with a sample for each key."""
    return _family(name, help_, [(f'{{{label}="{key}"}}', number) for key, number in sorted(numbers.items())])


def _family(name: str, help_: str, samples: Iterable[tuple[str, float]]) -> str:
    """Return the samples of a metric family. A counter's name ends with `_total`, a gauge's does not.

    Names, labels and codes are constants of ours, so nothing is escaped.
    """
    kind = "counter" if name.endswith("_total") else "gauge"
    lines = (f"{name}{labels} {value:.16g}" for labels, value in samples)
    return "\n".join((f"# HELP {name} {help_}", f"# TYPE {name} {kind}", *lines, ""))
