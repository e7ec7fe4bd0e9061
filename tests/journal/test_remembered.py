"""A request that a step carries out is remembered with it, and no other step carries it out."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.actors.journal.api import Append, Committed, Publication, Remembered, Snapshot
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import ConflictError, LogUnusableError, RequestReusedError, StorageError
from tests.journal.support import Added, Log, Unregistered, commit, said, settle, step, words_of


def asked(request_id: str, at: int = 1, note: bytes = b"note") -> Remembered:
    return Remembered(request_id, b"digest of what was asked", note, at)


def carrying_out(stream: str, after: int | None, request: Remembered, *amounts: int) -> Append:
    return Append(stream, after, 0, tuple(Added(amount) for amount in amounts), remembered=request)


def amounts(journal: StoredJournal, stream: str = "s1") -> list[int]:
    return [each.event.amount for each in journal.read(stream)]


def test_a_request_is_remembered_with_the_step_that_carries_it_out(log: Log) -> None:
    with log.open() as journal:
        commit(journal, carrying_out("s1", 0, asked("r1", 5, b"\x00\xff"), 1))
        commit(journal, carrying_out("s1", None, asked("r2")))

    with log.open() as journal:
        assert journal.remembered("r1") == Remembered("r1", b"digest of what was asked", b"\x00\xff", 5)
        assert journal.remembered("r2") == asked("r2")
        assert journal.remembered("r3") is None
    assert log.verify() == []


def test_a_request_that_has_taken_effect_is_refused_and_nothing_of_its_step_is_recorded(
    journal: StoredJournal, heard: list[Publication], log: Log
) -> None:
    commit(journal, carrying_out("s1", 0, asked("r1"), 1))

    (outcome,) = settle(
        journal,
        Append(
            "s2",
            0,
            0,
            (Added(2),),
            (said("a"),),
            (said("b"),),
            Snapshot("s2", 1, "sum:1", b""),
            due=7,
            remembered=asked("r1", note=b"other"),
        ),
    )

    assert isinstance(outcome, RequestReusedError)
    assert outcome.request_id == "r1"
    assert journal.read("s2") == []
    assert words_of(journal, "s2") == {}
    assert journal.snapshots() == []
    assert journal.next_due(after=0) is None
    assert heard == []
    assert journal.remembered("r1") == asked("r1")
    assert log.verify() == []


@pytest.mark.parametrize("together", [True, False])
def test_others_do_not_suffer_when_a_request_is_refused(journal: StoredJournal, *, together: bool) -> None:
    steps = [
        carrying_out("s1", 0, asked("r1"), 1),
        carrying_out("s1", 1, asked("r1"), 2),
        step("s1", 1, Added(3)),
        carrying_out("s2", 0, asked("r1"), 4),
        carrying_out("s2", 0, asked("r2"), 5),
    ]

    bursts = [steps] if together else [[each] for each in steps]
    outcomes = [type(outcome) for burst in bursts for outcome in settle(journal, *burst)]

    assert outcomes == [Committed, RequestReusedError, Committed, RequestReusedError, Committed]
    assert (amounts(journal), amounts(journal, "s2")) == ([1, 3], [5])


def test_whoever_counts_on_a_refused_step_is_refused_too(journal: StoredJournal) -> None:
    commit(journal, carrying_out("s1", 0, asked("r1"), 1))

    outcomes = settle(journal, carrying_out("s1", 1, asked("r1"), 2), step("s1", 2, Added(3)))

    assert [type(outcome) for outcome in outcomes] == [RequestReusedError, ConflictError]
    assert amounts(journal) == [1]


def test_a_request_whose_step_is_refused_for_another_reason_can_be_asked_again(journal: StoredJournal) -> None:
    unstorable = Append("s1", 0, 0, (Unregistered(),), remembered=asked("r1"))
    outcomes = settle(journal, unstorable, carrying_out("s2", 5, asked("r2"), 1))
    assert all(isinstance(outcome, StorageError) for outcome in outcomes)
    assert (journal.remembered("r1"), journal.remembered("r2")) == (None, None)

    journal.recover("s1")
    journal.recover("s2")
    commit(journal, carrying_out("s1", 0, asked("r1"), 1), carrying_out("s2", 0, asked("r2"), 2))

    assert (amounts(journal), amounts(journal, "s2")) == ([1], [2])


def test_requests_are_forgotten_after_a_time_and_can_then_be_asked_again(journal: StoredJournal) -> None:
    steps = [carrying_out("s1", number, asked(f"r{number:04}", number), number) for number in range(1300)]
    commit(journal, *steps)

    assert journal.forget_requests(before=1290) == 1290

    assert journal.remembered("r1289") is None
    assert journal.remembered("r1290") == asked("r1290", 1290)
    assert journal.forget_requests(before=1290) == 0
    assert isinstance(settle(journal, carrying_out("s1", 1300, asked("r0000"), 1))[0], Committed)
    assert isinstance(settle(journal, carrying_out("s1", 1301, asked("r1290"), 1))[0], RequestReusedError)


def test_another_journal_of_the_log_sees_what_is_remembered(log: Log) -> None:
    with log.open() as journal, log.open(read_only=True) as reader:
        commit(journal, carrying_out("s1", 0, asked("r1"), 1))

        assert reader.remembered("r1") == asked("r1")


@pytest.mark.parametrize(("column", "value"), [("note", "zz"), ("note", "QUJD"), ("digest", 7), ("at", "now")])
def test_a_request_that_is_damaged_is_named(path: Path, column: str, value: str | int) -> None:
    log = Log(str(path))
    with log.open() as journal:
        commit(journal, carrying_out("s1", 0, asked("r1"), 1))
        log.tamper(f"UPDATE requests SET {column} = ?", value)  # noqa: S608 - ours

        with pytest.raises(LogUnusableError, match="request 'r1' in the table requests is damaged"):
            journal.remembered("r1")
