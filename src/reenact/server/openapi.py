"""The JSON API and the frames, described for machines: made from the table of operations."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from reenact.domain.commands import REQUESTS, CommandError, Request
from reenact.domain.events import Envelope
from reenact.domain.frames import FromClient, FromServer
from reenact.server.answers import status_of
from reenact.server.resources import ANY_REQUEST, EVENTS, MOST_EVENTS, missing, others, result

Schema = dict[str, Any]
_IN_COMPONENTS: Final = "#/components/schemas/{name}"
_TEXT: Final[Schema] = {"type": "string"}


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was not carried out."""

    error: CommandError


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a session, in order; `cursor` is that of the last one, to go on behind."""

    events: tuple[Envelope, ...]
    cursor: int


def frames_schema() -> Schema:
    """Return one JSON Schema (2020-12) of every frame of the WebSocket."""
    (client, server), definitions = msgspec.json.schema_components(
        [FromClient, FromServer], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Reenact frame",
        "oneOf": [{"$ref": "#/$defs/FromClient"}, {"$ref": "#/$defs/FromServer"}],
        "$defs": {**_tidied(definitions), "FromClient": client, "FromServer": server},
    }


def openapi(server: str, *, needs_token: bool = True) -> Schema:
    """Return the OpenAPI document (3.1) of the JSON API of a server to which a token is needed, or none."""
    requests = [*REQUESTS.values()]
    shapes, definitions = msgspec.json.schema_components(
        [*requests, *(result(kind) for kind in requests), ErrorAnswer, EventPage], ref_template=_IN_COMPONENTS
    )
    paths: dict[str, Schema] = {}
    for kind, shape in zip(requests, shapes[len(requests) :], strict=False):
        operation = _operation(kind, definitions[kind.__name__], shape)
        paths.setdefault(kind.route.path, {})[kind.route.method.lower()] = operation
    paths[EVENTS] = {"get": _page()}
    paths[ANY_REQUEST] = {"post": _any_request()}
    paths |= _of_machines()
    document: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "Reenact", "version": server.removeprefix("reenact "), "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": _tidied(definitions),
            "responses": {
                "Failure": _json("It was not carried out.", {"$ref": _IN_COMPONENTS.format(name="ErrorAnswer")})
            },
        },
    }
    if needs_token:
        document["security"] = [{"token": []}]
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return document


_ABOUT: Final = (
    "Every route is a request of the command protocol; the WebSocket at /ws has the same, and the events when they "
    "happen. An Idempotency-Key is the request's id: sent again, it is not carried out again, and has the same answer."
)


def _operation(kind: type[Request[Any]], request: Schema, result: Schema) -> Schema:
    properties: Schema = request["properties"]
    required: list[str] = request.get("required", [])
    summary = " ".join(str(request.get("description", "")).partition("\n\n")[0].split())
    operation: Schema = {
        "operationId": kind.event_type.removesuffix("_request"),
        "summary": summary.rstrip("."),
        "parameters": [_parameter(name, "path", properties[name], required=True) for name in kind.route.fields],
        "responses": {
            str(kind.route.status): _json("What came of it.", _answer(result)),
            "default": {"$ref": "#/components/responses/Failure"},
        },
    }
    code, names = missing(kind), others(kind)
    if code is not None:
        operation["responses"][str(status_of(code))] = {"$ref": "#/components/responses/Failure"}
    if kind.route.method != "POST":
        operation["parameters"] += [
            _parameter(name, "query", properties[name], required=name in required) for name in names
        ]
    else:
        operation["parameters"].append(_IDEMPOTENCY)
        whole = kind.route.body
        body = _part(properties, required, names) if whole is None else properties[whole]
        needed = any(name in required for name in names)
        operation["requestBody"] = {"required": needed, "content": {"application/json": {"schema": body}}}
    return operation


_IDEMPOTENCY: Final[Schema] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "At most 1,024 bytes of UTF-8, and not blank.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": r"\S"},
}


def _part(properties: Schema, required: list[str], names: tuple[str, ...]) -> Schema:
    needed = [name for name in names if name in required]
    fields = {name: properties[name] for name in names}
    return {"type": "object", "properties": fields, "required": needed, "additionalProperties": False}


def _page() -> Schema:
    return {
        "operationId": "session_events",
        "summary": "Return the events of a session that are behind a cursor",
        "parameters": [
            _parameter("session_id", "path", _TEXT, required=True),
            _parameter("after", "query", {"type": "integer", "minimum": 0, "default": 0}, required=False),
            _parameter(
                "limit",
                "query",
                {"type": "integer", "minimum": 1, "maximum": MOST_EVENTS, "default": 100},
                required=False,
            ),
        ],
        "responses": {
            "200": _json("The events that there are.", {"$ref": _IN_COMPONENTS.format(name="EventPage")}),
            "default": {"$ref": "#/components/responses/Failure"},
        },
    }


def _any_request() -> Schema:
    bodies = [{"$ref": _IN_COMPONENTS.format(name=kind.__name__)} for kind in REQUESTS.values()]
    return {
        "operationId": "request",
        "summary": "Carry out any request of the command protocol",
        "parameters": [_parameter("type", "path", {"enum": [*REQUESTS]}, required=True), _IDEMPOTENCY],
        "requestBody": {"required": False, "content": {"application/json": {"schema": {"anyOf": bodies}}}},
        "responses": {
            "200": _json("What came of it.", _answer({})),
            "default": {"$ref": "#/components/responses/Failure"},
        },
    }


def _of_machines() -> dict[str, Schema]:
    status: Schema = {"type": "object", "properties": {"status": _TEXT}, "required": ["status"]}
    text = {"description": "Prometheus' text format.", "content": {"text/plain": {"schema": _TEXT}}}
    anything: Schema = {"type": "object"}
    return {
        "/health": _plain("health", "Return that the server is up", _json("It is.", status)),
        "/ready": _plain("ready", "Return whether the log can be written and read", _json("It can.", status)),
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "Return the numbers",
                "responses": {"200": text, "default": {"$ref": "#/components/responses/Failure"}},
            }
        },
        "/openapi.json": _plain("openapi", "Return this document", _json("It.", anything)),
        "/schemas/events.json": _plain("events_schema", "Return the schema of events", _json("It.", anything)),
        "/schemas/frames.json": _plain("frames_schema", "Return the schema of frames", _json("It.", anything)),
    }


def _plain(name: str, summary: str, response: Schema) -> Schema:
    responses = {"200": response, "default": {"$ref": "#/components/responses/Failure"}}
    return {"get": {"operationId": name, "summary": summary, "security": [], "responses": responses}}


def _parameter(name: str, place: str, schema: Schema, *, required: bool) -> Schema:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _answer(result: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {"request_id": _TEXT, "result": result},
        "required": ["request_id", "result"],
    }


def _json(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _tidied(definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the definitions with descriptions that do not depend on how the source is indented."""
    return {
        name: {key: " ".join(value.split()) if key == "description" else value for key, value in definition.items()}
        for name, definition in definitions.items()
    }
