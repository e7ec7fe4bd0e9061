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

from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import Finding, verify
from reenact.domain.errors import LogUnusableError
from tests.journal.conftest import postgres_log
from tests.journal.support import CODEC, Added, Log, Values, commit, said, step, tamper

_CELLS = ("stream", "recorded_at", "version", "count", "cursor", "heard", "digest", "events", "feed")


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


def test_an_empty_log_is_whole(path: Path) -> None:
    SqliteJournal.open(path, CODEC).close()

    assert verify(path) == []


@given(data=st.data())
def test_a_flipped_byte_of_a_row_is_found(log: Path, data: st.DataObject) -> None:
    column = data.draw(st.sampled_from(_CELLS))
    row = data.draw(st.integers(1, 12))
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(shutil.copy(log, Path(directory, "copy.db")))
        value = _cells(copy, column)[row - 1]
        changed = _flip(value, data)
        placeholder = "CAST(? AS TEXT)" if isinstance(value, str) else "?"
        # A version that is taken already cannot even be forged.
        with contextlib.suppress(sqlite3.IntegrityError):
            tamper(copy, f"UPDATE steps SET {column} = {placeholder} WHERE number = ?", changed, row)  # noqa: S608 - ours

            assert verify(copy) != []


def _cells(log: Path, column: str) -> list[Values]:
    with closing(sqlite3.connect(log)) as connection:
        query = f"SELECT {column} FROM steps ORDER BY number"  # noqa: S608 - ours
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
            "UPDATE steps SET events = x'90' WHERE stream = 's2' AND version = 2",
            Finding("stream", "s2", 2, "the row or the one before it was changed", 5),
        ),
        (
            "UPDATE steps SET events = 'text' WHERE stream = 's2' AND version = 2",
            Finding("stream", "s2", 2, "the row or the one before it was changed", 5),
        ),
        (
            "UPDATE steps SET cause = x'90' WHERE stream = 's2' AND version = 2",
            Finding("stream", "s2", 2, "the row or the one before it was changed", 5),
        ),
        (
            "DELETE FROM steps WHERE stream = 's2' AND version = 2",
            Finding("stream", "s2", 3, "version 2 is missing", 8),
        ),
        (
            "DELETE FROM steps WHERE stream = 's2' AND version = 4",
            Finding("log", "", 11, "position 11 is missing: 11 of 12 events are there"),
        ),
        (
            "UPDATE steps SET position = 100 WHERE stream = 's2' AND version = 2",
            Finding("stream", "s2", 3, "the row precedes an earlier one of its stream", 8),
        ),
        (
            "UPDATE steps SET number = 100 WHERE stream = 's2' AND version = 2",
            Finding("stream", "s2", 3, "version 2 is missing", 8),
        ),
        (
            "UPDATE steps SET feed = feed || x'00' WHERE stream = 's3' AND cursor = 3",
            Finding("stream", "s3", 2, "the row or the one before it was changed", 6),
        ),
        (
            "UPDATE steps SET feed = CAST(feed AS TEXT) WHERE stream = 's3' AND cursor = 3",
            Finding("stream", "s3", 2, "the row holds values that no row can have", 6),
        ),
        (
            "UPDATE steps SET count = 0 WHERE stream = 's3' AND cursor = 3",
            Finding("stream", "s3", 2, "the row or the one before it was changed", 6),
        ),
        (
            "UPDATE steps SET heard = 0, feed = NULL WHERE stream = 's3' AND cursor = 3",
            Finding("stream", "s3", 2, "the row or the one before it was changed", 6),
        ),
    ],
)
def test_what_is_wrong_is_named(copy: Path, statement: str, finding: Finding) -> None:
    assert tamper(copy, statement) == 1

    assert finding in verify(copy)


def test_a_stream_cannot_pass_as_another_one(copy: Path) -> None:
    tamper(copy, "UPDATE steps SET stream = 's9' WHERE stream = 's2'")

    assert {finding.name for finding in verify(copy)} == {"s9"}


def test_records_that_change_places_are_found(copy: Path) -> None:
    for old, new in ((2, 99), (3, 2), (99, 3)):
        tamper(
            copy,
            "UPDATE steps SET version = ? WHERE version = ? AND stream = 's1'",
            new,
            old,
        )

    assert [(finding.name, finding.at) for finding in verify(copy)] == [("s1", 3)]


def test_a_file_that_is_no_log_cannot_be_verified(path: Path) -> None:
    path.write_bytes(b"x" * 5000)

    with pytest.raises(LogUnusableError):
        verify(path)


@pytest.mark.parametrize("table", ["stored_snapshots", "tracking", "timers", "consumers", "requests", "steps"])
def test_a_table_that_is_gone_is_found(table: str, request: pytest.FixtureRequest, path: Path) -> None:
    for log in (Log(str(path)), postgres_log(request)):
        log.open().close()
        whole = log.verify()

        log.tamper(f"DROP TABLE {table}")

        assert whole == []
        assert log.verify() == [Finding("log", table, 0, "the table is missing")]
