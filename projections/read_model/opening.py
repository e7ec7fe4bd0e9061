"""Opens the runtime's own tables: in files beside that of the log, or in schemas of its database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from reenact.projections.cipher import ENCRYPTED, Cipher
from reenact.projections.generations import (
    NAME,
    Generations,
    Place,
    ProjectionStatus,
    files_in,
    is_postgres,
    statuses_of,
)
from reenact.projections.log import Log
from reenact.projections.read_model.queries import ReadModelProjection
from reenact.projections.read_model.sqlite_store import SqliteFiles

_PATIENCE = 0.1
"""The time to wait for a writer, in seconds."""
_NEWEST = """
    SELECT id, (SELECT content FROM messages WHERE session = sessions.position ORDER BY asked, position LIMIT 1)
    FROM sessions WHERE deleted_at IS NULL ORDER BY position DESC LIMIT {most}
"""


def open_read_model(
    place: str, log: Log, is_leader: Callable[[], bool] | None = None, cipher: Cipher | None = None
) -> ReadModelProjection:
    """Open the runtime's own tables of the log at the place, up to date, with a runner that is running.

    `place` is that with which the log was opened: the path of its file, or its `postgresql://` URL. Of several
    processes that have the log in PostgreSQL open, the one whose `is_leader` returns true projects events without a
    request; None: each does. The `cipher` encrypts the content in the tables.

    Raises:
        ConfigurationError: the URL names no usable schema.
        ReadModelError: the tables cannot be written, or the log cannot be read.
        ProjectionFailedError: the log holds an event that cannot be projected.
    """
    if not is_postgres(place):
        return ReadModelProjection(SqliteFiles(tables_beside(place), cipher), log)
    from reenact.projections.read_model.postgres_store import PostgresSchemas  # noqa: PLC0415 - an extra
    from reenact.projections.views.schemas import Schemas  # noqa: PLC0415 - likewise

    schemas = Schemas.open(place)
    try:
        return ReadModelProjection(PostgresSchemas(schemas, cipher), log, is_leader)
    except BaseException:
        schemas.close()
        raise


def check_place(place: str) -> None:
    """Check that the tables of a log at the place can be kept, before there is one.

    Raises:
        ConfigurationError: the URL names no usable schema.
    """
    if is_postgres(place):
        from reenact.projections.views.schemas import Schemas  # noqa: PLC0415 - an extra

        Schemas(place).close()


def statuses(place: str, views: str, *, head: int, is_run: bool) -> Iterator[ProjectionStatus]:
    """Yield the status of the runtime's own tables, and of users' projections, without changing anything.

    `place` is that of the log, as for `open_read_model`; `views` is the directory of users' projections, if the log is
    a file: in PostgreSQL they are beside the runtime's own. `head` is the end of the log; `is_run` is whether a process
    writes the log, and so maintains the projections.

    Raises:
        ReadModelError: the tables cannot be read.
    """
    if not is_postgres(place):
        own: tuple[str, Place] = (NAME, Generations(tables_beside(place)))
        yield from statuses_of([own, *files_in(Path(views))], head=head, is_run=is_run)
        return
    from reenact.projections.views.schemas import Schemas  # noqa: PLC0415 - likewise

    with closing(Schemas(place)) as schemas:
        names = sorted(schemas.names(), key=lambda name: (name != NAME, name))
        yield from statuses_of([(name, schemas.of(name)) for name in names], head=head, is_run=is_run)


def newest_sessions(place: str, most: int) -> list[tuple[str, bytes | None]]:
    """Return the ids of the newest sessions, the newest first, each with the stored content of its first message.

    They come from the tables of the log at the place, as they are now, without waiting and without changing anything.

    Raises:
        sqlite3.Error, SQLAlchemyError, ReadModelError: there are no such tables, or they cannot be read at once.
    """
    if is_postgres(place):
        return _newest_of_schemas(place, most)
    tables = Generations(tables_beside(place)).current().absolute()
    # A reader of a file that may be written creates files beside it; with `immutable`, it does not.
    form = "mode=ro" if Path(f"{tables}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(str(tables))}?{form}", uri=True, timeout=_PATIENCE)) as connection:
        rows: list[tuple[str, bytes | None]] = connection.execute(_NEWEST.format(most="?"), (most,)).fetchall()
    return list(map(_legible, rows))


def _newest_of_schemas(place: str, most: int) -> list[tuple[str, bytes | None]]:
    from sqlalchemy import text  # noqa: PLC0415 - a log in a file needs none of it

    from reenact.projections.views.schemas import Schemas  # noqa: PLC0415 - likewise

    with closing(Schemas(place, patience=1)) as schemas, schemas.of(NAME).reading() as connection:
        rows = connection.execute(text(_NEWEST.format(most=":most")), {"most": most})
        return [_legible((id_, content)) for id_, content in rows]


def _legible(row: tuple[str, bytes | None]) -> tuple[str, bytes | None]:
    """Return the row without encrypted content."""
    id_, content = row
    return id_, None if content is None or content.startswith(ENCRYPTED) else content


def tables_beside(path: str) -> Path:
    """Return the path of the first file of the tables beside a log in a file."""
    return Path(f"{path}.projections")
