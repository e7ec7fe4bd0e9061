"""The runtime's own tables in PostgreSQL: in schemas beside that of the log, one for each generation.

The executed statements are those compiled for SQLite, translated to PostgreSQL's syntax. Several processes may maintain
the same tables: each transaction first updates the progress row, whose lock admits one writer at a time.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import psycopg
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import BytesBinaryDumper, StrDumperUnknown, TextLoader
from sqlalchemy import Connection as Source
from sqlalchemy import inspect, select
from sqlalchemy.exc import DBAPIError, NoResultFound

from reenact.projections.cipher import Cipher, opened
from reenact.projections.errors import ProjectionReplacedError, ReadModelError
from reenact.projections.generations import NAME, mark
from reenact.projections.log import Row
from reenact.projections.read_model import compiled
from reenact.projections.read_model.rows import Changes, Connection, Cursor, Value, write
from reenact.projections.read_model.sqlite_store import make_tables
from reenact.projections.read_model.tables import DIGEST_OF_NAME, METADATA, OF_SQLITE
from reenact.projections.views.schemas import GONE, ProjectionSchemas, Schemas
from reenact.projections.views.transactions import OWN, PASSING_OF_POSTGRES, read_progress, trouble

if TYPE_CHECKING:
    from psycopg.abc import Buffer


LOCK_TIMEOUT = 3000
"""How long a writer waits for another process that holds the lock, in milliseconds."""

_IDLE_TIMEOUT = 60_000
"""The time in milliseconds after which the server ends the transaction of a process that was stopped within it.

The server does not check it during or after a pipeline: a Flush that arrives after the end disables the timeout.
"""
_SILENT = 2
"""How long a transaction may be idle, in seconds, before a process that waits for its lock ends it."""

_END_SILENT = f"""
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE relation = 'reenact_progress'::regclass AND mode = 'RowExclusiveLock' AND granted
    AND pid <> pg_backend_pid() AND wait_event = 'ClientRead' AND state_change < now() - interval '{_SILENT} s'
"""  # noqa: S608 - a number of ours

_KEYS = re.compile(r"(\w+\.(\w+)) IN \(SELECT anon_1\.value FROM json_each\(\?\) AS anon_1\)")
_SPELLINGS: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"ON CONFLICT \(session, kind, name\)"), lambda _: f"ON CONFLICT (session, kind, {DIGEST_OF_NAME})"),
    (_KEYS, lambda found: f"{found[1]} = ANY(%s::{'text' if found[2] == 'stream' else 'bigint'}[])"),
    # In SQLite's text, too, a limit below 0 counts as 0, and NULL as no limit.
    (
        re.compile(r"LIMIT coalesce\(max\(:limit, 0\), -1\)"),
        "LIMIT CASE WHEN %(limit)s::bigint < 0 THEN 0 ELSE %(limit)s::bigint END",
    ),
    (re.compile("CROSS JOIN"), "JOIN"),
    (re.compile(r"(?<!:):(\w+)"), r"%(\1)s"),
    (re.compile(r"\?"), "%s"),
)


@lru_cache(maxsize=256)
def spelled(statement: str) -> bytes:
    """Return a statement of `compiled` in the syntax of PostgreSQL and its driver."""
    text = " ".join(statement.split())
    for spelling, other in _SPELLINGS:
        text = spelling.sub(other, text)
    return text.encode()


# U+0000, which PostgreSQL's texts cannot hold, is stored as two U+0001, and U+0001 as U+0001 U+0002. The encoding is
# unambiguous and keeps the order of texts.


def escaped(text: str) -> str:
    """Return the stored form of the text."""
    return text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x01") if "\x00" in text or "\x01" in text else text


def unescaped(text: str) -> str:
    """Return the text from its stored form."""
    return text.replace("\x01\x01", "\x00").replace("\x01\x02", "\x01") if "\x01" in text else text


class _Dumper(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escaped(obj))


class _Loader(TextLoader):
    def load(self, data: Buffer) -> str:
        return unescaped(str(data, "utf-8"))


class _BinaryLoader(_Loader):
    format = psycopg.pq.Format.BINARY


class PostgresConnection:
    """A connection for the statements of `compiled`. Each is a transaction of its own, unless one is begun."""

    def __init__(self, driver: psycopg.Connection[TupleRow], schema: str) -> None:
        """Take a new connection, for the tables in the schema."""
        self.driver: Final = driver
        adapters = driver.adapters
        adapters.register_dumper(str, _Dumper)
        adapters.register_dumper(bytes, BytesBinaryDumper)
        for kind in (int, bool):
            adapters.register_dumper(kind, Int8Dumper)
        for loader in (_Loader, _BinaryLoader):
            adapters.register_loader("text", loader)
        driver.autocommit = True
        # transactions lost in a crash of the server are projected again
        settings = {
            "synchronous_commit": "off",
            "lock_timeout": LOCK_TIMEOUT,
            "idle_in_transaction_session_timeout": _IDLE_TIMEOUT,
            "search_path": schema,
        }
        driver.execute("; ".join(f"SET {name} TO {value}" for name, value in settings.items()).encode())

    def execute(self, statement: str, values: Sequence[object] | Mapping[str, Value] = ()) -> psycopg.Cursor[TupleRow]:
        """Execute a statement."""
        return self.driver.execute(spelled(statement), values, binary=True)

    def executemany(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute a statement with each of these rows."""
        given = list(rows)
        if given:
            with self.driver.cursor() as cursor:
                cursor.executemany(spelled(statement), given)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self.driver.close()


class PostgresStore:
    """The tables in a schema. A connection belongs to its opener, and may be used on any thread, one at a time."""

    faults: ClassVar[type[Exception]] = psycopg.Error

    def __init__(self, schemas: Schemas, number: int, cipher: Cipher | None = None) -> None:
        self._schemas = schemas
        self.number = number
        self.cipher = cipher
        self._schema = schemas.of(NAME).schema(number)

    def __str__(self) -> str:
        """Return the name of the schema."""
        return f"the schema {self._schema}"

    def connect(self) -> PostgresConnection:
        """Return a connection, to be closed."""
        driver = self._schemas.connect()
        try:
            return PostgresConnection(driver, self._schema)
        except BaseException:
            driver.close()
            raise

    def close(self) -> None:
        """Do nothing: only connections hold resources. Idempotent."""

    def begin(self, connection: Connection, origin: int, last: Row) -> tuple[Connection, bool]:
        """Begin a transaction with a `move`, on this connection or a new one; return it, and whether the tables moved.

        A new connection is opened if the given one is lost.
        """
        assert isinstance(connection, PostgresConnection)
        try:
            return connection, self._begin(connection, origin, last)
        except psycopg.errors.LockNotAvailable:
            # All nodes depend on these tables, so a stopped process must not keep them from being written.
            self.roll_back(connection)
            if connection.execute(_END_SILENT).rowcount == 0:
                raise
        except psycopg.OperationalError:
            if not connection.driver.closed:
                raise
            connection = self.connect()
        return connection, self._begin(connection, origin, last)

    def _begin(self, connection: PostgresConnection, origin: int, last: Row) -> bool:
        with connection.driver.pipeline():
            connection.execute("BEGIN")
            moved = self._move(connection, origin, last)
        return moved.rowcount == 1

    def ask(self, connection: Connection, question: str, keys: Collection[str | int]) -> list[tuple[Value, ...]]:
        """Return the rows of a query for some keys."""
        return list(opened(connection.execute(question, (list(keys),)).fetchall(), self.cipher))

    def reached(self, connection: Connection) -> int:
        """Return the position of the tables.

        Raises:
            ReadModelError: the progress row is missing.
        """
        found = connection.execute("SELECT position FROM reenact_progress").fetchone()
        if found is None or not isinstance(found[0], int):
            raise ReadModelError("the row that says how far the projections are is gone")
        return found[0]

    def move(self, connection: Connection, origin: int, last: Row) -> bool:
        """Move the tables from the position `origin` to that of this row.

        Return False if they are at another position, or other tables are live.
        """
        return self._move(connection, origin, last).rowcount == 1

    def _move(self, connection: Connection, origin: int, last: Row) -> Cursor:
        statement = f"""
            UPDATE reenact_progress SET position = ?, mark = ?, failure = NULL WHERE position = ? AND NOT EXISTS
            (SELECT FROM {self._schemas.base}.projections WHERE name = '{NAME}' AND live > {self.number})
        """  # noqa: S608 - a checked name
        return connection.execute(statement, (last.position, mark(last), origin))

    def write(self, connection: Connection, changes: Changes) -> None:
        """Write the rows, in one round trip to the server."""
        assert isinstance(connection, PostgresConnection)
        with connection.driver.pipeline():
            write(connection, changes, self.cipher)

    def roll_back(self, connection: Connection) -> None:
        """Roll back the transaction, if there is one."""
        with suppress(psycopg.Error):  # the connection is lost, and with it the transaction
            connection.execute("ROLLBACK")

    def record_closed(self, connection: Connection, closed: int) -> None:
        """Do nothing: the server ensures the integrity of its data."""

    def is_of_the_store(self, error: BaseException) -> bool:
        """Return whether the error is independent of the data that was to be written."""
        if not isinstance(error, psycopg.Error):
            return False
        state = error.sqlstate
        return self.is_gone(error) or (
            isinstance(error, psycopg.OperationalError) if state is None else state.startswith(PASSING_OF_POSTGRES)
        )

    def is_worth_another_try(self, error: BaseException) -> bool:
        """Return whether a failed query is repeated on another connection."""
        return self.is_of_the_store(error)

    def is_gone(self, error: BaseException) -> bool:
        """Return whether the error says that the tables were dropped."""
        return isinstance(error, psycopg.Error) and error.sqlstate in GONE

    def successor(self) -> PostgresStore | None:
        """Return the tables with which another process has replaced these, None if none has.

        Raises:
            ProjectionReplacedError: they are of another version.
            ReadModelError: the database cannot be read.
        """
        place = self._schemas.of(NAME)
        number = place.live()
        if number is None or number <= self.number:
            return None
        if place.progress_of(number).version != compiled.VERSION:
            raise ProjectionReplacedError(NAME)
        return PostgresStore(self._schemas, number, self.cipher)


class PostgresReaderStore(PostgresStore):
    """The tables in a schema for a reader beside the writer: read-only, with a time limit for each statement."""

    def __init__(self, schemas: Schemas, number: int, seconds: float, cipher: Cipher | None = None) -> None:
        """Take the schemas, and the time limit of a statement in seconds."""
        super().__init__(schemas, number, cipher)
        self._milliseconds = max(1, round(seconds * 1000))

    def connect(self) -> PostgresConnection:
        """Return a read-only connection, to be closed."""
        connection = super().connect()
        limits = f"SET statement_timeout TO {self._milliseconds}; SET default_transaction_read_only TO on"
        connection.driver.execute(limits.encode())
        return connection

    def is_worth_another_try(self, error: BaseException) -> bool:
        """Return whether a failed query is repeated on another connection."""
        took_too_long = isinstance(error, psycopg.errors.QueryCanceled)
        return not took_too_long and super().is_worth_another_try(error)


class PostgresSchemas(ProjectionSchemas):
    """The schemas of the runtime's own tables, whose content is encrypted if there is a cipher."""

    def __init__(self, schemas: Schemas, cipher: Cipher | None = None) -> None:
        super().__init__(schemas, NAME)
        self._all = schemas
        self._cipher = cipher

    def make(self, number: int) -> None:
        """Create the tables of a generation, empty, in one transaction."""
        self.create(number, METADATA, compiled.VERSION, "")

    def store(self, number: int) -> PostgresStore:
        """Return the tables of a generation."""
        return PostgresStore(self._all, number, self._cipher)

    def close(self) -> None:
        """Close the connections that create and replace tables. Idempotent."""
        self._all.close()


_AT_ONCE = 1000
"""The number of rows in memory at a time."""


def copy_live(url: str, to: Path) -> bool:
    """Copy the live tables of the log at the URL to a new SQLite file, in one transaction; return False without any.

    A table that is missing or has other columns is missing in the file, and so is a missing index, unless it exists
    only in SQLite.

    Raises:
        ReadModelError: the tables cannot be read.
    """
    with closing(Schemas(url)) as schemas:
        if NAME not in schemas.names():
            return False
        place = schemas.of(NAME)
        try:
            with place.reading() as source, closing(sqlite3.connect(to, isolation_level=None)) as target:
                target.execute("PRAGMA synchronous=OFF")
                make_tables(target)
                if _copy_progress(source, target):
                    _drop_what_differs(source, target, place)
                    _copy_rows(source, target)
        except DBAPIError as error:
            raise trouble(error) from error
        except sqlite3.DatabaseError as error:
            raise ReadModelError(f"the projections beside the log are damaged: {error}") from error
    return True


def _copy_progress(source: Source, target: sqlite3.Connection) -> bool:
    """Copy the progress of the tables; return whether they are of this version."""
    try:
        found = read_progress(source)
    except NoResultFound:
        target.execute("DELETE FROM progress")
        return False
    values = found.position, found.mark, found.version
    target.execute("UPDATE progress SET position = ?, mark = ?, version = ?", values)
    return found.version == compiled.VERSION


def _drop_what_differs(source: Source, target: sqlite3.Connection, place: ProjectionSchemas) -> None:
    looking = inspect(source)
    schema = place.schema(place.find_live(source) or 1)
    there = set(looking.get_table_names(schema)) - OWN.tables.keys()
    for name in there - METADATA.tables.keys():
        target.execute(f'CREATE TABLE "{name}" (of_nobody)')
    for table in METADATA.sorted_tables:
        columns = [one["name"] for one in looking.get_columns(table.name, schema)] if table.name in there else []
        if columns != table.columns.keys():
            target.execute(f"DROP TABLE {table.name}")
            continue
        indexes = {one["name"] for one in looking.get_indexes(table.name, schema)}
        for index in table.indexes - {OF_SQLITE}:
            if index.name not in indexes:
                target.execute(f"DROP INDEX {index.name}")


def _copy_rows(source: Source, target: sqlite3.Connection) -> None:
    for table in METADATA.sorted_tables:
        if not target.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table.name,)).fetchone():
            continue
        places = ", ".join("?" * len(table.columns))
        target.execute("BEGIN")
        with source.execution_options(yield_per=_AT_ONCE).execute(select(table)) as rows:
            for part in rows.partitions():
                cells = [tuple(unescaped(cell) if isinstance(cell, str) else cell for cell in row) for row in part]
                target.executemany(f"INSERT INTO {table.name} VALUES ({places})", cells)  # noqa: S608 - ours
        target.execute("COMMIT")
