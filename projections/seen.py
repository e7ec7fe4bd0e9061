"""How the projections beside a log are, as their files say, to whoever does not run them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reenact.projections.audit.api import Progress
from reenact.projections.errors import ReadModelError
from reenact.projections.generations import OF_USERS, Generations, Kept
from reenact.projections.projection import NAME
from reenact.projections.status import Health, ProjectionStatus

_FILE: Final = re.compile(r"([a-z][a-z0-9_]*)\.db(\.[1-9][0-9]*)?")
_TRIES: Final = 10


def seen(tables: Path, views: Path, *, head: int, is_run: bool) -> Iterator[ProjectionStatus]:
    """Yield how the runtime's own tables are, and those of projections in the directory; nothing is changed.

    `head` is where the log ends, `is_run` whether a process writes it, and so keeps the projections.

    Raises:
        ReadModelError: a file cannot be read.
    """
    found = [_FILE.fullmatch(file.name) for file in views.glob("*.db*")]
    names = sorted({one[1] for one in found if one is not None})
    files = [(NAME, Generations(tables))]
    files += [(name, Generations(views / f"{name}.db", OF_USERS)) for name in names]
    for name, generations in files:
        live = _look_at_live(name, generations)
        if live is None:
            continue
        begun = _look_at(generations, (generations.live() or 0) + 1)
        yield ProjectionStatus(
            name=name,
            version=live.version,
            position=live.position,
            lag=max(0, head - live.position),
            health=_health(live, begun, is_run=is_run),
            failure=live.failure,
            rebuild=None if begun is None else Progress(name, begun.position, head),
        )


def _health(live: Kept, begun: Kept | None, *, is_run: bool) -> Health:
    if live.failure is not None:
        return "stopped"
    if not is_run:
        return "closed"
    return "running" if begun is None or begun.version == live.version else "rebuilding"


def _look_at_live(name: str, generations: Generations) -> Kept | None:
    """Return what is kept of the live generation; None, if there is none."""
    for _ in range(_TRIES):
        number = generations.live()
        if number is None:
            return None
        found = _look_at(generations, number)
        if found is not None:
            return found
        if number == generations.live():
            if not generations.file(number).exists():
                return None
            break  # else it went since the pointer was read
    raise ReadModelError(
        f"the tables of {name!r} cannot be read; they are made anew when the log is opened to write it"
    )


def _look_at(generations: Generations, number: int) -> Kept | None:
    try:
        return generations.kept(number)
    except ReadModelError:  # it is not there, or not finished
        return None
