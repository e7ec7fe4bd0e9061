"""The runtime's own tables in PostgreSQL: in schemas beside that of the log, one for each generation.

What is executed is the text that is made for SQLite, spelled as PostgreSQL has it. Several processes may keep the same
tables: the row that says how far these are is moved first, so that one of them writes at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

import psycopg
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import BytesBinaryDumper, StrDumperUnknown, TextLoader

from reenact.projections.cipher import Cipher, opened
from reenact.projections.errors import ProjectionReplacedError, ReadModelError
from reenact.projections.generations import NAME, mark
from reenact.projections.log import Row
from reenact.projections.read_model import compiled
from reenact.projections.read_model.rows import Changes, Connection, Cursor, Value, write
from reenact.projections.read_model.tables import DIGEST_OF_NAME, METADATA
from reenact.projections.views.schemas import GONE, ProjectionSchemas, Schemas
from reenact.projections.views.transactions import PASSING_OF_POSTGRES

if TYPE_CHECKING:
    from psycopg.abc import Buffer


LOCK_TIMEOUT = 3000
"""Milliseconds that whoever writes waits for another process that does."""

_IDLE_TIMEOUT = 60_000
"""Milliseconds after which the server ends the transaction of a process that has been stopped in it.

It does not look while a pipeline is under way, nor behind one: a Flush that comes after the end switches this off.
"""
_SILENT = 2
"""Seconds after which the transaction of a process from which nothing comes is ended by one that waits for its lock."""

_END_SILENT = f"""
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE relation = 'reenact_progress'::regclass AND mode = 'RowExclusiveLock' AND granted
    AND pid <> pg_backend_pid() AND wait_event = 'ClientRead' AND state_change < now() - interval '{_SILENT} s'
"""  # noqa: S608 - a number of ours

_KEYS = re.compile(r"(\w+\.(\w+)) IN \(SELECT anon_1\.value FROM json_each\(\?\) AS anon_1\)")
_SPELLINGS: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"ON CONFLICT \(session, kind, name\)"), lambda _: f"ON CONFLICT (session, kind, {DIGEST_OF_NAME})"),
    (_KEYS, lambda found: f"{found[1]} = ANY(%s::{'text' if found[2] == 'stream' else 'bigint'}[])"),
    # A limit below 0 is one of 0 in SQLite's text, too, and none is none.
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
    """Return the text of a statement of `compiled` as PostgreSQL, and its driver, have it."""
    text = " ".join(statement.split())
    for spelling, other in _SPELLINGS:
        text = spelling.sub(other, text)
    return text.encode()


# U+0000, which a text of PostgreSQL cannot hold, is stored as two U+0001, and U+0001 as U+0001 U+0002. That keeps texts
# apart, and in their order.


def escaped(text: str) -> str:
    """Return the text as it is stored."""
    return text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x01") if "\x00" in text or "\x01" in text else text


def unescaped(text: str) -> str:
    """Return the text that is stored in this way."""
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
    """A connection that takes the statements of `compiled`. Each is a transaction of its own, unless one is begun."""

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
        # What is lost with the server is projected again.
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
        """Let go of it. Idempotent."""
        self.driver.close()


class PostgresStore:
    """The tables in a schema. Each connection belongs to who opened it, whatever thread that is on at the time."""

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
        """Let go of what is kept beyond the connections: nothing. Idempotent."""

    def begin(self, connection: Connection, origin: int, last: Row) -> tuple[Connection, bool]:
        """Begin a transaction with a `move`, on the connection, or on another one if it is lost; return which."""
        assert isinstance(connection, PostgresConnection)
        try:
            return connection, self._begin(connection, origin, last)
        except psycopg.errors.LockNotAvailable:
            # All nodes need what these tables say, so nobody who is stopped may keep them from being written.
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
        """Return the rows that answer a question about some keys."""
        return list(opened(connection.execute(question, (list(keys),)).fetchall(), self.cipher))

    def reached(self, connection: Connection) -> int:
        """Return how far the tables are.

        Raises:
            ReadModelError: they do not say so.
        """
        found = connection.execute("SELECT position FROM reenact_progress").fetchone()
        if found is None or not isinstance(found[0], int):
            raise ReadModelError("the row that says how far the projections are is gone")
        return found[0]

    def move(self, connection: Connection, origin: int, last: Row) -> bool:
        """Say that the tables, which are at the origin, hold everything up to this row.

        Return False if they are elsewhere, or others have taken their place.
        """
        return self._move(connection, origin, last).rowcount == 1

    def _move(self, connection: Connection, origin: int, last: Row) -> Cursor:
        statement = f"""
            UPDATE reenact_progress SET position = ?, mark = ?, failure = NULL WHERE position = ? AND NOT EXISTS
            (SELECT FROM {self._schemas.base}.projections WHERE name = '{NAME}' AND live > {self.number})
        """  # noqa: S608 - a checked name
        return connection.execute(statement, (last.position, mark(last), origin))

    def write(self, connection: Connection, changes: Changes) -> None:
        """Write the rows, all in one trip to the server and back."""
        assert isinstance(connection, PostgresConnection)
        with connection.driver.pipeline():
            write(connection, changes, self.cipher)

    def roll_back(self, connection: Connection) -> None:
        """End the transaction, if there is one, with nothing changed."""
        with suppress(psycopg.Error):  # the connection is lost, and with it the transaction
            connection.execute("ROLLBACK")

    def say_closed(self, connection: Connection, closed: int) -> None:
        """Do nothing: the server answers for what it keeps."""

    def is_of_the_store(self, error: BaseException) -> bool:
        """Return whether a fault has nothing to do with what was to be written."""
        if not isinstance(error, psycopg.Error):
            return False
        state = error.sqlstate
        return self.is_gone(error) or (
            isinstance(error, psycopg.OperationalError) if state is None else state.startswith(PASSING_OF_POSTGRES)
        )

    def is_worth_another_try(self, error: BaseException) -> bool:
        """Return whether a question that failed is asked again, on another connection."""
        return self.is_of_the_store(error)

    def is_gone(self, error: BaseException) -> bool:
        """Return whether the tables are not there any more."""
        return isinstance(error, psycopg.Error) and error.sqlstate in GONE

    def successor(self) -> PostgresStore | None:
        """Return the tables that another process has put in the place of these, None if none has.

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
    """The tables in a schema as a reader has them beside whoever writes: nothing is changed, nothing takes for ever."""

    def __init__(self, schemas: Schemas, number: int, seconds: float, cipher: Cipher | None = None) -> None:
        """Take the schemas, and after how many seconds a statement is ended."""
        super().__init__(schemas, number, cipher)
        self._milliseconds = max(1, round(seconds * 1000))

    def connect(self) -> PostgresConnection:
        """Return a connection that cannot write, to be closed."""
        connection = super().connect()
        limits = f"SET statement_timeout TO {self._milliseconds}; SET default_transaction_read_only TO on"
        connection.driver.execute(limits.encode())
        return connection

    def is_worth_another_try(self, error: BaseException) -> bool:
        """Return whether a question that failed is asked again, on another connection."""
        took_too_long = isinstance(error, psycopg.errors.QueryCanceled)
        return not took_too_long and super().is_worth_another_try(error)


class PostgresSchemas(ProjectionSchemas):
    """The schemas of the runtime's own tables, whose content is encrypted if there is a cipher."""

    def __init__(self, schemas: Schemas, cipher: Cipher | None = None) -> None:
        super().__init__(schemas, NAME)
        self._all = schemas
        self._cipher = cipher

    def make(self, number: int) -> None:
        """Make the tables of a generation, empty, entirely or not at all."""
        self.create(number, METADATA, compiled.VERSION, "")

    def store(self, number: int) -> PostgresStore:
        """Return the tables of a generation."""
        return PostgresStore(self._all, number, self._cipher)

    def close(self) -> None:
        """Let go of the connections that make and replace tables. Idempotent."""
        self._all.close()
