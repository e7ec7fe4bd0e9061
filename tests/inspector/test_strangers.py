"""Who tries to get at a log through the inspector, and what they get."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

from reenact.inspector import Inspector
from reenact.inspector.pages import ACTS
from tests.inspector.browsing import Browser

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


@pytest.mark.parametrize("path", ACTS)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
def test_no_other_page_can_send_a_form(browser: Browser, path: str, headers: dict[str, str]) -> None:
    head = browser.source.log.head()

    assert browser.client.post(path, data={"do": "approve"}, headers=headers).status_code == 403
    assert browser.source.log.head() == head


def test_two_inspectors_stay_open_in_one_browser(browser: Browser) -> None:
    with Inspector(browser.source) as other:
        shown = browser.client.get(other.address)

        assert (shown.status_code, browser.client.get("/").status_code) == (200, 200)


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
def test_a_socket_is_not_opened_for_another_page(browser: Browser, headers: dict[str, str]) -> None:
    assert browser.client.get("/ws", headers=UPGRADE | headers).status_code == 403


def test_a_socket_is_not_opened_without_the_token(browser: Browser) -> None:
    browser.client.cookies.clear()

    assert browser.client.get("/ws", headers=UPGRADE).status_code in (401, 403)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2f..%2fapp.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/....//app.py",
        "/static/vendor/../../app.py",
        "/static/",
    ],
)
def test_nothing_is_served_but_what_belongs_to_the_pages(browser: Browser, path: str) -> None:
    address = urlsplit(browser.inspector.url)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    with socket.create_connection((address.hostname, address.port), timeout=30) as asked:
        request = f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        asked.sendall(request.encode())
        answer = b"".join(iter(lambda: asked.recv(65536), b""))

    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 405", b"HTTP/1.1 400"))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_pages_are_asked_for_and_nothing_else(browser: Browser, method: str) -> None:
    response = browser.client.request(method, "/session?id=greeting")

    assert response.status_code == 405
    assert not any(name.lower().startswith("access-control") for name in response.headers)


def test_head_is_answered_without_a_page(browser: Browser) -> None:
    response = browser.client.head("/")

    assert (response.status_code, response.content) == (200, b"")


def test_a_token_that_is_nearly_right_is_none(browser: Browser) -> None:
    browser.client.cookies.clear()
    token = browser.inspector.token

    for wrong in (token[:-1], token + "x", token.swapcase(), "", "ü", "\x00"):
        assert browser.client.get("/", params={"token": wrong}).status_code == 401
