"""Where tables are, in the words of a user: a directory, or the URL of a PostgreSQL database."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import Final

from reenact.domain.errors import ConfigurationError
from reenact.projections.own.files import Files
from reenact.projections.own.place import Place

_POSTGRES: Final = ("postgresql://", "postgres://")
_SQLITE: Final = "sqlite:///"
_USER: Final = re.compile(r"[a-z]+://[^@/]*@")
_PARAMETER: Final = "schema="


def open_place(url: str | os.PathLike[str]) -> Place:
    """Open a directory for SQLite files, or a PostgreSQL database, whose URL may say `schema=…` as that of a log.

    Raises:
        ConfigurationError: there is no such kind of place, or what it needs is not installed.
        ReadModelError: it cannot be opened; the subclass says why.
    """
    text = os.fspath(url)
    if text.startswith(_POSTGRES):
        try:
            import_module("psycopg")
        except ImportError as error:
            message = f"projections in PostgreSQL need the driver psycopg ({error}): pip install 'reenact[postgresql]'"
            raise ConfigurationError(message) from error
        from reenact.projections.own.schemas import Schemas  # noqa: PLC0415 - the driver is an extra

        return Schemas(*_taken_apart(text))
    path = Path(text.removeprefix(_SQLITE))
    if "://" in text and not text.startswith(_SQLITE):
        kind = text.partition("://")[0]
        raise ConfigurationError(f"projections are kept in no {kind}; give a directory or a postgresql:// URL")
    if path.is_file():
        raise ConfigurationError(f"{path} is a file; projections are kept in a directory, such as {path}.views")
    return Files(path)


def _taken_apart(url: str) -> tuple[str, str | None]:
    """Return what libpq reads, and the schema that is named; a '?' in a password begins no parameters."""
    user = _USER.match(url)
    begin = user.end() if user else 0
    base, _, query = url[begin:].partition("?")
    items = [item for item in query.split("&") if item]
    schemas = [item.removeprefix(_PARAMETER) for item in items if item.startswith(_PARAMETER)]
    rest = "&".join(item for item in items if not item.startswith(_PARAMETER))
    return url[:begin] + base + (f"?{rest}" if rest else ""), schemas[-1] if schemas else None
