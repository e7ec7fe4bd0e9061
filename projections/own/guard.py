"""A transaction that ends where we end it: rows and position are committed together, whatever a function calls."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, Engine, event

_IN_HAND: Final = "reenact_in_hand"
_IDLE: Final = 0
"""What libpq calls a connection that is in no transaction."""


class EndedError(RuntimeError):
    """A function has ended, or tried to end, the transaction that it writes in; it is not its to end."""


class EscapedError(Exception):
    """A function has raised what ends a task or a program: in a projection it is a fault like any other."""

    def __init__(self, escaped: BaseException) -> None:
        super().__init__(escaped)
        self.escaped = escaped


class CommittedError(EndedError):
    """A function has committed behind our back: rows may be there in part, and none of them can be taken back."""


def guard(engine: Engine) -> None:
    """Have `only_commit` work with the connections of the engine."""
    event.listen(engine, "commit", _refuse)


@contextmanager
def only_commit(connection: Connection) -> Generator[None]:
    """Begin a transaction; commit it at the end, or roll it back if something was raised.

    Raises:
        EndedError: somebody has tried to end it before.
    """
    with connection.begin() as transaction:
        connection.info[_IN_HAND] = True
        try:
            yield
            check_open(connection)
        except BaseException:
            if not transaction.is_active:
                connection.invalidate()  # nobody will roll back what is left of it
            raise
        finally:
            if not connection.invalidated:
                connection.info.pop(_IN_HAND, None)


def check_open(connection: Connection) -> None:
    """Raise if the transaction was ended.

    Raises:
        CommittedError: it was, by a statement of the database's own language.
        EndedError: it was rolled back.
    """
    if not connection.in_transaction():
        raise EndedError("a function has ended the transaction that it writes in, which is not its to end")
    if not _is_open(connection.connection.driver_connection):
        raise CommittedError("a function has ended the transaction that it writes in; mend it, and rebuild the tables")


def _refuse(connection: Connection) -> None:
    if connection.info.get(_IN_HAND):
        raise EndedError("a function of a projection does not commit; that is done when the batch is done")


def _is_open(driver: object) -> bool:
    """Return whether the driver, too, is in a transaction."""
    is_in: object = getattr(driver, "in_transaction", None)  # that of sqlite3
    if is_in is None:
        status: object = getattr(getattr(driver, "info", None), "transaction_status", None)
        return status != _IDLE
    return is_in is True
