"""Where the tables of projections are: what a directory of SQLite files and a PostgreSQL database have in common."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection, MetaData
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DatabaseError, DBAPIError, InterfaceError

from reenact.projections.errors import ReadModelError


class Replaced(Exception):
    """Somebody else has put another generation in the place of this one."""


class Tables(Protocol):
    """One generation of a projection's tables, for the one who writes them."""

    @property
    def number(self) -> int:
        """Which generation it is."""
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """Return a transaction that is committed at its end, and by nobody before.

        Raises:
            Replaced: the generation was the live one, and is not any more.
        """
        ...

    def close(self) -> None:
        """Let go of the connection. Idempotent."""
        ...


class Place(Protocol):
    """Keeps generations of tables by the names of their projections, and which of them is live."""

    @property
    def dialect(self) -> Dialect:
        """How the database wants to be spoken to."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other processes may write here, too."""
        ...

    def live(self, name: str) -> int | None:
        """Return which generation is read, None if there never was one."""
        ...

    def generations(self, name: str) -> list[int]:
        """Return the generations that there are, in their order."""
        ...

    def create(self, name: str, number: int, tables: MetaData, version: int, shape: str) -> None:
        """Make the tables of a generation, empty, entirely or not at all."""
        ...

    def tables(self, name: str, number: int) -> Tables:
        """Return the tables of a generation for writing."""
        ...

    def damage(self, name: str, number: int) -> str | None:
        """Return what is wrong with a generation's storage, None if it is as it was written, as far as can be seen."""
        ...

    def suspect(self, name: str, number: int) -> None:
        """Have a generation's storage looked through when it is opened next, however long that takes."""
        ...

    def looking(self, name: str, number: int) -> AbstractContextManager[Connection]:
        """Return a connection that reads a generation, whether it is live or not."""
        ...

    def reading(self, name: str) -> AbstractContextManager[Connection]:
        """Return a connection that reads the live generation: one snapshot of it, whatever is written or swapped."""
        ...

    def settle(self, name: str, number: int) -> None:
        """Do what takes long of making the generation the live one, while the live one goes on."""
        ...

    def point_to(self, name: str, number: int) -> None:
        """Make the generation the live one: at once, for all, and for good."""
        ...

    def drop(self, name: str, number: int, *, by_force: bool = False) -> bool:
        """Delete the generation when nobody reads it any more; return whether it is gone by now."""
        ...

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        ...


_PASSING_OF_SQLITE = (
    "SQLITE_BUSY",
    "SQLITE_CANTOPEN",
    "SQLITE_FULL",
    "SQLITE_INTERRUPT",
    "SQLITE_IOERR",
    "SQLITE_LOCKED",
    "SQLITE_NOMEM",
    "SQLITE_PERM",
    "SQLITE_PROTOCOL",
    "SQLITE_READONLY",
)
_DAMAGE_OF_SQLITE = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
# Lost connections, deadlocks, no resources, no lock in time, an operator's doing, the system's faults.
_PASSING_OF_POSTGRES = ("08", "40", "53", "55P03", "57", "58")


def is_passing(error: DBAPIError) -> bool:
    """Return whether the fault is the database's, and may go away; else it is in what was asked of it."""
    name = getattr(error.orig, "sqlite_errorname", None)
    if isinstance(name, str):
        return name.startswith((*_PASSING_OF_SQLITE, *_DAMAGE_OF_SQLITE))
    state = getattr(error.orig, "sqlstate", None)
    if isinstance(state, str):
        return state.startswith(_PASSING_OF_POSTGRES)
    # Without a state it never came to the server, or nothing came back.
    return error.connection_invalidated or type(error) in (DatabaseError, InterfaceError) or _is_operational(error)


def is_damage(error: DBAPIError) -> bool:
    """Return whether it says that the storage is not as it was written."""
    return str(getattr(error.orig, "sqlite_errorname", "")).startswith(_DAMAGE_OF_SQLITE)


def _is_operational(error: DBAPIError) -> bool:
    return any(kind.__name__ == "OperationalError" for kind in type(error.orig).__mro__)


def trouble(error: DBAPIError) -> ReadModelError:
    """Return our error for a fault of the database; the original is for its cause."""
    words = " ".join(str(error.orig).split())
    return ReadModelError(f"the projections cannot be read or written: {words}")
