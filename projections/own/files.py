"""Tables in a directory of SQLite files: one file for each generation of a projection."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy import Connection, Engine, MetaData, QueuePool, create_engine, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError

from reenact.domain.errors import RuntimeClosedError
from reenact.projections.connections import BUSY_TIMEOUT, CHECKPOINT_PAGES
from reenact.projections.errors import ProjectionsLockedError, ReadModelError
from reenact.projections.generations import SUSPECT, Generations, remove
from reenact.projections.own.guard import guard, only_commit
from reenact.projections.own.kept import OWN, begin
from reenact.projections.own.place import is_damage, trouble
from reenact.projections.store import SMALL

KEPT_OPEN: Final = 4
"""So many connections of readers stay open for the next ones."""

_LOCK: Final = ".lock"
_FILE: Final = re.compile(r"([a-z][a-z0-9_]*)\.db(\.[1-9][0-9]*)?")


@dataclass(eq=False)
class _Open:
    """A file that is read: how many do, and whether it is to go when nobody does."""

    engine: Engine
    readers: int = 0
    is_old: bool = False


@dataclass(eq=False)
class _Projection:
    """The files of one projection."""

    generations: Generations
    live: int | None
    open: dict[int, _Open] = field(default_factory=dict[int, _Open])


class Files:
    """Keeps the tables of projections in a directory, which nobody else writes meanwhile. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        """Take the directory, which is made if there is none.

        Raises:
            ProjectionsLockedError: somebody else keeps what is in there.
            ReadModelError: it cannot be written.
        """
        self._directory = directory
        self._gate = threading.Lock()
        self._found: dict[str, _Projection] = {}
        self._closed = False
        self._descriptor: int | None = _locked(directory)

    @property
    def dialect(self) -> Dialect:
        """How the database wants to be spoken to."""
        return sqlite.dialect()

    @property
    def is_shared(self) -> bool:
        """Whether other processes may write here, too: one does."""
        return False

    def live(self, name: str) -> int | None:
        """Return which generation is read, None if there never was one."""
        with self._gate:
            return self._of(name).live

    def generations(self, name: str) -> list[int]:
        """Return the generations that there are, in their order."""
        return self._of(name).generations.numbers()

    def create(self, name: str, number: int, tables: MetaData, version: int, shape: str) -> None:
        """Make the tables of a generation, empty, entirely or not at all."""
        path = self._path(name, number)
        remove(path)
        engine = writer_of(path, create=True)
        try:
            with engine.begin() as connection:
                OWN.create_all(connection, checkfirst=False)
                tables.create_all(connection, checkfirst=False)
                begin(connection, version, shape)
        except DBAPIError as error:
            raise trouble(error) from error
        finally:
            engine.dispose()

    def tables(self, name: str, number: int) -> FileTables:
        """Return the tables of a generation for writing."""
        return FileTables(number, writer_of(self._path(name, number)))

    def damage(self, name: str, number: int) -> str | None:
        """Return what is wrong with a file, None if it is as it was written, as far as can be seen in a short time."""
        path = self._path(name, number)
        suspicion = _suspicion(path)
        if not path.exists():
            return "it is missing"
        try:
            with closing(_connect(path, "rw")) as connection:
                if path.stat().st_size <= SMALL or suspicion.exists():
                    (faults,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                    if faults != "ok":
                        return f"it is damaged: {faults}"
                    suspicion.unlink(missing_ok=True)
        except sqlite3.OperationalError as error:
            raise ReadModelError(f"{path} cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            return f"it is damaged: {error}"
        return None

    def suspect(self, name: str, number: int) -> None:
        """Have a file looked through when it is opened next, whatever its size."""
        with suppress(OSError):
            _suspicion(self._path(name, number)).touch()

    @contextmanager
    def looking(self, name: str, number: int) -> Generator[Connection]:
        """Read a generation, whether it is live or not."""
        with looking_into(self._path(name, number)) as connection:
            yield connection

    @contextmanager
    def reading(self, name: str) -> Generator[Connection]:
        """Read the live generation."""
        number, opened = self._borrow(name)
        try:
            with opened.engine.connect() as connection, connection.begin():
                yield connection
        except DBAPIError as error:
            if is_damage(error):
                self.suspect(name, number)
            raise
        finally:
            self._give_back(name, number, opened)

    def settle(self, name: str, number: int) -> None:
        """Have what is in the file survive a loss of power."""
        self._of(name).generations.settle(number)

    def point_to(self, name: str, number: int) -> None:
        """Make the generation the live one."""
        projection = self._of(name)
        with self._gate:
            projection.generations.point_to(number)
            projection.live = number

    def drop(self, name: str, number: int, *, by_force: bool = False) -> bool:
        """Delete the generation when nobody reads it any more; return whether it is gone by now."""
        with self._gate:
            opened = self._of(name).open.get(number)
            if opened is not None:
                opened.is_old = True
                if opened.readers:
                    return False
                del self._of(name).open[number]
                opened.engine.dispose()
        if by_force:
            remove(self._path(name, number))
            return True
        return self._of(name).generations.clear(number)

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        with self._gate:
            self._closed = True
            for projection in self._found.values():
                for number, opened in list(projection.open.items()):
                    if not opened.readers:
                        del projection.open[number]
                        opened.engine.dispose()
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                # Said in so many words: a process that was forked meanwhile has it open, too.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)

    def _of(self, name: str) -> _Projection:
        found = self._found.get(name)
        if found is None:
            generations = generations_in(self._directory, name)
            live = generations.live() if generations.is_begun else None
            found = self._found.setdefault(name, _Projection(generations, live))
        return found

    def _path(self, name: str, number: int) -> Path:
        return self._of(name).generations.file(number)

    def _borrow(self, name: str) -> tuple[int, _Open]:
        with self._gate:
            if self._closed:
                raise RuntimeClosedError("the projections are closed; open them again to go on")
            projection = self._of(name)
            number = projection.live or 1
            opened = projection.open.get(number)
            if opened is None:
                opened = projection.open[number] = _Open(reader_of(projection.generations.file(number)))
            opened.readers += 1
            return number, opened

    def _give_back(self, name: str, number: int, opened: _Open) -> None:
        with self._gate:
            opened.readers -= 1
            if opened.readers or not (opened.is_old or self._closed):
                return
            self._of(name).open.pop(number, None)
            opened.engine.dispose()
        if opened.is_old:
            self._of(name).generations.clear(number)


class FileTables:
    """One generation in its file, for the one who writes it."""

    def __init__(self, number: int, engine: Engine) -> None:
        """Take the engine; it is disposed of when this is closed."""
        self.number = number
        self._engine = engine

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """Return a transaction that is committed at its end, and by nobody before."""
        with self._engine.connect() as connection, only_commit(connection):
            yield connection

    def close(self) -> None:
        """Let go of the connection. Idempotent."""
        self._engine.dispose()


def _suspicion(path: Path) -> Path:
    return path.with_name(f"{path.name}{SUSPECT}")


def generations_in(directory: Path, name: str) -> Generations:
    """Return the files of a projection in the directory."""
    return Generations(directory / f"{name}.db")


def names_in(directory: Path) -> list[str]:
    """Return the names of the projections that have files in the directory."""
    found = [_FILE.fullmatch(file.name) for file in directory.glob("*.db*")]
    return sorted({one[1] for one in found if one is not None})


@contextmanager
def looking_into(path: Path) -> Generator[Connection]:
    """Read a file in one snapshot.

    Raises:
        ReadModelError: it cannot be opened now.
    """
    engine = reader_of(path)
    try:
        with engine.connect() as connection, connection.begin():
            yield connection
    finally:
        engine.dispose()


def reader_of(path: Path) -> Engine:
    """Return an engine whose transactions are snapshots, and write nothing."""

    def connect() -> sqlite3.Connection:
        connection = _connect(path, "rw")
        connection.execute("PRAGMA query_only=ON")
        return connection

    engine = _engine(connect, pool_size=KEPT_OPEN, most=-1)

    @event.listens_for(engine, "begin")
    def begin_reading(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")  # the snapshot is that of the first look

    return engine


def writer_of(path: Path, *, create: bool = False) -> Engine:
    """Return an engine with one connection, whose transactions begin with the right to write."""

    def connect() -> sqlite3.Connection:
        connection = _connect(path, "rwc" if create else "rw")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")  # a tail lost with the power is projected again
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        return connection

    engine = _engine(connect, pool_size=1, most=0)
    guard(engine)

    @event.listens_for(engine, "begin")
    def begin_writing(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _engine(connect: Callable[[], sqlite3.Connection], *, pool_size: int, most: int) -> Engine:
    return create_engine(
        "sqlite://",
        creator=connect,
        poolclass=QueuePool,
        pool_size=pool_size,
        max_overflow=most,
        hide_parameters=True,  # what users said is in no error, and so in no log file
    )


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
    )


def _locked(directory: Path) -> int:
    try:
        directory.mkdir(exist_ok=True)
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        message = f"{directory} cannot be used for projections ({error}); give a directory, which is made if need be"
        raise ReadModelError(message) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ProjectionsLockedError(str(directory)) from None
    return descriptor
