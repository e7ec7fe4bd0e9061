"""A key and an address that can be ones, and words for what does not come back."""

from __future__ import annotations

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import ConfigurationError
from reenact.actors.environment.claude.environment import CLAUDE
from reenact.actors.environment.wire.endpoint import (
    check_network_variables,
    checked_key,
    checked_url,
    connection_failure_message,
    shown_url,
    timeout_message,
)

SECRET = "sk-ant-secret"  # noqa: S105 - it opens nothing


@pytest.mark.parametrize("wrong", ["\n", "\t", "é", "\x00", "\x7f", "\u200b", "“"])
def test_a_key_that_no_header_takes_is_refused_and_not_told(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="at place 14 of 17") as refused:
        checked_key(f"{SECRET}{wrong}abc", CLAUDE)

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("key", [f" {SECRET}", f"{SECRET} "])
def test_a_key_neither_begins_nor_ends_with_a_blank(key: str) -> None:
    with pytest.raises(ConfigurationError, match="has a blank"):
        checked_key(key, CLAUDE)


@pytest.mark.parametrize("none", [None, "", " \t"])
def test_no_key_is_none(none: str | None) -> None:
    with pytest.raises(ConfigurationError, match="needs an API key"):
        checked_key(none, CLAUDE)


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1))
def test_any_key_of_ascii_is_taken_as_it_is(key: str) -> None:
    assert checked_key(key, CLAUDE) == key


@pytest.mark.parametrize(
    "url", ["https://api.example", "http://localhost:8080/v1", "http://[::1]:80", "http://me:it@h/"]
)
def test_an_address_is_taken_as_it_is(url: str) -> None:
    assert checked_url(url, CLAUDE) == url


def test_no_address_is_that_of_anthropic() -> None:
    assert checked_url(None, CLAUDE) == CLAUDE.url


@pytest.mark.parametrize(
    "url",
    ["localhost:8080", "ftp://host", "http://", "http://[::1", "http://host:99999", "http://host:0", "http://a b", "h"],
)
def test_an_address_at_which_nothing_can_be_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the address of the API"):
        checked_url(url, CLAUDE)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://me:secret@host:1/v1?token=secret#secret", "https://host:1/v1"),
        ("https://host", "https://host"),
        ("host?secret", "host"),
    ],
)
def test_an_address_is_shown_without_what_is_secret_in_it(url: str, told: str) -> None:
    assert shown_url(url) == told


def test_a_silence_is_told_with_its_limit_which_is_another_one_while_connecting() -> None:
    assert timeout_message("http://host", 600, httpx2.ReadTimeout("")) == "nothing came from http://host for 600 s"
    assert (
        timeout_message("http://host", 600, httpx2.ConnectTimeout("")) == "http://host could not be reached within 10 s"
    )


def test_what_the_system_says_is_told_also_of_several_that_failed_together() -> None:
    error = httpx2.ConnectError("All connection attempts failed")
    error.__cause__ = ExceptionGroup("several", [ConnectionRefusedError(111, "Connect call failed ('::1', 1)")])

    assert connection_failure_message("http://host", error) == "http://host cannot be reached: Connection refused"


def test_an_error_that_says_nothing_is_told_by_its_name() -> None:
    assert (
        connection_failure_message("http://host", httpx2.ReadError(""))
        == "the connection to http://host failed: ReadError"
    )


def test_an_address_that_cannot_be_reached_is_told_with_its_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://user:secret@proxy:3128")
    monkeypatch.setenv("NO_PROXY", "inside:8080")
    refused = httpx2.ConnectError("Connection refused")

    told = connection_failure_message("http://host", refused)

    assert told == "http://host cannot be reached through the proxy http://proxy:3128: Connection refused"
    assert connection_failure_message("https://host", refused) == "https://host cannot be reached: Connection refused"
    assert "proxy" not in connection_failure_message("http://inside:8080", refused)


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("ALL_PROXY", "socks5://user:secret@proxy:1080", r"socks5://proxy:1080 \(ALL_PROXY\) needs a package"),
        ("no_proxy", "localhost, fd00::/8", r"'fd00::/8' cannot be read as a host without a proxy \(no_proxy\)"),
        ("NO_PROXY", "[::1]", r"'\[::1\]' cannot be read"),
        ("SSL_CERT_FILE", "none.pem", r"none.pem cannot be read \(SSL_CERT_FILE\): No such file"),
    ],
)
def test_variables_with_which_the_http_library_fails_are_refused(
    variable: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", {"socksio": None}.get)

    with pytest.raises(ConfigurationError, match=told):
        check_network_variables({variable: value})


def test_variables_with_which_the_http_library_works_are_taken() -> None:
    check_network_variables({"NO_PROXY": "*, ::1,10.0.0.0/8 , .inside,http://[::1]:80,host:8080", "HTTP_PROXY": " "})
