"""The same of a log of sessions in PostgreSQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from psycopg.errors import IntegrityError

from reenact._runtime import codec
from reenact.actors.journal.postgres import moment
from reenact.actors.journal.postgres.address import Address, address_of
from reenact.actors.journal.postgres.connecting import Connection, connect, spelled
from reenact.actors.journal.postgres.journal import PostgresJournal
from reenact.actors.journal.postgres.schema import relations_of
from reenact.actors.journal.verify import evidence_of
from reenact.audit import checkpoint_of, verify_log
from reenact.domain.chain import Row
from tests.examples import examples
from tests.journal.server import Server

Rows: TypeAlias = list[tuple[object, ...]]

COLUMNS = {
    "steps": ("stream", *(name for name in Row.__struct_fields__ if name != "stream")),
    "requests": ("id", "digest", "note", "at", "proof"),
    "consumers": ("topic", "client_id", "cursor", "seen_at"),
}
EPOCH = COLUMNS["steps"].index("epoch")
TABLES = ["steps", "requests"]


@pytest.fixture(scope="module")
def moved(server: Server, log: Path) -> tuple[str, dict[str, Rows]]:
    """The log of sessions, as it would stand on the server: its URL, and all that it holds."""
    url = server.new_log()
    PostgresJournal.open(url, codec()).close()
    with closing(sqlite3.connect(log)) as connection:
        held = {
            table: connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()  # noqa: S608 - ours
            for table, columns in COLUMNS.items()
        }
    fill(url, held)
    return url, held


def fill(url: str, held: dict[str, Rows]) -> None:
    """Let the log hold exactly this."""
    address = address_of(url)
    with connect(address) as connection, connection.transaction():
        for table, rows in held.items():
            put(connection, address.schema, table, rows)
        end = "(SELECT max(position + count - 1) FROM steps)"
        connection.execute(spelled(f"UPDATE log SET position = {end}", address.schema))  # noqa: S608 - ours


def put(connection: Connection, schema: str, table: str, rows: Rows) -> None:
    columns = COLUMNS[table]
    connection.execute(spelled(f"DELETE FROM {table}", schema))  # noqa: S608 - ours
    insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - ours
    with connection.cursor() as cursor:
        cursor.executemany(spelled(insert, schema), rows)


def test_a_log_on_a_server_is_whole_and_held_to_its_checkpoint(
    moved: tuple[str, dict[str, Rows]], tmp_path: Path
) -> None:
    url, _ = moved

    checkpoint_of(url, tmp_path / "kept")
    verdict = verify_log(url, checkpoint=tmp_path / "kept")

    assert (verdict.findings, verdict.meaning, verdict.read_model) == ((), "sessions", "not there")
    assert verdict.checkpoint == verdict.position


@given(data=st.data())
@settings(max_examples=examples(40))
def test_whatever_is_done_to_the_rows_is_found(
    moved: tuple[str, dict[str, Rows]], checkpoint: Path, data: st.DataObject
) -> None:
    url, held = moved
    table = data.draw(st.sampled_from(TABLES), label="table")
    rows = held[table]
    number = data.draw(st.integers(0, len(rows) - 1), label="row")
    how = data.draw(st.sampled_from(["change", "exchange", "remove"]), label="how")
    assume(how != "remove" or table != "requests")  # they are forgotten after a while
    done, names = tampered(rows, number, how, data)
    assume(sorted(done, key=repr) != sorted(rows, key=repr))
    address = address_of(url)
    try:
        with connect(address) as connection, connection.transaction():
            put(connection, address.schema, table, done)
        findings = verify_log(url).findings or verify_log(url, checkpoint=checkpoint).findings
        if not findings:  # the rows of each stream come in the same order, and say the same
            assert sorted(map(_unnumbered, done), key=repr) == sorted(map(_unnumbered, rows), key=repr)
            return
    except IntegrityError:
        reject()
    finally:
        fill(url, held)

    assert any(finding.kind == "log" or finding.name in names for finding in findings)


def tampered(rows: Rows, number: int, how: str, data: st.DataObject) -> tuple[Rows, set[object]]:
    """Return the rows after that, and the names of those that it was done to."""
    row = rows[number]
    rest = [*rows[:number], *rows[number + 1 :]]
    if how == "remove":
        return rest, {row[0]}
    column = data.draw(st.integers(0, len(row) - 1), label="column")
    if how == "change":
        changed = (*row[:column], other(row[column], data), *row[column + 1 :])
        return [*rest, changed], {row[0], changed[0]}
    place = data.draw(st.integers(0, len(rest) - 1), label="other")
    away = rest.pop(place)
    one = (*row[:column], away[column], *row[column + 1 :])
    two = (*away[:column], row[column], *away[column + 1 :])
    return [*rest, one, two], {row[0], away[0]}


def other(cell: object, data: st.DataObject) -> object:
    """Return a cell with another bit."""
    if isinstance(cell, int):
        return cell ^ (1 << data.draw(st.integers(0, 40), label="bit"))
    if not isinstance(cell, bytes | str):
        return b"x"
    content = bytearray(cell if isinstance(cell, bytes) else cell.encode())
    content[data.draw(st.integers(0, len(content) - 1), label="byte")] ^= 1
    return bytes(content) if isinstance(cell, bytes) else content.decode()


def _unnumbered(row: tuple[object, ...]) -> tuple[object, ...]:
    """Return the row without its number and its epoch, which no digest covers: they belong to the log."""
    return (row[0], *row[2:EPOCH], *row[EPOCH + 1 :])


def test_what_is_written_after_its_tables_were_looked_for_is_not_read(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.new_log()
    PostgresJournal.open(url, codec()).close()

    def relations_before_a_write(connection: Connection, address: Address) -> set[str]:
        relations = relations_of(connection, address)
        with connect(address) as other:
            other.execute(spelled("UPDATE log SET position = 7", address.schema))
        return relations

    monkeypatch.setattr(moment, "relations_of", relations_before_a_write)
    with evidence_of(url) as evidence:
        assert evidence.counts().said == 0


def test_a_connection_that_ends_after_all_was_read_is_no_error(server: Server) -> None:
    url = server.new_log()
    PostgresJournal.open(url, codec()).close()

    with evidence_of(url) as evidence:
        ((process,),) = evidence.select("SELECT pg_backend_pid()", ())
        with connect(address_of(url)) as other:
            ended = other.execute("SELECT pg_terminate_backend(%s, 10000)", (process,)).fetchone()

    assert ended == (True,)
