"""What machines read of the API is true."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator, FormatChecker

from reenact.domain.operations.table import REQUESTS, json_schema
from reenact.domain.tools import is_array, is_object
from reenact.server.answers import ANY_REQUEST, EVENTS
from tests.server.conftest import TOKEN, Serve
from tests.server.talk import Json, Talk, has_turned

ROUTES = [kind.route for kind in REQUESTS.values()]
METHODS = {"get", "post", "delete"}
MACHINES = {"/health", "/ready", "/metrics", "/openapi.json", "/schemas/events.json", "/schemas/frames.json"}


@pytest.fixture
def document(http: httpx2.Client) -> Json:
    found: Json = http.get("/openapi.json").json()
    return found


def fits(document: Json, schema: object, value: object) -> None:
    """Fail if the value does not fit the schema, which stands in the document."""
    whole = {**document, "$schema": "https://json-schema.org/draft/2020-12/schema", "allOf": [schema]}
    validator = Draft202012Validator(whole, format_checker=FormatChecker())
    validator.validate(value)  # pyright: ignore[reportUnknownMemberType] - its stubs leave a parameter open


def operations(document: Json) -> list[tuple[str, str, Json]]:
    return [(path, method, one) for path, item in document["paths"].items() for method, one in item.items()]


def test_the_document_names_every_route(document: Json) -> None:
    named = {(method.upper(), path) for path, method, _ in operations(document)}

    assert document["openapi"].startswith("3.1")
    assert {(route.method, route.path) for route in ROUTES} < named
    assert {path for _, path in named} == {*(route.path for route in ROUTES), *MACHINES, EVENTS, ANY_REQUEST}


def test_the_document_says_what_is_enforced(document: Json, http: httpx2.Client) -> None:
    page = document["paths"][EVENTS]["get"]["parameters"]
    limit = next(one["schema"] for one in page if one["name"] == "limit")
    keys = [
        one["schema"] for _, _, op in operations(document) for one in op.get("parameters", ()) if one["in"] == "header"
    ]
    longest = keys[0]["maxLength"]

    assert http.get("/v1/sessions/s/events", params={"limit": limit["maximum"] + 1}).status_code == 400
    assert http.get("/v1/sessions/s/events", params={"limit": limit["maximum"]}).status_code == 404
    assert {key["minLength"] for key in keys} == {1}
    assert http.post("/v1/containers", headers={"Idempotency-Key": "x" * longest}).status_code == 201
    assert http.post("/v1/containers", headers={"Idempotency-Key": "x" * (longest + 1)}).status_code == 400
    assert http.post("/v1/containers", headers={"Idempotency-Key": ""}).status_code == 400


def test_a_token_is_asked_for_where_one_is_needed(serve: Serve, document: Json) -> None:
    closed = httpx2.get(f"{serve(tokens=[TOKEN]).url}/openapi.json").json()

    assert closed["security"] == [{"token": []}]
    assert "default" in closed["paths"]["/metrics"]["get"]["responses"]
    assert "security" not in document
    assert "securitySchemes" not in document["components"]


def test_the_document_has_the_form_of_one(document: Json) -> None:
    assert {"title", "version"} <= document["info"].keys()
    names = [one["operationId"] for _, _, one in operations(document)]
    assert len(set(names)) == len(names)
    for path, method, operation in operations(document):
        assert method in METHODS
        assert operation["responses"]
        assert all("description" in one or "$ref" in one for one in operation["responses"].values())
        in_path = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
        assert in_path == {part.strip("{}") for part in path.split("/") if part.startswith("{")}
        assert all(one["required"] for one in operation.get("parameters", ()) if one["in"] == "path")


def test_every_schema_is_one_and_every_reference_leads_somewhere(document: Json) -> None:
    def visit(value: Any) -> None:  # noqa: ANN401 - any JSON value
        if is_object(value):
            reference = value.get("$ref")
            if isinstance(reference, str):
                place: Any = document
                for part in reference.removeprefix("#/").split("/"):
                    place = place[part]
            for one in value.values():
                visit(one)
        elif is_array(value):
            for one in value:
                visit(one)

    visit(document)
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_answers_fit_what_the_document_says(http: httpx2.Client, document: Json) -> None:
    http.post("/v1/containers", json={"container_id": "room"})
    http.post("/v1/containers/room/sessions", json={"image_id": "chat", "session_id": "s"})
    http.post("/v1/messages", json={"session_id": "s", "content": "Hello"})
    given = {"container_id": "room", "session_id": "s", "image_id": "chat"}

    for route in ROUTES:
        if route.method != "GET" or not set(route.fields) <= given.keys():
            continue
        answer = http.get(route.path.format(**given))
        operation = document["paths"][route.path]["get"]
        schema = operation["responses"][str(answer.status_code)]["content"]["application/json"]["schema"]
        fits(document, schema, answer.json())
    page = document["paths"][EVENTS]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    fits(document, page, http.get("/v1/sessions/s/events").json())
    failure = document["components"]["responses"]["Failure"]["content"]["application/json"]["schema"]
    fits(document, failure, http.get("/v1/sessions/nowhere").json())


def test_the_schema_of_events_is_that_of_the_catalogue(http: httpx2.Client) -> None:
    assert http.get("/schemas/events.json").json() == json.loads(json.dumps(json_schema()))


def test_frames_fit_their_schema(http: httpx2.Client, talk: Talk, session_id: str) -> None:
    schema = http.get("/schemas/frames.json").json()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    talk.ask("message_send_request", session_id=session_id, content="Hello")
    talk.say("subscribe", id="s", topic=session_id, client_id="ada")
    subscribed = talk.hear("subscribed")
    talk.follow("s", has_turned)
    talk.say("ack", id="s", cursor=1)
    talk.say("ack", id="nothing", cursor=1)
    talk.say("unsubscribe", id="s")
    talk.say("request", id="r", request="container_list_request")

    frames = [subscribed, *(talk.hear() for _ in range(4))]
    frames.append({"type": "events", "batches": [{"id": "s", "events": talk.events["s"]}]})

    assert {frame["type"] for frame in frames} == {"subscribed", "error", "acked", "ended", "response", "events"}
    for frame in frames:
        validator.validate(frame)  # pyright: ignore[reportUnknownMemberType] - likewise
    assert not validator.is_valid({"type": "publish"})  # pyright: ignore[reportUnknownMemberType] - likewise
    assert not validator.is_valid({"type": "ack", "id": "s"})  # pyright: ignore[reportUnknownMemberType] - likewise


def test_every_request_has_a_schema(document: Json) -> None:
    assert {kind.__name__ for kind in REQUESTS.values()} <= document["components"]["schemas"].keys()
