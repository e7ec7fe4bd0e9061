"""Translates errors of the PostgreSQL driver into this library's errors; no other module does."""

from __future__ import annotations

import psycopg
from psycopg import errors

from reenact.domain.errors import (
    LogAccessError,
    LogUnreachableError,
    LogUnusableError,
    StorageError,
    StorageFullError,
    UnstorableError,
)

_FULL = (errors.DiskFull,)
_FORBIDDEN = (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction)
_CONNECTION = ("08", "57P")
"""Prefixes of the server's error codes for a failed connection, and for its own shutdown."""
_DAMAGED = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.InvalidSchemaName,
    errors.DataCorrupted,
    errors.IndexCorrupted,
)


def fault(error: Exception, name: str) -> StorageError:
    """Return the library's error for an exception from using the log `name`; its own errors are returned as is."""
    if isinstance(error, StorageError):
        return error
    translation = _translate(error, name)
    translation.__cause__ = error
    return translation


class translated:  # noqa: N801 - reads as the function that it is used as
    """Translates errors of the driver into the library's errors."""

    def __init__(self, name: str) -> None:
        """Name the log in the errors."""
        self._name = name

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Translate the exception."""
        if isinstance(error, psycopg.Error | UnicodeError):
            raise fault(error, self._name) from error


def _translate(error: Exception, name: str) -> StorageError:
    # The server's messages may have several lines.
    words = " ".join(str(error).split())
    if isinstance(error, _FULL):
        return StorageFullError(f"no space is left for {name} ({words}); free some and try again")
    if isinstance(error, _FORBIDDEN):
        return LogUnusableError(
            f"{name} cannot be opened here ({words}); ask for the rights, or choose another database"
        )
    if isinstance(error, _DAMAGED):
        return LogUnusableError(f"{name} is not a log or is damaged ({words}); restore a copy of it")
    if isinstance(error, errors.LockNotAvailable):
        return StorageError(f"{name} is kept locked by another process ({words}); try again")
    if isinstance(error, psycopg.OperationalError) and _is_refusal(error):
        return LogAccessError(f"{name} lets nobody in with this user and password ({words}); check the URL")
    if isinstance(error, psycopg.OperationalError) and _is_of_the_connection(error):
        return LogUnreachableError(f"{name} cannot be reached ({words}); check the URL and the server, and try again")
    if isinstance(error, psycopg.OperationalError) and not isinstance(error, errors.ProgramLimitExceeded):
        return StorageError(f"{name} cannot be used now ({words}); check the URL and the server, and try again")
    return UnstorableError(f"{name}: this cannot be stored: {words}")


def _is_refusal(error: psycopg.OperationalError) -> bool:
    """Return whether the connection failed after the server had asked for a password: it gives no other reason."""
    attempt = error.pgconn
    return error.sqlstate is None and attempt is not None and (attempt.needs_password or attempt.used_password)


def _is_of_the_connection(error: psycopg.OperationalError) -> bool:
    return error.sqlstate is None or error.sqlstate.startswith(_CONNECTION)
