"""The runtime's own tables for processes that only read: the live tables, or private ones if those are not usable."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

from reenact.projections.cipher import Cipher
from reenact.projections.errors import QueryTooLongError, ReadModelError
from reenact.projections.generations import (
    NAME,
    OF_RUNTIME,
    DamagedError,
    Generations,
    TableProgress,
    is_postgres,
    mismatch,
    remove,
    table_progress,
)
from reenact.projections.log import Log, OnProgress, Progress
from reenact.projections.read_model import compiled
from reenact.projections.read_model.opening import tables_beside
from reenact.projections.read_model.projection import ReadModelTables
from reenact.projections.read_model.queries import ReadModel
from reenact.projections.read_model.rows import Value
from reenact.projections.read_model.sqlite_store import SqliteReaderStore, SqliteStore

if TYPE_CHECKING:
    from reenact.projections.read_model.postgres_store import PostgresReaderStore

    ReaderStore: TypeAlias = SqliteReaderStore | PostgresReaderStore

SECONDS: Final = 5.0
"""The time limit of a query, in seconds."""

_TRIES = 5
"""How often the live tables are looked up: they may be replaced between lookup and opening."""


class ReaderTables:
    """The tables of a log, opened read-only beside a writer. Thread-safe.

    The live tables are those that the writing process maintains, up to a second behind the log. If they are not usable
    (missing, of another version or of another log, or behind it while nobody writes), private ones are built from the
    log in a temporary directory, and deleted at the end. Each `refresh` moves private tables to the log's end.
    """

    model: ReadModel
    """The model, which answers every get and list of a runtime."""

    def __init__(
        self,
        place: str,
        log: Log,
        has_writer: Callable[[], bool],
        *,
        seconds: float = SECONDS,
        progress: OnProgress | None = None,
        cipher: Cipher | None = None,
    ) -> None:
        """Open the tables of a log, which must stay open as long as they are.

        Args:
            place: that with which the log was opened: the path of its file, or its `postgresql://` URL.
            log: the log, open for reading.
            has_writer: whether a process writes the log, and so maintains the tables.
            seconds: the time limit of a query.
            progress: called with the progress while private tables are built.
            cipher: decrypts their content, if it is encrypted.

        Raises:
            ProjectionFailedError: the log holds an event that cannot be projected.
            ReadModelError: the tables cannot be built.
            StorageError: the log cannot be read.
        """
        self._log = log
        self._has_writer = has_writer
        self._seconds = seconds
        self._progress = progress
        self._cipher = cipher
        # `_refreshing` is held by a thread that switches to other tables, or moves private ones.
        self._refreshing = threading.Lock()
        self._private: ReadModelTables | None = None
        self._undo = ExitStack()
        with ExitStack() as undo:
            self._live = undo.enter_context(closing(_live_at(place, seconds, cipher)))
            self._found = self._live.find()
            store = self._found.store if self._found is not None and self._is_current(self._found) else None
            self.model = ReadModel(store or self._begin_private(undo))
            undo.callback(self.model.close)
            self.model.follow_by(self.refresh)
            self._catch_up()
            self._undo = undo.pop_all()

    def __enter__(self) -> Self:
        """Return the tables themselves."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close them."""
        self.close()

    @property
    def is_private(self) -> bool:
        """Whether the tables are private ones."""
        return self._private is not None

    def query(self, statement: str, /, **values: Value) -> list[tuple[Value, ...]]:
        """Return the rows of an SQL statement that SQLite and PostgreSQL both accept, with named values as `:name`.

        Raises:
            QueryTooLongError: it exceeds the time limit.
            ReadModelError: the tables cannot be read.
            RuntimeClosedError: the tables are closed.
        """
        try:
            return self.model.select(statement, values)
        except ReadModelError as error:
            if _was_ended(error.__cause__):
                raise QueryTooLongError(self._seconds) from error
            raise

    def position(self) -> int:
        """Return the position of the last event in the tables."""
        if self._private is not None:
            return self._private.position
        found = self._live.find()
        return 0 if found is None else found.progress.position

    def lag(self) -> int:
        """Return the number of positions by which the log is ahead."""
        position = self.position()
        return max(0, self._log.head() - position)

    def refresh(self) -> None:
        """Switch to replaced live tables, or to private ones if the live ones are unusable; move private ones on.

        Raises:
            As the constructor does.
        """
        with self._refreshing:
            if self._private is None:
                found = self._live.find()
                if found is None or not self._is_current(found):
                    self.model.switch_to(self._begin_private(self._undo))
                elif self._found is None or found.identity != self._found.identity:
                    self.model.switch_to(found.store)
                    self._found = found
            self._catch_up()

    def close(self) -> None:
        """Close the tables; private ones are deleted. Idempotent."""
        with self._refreshing:
            self._undo.close()

    def _is_current(self, found: _Found) -> bool:
        """Return whether the live tables are usable: of this version and log, and at its end or kept up by a writer."""
        progress = found.progress
        if progress.version != compiled.VERSION or mismatch(self._log, progress.position, progress.mark) is not None:
            return False
        return progress.position >= self._log.head() or self._has_writer()

    def _begin_private(self, undo: ExitStack) -> ReaderStore:
        """Create private tables, as a copy of the live ones if these are of this version and of this log."""
        directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="reenact-")))
        path = directory / "tables.db"
        store = SqliteStore(path, cipher=self._cipher)
        if not (self._live.copy(path) and self._is_usable_copy(path)):
            remove(path)
            store.make()
        projection = ReadModelTables(self._log, store)
        undo.callback(projection.close, intact=True)
        self._private = projection
        return SqliteReaderStore(path, store.number, self._seconds, self._cipher)

    def _is_usable_copy(self, path: Path) -> bool:
        try:
            copied = Generations(path).check(1)
        except DamagedError:
            return False
        return copied.version == compiled.VERSION and mismatch(self._log, copied.position, copied.mark) is None

    def _catch_up(self) -> None:
        projection = self._private
        while projection is not None and projection.advance():
            if self._progress is not None:
                self._progress(Progress("read model", projection.position, self._log.head()))


class _Found(NamedTuple):
    """Live tables: their progress, how to read them, and an identity that differs for tables that replace them."""

    progress: TableProgress
    store: ReaderStore
    identity: object


class _LiveFile:
    """The live tables of a log in a file."""

    def __init__(self, place: str, seconds: float, cipher: Cipher | None) -> None:
        self._files = Generations(tables_beside(place))
        self._seconds = seconds
        self._cipher = cipher

    def find(self) -> _Found | None:
        for _ in range(_TRIES):  # the file may be deleted after the pointer was read
            number = self._files.live()
            found = None if number is None else self._look_at(number)
            if found is not None or number == self._files.live():
                return found
        return None

    def copy(self, to: Path) -> bool:
        found = self.find()
        if found is None:
            return False
        try:
            with closing(found.store.connect()) as source, closing(sqlite3.connect(to)) as target:
                assert isinstance(source, sqlite3.Connection)
                source.backup(target)
        except sqlite3.Error:
            return False
        return True

    def close(self) -> None: ...

    def _look_at(self, number: int) -> _Found | None:
        store = SqliteReaderStore(self._files.file(number), number, self._seconds, self._cipher)
        try:
            with closing(store.connect()) as connection:
                row = connection.execute(OF_RUNTIME).fetchone()
            file = store.path.stat()
        except (sqlite3.Error, OSError):
            return None
        return None if row is None else _Found(table_progress(*row[:-1]), store, (file.st_dev, file.st_ino))


class _LiveSchema:
    """The live tables of a log in a PostgreSQL schema."""

    def __init__(self, place: str, seconds: float, cipher: Cipher | None) -> None:
        from reenact.projections.read_model.postgres_store import (  # noqa: PLC0415 - an extra
            PostgresReaderStore,
            copy_live,
        )
        from reenact.projections.views.schemas import Schemas  # noqa: PLC0415 - likewise

        self._schemas = Schemas(place)
        self._store = partial(PostgresReaderStore, self._schemas, seconds=seconds, cipher=cipher)
        self.copy = partial(copy_live, place)

    def find(self) -> _Found | None:
        if NAME not in self._schemas.names():
            return None
        schema = self._schemas.of(NAME)
        for _ in range(_TRIES):  # as above
            number = schema.live()
            if number is not None:
                with suppress(DamagedError):
                    return _Found(schema.progress_of(number), self._store(number), number)
        return None

    def close(self) -> None:
        self._schemas.close()


def _live_at(place: str, seconds: float, cipher: Cipher | None) -> _LiveFile | _LiveSchema:
    return (_LiveSchema if is_postgres(place) else _LiveFile)(place, seconds, cipher)


def _was_ended(error: BaseException | None) -> bool:
    """Return whether the database has cancelled a statement because it took too long."""
    names = getattr(error, "sqlite_errorname", None), getattr(error, "sqlstate", None)
    return names in (("SQLITE_INTERRUPT", None), (None, "57014"))
