"""What a journal keeps beside its feeds meets the faults that a test asked for, as appends do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from reenact.actors.journal.api import Append, Committed, Entry, FeedJournal, Mark, Outcome, Remembered, Segment
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain.errors import StorageError, StorageFullError
from reenact.testing import CrashedError, FaultyJournal
from tests.kernel.memory import MemoryJournal

WORDS = Segment({}, (Entry("said", 1, "a"), Entry("said", 2, "b")))

WRITES: dict[str, Callable[[FaultyJournal], object]] = {
    "replace_feed": lambda journal: journal.replace_feed("a", 1, 2, []),
    "forget_marks": lambda journal: journal.forget_marks(before=9),
    "forget_requests": lambda journal: journal.forget_requests(before=9),
}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[FaultyJournal]:
    """A journal with a row of a feed, a mark and a request."""
    with FaultyJournal(SqliteJournal.open(tmp_path / "log.db", EventCodec(()), synchronous="OFF")) as journal:
        append(journal, Append("a", None, 0, kept=(WORDS,), remembered=Remembered("r", b"d", b"n", 1)))
        acknowledge(journal, Mark("a", "c", 1, 1))
        yield journal


def append(journal: FaultyJournal, step: Append) -> Outcome:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    journal.append(step, outcomes.put)
    return outcomes.get(timeout=60)


def acknowledge(journal: FaultyJournal, mark: Mark) -> Outcome:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    journal.acknowledge([mark], outcomes.put)
    return outcomes.get(timeout=60)


def left(journal: FaultyJournal) -> tuple[int, list[Mark], bool]:
    """Return how many entries, marks and requests there are."""
    entries = sum(len(segment.entries) for row in journal.read_feed("a") for segment in row.segments)
    return entries, journal.marks("a"), journal.remembered("r") is not None


UNTOUCHED = (2, [Mark("a", "c", 1, 1)], True)


def test_nothing_goes_wrong_that_was_not_asked_for(journal: FaultyJournal) -> None:
    assert isinstance(journal, FeedJournal)
    assert left(journal) == UNTOUCHED
    assert journal.feed_end("a") == 2
    assert [(topic, at) for _, topic, at in journal.stale_feeds(after=0)] == [("a", 0)]
    assert journal.mark("a", "c") == Mark("a", "c", 1, 1)

    assert acknowledge(journal, Mark("a", "c", 2, 2)) == Committed(0, 0)
    assert journal.marks("a") == [Mark("a", "c", 2, 2)]
    assert (journal.forget_marks(before=9, keep=[("a", "c")]), journal.forget_marks(before=9)) == (0, 1)
    assert journal.forget_requests(before=9) == 1
    journal.replace_feed("a", 1, 2, [])

    assert left(journal) == (0, [], False)
    assert journal.stale_feeds(after=0) == []


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_the_next_write_fails_and_no_other(journal: FaultyJournal, write: Callable[[FaultyJournal], object]) -> None:
    journal.fail_next(StorageError("broken"))

    with pytest.raises(StorageError, match="broken"):
        write(journal)

    assert left(journal) == UNTOUCHED
    write(journal)
    assert left(journal) != UNTOUCHED


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_full_disk_takes_no_write(journal: FaultyJournal, write: Callable[[FaultyJournal], object]) -> None:
    journal.disk_full()
    with pytest.raises(StorageFullError):
        write(journal)
    assert left(journal) == UNTOUCHED

    journal.space_again()

    write(journal)
    assert left(journal) != UNTOUCHED


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_crash_before_a_write_leaves_nothing_of_it(
    journal: FaultyJournal, write: Callable[[FaultyJournal], object]
) -> None:
    journal.crash_before_next_append()

    for _ in range(2):
        with pytest.raises(CrashedError):
            write(journal)

    assert journal.crashed
    assert left(journal) == UNTOUCHED


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_crash_after_a_write_leaves_it_and_nobody_knows(
    journal: FaultyJournal, write: Callable[[FaultyJournal], object]
) -> None:
    journal.crash_after_next_append()

    with pytest.raises(CrashedError):
        write(journal)

    assert journal.crashed
    assert left(journal) != UNTOUCHED


def test_an_acknowledgement_fails_as_an_append_does(journal: FaultyJournal) -> None:
    mark = Mark("a", "c", 2, 2)
    journal.fail_next(StorageError("broken"))
    assert str(acknowledge(journal, mark)) == "broken"
    journal.disk_full()
    assert isinstance(acknowledge(journal, mark), StorageFullError)
    journal.calm()
    assert left(journal) == UNTOUCHED

    journal.crash_after_next_append()
    assert isinstance(acknowledge(journal, mark), CrashedError)

    assert journal.marks("a") == [mark]
    with pytest.raises(CrashedError):
        journal.acknowledge([mark], print)
    journal.come_back()
    assert isinstance(acknowledge(journal, Mark("a", "c", 3, 3)), Committed)


def test_a_crash_before_an_acknowledgement_leaves_nothing_of_it(journal: FaultyJournal) -> None:
    journal.crash_before_next_append()

    with pytest.raises(CrashedError):
        journal.acknowledge([Mark("a", "c", 2, 2)], print)

    assert left(journal) == UNTOUCHED


def test_a_conflict_waits_for_an_append(journal: FaultyJournal) -> None:
    journal.conflict_next()

    journal.replace_feed("a", 1, 2, [])
    assert isinstance(acknowledge(journal, Mark("a", "c", 2, 2)), Committed)

    assert journal.planned == 1


def test_a_closed_journal_takes_no_acknowledgement_and_has_none_under_way(tmp_path: Path) -> None:
    with FaultyJournal(SqliteJournal.open(tmp_path / "log.db", EventCodec(()))) as journal:
        pass

    with pytest.raises(Exception, match="closed"):
        journal.acknowledge([], print)

    assert journal.under_way == 0


def test_a_journal_without_feeds_says_so() -> None:
    with FaultyJournal(MemoryJournal()) as journal, pytest.raises(TypeError, match="MemoryJournal has no feed_end"):
        journal.feed_end("a")
