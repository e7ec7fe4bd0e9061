"""How the projections beside a log are, as their files say, to whoever does not run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError, NoResultFound

from reenact.projections.audit.api import Progress
from reenact.projections.errors import ReadModelError
from reenact.projections.generations import Generations
from reenact.projections.own import kept
from reenact.projections.own.files import generations_in, looking_into, names_in
from reenact.projections.own.kept import Kept
from reenact.projections.projection import NAME
from reenact.projections.runner import Health
from reenact.projections.status import ProjectionStatus
from reenact.projections.tables import PROGRESS

Look: TypeAlias = Callable[[Connection], Kept]

_TRIES: Final = 10


def seen(tables: Path, views: Path, *, head: int, is_run: bool) -> Iterator[ProjectionStatus]:
    """Yield how the runtime's own tables are, and those of projections in the directory; nothing is changed.

    `head` is where the log ends, `is_run` whether a process writes it, and so keeps the projections.

    Raises:
        ReadModelError: a file cannot be read.
    """
    files: list[tuple[str, Generations, Look]] = [(NAME, Generations(tables), _look_at_own)]
    files += [(name, generations_in(views, name), kept.look) for name in names_in(views)]
    for name, generations, look in files:
        live = _look_at_live(name, generations, look)
        if live is None:
            continue
        begun = _look_at(generations.file(generations.live() + 1), look)
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


def _look_at_live(name: str, generations: Generations, look: Look) -> Kept | None:
    """Return what is kept of the live generation; None, if there is none."""
    for _ in range(_TRIES):
        path = generations.file(generations.live())
        found = _look_at(path, look)
        if found is not None:
            return found
        if path == generations.file(generations.live()):
            if not path.exists():
                return None
            break  # else it went since the pointer was read
    raise ReadModelError(
        f"the tables of {name!r} cannot be read; they are made anew when the log is opened to write it"
    )


def _look_at(path: Path, look: Look) -> Kept | None:
    try:
        with looking_into(path) as connection:
            return look(connection)
    except (DBAPIError, NoResultFound):  # it is not there, or not finished
        return None


def _look_at_own(connection: Connection) -> Kept:
    columns = PROGRESS.c.position, PROGRESS.c.mark, PROGRESS.c.version
    position, mark, version = connection.execute(select(*columns).where(PROGRESS.c.name == NAME)).one()
    return Kept(position, mark, version, "", None)
