"""Splits the URL of a PostgreSQL database, in which the parameter `schema` names the schema of a log."""

from __future__ import annotations

import re

_USER = re.compile(r"[a-z]+://[^@/]*@")
_SCHEMA = "schema="


def split_url(url: str) -> tuple[str, str, str | None]:
    """Return the URL without its parameters, the URL for libpq, and the named schema.

    A '?' in the password does not begin the parameters.
    """
    user = _USER.match(url)
    begin = user.end() if user else 0
    rest, _, query = url[begin:].partition("?")
    base = url[:begin] + rest
    items = [item for item in query.split("&") if item]
    schemas = [item.removeprefix(_SCHEMA) for item in items if item.startswith(_SCHEMA)]
    others = "&".join(item for item in items if not item.startswith(_SCHEMA))
    return base, f"{base}?{others}" if others else base, schemas[-1] if schemas else None
