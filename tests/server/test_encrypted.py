"""A server of an encrypted log: sessions are forgotten by clients of any kind, and every answer has its status."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from reenact import (
    AsyncRuntime,
    Image,
    KeyRing,
    KeyRingError,
    Runtime,
    SessionForgottenError,
    SessionInUseError,
    SessionNotEncryptedError,
    SessionNotFoundError,
)
from reenact.client.runtime import RemoteRuntime
from reenact.events import SessionDeleted
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.journal.test_encryption import Service
from tests.logs import log_at
from tests.server.talk import greeted

SECRET = "pineapple"  # noqa: S105 - of a story


@pytest.fixture
def service() -> Service:
    """A service of keys, which can be down."""
    return Service()


@pytest.fixture
def runtime(tmp_path: Path, service: Service) -> Iterator[Runtime]:
    """A runtime of a log with keys, and with a session from before it had any."""
    log = log_at(tmp_path / "log.db")
    mock, chat = MockEnvironmentFactory(delays=False), Image(id="chat")
    with Runtime.open(log, environment=mock, default_image=chat, synchronous="OFF") as before:
        before.containers.create(container_id="room")
        before.ask("Good day", session=before.sessions.create("room", "chat", session_id="plain").id)
    keys = KeyRing.custom(service.wrap, service.unwrap)
    with Runtime.open(
        log, environment=MockEnvironmentFactory(delays=False), default_image=chat, synchronous="OFF", keys=keys
    ) as runtime:
        for session_id in ("talk", "other"):
            runtime.sessions.create("room", "chat", session_id=session_id)
            runtime.ask(f"The {SECRET}", session=session_id)
        yield runtime


@pytest.fixture
def remote(server: Server) -> Iterator[RemoteRuntime]:
    """The same runtime, by way of the server."""
    with Runtime.connect(server.url, client_id="me") as remote:
        yield remote


# --- Over a WebSocket -------------------------------------------------------------------------------------------------


def test_a_client_forgets_a_session_and_is_told_as_whoever_is_there(runtime: Runtime, remote: RemoteRuntime) -> None:
    remote.sessions.branch("talk", new_session_id="branch")

    with pytest.raises(SessionInUseError) as refused:
        remote.sessions.forget("talk", by="ada")
    forgotten = remote.sessions.forget("talk", by="ada", why="asked for", family=True)

    assert refused.value.dependents == ("branch",)
    assert forgotten == [runtime.sessions.get("talk"), runtime.sessions.get("branch")]
    assert forgotten == [remote.sessions.get("talk"), remote.sessions.get("branch")]
    assert remote.sessions.forget("talk", by="bob") == []
    for look in (remote.sessions.messages, remote.sessions.turns, remote.sessions.usage, remote.sessions.run):
        with pytest.raises(SessionForgottenError):
            look("talk")
    with pytest.raises(SessionForgottenError):
        remote.ask("Hello", session="talk")
    assert remote.sessions.messages("other")[0].text == f"The {SECRET}"


def test_refusals_have_their_types(remote: RemoteRuntime) -> None:
    with pytest.raises(SessionNotEncryptedError):
        remote.sessions.forget("plain", by="ada")
    with pytest.raises(SessionNotFoundError):
        remote.sessions.forget("nobody", by="ada")


def test_a_client_that_follows_hears_the_end_and_whoever_comes_later_that_it_was_forgotten(
    runtime: Runtime, remote: RemoteRuntime, server: Server
) -> None:
    following = remote.events.subscribe("talk", "me")
    first = following.next(60)
    assert first is not None
    assert first.type == "session_created"

    runtime.sessions.forget("talk", by="ada", why="asked for")

    *_, last = following  # which hears that it is deleted, before it is forgotten
    assert last.type == "session_deleted"
    with Runtime.connect(server.url) as another:
        (left,) = another.events.stream("talk")
        assert isinstance(left.data, SessionDeleted)
        assert (left.data.forgotten_by, left.data.why) == ("ada", "asked for")
        assert [event.data for event in another.events.stream("talk", after=3)] == [left.data]


def test_frames_of_the_protocol_carry_the_codes(server: Server) -> None:
    with greeted(server) as talk:
        forgotten = talk.ask("session_forget_request", session_id="talk", by="ada")
        gone = talk.ask("session_messages_request", session_id="talk")

    assert forgotten["result"][0]["forgotten"]["by"] == "ada"
    assert gone["error"]["code"] == "session_forgotten"


def test_the_asyncio_client_forgets_too(server: Server) -> None:
    async def story() -> None:
        async with await AsyncRuntime.connect(server.url) as remote:
            (session,) = await remote.sessions.forget("talk", by="ada")
            assert session.forgotten is not None
            with pytest.raises(SessionForgottenError):
                await remote.sessions.messages("talk")
            assert [event.type async for event in remote.events.stream("talk")] == ["session_deleted"]

    asyncio.run(story())


def test_a_client_waits_for_no_key_and_goes_on_when_it_is_there(remote: RemoteRuntime, service: Service) -> None:
    service.is_down = True
    with pytest.raises(KeyRingError, match="nobody answers"):
        remote.sessions.create("room", "chat", session_id="new")
    remote.ask("Again", session="talk")
    service.is_down = False

    remote.ask("Hello", session=remote.sessions.create("room", "chat", session_id="new").id)


# --- Over HTTP --------------------------------------------------------------------------------------------------------


def forget(http: httpx2.Client, session_id: str, **more: object) -> httpx2.Response:
    return http.post(f"/v1/sessions/{session_id}/forget", json={"by": "ada", **more})


def code_of(response: httpx2.Response) -> str:
    return str(response.json()["error"]["code"])


def test_a_session_is_forgotten_over_http(http: httpx2.Client) -> None:
    done = forget(http, "talk", why="asked for")
    again = forget(http, "talk")

    (session,) = done.json()["result"]
    assert (done.status_code, session["id"]) == (200, "talk")
    assert (session["forgotten"]["by"], session["forgotten"]["why"]) == ("ada", "asked for")
    assert (again.status_code, again.json()["result"]) == (200, [])
    assert http.get("/v1/sessions/talk").json()["result"] == session


def test_what_is_asked_of_a_session_that_was_forgotten_is_gone(http: httpx2.Client) -> None:
    forget(http, "talk")

    gone = [
        http.get("/v1/sessions/talk/messages"),
        http.get("/v1/sessions/talk/turns"),
        http.get("/v1/sessions/talk/usage"),
        http.post("/v1/sessions/talk/run"),
        http.post("/v1/sessions/talk/branches", json={}),
        http.post("/v1/messages", json={"session_id": "talk", "content": "Hello"}),
        http.post("/v1/requests/session_messages_request", json={"session_id": "talk"}),
    ]

    assert {(one.status_code, code_of(one)) for one in gone} == {(410, "session_forgotten")}
    assert all(SECRET not in one.text for one in gone)
    events = http.get("/v1/sessions/talk/events")
    assert (events.status_code, [event["type"] for event in events.json()["events"]]) == (200, ["session_deleted"])


def test_what_cannot_be_forgotten_has_its_status(http: httpx2.Client) -> None:
    http.post("/v1/sessions/talk/branches", json={"new_session_id": "branch"})

    in_use, plain, nobody = forget(http, "talk"), forget(http, "plain"), forget(http, "nobody")
    unsigned = http.post("/v1/sessions/talk/forget", json={})

    assert [(one.status_code, code_of(one)) for one in (in_use, plain, nobody, unsigned)] == [
        (409, "session_in_use"),
        (409, "session_not_encrypted"),
        (404, "session_not_found"),
        (400, "invalid_input"),
    ]
    assert in_use.json()["error"]["details"]["dependents"] == ["branch"]


def test_while_the_keys_cannot_be_had_a_new_session_is_for_later(http: httpx2.Client, service: Service) -> None:
    service.is_down = True
    wanted = {"image_id": "chat", "session_id": "new"}
    refused = http.post("/v1/containers/room/sessions", json=wanted, headers={"Idempotency-Key": "k1"})
    known = http.post("/v1/messages", json={"session_id": "talk", "content": "Hello"})
    ready = http.get("/ready")
    service.is_down = False
    made = http.post("/v1/containers/room/sessions", json=wanted, headers={"Idempotency-Key": "k1"})

    assert (refused.status_code, code_of(refused)) == (503, "key_ring")
    assert (known.status_code, ready.status_code, made.status_code) == (200, 200, 201)


def test_a_request_to_forget_that_is_sent_again_is_answered_as_the_first(http: httpx2.Client) -> None:
    key = {"Idempotency-Key": "k1"}

    first = http.post("/v1/sessions/talk/forget", json={"by": "ada"}, headers=key)
    again = http.post("/v1/sessions/talk/forget", json={"by": "ada"}, headers=key)
    other = http.post("/v1/sessions/talk/forget", json={"by": "bob"}, headers=key)

    assert first.json() == again.json()
    assert (other.status_code, code_of(other)) == (409, "request_reused")


def test_an_answer_that_was_given_before_is_not_given_again_once_its_session_is_forgotten(
    http: httpx2.Client, runtime: Runtime
) -> None:
    key = {"Idempotency-Key": "k1"}
    sent = {"session_id": "talk", "content": f"More {SECRET}"}
    assert http.post("/v1/messages", json=sent, headers=key).status_code == 200
    wait_until(lambda: runtime.sessions.turns("talk")[-1].outcome, what="it is answered")
    forget(http, "talk")

    again = http.post("/v1/messages", json=sent, headers=key)

    assert (again.status_code, code_of(again)) == (410, "session_forgotten")
