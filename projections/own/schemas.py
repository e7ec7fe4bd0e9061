"""Tables in a PostgreSQL database: one schema for each generation of a projection, and one that says which are live.

Several processes may keep the same projections: each transaction moves the position on from where it was found, so that
whoever comes second has changed nothing, and looks again.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, Engine, MetaData, create_engine, text
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError

from reenact.domain.errors import ConfigurationError
from reenact.projections.own.guard import guard, only_commit
from reenact.projections.own.kept import OWN, PROGRESS, begin
from reenact.projections.own.place import Replaced, trouble

DEFAULT_SCHEMA: Final = "reenact"
SUFFIX: Final = "_own"
"""What the schemas of projections have in their names behind that of the log."""

PATIENCE: Final = 1000
"""Milliseconds that readers of an old generation are waited for before it is deleted another time."""

_LONGEST: Final = 20
_SCHEMA: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]*")
_CONNECT_TIMEOUT: Final = 10
_TRIES: Final = 10
_GONE: Final = ("42P01", "3F000", "XX000")
"""No such table, no such schema, or one that went while it was looked at."""

_TURNS: Final = text("SELECT pg_advisory_xact_lock(hashtextextended(:base, 0))")
_EXISTS: Final = text("SELECT 1 FROM pg_namespace WHERE nspname = :schema")
_ALL: Final = text("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, :start)")


class Schemas:
    """Keeps the tables of projections in schemas, which other processes may keep, too. Thread-safe."""

    def __init__(self, url: str, schema: str | None) -> None:
        """Connect to the database.

        Raises:
            ConfigurationError: the URL cannot be read, or names no schema that could be used.
            ReadModelError: the server cannot be reached, or lets nobody in.
        """
        named = DEFAULT_SCHEMA if schema is None else schema
        if not _SCHEMA.fullmatch(named) or len(named) > _LONGEST:
            raise ConfigurationError(
                f"the schema of projections has small letters, digits and '_' in its name, no 'pg_' first, and at most "
                f"{_LONGEST} of them"
            )
        if SUFFIX in named:
            # Else the projection "b" beside the log "a_own" and the projection "own_b" beside "a" would be one.
            raise ConfigurationError(
                f"the schema of a log that has projections has no {SUFFIX!r} in its name; {named!r} has"
            )
        self._base = f"{named}{SUFFIX}"
        self._engine = _engine(url)
        self._closed = False
        self._live = text(f"SELECT live FROM {self._base}.projections WHERE name = :name")  # noqa: S608 - a checked name
        try:
            with self._engine.begin() as connection:
                connection.execute(_TURNS, {"base": self._base})
                if not self._exists(connection, self._base):
                    connection.execute(text(f"CREATE SCHEMA {self._base}"))
                connection.execute(
                    text(
                        f"CREATE TABLE IF NOT EXISTS {self._base}.projections "
                        '(name text COLLATE "C" PRIMARY KEY, live integer NOT NULL)'
                    )
                )
        except DBAPIError as error:
            self._engine.dispose()
            raise trouble(error) from error

    @property
    def dialect(self) -> Dialect:
        """How the database wants to be spoken to."""
        return self._engine.dialect

    @property
    def is_shared(self) -> bool:
        """Whether other processes may write here, too: they may."""
        return True

    def live(self, name: str) -> int | None:
        """Return which generation is read, None if there never was one."""
        with self._transaction() as connection:
            return self._find_live(connection, name)

    def generations(self, name: str) -> list[int]:
        """Return the generations that there are, in their order."""
        start = f"{self._base}_{name}_"
        with self._transaction() as connection:
            rest = [found.removeprefix(start) for found in connection.scalars(_ALL, {"start": start})]
        return sorted(int(digits) for digits in rest if digits.isdigit())

    def create(self, name: str, number: int, tables: MetaData, version: int, shape: str) -> None:
        """Make the tables of a generation, empty, entirely or not at all; they stay if somebody has made them."""
        schema = self._schema(name, number)
        with self._transaction() as connection:
            connection.execute(_TURNS, {"base": self._base})
            if self._exists(connection, schema):
                return
            connection.execute(text(f"CREATE SCHEMA {schema}"))
            self._enter(connection, schema)
            OWN.create_all(connection, checkfirst=False)
            tables.create_all(connection, checkfirst=False)
            begin(connection, version, shape)

    def tables(self, name: str, number: int) -> SchemaTables:
        """Return the tables of a generation for writing."""
        return SchemaTables(self, name, number)

    @contextmanager
    def writing(self, name: str, number: int) -> Generator[Connection]:
        """Return a transaction in a generation."""
        with self._engine.connect() as connection:
            try:
                with only_commit(connection):
                    self._enter(connection, self._schema(name, number))
                    connection.execute(text("SET LOCAL synchronous_commit TO off"))  # what is lost is projected again
                    live = self._find_live(connection, name)
                    if live is not None and live > number:
                        raise Replaced
                    yield connection
            finally:
                if self._closed:  # the pool that it would go back to is nobody's
                    connection.invalidate()

    def damage(self, name: str, number: int) -> str | None:
        """Return None: the server answers for what it keeps, unless somebody has deleted it."""
        with self._transaction() as connection:
            return None if self._exists(connection, self._schema(name, number)) else "it is missing"

    def suspect(self, name: str, number: int) -> None:
        """Do nothing: likewise."""

    @contextmanager
    def looking(self, name: str, number: int) -> Generator[Connection]:
        """Read a generation, whether it is live or not."""
        with self._snapshot() as connection, connection.begin():
            self._enter(connection, self._schema(name, number))
            yield connection

    @contextmanager
    def reading(self, name: str) -> Generator[Connection]:
        """Read the live generation.

        The snapshot is that of the look at what is live. A generation that went between that and its first lock is
        known by its missing table; then there is a newer one.
        """
        with self._snapshot() as connection:
            left = _TRIES
            while not self._has_entered_live(connection, name, may_fail=left > 0):
                left -= 1
            with closing(connection.get_transaction() or connection.begin()):
                yield connection

    def settle(self, name: str, number: int) -> None:
        """Do nothing: the pointer's own transaction takes all before it to the disk."""

    def point_to(self, name: str, number: int) -> None:
        """Make the generation the live one, unless a later one is."""
        move = text(
            f"INSERT INTO {self._base}.projections VALUES (:name, :number) ON CONFLICT (name)"  # noqa: S608 - as above
            " DO UPDATE SET live = greatest(projections.live, excluded.live)"
        )
        with self._transaction() as connection:
            connection.execute(move, {"name": name, "number": number})

    def drop(self, name: str, number: int, *, by_force: bool = False) -> bool:
        """Delete the generation when nobody reads it any more; return whether it is gone by now."""
        schema = self._schema(name, number)
        try:
            with self._engine.begin() as connection:
                connection.execute(text(f"SET LOCAL lock_timeout TO {PATIENCE}"))
                if self._exists(connection, schema):
                    # The lock that each reader takes first: whoever has it has no other that is wanted here.
                    connection.execute(text(f"LOCK TABLE {schema}.{PROGRESS.name} IN ACCESS EXCLUSIVE MODE"))
                    connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
        except DBAPIError:
            return False
        return True

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        self._closed = True
        self._engine.dispose()

    def _has_entered_live(self, connection: Connection, name: str, *, may_fail: bool) -> bool:
        transaction = connection.begin()
        try:
            self._enter(connection, self._schema(name, self._find_live(connection, name) or 1))
            connection.execute(text(f"LOCK TABLE {PROGRESS.name} IN ACCESS SHARE MODE"))
        except DBAPIError as error:
            transaction.rollback()
            if may_fail and getattr(error.orig, "sqlstate", None) in _GONE:
                return False
            raise
        return True

    def _schema(self, name: str, number: int) -> str:
        return f"{self._base}_{name}_{number}"

    def _find_live(self, connection: Connection, name: str) -> int | None:
        found: int | None = connection.execute(self._live, {"name": name}).scalar()
        return found

    @contextmanager
    def _transaction(self) -> Generator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise trouble(error) from error

    @contextmanager
    def _snapshot(self) -> Generator[Connection]:
        with self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @staticmethod
    def _exists(connection: Connection, schema: str) -> bool:
        return connection.execute(_EXISTS, {"schema": schema}).first() is not None

    @staticmethod
    def _enter(connection: Connection, schema: str) -> None:
        connection.execute(text(f"SET LOCAL search_path TO {schema}, public"))


class SchemaTables:
    """One generation in its schema, for the one who writes it."""

    def __init__(self, schemas: Schemas, name: str, number: int) -> None:
        self.number = number
        self._schemas = schemas
        self._name = name

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """Return a transaction that is committed at its end, and by nobody before."""
        with self._schemas.writing(self._name, self.number) as connection:
            yield connection

    def close(self) -> None:
        """Let go of the connection: it is that of the place."""


def _engine(url: str) -> Engine:
    def connect() -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            url, connect_timeout=_CONNECT_TIMEOUT, fallback_application_name="reenact", client_encoding="utf8"
        )

    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Raised without the driver's words, which may show a part of the password.
        message = "this is no PostgreSQL URL: write postgresql://user:password@host:port/database?parameter=value"
        raise ConfigurationError(message) from None
    engine = create_engine(
        "postgresql+psycopg://",
        creator=connect,
        max_overflow=-1,
        pool_pre_ping=True,
        hide_parameters=True,
    )
    guard(engine)
    return engine
