"""The file beside the log that holds the tables: opened as it is if it fits the log, else made anew.

There may be several generations of it: one that is read, and another that is made to take its place.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from reenact.projections import compiled
from reenact.projections.connections import Store, make_tables
from reenact.projections.errors import ReadModelError
from reenact.projections.generations import Generations, remove
from reenact.projections.log import Log
from reenact.projections.projection import NAME, misfit

SMALL: Final = 1024 * 1024
"""Bytes up to which a file is looked through at each opening; a larger one only if its writer did not close it."""

_log: Final = logging.getLogger("reenact.projections")


def current(path: Path) -> Path:
    """Return the file that is read at present, of those that begin with this path; it may be deleted a moment later."""
    generations = Generations(path)
    return generations.file(generations.live())


def open_store(path: Path, log: Log) -> Store:
    """Return where the tables in the file are, if they fit the log and this version; else it is made anew.

    Raises:
        ReadModelError: the file cannot be written, or the log not be read.
    """
    wrong = what_is_wrong(path, log)
    return Store(path) if wrong is None else make_store(path, wrong)


def make_store(path: Path, wrong: Misfit) -> Store:
    """Make the file anew, in which something is wrong.

    Raises:
        ReadModelError: the file cannot be written.
    """
    if path.exists():
        _log.warning("%s is made anew from the log: %s", path.name, wrong.words)
    remove(path)
    store = Store(path)
    try:
        with closing(store.connect()) as connection:
            make_tables(connection)
    except sqlite3.Error as error:
        raise ReadModelError(f"the projections cannot be written to {path}: {error}") from error
    return store


class Misfit(NamedTuple):
    """Why a file does not fit; one that `can_be_read` is whole, of this log, and of another version."""

    words: str
    can_be_read: bool = False


def what_is_wrong(path: Path, log: Log) -> Misfit | None:
    """Return why the file does not fit the log and this version, None if it does.

    Raises:
        ReadModelError: the file cannot be opened, or the log not be read.
    """
    if not path.exists():
        return Misfit("there is none")
    try:
        with closing(Store(path).connect()) as connection:
            progress = connection.execute(compiled.PROGRESS_OF, (NAME,)).fetchone()
            if progress is None:
                return Misfit("nobody has finished making it")
            position, marked, version, closed = progress
            if not closed or path.stat().st_size <= SMALL:
                (faults,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                if faults != "ok":
                    return Misfit(f"it is damaged: {faults}")
    except sqlite3.OperationalError as error:
        # A table that is missing, for example, and not the access to the file.
        if error.sqlite_errorname != "SQLITE_ERROR":
            raise ReadModelError(f"the projections in {path} cannot be opened: {error}") from error
        return Misfit(f"it is damaged: {error}")
    except sqlite3.DatabaseError as error:
        return Misfit(f"it is damaged: {error}")
    wrong = misfit(log, position, marked)
    if wrong is not None:
        return Misfit(wrong)
    if version == compiled.VERSION:
        return None
    return Misfit(f"it is of version {version}, not {compiled.VERSION}", can_be_read=True)
