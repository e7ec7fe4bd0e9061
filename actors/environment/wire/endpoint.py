"""The address and the key of an API: checks of both, and error messages for connections that fail."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from reenact.domain.errors import ConfigurationError


class Api(msgspec.Struct, frozen=True):
    """An API as users know it: its name, its own address, and how users set its key and address."""

    name: str
    url: str
    key_from: str
    key_variable: str
    url_variable: str


CONNECT_SECONDS = 10.0
_SCHEMES = frozenset({"http", "https"})
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_SOCKS = frozenset({"socks5", "socks5h"})
_CERTIFICATES = "SSL_CERT_FILE"
_HOST = re.compile(r"([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")
_INVALID_IN_KEYS = re.compile(r"\A | \Z|[^ -~]")


def checked_key(key: str | None, api: Api) -> str:
    """Return the key, checked to be valid in a header.

    Raises:
        ConfigurationError: there is none, or it has a character that a header cannot hold; the message shows none of
            it.
    """
    if key is None or not key.strip():
        raise ConfigurationError(
            f"{api.name} needs an API key: {api.key_from}, or the variable {api.key_variable} for the command line"
        )
    if wrong := _INVALID_IN_KEYS.search(key):
        what = "a blank or a line end" if wrong[0].isspace() else "a character that is not ASCII, or is invisible"
        place = f"place {wrong.start() + 1} of {len(key)}"
        raise ConfigurationError(
            f"the API key has {what} at {place}, as no key has; copy it again ({api.key_variable})"
        )
    return key


def checked_url(url: str | None, api: Api) -> str:
    """Return the address of the API; its own address if none is given.

    Raises:
        ConfigurationError: the address is not valid.
    """
    if url is None:
        return api.url
    if not _is_address(url, _SCHEMES) or not url.isprintable() or " " in url:
        raise ConfigurationError(
            f"{shown_url(url)!r} cannot be the address of the API; an address is like {api.url} or "
            f"http://localhost:8080 (base_url, or the variable {api.url_variable} for the command line)"
        )
    return url


def check_network_variables(environ: Mapping[str, str]) -> None:
    """Check the environment variables that the HTTP library reads, whatever address it is to reach.

    Raises:
        ConfigurationError: the address of a proxy is not valid, its kind needs a package that is not installed, or
            certificates cannot be read.
    """
    for name in _PROXIES:
        for variable in (name.lower(), name.upper()):
            proxy = environ.get(variable, "").strip()
            if proxy:
                _check_proxy(proxy if "://" in proxy else f"http://{proxy}", variable)
    for variable in ("no_proxy", "NO_PROXY"):
        for host in environ.get(variable, "").split(","):
            _check_unproxied(host.strip(), variable)
    _check_certificates(environ)


def _check_proxy(proxy: str, variable: str) -> None:
    if not _is_address(proxy, _SCHEMES | _SOCKS):
        raise ConfigurationError(
            f"{shown_url(proxy)!r} cannot be the address of a proxy ({variable}); "
            "an address is like http://proxy.example:3128"
        )
    if urlsplit(proxy).scheme in _SOCKS and importlib.util.find_spec("socksio") is None:
        raise ConfigurationError(
            f"the proxy {shown_url(proxy)} ({variable}) needs a package that is not installed: pip install socksio"
        )


def _check_unproxied(host: str, variable: str) -> None:
    """Check a host that is reached without a proxy; the HTTP library fails on some forms of IPv6 addresses."""
    if host.count(":") > 1 and "://" not in host and ("[" in host or "/" in host):
        raise ConfigurationError(
            f"{host!r} cannot be read as a host without a proxy ({variable}): "
            "write IPv6 addresses one by one, without brackets, such as ::1"
        )


def _check_certificates(environ: Mapping[str, str]) -> None:
    path = environ.get(_CERTIFICATES)
    if not path:
        return
    ssl = importlib.import_module("ssl")  # it takes a while to import, and is rarely needed
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except OSError as error:  # `ssl.SSLError` is one too
        why = "they are not certificates" if isinstance(error, ssl.SSLError) else error.strerror or str(error)
        raise ConfigurationError(f"the certificates in {path} cannot be read ({_CERTIFICATES}): {why}") from error


def _is_address(url: str, schemes: frozenset[str]) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and _is_host(parts.hostname or "") and parts.port != 0
    except ValueError:  # an invalid port, bracket or IPv6 address
        return False


def _is_host(host: str) -> bool:
    """Return whether this is a valid host name or address."""
    if ":" in host:
        return True  # an IPv6 address, which `urlsplit` has checked
    try:
        name = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return False
    return bool(_HOST.fullmatch(name))


def shown_url(url: str) -> str:
    """Return the address without parts that may be secret: a password, a query."""
    beginning, slashes, rest = url.partition("//")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    return f"{beginning}{slashes}{host}{slash}{path}".partition("?")[0].partition("#")[0]


def timeout_message(url: str, seconds: float, error: BaseException) -> str:
    """Return a message that no byte arrived within `seconds`, or, while connecting, within the limit for that."""
    if any(type(one).__name__ == "ConnectTimeout" for one in _causes(error)):
        return f"{shown_url(url)} could not be reached within {min(CONNECT_SECONDS, seconds):g} s"
    return f"nothing came from {shown_url(url)} for {seconds:g} s"


def connection_failure_message(url: str, error: BaseException) -> str:
    """Return a message that the connection failed, or broke off in the middle of the answer, and why."""
    chain = list(_causes(error))
    kinds = {type(one).__name__ for one in chain}
    what = f"the connection to {shown_url(url)} failed"
    if "DecodingError" in kinds:
        what = f"the answer of {shown_url(url)} cannot be unpacked"
    elif "ConnectError" in kinds:
        what = f"{shown_url(url)} cannot be reached{_through_proxy(url)}"
    elif "RemoteProtocolError" in kinds:
        what = f"what answers at {shown_url(url)} broke off, or speaks no HTTP"
    return f"{what}: {_reason(chain)}"


def _through_proxy(url: str) -> str:
    """Return the words for the proxy by which the address is reached; empty if there is none."""
    request = importlib.import_module("urllib.request")  # it takes a while to import, and is rarely needed
    parts, proxies = urlsplit(url), request.getproxies()
    proxy: str | None = proxies.get(parts.scheme) or proxies.get("all")
    return f" through the proxy {shown_url(proxy)}" if proxy and not request.proxy_bypass(parts.netloc) else ""


def _reason(chain: list[BaseException]) -> str:
    """Return the system's error message, if there is one, or else the innermost exception that has a message."""
    for one in reversed(chain):
        if isinstance(one, ConnectionError) and one.errno:
            return os.strerror(one.errno)
        if isinstance(one, OSError) and one.strerror:
            return one.strerror
    said = [one for one in chain if str(one)]
    return str(said[-1]) if said else type(chain[-1]).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes; of an exception group, the first."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        several: tuple[BaseException, ...] = getattr(one, "exceptions", ())
        one = several[0] if several else one.__cause__ or one.__context__
