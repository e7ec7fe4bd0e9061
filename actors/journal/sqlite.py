"""The journal in a SQLite file.

Plain sqlite3 connections and a small pool of our own: the one writing connection never leaves its thread, and a
reader needs nothing of a larger pool (overflow, ping, reset on return) that it would pay for at each read.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import ExitStack, suppress

from reenact.actors.journal.api import Listener, Synchronous
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.faults import translated
from reenact.actors.journal.key_ring import KeyRing
from reenact.actors.journal.lock import WriterLock
from reenact.actors.journal.schema import check_file, check_format, create_keys, create_tables, has_keys
from reenact.actors.journal.sqlite_reader import BUSY_TIMEOUT, SqliteReader
from reenact.actors.journal.sqlite_store import SqliteStore
from reenact.actors.journal.stored import FIRST_EVENTS, StoredJournal, check_owner
from reenact.actors.journal.vault import AGE, Vault
from reenact.actors.journal.writer import Writer
from reenact.domain.errors import LogUnusableError

PAGE_SIZE = 8192
"""Bytes. A step has 1 to 3 kB: two or three on a page of SQLite's own 4,096 would leave a third of the file empty."""
_WAL_SIZE_LIMIT = 64 * 1024 * 1024

_logger = logging.getLogger("reenact.journal")


class SqliteJournal(StoredJournal):
    """An append-only history for each stream in one SQLite file; one process writes it, or several that share it."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        codec: EventCodec,
        *,
        listener: Listener | None = None,
        synchronous: Synchronous = "FULL",
        read_only: bool = False,
        closed: bool = False,
        shared: bool = False,
        keys: KeyRing | None = None,
        keyed: bool = False,
    ) -> SqliteJournal:
        """Open the log in the file, or begin one if the file is missing or empty.

        With `read_only` the file is opened beside a process that writes it; it must be a log, and nothing can be
        appended. The table of a `closed` codec is all that such a log can hold, so one that begins with an event of
        another name is refused as it stands.

        With `keys`, what is written from now on is encrypted; without them, a log that is encrypted can be read only
        as far as it is not. A log that is `keyed` has a table of keys without them, too: for keys that were destroyed
        elsewhere.

        A `shared` log may be written by other processes that share it, too; whoever opens it has `StreamLocks`, and is
        `opening` it meanwhile.

        Raises:
            LogEncryptedError: the log is encrypted, and there are no keys to write it with.
            KeyRingError: the keys cannot be used now, or are those of another log.
            LogLockedError: another process, or another journal of this one, is writing the log and does not share it.
            LogTooNewError: a newer version has written it.
            LogUnusableError: it is not a log, is that of others, is damaged, or cannot be opened here.
            StorageFullError: there is no space to begin it.
        """
        resolved = os.path.realpath(path)
        with ExitStack() as cleanup, translated(resolved):
            check_file(resolved)
            store = None
            if not read_only:
                store = _open_store(
                    resolved, synchronous, cleanup, codec, closed=closed, shared=shared, keyed=keyed or keys is not None
                )
            reader = SqliteReader(resolved)
            cleanup.callback(reader.close)
            with reader.connection() as connection:
                if not check_format(connection, resolved):
                    raise LogUnusableError(f"{resolved} holds no log yet; open it for writing first")
                is_encrypted = has_keys(connection)
            if is_encrypted:
                age = AGE if read_only or shared else None
                codec.vault = Vault(keys, reader.select, name=resolved, age=age)
                if store is not None:
                    codec.vault.check(store.keep_key)
            writer = None if store is None else Writer(store, codec, listener=listener)
            if writer is not None:
                # Before the reader, so that what is accepted can still be read by those who hear of it.
                cleanup.callback(writer.close)
            return cls(codec=codec, reader=reader, writer=writer, cleanup=cleanup.pop_all())

    @property
    def path(self) -> str:
        """Where the file is, with every link resolved."""
        return self.name


def _open_store(
    path: str,
    synchronous: Synchronous,
    cleanup: ExitStack,
    codec: EventCodec,
    *,
    closed: bool,
    shared: bool,
    keyed: bool,
) -> SqliteStore:
    lock = WriterLock(path, shared=shared)
    cleanup.callback(lock.release)
    _begin_privately(path)
    # Handed over to the writer's thread before anything is appended.
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    cleanup.callback(_close_connection, connection, path)
    is_log = check_format(connection, path)
    if is_log:
        check_owner(connection.execute(FIRST_EVENTS).fetchall(), path, codec, closed=closed)
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # of a file that is still to begin
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_SIZE_LIMIT}")
    if is_log and lock.is_alone:
        # What a crash has left in the write-ahead log goes home, so that the file can be compared with its header.
        _take_home(connection)
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")
        check_file(path)
    if not is_log:
        create_tables(connection)
    if keyed:
        create_keys(connection)
        # What is deleted is overwritten, so that nothing is left of a key that was destroyed.
        connection.execute("PRAGMA secure_delete = ON")
    if shared:
        lock.share()
    return SqliteStore(connection, path, is_shared=shared)


def _begin_privately(path: str) -> None:
    # For its owner alone, whatever the umask is. SQLite gives the files beside it the same mode.
    with suppress(OSError):  # it is there already, or SQLite says why it cannot be
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _take_home(connection: sqlite3.Connection) -> None:
    # Whoever still reads what stood there long ago, as all of the log, is not waited for: the rest stays beside it.
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _close_connection(connection: sqlite3.Connection, path: str) -> None:
    try:
        # An opening that failed may have left a transaction.
        connection.rollback()
        _take_home(connection)
    except sqlite3.Error as error:
        # Nothing is lost: the next one to open the log finds the write-ahead log beside it.
        _logger.warning("the write-ahead log of %s stays beside it: %s", path, error)
    finally:
        connection.close()
