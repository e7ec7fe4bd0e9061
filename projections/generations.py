"""Generations of tables: how far each is, where it is stored, and which one is live.

The file of generation 1 bears the plain name, and is live while there is no pointer; later ones bear their number
behind it. A generation above the live one is being built, one below it is waiting for its last reader to go.
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
"""`troubled`: the last try to read the log or to write the tables failed, the next may work; `stopped`: none will;
`rebuilding`: the tables are of another version, and stand still until those of this version are made.
"""


class ProjectionFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a projection does not move on; if that is an event, where it stands in the log and what it is."""

    reason: str
    position: int | None = None
    stream: str | None = None
    event_type: str | None = None


class ProjectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a projection is.

    `version` and `position` are those of the tables that are read: the position in the log of the last event that is in
    them. `lag` is how many positions the log is ahead. `rebuild` says how far new tables have come that are to take
    their place.
    """

    name: str
    version: int
    position: int
    lag: int
    health: Health
    failure: ProjectionFailure | None = None
    rebuild: Progress | None = None


def failure_of(error: ReadModelError) -> ProjectionFailure:
    """Return what an error says of a projection."""
    if isinstance(error, ProjectionFailedError):
        return ProjectionFailure(
            reason=error.reason, position=error.position, stream=error.stream, event_type=error.event_type
        )
    return ProjectionFailure(reason=str(error))


_POSTGRES = ("postgresql://", "postgres://")


def is_postgres(place: str) -> bool:
    """Return whether a place is a PostgreSQL database."""
    return place.startswith(_POSTGRES)


NAME = "reenact"
"""What the runtime's own tables are called."""
RESERVED = frozenset({NAME, "tracing"})
"""Names that are taken: the last one is that of how far spans are sent."""

BUSY_TIMEOUT = 5.0
CHECKPOINT_PAGES = 4000
"""Pages that the write-ahead log grows to before it goes home; most are written again and again until then."""

SMALL = 1024 * 1024
"""Bytes up to which a file is looked through at each opening; a larger one only if there is a reason to."""

SUSPECT = "-suspect"
"""What an empty file beside another has behind that one's name, to be looked through when it is opened next."""

OF_RUNTIME = "SELECT position, mark, version, '', NULL, NOT closed FROM progress WHERE name = 'reenact'"
"""How far the runtime's own tables are; those whose last writer did not close them are to be looked through."""

OF_USERS = "SELECT position, mark, version, shape, failure, 0 FROM reenact_progress"


class TableProgress(msgspec.Struct, frozen=True):
    """How far tables are, what made them, and why they do not move on, if they do not."""

    position: int
    mark: str
    version: int
    shape: str
    failure: ProjectionFailure | None


def table_progress(position: int, mark: str, version: int, shape: str, failure: str | None) -> TableProgress:
    """Return what is kept, as it is stored."""
    why = None if failure is None else msgspec.json.decode(failure, type=ProjectionFailure)
    return TableProgress(position, mark, version, shape, why)


def mark(row: Row) -> str:
    """Return what tells the event from the one that stands at its position in another log."""
    return f"{row.stream} {row.version} {row.recorded_at}"


def misfit(log: Log, position: int, marked: str) -> str | None:
    """Return why tables that have come to the position, where an event with this mark stood, are not of the log."""
    if position == 0:
        return None
    there = log.read_all(after=position - 1, limit=1)
    if there and there[0].position > position and there[0].is_behind_forgotten:
        return None  # it can be read by nobody any more
    if not there or there[0].position != position:
        return f"it is ahead of the log, at position {position}"
    return None if mark(there[0]) == marked else "it belongs to another log"


class DamagedError(ReadModelError):
    """Tables are not as they were written, or are not there."""


class Place(Protocol):
    """Where the generations of one projection are."""

    is_shared: ClassVar[bool]
    """Whether other processes may write here, too."""

    def live(self) -> int | None:
        """Return which generation is read, None if there never was one."""
        ...

    def numbers(self) -> list[int]:
        """Return the generations that there are, in their order."""
        ...

    def check(self, number: int) -> TableProgress:
        """Return how far a generation is, if it is as it was written, as far as can be seen in a short time.

        Raises:
            DamagedError: it is not.
            ReadModelError: it cannot be read.
        """
        ...

    def progress_of(self, number: int) -> TableProgress:
        """Return how far a generation is.

        Raises:
            DamagedError: it is damaged, or not there.
            ReadModelError: it cannot be read.
        """
        ...

    def settle(self, number: int) -> None:
        """Do what takes long of making the generation the live one, while the live one goes on."""
        ...

    def point_to(self, number: int) -> None:
        """Make the generation, which is settled, the live one: at once, for all, and for good."""
        ...

    def drop(self, number: int, *, by_force: bool = False) -> bool:
        """Delete the generation when nobody reads it any more; return whether it is gone by now."""
        ...


class Generations:
    """The files of one set of tables. Used by one writer; any number of processes may ask which file is live."""

    is_shared: ClassVar[bool] = False

    def __init__(self, path: Path, progress: str = OF_RUNTIME) -> None:
        """Take the path of the first file, and what is asked of one to know how far it is."""
        self._path = path
        self._progress = progress
        self._pointer = path.with_name(f"{path.name}.live")
        self._draft = path.with_name(f"{path.name}.live.new")

    def live(self) -> int | None:
        """Return the number of the generation that is read, None if there never was one."""
        try:
            digits = self._pointer.read_bytes().strip()
        except FileNotFoundError:
            return 1 if self._path.exists() else None
        except OSError as error:
            raise ReadModelError(f"{self._pointer} cannot be read: {error}") from error
        return int(digits) if re.fullmatch(rb"[1-9][0-9]{0,17}", digits) else 1

    def current(self) -> Path:
        """Return the file that is read at present, or would be; it may be deleted a moment later."""
        return self.file(self.live() or 1)

    def file(self, number: int) -> Path:
        """Return where the generation is, or would be."""
        return self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number}")

    def numbers(self) -> list[int]:
        """Return the numbers of the generations that there are."""
        names = re.compile(rf"{re.escape(self._path.name)}(?:\.([1-9][0-9]*))?")
        found = [names.fullmatch(file.name) for file in self._path.parent.glob(f"{escape(self._path.name)}*")]
        return sorted(int(one[1] or 1) for one in found if one is not None)

    def progress_of(self, number: int) -> TableProgress:
        """Return how far the generation is.

        Raises:
            DamagedError: it is damaged, or not there.
            ReadModelError: it cannot be opened.
        """
        with self._opened(number) as connection:
            return self._look(connection)[0]

    def check(self, number: int) -> TableProgress:
        """Return how far the generation is, which is looked through if it is small, or there is a reason to.

        Raises:
            DamagedError: it is damaged, or not there.
            ReadModelError: it cannot be opened.
        """
        path = self.file(number)
        suspicion = _suspicion(path)
        with self._opened(number) as connection:
            kept, is_suspect = self._look(connection)
            if is_suspect or path.stat().st_size <= SMALL or suspicion.exists():
                (faults,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                if faults != "ok":
                    raise DamagedError(f"it is damaged: {faults}")
                suspicion.unlink(missing_ok=True)
            return kept

    def suspect(self, number: int) -> None:
        """Have the generation looked through when it is opened next, whatever its size."""
        with suppress(OSError):
            _suspicion(self.file(number)).touch()

    def settle(self, number: int) -> None:
        """Do what takes long of making the generation the live one, while the live one goes on.

        Raises:
            ReadModelError: the disk forbids it.
        """
        if number > 1:
            with self._opened(number) as connection:
                connection.execute("PRAGMA wal_checkpoint(FULL)")  # what is committed survives a loss of power

    def point_to(self, number: int) -> None:
        """Make the generation, which is settled, the live one: at once, and for all.

        Raises:
            ReadModelError: the pointer cannot be moved; it is as it was.
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
        """Delete the generation if nobody reads it any more, or `by_force`; return whether it is gone."""
        path = self.file(number)
        if by_force:
            remove(path)
            return True
        # The pointer first: whoever finds the former one after a loss of power, finds what it points to.
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
            # A table that is missing, for example, and not the access to the file.
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorname != "SQLITE_ERROR":
                raise ReadModelError(f"the projections in {path} cannot be opened: {error}") from error
            raise DamagedError(f"it is damaged: {error}") from error

    def _look(self, connection: sqlite3.Connection) -> tuple[TableProgress, bool]:
        found = connection.execute(self._progress).fetchone()
        if found is None:
            raise DamagedError("nobody has finished making it")
        *kept, is_suspect = found
        return table_progress(*kept), bool(is_suspect)


def _suspicion(path: Path) -> Path:
    return path.with_name(f"{path.name}{SUSPECT}")


def clear(path: Path) -> bool:
    """Delete the file of a database if nobody has it open; return whether it is gone."""
    if path.exists():
        try:
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
                # This takes the whole file, and leaves no second one that somebody who still opens it would miss.
                connection.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.OperationalError:
            return False
        except sqlite3.DatabaseError:
            pass  # what is damaged has no readers
    with suppress(ReadModelError):
        remove(path)
    return not path.exists()


def remove(path: Path) -> None:
    """Delete the file of a database, whoever has it open.

    Raises:
        ReadModelError: the system forbids it.
    """
    # The file first: what is left of a write-ahead log counts for nothing once its database is gone.
    try:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}{SUSPECT}"):
            path.with_name(name).unlink(missing_ok=True)
    except OSError as error:
        raise ReadModelError(f"{path} cannot be replaced: {error}") from error


def sync_directory(path: Path) -> None:
    """Have the names in the directory survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_FILE = re.compile(r"([a-z][a-z0-9_]*)\.db(\.[1-9][0-9]*)?")
_TRIES = 10


def files_in(directory: Path) -> Iterator[tuple[str, Generations]]:
    """Yield the names of the projections in a directory, in their order, and the files of each."""
    found = [_FILE.fullmatch(file.name) for file in directory.glob("*.db*")]
    for name in sorted({one[1] for one in found if one is not None}):
        yield name, Generations(directory / f"{name}.db", OF_USERS)


def seen(places: Iterable[tuple[str, Place]], *, head: int, is_run: bool) -> Iterator[ProjectionStatus]:
    """Yield how the projections with these names are, whose tables are at these places; nothing is changed.

    `head` is where the log ends, `is_run` whether a process writes it, and so keeps the projections.

    Raises:
        ReadModelError: tables cannot be read.
    """
    for name, place in places:
        live = _look_at_live(name, place)
        if live is None:
            continue
        begun = _look_at(place, (place.live() or 0) + 1)
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


def _look_at_live(name: str, place: Place) -> TableProgress | None:
    """Return how far the live generation is; None, if there is none."""
    for _ in range(_TRIES):  # it may go once the pointer was read
        number = place.live()
        found = None if number is None else _look_at(place, number)
        if found is not None or number is None or place.live() not in place.numbers():
            return found
    raise ReadModelError(
        f"the tables of {name!r} cannot be read; they are made anew when the log is opened to write it"
    )


def _look_at(place: Place, number: int) -> TableProgress | None:
    try:
        return place.progress_of(number)
    except ReadModelError:  # it is not there, or not finished
        return None


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection to a file: `rw` is for one that is there, `rwc` makes it if there is none."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
    )


def connect_to_write(path: Path, mode: str = "rwc") -> sqlite3.Connection:
    """Return a connection whose transactions go to a write-ahead log; a file that it makes is its owner's alone."""
    if mode == "rwc":
        with suppress(OSError):  # it is there already, or SQLite says why it cannot be
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = connect(path, mode)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")  # a tail lost with the power is projected again
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection
