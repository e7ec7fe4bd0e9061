"""Who appends while nobody writes may write itself, and everything else is as ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from reenact.actors.journal.api import Append, Committed, Done, Outcome, Recorded
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.journal.writer import ROUNDS
from reenact.domain.errors import ConflictError, RuntimeClosedError, StorageError
from reenact.testing import wait_until
from tests.journal.support import Added, commit, never, step
from tests.threads import at_once


def is_idle(journal: StoredJournal) -> bool:
    return journal.writer.is_settled("anything") and journal.writer._is_asleep


def append_and_settle(journal: StoredJournal, step: Append, done: Done) -> None:
    journal.append_with_next(step, done)
    journal.settle()


def here(outcomes: list[tuple[Outcome, bool]]) -> Callable[[Outcome], None]:
    """Return a `done` that notes whether it was called on the current thread."""
    caller = threading.get_ident()
    return lambda outcome: outcomes.append((outcome, threading.get_ident() == caller))


def test_an_append_while_nobody_writes_is_settled_before_it_returns(journal: StoredJournal) -> None:
    outcomes: list[tuple[Outcome, bool]] = []
    wait_until(lambda: is_idle(journal))

    append_and_settle(journal, step("a", 0, Added(1)), here(outcomes))

    assert outcomes == [(Committed(1, 1), True)]
    assert journal.read("a") == [Recorded("a", 1, 1, 1, Added(1))]
    assert commit(journal, step("a", 1, Added(2))) == Committed(2, 2)


def test_what_is_to_be_written_with_the_next_step_is_one_transaction_with_it(journal: StoredJournal) -> None:
    outcomes: list[tuple[Outcome, bool]] = []
    wait_until(lambda: is_idle(journal))

    journal.append_with_next(step("a", 0, Added(1)), here(outcomes))
    assert (outcomes, journal.read("a")) == ([], [])
    append_and_settle(journal, step("a", 1, Added(2)), here(outcomes))

    assert outcomes == [(Committed(1, 1), True), (Committed(2, 2), True)]


def test_what_no_step_follows_is_written_after_flush(journal: StoredJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    wait_until(lambda: is_idle(journal))
    over: SimpleQueue[list[Recorded]] = SimpleQueue()
    journal.flush(lambda: over.put([]))
    assert over.get_nowait() == []  # there was nothing to write

    journal.append_with_next(step("a", 0, Added(1)), outcomes.put)
    journal.flush(lambda: over.put(journal.read("a")))

    assert outcomes.get(timeout=60) == Committed(1, 1)
    assert over.get(timeout=60) == [Recorded("a", 1, 1, 1, Added(1))]


def test_who_recovers_a_stream_waits_for_what_was_to_be_written_with_the_next_step(journal: StoredJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    wait_until(lambda: is_idle(journal))

    journal.append_with_next(step("a", 0, Added(1)), outcomes.put)

    assert journal.recover("a") == [Recorded("a", 1, 1, 1, Added(1))]
    assert outcomes.get(timeout=60) == Committed(1, 1)


def test_closing_writes_what_was_to_be_written_with_the_next_step(journal: StoredJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    wait_until(lambda: is_idle(journal))

    journal.append_with_next(step("a", 0, Added(1)), outcomes.put)
    journal.close()

    assert outcomes.get(timeout=60) == Committed(1, 1)
    with pytest.raises(RuntimeClosedError):
        journal.append_with_next(step("a", 1, Added(2)), never)


def test_an_append_while_somebody_writes_is_left_to_them(journal: StoredJournal) -> None:
    outcomes: SimpleQueue[tuple[Outcome, int]] = SimpleQueue()
    writing, go_on = threading.Event(), threading.Event()

    def hold(_: Outcome) -> None:
        writing.set()
        assert go_on.wait(60)

    journal.append(step("a", 0, Added(1)), hold)
    assert writing.wait(60)

    append_and_settle(journal, step("b", 0, Added(2)), lambda outcome: outcomes.put((outcome, threading.get_ident())))

    assert outcomes.empty()
    go_on.set()
    outcome, thread = outcomes.get(timeout=60)
    assert (outcome, thread == threading.get_ident()) == (Committed(1, 2), False)


def test_what_others_hand_over_meanwhile_is_settled_too_but_not_for_ever(journal: StoredJournal) -> None:
    threads: SimpleQueue[int] = SimpleQueue()
    wait_until(lambda: is_idle(journal))
    caller = threading.get_ident()

    def go_on(outcome: Outcome) -> None:
        assert isinstance(outcome, Committed)
        threads.put(threading.get_ident())
        if outcome.version < 3 * ROUNDS:
            journal.append(step("a", outcome.version, Added(1)), go_on)

    append_and_settle(journal, step("a", 0, Added(1)), go_on)

    ran = [threads.get(timeout=60) for _ in range(3 * ROUNDS)]
    assert [thread == caller for thread in ran] == [True] * ROUNDS + [False] * 2 * ROUNDS
    assert len(journal.read("a")) == 3 * ROUNDS


def test_who_waits_hears_of_a_commit_before_what_came_meanwhile_is_durable(journal: StoredJournal) -> None:
    heard: SimpleQueue[tuple[str, Outcome, int]] = SimpleQueue()

    def hear(name: str) -> Callable[[Outcome], None]:
        return lambda outcome: heard.put((name, outcome, len(journal.read("b"))))

    def hand_over_more(position: int) -> None:
        if position == 1:
            journal.append(step("b", 0, Added(2)), hear("b"))

    journal.writer.watch(hand_over_more)

    journal.append(step("a", 0, Added(1)), hear("a"))

    assert [heard.get(timeout=60) for _ in range(2)] == [("a", Committed(1, 1), 0), ("b", Committed(1, 2), 1)]


def test_a_commit_is_told_before_the_refusal_of_what_came_meanwhile(
    journal: StoredJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    store = type(journal.writer._store)

    def refuse(_: object) -> tuple[int, bool]:
        raise StorageError("out of order")

    def break_down(position: int) -> None:
        if position == 1:
            journal.append(step("a", 1, Added(2)), outcomes.put)
            monkeypatch.setattr(store, "begin", refuse)

    journal.writer.watch(break_down)

    journal.append(step("a", 0, Added(1)), outcomes.put)

    assert outcomes.get(timeout=60) == Committed(1, 1)
    assert isinstance(outcomes.get(timeout=60), StorageError)


def test_a_conflict_is_told_and_fences_the_stream(journal: StoredJournal) -> None:
    outcomes: list[tuple[Outcome, bool]] = []
    wait_until(lambda: is_idle(journal))

    append_and_settle(journal, step("a", 7, Added(1)), here(outcomes))
    append_and_settle(journal, step("a", 0, Added(1)), here(outcomes))
    journal.recover("a")
    append_and_settle(journal, step("a", 0, Added(1)), here(outcomes))

    wait_until(lambda: len(outcomes) == 3)
    assert [type(outcome) for outcome, _ in outcomes] == [ConflictError, ConflictError, Committed]


def test_who_writes_must_not_wait_for_the_journal(journal: StoredJournal) -> None:
    raised: list[BaseException] = []
    wait_until(lambda: is_idle(journal))

    def wait(_: Outcome) -> None:
        try:
            journal.close()
        except RuntimeError as error:
            raised.append(error)

    append_and_settle(journal, step("a", 0, Added(1)), wait)

    wait_until(lambda: len(raised) == 1)
    journal.recover("a")  # now it may


def test_closing_waits_for_who_writes(journal: StoredJournal) -> None:
    wait_until(lambda: is_idle(journal))
    writing, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def hold(_: Outcome) -> None:
        writing.set()
        assert go_on.wait(60)
        order.append("settled")

    def close() -> None:
        journal.close()
        order.append("closed")

    writer = threading.Thread(target=lambda: append_and_settle(journal, step("a", 0, Added(1)), hold))
    writer.start()
    assert writing.wait(60)
    closer = threading.Thread(target=close)
    closer.start()
    wait_until(lambda: not journal.writer._is_open)
    go_on.set()
    writer.join(60)
    closer.join(60)

    assert order == ["settled", "closed"]
    with pytest.raises(RuntimeClosedError):
        append_and_settle(journal, step("a", 1, Added(1)), never)


def test_many_threads_that_write_in_each_others_place_lose_nothing(journal: StoredJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()

    def append(number: int) -> None:
        for version in range(50):
            settled = threading.Event()

            def done(outcome: Outcome, settled: threading.Event = settled) -> None:
                outcomes.put(outcome)
                settled.set()

            append_and_settle(journal, step(f"s{number}", version, Added(version)), done)
            assert settled.wait(60)

    at_once(append, threads=8)

    told = [outcomes.get(timeout=60) for _ in range(8 * 50)]
    assert sorted(outcome.position for outcome in told if isinstance(outcome, Committed)) == list(range(1, 401))
    for number in range(8):
        assert [recorded.version for recorded in journal.read(f"s{number}")] == list(range(1, 51))
