"""The transaction in which a user's projection writes, and the row with the progress of its tables.

Only this module ends a transaction, whatever a function calls; errors of the database are told from those of functions.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    event,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError, DBAPIError, InterfaceError, OperationalError

from reenact.projections.errors import ReadModelError
from reenact.projections.generations import ProjectionFailure, TableProgress, mark, table_progress
from reenact.projections.log import Row

_IN_HAND = "reenact_in_hand"
_SAVEPOINT = "reenact_batch"
"""It belongs to the transaction in which it was made, and is gone if that was ended and another one begun."""

_IDLE = 0
"""libpq's status of a connection outside of a transaction."""
_ABORTED = 3
"""libpq's status of a connection whose transaction can only be rolled back."""


class EndedError(RuntimeError):
    """A function has ended, or tried to end, the transaction in which it writes."""


class EscapedError(Exception):
    """A function has raised an exception that ends a task or program: for a projection, an error like any other."""

    def __init__(self, escaped: BaseException) -> None:
        super().__init__(escaped)
        self.escaped = escaped


class CommittedError(EndedError):
    """A function has committed by itself: a part of the rows may be stored, and cannot be rolled back."""


def guard(engine: Engine) -> None:
    """Install the listener that `only_commit` needs on the engine."""
    event.listen(engine, "commit", _refuse)


@contextmanager
def only_commit(connection: Connection) -> Generator[None]:
    """Begin a transaction; commit it at the end, or roll it back on an error.

    Raises:
        EndedError: a function has tried to end it before.
    """
    with connection.begin() as transaction:
        info = connection.info
        info[_IN_HAND] = True
        try:
            yield
            check_open(connection)
        except BaseException:
            if not transaction.is_active:
                connection.invalidate()  # nothing else rolls back the rest of it
            raise
        finally:
            info.pop(_IN_HAND, None)
            if not (connection.closed or connection.invalidated):  # else its info is another connection's
                connection.info.pop(_IN_HAND, None)


def check_open(connection: Connection) -> None:
    """Raise if the transaction was ended.

    Raises:
        CommittedError: it was ended by an SQL statement.
        EndedError: it was rolled back, or PostgreSQL has aborted it after an error that a function has caught.
    """
    if not connection.in_transaction():
        raise EndedError("a function has ended the transaction that it writes in, which is not its to end")
    status = _status(connection.connection.driver_connection)
    if status == _IDLE:
        raise CommittedError("a function has ended the transaction that it writes in; mend it, and rebuild the tables")
    if status == _ABORTED:
        raise EndedError(
            "a function has caught an error of PostgreSQL, which then refuses the whole transaction; put what may fail "
            "into `with write.begin_nested():`"
        )


@contextmanager
def as_one(connection: Connection) -> Generator[None]:
    """Check at the end whether it is still the same transaction.

    Raises:
        CommittedError: it was ended, and another was begun.
    """
    connection.exec_driver_sql(f"SAVEPOINT {_SAVEPOINT}")
    yield
    try:
        connection.exec_driver_sql(f"RELEASE SAVEPOINT {_SAVEPOINT}")
    except DBAPIError as error:
        message = "a function has ended the transaction that it writes in, here or in the events just before"
        raise CommittedError(f"{message}; mend it, and rebuild the tables") from error


def _refuse(connection: Connection) -> None:
    if not connection.invalidated and connection.info.get(_IN_HAND):
        raise EndedError("a function of a projection does not commit; that is done when the batch is done")


def _status(driver: object) -> object:
    """Return libpq's status of the driver's transaction."""
    is_in: object = getattr(driver, "in_transaction", None)  # sqlite3
    if is_in is None:
        return getattr(getattr(driver, "info", None), "transaction_status", None)
    return None if is_in is True else _IDLE


class Replaced(Exception):
    """Another process has made another generation live."""


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
# Lost connections, deadlocks, lack of resources, lock timeouts, actions of an operator, system errors.
PASSING_OF_POSTGRES = ("08", "40", "53", "55P03", "57", "58")


def is_passing(error: DBAPIError) -> bool:
    """Return whether the error is the database's, and may pass; else it is caused by the statement."""
    name = getattr(error.orig, "sqlite_errorname", None)
    if isinstance(name, str):
        return name.startswith((*_PASSING_OF_SQLITE, *_DAMAGE_OF_SQLITE))
    state = getattr(error.orig, "sqlstate", None)
    if isinstance(state, str):
        return state.startswith(PASSING_OF_POSTGRES)
    # Without a state, the statement did not reach the server, or no response came back.
    return error.connection_invalidated or type(error) in (DatabaseError, InterfaceError, OperationalError)


def is_damage(error: DBAPIError) -> bool:
    """Return whether the error reports damaged storage."""
    return str(getattr(error.orig, "sqlite_errorname", "")).startswith(_DAMAGE_OF_SQLITE)


def trouble(error: DBAPIError) -> ReadModelError:
    """Return the `ReadModelError` for an error of the database, which should become its cause."""
    words = " ".join(str(error.orig).split())
    return ReadModelError(f"the projections cannot be read or written: {words}")


OWN = MetaData()

PROGRESS = Table(
    "reenact_progress",
    OWN,
    Column("position", BigInteger, nullable=False),
    Column("mark", Text, nullable=False),  # identifies the event at that position, to tell one log from another
    Column("version", Integer, nullable=False),
    Column("shape", Text, nullable=False),  # a digest of the tables' form
    Column("failure", Text),  # why they do not advance, as JSON
)


def make(connection: Connection, tables: MetaData, version: int, shape: str) -> None:
    """Create the tables, and the row with their progress."""
    OWN.create_all(connection, checkfirst=False)
    tables.create_all(connection, checkfirst=False)
    connection.execute(insert(PROGRESS).values(position=0, mark="", version=version, shape=shape))


def read_progress(connection: Connection) -> TableProgress:
    """Return the progress of the tables.

    Raises:
        sqlalchemy.exc.DBAPIError: there is no such table, or it cannot be read.
        sqlalchemy.exc.NoResultFound: the tables are unfinished.
    """
    return table_progress(*connection.execute(select(PROGRESS)).one())


def move_progress(connection: Connection, origin: int, last: Row) -> bool:
    """Move the tables from the position `origin` to that of the row; return False if somebody has moved them."""
    moved = update(PROGRESS).where(PROGRESS.c.position == origin)
    values = {"position": last.position, "mark": mark(last), "failure": None}
    return connection.execute(moved.values(values)).rowcount == 1


def note_failure(connection: Connection, failure: ProjectionFailure) -> None:
    """Record why the tables do not advance."""
    connection.execute(update(PROGRESS).values(failure=msgspec.json.encode(failure).decode()))
