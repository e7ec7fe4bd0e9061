"""Logs of every released format open and replay for ever."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact.actors.journal.api import Append, Committed, FeedRow, Mark, Recorded, Snapshot
from reenact.actors.journal.records import open_records
from reenact.domain.chain import Row
from tests.journal.golden import BYE, CAUSE, DATA, DELTAS, GONE, LESS, MADE_AT, REQUEST, TWO, fill
from tests.journal.server import Server
from tests.journal.support import Added, Cleared, Log, announced, commit, said, step

FILES = ["log-format-1.sql"]
SCHEMAS = ["log-postgresql-format-1.sql"]


@pytest.fixture(params=[*FILES, *SCHEMAS])
def old(request: pytest.FixtureRequest, path: Path) -> Log:
    """A log of each format; all of them hold the same."""
    if request.param in SCHEMAS:
        server = request.getfixturevalue("server")
        assert isinstance(server, Server)
        return Log(server.new_log_of(DATA / request.param))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((DATA / request.param).read_text(encoding="utf-8"))
    return Log(str(path))


both_ways = pytest.mark.parametrize("read_only", [False, True], ids=["to write", "to read"])


@both_ways
def test_an_old_log_replays(old: Log, *, read_only: bool) -> None:
    with old.open(read_only=read_only) as journal:
        assert journal.read_all() == [
            Recorded("ses_1", 1, 1, MADE_AT, Added(1, "hello world"), cause=CAUSE),
            Recorded("ses_1", 2, 2, MADE_AT, TWO),
            Recorded("ses_2", 1, 3, MADE_AT + 1, Added(-(2**40))),
            Recorded("ses_1", 3, 4, MADE_AT + 2, Cleared()),
            Recorded("ses_2", 2, 5, MADE_AT + 4, LESS),
        ]
        assert journal.read_feed("ses_1") == [
            FeedRow("ses_1", 1, (said("hello", " world"),), has_events=True),
            FeedRow("ses_1", 3, (DELTAS,)),
            FeedRow("ses_1", 5, BYE.segments, has_events=True, derived=1),
        ]
        assert journal.read_feed("ses_2") == [
            FeedRow("ses_2", 1, (GONE, *announced("ses_2", MADE_AT + 4, LESS).segments), has_events=True, derived=1),
            FeedRow("ses_2", 6, (said("g"),)),
            FeedRow("ses_2", 7, (said("h"),)),
        ]


@both_ways
def test_what_stands_beside_the_rows_of_an_old_log_is_there(old: Log, *, read_only: bool) -> None:
    with old.open(read_only=read_only) as journal:
        assert journal.snapshots() == [Snapshot("ses_1", 3, "sum:1", b"\x93\x00\x01\xff")]
        assert journal.due(after=0, until=2 * MADE_AT) == [("ses_2", MADE_AT + 500), ("ses_1", MADE_AT + 60_000_000)]
        assert journal.marks("ses_1") == [Mark("ses_1", "phone", 3, MADE_AT + 4)]
        assert journal.marks("ses_2") == [Mark("ses_2", "desk", 6, MADE_AT + 5)]
        assert journal.remembered("req_1") == REQUEST


def test_an_old_log_is_whole_and_goes_on(old: Log) -> None:
    assert old.verify() == []

    with old.open() as journal:
        assert commit(journal, step("ses_1", 3, Added(4), kept=[said("again")])) == Committed(4, 6)
        assert commit(journal, Append("ses_1", 4, 0, due=7)) == Committed(4, 6)
        assert journal.next_due(after=0) == 7
        journal.replace_feed("ses_2", 6, 7, [said("less")])

    assert old.verify() == []


@pytest.mark.parametrize("part", ["events", "feed", "original", "seal"])
def test_a_sealed_row_of_an_old_log_is_as_safe_as_any(old: Log, part: str) -> None:
    assert old.tamper(f"UPDATE steps SET {part} = ? WHERE seal IS NOT NULL", b"\x90") == 1  # noqa: S608 - one of four

    assert [(found.name, found.at) for found in old.verify()] == [("ses_2", 2)]


def test_what_is_written_today_has_the_bytes_of_the_format(old: Log, tmp_path: Path) -> None:
    again = Log(str(tmp_path / "again.db"))
    with again.open() as journal:
        fill(journal)

    assert _rows(again) == _rows(old)


def _rows(log: Log) -> list[Row]:
    with open_records(log.url) as records:
        return list(records.rows())
