"""Prices, limits, policies and MCP servers, read from options and from the files that options name."""

from __future__ import annotations

import difflib
import math
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from reenact.domain.errors import ConfigurationError, ReenactError
from reenact.domain.loop.ledger import Price, price_of
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.reading import policies_of
from reenact.domain.tools import MCPServer, is_amount, is_object

_SERVERS: Final = "mcpServers"


class _Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server as the file has it; what other programs write beside that is skipped, as they do."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    type: str | None = None


def read_servers(path: str) -> tuple[MCPServer, ...]:
    """Return the servers of a file `{"mcpServers": {NAME: {"command": …} | {"url": …}}}`.

    Raises:
        ConfigurationError: it cannot be read; the message names the place in the file.
    """
    who = f"--mcp-config {path}"
    content = _json(path, who)
    servers = content.get(_SERVERS) if is_object(content) else None
    if not is_object(servers):
        raise ConfigurationError(f'{who}: it must be {{"{_SERVERS}": {{NAME: {{"command": …}} or {{"url": …}}}}}}')
    return tuple(_server(f"{who}: {_SERVERS}.{name}", name, server) for name, server in servers.items())


def read_policies(path: str) -> Policies:
    """Return the policies that a file holds in their plain form.

    Raises:
        ConfigurationError: it cannot be read, or is no policy.
    """
    who = f"--policy {path}"
    try:
        return policies_of(_json(path, who))
    except (ReenactError, msgspec.ValidationError) as error:
        msg = str(error)
        raise ConfigurationError(msg if msg.startswith(who) else f"{who}: {msg}") from error


def read_prices(texts: Sequence[str]) -> Mapping[str, Price]:
    """Return the prices that are given as `MODEL=IN,OUT`, per million tokens.

    Raises:
        ConfigurationError: one is not.
    """
    return dict(map(_price, texts))


def check_price(model: str, prices: Mapping[str, Price], why: str) -> None:
    """Raise `ConfigurationError`, which says `why` it matters, if the model has no price."""
    if price_of(prices, model) is not None:
        return
    near = difflib.get_close_matches(model, prices, 1)
    known = f" (there is one for {near[0]})" if near else ""
    raise ConfigurationError(f"{why}, and {model} has no price{known}: --price {model}=IN,OUT, per million tokens")


def _price(text: str) -> tuple[str, Price]:
    model, _, amounts = text.rpartition("=")
    try:
        given, received = (float(amount) for amount in amounts.split(","))
    except ValueError:
        given = received = math.nan
    if not model or not (is_amount(given) and is_amount(received)):
        raise ConfigurationError(f"--price {text}: say MODEL=IN,OUT, what a million tokens cost, as in claude-x=3,15")
    return model, Price(given, received)


def _server(who: str, name: str, content: object) -> MCPServer:
    try:
        return _made(name, msgspec.convert(content, _Server))
    except (msgspec.ValidationError, ConfigurationError) as error:
        raise ConfigurationError(f"{who}: {error}") from error


def _made(name: str, server: _Server) -> MCPServer:
    if server.url is None:
        return MCPServer.stdio(name, server.command or "", server.args, server.env, server.cwd)
    if server.command is not None:
        raise ConfigurationError("it has a `command` and a `url`; give it one of them")
    if server.type == "sse":
        raise ConfigurationError("transport `sse` is not supported; most servers support `http` too")
    return MCPServer.http(name, server.url, server.headers)


def _json(path: str, who: str) -> object:
    try:
        return msgspec.json.decode(read_file(path, who))
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{who}: it is not valid JSON: {error}") from error


KNOWN_PRICES: Final[Mapping[str, Price]] = {
    "claude-opus-5-5": Price(4, 20, cache_write=5, cache_read=0.2),
    "claude-opus-5": Price(5, 25),
    "claude-opus-4-8": Price(5, 25),
    "claude-opus-4-7": Price(5, 25),
    "claude-opus-4-6": Price(5, 25),
    "claude-opus-4-5": Price(5, 25),
    "claude-sonnet-5-5": Price(2, 10),
    "claude-sonnet-5": Price(2, 10),
    "claude-sonnet-4-6": Price(3, 15),
    "claude-sonnet-4-5": Price(3, 15),
    "claude-haiku-4-5": Price(1, 5),
    "claude-fable-5": Price(10, 50),
    "claude-mythos-5": Price(10, 50),
}
"""By the names of the models without their dates. Where nothing is said of the cache it costs what `Price` says."""


LARGEST: Final = 10_000_000
"""Bytes that such a file may have."""
_HANDED_IN: Final = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


def check_file(path: str, who: str) -> None:
    """See that reading the file comes to an end, whatever it is; that it is there, is seen when it is read.

    Raises:
        ConfigurationError: it is a device, a pipe that nobody has handed in, a folder, or too large. The message
            begins with `who`.
    """
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return
    if path.startswith(_HANDED_IN) and not stat.S_ISDIR(status.st_mode):
        return
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError(f"{who}: it is not a regular file; what a program writes is read from /dev/stdin")
    if status.st_size > LARGEST:
        raise _too_large(who)


def read_file(path: str, who: str) -> bytes:
    """Return what the file holds.

    Raises:
        ConfigurationError: as `check_file` does, or it cannot be read.
    """
    check_file(path, who)
    content = bytearray()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            while piece := os.read(descriptor, 1 << 16):
                content += piece
                if len(content) > LARGEST:
                    raise _too_large(who)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{who}: it cannot be read ({why})") from error
    return bytes(content)


def _too_large(who: str) -> ConfigurationError:
    return ConfigurationError(f"{who}: it has more than {LARGEST:,} bytes, which are read at most")
