"""A transaction that ends where we end it: rows and position are committed together, whatever a function calls."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, Engine, event

_IN_HAND: Final = "reenact_in_hand"


class EndedError(RuntimeError):
    """A function has ended, or tried to end, the transaction that it writes in; it is not its to end."""


def guard(engine: Engine) -> None:
    """Have `only_commit` work with the connections of the engine."""
    event.listen(engine, "commit", _refuse)


@contextmanager
def only_commit(connection: Connection) -> Generator[None]:
    """Begin a transaction; commit it at the end, or roll it back if something was raised.

    Raises:
        EndedError: somebody has tried to commit before.
    """
    with connection.begin() as transaction:
        connection.info[_IN_HAND] = True
        try:
            yield
            if not transaction.is_active or not _is_open(connection):
                raise EndedError("the transaction was ended by a function; it is committed when the batch is done")
        finally:
            connection.info.pop(_IN_HAND, None)


def _refuse(connection: Connection) -> None:
    if connection.info.get(_IN_HAND):
        raise EndedError("a function of a projection does not commit; that is done when the batch is done")


def _is_open(connection: Connection) -> bool:
    """Return whether the driver, too, is in a transaction; those that do not say are believed."""
    is_in = getattr(connection.connection.driver_connection, "in_transaction", True)
    return bool(is_in)
