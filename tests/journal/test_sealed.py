"""Rows of a feed that say less than those in whose place they stand, under the same cursors."""

from __future__ import annotations

from queue import SimpleQueue

import pytest

from reenact.actors.journal.api import Append, Entry, FeedRow, Outcome, Segment
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import LogUnusableError, UnstorableError
from tests.journal.support import Added, Log, commit, commit_together, said, step, words_of
from tests.jsons import at

GONE = Segment({"agent": "a1"}, (Entry("gone", 9, {"word": "…"}),))


def rows(journal: StoredJournal, topic: str = "s1") -> list[tuple[int, tuple[Segment, ...]]]:
    return [(row.first_cursor, row.segments) for row in journal.read_feed(topic)]


def keep(journal: StoredJournal, topic: str, *words: str) -> None:
    """Write a row with these words."""
    commit(journal, step(topic, None, kept=[said(*words)]))


@pytest.fixture
def written(journal: StoredJournal) -> StoredJournal:
    """A journal with rows of one to four entries in one feed, and one row in another."""
    for words in ("a", "bc", "def", "ghij"):
        keep(journal, "s1", *words)
    keep(journal, "s2", "x", "y")
    return journal


def test_a_row_that_would_be_long_becomes_several(journal: StoredJournal, log: Log) -> None:
    words = [f"{number} " + "x" * (100_000 if number == 40 else 9_000) for number in range(100)]
    parts = [said(*words[:30]), said(*words[30:31], agent="a2"), said(*words[31:], agent="a3")]

    commit(journal, step("s1", None, kept=parts))
    commit(journal, step("s1", 0, Added(1), kept=[said("after")]))

    assert words_of(journal, "s1") == dict(enumerate([*words, "after"], 1))
    found = rows(journal)
    assert len(found) > 3
    assert all(
        sum(len(at(str, entry.data, "word")) for one in held for entry in one.entries) < 300_000 for _, held in found
    )
    agents = [one.context["agent"] for _, held in found for one in held for _ in one.entries]
    assert agents == ["a1"] * 30 + ["a2"] + ["a3"] * 69 + ["a1"]
    assert log.verify() == []


@pytest.mark.parametrize(("first", "last"), [(1, 3), (2, 6), (2, 3), (4, 10), (7, 10), (1, 10)])
def test_one_row_takes_the_place_of_those_that_hold_its_cursors(
    written: StoredJournal, log: Log, first: int, last: int
) -> None:
    before = rows(written)

    written.replace_feed("s1", first, last, [GONE])

    kept = [row for row in before if not first <= row[0] <= last]
    assert rows(written) == sorted([*kept, (first, (GONE,))], key=lambda row: row[0])
    assert list(written.read_feed_backwards("s1")) == list(reversed(written.read_feed("s1")))
    assert rows(written, "s2") == [(1, (said("x", "y"),))]
    assert log.verify() == []


def test_a_feed_goes_on_behind_a_replaced_end(written: StoredJournal, log: Log) -> None:
    written.replace_feed("s1", 4, 10, [GONE])

    keep(written, "s1", "k")
    written.close()

    with log.open() as journal:
        assert journal.feed_end("s1") == 11
        keep(journal, "s1", "l")
        assert journal.feed_end("s1") == 12
        assert [first for first, _ in rows(journal)] == [1, 2, 4, 11, 12]
    assert log.verify() == []


def test_a_replaced_row_may_hold_nothing_and_still_has_its_cursors(written: StoredJournal, log: Log) -> None:
    written.replace_feed("s1", 1, 10, [])

    assert written.read_feed("s1") == [FeedRow("s1", 1, ())]
    assert written.read_feed("s1", after=9) == [FeedRow("s1", 1, ())]
    assert written.read_feed("s1", after=10) == []
    assert written.feed_end("s1") == 10
    assert log.verify() == []


def test_a_sealed_row_is_replaced_again_with_its_neighbours(written: StoredJournal, log: Log) -> None:
    written.replace_feed("s1", 2, 6, [GONE])

    written.replace_feed("s1", 1, 6, [GONE, said("b")])
    written.replace_feed("s1", 1, 6, [GONE])
    written.replace_feed("s1", 1, 10, [said("all")])

    assert rows(written) == [(1, (said("all"),))]
    assert log.verify() == []
    keep(written, "s1", "k")
    assert log.verify() == []


@pytest.mark.parametrize(
    ("topic", "first", "last"),
    [("s1", 1, 2), ("s1", 3, 3), ("s1", 1, 11), ("s1", 0, 3), ("s1", 11, 11), ("s1", 3, 1), ("s1", 5, 6), ("s9", 1, 1)],
)
def test_cursors_that_are_not_those_of_rows_are_not_replaced(
    written: StoredJournal, topic: str, first: int, last: int
) -> None:
    before = rows(written)

    with pytest.raises(ValueError, match=rf"{topic}.* {first} to {last}"):
        written.replace_feed(topic, first, last, [GONE])

    assert rows(written) == before
    keep(written, "s1", "k")


def test_a_replacement_shares_a_commit_with_steps_of_its_topic(written: StoredJournal, log: Log) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()

    for word in "kl":
        written.append(Append("s1", None, 0, kept=(said(word),)), outcomes.put)
    written.replace_feed("s1", 7, 10, [GONE])
    written.append(step("s1", 0, Added(1), kept=[said("m")]), outcomes.put)
    for _ in range(3):
        assert not isinstance(outcomes.get(timeout=60), Exception)

    assert words_of(written, "s1", after=10) == {11: "k", 12: "l", 13: "m"}
    assert log.verify() == []


def test_changed_rows_are_not_sealed(written: StoredJournal, log: Log) -> None:
    log.tamper("UPDATE steps SET feed = ? WHERE stream = 's1' AND cursor = 2", b"\x90")

    for first, last in ((1, 3), (2, 3), (2, 6)):
        with pytest.raises(LogUnusableError, match="'s1' is damaged at cursor 2"):
            written.replace_feed("s1", first, last, [GONE])

    written.replace_feed("s1", 7, 10, [GONE])
    assert [finding.at for finding in log.verify()] == [2]


def test_a_gap_is_not_sealed(written: StoredJournal, log: Log) -> None:
    log.tamper("DELETE FROM steps WHERE stream = 's1' AND cursor = 2")

    for first in (1, 4):
        with pytest.raises(LogUnusableError, match="cursor 2 is missing"):
            written.replace_feed("s1", first, 6, [GONE])


def test_what_cannot_be_encoded_replaces_nothing(written: StoredJournal) -> None:
    before = rows(written)

    with pytest.raises(UnstorableError):
        written.replace_feed("s1", 1, 1, [Segment({}, (Entry("said", 1, object()),))])

    assert rows(written) == before


def test_the_end_of_a_feed_is_its_last_cursor(journal: StoredJournal) -> None:
    assert journal.feed_end("s1") == 0

    keep(journal, "s1", "a", "b")
    keep(journal, "s2", "c")

    assert (journal.feed_end("s1"), journal.feed_end("s2"), journal.feed_end("s3")) == (2, 1, 0)


def dated(topic: str, *times: int) -> Append:
    """Make a step with a segment for each time, which is recorded at the last of them."""
    segments = (Segment({}, (Entry("said", 0, {}), Entry("said", at, {"word": "w"}))) for at in times)
    return Append(topic, None, times[-1], kept=tuple(segments))


def test_rows_that_are_not_sealed_come_in_the_order_of_their_writing(journal: StoredJournal) -> None:
    for topic, times in (("s2", (5, 7)), ("s1", (6,)), ("s2", (8,)), ("s1", (3,))):
        commit(journal, dated(topic, *times))

    stale = journal.stale_feeds(after=0)

    assert [(topic, at) for _, topic, at in stale] == [("s2", 7), ("s1", 6), ("s2", 8), ("s1", 3)]
    assert [place for place, _, _ in stale] == sorted({place for place, _, _ in stale})
    assert journal.stale_feeds(after=stale[1][0]) == stale[2:]
    assert journal.stale_feeds(after=0, limit=2) == stale[:2]
    assert journal.stale_feeds(after=stale[-1][0]) == []


def test_sealed_rows_are_not_stale_and_what_is_written_later_has_a_later_place(journal: StoredJournal) -> None:
    for number in range(4):
        commit(journal, dated("s1", number))
    *_, (last, _, _) = before = journal.stale_feeds(after=0)

    journal.replace_feed("s1", 3, 8, [])
    commit(journal, dated("s2", 9))
    journal.replace_feed("s2", 1, 2, [])
    commit(journal, dated("s2", 10))

    assert journal.stale_feeds(after=0)[:1] == before[:1]
    assert [(topic, at) for _, topic, at in journal.stale_feeds(after=last)] == [("s2", 10)]


def test_rows_with_events_keep_them_and_end_what_is_put_together(journal: StoredJournal, log: Log) -> None:
    keep(journal, "s1", "a", "b")
    keep(journal, "s1", "c")
    commit(journal, step("s1", 0, Added(1), Added(2), kept=[said("d")]))
    keep(journal, "s1", "e")
    keep(journal, "s1", "f")
    before = journal.link("s1", 2)

    with pytest.raises(ValueError, match="1 to 5"):
        journal.replace_feed("s1", 1, 5, [GONE])
    journal.replace_feed("s1", 1, 4, [GONE])
    journal.replace_feed("s1", 5, 6, [GONE])

    assert rows(journal) == [(1, (GONE,)), (5, (GONE,))]
    assert [row.has_events for row in journal.read_feed("s1")] == [True, False]
    assert [row.event for row in journal.read("s1")] == [Added(1), Added(2)]
    assert journal.link("s1", 2) == before
    commit(journal, step("s1", 2, Added(3), kept=[said("g")]))
    assert log.verify() == []


def test_rows_with_events_of_which_nobody_hears_stand_between(journal: StoredJournal, log: Log) -> None:
    keep(journal, "s1", "a")
    commit(journal, step("s1", 0, Added(1)))
    keep(journal, "s1", "b")

    with pytest.raises(ValueError, match="1 to 2"):
        journal.replace_feed("s1", 1, 2, [GONE])
    journal.replace_feed("s1", 2, 2, [GONE])

    assert log.verify() == []


def test_deltas_of_the_same_transaction_are_in_the_row_of_the_step_behind_them(
    journal: StoredJournal, log: Log
) -> None:
    commit_together(
        journal,
        step("s1", None, kept=[said("a", "b")]),
        step("s1", 0, Added(1), kept=[said("c")]),
        step("s1", None, kept=[said("d")]),
        step("s1", 1, Added(2)),
    )

    assert [(row.first_cursor, row.has_events) for row in journal.read_feed("s1")] == [(1, True), (4, True)]
    assert words_of(journal, "s1") == {1: "a", 2: "b", 3: "c", 4: "d"}
    assert [row.position for row in journal.read("s1")] == [1, 2]
    assert log.verify() == []
