"""Where the runtime's own tables are: in files beside that of the log, or in schemas of its database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from reenact.domain.errors import needing_extra
from reenact.projections.generations import NAME, Generations, Place, ProjectionStatus, files_in, is_postgres, seen
from reenact.projections.log import Log
from reenact.projections.read_model.queries import KeptReadModel
from reenact.projections.read_model.sqlite_store import SqliteFiles


def open_read_model(place: str, log: Log) -> KeptReadModel:
    """Open the runtime's own tables of the log at the place, up to date, with a runner that is running.

    `place` is what the log was opened with: the path of its file, or its `postgresql://` URL.

    Raises:
        ConfigurationError: the URL names no schema that could be used, or what it needs is not installed.
        ReadModelError: the tables cannot be written, or the log not be read.
        ProjectionFailedError: the log holds an event that cannot be projected.
    """
    if not is_postgres(place):
        return KeptReadModel(SqliteFiles(tables_beside(place)), log)
    with needing_extra("postgresql", "a runtime in PostgreSQL"):
        from reenact.projections.read_model.postgres_store import PostgresSchemas  # noqa: PLC0415 - an extra
        from reenact.projections.views.schemas import Schemas  # noqa: PLC0415 - likewise

    schemas = Schemas.open(place)
    try:
        return KeptReadModel(PostgresSchemas(schemas), log)
    except BaseException:
        schemas.close()
        raise


def statuses(place: str, views: str, *, head: int, is_run: bool) -> Iterator[ProjectionStatus]:
    """Yield how the runtime's own tables are, and those of users' projections; nothing is changed.

    `place` is that of the log, as for `open_read_model`; `views` the directory of users' projections, if the log is a
    file: in PostgreSQL they are beside the runtime's own. `head` is where the log ends, `is_run` whether a process
    writes it, and so keeps the projections.

    Raises:
        ReadModelError: the tables cannot be read.
    """
    if not is_postgres(place):
        own: tuple[str, Place] = (NAME, Generations(tables_beside(place)))
        yield from seen([own, *files_in(Path(views))], head=head, is_run=is_run)
        return
    with needing_extra("postgresql", "a runtime in PostgreSQL"):
        from reenact.projections.views.schemas import Schemas  # noqa: PLC0415 - likewise

    with closing(Schemas(place)) as schemas:
        names = sorted(schemas.names(), key=lambda name: (name != NAME, name))
        yield from seen([(name, schemas.of(name)) for name in names], head=head, is_run=is_run)


def tables_beside(path: str) -> Path:
    """Return the first file of the tables beside a log in a file."""
    return Path(f"{path}.projections")
