"""Tables in SQLite files, built anew beside those that are read: which file is live is said by a pointer beside them.

The file of generation 1 bears the plain name, later ones their number behind it. A generation above the live one is
being built, one below it is waiting for its last reader to go.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing, suppress
from glob import escape
from pathlib import Path
from typing import Final

from reenact.projections.errors import ReadModelError

SUSPECT: Final = "-suspect"
"""What an empty file beside another has behind that one's name, to be looked through when it is opened next."""


class Generations:
    """The files of one set of tables. Used by one writer; any number of processes may ask which file is live."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pointer = path.with_name(f"{path.name}.live")
        self._draft = path.with_name(f"{path.name}.live.new")

    @property
    def is_begun(self) -> bool:
        """Whether there ever was a live file, or is one."""
        return self._pointer.exists() or self._path.exists()

    def live(self) -> int:
        """Return the number of the generation that is read."""
        try:
            digits = self._pointer.read_bytes().strip()
        except FileNotFoundError:
            return 1
        except OSError as error:
            raise ReadModelError(f"{self._pointer} cannot be read: {error}") from error
        return int(digits) if re.fullmatch(rb"[1-9][0-9]{0,17}", digits) else 1

    def file(self, number: int) -> Path:
        """Return where the generation is, or would be."""
        return self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number}")

    def numbers(self) -> list[int]:
        """Return the numbers of the generations that there are."""
        names = re.compile(rf"{re.escape(self._path.name)}(?:\.([1-9][0-9]*))?")
        found = [names.fullmatch(file.name) for file in self._path.parent.glob(f"{escape(self._path.name)}*")]
        return sorted(int(one[1] or 1) for one in found if one is not None)

    def settle(self, number: int) -> None:
        """Do what takes long of making the generation the live one, while the live one goes on.

        Raises:
            ReadModelError: the disk forbids it.
        """
        try:
            checkpoint(self.file(number))
            with self._draft.open("wb") as file:
                file.write(b"%d\n" % number)
                file.flush()
                os.fsync(file.fileno())
        except (OSError, sqlite3.Error) as error:
            raise ReadModelError(f"{self._draft} cannot be written: {error}") from error

    def point_to(self, number: int) -> None:
        """Make the generation, which is settled, the live one: at once, and for all.

        Raises:
            ReadModelError: the pointer cannot be moved; it is as it was.
        """
        try:
            if self._draft.read_bytes() != b"%d\n" % number:
                raise ReadModelError(f"generation {number} of {self._path.name} is not settled")
            self._draft.replace(self._pointer)
        except OSError as error:
            raise ReadModelError(f"{self._pointer} cannot be written: {error}") from error

    def clear(self, number: int) -> bool:
        """Delete the generation if nobody reads it any more; return whether it is gone."""
        # The pointer first: whoever finds the former one after a loss of power, finds what it points to.
        sync_directory(self._path.parent)
        return clear(self.file(number))

    def clear_old(self) -> bool:
        """Delete the generations below the live one that nobody reads any more; return whether all are gone."""
        live = self.live()
        left = [number for number in self.numbers() if number < live and not self.clear(number)]
        return not left


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


def checkpoint(path: Path) -> None:
    """Have what is committed in the file survive a loss of power."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(FULL)")


def sync_directory(path: Path) -> None:
    """Have the names in the directory survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
