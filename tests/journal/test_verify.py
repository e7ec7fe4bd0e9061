"""No history changes unseen."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.journal.chain import FEED_GENESIS, STREAM_GENESIS, event_digest, feed_digest
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import Finding, verify
from reenact.domain.errors import LogUnusableError
from tests.journal.conftest import postgres_log
from tests.journal.support import CODEC, Added, Log, Values, commit, said, step, tamper

_CELLS = {
    "stored_events": ("originator_id", "originator_version", "topic", "state", "digest"),
    "feed": ("topic", "first_cursor", "count", "segments", "digest"),
}
_ORDER = {"stored_events": "rowid", "feed": "topic, first_cursor"}
_ROW = {
    "stored_events": "rowid = ?",
    "feed": """
        (topic, first_cursor) = (
            SELECT topic, first_cursor FROM feed ORDER BY topic, first_cursor LIMIT 1 OFFSET ? - 1
        )
    """,
}


@pytest.fixture(scope="module")
def log() -> Generator[Path]:
    """A small log that every test copies."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "log.db")
        with SqliteJournal.open(path, CODEC) as journal:
            for version in range(4):
                for stream in ("s1", "s2", "s3"):
                    commit(journal, step(stream, version, Added(version), kept=[said("a", "b")]))
        yield path


@pytest.fixture
def copy(log: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(log, tmp_path / "copy.db"))


def test_a_log_that_nobody_touched_is_whole(log: Path) -> None:
    assert verify(log) == []
    with closing(sqlite3.connect(log)) as connection:
        assert verify(connection) == []


def test_an_empty_log_is_whole(path: Path) -> None:
    SqliteJournal.open(path, CODEC).close()

    assert verify(path) == []


@given(data=st.data())
def test_a_flipped_byte_of_a_row_is_found(log: Path, data: st.DataObject) -> None:
    table = data.draw(st.sampled_from(sorted(_CELLS)))
    column = data.draw(st.sampled_from(_CELLS[table]))
    row = data.draw(st.integers(1, 12))
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(shutil.copy(log, Path(directory, "copy.db")))
        value = _cells(copy, table, column)[row - 1]
        changed = _flip(value, data)
        placeholder = "CAST(? AS TEXT)" if isinstance(value, str) else "?"
        # A version that is taken already cannot even be forged.
        with contextlib.suppress(sqlite3.IntegrityError):
            tamper(copy, f"UPDATE {table} SET {column} = {placeholder} WHERE {_ROW[table]}", changed, row)  # noqa: S608 - ours

            assert verify(copy) != []


def _cells(log: Path, table: str, column: str) -> list[Values]:
    with closing(sqlite3.connect(log)) as connection:
        query = f"SELECT {column} FROM {table} ORDER BY {_ORDER[table]}"  # noqa: S608 - ours
        return [row[0] for row in connection.execute(query)]


def _flip(value: Values, data: st.DataObject) -> Values:
    if isinstance(value, int):
        return value ^ (1 << data.draw(st.integers(0, 62)))
    content = bytearray(value.encode() if isinstance(value, str) else value)
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    return bytes(content)


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        (
            "UPDATE stored_events SET state = x'00' WHERE originator_id = 's2' AND originator_version = 2",
            Finding("stream", "s2", 2, "the record or the one before it was changed", 5),
        ),
        (
            "DELETE FROM stored_events WHERE originator_id = 's2' AND originator_version = 2",
            Finding("stream", "s2", 3, "version 2 is missing", 8),
        ),
        (
            "DELETE FROM stored_events WHERE originator_id = 's2' AND originator_version = 4",
            Finding("log", "", 11, "position 11 is missing: 11 of 12 records are there"),
        ),
        (
            "UPDATE stored_events SET rowid = 100 WHERE originator_id = 's2' AND originator_version = 2",
            Finding("stream", "s2", 3, "the record stands before an earlier one of its stream", 8),
        ),
        (
            "UPDATE feed SET segments = segments || x'00' WHERE topic = 's3' AND first_cursor = 3",
            Finding("feed", "s3", 3, "the row or the one before it was changed"),
        ),
        (
            "DELETE FROM feed WHERE topic = 's3' AND first_cursor = 3",
            Finding("feed", "s3", 5, "cursor 3 is missing"),
        ),
    ],
)
def test_what_is_wrong_is_named(copy: Path, statement: str, finding: Finding) -> None:
    assert tamper(copy, statement) == 1

    assert finding in verify(copy)


def test_a_stream_cannot_pass_as_another_one(copy: Path) -> None:
    tamper(copy, "UPDATE stored_events SET originator_id = 's9' WHERE originator_id = 's2'")

    assert {finding.name for finding in verify(copy)} == {"s9"}


def test_records_that_change_places_are_found(copy: Path) -> None:
    for old, new in ((2, 99), (3, 2), (99, 3)):
        tamper(
            copy,
            "UPDATE stored_events SET originator_version = ? WHERE originator_version = ? AND originator_id = 's1'",
            new,
            old,
        )

    assert [(finding.name, finding.at) for finding in verify(copy)] == [("s1", 2)]


def test_a_file_that_is_no_log_cannot_be_verified(path: Path) -> None:
    path.write_bytes(b"x" * 5000)

    with pytest.raises(LogUnusableError):
        verify(path)


_part = st.binary(max_size=6)


@given(one=st.tuples(_part, st.integers(0, 3), _part, _part), other=st.tuples(_part, st.integers(0, 3), _part, _part))
def test_only_equal_records_have_equal_digests(
    one: tuple[bytes, int, bytes, bytes], other: tuple[bytes, int, bytes, bytes]
) -> None:
    assert (event_digest(STREAM_GENESIS, *one) == event_digest(STREAM_GENESIS, *other)) == (one == other)


def test_moving_a_byte_from_one_part_to_the_next_is_another_record() -> None:
    assert event_digest(STREAM_GENESIS, b"ab", 1, b"c", b"d") != event_digest(STREAM_GENESIS, b"a", 1, b"bc", b"d")
    assert event_digest(STREAM_GENESIS, b"ab", 1, b"c", b"d") != event_digest(STREAM_GENESIS, b"ab", 1, b"", b"cd")
    assert feed_digest(FEED_GENESIS, b"ab", 1, 1, b"c") != feed_digest(FEED_GENESIS, b"a", 1, 1, b"bc")


@pytest.mark.parametrize("table", ["stored_snapshots", "tracking", "timers", "consumers", "requests", "redactions"])
def test_a_table_that_is_gone_is_found(table: str, request: pytest.FixtureRequest, path: Path) -> None:
    for log in (Log(str(path)), postgres_log(request)):
        with log.open() as journal:
            commit(journal, step("s1", 0, Added(1)))
        whole = log.verify()

        log.tamper(f"DROP TABLE {table}")

        assert whole == []
        assert log.verify() == [Finding("log", table, 0, "the table is missing")]
