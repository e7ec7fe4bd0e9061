"""The PostgreSQL schemas of projections: one for each generation, and one that records which generations are live.

Several processes may maintain the same projections: each transaction moves the position from the one it has read, so
that the second of two changes nothing, and reads the position again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from typing import ClassVar, Final, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow
from sqlalchemy import Connection, Engine, MetaData, create_engine, text
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError, NoResultFound

from reenact.domain.database_url import split_url
from reenact.domain.errors import ConfigurationError
from reenact.projections.errors import ReadModelError
from reenact.projections.generations import DamagedError, TableProgress
from reenact.projections.views.transactions import PROGRESS, Replaced, guard, make, only_commit, read_progress, trouble

DEFAULT_SCHEMA = "reenact"
SUFFIX = "_own"
"""The suffix of the log's schema in the names of the projections' schemas."""

PATIENCE = 1000
"""How long to wait for readers of an old generation, in milliseconds; otherwise it is deleted later."""

_LONGEST = 20
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]*")
_CONNECT_TIMEOUT = 10
_TRIES = 10
_NO_TABLE = "42P01"
GONE = (_NO_TABLE, "3F000", "XX000")
"""No such table, no such schema, or one that was dropped during the access."""

_TURNS = text("SELECT pg_advisory_xact_lock(hashtextextended(:base, 0))")
_EXISTS = text("SELECT 1 FROM pg_namespace WHERE nspname = :schema")
_ALL = text("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, :start)")


class Schemas:
    """The tables of projections in schemas, which other processes may maintain, too."""

    def __init__(self, url: str, *, patience: int = _CONNECT_TIMEOUT) -> None:
        """Take a URL like that of a log, which may have `schema=…`; nothing is read or written yet.

        A connection attempt fails if the server has not answered within `patience` seconds.

        Raises:
            ConfigurationError: the URL is not valid, or names no usable schema.
        """
        _, address, schema = split_url(url)
        named = DEFAULT_SCHEMA if schema is None else schema
        if not _SCHEMA.fullmatch(named) or len(named) > _LONGEST:
            raise ConfigurationError(
                f"the schema of projections has small letters, digits and '_' in its name, no 'pg_' first, and at most "
                f"{_LONGEST} of them"
            )
        if SUFFIX in named:
            # otherwise projection "b" of log "a_own" and projection "own_b" of log "a" would have the same schema
            raise ConfigurationError(
                f"the schema of a log that has projections has no {SUFFIX!r} in its name; {named!r} has"
            )
        self.base: Final = f"{named}{SUFFIX}"
        self.connect: Final = _connecting(address, patience)
        self.engine: Final = _engine(self.connect)
        self.is_closed = False

    @classmethod
    def open(cls, url: str) -> Self:
        """Connect to the database, and create the schema that records the live generations, if there is none.

        Raises:
            ConfigurationError: the URL is not valid, or names no usable schema.
            ReadModelError: the server cannot be reached, or refuses the connection.
        """
        self = cls(url)
        try:
            with self.transaction() as connection:
                connection.execute(_TURNS, {"base": self.base})
                if not _exists(connection, self.base):
                    connection.execute(text(f"CREATE SCHEMA {self.base}"))
                connection.execute(
                    text(
                        f"CREATE TABLE IF NOT EXISTS {self.base}.projections "
                        '(name text COLLATE "C" PRIMARY KEY, live integer NOT NULL)'
                    )
                )
        except ReadModelError:
            self.engine.dispose()
            raise
        return self

    def names(self) -> list[str]:
        """Return the names of the projections that are kept here, in order, without changing anything.

        Raises:
            ReadModelError: the server cannot be reached, or refuses the connection.
        """
        with self.transaction() as connection:
            if not _exists(connection, self.base):
                return []
            return list(connection.scalars(text(f"SELECT name FROM {self.base}.projections ORDER BY name")))  # noqa: S608 - a checked name

    def of(self, name: str) -> ProjectionSchemas:
        """Return the schemas of the projection with this name."""
        return ProjectionSchemas(self, name)

    @contextmanager
    def transaction(self) -> Generator[Connection]:
        """Begin a transaction, whose errors are raised as `ReadModelError`."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise trouble(error) from error

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self.is_closed = True
        self.engine.dispose()


class ProjectionSchemas:
    """The schemas of one projection. Thread-safe."""

    is_shared: ClassVar[bool] = True

    def __init__(self, schemas: Schemas, name: str) -> None:
        self._schemas = schemas
        self.name: Final = name
        self._base = schemas.base
        self.dialect: Final[Dialect] = schemas.engine.dialect
        self._find = text(f"SELECT live FROM {self._base}.projections WHERE name = :name")  # noqa: S608 - a checked name

    def live(self) -> int | None:
        """Return the number of the live generation, None if there never was one."""
        with self._schemas.transaction() as connection:
            return self.find_live(connection)

    def numbers(self) -> list[int]:
        """Return the numbers of all generations, in order."""
        start = f"{self._base}_{self.name}_"
        with self._schemas.transaction() as connection:
            rest = [found.removeprefix(start) for found in connection.scalars(_ALL, {"start": start})]
        return sorted(int(digits) for digits in rest if digits.isdigit())

    def create(self, number: int, tables: MetaData, version: int, shape: str) -> None:
        """Create the tables of a generation, empty, in one transaction; existing ones are kept."""
        schema = self.schema(number)
        with self._schemas.transaction() as connection:
            connection.execute(_TURNS, {"base": self._base})
            if _exists(connection, schema):
                return
            connection.execute(text(f"CREATE SCHEMA {schema}"))
            self.enter(connection, number)
            make(connection, tables, version, shape)

    @contextmanager
    def writing(self, number: int) -> Generator[Connection]:
        """Begin a transaction in a generation, which is committed at the end of the context, and only there.

        Raises:
            Replaced: another generation has become live.
        """
        with self._schemas.engine.connect() as connection:
            try:
                with only_commit(connection):
                    self.enter(connection, number)
                    connection.execute(text("SET LOCAL synchronous_commit TO off"))  # lost ones are projected again
                    live = self.find_live(connection)
                    if live is not None and live > number:
                        raise Replaced
                    yield connection
            finally:
                if self._schemas.is_closed:  # nobody uses the pool to which it would return
                    connection.invalidate()

    def end_writing(self, number: int) -> None:
        """Do nothing: connections belong to the shared pool."""

    def check(self, number: int) -> TableProgress:
        """Return the progress of a generation; damage is left to the server, so only its existence is checked.

        Raises:
            DamagedError: the generation is missing or unfinished.
            ReadModelError: it cannot be read.
        """
        try:
            with self._snapshot() as connection, connection.begin():
                self.enter(connection, number)
                return read_progress(connection)
        except NoResultFound as error:
            raise DamagedError("its creation was not finished") from error
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) == _NO_TABLE:
                raise DamagedError(str(trouble(error))) from error
            raise trouble(error) from error

    progress_of = check

    def suspect(self, number: int) -> None:
        """Do nothing: the server ensures the integrity of its data."""

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Read the live generation in one snapshot, whatever is written or swapped meanwhile.

        The snapshot is taken when the live generation is looked up. If that was dropped before its first lock, its
        table is missing, and there is a newer generation.
        """
        with self._snapshot() as connection:
            left = _TRIES
            while not self._has_entered_live(connection, may_fail=left > 0):
                left -= 1
            with closing(connection.get_transaction() or connection.begin()):
                yield connection

    def settle(self, number: int) -> None:
        """Do nothing: the transaction that moves the pointer makes all earlier ones durable."""

    def point_to(self, number: int) -> None:
        """Make the generation live, unless a later one is."""
        move = text(
            f"INSERT INTO {self._base}.projections VALUES (:name, :number) ON CONFLICT (name)"  # noqa: S608 - as above
            " DO UPDATE SET live = greatest(projections.live, excluded.live)"
        )
        with self._schemas.transaction() as connection:
            connection.execute(move, {"name": self.name, "number": number})

    def drop(self, number: int, *, by_force: bool = False) -> bool:
        """Delete the generation unless it still has readers; return whether it is gone."""
        schema = self.schema(number)
        try:
            with self._schemas.engine.begin() as connection:
                connection.execute(text(f"SET LOCAL lock_timeout TO {PATIENCE}"))
                if _exists(connection, schema):
                    # Each reader locks this table first, so whoever has this lock cannot deadlock with a reader.
                    connection.execute(text(f"LOCK TABLE {schema}.{PROGRESS.name} IN ACCESS EXCLUSIVE MODE"))
                    connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
        except DBAPIError:
            return False
        return True

    def find_live(self, connection: Connection) -> int | None:
        """Return the number of the live generation, as the connection's transaction sees it."""
        found: int | None = connection.execute(self._find, {"name": self.name}).scalar()
        return found

    def enter(self, connection: Connection, number: int) -> None:
        """Make the tables of a generation visible to the connection's transaction."""
        connection.execute(text(f"SET LOCAL search_path TO {self.schema(number)}, public"))

    def _has_entered_live(self, connection: Connection, *, may_fail: bool) -> bool:
        transaction = connection.begin()
        try:
            self.enter(connection, self.find_live(connection) or 1)
            connection.execute(text(f"LOCK TABLE {PROGRESS.name} IN ACCESS SHARE MODE"))
        except DBAPIError as error:
            transaction.rollback()
            if may_fail and getattr(error.orig, "sqlstate", None) in GONE:
                return False
            raise
        return True

    def schema(self, number: int) -> str:
        """Return the name of the schema of a generation."""
        return f"{self._base}_{self.name}_{number}"

    @contextmanager
    def _snapshot(self) -> Generator[Connection]:
        with self._schemas.engine.connect() as connection:
            yield connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def _exists(connection: Connection, schema: str) -> bool:
    return connection.execute(_EXISTS, {"schema": schema}).first() is not None


def _connecting(url: str, patience: int) -> Callable[[], psycopg.Connection[TupleRow]]:
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # without the driver's message, which may show a part of the password
        message = "this is not a PostgreSQL URL: write postgresql://user:password@host:port/database?parameter=value"
        raise ConfigurationError(message) from None
    return partial(
        psycopg.connect,
        url,
        connect_timeout=patience,
        fallback_application_name="reenact",
        client_encoding="utf8",
    )


def _engine(connect: Callable[[], psycopg.Connection[TupleRow]]) -> Engine:
    engine = create_engine(
        "postgresql+psycopg://",
        creator=connect,
        max_overflow=-1,
        pool_pre_ping=True,
        hide_parameters=True,
    )
    guard(engine)
    return engine
