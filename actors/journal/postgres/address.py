"""Parses PostgreSQL URLs of logs, and shows them without their secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from reenact.domain.database_url import split_url
from reenact.domain.errors import ConfigurationError

DEFAULT_SCHEMA = "reenact"
"""The default schema for the tables of a log."""

_SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_PORTS = re.compile(r"[0-9,]*")

# Seconds after which connecting to a server that does not answer is given up.
_CONNECT_TIMEOUT = 10


@dataclass(frozen=True)
class Address:
    """A database and the schema of a log in it. `name` is the log's name in error messages."""

    name: str
    schema: str
    conninfo: str = field(repr=False)


def address_of(url: str) -> Address:
    """Parse a URL as libpq does, with an additional parameter `schema`.

    Raises:
        ConfigurationError: the URL is invalid, or the schema name is not allowed.
    """
    base, address, named = split_url(url)
    schema = DEFAULT_SCHEMA if named is None else named
    if not _SCHEMA_NAME.fullmatch(schema):
        raise ConfigurationError(
            "the schema of a log has small letters, digits and '_' in its name, and no 'pg_' first"
        )
    stated = None if _is_ambiguous(base) else _read(address)
    if stated is None:
        # Raised here rather than in `_read`, where the driver's message, which may show part of the password, would be
        # its context.
        raise ConfigurationError(
            "this is not a PostgreSQL URL: write postgresql://user:password@host:port/database?parameter=value, with"
            " special characters in user and password percent-encoded ('@' as %40, '/' as %2F, ':' as %3A, '?' as %3F)"
        )
    return Address(_name(stated, schema), schema, make_conninfo("", **stated))


def _is_ambiguous(base: str) -> bool:
    """Return whether a password may have been split, so that a part of it looks like a host or a path."""
    authority, _, path = base.partition("://")[2].partition("/")
    return authority.count("@") > 1 or "@" in path


def _read(url: str) -> dict[str, str | int | None] | None:
    defaults: dict[str, str | int | None] = {
        "connect_timeout": _CONNECT_TIMEOUT,
        "fallback_application_name": "reenact",
    }
    try:
        stated = defaults | conninfo_to_dict(url) | {"client_encoding": "utf8"}
    except ProgrammingError:
        return None
    # libpq would show the text that it takes for a port.
    return stated if _PORTS.fullmatch(str(stated.get("port") or "")) else None


def _name(stated: dict[str, str | int | None], schema: str) -> str:
    user, host, port, database = (str(stated.get(key) or "") for key in ("user", "host", "port", "dbname"))
    name = f"postgresql://{user}{'@' if user else ''}{host}{':' if port else ''}{port}/{database}"
    return name if schema == DEFAULT_SCHEMA else f"{name}?schema={schema}"
