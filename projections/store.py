"""The file beside the log that holds the tables: opened as it is if it fits the log, else made anew.

There may be several generations of it: one that is read, and another that is made to take its place.
"""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Engine, NullPool, StaticPool, create_engine, event, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError

from reenact.projections.errors import ReadModelError
from reenact.projections.generations import Generations, remove
from reenact.projections.log import Log
from reenact.projections.projection import NAME, misfit
from reenact.projections.tables import METADATA, PROGRESS, VERSION

BUSY_TIMEOUT: Final = 5.0
SMALL: Final = 32 * 1024 * 1024
"""Bytes up to which a file is looked through at each opening; a larger one only if its writer did not close it."""
CHECKPOINT_PAGES: Final = 4000
"""Pages that the write-ahead log grows to before it goes home; most are written again and again until then."""

_log: Final = logging.getLogger("reenact.projections")


def current(path: Path) -> Path:
    """Return the file that is read at present, of those that begin with this path; it may be deleted a moment later."""
    generations = Generations(path)
    return generations.file(generations.live())


def open_store(path: Path, log: Log) -> Engine:
    """Return an engine on a file whose tables fit the log and this version; what was there before may be replaced.

    Raises:
        ReadModelError: the file cannot be written.
    """
    if path.exists():
        wrong = what_is_wrong(path, log)
        if wrong is None:
            return _engine(path)
        _log.warning("%s is made anew from the log: %s", path.name, wrong.words)
    remove(path)
    engine = _engine(path)
    try:
        METADATA.create_all(engine)
    except DBAPIError as error:
        engine.dispose()
        raise ReadModelError(f"the projections cannot be written to {path}: {error.orig}") from error
    return engine


class Misfit(NamedTuple):
    """Why a file does not fit; one that `can_be_read` is whole, of this log, and of another version."""

    words: str
    can_be_read: bool = False


def what_is_wrong(path: Path, log: Log) -> Misfit | None:
    """Return why the file does not fit the log and this version, None if it does.

    Raises:
        ReadModelError: the file cannot be opened, or the log not be read.
    """
    engine = _engine(path)
    try:
        return _look_through(path, engine, log)
    finally:
        engine.dispose()


def open_private() -> Engine:
    """Return an engine on empty tables in memory, on one connection that all threads share."""
    if sqlite3.threadsafety < 3:  # noqa: PLR2004 - DB-API: threads may share connections
        raise ReadModelError("this Python's sqlite3 was built without the serialised mode")
    engine = create_engine(
        "sqlite://",
        isolation_level="AUTOCOMMIT",
        poolclass=StaticPool,
        hide_parameters=True,
        connect_args={"check_same_thread": False},
    )
    METADATA.create_all(engine)
    return engine


def _engine(path: Path) -> Engine:
    # Transactions are begun and ended in so many words; without a pool each connection belongs to who opened it.
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        isolation_level="AUTOCOMMIT",
        poolclass=NullPool,
        hide_parameters=True,  # what users said is in no error, and so in no log file
        connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT},
    )
    event.listen(engine, "connect", _prepare)
    return engine


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")  # a tail lost with the power is projected again
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")


def _look_through(path: Path, engine: Engine, log: Log) -> Misfit | None:
    columns = PROGRESS.c.position, PROGRESS.c.mark, PROGRESS.c.version, PROGRESS.c.closed
    try:
        with engine.connect() as connection:
            progress = connection.execute(select(*columns).where(PROGRESS.c.name == NAME)).one_or_none()
            if progress is None:
                return Misfit("nobody has finished making it")
            position, marked, version, closed = progress
            if not closed or path.stat().st_size <= SMALL:
                faults = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
                if faults != "ok":
                    return Misfit(f"it is damaged: {faults}")
    except OperationalError as error:
        if not _is_fault_of_the_file(error):
            raise ReadModelError(f"the projections in {path} cannot be opened: {error.orig}") from error
        return Misfit(f"it is damaged: {error.orig}")
    except DatabaseError as error:
        return Misfit(f"it is damaged: {error.orig}")
    wrong = misfit(log, position, marked)
    if wrong is not None:
        return Misfit(wrong)
    return None if version == VERSION else Misfit(f"it is of version {version}, not {VERSION}", can_be_read=True)


def _is_fault_of_the_file(error: OperationalError) -> bool:
    """Return whether it is the content that does not fit, such as a missing table, and not the access to it."""
    cause = error.orig
    return isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorname", "") == "SQLITE_ERROR"
