"""The journal in a PostgreSQL database.

Several processes may write one log. Each append is one call, which locks the row that holds the end of the log: so
positions become visible in order and without gaps, and the call detects whether another process has written since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack

import psycopg
from psycopg.pq import TransactionStatus

from reenact.actors.journal.api import Listener, Publisher, Synchronous, WrittenRow
from reenact.actors.journal.codec import EventCodec, KeyDestroyedError
from reenact.actors.journal.fence import Fence
from reenact.actors.journal.key_ring import KeyRing
from reenact.actors.journal.lock import StreamLocks
from reenact.actors.journal.pool import ReadPool
from reenact.actors.journal.postgres.address import Address, address_of
from reenact.actors.journal.postgres.append import has_procedure
from reenact.actors.journal.postgres.connecting import KEEPALIVE, Connection, connect, spelled
from reenact.actors.journal.postgres.faults import translated
from reenact.actors.journal.postgres.listening import Listening
from reenact.actors.journal.postgres.locks import PostgresLocks
from reenact.actors.journal.postgres.schema import check_format, create_keys, create_tables, has_keys
from reenact.actors.journal.postgres.store import PostgresStore
from reenact.actors.journal.seeking import Cells, cells_of
from reenact.actors.journal.stored import FIRST_EVENTS, StoredJournal, check_owner
from reenact.actors.journal.vault import AGE, Vault
from reenact.actors.journal.writer import Writer
from reenact.domain.errors import LogUnusableError

_LAST_ROW = "SELECT coalesce(max(number), 0) FROM steps"
_ROWS = """
    SELECT number, stream, version, position, cursor, heard, recorded_at, count, cause, events, feed FROM steps
    WHERE number > ? AND number <= ? AND {wanted} ORDER BY number LIMIT ?
"""
_ROWS_OF = _ROWS.format(wanted="heard > 0 AND stream = ANY (?::text[])")
_ALL_ROWS = _ROWS.format(wanted="(heard > 0 OR split_part(stream, '/', 1) = ANY (?::text[]))")
_IS_READ_ONLY = """
    SELECT pg_is_in_recovery() OR reset_val = 'on' FROM pg_settings WHERE name = 'default_transaction_read_only'
"""


class PostgresReader(ReadPool[Connection]):
    """Implements `store.Reader`."""

    def __init__(self, address: Address) -> None:
        """Read the log at the address; connections are opened on demand."""
        super().__init__(
            lambda: connect(address, **KEEPALIVE),
            address.name,
            translated=translated,
            is_usable=lambda connection: connection.info.transaction_status == TransactionStatus.IDLE,
        )
        self._schema = address.schema

    def select(self, query: str, parameters: Sequence[str | int | bytes | list[str]]) -> list[Cells]:
        """Return the rows of the query."""
        spelling = spelled(query, self._schema)
        with self.connection() as connection:
            try:
                return _fetch(connection, spelling, parameters)
            except psycopg.OperationalError:
                if not connection.closed:
                    raise
        # The server had closed the idle connection, and the other idle ones with it.
        self.clear()
        with self.connection() as connection:
            return _fetch(connection, spelling, parameters)


def _fetch(connection: Connection, query: bytes, parameters: Sequence[str | int | bytes | list[str]]) -> list[Cells]:
    return connection.execute(query, parameters, binary=True).fetchall()


class PostgresJournal(StoredJournal):
    """A journal in the tables of one schema."""

    def __init__(
        self,
        *,
        codec: EventCodec,
        reader: PostgresReader,
        writer: Writer | None,
        listening: Listening,
        cleanup: ExitStack,
    ) -> None:
        """Use what `open` has prepared."""
        super().__init__(codec=codec, reader=reader, writer=writer, cleanup=cleanup)
        self._rows = reader
        self._listening = listening

    @classmethod
    def open(
        cls,
        url: str,
        codec: EventCodec,
        *,
        listener: Listener | None = None,
        synchronous: Synchronous = "FULL",
        read_only: bool = False,
        closed: bool = False,
        shared: bool = False,
        locks: StreamLocks | None = None,
        fence: Fence | None = None,
        keys: KeyRing | None = None,
        keyed: bool = False,
    ) -> PostgresJournal:
        """Open the log in the database that the URL names, or create one if its schema is missing or empty.

        The URL is one of libpq, with an additional parameter `schema` ("reenact" by default). With FULL an acknowledged
        append survives whatever the server survives (synchronous_commit on); with NORMAL and OFF a crash of the server
        may lose the last moments (off), but does not damage the log. The server must not be reached through a proxy
        that shares connections between transactions. With `read_only` it must be a log already, and nothing can be
        appended. With a `closed` codec, the log can hold only the codec's types, so a log whose first event has another
        name is refused.

        The journal locks the log exclusively, with a lock on a connection of its own, or shares it with other `shared`
        journals. With `locks`, created by `PostgresLocks.share`, it is shared, and appends are refused when these locks
        are lost. Lost locks are taken again before the next append, which fails as long as another process has locked
        the log. If another process may have written meanwhile, steps of a stream are refused until it is recovered.

        With a `fence`, steps of streams of the shards that this node owns are accepted, and others are refused with
        `ShardMovedError`; each row records the epoch in which it was written. A stream that was recovered in an earlier
        epoch of its shard must be recovered again.

        With `keys`, everything written from now on is encrypted; without them, only the unencrypted parts of an
        encrypted log can be read. A `keyed` log gets a table of keys even without `keys`, for keys that were destroyed
        elsewhere.

        Raises:
            ConfigurationError: the URL is invalid.
            LogEncryptedError: the log is encrypted, and there are no keys to write it with.
            KeyRingError: the keys cannot be used now, or are those of another log.
            LogLockedError: another process has locked the log exclusively, or shares it while this journal does not.
            LogTooNewError: a newer version has written the log.
            LogUnusableError: the schema does not hold a log, the log is damaged, or the user lacks rights.
            StorageError: the server cannot be reached, or refuses access.
        """
        address = address_of(url)
        with ExitStack() as cleanup, translated(address.name):
            if read_only:
                store = None
                _check_log(address)
            else:
                store = _open_store(address, synchronous, cleanup, _locks_for(address, locks, cleanup, shared=shared))
            reader = PostgresReader(address)
            cleanup.callback(reader.close)
            if (keyed or keys is not None) and store is not None:
                create_keys(store.connection, address)
            if has_keys(reader.select):
                codec.vault = Vault(keys, reader.select, name=address.name, age=AGE)
                if store is not None:
                    codec.vault.check(store.keep_key)
            if store is not None:
                check_owner(reader.select(FIRST_EVENTS, ()), address.name, codec, closed=closed)
            writer = None
            if store is not None:
                writer = Writer(store, codec, listener=listener, fence=fence)
                # Closed before the reader, so that callbacks of the last steps can still read.
                cleanup.callback(writer.close)
            listening = Listening(address, None if store is None else store.writer)
            cleanup.callback(listening.close)
            return cls(codec=codec, reader=reader, writer=writer, listening=listening, cleanup=cleanup.pop_all())

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Call `watcher` with the log's position after each commit with events, by any process."""
        self._listening.watch(watcher)

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        """Stop calling the watcher. Idempotent."""
        self._listening.unwatch(watcher)

    def watch_rows(self, watcher: Callable[[int], None]) -> None:
        """Call `watcher` with the number of the log's last row after each commit of other writers.

        It must return at once. The number is 0 when commits may have been missed.
        """
        self._listening.watch_rows(watcher)

    def unwatch_rows(self, watcher: Callable[[int], None]) -> None:
        """Stop calling the watcher. Idempotent."""
        self._listening.unwatch_rows(watcher)

    def publish_by(self, publisher: Publisher) -> None:
        """Call the publisher instead of the listener from now on; to be called before the first append.

        Raises:
            StorageError: the log was opened for reading only.
        """
        self.writer.publish_by(publisher)

    def last_row(self) -> int:
        """Return the number of the last durable row, 0 if there is none.

        Raises:
            StorageError: the log cannot be read.
            RuntimeClosedError: the journal is closed.
        """
        rows: list[tuple[int]] = self._rows.select(_LAST_ROW, ())
        return rows[0][0]

    def read_rows(
        self,
        *,
        after: int,
        until: int,
        streams: Collection[str] | None = None,
        categories: Collection[str] = (),
        limit: int = 1000,
    ) -> list[WrittenRow]:
        """Return up to `limit` rows with announcements, numbered above `after` and up to `until` inclusive.

        They belong to these streams, or to any if None; in that case, rows of the categories that have only events are
        included.

        Raises:
            StorageError: the log cannot be read.
            RuntimeClosedError: the journal is closed.
        """
        if streams is None:
            found = self._rows.select(_ALL_ROWS, (after, until, list(categories), limit))
        else:
            found = self._rows.select(_ROWS_OF, (after, until, list(streams), limit))
        return list(map(self._written_row, found))

    def _written_row(self, cells: Cells) -> WrittenRow:
        number, stream, version, position, cursor, heard, recorded_at, count, cause, events, feed = cells
        try:
            if heard:
                row = self._decode_row((stream, cursor, recorded_at, count, events, feed))
                return WrittenRow(number, stream, cursor, heard, row)
            recorded = self.codec.readable(cells_of([(stream, version, position, cause, events)]))
            return WrittenRow(number, stream, cursor, heard, events=tuple(recorded))
        except KeyDestroyedError:
            return WrittenRow(number, stream, cursor, heard)
        except LogUnusableError as error:
            return WrittenRow(number, stream, cursor, heard, error=error)


def is_log(url: str) -> bool:
    """Return whether there is a log at the URL; False means that one can be created there.

    Raises:
        ConfigurationError: the URL is invalid.
        LogTooNewError: a newer version has written the log.
        LogUnusableError: the schema belongs to another program.
        StorageError: the server cannot be reached, or refuses access.
    """
    address = address_of(url)
    with translated(address.name), connect(address) as connection:
        return check_format(connection, address)


def _locks_for(address: Address, locks: StreamLocks | None, cleanup: ExitStack, *, shared: bool) -> PostgresLocks:
    if isinstance(locks, PostgresLocks):
        return locks
    own = PostgresLocks(address, shared=shared)
    cleanup.callback(own.close)
    return own


def _check_log(address: Address) -> None:
    with connect(address) as connection:
        if not check_format(connection, address):
            raise LogUnusableError(f"{address.name} holds no log yet; open it for writing first")


def _open_store(address: Address, synchronous: Synchronous, cleanup: ExitStack, locks: PostgresLocks) -> PostgresStore:
    # Passed to the writer's thread before anything is appended.
    store = PostgresStore(address, synchronous, locks)
    cleanup.callback(store.close)
    connection = store.connection
    if connection.execute(_IS_READ_ONLY).fetchone() == (True,):
        raise LogUnusableError(f"{address.name} can only be read here, as on a standby; name a server that writes")
    if not (check_format(connection, address) and has_procedure(connection, address)):
        create_tables(connection, address)
    store.look()
    return store
