"""The check of the read model: its rows are rebuilt from the log, and compared one by one."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

from sqlalchemy import LargeBinary, Table

from reenact.domain.session.state import SessionForgotten
from reenact.projections.cipher import Cipher, decrypted
from reenact.projections.errors import ReadModelError
from reenact.projections.generations import NAME, Generations, is_postgres, mismatch
from reenact.projections.log import Log, Row
from reenact.projections.read_model.opening import tables_beside
from reenact.projections.read_model.projection import ReadModelTables
from reenact.projections.read_model.rows import Value
from reenact.projections.read_model.sqlite_store import SqliteStore, make_tables
from reenact.projections.read_model.tables import METADATA, PROGRESS, VERSION

Difference: TypeAlias = tuple[str, int, str]
"""A table, the first part of a row's key, and the problem."""

Moved: TypeAlias = Callable[[int, int], None]
"""Called with the number of positions done, and with their total."""

_AT_ONCE = 1000
_ATTEMPTS = 5
"""How often the live file is looked up: it may be replaced between lookup and opening."""


class LiveTables:
    """The read model's tables in one consistent state, up to a `position` of the log.

    `unlike` says why they cannot be compared, None if they can.
    """

    def __init__(self, connection: sqlite3.Connection, anew: Path) -> None:
        """Take a connection to the live tables, in a transaction, with `anew` attached for the rebuilt ones."""
        self._connection = connection
        self._rebuilt_path = anew
        self.position = 0
        self.unlike: str | None = None
        self._mark: str | None = None
        match connection.execute(
            "SELECT position, mark, version FROM main.progress WHERE name = ?", (NAME,)
        ).fetchone():
            case None:
                self.unlike = "nobody has finished making them"
            case int(position), bytearray() as mark, int(version) if position >= 0:
                self.position = position
                self._mark = bytes(mark).decode(errors="backslashreplace")
                if version != VERSION:
                    self.unlike = f"they are of version {version}, and this program makes version {VERSION}"
            case _:
                pass  # `differences` reports it

    def check_forgotten(self, log: Log) -> None:
        """Check whether sessions were forgotten since then: their rows cannot be rebuilt.

        Raises:
            StorageError: the log cannot be read.
        """
        after = self.position
        while self.unlike is None and (rows := log.read_all(after=after, limit=_AT_ONCE)):
            if any(isinstance(row.event, SessionForgotten) for row in rows):
                self.unlike = "sessions were forgotten since; their rows go when the log is opened"
            after = rows[-1].position

    def differences(self, log: Log, moved: Moved | None = None, cipher: Cipher | None = None) -> Iterator[Difference]:
        """Yield the differences from tables rebuilt from the log: for each table the first wrong row, and their number.

        The `cipher` decrypts the content of the tables. The log must be read later than the tables.

        Raises:
            StorageError, ReadModelError: the rows cannot be rebuilt from the log.
        """
        wrong = "it does not say how far it is" if self._mark is None else mismatch(log, self.position, self._mark)
        if wrong is not None:
            yield str(PROGRESS.name), self.position, f"the read model is not that of the log: {wrong}"
            return
        if cipher is not None:
            self._connection.create_function("opened", 1, partial(_decrypted, cipher))
        self._rebuild(log, moved)
        yield from self._schema_differences()
        for table in METADATA.sorted_tables:
            try:
                yield from self._compare(table, is_encrypted=cipher is not None)
            except sqlite3.DatabaseError as error:
                yield str(table.name), 0, f"the table cannot be read: {error}"

    def _schema_differences(self) -> Iterator[Difference]:
        """Yield the tables and indices that are superfluous, missing, or defined differently."""
        live, anew = self._parts("main"), self._parts("anew")
        for kind, name in sorted(live.keys() | anew.keys()):
            if (kind, name) not in anew:
                yield name, 0, f"the read model has no such {kind}"
            elif (kind, name) not in live:
                yield name, 0, f"the {kind} is missing"
            elif live[kind, name] != anew[kind, name]:
                yield name, 0, f"the {kind} is not as it is made"

    def _parts(self, schema: str) -> dict[tuple[str, str], str]:
        query = f"SELECT type, name, sql FROM {schema}.sqlite_master WHERE sql IS NOT NULL"  # noqa: S608 - ours
        rows = [tuple(map(_plain, row)) for row in self._connection.execute(query)]
        return {(kind, name): "".join(sql.split()) for kind, name, sql in rows if not name.startswith("sqlite_")}

    def _rebuild(self, log: Log, moved: Moved | None) -> None:
        projection = ReadModelTables(_LogUpTo(log, self.position), _TemporaryStore(self._rebuilt_path))
        try:
            while projection.advance():
                if moved is not None:
                    moved(projection.position, self.position)
        finally:
            projection.close(intact=True)

    def _compare(self, table: Table, *, is_encrypted: bool) -> Iterator[Difference]:
        names, keys = table.columns.keys(), table.primary_key.columns.keys()
        content = {name for name in names if is_encrypted and isinstance(table.columns[name].type, LargeBinary)}

        def cell(side: str, name: str) -> str:
            return f'opened(main."{name}")' if side == "main" and name in content else f'{side}."{name}"'

        count = 0
        first: tuple[str, Sequence[object], Sequence[object]] | None = None
        for one, other, where in (
            ("anew", "main", " OR ".join(f"{cell('main', name)} IS NOT {cell('anew', name)}" for name in names)),
            ("main", "anew", f'anew."{keys[0]}" IS NULL'),
        ):
            cells = ", ".join(cell(side, name) for side in (one, other) for name in names)
            same = " AND ".join(f'main."{key}" IS anew."{key}"' for key in keys)
            sides = f'{one}."{table.name}" AS {one} LEFT JOIN {other}."{table.name}" AS {other} ON {same}'
            order = ", ".join(f'{one}."{key}"' for key in keys)
            query = f"SELECT {cells} FROM {sides} WHERE {where} ORDER BY {order}"  # noqa: S608 - ours
            for row in self._connection.execute(query):
                count += 1
                first = first or (one, row[: len(names)], row[len(names) :])
        if first is None:
            return
        side, here, there = first
        if side == "main":
            problem = "follows from nothing in the log"
        elif there[0] is None:  # the first columns are those of the key
            problem = "is missing"
        else:
            cells_of_both = zip(names, here, there, strict=True)
            wrong = [name for name, one, other in cells_of_both if (type(one), one) != (type(other), other)]
            problem = f"says something else than the log in {', '.join(wrong)}"
        shown = ", ".join(f"{name} {_text(cell)}" for name, cell in zip(keys, here, strict=False))
        more = "" if count == 1 else f"; {count} rows of the table are wrong"
        yield str(table.name), here[0] if isinstance(here[0], int) else 0, f"the row with {shown} {problem}{more}"


@contextmanager
def live_tables(place: str) -> Generator[LiveTables | None]:
    """Yield the live tables of the log at the place, a path or `postgresql://` URL; None if there are none.

    They are read in one snapshot, which does not block writers.

    Raises:
        ReadModelError: they cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="reenact-") as directory:
        anew = Path(directory) / "anew.db"
        connection = _open_snapshot(_tables_of(place, Path(directory)), anew)
        if connection is None:
            yield None
            return
        with closing(connection):
            try:
                tables = LiveTables(connection, anew)
            except sqlite3.DatabaseError as error:
                raise ReadModelError(f"the projections beside the log cannot be read: {error}") from error
            yield tables


def _tables_of(place: str, directory: Path) -> Path:
    """Return the path of the first file of the tables; those of PostgreSQL are copied to the directory."""
    if not is_postgres(place):
        return tables_beside(place)
    from reenact.projections.read_model.postgres_store import copy_live  # noqa: PLC0415 - the driver is an extra

    copy = directory / "live.db"
    copy_live(place, copy)
    return copy


def _open_snapshot(path: Path, anew: Path) -> sqlite3.Connection | None:
    """Return a connection to a snapshot of the live file, with another file attached; None if there is no live one."""
    for attempt in range(_ATTEMPTS):
        file = Generations(path).current()
        if not file.exists():
            if file == path:
                return None
            continue
        try:
            uri = f"{file.absolute().as_uri()}?mode=ro{_unchanging(file)}"
            connection = sqlite3.connect(uri, uri=True, isolation_level=None)
            try:
                connection.text_factory = bytearray  # distinguishes text from bytes, and accepts damaged text
                connection.execute("ATTACH ? AS anew", (str(anew),))
                connection.execute("BEGIN")
                connection.execute("SELECT 1 FROM main.sqlite_master").fetchone()
            except BaseException:
                connection.close()
                raise
        except sqlite3.DatabaseError as error:
            if attempt == _ATTEMPTS - 1:
                raise ReadModelError(f"the projections in {file} cannot be opened: {error}") from error
        else:
            return connection
    raise ReadModelError(f"the projections in {path} are replaced again and again; try later")


def _unchanging(file: Path) -> str:
    """Return what opens a file in a directory where SQLite cannot create the files that readers share with a writer."""
    return "" if os.access(file.parent, os.W_OK) or Path(f"{file}-wal").exists() else "&immutable=1"


class _LogUpTo:
    """A log up to a position."""

    def __init__(self, log: Log, end: int) -> None:
        self._log = log
        self._end = end

    def read_all(self, *, after: int, limit: int) -> Sequence[Row]:
        """Return the events as `Log.read_all` does."""
        return [row for row in self._log.read_all(after=after, limit=limit) if row.position <= self._end]

    def read(self, stream: str, *, after: int = 0) -> Sequence[Row]:
        """Return the events as `Log.read` does."""
        return self._log.read(stream, after=after)

    def head(self) -> int:
        """Return the position of the end."""
        return self._end


class _TemporaryStore(SqliteStore):
    """Temporary tables, without durability."""

    def connect(self) -> sqlite3.Connection:
        """Create the tables, and return their connection."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA journal_mode=MEMORY")
        make_tables(connection)
        return connection


def _decrypted(cipher: Cipher, cell: Value) -> Value:
    return decrypted(cell, cipher)


def _plain(cell: object) -> str:
    return _text(cell) if isinstance(cell, bytearray) else str(cell)


def _text(cell: object) -> str:
    return bytes(cell).decode(errors="backslashreplace") if isinstance(cell, bytearray) else repr(cell)
