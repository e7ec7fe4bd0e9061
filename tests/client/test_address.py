"""Addresses of servers: what is taken for one, and what is refused before anything is sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import ConfigurationError, Runtime
from reenact.client.dialing import check_token, is_loopback, websocket_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://localhost:8000", "ws://localhost:8000/ws"),
        ("http://localhost:8000/", "ws://localhost:8000/ws"),
        ("https://example.org", "wss://example.org/ws"),
        ("https://example.org/agents", "wss://example.org/agents/ws"),
        ("ws://127.0.0.1:80/ws", "ws://127.0.0.1:80/ws"),
        ("wss://[::1]:443/ws/", "wss://[::1]:443/ws"),
        ("HTTP://Example.org:1/ws", "ws://Example.org:1/ws"),
    ],
)
def test_a_server_is_found_by_its_http_address_or_by_that_of_its_websocket(url: str, address: str) -> None:
    assert websocket_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://localhost",
        "http://",
        "http:///ws",
        "http://:8000",
        "http://localhost:port",
        "http://localhost:99999",
        "http://[::1",
        "ws://localhost:8000",
        "ws://localhost:8000/events",
        "http://localhost:8000/?token=x",
        "http://localhost:8000/#ws",
        "http://local host",
        "http://localhost\n",
        "http://\ud800",
        None,
        8000,
        b"http://localhost",
    ],
)
def test_anything_else_is_refused(url: object) -> None:
    with pytest.raises(ConfigurationError, match="address of a server"):
        websocket_address(url)


def test_a_password_in_an_address_is_refused_and_not_told() -> None:
    with pytest.raises(ConfigurationError, match="token=") as refusal:
        websocket_address("http://ann:secret@localhost")

    assert "secret" not in str(refusal.value)


@given(st.text())
def test_what_is_no_address_is_never_taken_for_one(text: str) -> None:
    if text.lower().startswith(("http", "ws")):
        return

    with pytest.raises(ConfigurationError):
        websocket_address(text)


@pytest.mark.parametrize("token", ["", "a b", "a\n", "ü", "\x7f", 5, b"token"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_told(token: object) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        check_token(token)

    assert repr(token) not in str(refusal.value)


def test_a_token_is_text_or_nothing() -> None:
    assert (check_token(None), check_token("aB3-._~+/=")) == (None, "aB3-._~+/=")


@pytest.mark.parametrize(
    ("address", "is_here"),
    [
        ("ws://localhost:1/ws", True),
        ("ws://127.8.0.1/ws", True),
        ("wss://[::1]:1/ws", True),
        ("ws://example.org/ws", False),
        ("ws://10.0.0.1/ws", False),
    ],
)
def test_what_is_on_this_machine_is_known(address: str, is_here: bool) -> None:  # noqa: FBT001 - a case
    assert is_loopback(address) is is_here


@pytest.mark.parametrize(
    "settings",
    [
        {"token": "a b"},
        {"client_id": " "},
        {"client_id": 5},
        {"timeout": "soon"},
        {"timeout": True},
        {"heartbeat": 0},
        {"heartbeat": float("inf")},
        {"heartbeat": None},
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_sent(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Runtime.connect("http://127.0.0.1:9", **settings)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
