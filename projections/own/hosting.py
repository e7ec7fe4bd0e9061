"""Having projections follow a log: checked, each with tables of its own at one place, told of what is written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from reenact.domain.errors import ConfigurationError, StorageError
from reenact.projections.log import Log
from reenact.projections.own.declared import Projection, Storing, check
from reenact.projections.own.files import Files
from reenact.projections.own.hosted import Hosted
from reenact.projections.own.projections import close_all
from reenact.projections.rebuilding import Followed

if TYPE_CHECKING:
    from reenact.projections.own.schemas import Schemas

LOOK: Final = 0.1
"""Seconds between two looks at a log that tells nobody of what is written to it."""

_POSTGRES: Final = ("postgresql://", "postgres://")
_SQLITE: Final = "sqlite:///"
_USER: Final = re.compile(r"[a-z]+://[^@/]*@")
_PARAMETER: Final = "schema="


@runtime_checkable
class Watched(Protocol):
    """A log that tells of what is written to it."""

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Have `watcher` called with the log's position after commits, 0 if some may have been missed."""
        ...

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        """Have it called no more."""
        ...


def host(
    url: str | os.PathLike[str],
    log: Log,
    projections: Sequence[Projection],
    others: Sequence[Followed],
    undo: ExitStack,
) -> Sequence[Hosted]:
    """Return the projections with their tables, still to be started; `undo` closes them, together with the others.

    Raises:
        ConfigurationError: there is no such kind of place, or what it needs is not installed.
        ProjectionMistakeError: a projection cannot work as it is written.
        ProjectionsLockedError: somebody else keeps the projections in the directory.
        ReadModelError: the place cannot be read or written, or the log not be read.
    """
    codec: object = getattr(log, "codec", None)
    check(projections, codec if isinstance(codec, Storing) else None)
    hosted: list[Hosted] = []
    running = [*others]

    def heard(position: int) -> None:
        for one in hosted:
            one.notify(position)

    place = open_place(url)
    undo.callback(place.close)
    look = None if _watch(log, heard, undo) else LOOK
    undo.callback(close_all, running)
    for projection in projections:
        hosted.append(Hosted(projection, place.of(projection.name), log, look=look))
        running.append(hosted[-1])
    return hosted


def _watch(log: Log, watcher: Callable[[int], None], undo: ExitStack) -> bool:
    """Have the log tell of what is written to it; return whether it does."""
    if not isinstance(log, Watched):
        return False
    try:
        log.watch(watcher)
    except StorageError:  # it is open for reading only
        return False
    undo.callback(log.unwatch, watcher)
    return True


def open_place(url: str | os.PathLike[str]) -> Files | Schemas:
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
