"""Records of another log become part of this one as they are, or not at all, whatever keeps the two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from reenact.actors.journal.api import Append, Committed, FeedRow
from reenact.actors.journal.chain import FeedRecord, Record, Timer
from reenact.actors.journal.records import open_records
from reenact.actors.journal.requests import Intake, Step
from reenact.domain.errors import ConflictError, LogUnusableError, StorageError
from tests.journal.conftest import postgres_log
from tests.journal.support import CODEC, Added, Log, commit, said, settle_together, step


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, path: Path) -> Log:
    """Where a log may begin, in a file and in a database."""
    return Log(f"{path}.target") if request.param == "sqlite" else postgres_log(request)


@pytest.fixture
def source(path: Path) -> Log:
    """A log of two streams with feeds, of which one row is sealed, and a timer."""
    log = Log(f"{path}.source")
    with log.open(synchronous="OFF") as journal:
        for version in range(3):
            for stream in ("s1", "s2"):
                commit(journal, step(stream, version, Added(version), kept=[said("a", "b")]))
        journal.replace_feed("s1", 1, 4, [said("less")])
        commit(journal, Append("s2", None, 0, due=77))
    return log


def records_of(log: Log) -> tuple[list[Record], list[FeedRecord], list[Timer]]:
    with open_records(log.url) as records:
        assert records.count_events() == len(list(records.events()))
        assert records.count_rows() == len(list(records.rows()))
        return list(records.events()), list(records.rows()), list(records.timers())


def test_what_is_taken_in_is_what_it_was(source: Log, target: Log) -> None:
    events, rows, timers = records_of(source)

    with target.open(synchronous="OFF") as journal:
        position = journal.take_in(events=events, rows=rows, timers=timers)

        assert position == journal.head() == 6
        assert journal.next_due(after=0) == 77
        assert journal.read_feed("s1")[0] == FeedRow("s1", 1, (said("less"),))
    assert records_of(target) == (events, rows, timers)
    assert target.verify() == []


def test_a_log_goes_on_behind_what_it_has_taken_in(source: Log, target: Log) -> None:
    events, rows, _ = records_of(source)
    with target.open(synchronous="OFF") as journal:
        commit(journal, step("s0", 0, Added(1)))
        journal.take_in(events=events, rows=rows)

        assert commit(journal, step("s1", 3, Added(9), kept=[said("c")])) == Committed(4, 8)
        assert journal.read_feed("s1")[-1].first_cursor == 7

    assert target.verify() == []


def test_only_what_is_asked_for_is_read(source: Log) -> None:
    with open_records(source.url) as records:
        assert {record.stream for record in records.events(["s1", "nobody"])} == {"s1"}
        assert {record.topic for record in records.rows(["s2"])} == {"s2"}
        assert (records.count_events(["s1"]), records.count_rows(["s1"]), records.count_rows([])) == (3, 2, 0)
        assert list(records.timers(["s1"])) == []
        assert records.head() == 6


def test_records_are_those_of_one_moment(target: Log) -> None:
    with target.open(synchronous="OFF") as journal:
        commit(journal, step("s1", 0, Added(1)))
        with open_records(target.url) as records:
            assert records.head() == 1
            commit(journal, step("s1", 1, Added(2)))

            assert len(list(records.events())) == 1


def test_redacted_events_are_taken_in_with_their_seals(source: Log, target: Log) -> None:
    events, _, _ = records_of(source)
    of_s1 = [record for record in events if record.stream == "s1"]
    topic, state = CODEC.encode(Added(0, "less"), 0)
    redacted = of_s1[1].redacted(of_s1[0].digest, topic, state)

    with target.open(synchronous="OFF") as journal:
        journal.take_in(events=[of_s1[0], redacted, of_s1[2]])

        assert [row.event for row in journal.read("s1")][1] == Added(0, "less")
    assert [record.seal for record in records_of(target)[0]] == [None, redacted.seal, None]
    assert target.verify() == []

    target.tamper("DELETE FROM redactions")

    assert [(found.name, found.at) for found in target.verify()] == [("s1", 2)]


Change: TypeAlias = Callable[[list[Record], list[FeedRecord]], None]


def _gap(events: list[Record], rows: list[FeedRecord]) -> None:
    del events[2]


def _altered(events: list[Record], rows: list[FeedRecord]) -> None:
    other = events[3]
    events[3] = Record(other.stream, other.version, 0, other.topic, other.state + b"\0", other.digest)


def _twice(events: list[Record], rows: list[FeedRecord]) -> None:
    events.append(events[0])


def _gap_in_a_feed(events: list[Record], rows: list[FeedRecord]) -> None:
    del rows[1]
    rows.append(rows.pop(0))
    del rows[0]


def _altered_row(events: list[Record], rows: list[FeedRecord]) -> None:
    other = rows[0]
    rows[0] = FeedRecord(other.topic, 1, other.count, other.segments + b"\0", other.digest, other.seal)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_gap, ConflictError),
        (_altered, LogUnusableError),
        (_twice, ConflictError),
        (_gap_in_a_feed, ConflictError),
        (_altered_row, LogUnusableError),
    ],
)
def test_what_does_not_follow_is_refused_with_all_that_comes_with_it(
    source: Log, target: Log, change: Change, error: type[StorageError]
) -> None:
    events, rows, _ = records_of(source)
    change(events, rows)

    with target.open(synchronous="OFF") as journal:
        with pytest.raises(error):
            journal.take_in(events=events, rows=rows)

        assert journal.head() == 0
        assert journal.read_feed("s1") == []
        commit(journal, step("s1", 0, Added(1), kept=[said("a")]))
    assert target.verify() == []


def test_what_was_packed_in_the_same_transaction_comes_first(source: Log, target: Log) -> None:
    _, rows, _ = records_of(source)
    of_s2 = [row for row in rows if row.topic == "s2"]

    with target.open(synchronous="OFF") as journal:
        step_first = Append("s2", None, 0, kept=(said("a", "b"),))
        outcomes = settle_together(
            journal,
            lambda done: Step(step_first, done),
            lambda done: Intake(done, rows=tuple(of_s2[1:])),
        )

        assert outcomes == [Committed(0, 0), Committed(0, 0)]
        assert [row.first_cursor for row in journal.read_feed("s2")] == [1, 3, 5]
    assert target.verify() == []


def test_where_streams_and_feeds_end_is_told(source: Log) -> None:
    with source.open(read_only=True) as journal:
        events, rows, _ = records_of(source)
        of_s1 = [record for record in events if record.stream == "s1"]
        assert journal.stream_end("s1") == (3, of_s1[2].digest)
        assert journal.digest_at("s1", 2) == of_s1[1].digest
        assert journal.topic_end("s1") == (6, rows[1].digest)
        assert journal.row_digest_at("s1", 4) == rows[0].digest
        assert (journal.stream_end("x"), journal.digest_at("s1", 9)) == (None, None)
        assert (journal.topic_end("x"), journal.row_digest_at("s1", 2)) == (None, None)


def test_what_is_no_log_has_no_records(path: Path, request: pytest.FixtureRequest) -> None:
    for log in (Log(f"{path}.none"), postgres_log(request)):
        with pytest.raises(LogUnusableError), open_records(log.url):
            pytest.fail("it was opened")
