"""Records of another log become part of this one as they are, or not at all, whatever keeps the two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from reenact.actors.journal.api import Append, Committed, FeedRow
from reenact.actors.journal.records import open_records
from reenact.actors.journal.requests import RowImport, Step
from reenact.domain.chain import Row, Timer
from reenact.domain.errors import ConflictError, LogUnusableError, StorageError
from tests.journal.conftest import postgres_log
from tests.journal.support import CODEC, Added, Log, commit, said, settle_together, step


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, path: Path) -> Log:
    """Where a log may begin, in a file and in a database."""
    return Log(f"{path}.target") if request.param == "sqlite" else postgres_log(request)


@pytest.fixture
def source(path: Path) -> Log:
    """A log of two streams with announcements, of which those of a row stand in the place of others, and a timer."""
    log = Log(f"{path}.source")
    with log.open(synchronous="OFF") as journal:
        for version in range(3):
            for stream in ("s1", "s2"):
                commit(journal, step(stream, None, kept=[said("d")]))
                commit(journal, step(stream, version, Added(version), kept=[said("a", "b")]))
        journal.replace_feed("s1", 1, 3, [said("less")])
        commit(journal, Append("s2", None, 0, due=77))
    return log


def rows_of(log: Log) -> tuple[list[Row], list[Timer]]:
    with open_records(log.url) as records:
        rows = list(records.rows())
        assert records.count_rows() == len(rows)
        assert records.count_events() == sum(row.count for row in rows)
        return rows, list(records.timers())


def unplaced(rows: list[Row]) -> list[Row]:
    """Return rows without what is the log's."""
    return [msgspec.structs.replace(row, number=0, position=None) for row in rows]


def test_what_is_taken_in_is_what_it_was(source: Log, target: Log) -> None:
    rows, timers = rows_of(source)

    with target.open(synchronous="OFF") as journal:
        position = journal.import_rows(rows=rows, timers=timers)

        assert position == journal.head() == 6
        assert journal.next_due(after=0) == 77
        assert journal.read_feed("s1")[0] == FeedRow("s1", 1, (said("less"),), has_events=True)
    taken, woken = rows_of(target)
    assert (unplaced(taken), woken) == (unplaced(rows), timers)
    assert [row.number for row in taken] == list(range(1, len(rows) + 1))
    assert target.verify() == []


def test_a_log_goes_on_behind_what_it_has_taken_in(source: Log, target: Log) -> None:
    rows, _ = rows_of(source)
    with target.open(synchronous="OFF") as journal:
        commit(journal, step("s0", 0, Added(1)))
        journal.import_rows(rows=rows)

        assert commit(journal, step("s1", 3, Added(9), kept=[said("c")])) == Committed(4, 8)
        assert journal.read_feed("s1")[-1].first_cursor == 10

    assert target.verify() == []


def test_only_what_is_asked_for_is_read(source: Log) -> None:
    with open_records(source.url) as records:
        assert {row.stream for row in records.rows(["s1", "nobody"])} == {"s1"}
        assert (records.count_events(["s1"]), records.count_rows(["s1"]), records.count_rows([])) == (3, 5, 0)
        assert list(records.timers(["s1"])) == []
        assert records.head() == 6


def test_rows_are_those_of_one_moment(target: Log) -> None:
    with target.open(synchronous="OFF") as journal:
        commit(journal, step("s1", 0, Added(1)))
        with open_records(target.url) as records:
            assert records.head() == 1
            commit(journal, step("s1", 1, Added(2)))

            assert len(list(records.rows())) == 1


def test_redacted_events_are_taken_in_with_their_seals(source: Log, target: Log) -> None:
    rows, _ = rows_of(source)
    of_s1 = [row for row in rows if row.stream == "s1"]
    events = msgspec.msgpack.encode([CODEC.encode(Added(0, "less"), 0)])
    row = of_s1[2]
    redacted = row.replaced(
        of_s1[1].digest, cause=None, events=events, feed=row.feed, cursor=row.cursor, heard=row.heard
    )

    with target.open(synchronous="OFF") as journal:
        journal.import_rows(rows=[*of_s1[:2], redacted, *of_s1[3:]])

        assert [row.event for row in journal.read("s1")][1] == Added(0, "less")
    assert [row.is_redacted for row in rows_of(target)[0]] == [False, False, True, False, False]
    assert target.verify() == []

    target.tamper("UPDATE steps SET seal = NULL, original = NULL WHERE version = 2")

    assert [(found.name, found.at) for found in target.verify()] == [("s1", 2)]


Change: TypeAlias = Callable[[list[Row]], None]


def _gap(rows: list[Row]) -> None:
    del rows[3]


def _gap_between_announcements(rows: list[Row]) -> None:
    del rows[4]


def _altered(rows: list[Row]) -> None:
    rows[3] = msgspec.structs.replace(rows[3], events=b"\x91\x92\xa1a\xc4\x00")


def _altered_feed(rows: list[Row]) -> None:
    rows[0] = msgspec.structs.replace(rows[0], feed=b"\x90")


def _twice(rows: list[Row]) -> None:
    rows.append(rows[0])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_gap, ConflictError),
        (_gap_between_announcements, ConflictError),
        (_altered, LogUnusableError),
        (_altered_feed, LogUnusableError),
        (_twice, ConflictError),
    ],
)
def test_what_does_not_follow_is_refused_with_all_that_comes_with_it(
    source: Log, target: Log, change: Change, error: type[StorageError]
) -> None:
    rows, _ = rows_of(source)
    change(rows)

    with target.open(synchronous="OFF") as journal:
        with pytest.raises(error):
            journal.import_rows(rows=rows)

        assert journal.head() == 0
        assert journal.read_feed("s1") == []
        commit(journal, step("s1", 0, Added(1), kept=[said("a")]))
    assert target.verify() == []


def test_what_was_packed_in_the_same_transaction_comes_first(source: Log, target: Log) -> None:
    rows, _ = rows_of(source)
    of_s2 = [row for row in rows if row.stream == "s2"]

    with target.open(synchronous="OFF") as journal:
        step_first = Append("s2", None, of_s2[0].recorded_at, kept=(said("d"),))
        outcomes = settle_together(
            journal,
            lambda done: Step(step_first, done),
            lambda done: RowImport(done, rows=tuple(of_s2[1:])),
        )

        assert outcomes == [Committed(0, 0), Committed(0, 3)]
        assert [row.first_cursor for row in journal.read_feed("s2")] == [1, 2, 4, 5, 7, 8]
    assert target.verify() == []


def test_where_streams_end_is_told(source: Log) -> None:
    with source.open(read_only=True) as journal:
        rows, _ = rows_of(source)
        *_, before, last = (row for row in rows if row.stream == "s1")
        assert journal.stream_end("s1") == (3, 9, last.digest)
        assert journal.digest_at("s1", 3) == last.digest
        assert journal.digest_at_cursor("s1", 9) == last.digest
        assert journal.digest_at_cursor("s1", 7) == before.digest
        assert (journal.stream_end("x"), journal.digest_at("s1", 9)) == (None, None)
        assert (journal.digest_at_cursor("x", 1), journal.digest_at_cursor("s1", 8)) == (None, None)


def test_what_is_no_log_has_no_records(path: Path, request: pytest.FixtureRequest) -> None:
    for log in (Log(f"{path}.none"), postgres_log(request)):
        with pytest.raises(LogUnusableError), open_records(log.url):
            pytest.fail("it was opened")
