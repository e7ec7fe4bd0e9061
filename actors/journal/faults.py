"""Translates errors of SQLite and of the file system into this library's errors; no other module does."""

from __future__ import annotations

import errno
import sqlite3

from reenact.domain.errors import LogUnusableError, StorageError, StorageFullError, UnstorableError

_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_NO_ACCESS = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


def fault(error: Exception, path: str) -> StorageError:
    """Return the library's error for an exception from using the log at `path`; its own errors are returned as is."""
    if isinstance(error, StorageError):
        return error
    translation = _translate(error, path)
    translation.__cause__ = error
    return translation


class translated:  # noqa: N801 - reads as the function that it is used as
    """Translates errors of SQLite and the operating system into the library's errors, except for a broken pipe."""

    def __init__(self, path: str) -> None:
        """Name the log at `path` in the errors."""
        self._path = path

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Translate the exception."""
        if isinstance(error, BrokenPipeError):
            return  # from writing output to a pipe; log files are not pipes
        if isinstance(error, sqlite3.Error | OSError | UnicodeError):
            raise fault(error, self._path) from error


def _translate(error: Exception, path: str) -> StorageError:
    match error:
        case sqlite3.Error():
            return _translate_sqlite(error, path)
        case OSError(errno=number) if number in _NO_SPACE:
            return _full(path)
        case OSError():
            return LogUnusableError(f"{path} cannot be opened here: {error.strerror or error}; choose another place")
        case _:
            return UnstorableError(f"{path}: this cannot be stored: {error}")


def _translate_sqlite(error: sqlite3.Error, path: str) -> StorageError:
    # Errors that the Python module raises itself, such as for text that is not UTF-8, have no code.
    extended: int | None = getattr(error, "sqlite_errorcode", None)
    if extended is None:
        damaged = isinstance(error, sqlite3.OperationalError)
        return _damaged(error, path) if damaged else StorageError(f"{path}: {error}")
    primary = extended & 0xFF
    if primary in _FULL or extended in _FULL:
        return _full(path)
    if primary in _DAMAGED:
        return _damaged(error, path)
    if extended == sqlite3.SQLITE_READONLY_ROLLBACK:  # a process was killed while it created the log
        return LogUnusableError(f"{path} holds a change that was never completed ({error}); open it for writing first")
    if primary in _NO_ACCESS:
        return LogUnusableError(f"{path} cannot be opened here ({error}); check that file and directory are writable")
    return StorageError(f"{path} cannot be used now ({error})")


def _full(path: str) -> StorageFullError:
    return StorageFullError(f"no space is left for {path}; free some and try again")


def _damaged(error: sqlite3.Error, path: str) -> LogUnusableError:
    return LogUnusableError(
        f"{path} is not a log or is damaged ({error}); restore a copy of it, or choose another file"
    )
