"""Logs of every released format open and replay for ever."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact.actors.journal.api import (
    Append,
    Committed,
    Entry,
    FeedRow,
    Journal,
    Mark,
    Recorded,
    Remembered,
    Segment,
    Snapshot,
)
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import verify
from reenact.domain.errors import StorageError
from tests.journal.server import Server
from tests.journal.support import CODEC, Added, Cleared, Log, acknowledge, commit, said, step

DATA = Path(__file__).parent / "data"
MADE_AT = 1_700_000_000_000_000

FILES = ["log-format-1.sql", "log-format-2.sql", "log-format-3.sql", "log-format-4.sql"]
SCHEMAS = ["log-postgresql-format-1.sql", "log-postgresql-format-3.sql", "log-postgresql-format-4.sql"]
WITHOUT_CONSUMERS = ["log-format-1.sql", "log-format-2.sql", "log-postgresql-format-1.sql"]
WITH_CONSUMERS = [*FILES[2:], *SCHEMAS[1:]]
WITHOUT_REDACTIONS = ["log-format-3.sql", "log-postgresql-format-3.sql"]
FORMAT_NOW = 4


def _file_of(script: str, path: Path) -> Log:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((DATA / script).read_text(encoding="utf-8"))
    return Log(str(path))


def _log_of(script: str, request: pytest.FixtureRequest, path: Path) -> Log:
    if script in FILES:
        return _file_of(script, path)
    server = request.getfixturevalue("server")
    assert isinstance(server, Server)
    return Log(server.new_log_of(DATA / script))


@pytest.fixture(params=[*FILES, *SCHEMAS])
def old(request: pytest.FixtureRequest, path: Path) -> Log:
    """A log of each format; all of them hold the same events."""
    return _log_of(request.param, request, path)


@pytest.fixture(params=[*FILES[1:], *SCHEMAS])
def with_timers(request: pytest.FixtureRequest, path: Path) -> Log:
    """A log of each format that has snapshots and timers; all of them hold the same."""
    return _log_of(request.param, request, path)


@pytest.fixture(params=WITHOUT_CONSUMERS)
def without_consumers(request: pytest.FixtureRequest, path: Path) -> Log:
    """A log of each format that knew no consumers, no requests and no seals."""
    return _log_of(request.param, request, path)


@pytest.fixture(params=WITH_CONSUMERS)
def with_consumers(request: pytest.FixtureRequest, path: Path) -> Log:
    """A log of each format that has consumers, requests and a sealed row; all of them hold the same."""
    return _log_of(request.param, request, path)


@pytest.fixture(params=WITHOUT_REDACTIONS)
def without_redactions(request: pytest.FixtureRequest, path: Path) -> Log:
    """A log of each format that had requests, but no redacted events and no proofs of requests."""
    return _log_of(request.param, request, path)


@pytest.fixture(params=[FILES[3], SCHEMAS[2]])
def with_redaction(request: pytest.FixtureRequest, path: Path) -> Log:
    """A log of each format that has a redacted event and proven requests; all of them hold the same."""
    return _log_of(request.param, request, path)


@pytest.fixture
def of_format_1(path: Path) -> Log:
    return _file_of("log-format-1.sql", path)


@pytest.mark.parametrize("read_only", [False, True], ids=["to write", "to read"])
def test_an_old_log_replays(old: Log, *, read_only: bool) -> None:
    with old.open(read_only=read_only) as journal:
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


def test_an_old_log_is_whole_and_goes_on(old: Log) -> None:
    assert old.verify() == []

    with old.open() as journal:
        assert commit(journal, step("ses_1", 3, Added(4), kept=[said("again")])) == Committed(4, 5)
        assert commit(journal, Append("ses_1", 4, 0, due=7)) == Committed(4, 5)
        assert journal.next_due(after=0) == 7

    assert old.verify() == []


@pytest.mark.parametrize("read_only", [False, True], ids=["to write", "to read"])
def test_snapshots_and_timers_of_an_old_log_are_there(with_timers: Log, *, read_only: bool) -> None:
    with with_timers.open(read_only=read_only) as journal:
        assert journal.snapshots() == [Snapshot("ses_1", 3, "sum:1", b"\x93\x00\x01\xff")]
        assert journal.snapshot("ses_1") == journal.snapshots()[0]
        assert _due(journal) == [("ses_2", MADE_AT + 500), ("ses_1", MADE_AT + 60_000_000)]
        assert journal.next_due(after=MADE_AT + 500) == MADE_AT + 60_000_000


@pytest.mark.parametrize("read_only", [False, True], ids=["to write", "to read"])
def test_what_stands_beside_the_streams_of_an_old_log_is_there(with_consumers: Log, *, read_only: bool) -> None:
    with with_consumers.open(read_only=read_only) as journal:
        assert journal.marks("ses_1") == [Mark("ses_1", "phone", 3, MADE_AT + 4)]
        assert journal.marks("ses_2") == [
            Mark("ses_2", "desk", 7, MADE_AT + 5),
            Mark("ses_2", "phone", 6, MADE_AT + 6),
        ]
        assert journal.remembered("req_1") == Remembered("req_1", bytes(range(32)), b"\x81\xa1a\x01", MADE_AT + 1)
        assert journal.remembered("req_2") == Remembered("req_2", b"", b"", MADE_AT + 3)
        assert journal.read_feed("ses_2") == [
            FeedRow("ses_2", 1, (said("a", "b"),)),
            FeedRow("ses_2", 3, (Segment({"agent": "a1"}, (Entry("gone", 5, {"word": "…"}),)),)),
            FeedRow("ses_2", 7, (said("g"),)),
            FeedRow("ses_2", 8, (said("h"),)),
        ]
        assert [(topic, at) for _, topic, at in journal.stale_feeds(after=0)] == [
            ("ses_1", 1),
            ("ses_1", 0),
            ("ses_1", 0),
            ("ses_2", 1),
            ("ses_2", 0),
            ("ses_2", 0),
        ]


def test_a_sealed_row_of_an_old_log_is_as_safe_as_any(with_consumers: Log) -> None:
    with with_consumers.open() as journal:
        journal.replace_feed("ses_2", 3, 7, [said("less")])
    assert with_consumers.verify() == []

    with_consumers.tamper("UPDATE feed SET segments = ? WHERE sealed IS NOT NULL", b"\x90")

    assert [(finding.name, finding.at) for finding in with_consumers.verify()] == [("ses_2", 3)]


def test_a_redacted_event_of_an_old_log_is_as_safe_as_any(with_redaction: Log) -> None:
    assert with_redaction.verify() == []

    with_redaction.tamper(
        "UPDATE stored_events SET state = ? WHERE originator_id = 'ses_1' AND originator_version = 2",
        CODEC.encode(Added(2, "zwei"), MADE_AT)[1],
    )

    assert [(found.name, found.at) for found in with_redaction.verify()] == [("ses_1", 2)]


def test_the_requests_of_an_older_log_are_proven_when_it_is_opened_to_be_written(without_redactions: Log) -> None:
    assert without_redactions.verify() == []
    without_redactions.open().close()
    assert without_redactions.verify() == []

    without_redactions.tamper("UPDATE requests SET note = ? WHERE id = 'req_2'", b"x")

    assert [found.kind for found in without_redactions.verify()] == ["request"]


def test_a_log_from_before_consumers_is_read_as_it_is(without_consumers: Log) -> None:
    with without_consumers.open(read_only=True) as journal:
        assert journal.mark("ses_1", "phone") is None
        assert journal.marks("ses_1") == []
        assert journal.remembered("req_1") is None
        assert journal.stale_feeds(after=0) == []
        assert journal.feed_end("ses_1") == 4
    assert without_consumers.verify() == []


def test_a_log_from_before_consumers_has_them_when_it_is_opened_to_be_written(without_consumers: Log) -> None:
    asked = Remembered("req_1", b"digest", b"note", 1)
    with without_consumers.open(read_only=True) as reader, without_consumers.open() as journal:
        acknowledge(journal, Mark("ses_1", "phone", 2, 1))
        commit(journal, Append("ses_1", None, 0, kept=(said("last"),), remembered=asked))
        assert [(topic, at) for _, topic, at in journal.stale_feeds(after=0)] == [
            ("ses_1", 1),
            ("ses_1", 0),
            ("ses_1", 0),
            ("ses_1", 0),
        ]
        journal.replace_feed("ses_1", 1, 3, [said("less")])

        assert reader.marks("ses_1") == [Mark("ses_1", "phone", 2, 1)]
        assert reader.remembered("req_1") == asked
        assert [row.first_cursor for row in reader.read_feed("ses_1")] == [1, 4, 5]

    assert without_consumers.verify() == []
    with without_consumers.open() as journal:
        assert journal.remembered("req_1") == asked


def test_a_log_is_upgraded_entirely_or_not_at_all(without_consumers: Log) -> None:
    without_consumers.tamper("CREATE TABLE requests (id INTEGER)")

    with pytest.raises(StorageError, match="requests"):
        without_consumers.open()

    without_consumers.tamper("DROP TABLE requests")
    with without_consumers.open(read_only=True) as journal:
        assert journal.marks("ses_1") == []
        assert journal.read_feed("ses_1", after=3) == [FeedRow("ses_1", 4, (said("more"),))]
    with without_consumers.open() as journal:
        acknowledge(journal, Mark("ses_1", "phone", 2, 1))
    assert without_consumers.verify() == []


def test_a_log_of_format_1_is_read_as_it_is_and_nothing_is_due_in_it(of_format_1: Log) -> None:
    with of_format_1.open(read_only=True) as journal:
        assert journal.head() == 4
        assert _due(journal) == []
        assert journal.next_due(after=0) is None
        assert journal.snapshots() == []

    assert _format(of_format_1) == 1


def test_a_log_of_format_1_becomes_one_of_today_when_it_is_opened_to_be_written(of_format_1: Log) -> None:
    with of_format_1.open(read_only=True) as reader, of_format_1.open() as journal:
        commit(journal, Append("ses_1", None, 0, due=9))

        assert _due(reader) == [("ses_1", 9)]

    assert _format(of_format_1) == FORMAT_NOW
    with of_format_1.open() as journal:
        assert journal.next_due(after=0) == 9
    assert of_format_1.verify() == []


def test_what_is_written_today_has_the_bytes_of_format_1(of_format_1: Log, tmp_path: Path) -> None:
    again = tmp_path / "again.db"
    with of_format_1.open() as old, SqliteJournal.open(again, CODEC) as new:
        for each in old.read_all():
            commit(new, Append(each.stream, each.version - 1, each.recorded_at, (each.event,)))

    assert _rows(str(again)) == _rows(of_format_1.url)
    assert verify(again) == []


def _due(journal: Journal) -> list[tuple[str, int]]:
    return journal.due(after=0, until=2 * MADE_AT)


def _format(log: Log) -> int:
    with closing(sqlite3.connect(log.url)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return int(version)


def _rows(log: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(log)) as connection:
        return connection.execute("SELECT * FROM stored_events ORDER BY rowid").fetchall()
