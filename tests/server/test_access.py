"""Nobody comes in without a token, from a page elsewhere, or under a false name."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount
from websockets.exceptions import InvalidStatus

from reenact import AsyncRuntime, ConfigurationError, Runtime
from reenact.server import Server, create_app
from reenact.server.service import Access, Hosts, is_exposed, is_loopback, read_tokens
from reenact.server.serving import hosts_at
from reenact.testing import MockEnvironmentFactory
from tests.server.conftest import TOKEN, Serve
from tests.server.talk import Talk, greeted, talking

OTHER = "another-token-of-this-test"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PAGE = "https://app.example"


@pytest.fixture
def closed(serve: Serve) -> Server:
    """Return a server that two tokens open."""
    return serve(tokens=[TOKEN, OTHER])


def test_a_token_in_the_handshake_opens_the_server(closed: Server) -> None:
    with greeted(closed, additional_headers=BEARER) as talk:
        assert talk.ask("container_list_request")["error"] is None


@pytest.mark.parametrize("token", [TOKEN, OTHER])
def test_a_token_in_the_hello_opens_the_server(closed: Server, token: str) -> None:
    with talking(closed) as talk:
        talk.hello(token=token)

        assert talk.ask("container_list_request")["error"] is None


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], f"{TOKEN} ", TOKEN.upper(), "ünïcode", "\x00"])
def test_a_hello_without_a_known_token_closes_the_connection(closed: Server, token: str | None) -> None:
    with talking(closed) as talk:
        talk.say("hello", token=token)

        code, reason = talk.closing()

    assert code == 4401
    assert "token" in reason


@pytest.mark.parametrize("header", ["Bearer wrong", f"Bearer {TOKEN}x", "Bearer"])
def test_a_handshake_with_a_wrong_token_is_refused(closed: Server, header: str) -> None:
    with pytest.raises(InvalidStatus) as refused, talking(closed, additional_headers={"Authorization": header}):
        pass

    assert refused.value.response.status_code == 401
    assert refused.value.response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/v1/containers", "/metrics", "/nowhere", "/v1/requests/container_list_request"])
def test_the_json_api_needs_a_token(closed: Server, subtests: pytest.Subtests, path: str) -> None:
    for header in (None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer", f"Bearer {TOKEN}x"):
        with subtests.test(header):
            answer = httpx2.get(f"{closed.url}{path}", headers={} if header is None else {"Authorization": header})

            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "authentication")
            assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer  {OTHER}"])
def test_a_known_token_opens_the_json_api(closed: Server, header: str) -> None:
    assert httpx2.get(f"{closed.url}/v1/containers", headers={"Authorization": header}).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ready", "/openapi.json", "/schemas/events.json", "/schemas/frames.json"])
def test_what_says_nothing_of_the_runtime_needs_no_token(closed: Server, path: str) -> None:
    assert httpx2.get(f"{closed.url}{path}").status_code == 200


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/openapi.json", 200), ("/metrics", 401)])
def test_a_server_that_is_mounted_below_a_path_asks_for_the_same_tokens(
    runtime: Runtime, path: str, status: int
) -> None:
    app = Starlette(routes=[Mount("/agents", create_app(runtime, tokens=[TOKEN]))])

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
            return await client.get(f"/agents{path}")

    assert asyncio.run(ask()).status_code == status


@pytest.mark.parametrize("serving", [Server, create_app])
def test_only_a_runtime_can_be_served(serving: Callable[[Any], object], runtime: Runtime) -> None:
    async def awaited() -> None:
        async with AsyncRuntime.in_memory(environment=MockEnvironmentFactory()) as other:
            with pytest.raises(ConfigurationError, match=r"AsyncRuntime; .*AsyncRuntime\.connect"):
                serving(other)

    asyncio.run(awaited())
    serving(runtime)


def test_without_tokens_the_metrics_need_none(server: Server) -> None:
    assert httpx2.get(f"{server.url}/metrics").status_code == 200


@pytest.mark.parametrize("origin", [PAGE, "null", "http://127.0.0.1", "http://localhost:1", "file://", "", "nonsense"])
def test_pages_from_elsewhere_are_refused(server: Server, origin: str) -> None:
    headers = {"Origin": origin}

    answer = httpx2.get(f"{server.url}/v1/containers", headers=headers)
    with pytest.raises(InvalidStatus) as refused, talking(server, additional_headers=headers):
        pass

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_not_allowed")
    assert refused.value.response.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_a_token_does_not_help_a_page_from_elsewhere(closed: Server) -> None:
    assert httpx2.get(f"{closed.url}/v1/containers", headers={**BEARER, "Origin": PAGE}).status_code == 403


def test_pages_of_the_servers_own_are_let_in(server: Server) -> None:
    headers = {"Origin": server.url}

    answer = httpx2.get(f"{server.url}/v1/containers", headers=headers)

    assert answer.status_code == 200
    with greeted(server, additional_headers=headers) as talk:
        assert talk.ask("container_list_request")["error"] is None


def test_a_listed_page_may_read_what_it_asks_for(serve: Serve) -> None:
    server = serve(origins=[PAGE], tokens=[TOKEN])
    headers = {"Origin": PAGE.upper().replace("HTTPS", "https")}

    asked = httpx2.get(f"{server.url}/v1/containers", headers={**headers, **BEARER})
    refused = httpx2.get(f"{server.url}/v1/containers", headers=headers)

    for answer, status in ((asked, 200), (refused, 401)):
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == headers["Origin"]
        assert "Origin" in answer.headers["vary"]
    with talking(server, additional_headers=headers) as talk:
        talk.hello(token=TOKEN)


def test_a_listed_page_may_ask_what_it_may_send(serve: Serve) -> None:
    server = serve(origins=[PAGE], tokens=[TOKEN])

    answer = httpx2.options(
        f"{server.url}/v1/messages", headers={"Origin": PAGE, "Access-Control-Request-Method": "POST"}
    )

    assert answer.status_code == 204
    assert "POST" in answer.headers["access-control-allow-methods"]
    for header in ("Authorization", "Content-Type", "Idempotency-Key"):
        assert header in answer.headers["access-control-allow-headers"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "10.0.0.1"])
def test_a_server_on_loopback_is_not_to_be_called_by_other_names(server: Server, host: str) -> None:
    answer = httpx2.get(f"{server.url}/health", headers={"Host": host})

    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "host_not_served")


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1", "[::1]:80", "LOCALHOST"])
def test_a_server_on_loopback_goes_by_the_names_of_this_machine(server: Server, host: str) -> None:
    assert httpx2.get(f"{server.url}/health", headers={"Host": host}).status_code == 200


def test_a_server_goes_by_the_names_it_was_given(serve: Serve) -> None:
    server = serve(host_names=["agents.example"])

    assert httpx2.get(f"{server.url}/health", headers={"Host": "Agents.example:8443"}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - that is what is tried
def test_a_server_that_others_can_reach_needs_a_token(runtime: Runtime, host: str) -> None:
    with pytest.raises(ConfigurationError, match="token"):
        Server(runtime, host)


@pytest.mark.parametrize("port", [-1, 65536, "8080", None])
def test_a_port_that_cannot_be_one_is_refused(runtime: Runtime, port: Any) -> None:  # noqa: ANN401 - what a user may give
    with pytest.raises(ConfigurationError, match=f"a port must be a number from 0 to 65535, not {port!r}"):
        Server(runtime, port=port)


def test_with_a_token_others_may_reach_it(runtime: Runtime) -> None:
    with Server(runtime, "0.0.0.0", tokens=[TOKEN]) as server:  # noqa: S104 - that is what is tried
        answer = httpx2.get(f"http://127.0.0.1:{server.port}/v1/containers", headers=BEARER)

    assert answer.status_code == 200


@pytest.mark.parametrize("token", ["short", "x" * 15, "with a space in it", "with-ümlauts-in-it", "with\nlines-in-it"])
def test_a_token_that_cannot_be_one_is_refused(runtime: Runtime, token: str) -> None:
    with pytest.raises(ConfigurationError, match="token"):
        Server(runtime, tokens=[TOKEN, token])


@pytest.mark.parametrize("origin", ["*", "example.org", "https://example.org/", "https://example.org/page", "https://"])
def test_an_origin_that_cannot_be_one_is_refused(runtime: Runtime, origin: str) -> None:
    with pytest.raises(ConfigurationError, match="origin"):
        Server(runtime, origins=[origin])


def test_a_token_file_has_one_token_a_line(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# mine\n\n  {TOKEN}  \n{OTHER}\n")

    assert read_tokens(str(file)) == (TOKEN, OTHER)


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "no token"), (b"# only this\n \n", "no token"), (b"short\n", "16 characters"), (b"\xff" * 20, "UTF-8")],
)
def test_a_token_file_without_a_token_is_an_error(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "tokens"
    file.write_bytes(content)

    with pytest.raises(ConfigurationError, match=why) as error:
        read_tokens(str(file))

    assert str(file) in str(error.value)


def test_a_token_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_tokens(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("mode", "exposed"), [(0o600, False), (0o400, False), (0o644, True), (0o640, True), (0o602, True)]
)
def test_a_file_that_others_may_read_or_change_is_noticed(tmp_path: Path, mode: int, exposed: bool) -> None:  # noqa: FBT001
    file = tmp_path / "tokens"
    file.write_text(TOKEN)
    file.chmod(stat.S_IFREG | mode)

    assert is_exposed(str(file)) is exposed


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1"])
def test_loopback_is_known(address: str) -> None:
    assert is_loopback(address)
    assert not is_loopback(f"1{address}")


@pytest.mark.parametrize("host", ["192.168.1.5", "192.168.1.5:80", "[2001:db8::1]:80", "example.org", "me.local"])
def test_a_server_beyond_loopback_goes_by_addresses_and_its_names(host: str) -> None:
    access = Access((), (), hosts_at("192.168.1.5", ["example.org", "me.local"]))

    assert access.serves(host)
    assert not access.serves("evil.example")


@given(known=st.lists(st.text("ab-", min_size=16, max_size=17), max_size=3), token=st.text("ab-", max_size=17))
def test_exactly_the_known_tokens_open_unless_there_are_none(known: list[str], token: str) -> None:
    access = Access(known, (), Hosts())

    assert access.knows(token) == (token in known or not known)
    assert access.knows(None) == (not known)


def test_the_names_of_a_deleted_conversation_are_no_way_around_the_token(closed: Server) -> None:
    with talking(closed) as talk:
        _ask_at_once(talk)

        assert talk.closing()[0] == 4400


def _ask_at_once(talk: Talk) -> None:
    talk.say("request", id="r", request="container_list_request")
