"""The SQLite files of users' projections: one for each generation, in one directory."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, MetaData, QueuePool, create_engine, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError

from reenact.domain.errors import RuntimeClosedError
from reenact.projections.errors import ProjectionsLockedError, ReadModelError
from reenact.projections.generations import OF_USERS, Generations, connect, connect_to_write, remove
from reenact.projections.views.transactions import guard, is_damage, make, only_commit, trouble

KEPT_OPEN = 4
"""How many connections for readers stay open for reuse."""

_LOCK = ".lock"


class Files:
    """The tables of projections in a directory, which is locked against other writers."""

    def __init__(self, directory: Path) -> None:
        """Take the directory, which is created if there is none.

        Raises:
            ProjectionsLockedError: another process or runtime keeps the projections in it.
            ReadModelError: it cannot be written.
        """
        self._directory = directory
        self._found: list[ProjectionFiles] = []
        self._descriptor: int | None = _locked(directory)

    def of(self, name: str) -> ProjectionFiles:
        """Return the files of the projection with this name."""
        self._found.append(ProjectionFiles(self._directory / f"{name}.db"))
        return self._found[-1]

    def close(self) -> None:
        """Close all files and release the lock. Idempotent."""
        for files in self._found:
            files.close()
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # Unlock explicitly: a process forked meanwhile has the file open, too.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


class ProjectionFiles(Generations):
    """The files of one projection. Thread-safe."""

    dialect: Final = sqlite.dialect()

    def __init__(self, path: Path) -> None:
        super().__init__(path, OF_USERS)
        # Protects the readers' engines and their counts: a reader is counted before anybody can check whether its
        # generation is still read. The pointer moves first, so that no reader begins with a generation that is to be
        # deleted.
        self._gate = threading.Lock()
        self._live = super().live()
        self._readers: dict[int, Engine] = {}
        self._reading: Counter[int] = Counter()
        self._writers: dict[int, Engine] = {}
        self._closed = False

    def live(self) -> int | None:
        """Return the number of the live generation, None if there never was one."""
        return self._live

    def create(self, number: int, tables: MetaData, version: int, shape: str) -> None:
        """Create the tables of a generation, empty, in one transaction."""
        path = self.file(number)
        remove(path)
        engine = writer_of(path, create=True)
        try:
            with engine.begin() as connection:
                make(connection, tables, version, shape)
        except DBAPIError as error:
            raise trouble(error) from error
        finally:
            engine.dispose()

    @contextmanager
    def writing(self, number: int) -> Generator[Connection]:
        """Begin a transaction in a generation, which is committed at the end of the context, and only there."""
        engine = self._writers.get(number)
        if engine is None:
            engine = self._writers[number] = writer_of(self.file(number))
        with engine.connect() as connection, only_commit(connection):
            yield connection

    def end_writing(self, number: int) -> None:
        """Close the connection that writes a generation. Idempotent."""
        engine = self._writers.pop(number, None)
        if engine is not None:
            engine.dispose()

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Read the live generation in one snapshot, whatever is written or swapped meanwhile."""
        with self._gate:
            if self._closed:
                raise RuntimeClosedError("the projections are closed; open them again to go on")
            number = self._live or 1
            engine = self._readers.get(number)
            if engine is None:
                engine = self._readers[number] = reader_of(self.file(number))
            self._reading[number] += 1
        try:
            with engine.connect() as connection, connection.begin():
                yield connection
        except DBAPIError as error:
            if is_damage(error):
                self.suspect(number)
            raise
        finally:
            with self._gate:
                self._reading[number] -= 1
            if self._close_readers(number) and number != (self._live or 1):
                super().drop(number)

    def point_to(self, number: int) -> None:
        """Make the generation live."""
        super().point_to(number)
        self._live = number

    def drop(self, number: int, *, by_force: bool = False) -> bool:
        """Delete the generation unless it still has readers; return whether it is gone."""
        return self._close_readers(number) and super().drop(number, by_force=by_force)

    def close(self) -> None:
        """Close the files once they have no readers. Idempotent."""
        with self._gate:
            self._closed = True
            numbers = list(self._readers)
        for number in numbers:
            self._close_readers(number)

    def _close_readers(self, number: int) -> bool:
        """Close readers' connections to a generation that is no longer read; return whether it has no readers."""
        with self._gate:
            if self._reading[number]:
                return False
            if number in self._readers and (self._closed or number != (self._live or 1)):
                self._readers.pop(number).dispose()
            return True


def reader_of(path: Path) -> Engine:
    """Return an engine whose transactions are read-only snapshots."""

    def open_reader() -> sqlite3.Connection:
        connection = connect(path, "rw")
        connection.execute("PRAGMA query_only=ON")
        return connection

    # The snapshot is taken at the first read.
    return _engine(open_reader, "BEGIN", pool_size=KEPT_OPEN, most=-1)


def writer_of(path: Path, *, create: bool = False) -> Engine:
    """Return an engine with one connection, whose transactions begin with the write lock."""
    open_writer = partial(connect_to_write, path, "rwc" if create else "rw")
    engine = _engine(open_writer, "BEGIN IMMEDIATE", pool_size=1, most=0)
    guard(engine)
    return engine


def _engine(open_one: Callable[[], sqlite3.Connection], begin_with: str, *, pool_size: int, most: int) -> Engine:
    engine = create_engine(
        "sqlite://",
        creator=open_one,
        poolclass=QueuePool,
        pool_size=pool_size,
        max_overflow=most,
        hide_parameters=True,  # users' data must not appear in errors, and so in log files
    )

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin_with)

    return engine


def _locked(directory: Path) -> int:
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        message = f"{directory} cannot be used for projections ({error}); give a directory, which is made if need be"
        raise ReadModelError(message) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ProjectionsLockedError(str(directory)) from None
    return descriptor
