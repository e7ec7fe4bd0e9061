"""Whatever somebody with a database tool can do to a log: any cell, any rows, any end of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from hypothesis import assume, reject
from hypothesis import strategies as st

Cell: TypeAlias = int | float | str | bytes | None
Cells: TypeAlias = dict[str, Cell]
Tampering: TypeAlias = Callable[[sqlite3.Connection, st.DataObject, str], set[str]]
"""Changes a table, and returns the names of what was changed: the first cells of the rows, as text."""

KEYS = {
    "steps": ("number",),
    "requests": ("id",),
    "stored_snapshots": ("originator_id", "originator_version"),
    "timers": ("stream",),
    "consumers": ("topic", "client_id"),
    "tracking": ("application_name",),
}
_NAMES = {"steps": "stream", "stored_snapshots": "originator_id"}


def change_a_cell(connection: sqlite3.Connection, data: st.DataObject, table: str) -> set[str]:
    """Change any byte of any cell, or what kind of cell it is."""
    row = _drawn(connection, data, table)
    column = data.draw(st.sampled_from(sorted(row)), label="column")
    changed = {**row, column: _changed(row[column], data)}
    delete(connection, table, row)
    insert(connection, table, changed)
    return {_name(table, row), _name(table, changed)}


def remove_a_row(connection: sqlite3.Connection, data: st.DataObject, table: str) -> set[str]:
    """Remove any row."""
    row = _drawn(connection, data, table)
    delete(connection, table, row)
    return {_name(table, row)}


def exchange_two_rows(connection: sqlite3.Connection, data: st.DataObject, table: str) -> set[str]:
    """Let two rows say what the other one says, all of it or some cells."""
    rows = rows_of(connection, table)
    assume(len(rows) > 1)
    one, other = data.draw(st.lists(st.sampled_from(rows), min_size=2, max_size=2, unique_by=repr), label="rows")
    columns = data.draw(st.sets(st.sampled_from(sorted(one)), min_size=1), label="columns")
    for row in (one, other):
        delete(connection, table, row)
    insert(connection, table, {**one, **{column: other[column] for column in columns}})
    insert(connection, table, {**other, **{column: one[column] for column in columns}})
    return {_name(table, one), _name(table, other)}


def duplicate_a_row(connection: sqlite3.Connection, data: st.DataObject, table: str) -> set[str]:
    """Put a row there once more, under another key."""
    row = _drawn(connection, data, table)
    copy = dict(row)
    for column in (*KEYS[table], *(("version", "position", "cursor") if table == "steps" else ())):
        if isinstance(row[column], int):
            copy[column] = data.draw(st.integers(0, 60), label=column)
        else:
            copy[column] = data.draw(st.text("abcs/12", min_size=1, max_size=9), label=column)
    insert(connection, table, copy)
    return {_name(table, row), _name(table, copy)}


def rows_of(connection: sqlite3.Connection, table: str) -> list[Cells]:
    """Return the rows of the table, by its key; a position is a cell, too."""
    connection.text_factory = _as_it_is
    columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
    query = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {', '.join(KEYS[table])}"  # noqa: S608 - ours
    return [dict(zip(columns, row, strict=True)) for row in connection.execute(query)]


def tampered(copy: Path, tampering: Tampering, data: st.DataObject, table: str) -> set[str]:
    """Tamper with a table of the log, and return what was changed; what changes nothing is passed over."""
    with closing(sqlite3.connect(copy)) as connection:
        before = rows_of(connection, table)
        try:
            with connection:
                changed = tampering(connection, data, table)
        except (sqlite3.IntegrityError, OverflowError):
            reject()
        assume(_types(rows_of(connection, table)) != _types(before))
    return changed


def _as_it_is(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def _types(rows: Collection[Cells]) -> list[list[tuple[type, Cell]]]:
    return [[(type(cell), cell) for cell in row.values()] for row in rows]


def _drawn(connection: sqlite3.Connection, data: st.DataObject, table: str) -> Cells:
    rows = rows_of(connection, table)
    assume(rows)
    return rows[data.draw(st.integers(0, len(rows) - 1), label="row")]


def _changed(cell: Cell, data: st.DataObject) -> Cell:
    if cell is None:
        put_in: list[Cell] = [b"", b"\x01", "x", 0]
        return data.draw(st.sampled_from(put_in), label="cell")
    if isinstance(cell, int | float):
        number = int(cell)
        others: list[Cell] = [number ^ 1, number + 1, number - 1, number ^ (1 << 40), -number, number + 0.5, "x", b"x"]
        return data.draw(st.sampled_from(others), label="cell")
    content = bytearray(cell.encode() if isinstance(cell, str) else cell)
    how = data.draw(st.sampled_from(["flip", "cut", "append", "type"]), label="how")
    if how == "type":
        return bytes(content) if isinstance(cell, str) else content.decode("latin-1")
    if how == "flip" and content:
        at = data.draw(st.integers(0, len(content) - 1), label="byte")
        content[at] ^= data.draw(st.integers(1, 255), label="bits")
    elif how == "cut" and content:
        del content[data.draw(st.integers(0, len(content) - 1), label="from") :]
    else:
        content += b"0"
    return _Text(bytes(content)) if isinstance(cell, str) else bytes(content)


class _Text(bytes):
    """Bytes that are stored as text, whether they are text or not."""


def delete(connection: sqlite3.Connection, table: str, row: Cells) -> None:
    """Delete the row that says this."""
    where = " AND ".join(f"{column} IS ?" for column in row)
    deleted = connection.execute(f"DELETE FROM {table} WHERE {where}", tuple(row.values())).rowcount  # noqa: S608 - ours
    assert deleted == 1


def insert(connection: sqlite3.Connection, table: str, row: Cells) -> None:
    """Insert the row."""
    places = ", ".join("CAST(? AS TEXT)" if isinstance(cell, _Text) else "?" for cell in row.values())
    query = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})"  # noqa: S608 - ours
    connection.execute(query, tuple(bytes(cell) if isinstance(cell, _Text) else cell for cell in row.values()))


def _name(table: str, row: Cells) -> str:
    cell = row[_NAMES.get(table, KEYS[table][0])]
    if isinstance(cell, bytes):
        return cell.decode(errors="backslashreplace")
    return str(cell)
