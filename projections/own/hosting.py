"""Having projections follow a log: checked, each with tables of its own at one place, told of what is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, Protocol, runtime_checkable

from reenact.domain.errors import StorageError
from reenact.projections.log import Log
from reenact.projections.own.address import open_place
from reenact.projections.own.declared import Projection, Storing, check
from reenact.projections.own.hosted import Hosted
from reenact.projections.own.projections import Followed, close_all

LOOK: Final = 0.1
"""Seconds between two looks at a log that tells nobody of what is written to it."""


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
        hosted.append(Hosted(projection, place, log, look=look))
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
