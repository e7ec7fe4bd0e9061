"""Parses the addresses that `Runtime.connect` takes."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from reenact.domain.errors import ConfigurationError

_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f-\x9f\ud800-\udfff]")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


def websocket_address(url: object) -> str:
    """Return the address of the WebSocket of a server, which is given as `http://host:port` or as `ws://host:port/ws`.

    With TLS it is `https` or `wss`. A path before `/ws` is that of a proxy before the server.

    Raises:
        ConfigurationError: no server can be there.
    """
    if not isinstance(url, str) or _UNFIT.search(url):
        raise _wrong(url, "it is no text, or has blanks in it")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as wrong:
        raise _wrong(url, str(wrong)) from None
    if parts.scheme not in _SCHEMES:
        raise _wrong(url, f"its scheme is {parts.scheme!r}")
    if not parts.hostname:
        raise _wrong(url, "it names no host")
    if parts.username is not None or parts.password is not None:
        raise _wrong(parts.hostname, "a user or a password is no part of it; give token=…")
    if parts.query or parts.fragment:
        raise _wrong(url, "it ends with its path")
    path = parts.path.rstrip("/")
    if not path.endswith("/ws"):
        if parts.scheme in ("ws", "wss"):
            raise _wrong(url, "the WebSocket is at /ws")
        path += "/ws"
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, path, "", ""))


def is_loopback(address: str) -> bool:
    """Return whether the address is on this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(token: object) -> str | None:
    """Return the token, or raise `ConfigurationError` if no server could have such a one; it is not told."""
    if token is None or (isinstance(token, str) and _TOKEN.fullmatch(token)):
        return token
    raise ConfigurationError(
        "a token is text of printable ASCII characters without blanks; the one that was given is not"
    )


def _wrong(url: object, why: str) -> ConfigurationError:
    return ConfigurationError(f"{url!r:.200} is no address of a server: {why}; one is http://host:port, or https")
