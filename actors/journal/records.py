"""The records of a log as raw bytes, read at one moment, regardless of the kind of storage and of writers."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TypeAlias

from reenact.actors.journal.faults import translated
from reenact.actors.journal.opening import file_of, is_postgres, require_driver
from reenact.actors.journal.schema import CELLS, check_file, check_format, has_keys
from reenact.actors.journal.seeking import Cells
from reenact.actors.journal.sqlite_reader import connect_to_read
from reenact.actors.journal.vault import LOG
from reenact.domain.chain import DataKey, Row, Timer
from reenact.domain.errors import LogUnusableError

_ROWS = "SELECT {cells} FROM steps {which} ORDER BY number"
_EVENTS = "SELECT CAST(coalesce(sum(count), 0) AS bigint) FROM steps {which}"
_COUNT = "SELECT count(*) FROM steps {which}"
_TIMERS = "SELECT stream, due FROM timers {which} ORDER BY stream"
_KEYS = "SELECT id, stream, wrapped FROM keys {which} ORDER BY id"
_HEAD = "SELECT coalesce(max(position + count - 1), 0) FROM steps WHERE number = (SELECT max(number) FROM steps)"
_OF_STREAMS = "WHERE stream IN (SELECT value FROM json_each(?))"

Select: TypeAlias = Callable[[str, Sequence[str] | None], Iterator[Cells]]
"""Returns the rows of a query; `{which}` is replaced by the filter on streams, `{cells}` by the columns of a `Row`."""
Ask: TypeAlias = Callable[[str, Sequence[str | int | bytes]], list[Cells]]
"""Returns the few rows of a query with parameters, in SQLite's dialect."""


class Records:
    """A log at one moment. `streams` selects streams; None means all."""

    def __init__(self, name: str, select: Select, ask: Ask, *, has_keys: bool) -> None:
        """Read with `select`; `name` is the log's name in error messages, `has_keys` whether it has data keys."""
        self.name = name
        self.has_keys = has_keys
        self.ask = ask
        self._select = select

    def head(self) -> int:
        """Return the position of the last event, 0 if there is none."""
        return self._number(_HEAD, None)

    def count_events(self, streams: Sequence[str] | None = None) -> int:
        """Return the number of events."""
        return self._number(_EVENTS, streams)

    def count_rows(self, streams: Sequence[str] | None = None) -> int:
        """Return the number of rows."""
        return self._number(_COUNT, streams)

    def rows(self, streams: Sequence[str] | None = None) -> Generator[Row]:
        """Yield the rows in the order in which they were written, reading a few at a time."""
        for row in self._select(_ROWS, streams):
            yield Row(*row)

    def timers(self, streams: Sequence[str] | None = None) -> Iterator[Timer]:
        """Yield the streams' due times, in the order of the streams' names."""
        for row in self._select(_TIMERS, streams):
            yield Timer(*row)

    def keys(self, streams: Sequence[str] | None = None) -> Iterator[DataKey]:
        """Yield the data keys, including the log's own key, sorted by id; none if the log is not encrypted."""
        if self.has_keys:
            named = None if streams is None else [*streams, LOG]
            for key_id, stream, wrapped in self._select(_KEYS, named):
                yield DataKey(key_id, stream, wrapped)

    def _number(self, query: str, streams: Sequence[str] | None) -> int:
        ((number,),) = self._select(query, streams)
        try:
            return int(number)
        except OverflowError as error:  # from a damaged row
            raise LogUnusableError(f"{self.name}: {error}; no log has such a number: verify it") from error


@contextmanager
def open_records(log: str | os.PathLike[str]) -> Generator[Records]:
    """Lend the records of the log at a path or URL as they are now; writers are not blocked.

    Raises:
        ConfigurationError: it does not name a log, or a dependency is not installed.
        LogTooNewError: a newer version has written the log.
        StorageError: the log cannot be read.
    """
    if is_postgres(log):
        require_driver()
        from reenact.actors.journal.postgres.moment import open_postgres_records  # noqa: PLC0415 - an extra

        with open_postgres_records(os.fspath(log)) as (name, select, ask, is_encrypted):
            yield Records(name, select, ask, has_keys=is_encrypted)
        return
    path = os.path.realpath(file_of(log))
    with translated(path):
        check_file(path)
        connection = connect_to_read(path)
    with closing(connection):
        with translated(path):
            if not check_format(connection, path):
                raise LogUnusableError(f"{path} holds no log yet; name another file")
            connection.execute("BEGIN")
            is_encrypted = has_keys(connection)
        yield Records(path, partial(_select, connection, path), partial(_ask, connection, path), has_keys=is_encrypted)


def _select(connection: sqlite3.Connection, path: str, query: str, streams: Sequence[str] | None) -> Iterator[Cells]:
    which = "" if streams is None else _OF_STREAMS
    parameters = () if streams is None else (json.dumps(list(streams)),)
    with translated(path):
        yield from connection.execute(query.format(which=which, cells=CELLS), parameters)


def _ask(connection: sqlite3.Connection, path: str, query: str, parameters: Sequence[str | int | bytes]) -> list[Cells]:
    with translated(path):
        return connection.execute(query, parameters).fetchall()
