"""Whether the read model says what the log says: its rows are made anew from the log, and compared one by one."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from sqlalchemy import Table

from reenact.projections.connections import Store, make_tables
from reenact.projections.errors import ReadModelError
from reenact.projections.log import Log
from reenact.projections.projection import BATCH, NAME, Projection, misfit
from reenact.projections.store import current
from reenact.projections.tables import METADATA, PROGRESS, VERSION

Difference: TypeAlias = tuple[str, int, str]
"""A table, the first part of the key of a row, and what is wrong with it."""

Moved: TypeAlias = Callable[[int, int], None]
"""Told how many of how many positions are done."""

_ATTEMPTS: Final = 5
"""How often the live file is looked for: it may be replaced between being found and being opened."""


class LiveTables:
    """The read model's tables as they stand at one moment, up to a `position` of the log.

    `unlike` says why there is nothing to be compared, None if there is.
    """

    def __init__(self, connection: sqlite3.Connection, anew: Path) -> None:
        """Look at what the connection, which is in a transaction, has attached as `live`; make tables at `anew`."""
        self._connection = connection
        self._anew = anew
        self.position = 0
        self.unlike: str | None = None
        self._mark = ""
        self._wrong: str | None = None
        rows = connection.execute(
            "SELECT position, mark, version FROM live.progress WHERE name = ?", (NAME,)
        ).fetchall()
        if not rows:
            self.unlike = "nobody has finished making them"
            return
        position, mark, version = rows[0]
        if (type(position), type(mark), type(version)) != (int, bytearray, int) or position < 0:
            self._wrong = "it does not say how far it is"
            return
        self.position = position
        self._mark = bytes(mark).decode(errors="backslashreplace")
        if version != VERSION:
            self.unlike = f"they are of version {version}, and this program makes version {VERSION}"

    def differences(self, log: Log, moved: Moved | None = None) -> Iterator[Difference]:
        """Yield in what they differ from what the log gives: the first row of each table, and how many there are.

        The log must have been looked at later than the tables.

        Raises:
            StorageError, ReadModelError: the rows cannot be made anew from the log.
        """
        wrong = self._wrong or misfit(log, self.position, self._mark)
        if wrong is not None:
            yield str(PROGRESS.name), self.position, f"the read model is not that of the log: {wrong}"
            return
        self._make_anew(log, moved)
        yield from self._misshapen()
        for table in METADATA.sorted_tables:
            if table is not PROGRESS:
                try:
                    yield from self._compare(table)
                except sqlite3.DatabaseError as error:
                    yield str(table.name), 0, f"the table cannot be read: {error}"

    def _misshapen(self) -> Iterator[Difference]:
        """Yield what is there and should not be, is missing, or is made in another way."""
        live, anew = self._parts("live"), self._parts("anew")
        for kind, name in sorted(live.keys() - anew.keys()):
            yield name, 0, f"the read model has no such {kind}"
        for kind, name in sorted(anew.keys() - live.keys()):
            yield name, 0, f"the {kind} is missing"
        for kind, name in sorted(live.keys() & anew.keys()):
            if live[kind, name] != anew[kind, name]:
                yield name, 0, f"the {kind} is not as it is made"

    def _parts(self, schema: str) -> dict[tuple[str, str], str]:
        query = f"SELECT type, name, sql FROM {schema}.sqlite_master WHERE sql IS NOT NULL"  # noqa: S608 - ours
        rows = [tuple(map(_plain, row)) for row in self._connection.execute(query)]
        return {(kind, name): "".join(sql.split()) for kind, name, sql in rows if not name.startswith("sqlite_")}

    def _make_anew(self, log: Log, moved: Moved | None) -> None:
        projection = Projection(log, _Passing(self._anew))
        try:
            while projection.position < self.position:
                projection.advance(min(BATCH, self.position - projection.position))
                if moved is not None:
                    moved(projection.position, self.position)
        finally:
            projection.close(intact=True)

    def _compare(self, table: Table) -> Iterator[Difference]:
        keys = [column.name for column in table.primary_key]
        first: tuple[Any, ...] | None = None
        count = 0
        for query in _queries(table, keys):
            for row in self._connection.execute(query):
                count += 1
                first = first or row
        if first is None:
            return
        shown = ", ".join(f"{name} {_text(cell)}" for name, cell in zip(keys, first, strict=True))
        more = "" if count == 1 else f"; {count} rows of the table are wrong"
        at = first[0] if isinstance(first[0], int) else 0
        yield str(table.name), at, f"the row with {shown} {self._problem(table, keys, first)}{more}"

    def _problem(self, table: Table, keys: Sequence[str], key: tuple[Any, ...]) -> str:
        found: list[dict[str, Any] | None] = []
        for schema in ("live", "anew"):
            where = " AND ".join(f'"{name}" = ?' for name in keys)
            query = f'SELECT * FROM {schema}."{table.name}" WHERE {where}'  # noqa: S608 - ours
            cursor = self._connection.execute(query, key)
            names = [name for name, *_ in cursor.description]
            row = cursor.fetchone()
            found.append(None if row is None else dict(zip(names, row, strict=True)))
        live, anew = found
        if live is None:
            return "is missing"
        if anew is None:
            return "follows from nothing in the log"
        wrong = [name for name, cell in anew.items() if (type(live[name]), live[name]) != (type(cell), cell)]
        return f"says something else than the log in {', '.join(wrong)}"


@contextmanager
def live_tables(path: Path) -> Generator[LiveTables | None]:
    """Give the tables that are live, of those whose files begin with this path; None if there are none.

    Nothing of what is written meanwhile is seen, and nobody who writes has to wait.

    Raises:
        ReadModelError: the file cannot be opened.
    """
    with ExitStack() as undo:
        directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="reenact-")))
        connection = undo.enter_context(closing(sqlite3.connect(":memory:", uri=True, isolation_level=None)))
        connection.text_factory = bytearray  # told from bytes, and damaged text need not be text any more
        if not _attach(connection, path, directory / "anew.db"):
            yield None
            return
        try:
            tables = LiveTables(connection, directory / "anew.db")
        except sqlite3.DatabaseError as error:
            raise ReadModelError(f"the projections beside the log cannot be read: {error}") from error
        yield tables


def _attach(connection: sqlite3.Connection, path: Path, anew: Path) -> bool:
    """Have the connection see the live file as it is now, and another one; return whether there is one."""
    connection.execute("ATTACH ? AS anew", (str(anew),))
    for attempt in range(_ATTEMPTS):
        file = current(path)
        if not file.exists():
            if file == path:
                return False
            continue
        try:
            connection.execute("ATTACH ? AS live", (f"{file.absolute().as_uri()}?mode=ro",))
            connection.execute("BEGIN")
            connection.execute("SELECT 1 FROM live.sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            if attempt == _ATTEMPTS - 1:
                raise ReadModelError(f"the projections in {file} cannot be opened: {error}") from error
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            with suppress(sqlite3.OperationalError):
                connection.execute("DETACH live")
        else:
            return True
    raise ReadModelError(f"the projections in {path} are replaced again and again; try later")


class _Passing(Store):
    """Tables that nobody needs once this is over, whatever happens."""

    def connect(self) -> sqlite3.Connection:
        """Make the tables."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA journal_mode=MEMORY")
        make_tables(connection)
        return connection


def _queries(table: Table, keys: Sequence[str]) -> tuple[str, str]:
    """Return what finds the keys of rows that are missing or say something else, and of those that are too many."""
    same = " AND ".join(f'live."{one}" IS anew."{one}"' for one in keys)
    others = [column.name for column in table.columns if column.name not in keys]
    differs = [f'live."{one}" IS NOT anew."{one}"' for one in others]
    return (
        _joined(table, keys, "anew", "live", f"{same} WHERE " + " OR ".join([f'live."{keys[0]}" IS NULL', *differs])),
        _joined(table, keys, "live", "anew", f'{same} WHERE anew."{keys[0]}" IS NULL'),
    )


def _joined(table: Table, keys: Sequence[str], one: str, other: str, where: str) -> str:
    wanted = ", ".join(f'{one}."{key}"' for key in keys)
    sides = f'{one}."{table.name}" AS {one} LEFT JOIN {other}."{table.name}" AS {other}'
    return f"SELECT {wanted} FROM {sides} ON {where} ORDER BY {wanted}"  # noqa: S608 - ours


def _plain(cell: object) -> str:
    return _text(cell) if isinstance(cell, bytearray) else str(cell)


def _text(cell: object) -> str:
    return bytes(cell).decode(errors="backslashreplace") if isinstance(cell, bytearray) else repr(cell)
