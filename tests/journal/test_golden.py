"""Logs of every released format open and replay for ever."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact.actors.journal.api import Append, Committed, FeedRow, Recorded
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import verify
from tests.journal.support import CODEC, Added, Cleared, commit, said, step

DATA = Path(__file__).parent / "data"
MADE_AT = 1_700_000_000_000_000


@pytest.fixture
def log_of_format_1(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((DATA / "log-format-1.sql").read_text(encoding="utf-8"))
    return path


def test_a_log_of_format_1_replays(log_of_format_1: Path) -> None:
    with SqliteJournal.open(log_of_format_1, CODEC) as journal:
        assert journal.read_all() == [
            Recorded("ses_1", 1, 1, MADE_AT, Added(1, "one")),
            Recorded("ses_1", 2, 2, MADE_AT, Added(2, "zwei – 二")),  # noqa: RUF001 - more than ASCII on purpose
            Recorded("ses_2", 1, 3, MADE_AT + 1, Added(-(2**40))),
            Recorded("ses_1", 3, 4, MADE_AT + 2, Cleared()),
        ]
        assert journal.read_feed("ses_1") == [
            FeedRow("ses_1", 1, (said("hello", "world"),)),
            FeedRow("ses_1", 3, (said("bye", agent="a2"),)),
            FeedRow("ses_1", 4, (said("more"),)),
        ]


def test_a_log_of_format_1_is_whole_and_goes_on(log_of_format_1: Path) -> None:
    assert verify(log_of_format_1) == []

    with SqliteJournal.open(log_of_format_1, CODEC) as journal:
        assert commit(journal, step("ses_1", 3, Added(4), kept=[said("again")])) == Committed(4, 5)

    assert verify(log_of_format_1) == []


def test_what_is_written_today_has_the_bytes_of_format_1(log_of_format_1: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.db"
    with SqliteJournal.open(log_of_format_1, CODEC) as old, SqliteJournal.open(again, CODEC) as new:
        for each in old.read_all():
            commit(new, Append(each.stream, each.version - 1, each.recorded_at, (each.event,)))

    assert _rows(again) == _rows(log_of_format_1)


def _rows(log: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(log)) as connection:
        return connection.execute("SELECT * FROM stored_events ORDER BY rowid").fetchall()
