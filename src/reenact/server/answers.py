"""Responses of the JSON API, and its description: the OpenAPI document and the JSON Schema of frames."""

from __future__ import annotations

import math
from types import NoneType
from typing import Final, get_args

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from reenact.domain.image import ImageInfo
from reenact.domain.messages import Message
from reenact.domain.operations.table import REQUESTS, CommandError, Request, tidied
from reenact.domain.session.people import PendingCall
from reenact.domain.session.told import ToolCallInfo, TurnInfo
from reenact.domain.stream.events import Envelope
from reenact.domain.stream.frames import FromClient, FromServer
from reenact.server.limits import Unread

EVENTS = "/v1/sessions/{session_id}/events"
MOST_EVENTS = 1000
"""The most events on a page."""
ANY_REQUEST = "/v1/requests/{type}"
READS = frozenset(name for name, kind in REQUESTS.items() if not kind.changes)
"""Requests that change nothing; their results may be larger than the requests themselves."""
LARGE = frozenset(
    name
    for name in READS
    if REQUESTS[name].result
    in (list[Message], list[TurnInfo], list[ToolCallInfo], list[ImageInfo], ImageInfo | None, list[PendingCall])
)
"""Reads whose results hold content of conversations or of images, and may cost much memory and time."""
PIECE = 64 * 1024
"""Bytes that are sent at once; the next ones follow when the client has taken most of them."""
_JSON = "application/json"
_STATUS = {
    "already_exists": 409,
    "authentication": 401,
    "call_not_pending": 404,
    "conflict": 409,
    "host_not_served": 421,
    "environment_failed": 502,
    "internal_error": 500,
    "llm_error": 502,
    "mailbox_full": 503,
    "message_refused": 422,
    "method_not_allowed": 405,
    "node_unready": 503,
    "not_found": 404,
    "origin_not_allowed": 403,
    "key_ring": 503,
    "request_reused": 409,
    "runtime_closed": 503,
    "session_forgotten": 410,
    "session_in_use": 409,
    "session_locked": 409,
    "session_not_encrypted": 409,
    "shard_moved": 503,
    "stale_approval": 409,
    "timeout": 504,
    "tool_unavailable": 409,
    "too_large": 413,
    "too_many_connections": 503,
    "too_many_requests": 429,
    "too_slow": 408,
    "unknown_command": 404,
    "unknown_event_type": 400,
    "unknown_scenario": 400,
    "unready": 503,
    "unstorable": 400,
    "wrong_key": 503,
}
_STARTS = {"invalid_": 400, "log_": 503, "storage_": 503, "projection": 503, "read_model": 503}


def fields_outside_path(kind: type[Request[object]]) -> tuple[str, ...]:
    """Return the fields of a request that are not part of its path."""
    return tuple(name for name in kind.__struct_fields__ if name not in (*kind.route.fields, "request_id"))


def not_found_code(kind: type[Request[object]]) -> str | None:
    """Return the error code for a thing that does not exist; None if an empty result is allowed."""
    return None if kind.changes or kind.absent is not None else f"{kind.route.fields[0].removesuffix('_id')}_not_found"


def result(kind: type[Request[object]]) -> object:
    """Return the type of a request's result."""
    if not_found_code(kind) is None:
        return kind.result
    (found,) = (one for one in get_args(kind.result) if one is not NoneType)
    return found


def status_of(code: str) -> int:
    """Return the HTTP status for an error code."""
    if code.endswith("_not_found"):
        return 404
    return _STATUS.get(code) or next((status for start, status in _STARTS.items() if code.startswith(start)), 500)


class Answer(Response):
    """A response that is sent in pieces, as fast as the client takes them, and counted as unread until then."""

    media_type = _JSON
    unread: Unread | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, and remove it from the unread bytes even if the client is gone."""
        size = len(self.body)
        if self.unread is not None:
            self.unread.add(size)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for start in range(0, size or 1, PIECE):
                piece, end = self.body[start : start + PIECE], start + PIECE
                await send({"type": "http.response.body", "body": piece, "more_body": end < size})
        finally:
            if self.unread is not None:
                self.unread.remove(size)


def success(content: object, status: int = 200, *, unread: Unread | None = None) -> Response:
    """Return a response with the content as JSON, counted as unread if `unread` is given; bytes are sent unchanged."""
    answer = Answer(content if isinstance(content, bytes) else msgspec.json.encode(content), status)
    answer.unread = unread
    return answer


def failure(code: str, message: str, *, retry_after: float | None = None) -> Response:
    """Return the response `{"error": {"code", "message"}}`, with the HTTP status of the code."""
    return error_response(CommandError(code=code, message=message), retry_after=retry_after)


def error_response(error: CommandError, *, retry_after: float | None = None) -> Response:
    """Return the response for the error, with its details, and with the HTTP status of its code."""
    status = status_of(error.code)
    headers: dict[str, str] = {}
    if status == status_of("authentication"):
        headers["www-authenticate"] = "Bearer"
    if retry_after is not None:
        headers["retry-after"] = str(math.ceil(retry_after))
    body = msgspec.json.encode({"error": error})
    return Response(body, status, headers=headers, media_type=_JSON)


Schema = dict[str, object]
_IN_COMPONENTS = "#/components/schemas/{name}"
_TEXT: Final[Schema] = {"type": "string"}
_FAILURE: Final[Schema] = {"$ref": "#/components/responses/Failure"}
PAGE = {
    "after": {"minimum": 0, "default": 0},
    "limit": {"minimum": 1, "maximum": MOST_EVENTS, "default": 100},
}
"""The parameters of a page of events, all integers."""


class _Shape(msgspec.Struct):
    """The parts of a request's schema that are used."""

    properties: dict[str, Schema]
    required: tuple[str, ...] = ()
    description: str = ""


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was not carried out."""

    error: CommandError


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a session, in order; `cursor` is that of the last one, after which the next page continues."""

    events: tuple[Envelope, ...]
    cursor: int


def frames_schema() -> Schema:
    """Return one JSON Schema (2020-12) of all frames of the WebSocket."""
    (client, server), definitions = msgspec.json.schema_components(
        [FromClient, FromServer], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Reenact frame",
        "oneOf": [{"$ref": "#/$defs/FromClient"}, {"$ref": "#/$defs/FromServer"}],
        "$defs": {**tidied(definitions), "FromClient": client, "FromServer": server},
    }


def openapi(server: str, *, needs_token: bool = True) -> Schema:
    """Return the OpenAPI document (3.1) of the JSON API of a server, with or without a token."""
    requests = [*REQUESTS.values()]
    shapes, definitions = msgspec.json.schema_components(
        [*requests, *map(result, requests), ErrorAnswer, EventPage], ref_template=_IN_COMPONENTS
    )
    paths: dict[str, Schema] = {}
    for kind, shape in zip(requests, shapes[len(requests) :], strict=False):
        operation = _request_operation(kind, definitions[kind.__name__], shape)
        paths.setdefault(kind.route.path, {})[kind.route.method.lower()] = operation
    paths[EVENTS] = {
        "get": _operation(
            "session_events",
            "Return the events of a session that are behind a cursor",
            _json("The events that there are.", _in_components("EventPage")),
            parameters=[
                _parameter("session_id", "path", _TEXT, required=True),
                *(_parameter(name, "query", {"type": "integer", **bounds}) for name, bounds in PAGE.items()),
            ],
        )
    }
    paths[ANY_REQUEST] = {
        "post": _operation(
            "request",
            "Carry out any request of the command protocol",
            _json("What came of it.", _response_schema({})),
            parameters=[_parameter("type", "path", {"enum": [*REQUESTS]}, required=True), _IDEMPOTENCY],
            requestBody=_body({"anyOf": [_in_components(kind.__name__) for kind in requests]}, required=False),
        )
    }
    for path, name, summary, response in _PLAIN_ROUTES:
        paths[path] = {"get": _operation(name, summary, response, security=[])}
    text: Schema = {"description": "Prometheus' text format.", "content": {"text/plain": {"schema": _TEXT}}}
    paths["/metrics"] = {"get": _operation("metrics", "Return the numbers", text)}
    token = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if needs_token else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Reenact", "version": server.removeprefix("reenact "), "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": tidied(definitions),
            "responses": {"Failure": _json("It was not carried out.", _in_components("ErrorAnswer"))},
            **token,
        },
        **({"security": [{"token": []}]} if needs_token else {}),
    }


_ABOUT = (
    "Every route is a request of the command protocol; the WebSocket at /ws has the same, and the events when they "
    "happen. An Idempotency-Key is the request's id: sent again, it is not carried out again, and has the same answer."
)
_IDEMPOTENCY: Final[Schema] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "At most 1,024 bytes of UTF-8, and not blank.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": r"\S"},
}


def _request_operation(kind: type[Request[object]], request: Schema, result: Schema) -> Schema:
    shape = msgspec.convert(request, _Shape)
    properties, code, names, route = shape.properties, not_found_code(kind), fields_outside_path(kind), kind.route
    needed = [name for name in names if name in shape.required]
    parameters = [_parameter(name, "path", properties[name], required=True) for name in route.fields]
    more: Schema = {"parameters": parameters}
    if route.method == "POST":
        parameters.append(_IDEMPOTENCY)
        fields = {name: properties[name] for name in names}
        part: Schema = {"type": "object", "properties": fields, "required": needed, "additionalProperties": False}
        more["requestBody"] = _body(part if route.body is None else properties[route.body], required=bool(needed))
    else:
        parameters += [_parameter(name, "query", properties[name], required=name in needed) for name in names]
    return _operation(
        kind.event_type.removesuffix("_request"),
        " ".join(shape.description.partition("\n\n")[0].split()).rstrip("."),
        _json("What came of it.", _response_schema(result)),
        statuses=(route.status, *([] if code is None else [status_of(code)])),
        **more,
    )


def _operation(
    name: str, summary: str, response: Schema, *, statuses: tuple[int, ...] = (200,), **more: object
) -> Schema:
    responses = {**dict.fromkeys(map(str, statuses), _FAILURE), str(statuses[0]): response, "default": _FAILURE}
    return {"operationId": name, "summary": summary, **more, "responses": responses}


def _parameter(name: str, place: str, schema: Schema, *, required: bool = False) -> Schema:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _body(schema: Schema, *, required: bool) -> Schema:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def _response_schema(result: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {"request_id": _TEXT, "result": result},
        "required": ["request_id", "result"],
    }


def _json(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _in_components(name: str) -> Schema:
    return {"$ref": _IN_COMPONENTS.format(name=name)}


_STATUS_ONLY: Final[Schema] = {"type": "object", "properties": {"status": _TEXT}, "required": ["status"]}
_DOCUMENT = _json("It.", {"type": "object"})
_PLAIN_ROUTES = (
    ("/health", "health", "Return that the server is up", _json("It is.", _STATUS_ONLY)),
    ("/ready", "ready", "Return whether the log can be written and read", _json("It can.", _STATUS_ONLY)),
    ("/openapi.json", "openapi", "Return this document", _DOCUMENT),
    ("/schemas/events.json", "events_schema", "Return the schema of events", _DOCUMENT),
    ("/schemas/frames.json", "frames_schema", "Return the schema of frames", _DOCUMENT),
)
