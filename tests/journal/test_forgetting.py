"""What is forgotten, and what is said again, in the order in which it was handed over, though it shares a commit."""

from __future__ import annotations

from functools import partial

import pytest

from reenact.actors.journal.api import Append, Committed, Mark, Outcome, Remembered
from reenact.actors.journal.requests import Deleted, Deletion, Marking, Step
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import RequestReusedError
from tests.journal.support import acknowledge, settle_together

CONSUMERS = (("s1", "a"), ("s1", "b"))


def count_of(outcome: Outcome) -> int:
    assert isinstance(outcome, Deleted)
    return outcome.count


def carrying_out(request_id: str, at: int = 1) -> partial[Step]:
    return partial(Step, Append("s1", None, 0, remembered=Remembered(request_id, b"", b"", at)))


@pytest.mark.parametrize(("at", "left"), [(4, []), (5, [Mark("s1", "a", 3, 5)]), (9, [Mark("s1", "a", 3, 9)])])
def test_a_mark_of_the_same_commit_is_old_or_it_is_not(journal: StoredJournal, at: int, left: list[Mark]) -> None:
    acknowledge(journal, Mark("s1", "a", 3, 1))

    _, deleted = settle_together(
        journal, partial(Marking, (Mark("s1", "a", 2, at),)), partial(Deletion, "consumers", CONSUMERS, 5)
    )

    assert count_of(deleted) == (0 if left else 1)
    assert journal.marks("s1") == left


def test_a_consumer_that_is_forgotten_begins_anew_in_the_same_commit(journal: StoredJournal) -> None:
    acknowledge(journal, Mark("s1", "a", 9, 1), Mark("s2", "a", 9, 1))

    deleted, _ = settle_together(
        journal, partial(Deletion, "consumers", CONSUMERS, 5), partial(Marking, (Mark("s1", "a", 2, 3),))
    )

    assert count_of(deleted) == 1
    assert (journal.marks("s1"), journal.marks("s2")) == ([Mark("s1", "a", 2, 3)], [Mark("s2", "a", 9, 1)])


def test_a_request_that_is_forgotten_can_be_carried_out_in_the_same_commit(journal: StoredJournal) -> None:
    settle_together(journal, carrying_out("r1", at=4), carrying_out("r2", at=5))

    refused, deleted, again, still_refused = settle_together(
        journal,
        carrying_out("r1"),
        partial(Deletion, "requests", (("r1",), ("r2",), ("r3",)), 5),
        carrying_out("r1", at=7),
        carrying_out("r2"),
    )

    assert isinstance(refused, RequestReusedError)
    assert count_of(deleted) == 1
    assert isinstance(again, Committed)
    assert isinstance(still_refused, RequestReusedError)
    assert journal.remembered("r1") == Remembered("r1", b"", b"", 7)
