"""The journal in a SQLite file.

It uses plain sqlite3 connections and a small pool of its own: the single writing connection stays on its thread, and
readers do not need the features of a larger pool (overflow, ping, reset on return), whose cost they would pay at each
read.
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
from reenact.actors.journal.wal_checkpoint import WalCheckpointer
from reenact.actors.journal.writer import Writer
from reenact.domain.errors import LogUnusableError

PAGE_SIZE = 8192
"""Bytes. A step has 1 to 3 kB: two or three on a page of SQLite's own 4,096 would leave a third of the file empty."""
_WAL_SIZE_LIMIT = 64 * 1024 * 1024

_logger = logging.getLogger("reenact.journal")


class SqliteJournal(StoredJournal):
    """A journal in one SQLite file; one process writes it, or several that share it."""

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
        """Open the log in the file, or create one if the file is missing or empty.

        With `read_only` the file is opened beside a process that may write it; it must be a log, and nothing can be
        appended. With a `closed` codec, the log can hold only the codec's types, so a log whose first event has another
        name is refused.

        With `keys`, everything written from now on is encrypted; without them, only the unencrypted parts of an
        encrypted log can be read. A `keyed` log gets a table of keys even without `keys`, for keys that were destroyed
        elsewhere.

        A `shared` log may also be written by other processes that share it; the caller holds `StreamLocks`, and opens
        the log within `opening`.

        Raises:
            LogEncryptedError: the log is encrypted, and there are no keys to write it with.
            KeyRingError: the keys cannot be used now, or are those of another log.
            LogLockedError: another process, or another journal of this one, is writing the log and does not share it.
            LogTooNewError: a newer version has written the log.
            LogUnusableError: the file is not a log, holds that of other actors, is damaged, or cannot be opened here.
            StorageFullError: there is no space to create the log.
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
                # Closed before the reader, so that callbacks of the last steps can still read.
                cleanup.callback(writer.close)
            return cls(codec=codec, reader=reader, writer=writer, cleanup=cleanup.pop_all())

    @property
    def path(self) -> str:
        """The path of the file, with all links resolved."""
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
    _create_private_file(path)
    # Passed to the writer's thread before anything is appended.
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    cleanup.callback(_close_connection, connection, path)
    is_log = check_format(connection, path)
    if is_log:
        check_owner(connection.execute(FIRST_EVENTS).fetchall(), path, codec, closed=closed)
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # applies to a file that is still to be created
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_SIZE_LIMIT}")
    if is_log and lock.is_alone:
        # Copy what a crash has left in the write-ahead log into the file, so that SQLite compares its size with its
        # header.
        _checkpoint_wal(connection)
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")
    if not is_log:
        create_tables(connection)
    if keyed:
        create_keys(connection)
        # Overwrite what is deleted, so that nothing is left of a destroyed key.
        connection.execute("PRAGMA secure_delete = ON")
    copying = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    wal = WalCheckpointer(connection, copying)
    cleanup.callback(wal.close)
    if shared:
        lock.share()
    return SqliteStore(connection, path, wal, is_shared=shared)


def _create_private_file(path: str) -> None:
    # Readable by its owner only, whatever the umask is. SQLite gives the files beside it the same mode.
    with suppress(OSError):  # the file exists, or SQLite reports why it cannot be created
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _checkpoint_wal(connection: sqlite3.Connection) -> None:
    # Do not wait for readers of an old state of the log: what they still need stays in the write-ahead log.
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _close_connection(connection: sqlite3.Connection, path: str) -> None:
    try:
        # A failed opening may have left a transaction.
        connection.rollback()
        _checkpoint_wal(connection)
    except sqlite3.Error as error:
        # Nothing is lost: the next process that opens the log finds the write-ahead log beside it.
        _logger.warning("the write-ahead log of %s stays beside it: %s", path, error)
    finally:
        connection.close()
