"""The JSON API: every request of the command protocol has a route, and every error its status."""

from __future__ import annotations

import socket
from typing import Any

import httpx2
import pytest

from reenact import (
    AlreadyExistsError,
    CallNotPendingError,
    ConflictError,
    Image,
    InvalidMessageError,
    LLMError,
    LogLockedError,
    MailboxFullError,
    ProjectionFailedError,
    ReadModelBehindError,
    ReadModelError,
    ReenactError,
    Runtime,
    RuntimeClosedError,
    SessionNotFoundError,
    StaleApprovalError,
    StorageError,
    StorageFullError,
    UnstorableError,
    tool,
)
from reenact.domain.errors import RequestReusedError, RequestTimeoutError
from reenact.domain.operations.table import REQUESTS
from reenact.server import Server
from reenact.server.answers import status_of
from reenact.testing import MockEnvironmentFactory, MockEvent, MockScenario, wait_until
from tests.server.conftest import Serve
from tests.server.talk import PATIENCE, Json, all_of, metric, plain, request_head


def result(answer: httpx2.Response, status: int = 200) -> Any:  # noqa: ANN401 - whatever it results in
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()["result"]


def error(answer: httpx2.Response) -> tuple[int, str]:
    assert set(answer.json()) == {"error"}
    assert set(answer.json()["error"]) - {"details"} == {"code", "message"}
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, answer.json()["error"]["code"]


def test_every_request_has_one_route() -> None:
    routes = {(kind.route.method, kind.route.path) for kind in REQUESTS.values()}

    assert len(routes) == len(REQUESTS)


def test_containers_are_made_read_and_listed(http: httpx2.Client) -> None:
    made = result(http.post("/v1/containers", json={"container_id": "room", "name": "Room"}), 201)

    assert (made["id"], made["name"]) == ("room", "Room")
    assert result(http.get("/v1/containers/room")) == made
    assert result(http.get("/v1/containers")) == [made]
    assert result(http.post("/v1/containers"), 201)["name"] is None


def test_images_are_registered_read_and_listed(http: httpx2.Client) -> None:
    made = result(http.post("/v1/images", json={"id": "poet", "system_prompt": "Rhyme."}))

    assert made["revision"] == 1
    assert result(http.get("/v1/images/poet"))["system_prompt"] == "Rhyme."
    assert [image["id"] for image in result(http.get("/v1/images"))] == ["chat", "poet"]


def test_a_session_is_made_run_asked_and_deleted(http: httpx2.Client, runtime: Runtime) -> None:
    http.post("/v1/containers", json={"container_id": "room"})
    made = result(http.post("/v1/containers/room/sessions", json={"image_id": "chat", "session_id": "s"}), 201)
    agent_id = result(http.post("/v1/sessions/s/run"))
    sent = result(http.post("/v1/messages", json={"agent_id": agent_id, "content": "Hello"}))
    wait_until(lambda: runtime.sessions.turns("s")[-1].outcome == "completed", PATIENCE, "the turn")

    assert result(http.get("/v1/sessions/s")) == made
    assert result(http.get("/v1/containers/room/sessions")) == [made]
    assert (sent["session_id"], sent["agent_id"]) == ("s", agent_id)
    assert [message["role"] for message in result(http.get("/v1/sessions/s/messages"))] == ["user", "assistant"]
    assert [turn["id"] for turn in result(http.get("/v1/sessions/s/turns"))] == [sent["turn_id"]]
    assert result(http.get("/v1/sessions/s/tool_calls")) == []
    assert result(http.get("/v1/sessions/s/usage"))["session_id"] == "s"
    assert result(http.get(f"/v1/agents/{agent_id}"))["state"] == "idle"
    assert [agent["id"] for agent in result(http.get("/v1/agents"))] == [agent_id]
    assert result(http.post(f"/v1/agents/{agent_id}/interrupt")) is None
    assert result(http.delete(f"/v1/agents/{agent_id}")) is None
    assert error(http.get(f"/v1/agents/{agent_id}")) == (404, "agent_not_found")
    turn_id = sent["turn_id"]
    assert result(http.get(f"/v1/turns/{turn_id}")) == {"turn_id": turn_id, "session_id": "s", "cursor": 3}
    assert error(http.get("/v1/turns/trn_none")) == (404, "turn_not_found")
    listed = [session["id"] for session in result(http.get("/v1/sessions?limit=1&waiting=false"))]
    assert listed == [runtime.sessions.list()[0].id]
    assert result(http.get("/v1/sessions?waiting=true")) == []
    for wrong in ("limit=many", "limit=0", "waiting=maybe"):
        assert error(http.get(f"/v1/sessions?{wrong}")) == (400, "invalid_input")
    assert result(http.delete("/v1/sessions/s")) is True
    assert result(http.delete("/v1/sessions/s")) is False
    missing = http.get("/v1/sessions/s")
    assert error(missing) == (404, "session_not_found")
    assert missing.json()["error"]["message"] == "there is no session with this id"


def test_an_address_with_a_slash_too_many_is_not_found(http: httpx2.Client) -> None:
    assert error(http.get("/v1/containers/")) == (404, "not_found")
    assert error(http.post("/v1/containers/", json={})) == (404, "not_found")


def test_people_decide_over_the_api(serve: Serve, runtime: Runtime, mock: MockEnvironmentFactory) -> None:
    @tool(intervention="required")
    def send_mail(to: str) -> str:
        """Send a mail."""
        return f"sent to {to}"

    calls = [
        MockEvent("tool_call", data={"id": f"c{number}", "name": "send_mail", "input": {"to": "ada"}})
        for number in range(3)
    ]
    stop = MockEvent("message_stop", data={"stop_reason": "tool_use"})
    mock.define_scenario("mail", MockScenario("mail", (MockEvent("message_start", data={}), *calls, stop)))
    mock.set_scenario("mail")
    runtime.images.register(Image(id="clerk", tools=(send_mail,)))
    with httpx2.Client(base_url=serve().url) as http:
        sent = result(http.post("/v1/messages", json={"image_id": "clerk", "content": "write to Ada"}))
        session_id = sent["session_id"]
        wait_until(lambda: len(runtime.agents.pending()) == 3, PATIENCE, "the calls")
        mock.set_scenario("default")

        pending = result(http.get("/v1/pending", params={"session_id": session_id}))
        approved = http.post("/v1/pending/c0/approve", json={"digest": pending[0]["digest"], "by": "eve"})
        rejected = http.post("/v1/pending/c1/reject", json={"reason": "no", "resume": True})
        question = http.post("/v1/pending/c2/respond", json={"value": 1})
        gone = http.post("/v1/pending/c0/approve")

        assert [call["id"] for call in pending] == ["c0", "c1", "c2"]
        assert isinstance(result(approved), str), "the turn in which the call runs"
        assert rejected.status_code == 200
        assert error(question) == (404, "call_not_pending"), "it is no question"
        assert error(gone) == (404, "call_not_pending")
        assert http.post("/v1/pending/c2/approve").status_code == 200
        wait_until(lambda: runtime.sessions.turns(session_id)[-1].outcome == "completed", PATIENCE, "the turn")
        stages = [call["decision"] for call in result(http.get(f"/v1/sessions/{session_id}/tool_calls"))]
        assert stages == ["approved", "rejected", "approved"]


def test_any_request_can_be_asked_for_by_its_type(http: httpx2.Client) -> None:
    made = result(http.post("/v1/requests/container_create_request", json={"container_id": "room"}))

    assert made["id"] == "room"
    assert result(http.post("/v1/requests/container_get_request", json={"container_id": "nowhere"})) is None
    assert error(http.post("/v1/requests/container_create_response")) == (404, "unknown_command")
    assert error(http.post("/v1/requests/text_delta", json={"text": "x"})) == (404, "unknown_command")


def test_an_idempotency_key_is_the_id_of_the_request(http: httpx2.Client) -> None:
    answer = http.post("/v1/containers", headers={"Idempotency-Key": "mine"})

    assert answer.json()["request_id"] == "mine"


def test_an_idempotency_key_is_utf_8(http: httpx2.Client) -> None:
    def asked(key: bytes) -> httpx2.Response:
        return http.post(
            "/v1/requests/container_create_request",
            json={"request_id": "schlüssel", "container_id": "room"},
            headers=[(b"Idempotency-Key", key)],
        )

    assert asked("schlüssel".encode()).json()["request_id"] == "schlüssel"
    assert http.post("/v1/containers", headers=[(b"Idempotency-Key", ("ü" * 512).encode())]).status_code == 201
    assert error(asked("schlüssel".encode("latin-1"))) == (400, "invalid_input")


def test_the_id_of_any_request_may_be_in_its_body(http: httpx2.Client) -> None:
    def asked(body: object, **headers: str) -> httpx2.Response:
        return http.post("/v1/requests/container_create_request", json={"request_id": body}, headers=headers)

    first, again = asked("mine"), asked("mine", **{"Idempotency-Key": "mine"})

    assert first.json()["request_id"] == "mine"
    assert again.json() == first.json()
    assert error(asked("mine", **{"Idempotency-Key": "other"})) == (400, "invalid_input")
    assert error(asked(1)) == (400, "invalid_input")
    assert error(asked("")) == (400, "invalid_input")
    assert len(result(http.get("/v1/containers"))) == 1


def test_a_method_that_a_path_has_not_is_told_all_that_it_has(http: httpx2.Client) -> None:
    assert http.delete("/v1/containers").headers["allow"] == "GET, HEAD, POST"
    assert http.post("/v1/sessions/s").headers["allow"] == "DELETE, GET, HEAD"


def test_a_body_with_two_lengths_is_refused_and_the_connection_closed(server: Server) -> None:
    with plain(server) as connection:
        head = request_head(server, "POST /v1/containers", "Content-Length: 5", "Transfer-Encoding: chunked")
        connection.sendall(head + b"0\r\n\r\n")

        answer = all_of(connection)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


CANNOT_BE_DONE: list[tuple[str, Json, tuple[int, str]]] = [
    ("/v1/containers", {"container_id": "room", "nam": "Room"}, (400, "invalid_input")),
    ("/v1/containers", {"container_id": ""}, (400, "invalid_input")),
    ("/v1/containers", {"container_id": 1}, (400, "invalid_input")),
    ("/v1/containers", {"request_id": "mine"}, (400, "invalid_input")),
    ("/v1/containers/room/sessions", {"image_id": "chat", "container_id": "other"}, (400, "invalid_input")),
    ("/v1/containers/nowhere/sessions", {"image_id": "chat"}, (404, "container_not_found")),
    ("/v1/containers/room/sessions", {"image_id": "nothing"}, (404, "image_not_found")),
    ("/v1/containers/room/sessions", {"image_id": "chat", "session_id": "talks"}, (409, "already_exists")),
    ("/v1/images", {"id": "x", "nonsense": 1}, (400, "invalid_input")),
    ("/v1/messages", {"content": "Hello"}, (400, "invalid_input")),
    ("/v1/messages", {"content": " ", "session_id": "talks"}, (400, "invalid_message")),
    ("/v1/messages", {"content": "Hello", "agent_id": "nobody"}, (404, "agent_not_found")),
    ("/v1/sessions/nowhere/run", {}, (404, "session_not_found")),
]


def test_what_cannot_be_done_is_said_with_its_status(
    http: httpx2.Client, session_id: str, subtests: pytest.Subtests
) -> None:
    for path, body, expected in CANNOT_BE_DONE:
        with subtests.test(f"{path} {body}"):
            assert error(http.post(path, json=body)) == expected


def test_a_body_that_is_no_object_is_refused(http: httpx2.Client, subtests: pytest.Subtests) -> None:
    not_utf_8 = b'{"name": "\xe4"}'
    for body in (b"nonsense", b"[]", b"1", b'"x"', b"null", b"{", b"\xff", not_utf_8, b"[" * 100_000, b'{"a":NaN}'):
        with subtests.test(repr(body[:20])):
            assert error(http.post("/v1/containers", content=body)) == (400, "invalid_input")


IS_NOT_THERE = [
    ("GET", "/", (404, "not_found")),
    ("GET", "/v1", (404, "not_found")),
    ("GET", "/v1/containers/a/b/c", (404, "not_found")),
    ("PUT", "/v1/containers", (405, "method_not_allowed")),
    ("POST", "/health", (405, "method_not_allowed")),
    ("GET", "/v1/requests/container_list_request", (405, "method_not_allowed")),
    ("GET", "/v1/containers?verbose=1", (400, "invalid_input")),
    ("POST", "/v1/containers?container_id=room", (400, "invalid_input")),
    ("POST", "/v1/requests/container_create_request?container_id=room", (400, "invalid_input")),
    ("GET", "/v1/pending?call_id=1", (400, "invalid_input")),
    ("GET", "/v1/sessions/nowhere/messages", (404, "session_not_found")),
    ("GET", "/v1/sessions/nowhere/events", (404, "session_not_found")),
    ("GET", "/v1/sessions/talks/events?after=-1", (400, "invalid_input")),
    ("GET", "/v1/sessions/talks/events?after=2", (400, "invalid_input")),
    ("GET", "/v1/sessions/talks/events?after=x", (400, "invalid_input")),
    ("GET", "/v1/sessions/talks/events?after=\u0661", (400, "invalid_input")),
    ("GET", f"/v1/sessions/talks/events?after={'9' * 5000}", (400, "invalid_input")),
    ("GET", "/v1/sessions/talks/events?limit=0", (400, "invalid_input")),
    ("GET", "/v1/sessions/talks/events?limit=1001", (400, "invalid_input")),
    ("GET", "/v1/sessions/talks/events?until=1", (400, "invalid_input")),
]


def test_what_there_is_not_is_said_with_its_status(
    http: httpx2.Client, session_id: str, subtests: pytest.Subtests
) -> None:
    for method, path, expected in IS_NOT_THERE:
        with subtests.test(f"{method} {path[:80]}"):
            assert error(http.request(method, path)) == expected


def pages_of(http: httpx2.Client, runtime: Runtime, session_id: str, said: str, limit: int) -> list[Json]:
    """Return the events of a session in which this was said, page by page, to the empty one at the end."""
    http.post("/v1/messages", json={"session_id": session_id, "content": said})
    wait_until(lambda: runtime.sessions.turns(session_id)[-1].outcome, PATIENCE, "the turn")
    pages: list[Json] = []
    while not pages or pages[-1]["events"]:
        after = pages[-1]["cursor"] if pages else 0
        pages.append(http.get(f"/v1/sessions/{session_id}/events", params={"after": after, "limit": limit}).json())
    return pages


def test_the_events_of_a_session_come_in_pages(http: httpx2.Client, runtime: Runtime, session_id: str) -> None:
    pages = pages_of(http, runtime, session_id, "Hello", limit=6)

    assert [len(page["events"]) for page in pages] == [6, 6, 2, 0]
    events = [event for page in pages for event in page["events"]]
    assert [event["cursor"] for event in events] == list(range(1, 15))
    assert pages[-1]["cursor"] == 14


def test_a_page_of_large_events_ends_early_and_the_next_one_goes_on(
    http: httpx2.Client, runtime: Runtime, session_id: str
) -> None:
    pages = pages_of(http, runtime, session_id, "x" * 1_500_000, limit=1000)

    cursors = [event["cursor"] for page in pages for event in page["events"]]
    assert len(pages) > 2
    assert cursors == list(range(1, len(cursors) + 1))
    assert all(page["cursor"] == page["events"][-1]["cursor"] for page in pages[:-1])


def test_a_client_that_sends_a_body_that_is_too_large_to_its_end_is_told_so(server: Server) -> None:
    size = 13_000_000
    with plain(server) as connection:
        connection.sendall(request_head(server, "POST /v1/containers", f"Content-Length: {size}") + b"x" * size)

        connection.shutdown(socket.SHUT_WR)

        answer = all_of(connection)

    assert b"413" in answer.partition(b"\r\n")[0]
    assert b"too_large" in answer


def test_a_body_that_is_too_large_is_refused(serve: Serve) -> None:
    server = serve(message_size=1000)

    declared = httpx2.post(f"{server.url}/v1/containers", json={"name": "x" * 2000})
    chunked = httpx2.post(f"{server.url}/v1/containers", content=iter([b"{", b" " * 1500, b"}"]))

    assert error(declared) == (413, "too_large")
    assert error(chunked) == (413, "too_large")


@pytest.mark.parametrize(("failing", "path"), [("request", "containers"), ("feed.subscribe", "sessions/talks/events")])
def test_an_unexpected_failure_says_nothing_of_itself(
    *,
    server: Server,
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failing: str,
    path: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret")

    owner = runtime.feed if failing.startswith("feed.") else runtime
    monkeypatch.setattr(owner, failing.removeprefix("feed."), fail)

    answer = httpx2.get(f"{server.url}/v1/{path}")

    assert error(answer) == (500, "internal_error")
    assert "secret" not in answer.text
    assert "ZeroDivisionError" in caplog.text
    assert metric(server, 'reenact_http_responses_total{status="500"}') == 1


def test_the_server_is_up_and_ready(http: httpx2.Client) -> None:
    assert http.get("/health").json()["status"] == "ok"
    assert http.get("/ready").json() == {"status": "ready"}
    assert http.head("/health").status_code == 200


def test_a_server_whose_log_cannot_be_written_is_up_but_not_ready(
    server: Server, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(runtime), "failure", property(lambda _: StorageFullError("no space is left")))

    ready = httpx2.get(f"{server.url}/ready")

    assert error(ready) == (503, "unready")
    assert "no space is left" in ready.json()["error"]["message"]
    assert httpx2.get(f"{server.url}/health").status_code == 200


def test_a_server_whose_read_model_is_behind_is_not_ready(
    server: Server, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behind(*_: object) -> None:
        raise ReadModelBehindError(7, 3)

    monkeypatch.setattr(runtime, "check_ready", behind)

    assert error(httpx2.get(f"{server.url}/ready")) == (503, "unready")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (ReenactError, 500),
        (SessionNotFoundError, 404),
        (CallNotPendingError, 404),
        (AlreadyExistsError, 409),
        (ConflictError, 409),
        (RequestReusedError, 409),
        (StaleApprovalError, 409),
        (InvalidMessageError, 400),
        (UnstorableError, 400),
        (StorageError, 503),
        (StorageFullError, 503),
        (LogLockedError, 503),
        (RuntimeClosedError, 503),
        (MailboxFullError, 503),
        (ReadModelError, 503),
        (ProjectionFailedError, 503),
        (RequestTimeoutError, 504),
        (LLMError, 502),
    ],
)
def test_each_error_has_a_status(kind: type[ReenactError], status: int) -> None:
    assert status_of(kind.code) == status
