"""Opens a log by its location: a file path, or a URL that names the kind of storage."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from reenact.actors.journal.api import Listener, Synchronous
from reenact.actors.journal.codec import EventCodec
from reenact.domain.errors import ConfigurationError, needing_extra

if TYPE_CHECKING:
    from reenact.actors.journal.fence import Fence
    from reenact.actors.journal.key_ring import KeyRing
    from reenact.actors.journal.lock import StreamLocks
    from reenact.actors.journal.stored import StoredJournal

_SQLITE = "sqlite:///"
_PRIVATE = "reenact-private-"
_POSTGRES = ("postgresql://", "postgres://")
_USER = re.compile(r"([a-z]+://[^@/:]*)(?::[^@/]*)?@")
_PASSWORDS = ("password=", "sslpassword=")


def open_journal(
    url: str | os.PathLike[str],
    codec: EventCodec,
    *,
    listener: Listener | None = None,
    synchronous: Synchronous = "FULL",
    read_only: bool = False,
    closed: bool = False,
    shared: bool | None = None,
    locks: StreamLocks | None = None,
    fence: Fence | None = None,
    keys: KeyRing | None = None,
    keyed: bool = False,
) -> StoredJournal:
    """Open or create the log that a path or URL names.

    A path and `sqlite:///` name a file; `postgresql://` and `postgres://` name a database, where the parameter `schema`
    names the schema of the log ("reenact" by default). See `SqliteJournal.open` for `read_only`, `closed`, `shared`,
    `keys` and `keyed`, and `PostgresJournal.open` for `locks` and `fence`, which are for a database. If `shared` is not
    given, a file has one writer, and a database as many as open it in this way: actor systems of several processes may
    share one.

    Raises:
        ConfigurationError: the kind of log or a setting is unknown, or a dependency is not installed.
        StorageError: the log cannot be opened; the subclass says why.
    """
    if synchronous not in ("FULL", "NORMAL", "OFF"):
        raise ConfigurationError(f"synchronous must be 'FULL', 'NORMAL' or 'OFF', not {synchronous!r}")
    if keys is not None:
        from reenact.actors.journal.key_ring import check_keys  # noqa: PLC0415 - not needed without keys

        check_keys(keys)
    # Storage modules are imported on demand: sqlite3 is slow to import, and the PostgreSQL driver is an extra.
    if is_postgres(url):
        require_driver()
        from reenact.actors.journal.postgres.journal import PostgresJournal  # noqa: PLC0415

        return PostgresJournal.open(
            os.fspath(url),
            codec,
            listener=listener,
            synchronous=synchronous,
            read_only=read_only,
            closed=closed,
            shared=shared is not False,
            locks=locks,
            fence=fence,
            keys=keys,
            keyed=keyed,
        )
    path = file_of(url)
    from reenact.actors.journal.sqlite import SqliteJournal  # noqa: PLC0415

    return SqliteJournal.open(
        path,
        codec,
        listener=listener,
        synchronous=synchronous,
        read_only=read_only,
        closed=closed,
        shared=shared is True,
        keys=keys,
        keyed=keyed,
    )


def is_postgres(url: str | os.PathLike[str]) -> bool:
    """Return whether a path or URL names a log in a PostgreSQL database."""
    return os.fspath(url).startswith(_POSTGRES)


def require_driver() -> None:
    """Check that the driver can be imported.

    Raises:
        MissingExtraError: it is not installed, or lacks a dependency of its own.
    """
    with needing_extra("postgresql", "a log in PostgreSQL"):
        import_module("psycopg")


def without_password(url: str | os.PathLike[str]) -> str:
    """Return the path or URL of an openable log without the password that a URL may contain."""
    text = os.fspath(url)
    if not is_postgres(text):
        return text
    user = _USER.match(text)
    begin = user.end() if user else 0
    base, _, query = text[begin:].partition("?")
    rest = "&".join(item for item in query.split("&") if not item.startswith(_PASSWORDS))
    return (f"{user[1]}@" if user else "") + base + (f"?{rest}" if rest else "")


def file_of(url: str | os.PathLike[str]) -> str:
    """Return the file that a path or URL names.

    Raises:
        ConfigurationError: it does not name a file.
    """
    text = os.fspath(url)
    if text.startswith(_SQLITE):
        text = text.removeprefix(_SQLITE)
    elif "://" in text:
        kind = text.partition("://")[0]
        raise ConfigurationError(f"a {kind} URL names no file; give one, or a sqlite:/// or postgresql:// URL")
    if not text or text == ":memory:":
        raise ConfigurationError("the log needs a file; for one that is gone when it is closed, there is in_memory()")
    return text


def private_directory(undo: ExitStack) -> Path:
    """Create a temporary directory, in memory if the system supports that, and have `undo` remove it.

    Directories that killed processes have left there are removed, since their memory would be lost to everyone.
    """
    memory = Path("/dev/shm")  # noqa: S108 - a new directory in it, readable by its owner only
    if not os.access(memory, os.W_OK):
        directory = Path(tempfile.mkdtemp(prefix="reenact-"))
        undo.callback(shutil.rmtree, directory, ignore_errors=True)
        return directory
    _remove_abandoned(memory)
    while True:
        directory = Path(tempfile.mkdtemp(prefix=_PRIVATE, dir=memory))
        lock = _lock(directory)
        if lock is not None:
            undo.callback(os.close, lock)
            undo.callback(shutil.rmtree, directory, ignore_errors=True)
            return directory


def _remove_abandoned(memory: Path) -> None:
    """Remove directories that no process has locked: their owners have been killed."""
    for directory in memory.glob(f"{_PRIVATE}*"):
        lock = _lock(directory)
        if lock is not None:
            shutil.rmtree(directory, ignore_errors=True)
            os.close(lock)


def _lock(directory: Path) -> int | None:
    """Lock the directory while the descriptor is open; None if another process has locked it, or it is gone."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        directory.stat()
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
