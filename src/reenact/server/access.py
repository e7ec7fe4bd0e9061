"""Decides who may use a server: tokens, origins of web pages, and names by which the server may be called."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from reenact.domain.errors import ConfigurationError

SHORTEST: Final = 16
"""Characters that a token has at least."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s]+")
_OPEN_TO_OTHERS: Final = 0o066


@dataclass(frozen=True)
class Hosts:
    """The names and addresses that a request may call the server by, without the port.

    A page elsewhere can have its own name point here (DNS rebinding), but it cannot choose the name in the request.
    """

    names: frozenset[str] = LOOPBACK
    any_address: bool = False
    any_name: bool = False

    def include(self, host: str) -> bool:
        """Return whether a request with this header `Host` is meant for the server."""
        if self.any_name:
            return True
        name = _name_of(host)
        return name in self.names or (self.any_address and _address(name) is not None)


class Access:
    """Says who may come in.

    Raises:
        ConfigurationError: a token or an origin cannot be one.
    """

    def __init__(self, tokens: Collection[str], origins: Collection[str], hosts: Hosts) -> None:
        self._tokens = tuple(_digest(check_token(token)) for token in tokens)
        self._origins = frozenset(_check_origin(origin) for origin in origins)
        self._hosts = hosts

    @property
    def needs_token(self) -> bool:
        """Whether nobody comes in without a token."""
        return bool(self._tokens)

    def knows(self, token: str | None) -> bool:
        """Return whether the token opens the server; how long that takes says nothing about any of them."""
        given = _digest(token or "")
        found = [hmac.compare_digest(given, known) for known in self._tokens]
        return not self._tokens or any(found)

    def lists(self, origin: str) -> bool:
        """Return whether pages of this origin are allowed although they come from elsewhere."""
        return origin.lower() in self._origins

    def allows(self, origin: str | None, host: str) -> bool:
        """Return whether a request of this origin may be answered; those of programs have none."""
        if origin is None or self.lists(origin):
            return True
        scheme, _, rest = origin.lower().partition("://")
        return scheme in ("http", "https") and rest == host.lower()

    def serves(self, host: str) -> bool:
        """Return whether the server may be called by what this header `Host` says."""
        return self._hosts.include(host)


def check_token(token: str) -> str:
    """Return the token, or raise `ConfigurationError`."""
    if len(token) < SHORTEST:
        raise ConfigurationError(f"a token has at least {SHORTEST} characters; one has {len(token)}")
    if not _TOKEN.fullmatch(token):
        raise ConfigurationError("a token has printable ASCII characters and no space in it; one has others")
    return token


def read_tokens(path: str) -> tuple[str, ...]:
    """Return the tokens of a file: one a line; blank lines and those that begin with `#` say nothing.

    Raises:
        ConfigurationError: it cannot be read, holds no token, or one that cannot be one.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"--token-file {path}: it cannot be read ({why})") from error
    lines = [line.strip() for line in text.splitlines()]
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise ConfigurationError(f"--token-file {path}: there is no token in it; write one a line")
    try:
        return tuple(check_token(token) for token in tokens)
    except ConfigurationError as error:
        raise ConfigurationError(f"--token-file {path}: {error}") from None


def is_exposed(path: str) -> bool:
    """Return whether others than the file's owner may read it, or write to it."""
    return bool(Path(path).stat().st_mode & _OPEN_TO_OTHERS)


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach the address."""
    found = _address(address)
    return found is not None and found.is_loopback


def hosts_of(host: str, address: str, names: Collection[str]) -> Hosts:
    """Return what a server that listens on the address, given as `host`, may be called by; `names` come on top."""
    loopback = is_loopback(address)
    known = {host.lower(), address, *(name.lower() for name in names), *(LOOPBACK if loopback else ())}
    return Hosts(frozenset(known), any_address=not loopback)


def _check_origin(origin: str) -> str:
    found = origin.lower()
    if found != "null" and not _ORIGIN.fullmatch(found):
        raise ConfigurationError(
            f"an origin is like https://example.org, or with a port, and nothing behind; not {origin!r}"
        )
    return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
