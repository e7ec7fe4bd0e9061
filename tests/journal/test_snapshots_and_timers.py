"""What stands beside the events of a stream: the last snapshot, and when it is to be woken."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from msgspec import UNSET, UnsetType

from reenact.actors.journal.api import Append, Committed, Done, Snapshot
from reenact.actors.journal.requests import Purge, Request, Step
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import ConflictError
from tests.journal.support import Added, Log, commit, settle, settle_together, step


def photographed(stream: str, version: int, state: bytes = b"state", *, events: int = 0) -> Append:
    """Make a step with so many events and a snapshot behind them."""
    snapshot = Snapshot(stream, version + events, "sum:1", state)
    return Append(stream, version, 0, tuple(Added(number) for number in range(events)), snapshot=snapshot)


def waking(stream: str, due: int | UnsetType | None) -> Append:
    return Append(stream, None, 0, due=due)


def test_the_last_snapshot_of_a_stream_comes_back(journal: StoredJournal) -> None:
    commit(journal, photographed("s1", 0, b"one", events=2))
    assert journal.snapshot("s1") == Snapshot("s1", 2, "sum:1", b"one")

    commit(journal, photographed("s1", 2, b"two", events=1))

    assert journal.snapshot("s1") == Snapshot("s1", 3, "sum:1", b"two")
    assert journal.snapshots() == [Snapshot("s1", 3, "sum:1", b"two")]
    assert journal.snapshot("s2") is None


def test_a_snapshot_may_be_taken_again_at_the_same_version(journal: StoredJournal) -> None:
    commit(journal, photographed("s1", 0, b"one", events=1))
    commit(journal, photographed("s1", 1, b"two"), photographed("s1", 1, b"three"))

    assert journal.snapshot("s1") == Snapshot("s1", 1, "sum:1", b"three")


def test_a_refused_step_leaves_no_snapshot_and_no_timer(journal: StoredJournal) -> None:
    commit(journal, waking("s1", 5))

    (outcome,) = settle(journal, Append("s1", 7, 0, snapshot=Snapshot("s1", 7, "sum:1", b""), due=9))

    assert isinstance(outcome, ConflictError)
    assert journal.snapshot("s1") is None
    assert journal.due(after=0, until=100) == [("s1", 5)]


def test_snapshots_are_read_in_pages_by_the_names_of_their_streams(journal: StoredJournal) -> None:
    # As bytes are ordered, whatever the language of a server may say.
    names = ["B", "a", "a/1", "aa", "b", "é"]
    commit(journal, *(photographed(name, 0, events=1) for name in reversed(names)))

    first = journal.snapshots(limit=4)
    second = journal.snapshots(after=first[-1].stream, limit=4)

    assert [each.stream for each in [*first, *second]] == names


def test_all_snapshots_are_deleted_and_nothing_else(journal: StoredJournal, log: Log) -> None:
    commit(journal, photographed("s1", 0, events=1), photographed("s2", 0, events=1), waking("s1", 5))

    journal.delete_snapshots()

    assert journal.snapshots() == []
    assert journal.snapshot("s1") is None
    assert journal.head() == 2
    assert journal.next_due(after=0) == 5
    commit(journal, photographed("s1", 1, b"again"))
    assert [each.state for each in journal.snapshots()] == [b"again"]
    assert log.verify() == []


@pytest.mark.parametrize("is_last", [False, True])
def test_a_deletion_takes_what_stands_before_it_and_nothing_behind_it(journal: StoredJournal, *, is_last: bool) -> None:
    commit(journal, photographed("s1", 0, b"first", events=1))
    makers: list[Callable[[Done], Request]] = [Purge, partial(Step, photographed("s1", 1, b"second"))]

    settle_together(journal, *(reversed(makers) if is_last else makers))

    assert [each.state for each in journal.snapshots()] == ([] if is_last else [b"second"])


def test_a_stream_is_due_until_it_says_otherwise(journal: StoredJournal) -> None:
    commit(journal, waking("s1", 5), waking("s2", 3), waking("s3", 7))
    assert journal.due(after=0, until=100) == [("s2", 3), ("s1", 5), ("s3", 7)]

    commit(journal, waking("s1", 9), waking("s2", None), waking("s3", UNSET), step("s3", 0, Added(1)))

    assert journal.due(after=0, until=100) == [("s3", 7), ("s1", 9)]


def test_the_last_of_several_times_in_one_commit_counts(journal: StoredJournal) -> None:
    commit(journal, waking("s1", 5), waking("s1", None), waking("s2", None), waking("s2", 8))

    assert journal.due(after=0, until=100) == [("s2", 8)]


def test_what_is_due_is_asked_for_by_time(journal: StoredJournal) -> None:
    commit(journal, *(waking(f"s{at}", at) for at in (10, 20, 30)))

    assert journal.due(after=10, until=30) == [("s20", 20), ("s30", 30)]
    assert journal.due(after=0, until=100, limit=1) == [("s10", 10)]
    assert journal.due(after=30, until=100) == []
    assert [journal.next_due(after=after) for after in (0, 10, 29, 30)] == [10, 20, 30, None]


def test_snapshots_and_timers_outlive_the_journal(log: Log) -> None:
    with log.open() as journal:
        commit(journal, photographed("s1", 0, b"one", events=1), waking("s1", 5))

    for read_only in (True, False):
        with log.open(read_only=read_only) as journal:
            assert journal.snapshot("s1") == Snapshot("s1", 1, "sum:1", b"one")
            assert journal.due(after=0, until=5) == [("s1", 5)]


def test_a_timer_without_events_is_a_step_like_any_other(journal: StoredJournal) -> None:
    assert commit(journal, waking("s1", 5)) == Committed(0, 0)
    assert journal.read("s1") == []
