"""Locks for writing a log in PostgreSQL: by one process, or by several that each write streams of their own.

All are advisory locks of one connection, so that they are lost together. The owner holds an additional lock with a
secret key: each append checks within its transaction whether that lock is still held, and is refused if not. So a
process cannot write after another one may have taken a lock that it has lost.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from selectors import EVENT_READ, DefaultSelector
from weakref import WeakSet

import psycopg

from reenact.actors.journal.lock import Owner
from reenact.actors.journal.postgres.address import Address, address_of
from reenact.actors.journal.postgres.connecting import KEEPALIVE, LOCK_TIMEOUT, PLAIN, SET, Connection, connect, spelled
from reenact.actors.journal.postgres.faults import translated
from reenact.domain.errors import LogLockedError, RuntimeClosedError

# Seconds before lost locks are taken again: the first time, and at most.
_FIRST_PAUSE = 0.25
_LAST_PAUSE = 2.0

# A server that hears nothing from a machine for about four seconds releases its locks, and the machine, which hears
# nothing from the server, gives them up as well.
_SETTINGS = {
    **PLAIN,
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": "4000",
    "lock_timeout": str(int(LOCK_TIMEOUT * 1000)),
    "statement_timeout": "0",
    "idle_session_timeout": "0",
}
_NAME_LENGTH = 63
_NAMED = re.compile(r" (\d+)@(\S*)$")
_HOLDER = """
    SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid() AND objsubid = 1
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = %s AND objid::bigint = %s
    LIMIT 1
"""
_WAIT_FOR_APPENDS = "SELECT 1 FROM log FOR SHARE"

_logger = logging.getLogger("reenact.journal")
_held: WeakSet[PostgresLocks] = WeakSet()


def writer_of(url: str) -> Owner | None:
    """Return a process that writes the log at the URL, or None.

    Raises:
        ConfigurationError: the URL is invalid.
        StorageError: the server cannot be reached.
    """
    address = address_of(url)
    with translated(address.name), connect(address) as connection:
        return _holder(connection, _key_of(address, "writer"))


class PostgresLocks:
    """The lock for writing a log, and this process's locks on streams; implements `lock.StreamLocks`.

    A thread watches the connection. When it is lost, so are the locks, and they are taken again as soon as no other
    process holds them; until then nothing can be appended.
    """

    def __init__(self, address: Address, *, shared: bool, as_node: bool = False) -> None:
        """Lock the log at the address for writing, exclusively or shared with others.

        All that share it must do so in the same way: as nodes, which own shards, or by the streams that each has
        claimed.

        Raises:
            LogLockedError: another process's lock excludes this one.
            psycopg.Error: the server cannot be reached.
        """
        self._address = address
        self.is_shared = shared
        """Whether other processes may write the log, too."""
        self._lock_names = ("nodes", "streams") if as_node else ("streams", "nodes")
        self._pid = os.getpid()
        # Held while the connection is used.
        self._gate = threading.Lock()
        self._streams: set[str] = set()
        self._key = 0
        self._losses = 0
        self._is_open = True
        self._connection: Connection | None = None
        self._take_connection()
        _held.add(self)
        # The watching thread sleeps until data arrives here or on the connection.
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._thread = threading.Thread(target=self._keep_locks, name="reenact-locks", daemon=True)
        self._thread.start()

    @classmethod
    def share(cls, url: str, *, as_node: bool = False) -> PostgresLocks:
        """Start to write the log at the URL beside other processes: each with streams of its own, or all as nodes.

        Raises:
            ConfigurationError: the URL is invalid.
            LogLockedError: another process writes it exclusively, or in the other way.
            StorageError: the server cannot be reached.
        """
        address = address_of(url)
        with translated(address.name):
            return cls(address, shared=True, as_node=as_node)

    def hold(self) -> tuple[int, int]:
        """Return the key of the lock that is held as long as all the others, and how often they were lost.

        Lost locks are taken again, except for those on streams, which must be claimed again. If the log is shared, only
        losses of streams count.

        Raises:
            LogLockedError: another process holds the lock now.
            psycopg.Error: the server cannot be reached.
            RuntimeClosedError: the locks were closed.
        """
        with self._gate:
            self._live_connection()
            return self._key, self._losses

    def doubt(self, key: int) -> None:
        """Check whether the locks are held, after an append that did not find the lock with this key."""
        with self._gate:
            if key == self._key:
                self._check_connection()

    @contextmanager
    def opening(self) -> Generator[None]:
        """Exclude other processes from opening the log; waits until none is opening it."""
        with translated(self._address.name), connect(self._address) as connection:
            # On a connection of its own: waiting may take long, and must not block users of the other one.
            connection.execute(f"SELECT pg_advisory_lock({_key_of(self._address, 'opening')})".encode())
            yield

    def claim(self, stream: str) -> bool:
        """Lock the stream; return False if another process has locked it."""
        with translated(self._address.name), self._gate:
            if stream in self._streams and self._connection is not None and not self._connection.closed:
                return True
            connection, key = self._live_connection(), _key_of(self._address, "stream", stream)
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
            if row != (True,):
                return False
            try:
                # Waits for a pending append that has still found the locks of the last owner held.
                connection.execute(spelled(_WAIT_FOR_APPENDS, self._address.schema))
            except psycopg.Error:
                self._drop_connection(connection)
                raise
            self._streams.add(stream)
            return True

    def release(self, stream: str) -> None:
        """Unlock the stream for other processes. Idempotent."""
        with self._gate:
            if stream not in self._streams:
                return
            self._streams.remove(stream)
            connection = self._connection
            if connection is not None:
                try:
                    connection.execute("SELECT pg_advisory_unlock(%s)", (_key_of(self._address, "stream", stream),))
                except psycopg.Error:
                    self._drop_connection(connection)

    def owner_of(self, stream: str) -> Owner | None:
        """Return the other process that has locked the stream, or None."""
        with translated(self._address.name), self._gate:
            return _holder(self._live_connection(), _key_of(self._address, "stream", stream))

    def close(self) -> None:
        """Release all locks. Idempotent."""
        with self._gate:
            if not self._is_open:
                return
            self._is_open = False
            self._streams.clear()
            connection, self._connection = self._connection, None
            if connection is not None:
                # The server notices the end of a connection a moment later; the next process must not find the locks
                # held.
                with contextlib.suppress(psycopg.Error):
                    connection.execute("SELECT pg_advisory_unlock_all()")
                connection.close()
        self._wake_sender.send(b".")
        self._thread.join()
        self._wake_receiver.close()
        self._wake_sender.close()

    def leave_to_the_parent(self) -> None:
        """Close a forked child's copy of the connection, so that the connection ends with the parent."""
        connection = self._connection
        if connection is not None and not connection.closed and os.getpid() != self._pid:
            with contextlib.suppress(OSError):
                os.close(connection.fileno())

    def _live_connection(self) -> Connection:
        if self._connection is None or self._connection.closed:
            return self._take_connection()
        return self._connection

    def _take_connection(self) -> Connection:
        """Take the lock for writing."""
        if not self._is_open:
            raise RuntimeClosedError(f"the log {self._address.name} is closed")
        if self._connection is not None:
            self._drop_connection(self._connection)
        connection = connect(self._address, **KEEPALIVE)
        try:
            self._key = self._take_locks(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _take_locks(self, connection: Connection) -> int:
        settings = {**_SETTINGS, "application_name": _name_for(connection)}
        connection.execute(SET, (list(settings), list(settings.values())))
        lock, key = _key_of(self._address, "writer"), secrets.randbits(63)
        attempt = "pg_try_advisory_lock_shared" if self.is_shared else "pg_try_advisory_lock"
        if connection.execute(f"SELECT {attempt}({lock})".encode()).fetchone() != (True,):
            owner = _holder(connection, lock) or Owner(None)
            raise _locked_error(self._address.name, owner)
        if self.is_shared:
            own, other = (_key_of(self._address, "writers", way) for way in self._lock_names)
            # Both take their own lock first, so of two that come at once at least one sees the other.
            connection.execute(f"SELECT pg_advisory_lock_shared({own})".encode())
            stranger = _holder(connection, other)
            if stranger is not None:
                raise _locked_error(self._address.name, stranger)
        connection.execute(f"SELECT pg_advisory_lock({key})".encode())
        return key

    def _drop_connection(self, connection: Connection) -> None:
        """Record that the locks are lost, including those on streams."""
        connection.close()
        self._connection = None
        if self._streams or not self.is_shared:
            self._losses += 1
        self._streams.clear()
        self._wake_sender.send(b".")

    def _check_connection(self) -> None:
        """Check whether the connection is alive."""
        connection = self._connection
        if connection is None:
            return
        try:
            connection.execute("SELECT 1")
        except psycopg.Error as error:
            _logger.warning("%s: the locks are lost: %s", self._address.name, " ".join(str(error).split()))
            self._drop_connection(connection)

    def _keep_locks(self) -> None:
        """Wait for the connection to be lost, and take the locks again, until the end."""
        pause = _FIRST_PAUSE
        while True:
            with self._gate:
                if not self._is_open:
                    return
                descriptor = self._descriptor()
            if descriptor is not None:
                self._wait(descriptor)
                with self._gate:
                    # Another thread may have read the data meanwhile.
                    if self._descriptor() == descriptor and _is_readable(descriptor):
                        self._check_connection()
                continue
            if not self._wait(timeout=pause):
                pause = _FIRST_PAUSE if self._take_again() else min(2 * pause, _LAST_PAUSE)

    def _descriptor(self) -> int | None:
        connection = self._connection
        return None if connection is None or connection.closed else connection.fileno()

    def _wait(self, descriptor: int | None = None, timeout: float | None = None) -> bool:
        """Wait until data arrives on the connection, or another thread wakes this one; return False on timeout."""
        with DefaultSelector() as selector:
            selector.register(self._wake_receiver, EVENT_READ)
            if descriptor is not None:
                try:
                    selector.register(descriptor, EVENT_READ)
                except OSError:  # it was closed in between
                    return True
            found = selector.select(timeout)
            if any(key.fileobj is self._wake_receiver for key, _ in found):
                self._wake_receiver.recv(4096)
            return bool(found)

    def _take_again(self) -> bool:
        try:
            self.hold()
        except (LogLockedError, psycopg.Error, RuntimeClosedError):
            return False
        _logger.warning("%s: the locks are held again", self._address.name)
        return True


def _locked_error(name: str, owner: Owner) -> LogLockedError:
    here = owner.host is None and owner.pid == os.getpid()
    return LogLockedError(name, owner.pid, owner.host, here=here)


def _holder(connection: Connection, key: int) -> Owner | None:
    """Return the other process that holds the lock with the key, or None."""
    row = connection.execute(_HOLDER, (key >> 32 & 0xFFFFFFFF, key & 0xFFFFFFFF)).fetchone()
    if row is None:
        return None
    named = _NAMED.search(row[0])
    if named is None:
        return Owner(None, row[0] or None)
    return Owner(int(named[1]), None if named[2] == _host() else named[2])


def _key_of(address: Address, *names: str) -> int:
    # Other programs may use advisory locks of the database as well: collisions are not to be expected.
    text = "\0".join(("reenact", address.schema, *names))
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _is_readable(descriptor: int) -> bool:
    with DefaultSelector() as selector:
        selector.register(descriptor, EVENT_READ)
        return bool(selector.select(0))


def _name_for(connection: Connection) -> str:
    """Return an application name for the connection that shows other processes whose it is."""
    (given,) = connection.execute("SHOW application_name").fetchone() or ("",)
    own = f" {os.getpid()}@{_host()}"
    return f"{given[: _NAME_LENGTH - len(own)]}{own}"


@cache
def _host() -> str:
    # The server shows names in ASCII, and with a limited length.
    return re.sub(r"[^!-~]", "?", socket.gethostname())[:40]


def _leave_locks_to_the_parent() -> None:
    """Close a forked child's copies: the server holds the locks as long as any of them is open."""
    for locks in list(_held):
        locks.leave_to_the_parent()


os.register_at_fork(after_in_child=_leave_locks_to_the_parent)
