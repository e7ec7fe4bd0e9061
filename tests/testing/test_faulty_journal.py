"""A journal that fails as it is told, and keeps its promise while it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from reenact.actors.journal.api import Append, Committed, Journal, Outcome
from reenact.actors.journal.codec import EventCodec, StoredForm
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import verify
from reenact.actors.kernel import ActorSystem
from reenact.domain.errors import ConflictError, LogUnusableError, StorageError, StorageFullError
from reenact.testing import CrashedError, FaultyJournal, torn_copy
from tests.kernel.memory import MemoryJournal
from tests.testing.account import Account, Deposit, Deposited, Withdraw

CODEC = EventCodec([StoredForm("deposited", Deposited)])


@pytest.fixture(params=["sqlite", "memory"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FaultyJournal]:
    inner: Journal
    if request.param == "sqlite":
        inner = SqliteJournal.open(tmp_path / "log.db", CODEC, synchronous="OFF")
    else:
        inner = MemoryJournal()
    with FaultyJournal(inner) as journal:
        yield journal


def test_only_an_exception_can_be_the_fault(journal: FaultyJournal) -> None:
    with pytest.raises(TypeError, match=r"a write fails with an exception, such as .*, not <class .*StorageError"):
        journal.fail_next(StorageError)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - the mistake


def step(stream: str, after: int | None, *amounts: int) -> Append:
    return Append(stream, after, 0, tuple(Deposited(amount) for amount in amounts))


def settle(journal: Journal, *steps: Append) -> list[Outcome]:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    for each in steps:
        journal.append(each, outcomes.put)
    return [outcomes.get(timeout=60) for _ in steps]


def amounts(journal: Journal, stream: str = "a") -> list[int]:
    return [recorded.event.amount for recorded in journal.read(stream)]


def kinds(outcomes: list[Outcome]) -> list[type]:
    return [type(outcome) for outcome in outcomes]


def test_nothing_goes_wrong_that_was_not_asked_for(journal: FaultyJournal) -> None:
    assert settle(journal, step("a", 0, 1), step("b", 0, 2), step("a", 1, 3)) == [
        Committed(1, 1),
        Committed(1, 2),
        Committed(2, 3),
    ]

    assert (amounts(journal), amounts(journal, "b")) == ([1, 3], [2])
    assert journal.head() == 3
    assert [recorded.position for recorded in journal.read_all()] == [1, 2, 3]
    assert [one.stream for one in journal.written] == ["a", "b", "a"]


def test_the_next_append_fails_and_what_comes_behind_it(journal: FaultyJournal) -> None:
    journal.fail_next(StorageError("broken"))

    first, second = settle(journal, step("a", 0, 1), step("a", 1, 2))

    assert str(first) == "broken"
    assert isinstance(second, StorageError)
    assert amounts(journal) == []


def test_a_failed_stream_goes_on_after_recovery_and_others_all_the_time(journal: FaultyJournal) -> None:
    journal.fail_next(StorageError("broken"))
    assert kinds(settle(journal, step("a", 0, 1), step("b", 0, 1))) == [StorageError, Committed]

    assert journal.recover("a") == []

    assert kinds(settle(journal, step("a", 0, 1))) == [Committed]


def test_faults_happen_in_the_order_in_which_they_were_asked_for(journal: FaultyJournal) -> None:
    journal.fail_next(StorageFullError("first"))
    journal.fail_next(StorageError("second"))
    assert journal.planned == 2

    outcomes = settle(journal, step("a", 0, 1), step("b", 0, 1), step("c", 0, 1))

    assert kinds(outcomes) == [StorageFullError, StorageError, Committed]
    assert journal.planned == 0


def test_a_full_disk_stays_full_until_there_is_space_again(journal: FaultyJournal) -> None:
    journal.disk_full()
    assert kinds(settle(journal, step("a", 0, 1), step("b", 0, 1))) == [StorageFullError, StorageFullError]

    journal.space_again()

    journal.recover("a")
    assert kinds(settle(journal, step("a", 0, 1))) == [Committed]


def test_another_writer_overtakes_the_next_append(journal: FaultyJournal) -> None:
    journal.conflict_next(Deposited(7))

    (outcome,) = settle(journal, step("a", 0, 1))

    assert isinstance(outcome, ConflictError)
    assert (outcome.stream, outcome.expected, outcome.actual) == ("a", 0, 1)
    assert [recorded.event for recorded in journal.recover("a")] == [Deposited(7)]
    assert kinds(settle(journal, step("a", 1, 1))) == [Committed]


def test_a_conflict_may_leave_nothing_behind(journal: FaultyJournal) -> None:
    journal.conflict_next()
    assert kinds(settle(journal, step("a", 0, 1), step("a", 1, 1))) == [ConflictError, ConflictError]

    assert journal.recover("a") == []

    assert kinds(settle(journal, step("a", 0, 1))) == [Committed]


def test_a_step_without_events_meets_no_conflict(journal: FaultyJournal) -> None:
    journal.conflict_next()

    assert kinds(settle(journal, step("a", None), step("a", 0, 1))) == [Committed, ConflictError]


def test_another_writer_writes_at_once(journal: FaultyJournal) -> None:
    assert journal.overtake("a", Deposited(7)) == Committed(1, 1)

    assert kinds(settle(journal, step("a", 0, 1))) == [ConflictError]
    assert amounts(journal) == [7]


def test_what_is_held_is_not_written_until_it_is_released(journal: FaultyJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    journal.hold()
    for version in range(3):
        journal.append(step("a", version, version), outcomes.put)

    journal.wait_until_held(3)
    assert (len(journal.held), amounts(journal), outcomes.empty()) == (3, [], True)

    assert journal.release(1) == 1
    assert outcomes.get(timeout=60) == Committed(1, 1)
    assert (len(journal.held), amounts(journal), journal.holds) == (2, [0], True)

    assert journal.release() == 2
    assert [outcomes.get(timeout=60) for _ in range(2)] == [Committed(2, 2), Committed(3, 3)]
    assert (journal.held, journal.holds) == ((), False)


def test_a_fault_happens_to_what_is_held_when_it_is_released(journal: FaultyJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    journal.hold()
    journal.append(step("a", 0, 1), outcomes.put)
    journal.fail_next(StorageError("broken"))

    journal.release()

    assert str(outcomes.get(timeout=60)) == "broken"


def test_a_crash_before_an_append_leaves_nothing_of_it(journal: FaultyJournal) -> None:
    settle(journal, step("a", 0, 1))
    journal.crash_before_next_append()

    assert kinds(settle(journal, step("a", 1, 2))) == [CrashedError]

    assert journal.crashed
    assert amounts(journal) == [1]


def test_a_crash_after_an_append_leaves_it_and_nobody_knows(journal: FaultyJournal) -> None:
    journal.crash_after_next_append()

    assert kinds(settle(journal, step("a", 0, 1))) == [CrashedError]

    assert amounts(journal) == [1]
    assert len(journal.written) == 1


def test_after_a_crash_nothing_is_written_and_nothing_recovered(journal: FaultyJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    journal.hold()
    journal.append(step("a", 0, 1), outcomes.put)

    journal.crash()

    assert isinstance(outcomes.get(timeout=60), CrashedError)
    with pytest.raises(CrashedError):
        journal.append(step("b", 0, 1), outcomes.put)
    with pytest.raises(CrashedError):
        journal.recover("a")
    assert journal.head() == 0


def test_the_next_process_finds_what_was_written(journal: FaultyJournal) -> None:
    settle(journal, step("a", 0, 1))
    journal.fail_next(StorageError("never"))
    journal.crash()

    journal.come_back()

    assert [recorded.event for recorded in journal.recover("a")] == [Deposited(1)]
    assert kinds(settle(journal, step("a", 1, 2))) == [Committed]


def test_calm_takes_every_trouble_back(journal: FaultyJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    journal.fail_next(StorageError("never"))
    journal.hold()
    journal.append(step("a", 0, 1), outcomes.put)
    journal.disk_full()

    journal.calm()

    assert outcomes.get(timeout=60) == Committed(1, 1)
    assert kinds(settle(journal, step("a", 1, 2))) == [Committed]


def test_closing_lets_go_on_what_is_held(journal: FaultyJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    journal.hold()
    journal.append(step("a", 0, 1), outcomes.put)

    journal.close()

    assert outcomes.get(timeout=60) == Committed(1, 1)


def test_waiting_for_what_does_not_come_says_so(journal: FaultyJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.testing.faulty_journal.PATIENCE", 0.01)

    with pytest.raises(AssertionError, match=r"0 appends are held after 0.01 seconds, not 1"):
        journal.wait_until_held()


def test_an_actor_meets_the_faults_that_a_test_asked_for(tmp_path: Path) -> None:
    with (
        FaultyJournal(SqliteJournal.open(tmp_path / "log.db", EventCodec(()), synchronous="OFF")) as journal,
        ActorSystem(journal, codec=journal.codec) as system,
    ):
        account = system.actor(Account, "a1")
        account.ask(Deposit(5))
        journal.disk_full()
        with pytest.raises(StorageFullError):
            account.ask(Withdraw(3))

        journal.space_again()

        assert account.ask(Withdraw(3)) == 2


def test_a_torn_write_leaves_whole_transactions_from_the_first_on(tmp_path: Path) -> None:
    with FaultyJournal(SqliteJournal.open(tmp_path / "log.db", CODEC)) as journal:
        for version in range(8):
            settle(journal, step("a", 2 * version, version, version))
        size = Path(f"{tmp_path / 'log.db'}-wal").stat().st_size
        copies = [journal.torn_write(tmp_path / f"torn-{lose}", lose=lose) for lose in range(0, size + 4096, 8000)]

    found: list[int] = []
    for copy in copies:
        try:
            with SqliteJournal.open(copy, CODEC) as left:
                recovered = amounts(left)
        except LogUnusableError:  # not even the tables
            recovered = []
        else:
            assert verify(copy) == []
        assert recovered == [version for version in range(8) for _ in range(2)][: len(recovered)]
        assert len(recovered) % 2 == 0
        found.append(len(recovered))
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1]) == (16, 0)
    assert len(set(found)) > 3


def test_only_a_log_in_a_file_can_be_torn(tmp_path: Path) -> None:
    with FaultyJournal(MemoryJournal()) as journal:
        assert journal.codec is None
        with pytest.raises(TypeError, match="MemoryJournal keeps no file"):
            journal.torn_write(tmp_path / "copy", lose=1)


def test_a_write_cannot_lose_less_than_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="-1 bytes"):
        torn_copy(tmp_path / "log.db", tmp_path / "copy", lose=-1)
