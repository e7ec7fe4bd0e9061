"""Generations of tables: how far each is, where it is stored, and which one is live.

The file of generation 1 has the plain name, and is live as long as there is no pointer file; the number of a later one
is appended to its name. A generation above the live one is being built, one below it waits to be deleted until its last
reader has closed it.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeAlias
from urllib.parse import quote

import msgspec

from reenact.projections.errors import ProjectionFailedError, ReadModelError
from reenact.projections.log import Log, Progress, Row

Health: TypeAlias = Literal["running", "troubled", "stopped", "rebuilding", "closed"]
"""The health of a projection.

`troubled`: the last attempt to read the log or to write the tables failed, the next may succeed; `stopped`: it will not
be retried; `rebuilding`: the tables are of another version, and do not advance until those of this version are built.
"""

_FULL = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")
"""The second one: there is no space for the memory that readers and the writer share. SQLite calls it an I/O error."""


class ProjectionFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a projection does not advance; if an event is the reason, its place in the log and its type."""

    reason: str
    position: int | None = None
    stream: str | None = None
    event_type: str | None = None


class ProjectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a projection.

    `version` and `position` are those of the tables that are read: the position is that of the last event in them.
    `lag` is the number of positions by which the log is ahead. `rebuild` is the progress of new tables that will
    replace them.
    """

    name: str
    version: int
    position: int
    lag: int
    health: Health
    failure: ProjectionFailure | None = None
    rebuild: Progress | None = None


def failure_of(error: ReadModelError) -> ProjectionFailure:
    """Return the failure that an error describes."""
    if isinstance(error, ProjectionFailedError):
        return ProjectionFailure(
            reason=error.reason, position=error.position, stream=error.stream, event_type=error.event_type
        )
    return ProjectionFailure(reason=str(error))


_POSTGRES = ("postgresql://", "postgres://")


def is_postgres(place: str) -> bool:
    """Return whether the location is a PostgreSQL database."""
    return place.startswith(_POSTGRES)


NAME = "reenact"
"""The name of the runtime's own tables."""
RESERVED = frozenset({NAME, "tracing"})
"""Reserved names; `tracing` is that of the progress of exported spans."""

BUSY_TIMEOUT = 5.0
CHECKPOINT_PAGES = 4000
"""The size of the write-ahead log, in pages, at which it is checkpointed; most pages are rewritten often before."""

SMALL = 1024 * 1024
"""The size in bytes up to which a file is checked at each opening; a larger one is checked only if it is suspect."""

SUSPECT = "-suspect"
"""The suffix of the empty file that marks a file beside it as suspect, so that it is checked when it is opened next."""

OF_RUNTIME = "SELECT position, mark, version, '', NULL, NOT closed FROM progress WHERE name = 'reenact'"
"""Query for the progress of the runtime's own tables; those that their last writer did not close are suspect."""

OF_USERS = "SELECT position, mark, version, shape, failure, 0 FROM reenact_progress"


class TableProgress(msgspec.Struct, frozen=True):
    """The progress of tables, what built them, and why they do not advance, if they do not."""

    position: int
    mark: str
    version: int
    shape: str
    failure: ProjectionFailure | None


def table_progress(position: int, mark: str, version: int, shape: str, failure: str | None) -> TableProgress:
    """Return the progress from its stored columns."""
    why = None if failure is None else msgspec.json.decode(failure, type=ProjectionFailure)
    return TableProgress(position, mark, version, shape, why)


def mark(row: Row) -> str:
    """Return a text that identifies the event, to tell it from the event at the same position of another log."""
    return f"{row.stream} {row.version} {row.recorded_at}"


def mismatch(log: Log, position: int, marked: str) -> str | None:
    """Return why tables that saw an event with this mark at this position are not of the log; None if they are."""
    if position == 0:
        return None
    there = log.read_all(after=position - 1, limit=1)
    if there and there[0].position > position and there[0].is_behind_forgotten:
        return None  # nobody can read the event any more
    if not there or there[0].position != position:
        return f"it is ahead of the log, at position {position}"
    return None if mark(there[0]) == marked else "it belongs to another log"


class DamagedError(ReadModelError):
    """Tables were damaged, or are missing."""


class Place(Protocol):
    """The storage of one projection's generations."""

    is_shared: ClassVar[bool]
    """Whether other processes may write here, too."""

    def live(self) -> int | None:
        """Return the number of the live generation, None if there never was one."""
        ...

    def numbers(self) -> list[int]:
        """Return the numbers of all generations, in order."""
        ...

    def check(self, number: int) -> TableProgress:
        """Return the progress of a generation, after a quick check of its integrity.

        Raises:
            DamagedError: it is damaged.
            ReadModelError: it cannot be read.
        """
        ...

    def progress_of(self, number: int) -> TableProgress:
        """Return the progress of a generation.

        Raises:
            DamagedError: it is damaged or missing.
            ReadModelError: it cannot be read.
        """
        ...

    def settle(self, number: int) -> None:
        """Do the slow part of making the generation live, while the current one is still live."""
        ...

    def point_to(self, number: int) -> None:
        """Make the settled generation live: atomically, for all readers, and durably."""
        ...

    def drop(self, number: int, *, by_force: bool = False) -> bool:
        """Delete the generation unless it still has readers; return whether it is gone."""
        ...


class Generations:
    """The files of one set of tables. It has one writer; any number of processes may look up the live file."""

    is_shared: ClassVar[bool] = False

    def __init__(self, path: Path, progress: str = OF_RUNTIME) -> None:
        """Take the path of the first file, and the query for a file's progress."""
        self._path = path
        self._progress = progress
        self._pointer = path.with_name(f"{path.name}.live")
        self._draft = path.with_name(f"{path.name}.live.new")

    def live(self) -> int | None:
        """Return the number of the live generation, None if there never was one."""
        try:
            digits = self._pointer.read_bytes().strip()
        except FileNotFoundError:
            return 1 if self._path.exists() else None
        except OSError as error:
            raise ReadModelError(f"{self._pointer} cannot be read: {error}") from error
        return int(digits) if re.fullmatch(rb"[1-9][0-9]{0,17}", digits) else 1

    def current(self) -> Path:
        """Return the live file, or the path that it would have; it may be deleted at any time."""
        return self.file(self.live() or 1)

    def file(self, number: int) -> Path:
        """Return the path of the generation, or the path that it would have."""
        return self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number}")

    def numbers(self) -> list[int]:
        """Return the numbers of all generations, in order."""
        names = re.compile(rf"{re.escape(self._path.name)}(?:\.([1-9][0-9]*))?")
        found = [names.fullmatch(file.name) for file in self._path.parent.glob(f"{escape(self._path.name)}*")]
        return sorted(int(one[1] or 1) for one in found if one is not None)

    def progress_of(self, number: int) -> TableProgress:
        """Return the progress of the generation.

        Raises:
            DamagedError: it is damaged or missing.
            ReadModelError: it cannot be opened.
        """
        with self._opened(number) as connection:
            return self._read_progress(connection)[0]

    def check(self, number: int) -> TableProgress:
        """Return the progress of the generation; its file is checked if it is small or suspect.

        Raises:
            DamagedError: it is damaged or missing.
            ReadModelError: it cannot be opened.
        """
        path = self.file(number)
        suspicion = _suspect_marker(path)
        with self._opened(number) as connection:
            kept, is_suspect = self._read_progress(connection)
            if is_suspect or path.stat().st_size <= SMALL or suspicion.exists():
                (faults,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                if faults != "ok":
                    raise DamagedError(f"it is damaged: {faults}")
                suspicion.unlink(missing_ok=True)
            return kept

    def suspect(self, number: int) -> None:
        """Have the generation checked when it is opened next, whatever its size."""
        with suppress(OSError):
            _suspect_marker(self.file(number)).touch()

    def settle(self, number: int) -> None:
        """Do the slow part of making the generation live, while the current one is still live.

        Raises:
            ReadModelError: the disk cannot be written.
        """
        if number > 1:
            with self._opened(number) as connection:
                connection.execute("PRAGMA wal_checkpoint(FULL)")  # committed data survives a loss of power

    def point_to(self, number: int) -> None:
        """Make the settled generation live: atomically, and for all readers.

        Raises:
            ReadModelError: the pointer cannot be written; it is unchanged.
        """
        if number == 1:
            return
        try:
            with self._draft.open("wb") as file:
                file.write(b"%d\n" % number)
                file.flush()
                os.fsync(file.fileno())
            self._draft.replace(self._pointer)
        except OSError as error:
            raise ReadModelError(f"{self._pointer} cannot be written: {error}") from error

    def drop(self, number: int, *, by_force: bool = False) -> bool:
        """Delete the generation unless it still has readers, or always if `by_force`; return whether it is gone."""
        path = self.file(number)
        if by_force:
            remove(path)
            return True
        # Sync the pointer first: if a loss of power restores the old pointer, the file it points to must still exist.
        sync_directory(path.parent)
        return clear(path)

    @contextmanager
    def _opened(self, number: int) -> Generator[sqlite3.Connection]:
        path = self.file(number)
        if not path.exists():
            raise DamagedError("it is missing")
        try:
            with closing(connect(path, "rw")) as connection:
                yield connection
        except sqlite3.DatabaseError as error:
            # SQLITE_ERROR is a missing table, for example; other operational errors concern access to the file.
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorname != "SQLITE_ERROR":
                reason = "no space is left; free some" if error.sqlite_errorname in _FULL else error
                raise ReadModelError(f"the projections in {path} cannot be opened: {reason}") from error
            raise DamagedError(f"it is damaged: {error}") from error

    def _read_progress(self, connection: sqlite3.Connection) -> tuple[TableProgress, bool]:
        found = connection.execute(self._progress).fetchone()
        if found is None:
            raise DamagedError("its creation was not finished")
        *kept, is_suspect = found
        return table_progress(*kept), bool(is_suspect)


def _suspect_marker(path: Path) -> Path:
    return path.with_name(f"{path.name}{SUSPECT}")


def clear(path: Path) -> bool:
    """Delete a database file unless somebody has it open; return whether it is gone."""
    if path.exists():
        try:
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
                # This locks the whole file exclusively, and removes the write-ahead log, which a reader opening it now
                # would need.
                connection.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.OperationalError:
            return False
        except sqlite3.DatabaseError:
            pass  # a damaged file has no readers
    with suppress(ReadModelError):
        remove(path)
    return not path.exists()


def remove(path: Path) -> None:
    """Delete a database file, even if somebody has it open.

    Raises:
        ReadModelError: the file cannot be deleted.
    """
    # The database first: a write-ahead log without its database is ignored.
    try:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}{SUSPECT}"):
            path.with_name(name).unlink(missing_ok=True)
    except OSError as error:
        raise ReadModelError(f"{path} cannot be replaced: {error}") from error


def sync_directory(path: Path) -> None:
    """Sync the directory, so that its entries survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_FILE = re.compile(r"([a-z][a-z0-9_]*)\.db(\.[1-9][0-9]*)?")
_TRIES = 10


def files_in(directory: Path) -> Iterator[tuple[str, Generations]]:
    """Yield the names of the projections in a directory, in order, with the files of each."""
    found = [_FILE.fullmatch(file.name) for file in directory.glob("*.db*")]
    for name in sorted({one[1] for one in found if one is not None}):
        yield name, Generations(directory / f"{name}.db", OF_USERS)


def statuses_of(places: Iterable[tuple[str, Place]], *, head: int, is_run: bool) -> Iterator[ProjectionStatus]:
    """Yield the status of the projections with these names and storages, without changing anything.

    `head` is the end of the log; `is_run` is whether a process writes the log, and so maintains the projections.

    Raises:
        ReadModelError: tables cannot be read.
    """
    for name, place in places:
        live = _progress_of_live(name, place)
        if live is None:
            continue
        begun = _progress_of(place, (place.live() or 0) + 1)
        yield ProjectionStatus(
            name=name,
            version=live.version,
            position=live.position,
            lag=max(0, head - live.position),
            health=_health(live, begun, is_run=is_run),
            failure=live.failure,
            rebuild=None if begun is None else Progress(name, begun.position, head),
        )


def _health(live: TableProgress, begun: TableProgress | None, *, is_run: bool) -> Health:
    if live.failure is not None:
        return "stopped"
    if not is_run:
        return "closed"
    return "running" if begun is None or begun.version == live.version else "rebuilding"


def _progress_of_live(name: str, place: Place) -> TableProgress | None:
    """Return the progress of the live generation, None if there is none."""
    for _ in range(_TRIES):  # the generation may be deleted after the pointer was read
        number = place.live()
        found = None if number is None else _progress_of(place, number)
        if found is not None or number is None or place.live() not in place.numbers():
            return found
    raise ReadModelError(
        f"the tables of {name!r} cannot be read; they are made anew when the log is opened to write it"
    )


def _progress_of(place: Place, number: int) -> TableProgress | None:
    try:
        return place.progress_of(number)
    except ReadModelError:  # missing or unfinished
        return None


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection to a file: `rw` requires an existing file, `rwc` creates it if necessary."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
    )


def connect_to_write(path: Path, mode: str = "rwc") -> sqlite3.Connection:
    """Return a connection that writes to a write-ahead log; a file that it creates is accessible to its owner only."""
    if mode == "rwc":
        with suppress(OSError):  # it exists, or SQLite reports why it cannot be created
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = connect(path, mode)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")  # events lost in a power failure are projected again
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection
