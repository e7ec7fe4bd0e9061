"""Logs of the tests, each known by a path: files, or with `--log=postgresql` schemas on a server."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from subprocess import PIPE
from typing import Any, TypeAlias

import psycopg
from psycopg.sql import SQL, Identifier

from reenact._runtime import codec
from reenact.actors.journal.api import Journal
from reenact.actors.journal.key_ring import KeyRing
from reenact.actors.journal.postgres.journal import PostgresJournal
from reenact.actors.journal.postgres.schema import OWNERSHIP_TABLES
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.stored import StoredJournal
from tests.journal.server import DATABASE

Values: TypeAlias = str | int | bytes | None
_given: dict[str, Path] = {}
_WRITER = """
import sys
from reenact import Runtime
with Runtime.open(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""
_OF_NODES = frozenset({"nodes", "messages"})
"""The tables of a log that are about processes: a copy is that of a machine on which none is left."""


def log_at(path: Path) -> str:
    """Return what to open for the log that is known by this path; it is the same in every process."""
    if DATABASE not in os.environ:
        return str(path)
    path = path.absolute()
    schema = f"log_{blake2b(os.fsencode(path), digest_size=8).hexdigest()}"
    _given[schema] = path
    return _url(schema)


@contextmanager
def written_elsewhere(log: str) -> Generator[None]:
    """Have another process write the log meanwhile."""
    with subprocess.Popen([sys.executable, "-c", _WRITER, log], stdin=PIPE, stdout=PIPE) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        yield
        writer.stdin.close()


def with_logs(words: Sequence[str], directory: Path) -> list[str]:
    """Return the words of a command in this directory, with what is to be opened for each that names a log, `x.db`."""
    if DATABASE not in os.environ:
        return [*words]
    return [log_at(directory / word) if word.endswith(".db") else word for word in words]


def copy_log(log: str, name: str) -> str:
    """Copy a log that is open, as a crash at this moment would leave it, into a new directory beside it."""
    if DATABASE not in os.environ:
        directory = Path(log).with_name(name)
        directory.mkdir()
        for suffix in ("", "-wal", "-shm", ".projections", ".projections-wal", ".projections-shm"):
            file = Path(f"{log}{suffix}")
            if file.exists():
                shutil.copy(file, directory / file.name)
        return str(directory / Path(log).name)
    path = _given[_schema_of(log)]
    path.with_name(name).mkdir()
    copy = log_at(path.with_name(name) / path.name)
    _copy(log, copy)
    return copy


def copy_directory(source: Path, target: Path) -> Path:
    """Copy a directory and the logs that are known by paths in it, and return where it is now."""
    shutil.copytree(source, target)
    for schema, path in [*_given.items()]:
        if path.parent == source:
            _copy(_url(schema), log_at(target / path.name))
    return target


def read_log(log: str, keys: KeyRing | None = None) -> StoredJournal:
    """Open a log of Reenact's own to read it."""
    if DATABASE in os.environ:
        return PostgresJournal.open(log, codec(), read_only=True, keys=keys)
    return SqliteJournal.open(log, codec(), read_only=True, keys=keys)


def log_of(journal: Journal) -> str:
    """Return what to open for the log that is open."""
    if isinstance(journal, SqliteJournal):
        return journal.path
    assert isinstance(journal, PostgresJournal)
    return _url(journal.name.rpartition("=")[2])


def is_begun(log: str) -> bool:
    """Return whether there is anything at the log's place."""
    if DATABASE not in os.environ:
        return Path(log).exists()
    return bool(_schemas_of(log))


def execute(log: str, statement: str, *parameters: Values) -> list[tuple[Any, ...]]:
    """Execute a statement on the tables behind the log's back; return the rows that it has."""
    if DATABASE not in os.environ:
        with closing(sqlite3.connect(log)) as file, file:
            return file.execute(statement, parameters).fetchall()
    with _connection().transaction():
        _connection().execute(SQL("SET LOCAL search_path TO {}").format(Identifier(_schema_of(log))))
        cursor = _connection().execute(statement.replace("?", "%s").encode(), parameters)
        return cursor.fetchall() if cursor.description else []


def stands_in(secret: bytes, log: str) -> bool:
    """Return whether the bytes stand in a file of the log, or in a cell of its tables and of those beside it."""
    if DATABASE not in os.environ:
        beside = Path(log).parent.glob(f"{Path(log).name}*")
        files = [file for path in beside for file in (path, *path.rglob("*")) if file.is_file()]
        return any(secret in file.read_bytes() for file in files)
    for schema in _schemas_of(log):
        tables = _connection().execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
        for (table,) in tables:
            rows = _connection().execute(SQL("SELECT * FROM {}").format(Identifier(schema, table))).fetchall()
            if any(secret in (cell if isinstance(cell, bytes) else str(cell).encode()) for row in rows for cell in row):
                return True
    return False


def drop_tables(log: str) -> None:
    """Delete what follows from the log and stands beside it, which nobody has open."""
    if DATABASE not in os.environ:
        for file in Path(log).parent.glob(f"{Path(log).name}.projections*"):
            file.unlink()
        return
    for schema in _schemas_of(log):
        if schema != _schema_of(log):
            _drop(schema)


def drop_logs() -> None:
    """Drop the logs on the server that are in directories that are gone."""
    for schema, path in [*_given.items()]:
        if not path.parent.exists():
            for each in _schemas_of(_url(schema)):
                _drop(each)
            del _given[schema]


def _copy(log: str, copy: str) -> None:
    """Copy the tables of a log, and those that follow it, as they are at one moment."""
    connection, old, new = _connection(), _schema_of(log), _schema_of(copy)
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for schema in _schemas_of(log):
            target = schema.replace(old, new)
            connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(target)))
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
            for (table,) in tables:
                names = {"old": Identifier(schema, table), "new": Identifier(target, table)}
                connection.execute(SQL("CREATE TABLE {new} (LIKE {old} INCLUDING ALL)").format(**names))
                if schema != old or table not in _OF_NODES:
                    connection.execute(SQL("INSERT INTO {new} SELECT * FROM {old}").format(**names))
            # A copy of a table gives its indexes names of their own.
            for index, _ in _indexes_in(target):
                connection.execute(SQL("DROP INDEX {}").format(Identifier(target, index)))
            for _, made in _indexes_in(schema):
                connection.execute(made.replace(schema, target).encode())
        for statement in OWNERSHIP_TABLES:
            if "CREATE VIEW" in statement or "CREATE FUNCTION" in statement:
                connection.execute(statement.format(schema=new).encode())


def _indexes_in(schema: str) -> list[tuple[str, str]]:
    """Return the indexes that are none of a key, each with the statement that makes it."""
    return (
        _connection()
        .execute(
            "SELECT relname, pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
            " WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)"
            " AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)",
            [schema],
        )
        .fetchall()
    )


def _drop(schema: str) -> None:
    _connection().execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(schema)))


@cache
def _connection() -> psycopg.Connection:
    return psycopg.connect(os.environ[DATABASE], autocommit=True)


def _schema_of(log: str) -> str:
    return log.rpartition("=")[2]


def _schemas_of(log: str) -> list[str]:
    """Return the schema of the log, if there is one, and those of the tables that follow it."""
    of_log = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s) ORDER BY nspname"
    return [name for (name,) in _connection().execute(of_log, [_schema_of(log)]).fetchall()]


def _url(schema: str) -> str:
    return f"{os.environ[DATABASE]}&schema={schema}"
