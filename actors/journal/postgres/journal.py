"""The journal in a PostgreSQL database.

Several processes may write one log. Each append is one call, which locks the row that says where the log ends, so
positions become visible in their order and without holes, and sees there whether somebody else has written since.
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
    """Keeps the promise of `reader.Reader`."""

    def __init__(self, address: Address) -> None:
        """Read the log at the address; connections are opened when they are needed."""
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
        # The server had ended the connection while nobody used it, and the other idle ones with it.
        self.clear()
        with self.connection() as connection:
            return _fetch(connection, spelling, parameters)


def _fetch(connection: Connection, query: bytes, parameters: Sequence[str | int | bytes | list[str]]) -> list[Cells]:
    return connection.execute(query, parameters, binary=True).fetchall()


class PostgresJournal(StoredJournal):
    """An append-only history for each stream in the tables of one schema."""

    def __init__(
        self,
        *,
        codec: EventCodec,
        reader: PostgresReader,
        writer: Writer | None,
        listening: Listening,
        cleanup: ExitStack,
    ) -> None:
        """Take what `open` has prepared."""
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
        """Open the log in the database that the URL names, or begin one if its schema is missing or empty.

        The URL is one of libpq; besides, its parameter `schema` names the schema ("reenact" if it does not). With FULL
        an acknowledged append survives what the server survives (synchronous_commit on); with NORMAL and OFF a crash
        of the server may take the last moments with it (off), and leaves the log whole. The server must not be reached
        through something that shares connections between transactions. With `read_only` it must be a log already, and
        nothing can be appended. The table of a `closed` codec is all that such a log can hold, so one that begins with
        an event of another name is refused as it stands.

        The journal has the log for itself, by a lock on a connection of its own, or shares it with others that are
        `shared`. With `locks`, made by `PostgresLocks.share`, it is shared, and appends are refused when these are
        lost. Locks that are lost are taken again before the next append, which fails for as long as somebody else has
        the log. If somebody may have written meanwhile, steps of a stream are refused until it was recovered.

        With a `fence`, steps are accepted for streams of the shards that this node owns, and the others refused with
        `ShardMovedError`; each row says in which epoch it was written. A stream that was recovered in an earlier epoch
        of its shard must be recovered again.

        With `keys`, what is written from now on is encrypted; without them, a log that is encrypted can be read only
        as far as it is not. A log that is `keyed` has a table of keys without them, too: for keys that were destroyed
        elsewhere.

        Raises:
            ConfigurationError: the URL cannot be read.
            LogEncryptedError: the log is encrypted, and there are no keys to write it with.
            KeyRingError: the keys cannot be used now, or are those of another log.
            LogLockedError: somebody else has the log for themselves, or shares it and this journal does not.
            LogTooNewError: a newer version has written the log.
            LogUnusableError: it is not a log, is damaged, or the user lacks rights.
            StorageError: the server cannot be reached, or lets nobody in.
        """
        address = address_of(url)
        with ExitStack() as cleanup, translated(address.name):
            if read_only:
                store = None
                _check_log(address)
            else:
                store = _open_store(address, synchronous, cleanup, _held(address, locks, cleanup, shared=shared))
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
                # Before the reader, so that what is accepted can still be read by those who hear of it.
                cleanup.callback(writer.close)
            listening = Listening(address, None if store is None else store.writer)
            cleanup.callback(listening.close)
            return cls(codec=codec, reader=reader, writer=writer, listening=listening, cleanup=cleanup.pop_all())

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Have `watcher` called with the log's position after commits of events, whichever process makes them."""
        self._listening.watch(watcher)

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        """Have it called no more. Idempotent."""
        self._listening.unwatch(watcher)

    def watch_rows(self, watcher: Callable[[int], None]) -> None:
        """Have `watcher` called with the number of the log's last row after each commit of other writers.

        It must return at once. The number is 0 when commits may have been missed.
        """
        self._listening.watch_rows(watcher)

    def unwatch_rows(self, watcher: Callable[[int], None]) -> None:
        """Have it called no more. Idempotent."""
        self._listening.unwatch_rows(watcher)

    def publish_by(self, publisher: Publisher) -> None:
        """Have the publisher called in the place of the listener from now on; before anything is appended.

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
        """Return up to `limit` rows with a number above `after`, `until` included, of which something is heard.

        Those of these streams, or all if none are named; then also those of the categories that have events only.

        Raises:
            StorageError: the log cannot be read.
            RuntimeClosedError: the journal is closed.
        """
        if streams is None:
            found = self._rows.select(_ALL_ROWS, (after, until, list(categories), limit))
        else:
            found = self._rows.select(_ROWS_OF, (after, until, list(streams), limit))
        return list(map(self._written, found))

    def _written(self, cells: Cells) -> WrittenRow:
        number, stream, version, position, cursor, heard, recorded_at, count, cause, events, feed = cells
        try:
            if heard:
                row = self._row((stream, cursor, recorded_at, count, events, feed))
                return WrittenRow(number, stream, cursor, heard, row)
            recorded = self._codec.readable(cells_of([(stream, version, position, cause, events)]))
            return WrittenRow(number, stream, cursor, heard, events=tuple(recorded))
        except KeyDestroyedError:
            return WrittenRow(number, stream, cursor, heard)
        except LogUnusableError as error:
            return WrittenRow(number, stream, cursor, heard, error=error)


def is_log(url: str) -> bool:
    """Return whether there is a log at the URL; False means that one may begin there.

    Raises:
        ConfigurationError: the URL cannot be read.
        LogTooNewError: a newer version has written the log.
        LogUnusableError: the schema is that of something else.
        StorageError: the server cannot be reached, or lets nobody in.
    """
    address = address_of(url)
    with translated(address.name), connect(address) as connection:
        return check_format(connection, address)


def _held(address: Address, locks: StreamLocks | None, cleanup: ExitStack, *, shared: bool) -> PostgresLocks:
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
    # Handed over to the writer's thread before anything is appended.
    store = PostgresStore(address, synchronous, locks)
    cleanup.callback(store.close)
    connection = store.connection
    if connection.execute(_IS_READ_ONLY).fetchone() == (True,):
        raise LogUnusableError(f"{address.name} can only be read here, as on a standby; name a server that writes")
    if not (check_format(connection, address) and has_procedure(connection, address)):
        create_tables(connection, address)
    store.look()
    return store
