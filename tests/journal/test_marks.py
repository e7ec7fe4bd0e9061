"""How far consumers have come is kept, goes only forward, and is forgotten after a while."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact.actors.journal.api import Committed, FeedJournal, Mark, Outcome
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import LogUnusableError, UnstorableError
from tests.journal.support import Added, Log, acknowledge, said, step

_marks = st.lists(
    st.builds(
        Mark, st.sampled_from(["s1", "s2"]), st.sampled_from(["a", "b", "ü"]), st.integers(0, 5), st.integers(0, 5)
    ),
    max_size=8,
)


def test_what_was_acknowledged_outlives_the_journal(log: Log) -> None:
    with log.open() as journal:
        acknowledge(journal, Mark("s1", "phone", 3, 10), Mark("s1", "desk", 1, 11), Mark("s2", "phone", 7, 12))

    with log.open() as journal:
        assert journal.mark("s1", "phone") == Mark("s1", "phone", 3, 10)
        assert journal.marks("s1") == [Mark("s1", "desk", 1, 11), Mark("s1", "phone", 3, 10)]
        assert journal.marks("s2") == [Mark("s2", "phone", 7, 12)]
        assert journal.mark("s2", "desk") is None
        assert journal.marks("s3") == []


@pytest.mark.parametrize("bursts", [[[0, 1, 2]], [[0], [1], [2]], [[0], [1, 2]]])
def test_a_cursor_never_goes_back_nor_does_its_time(journal: StoredJournal, bursts: list[list[int]]) -> None:
    said_one_by_one = [Mark("s1", "a", 5, 20), Mark("s1", "a", 3, 30), Mark("s1", "a", 4, 10)]

    for burst in bursts:
        acknowledge(journal, *(said_one_by_one[number] for number in burst))

    assert journal.mark("s1", "a") == Mark("s1", "a", 5, 30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bursts=st.lists(_marks, min_size=1, max_size=4))
def test_in_whatever_order_marks_come_the_highest_stand(journal: StoredJournal, bursts: list[list[Mark]]) -> None:
    journal.forget_marks(before=100)

    for burst in bursts:
        acknowledge(journal, *burst)

    all_said = [mark for burst in bursts for mark in burst]
    for topic in ("s1", "s2"):
        assert journal.marks(topic) == [
            Mark(topic, client_id, max(mark.cursor for mark in own), max(mark.at for mark in own))
            for client_id in ("a", "b", "ü")
            if (own := [mark for mark in all_said if (mark.topic, mark.client_id) == (topic, client_id)])
        ]


def test_marks_share_a_commit_with_steps(journal: StoredJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()

    journal.append(step("s1", 0, Added(1), kept=[said("a")]), outcomes.put)
    journal.acknowledge([Mark("s1", "a", 1, 1)], outcomes.put)
    journal.append(step("s1", 1, Added(2)), outcomes.put)

    assert [outcomes.get(timeout=60) for _ in range(3)] == [Committed(1, 1), Committed(0, 1), Committed(2, 2)]
    assert journal.marks("s1") == [Mark("s1", "a", 1, 1)]


def test_marks_that_were_not_said_for_long_are_forgotten_but_for_those_to_be_kept(journal: StoredJournal) -> None:
    acknowledge(journal, *(Mark("s1", f"c{number}", 1, number) for number in range(6)), Mark("s2", "c1", 1, 1))

    assert journal.forget_marks(before=4, keep=[("s1", "c1"), ("s1", "c5"), ("s1", "unknown")]) == 4

    assert [mark.client_id for mark in journal.marks("s1")] == ["c1", "c4", "c5"]
    assert journal.marks("s2") == []
    assert journal.forget_marks(before=4, keep=[("s1", "c1")]) == 0


def test_more_marks_are_forgotten_than_one_transaction_takes(journal: StoredJournal) -> None:
    acknowledge(journal, *(Mark(f"s{number % 7}", f"c{number}", 1, number) for number in range(1300)))

    assert journal.forget_marks(before=1290, keep=[("s0", "c0")]) == 1289

    assert [mark.client_id for topic in range(7) for mark in journal.marks(f"s{topic}")] == [
        "c0",
        *(f"c{number}" for number in sorted(range(1290, 1300), key=lambda number: number % 7)),
    ]


def test_a_mark_that_is_said_again_while_it_is_being_forgotten_stands(journal: StoredJournal) -> None:
    acknowledge(journal, Mark("s1", "a", 1, 1))
    outcomes: SimpleQueue[Outcome] = SimpleQueue()

    journal.acknowledge([Mark("s1", "a", 2, 9)], outcomes.put)

    assert journal.forget_marks(before=5) in {0, 1}
    assert isinstance(outcomes.get(timeout=60), Committed)
    assert journal.marks("s1") == [Mark("s1", "a", 2, 9)]


def test_what_cannot_be_stored_of_one_consumer_is_refused_and_that_of_others_stands(journal: StoredJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()

    for client_id in ("a", "\ud800", "b"):
        journal.acknowledge([Mark("s1", client_id, 1, 1)], outcomes.put)
    first, second, third = (outcomes.get(timeout=60) for _ in range(3))

    assert isinstance(first, Committed)
    assert isinstance(second, UnstorableError)
    assert isinstance(third, Committed)
    assert [mark.client_id for mark in journal.marks("s1")] == ["a", "b"]


def test_another_journal_of_the_log_sees_the_marks(log: Log) -> None:
    with log.open() as journal, log.open(read_only=True) as reader:
        acknowledge(journal, Mark("s1", "a", 1, 1))

        assert reader.mark("s1", "a") == Mark("s1", "a", 1, 1)


def test_a_stored_journal_is_one_with_feeds(journal: StoredJournal) -> None:
    assert isinstance(journal, FeedJournal)


@pytest.mark.parametrize(("column", "value"), [("cursor", "abc"), ("cursor", b"\x00"), ("seen_at", "now")])
def test_a_mark_that_is_damaged_is_named(path: Path, column: str, value: str | bytes) -> None:
    log = Log(str(path))
    with log.open() as journal:
        acknowledge(journal, Mark("s1", "phone", 3, 10))
        log.tamper(f"UPDATE consumers SET {column} = ?", value)  # noqa: S608 - ours

        for read in (lambda: journal.mark("s1", "phone"), lambda: journal.marks("s1")):
            with pytest.raises(LogUnusableError, match=r"consumer 'phone' of 's1' in the table consumers is damaged"):
                read()
