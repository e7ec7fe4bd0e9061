"""A row that stands in place of others cannot be changed unseen either."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from reenact.actors.journal.evidence import sqlite_evidence
from reenact.actors.journal.examination import Examination
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.journal.verify import Finding, verify
from reenact.domain.chain import GENESIS, header_of, part_digest, row_digest
from tests.journal.support import CODEC, Log, commit, said, step

Cell: TypeAlias = str | int | bytes | None
Key: TypeAlias = tuple[str, int]

COLUMNS = ("stream", "recorded_at", "cursor", "heard", "epoch", "digest", "original", "seal", "feed")
LAST = {("s1", 11), ("s2", 7), ("s3", 5)}


def write_and_seal(journal: StoredJournal) -> None:
    """Write feeds in which the first row is sealed, one between others, and the last one; one of them twice."""
    for number in range(6):
        for topic in ("s1", "s2", "s3"):
            commit(journal, step(topic, None, kept=[said(f"{topic} {number}", "and so on")]))
    journal.replace_feed("s1", 1, 4, [said("s1")])
    journal.replace_feed("s1", 7, 8, [])
    journal.replace_feed("s2", 3, 4, [said("once")])
    journal.replace_feed("s2", 3, 6, [said("s2")])
    journal.replace_feed("s2", 7, 12, [said("s2")])
    journal.replace_feed("s3", 1, 4, [said("s1")])
    journal.replace_feed("s3", 5, 12, [])


@pytest.fixture(scope="module")
def whole() -> Generator[Path]:
    """A log with sealed rows that every example copies."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "log.db")
        with SqliteJournal.open(path, CODEC, synchronous="OFF") as journal:
            write_and_seal(journal)
        assert verify(path) == []
        yield path


@contextmanager
def changing(whole: Path) -> Generator[tuple[sqlite3.Connection, list[Finding]]]:
    """Lend a copy of the log to be changed; what is found in it then is in the list afterwards."""
    found: list[Finding] = []
    with closing(sqlite3.connect(":memory:")) as connection:
        with closing(sqlite3.connect(whole)) as source:
            source.backup(connection)
        try:
            with connection:
                yield connection, found
        except sqlite3.IntegrityError:
            reject()  # a key that is taken cannot even be forged
        with sqlite_evidence(connection) as evidence:
            found += Examination(evidence).findings()


def keys(connection: sqlite3.Connection) -> list[Key]:
    return connection.execute("SELECT stream, cursor FROM steps ORDER BY stream, cursor").fetchall()


def cell(connection: sqlite3.Connection, key: Key, column: str) -> Cell:
    query = f"SELECT {column} FROM steps WHERE stream = ? AND cursor = ?"  # noqa: S608 - ours
    value: Cell = connection.execute(query, key).fetchone()[0]
    return value


def put(connection: sqlite3.Connection, key: Key, column: str, value: Cell) -> None:
    statement = f"UPDATE steps SET {column} = ? WHERE stream = ? AND cursor = ?"  # noqa: S608 - ours
    assert connection.execute(statement, (value, *key)).rowcount == 1


def changed(value: Cell, data: st.DataObject) -> Cell:
    match value:
        case int():
            return value ^ (1 << data.draw(st.integers(0, 62)))
        case str():
            return data.draw(st.text(max_size=3).filter(lambda other: other != value and "\x00" not in other))
        case None:
            return data.draw(st.binary(max_size=33))
        case bytes(content):
            return data.draw(
                st.sampled_from([content[:-1], content + b"\x00", b""]).filter(lambda other: other != content)
                | st.integers(0, max(0, len(content) - 1)).map(lambda at: _flipped(content, at))
            )


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@given(data=st.data())
def test_whatever_cell_of_a_row_is_changed_it_is_found(whole: Path, data: st.DataObject) -> None:
    with changing(whole) as (connection, found):
        key = data.draw(st.sampled_from(keys(connection)))
        column = data.draw(st.sampled_from(COLUMNS))
        put(connection, key, column, changed(cell(connection, key, column), data))

    assert found


@given(data=st.data())
def test_a_cell_of_another_row_is_found(whole: Path, data: st.DataObject) -> None:
    with changing(whole) as (connection, found):
        key, other = data.draw(st.lists(st.sampled_from(keys(connection)), min_size=2, max_size=2, unique=True))
        column = data.draw(st.sampled_from(COLUMNS))
        value = cell(connection, other, column)
        assume(value != cell(connection, key, column))
        put(connection, key, column, value)

    assert found


@given(columns=st.sets(st.sampled_from(COLUMNS), min_size=1), data=st.data())
def test_cells_that_two_rows_have_exchanged_are_found(whole: Path, columns: set[str], data: st.DataObject) -> None:
    with changing(whole) as (connection, found):
        pair = data.draw(st.lists(st.sampled_from(keys(connection)), min_size=2, max_size=2, unique=True))
        one, other = ([cell(connection, key, column) for column in COLUMNS] for key in pair)
        exchanged = [
            [theirs if column in columns else own for column, own, theirs in zip(COLUMNS, row, away, strict=True)]
            for row, away in ((one, other), (other, one))
        ]
        assume(exchanged not in ([one, other], [other, one]))
        connection.executemany("DELETE FROM steps WHERE stream = ? AND cursor = ?", pair)
        places = ", ?" * len(COLUMNS)
        insert = f"INSERT INTO steps (version, position, count, {', '.join(COLUMNS)}) VALUES (0, 1, 0{places})"  # noqa: S608 - ours
        connection.executemany(insert, exchanged)

    assert found


@given(data=st.data())
def test_a_row_that_is_gone_is_missed_where_others_come_behind_it(whole: Path, data: st.DataObject) -> None:
    with changing(whole) as (connection, found):
        gone = data.draw(st.sets(st.sampled_from(sorted(set(keys(connection)) - LAST)), min_size=1))
        connection.executemany("DELETE FROM steps WHERE stream = ? AND cursor = ?", sorted(gone))

    first = {topic: min(cursor for other, cursor in gone if other == topic) for topic, _ in gone}
    assert {(finding.name, finding.problem) for finding in found} == {
        (topic, f"cursor {cursor} is missing") for topic, cursor in first.items()
    }


@pytest.mark.parametrize("key", [("s1", 1), ("s1", 7), ("s2", 3), ("s3", 1)])
def test_a_sealed_row_that_passes_as_a_plain_one_is_found_at_the_next(whole: Path, key: Key) -> None:
    with changing(whole) as (connection, found):
        previous = connection.execute(
            "SELECT digest FROM steps WHERE stream = ? AND cursor < ? ORDER BY cursor DESC LIMIT 1", key
        ).fetchone() or (GENESIS,)
        heard, feed = cell(connection, key, "heard"), cell(connection, key, "feed")
        assert isinstance(heard, int)
        assert isinstance(feed, bytes)
        header = header_of(key[0].encode(), 0, version=0, count=0, cursor=key[1], heard=heard)
        nothing = part_digest(None)
        put(connection, key, "digest", row_digest(previous[0], (nothing, nothing, part_digest(feed)), header))
        put(connection, key, "original", None)
        put(connection, key, "seal", None)

    assert [(finding.name, finding.at > key[1]) for finding in found] == [(key[0], True)]


@pytest.mark.parametrize("key", [("s1", 5), ("s1", 9), ("s2", 1)])
def test_a_plain_row_that_passes_as_a_sealed_one_says_what_it_said(whole: Path, key: Key) -> None:
    with changing(whole) as (connection, found):
        put(connection, key, "feed", b"\x90")
        put(connection, key, "original", b"\x00" * 144)
        put(connection, key, "seal", b"\x00" * 32)

    assert [(finding.name, finding.at) for finding in found] == [key]
    assert found[0].problem == "the sealed row or the one before it was changed"


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        (
            "UPDATE steps SET feed = 'x' WHERE stream = 's1' AND cursor = 7",
            Finding("feed", "s1", 7, "the sealed row or the one before it was changed"),
        ),
        (
            "UPDATE steps SET digest = 'x' WHERE stream = 's2' AND cursor = 3",
            Finding("feed", "s2", 3, "the sealed row or the one before it was changed"),
        ),
        (
            "UPDATE steps SET heard = heard + 1 WHERE stream = 's3' AND cursor = 5",
            Finding("feed", "s3", 5, "the sealed row or the one before it was changed"),
        ),
        (
            "UPDATE steps SET seal = NULL WHERE stream = 's3' AND cursor = 1",
            Finding("feed", "s3", 1, "the row or the one before it was changed"),
        ),
        ("DELETE FROM steps WHERE stream = 's2' AND cursor = 3", Finding("feed", "s2", 7, "cursor 3 is missing")),
    ],
)
def test_what_is_wrong_with_a_sealed_row_is_named(log: Log, statement: str, finding: Finding) -> None:
    with log.open() as journal:
        write_and_seal(journal)
    assert log.verify() == []

    assert log.tamper(statement) == 1

    assert finding in log.verify()
