"""Runs a user's projection on a log: calls its functions, and reads and rebuilds its tables."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from sqlalchemy import Connection
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from reenact.domain.errors import ConfigurationError, RuntimeClosedError, StorageError, needing_extra
from reenact.projections.errors import (
    ProjectionFailedError,
    ProjectionNotReadyError,
    ProjectionReplacedError,
    ReadModelError,
    error_text,
)
from reenact.projections.generations import failure_of, is_postgres
from reenact.projections.log import Log, Row
from reenact.projections.rebuilding import FollowingProjection, close_all
from reenact.projections.runner import MOMENT, ProjectionTables, Runner
from reenact.projections.views.declared import Functions, Projection, Storing, check, functions_of, shape_of
from reenact.projections.views.files import Files
from reenact.projections.views.transactions import (
    CommittedError,
    EndedError,
    EscapedError,
    Replaced,
    as_one,
    check_open,
    is_damage,
    is_passing,
    move_progress,
    note_failure,
    read_progress,
    trouble,
)

if TYPE_CHECKING:
    from reenact.projections.views.files import ProjectionFiles
    from reenact.projections.views.schemas import ProjectionSchemas, Schemas


OwnPlace: TypeAlias = "ProjectionFiles | ProjectionSchemas"
"""The storage of a projection's generations: SQLite files, or schemas of a PostgreSQL database."""


class UserTables(ProjectionTables):
    """The tables of a user's projection and their position."""

    batch = 500

    def __init__(
        self,
        projection: Projection,
        place: OwnPlace,
        log: Log,
        number: int,
        is_closing: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take the tables at their place; `is_closing` tells when no further event may be applied.

        Raises:
            ReadModelError: they cannot be read.
        """
        super().__init__(log, number)
        self._projection = projection
        self._functions: Functions = functions_of(projection)
        self._place = place
        self._is_closing = is_closing
        self.position = place.progress_of(number).position

    def close(self, *, intact: bool) -> None:
        """Close the connection to the tables. Idempotent."""
        self._place.end_writing(self.number)

    def adopt_position(self) -> None:
        """Take over the position to which another process has moved the tables, or continue with their replacement."""
        if self._place.live() != self.number:
            self._follow()
            return
        found = self._place.progress_of(self.number)
        self.position = found.position
        if found.failure is not None:  # the cause may be fixed there at any time
            raise ReadModelError(f"another process keeps the projection, and stopped: {found.failure.reason}")

    def _apply(self, rows: Sequence[Row]) -> None:
        row = rows[-1]
        until = time.monotonic() + MOMENT
        try:
            with self._place.writing(self.number) as connection:
                is_ours = move_progress(connection, self.position, rows[-1])
                if is_ours:
                    with as_one(connection):
                        for row in rows:
                            self._call_functions(connection, row)
                            if time.monotonic() >= until or self._is_closing():
                                break
                    if not move_progress(connection, rows[-1].position, row):
                        raise EndedError("a function has written to the table that says how far the others are")
        except Replaced:
            self._follow()
        except CommittedError as error:
            raise self._failed(row, error) from error
        except DBAPIError as error:
            if is_damage(error):
                self._place.suspect(self.number)
            if is_passing(error):
                raise trouble(error) from error
            raise
        else:
            self.position = row.position if is_ours else self._place.progress_of(self.number).position

    def _call_functions(self, connection: Connection, row: Row) -> None:
        for function in self._functions.get(type(row.event), ()):
            try:
                function(connection, row.event, row)
            except Exception:
                raise
            except BaseException as error:
                # On the main thread it may be a person's, who waits for a rebuild; elsewhere only a function can have
                # raised it.
                if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                    raise
                raise EscapedError(error) from error
            check_open(connection)

    def _follow(self) -> None:
        """Continue with the generation that another process has made live."""
        number = self._place.live() or self.number
        found = self._place.progress_of(number)
        if (found.version, found.shape) != (self._projection.version, shape_of(self._projection, self._place.dialect)):
            raise ProjectionReplacedError(self._projection.name)
        self._place.end_writing(self.number)
        self.number, self.position = number, found.position

    def _failed(self, row: Row, error: Exception) -> ProjectionFailedError:
        cause: BaseException | None = error
        if isinstance(error, DBAPIError):
            cause = error.orig
        elif isinstance(error, EscapedError):
            cause = error.escaped
        reason = error_text(cause or error)
        kind = type(row.event).__name__
        failed = ProjectionFailedError(row.position, row.stream, kind, reason, self._projection.name)
        # The note is for readers elsewhere; it is no harm if it cannot be written.
        with suppress(DBAPIError, RuntimeError, Replaced), self._place.writing(self.number) as connection:
            note_failure(connection, failure_of(failed))
        return failed

    def _refuse_if_closing(self) -> None:
        if self._is_closing():
            raise RuntimeClosedError("the projections are closed; open them again to go on")


class UserProjection(FollowingProjection):
    """A user's projection that follows a log. Thread-safe."""

    _place: OwnPlace

    def __init__(
        self,
        projection: Projection,
        place: OwnPlace,
        log: Log,
        *,
        look: float | None = None,
        is_leader: Callable[[], bool] | None = None,
    ) -> None:
        """Find the tables at the place, or create them; `look` is how often to check a log without notifications.

        For `is_leader` see `Runner`.

        Raises:
            ReadModelError: the place cannot be read or written, or the log cannot be read.
        """
        self._projection = projection
        self._look_after = look
        shape = shape_of(projection, place.dialect)
        super().__init__(projection.name, log, place, version=projection.version, shape=shape, is_leader=is_leader)

    @contextmanager
    def read(self) -> Generator[Connection]:
        """Read the live tables in one snapshot.

        Raises:
            ProjectionNotReadyError: they are of another version and another form.
            ReadModelError: they cannot be read.
            RuntimeClosedError: the projections are closed.
        """
        self._refuse_if_closing()
        with ExitStack() as parts:
            try:
                connection = parts.enter_context(self._place.reading())
                found = read_progress(connection)
            except DBAPIError as error:
                raise trouble(error) from error
            if found.shape != self._shape:
                raise ProjectionNotReadyError(self.name, found.version, self.version)
            yield connection

    def _create(self, number: int) -> None:
        self._place.create(number, self._projection.tables, self.version, self._shape)

    def _open(self, number: int) -> UserTables:
        return UserTables(self._projection, self._place, self._log, number, self._closing.is_set)

    def _new_runner(self, tables: ProjectionTables) -> Runner:
        name = f"reenact-projection-{self.name}"
        # A user's function may never return, so waiters must not run it.
        return Runner(self._log, tables, look=self._look_after, name=name, is_helped=False, is_leader=self._is_leader)


LOOK = 0.1
"""The interval of checking a log that sends no notifications, in seconds."""

_SQLITE = "sqlite:///"


@runtime_checkable
class Watched(Protocol):
    """A log that sends notifications of writes."""

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Call `watcher` with the log's position after commits, 0 if some may have been missed."""
        ...

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        """Stop calling it."""
        ...


def host(
    url: str | os.PathLike[str],
    log: Log,
    projections: Sequence[Projection],
    others: Sequence[FollowingProjection],
    undo: ExitStack,
    *,
    is_leader: Callable[[], bool] | None = None,
) -> Sequence[UserProjection]:
    """Return the projections with their tables, not started yet; `undo` closes them, together with the others.

    Raises:
        ConfigurationError: the place is of an unknown kind.
        MissingExtraError: a package that it needs is not installed.
        ProjectionMistakeError: a projection's class is not valid.
        ProjectionsLockedError: another process or runtime keeps the projections in the directory.
        ReadModelError: the place cannot be read or written, or the log cannot be read.
    """
    codec: object = getattr(log, "codec", None)
    dialect = make_url("postgresql+psycopg://" if is_postgres(os.fspath(url)) else "sqlite://").get_dialect()()
    check(projections, codec if isinstance(codec, Storing) else None, dialect)
    hosted: list[UserProjection] = []
    running = [*others]

    def notify_all(position: int) -> None:
        for one in hosted:
            one.notify(position)

    place = open_place(url)
    undo.callback(place.close)
    look = None if _watch(log, notify_all, undo) else LOOK
    undo.callback(close_all, running)
    for projection in projections:
        hosted.append(UserProjection(projection, place.of(projection.name), log, look=look, is_leader=is_leader))
        running.append(hosted[-1])
    return hosted


def _watch(log: Log, watcher: Callable[[int], None], undo: ExitStack) -> bool:
    """Register for notifications of writes; return whether the log sends them."""
    if not isinstance(log, Watched):
        return False
    try:
        log.watch(watcher)
    except StorageError:  # the log is open for reading only
        return False
    undo.callback(log.unwatch, watcher)
    return True


def open_place(url: str | os.PathLike[str]) -> Files | Schemas:
    """Open a directory for SQLite files, or a PostgreSQL database, whose URL may have `schema=…` as that of a log.

    Raises:
        ConfigurationError: the place is of an unknown kind.
        MissingExtraError: a package that it needs is not installed.
        ReadModelError: it cannot be opened; the subclass says why.
    """
    text = os.fspath(url)
    if is_postgres(text):
        with needing_extra("postgresql", "a projection in PostgreSQL"):
            from reenact.projections.views.schemas import Schemas  # noqa: PLC0415 - the driver is an extra

        return Schemas.open(text)
    path = Path(text.removeprefix(_SQLITE))
    if "://" in text and not text.startswith(_SQLITE):
        kind = text.partition("://")[0]
        raise ConfigurationError(f"projections are kept in no {kind}; give a directory or a postgresql:// URL")
    if path.is_file():
        raise ConfigurationError(f"{path} is a file; projections are kept in a directory, such as {path}.views")
    return Files(path)
