"""Persist, then believe: what an event-sourced actor does with one command after another."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from reenact.actors.journal.api import Recorded
from reenact.actors.kernel import ActorContext, ActorSystem, EventSourcedActor, Postponed, Reference
from reenact.domain.errors import (
    RuntimeClosedError,
    StorageError,
    StorageFullError,
)
from reenact.testing import wait_until
from tests.kernel.account import (
    Account,
    Audit,
    Command,
    Deposit,
    Deposited,
    Diary,
    Event,
    OverdrawnError,
    WatchedAccount,
    Withdraw,
    Withdrawn,
    decide,
    evolve,
)
from tests.kernel.memory import MemoryJournal


@contextmanager
def holding(held: MemoryJournal, diary: Diary) -> Generator[Reference[Command]]:
    """A watched account on a journal that the test moves; what is under way at the end is committed."""
    system = ActorSystem(held)
    system.register(WatchedAccount, lambda context: WatchedAccount(context, diary))
    closing = threading.Thread(target=system.close)
    try:
        yield system.actor(WatchedAccount, "a")
    finally:
        closing.start()
        while closing.is_alive():
            held.commit()
            closing.join(0.001)


def hooked(system: ActorSystem, diary: Diary, **hooks: Any) -> Reference[Command]:  # noqa: ANN401 - as the account has them
    """Return a watched account that does this in its hooks."""
    system.register(WatchedAccount, lambda context: WatchedAccount(context, diary, **hooks))
    return system.actor(WatchedAccount, "a")


def events_of(journal: MemoryJournal, stream: str = "a") -> list[Event]:
    return [recorded.event for recorded in journal.read(stream)]


def test_a_reply_comes_after_the_events_are_recorded(system: ActorSystem, journal: MemoryJournal) -> None:
    balance = system.actor(Account, "a").ask(Deposit(5))

    assert balance == 5
    assert journal.read("a") == [Recorded("a", 1, 1, 1_000_000, Deposited(5))]


class Explained(Account):
    """An account whose log says what was asked for."""

    def cause(self, command: Command, events: tuple[Event, ...]) -> bytes:
        return f"{type(command).__name__} led to {len(events)}".encode()


def test_a_class_may_say_how_its_commands_are_stored_with_what_follows_from_them(
    system: ActorSystem, journal: MemoryJournal
) -> None:
    system.actor(Explained, "a").ask(Deposit(5))
    with pytest.raises(OverdrawnError):
        system.actor(Explained, "a").ask(Withdraw(7))
    system.actor(Account, "b").ask(Deposit(5))

    assert [recorded.cause for recorded in journal.read("a")] == [b"Deposit led to 1"]
    assert [recorded.cause for recorded in journal.read("b")] == [None]


def test_who_first_looks_for_the_reference_of_an_incarnation_that_has_ended_finds_it_dead(system: ActorSystem) -> None:
    made: list[Account] = []

    def make(context: ActorContext) -> Account:
        made.append(Account(context))
        return made[-1]

    system.register(Account, make)
    account = system.actor(Account, "a")

    account.ask(Deposit(5))
    account.stop()
    account.ask(Deposit(5))

    assert [actor.actor_ref.is_alive() for actor in made] == [False, True]
    assert [actor.actor_stopped.is_set() for actor in made] == [True, False]


def test_without_a_hook_the_reply_is_the_events(system: ActorSystem) -> None:
    class Bare(EventSourcedActor[int, Command, Event]):
        initial = 0
        decide = staticmethod(decide)
        evolve = staticmethod(evolve)

    assert system.actor(Bare, "a").ask(Deposit(5)) == (Deposited(5),)


def test_nobody_hears_a_reply_before_the_commit(held: MemoryJournal, diary: Diary) -> None:
    with holding(held, diary) as account:
        deposit = account.ask_future(Deposit(5))
        audit = account.ask_future(Audit())
        held.wait_for_appends()

        assert not deposit.done()
        assert not audit.done()
        assert diary.told("committed") == []

        held.commit()

        assert deposit.get(timeout=60) == 5
        assert audit.get(timeout=60) == 5


def test_a_suspended_actor_holds_no_worker(held: MemoryJournal) -> None:
    with ActorSystem(held, workers=1) as system:
        waiting = [system.actor(Account, str(n)).ask_future(Deposit(n)) for n in range(50)]

        held.wait_for_appends(50)
        while held.commit():
            pass

        assert [future.get(timeout=60) for future in waiting] == list(range(50))


def test_a_command_without_events_is_answered_without_the_journal(held: MemoryJournal) -> None:
    with ActorSystem(held) as system:
        assert system.actor(Account, "a").ask(Audit(), timeout=60) == 0


def test_a_refusal_goes_to_the_asker_and_the_actor_goes_on(system: ActorSystem, diary: Diary) -> None:
    account = system.actor(WatchedAccount, "a")
    account.ask(Deposit(5))

    with pytest.raises(OverdrawnError, match="6 is more than the 5"):
        account.ask(Withdraw(6))

    assert account.ask(Withdraw(5)) == 0
    assert diary.told("made") == [("made", "a")]


def test_nothing_is_left_of_a_refusal_once_it_was_handled(system: ActorSystem) -> None:
    account = system.actor(Account, "ada")
    with pytest.raises(OverdrawnError) as asked:
        account.ask(Withdraw(5))
    with pytest.raises(OverdrawnError) as awaited:
        account.ask_future(Withdraw(5)).get()
    refusals = [weakref.ref(asked.value), weakref.ref(awaited.value)]

    del asked, awaited
    wait_until(lambda: gc.collect() >= 0 and [refusal() for refusal in refusals] == [None, None])


def test_a_refusal_of_what_was_told_is_a_dead_letter(
    system: ActorSystem, diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "reenact.kernel")
    account = system.actor(WatchedAccount, "a")

    account.tell(Withdraw(6))

    assert account.ask(Audit()) == 0
    assert diary.told("dead letter") == [("dead letter", Withdraw(6), "overdrawn")]
    (logged,) = (record for record in caplog.records if record.name == "reenact.kernel")
    assert (logged.levelname, "Withdraw" in logged.getMessage()) == ("DEBUG", True)
    assert "amount" not in logged.getMessage(), "what a command says is not for the program's log"


def test_prepare_adds_what_only_the_actor_knows(system: ActorSystem, diary: Diary) -> None:
    def prepare(_: Command) -> Command:
        return Deposit(42)

    account = hooked(system, diary, prepare=prepare)

    assert account.ask(Deposit(1)) == 42


def test_prepare_may_refuse(system: ActorSystem, diary: Diary) -> None:
    def refuse(command: Command) -> Command:
        raise OverdrawnError(0, 1)

    account = hooked(system, diary, prepare=refuse)

    with pytest.raises(OverdrawnError):
        account.ask(Audit())


def test_a_step_is_announced_with_its_events_and_acted_on_when_it_is_recorded(
    system: ActorSystem, journal: MemoryJournal, diary: Diary
) -> None:
    system.actor(WatchedAccount, "a").ask(Deposit(5))

    assert diary == [
        ("made", "a"),
        ("recovered", 0, 0),
        ("announced", Deposit(5), 0, (Deposited(5),), 5, 1_000_000),
        ("committed", (Deposited(5),), 5, 1),
    ]
    [row] = journal.read_feed("a")
    assert [entry.data for segment in row.segments for entry in segment.entries] == [{"balance": 5}]


def test_failing_to_act_does_not_undo_what_is_recorded(
    system: ActorSystem, diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    def fall_over(command: Command) -> None:
        raise ZeroDivisionError

    account = hooked(system, diary, on_committed=fall_over)

    assert account.ask(Deposit(5)) == 5
    assert account.ask(Deposit(5)) == 10
    logged = [record for record in caplog.records if record.name == "reenact.kernel"]
    assert [record.levelname for record in logged] == ["ERROR", "ERROR"]
    assert all("Deposited" in record.getMessage() and "amount" not in record.getMessage() for record in logged)


def test_an_actor_begins_with_what_the_log_holds(system: ActorSystem, journal: MemoryJournal, diary: Diary) -> None:
    journal.write("a", Deposited(7), Withdrawn(3))

    assert system.actor(WatchedAccount, "a").ask(Audit()) == 4
    assert diary.told("recovered") == [("recovered", 4, 2)]


def test_opening_commands_are_handled_before_what_waits(
    system: ActorSystem, journal: MemoryJournal, diary: Diary
) -> None:
    journal.write("a", Deposited(1))
    account = hooked(system, diary, opening=[Deposit(10), Deposit(100)])

    assert account.ask(Deposit(1000)) == 1111
    assert events_of(journal) == [Deposited(1), Deposited(10), Deposited(100), Deposited(1000)]


def test_more_opening_commands_than_a_slice_holds_are_all_handled(system: ActorSystem, diary: Diary) -> None:
    account = hooked(system, diary, opening=[Withdraw(1)] * 200)

    assert account.ask(Audit()) == 0
    assert len(diary.told("dead letter")) == 200


def test_a_log_that_cannot_be_read_fails_who_waits_and_the_next_message_tries_again(
    system: ActorSystem, journal: MemoryJournal
) -> None:
    journal.fail_next_recovery(StorageError("unreadable"))
    account = system.actor(Account, "a")

    with pytest.raises(StorageError, match="unreadable"):
        account.ask(Deposit(1))

    assert account.ask(Deposit(1)) == 1


def test_a_command_is_decided_again_on_what_another_owner_wrote(held: MemoryJournal, diary: Diary) -> None:
    with holding(held, diary) as account:
        deposit = account.ask_future(Deposit(5))
        held.wait_for_appends()
        held.write("a", Deposited(100))

        held.commit()
        held.wait_for_appends()
        held.commit()

        assert deposit.get(timeout=60) == 105
        assert events_of(held) == [Deposited(100), Deposited(5)]
        assert diary.told("recovered") == [("recovered", 0, 0)]


def test_after_a_conflict_the_rule_is_applied_to_what_is_now_true(held: MemoryJournal, diary: Diary) -> None:
    held.write("a", Deposited(5))
    with holding(held, diary) as account:
        withdrawal = account.ask_future(Withdraw(5))
        held.wait_for_appends()
        held.write("a", Withdrawn(1))

        held.commit()

        with pytest.raises(OverdrawnError, match="5 is more than the 4"):
            withdrawal.get(timeout=60)
        assert account.ask(Audit(), timeout=60) == 4


def test_when_the_journal_fails_the_asker_hears_it_and_the_next_incarnation_takes_the_rest(
    held: MemoryJournal, diary: Diary
) -> None:
    with holding(held, diary) as account:
        lost = account.ask_future(Deposit(5))
        waiting = [account.ask_future(Deposit(1)), account.ask_future(Deposit(10))]
        held.wait_for_appends()
        held.fail_next(StorageFullError("no space"))

        held.commit()
        with pytest.raises(StorageFullError):
            lost.get(timeout=60)
        for _ in waiting:
            held.wait_for_appends()
            held.commit()

        assert [future.get(timeout=60) for future in waiting] == [1, 11]
        assert events_of(held) == [Deposited(1), Deposited(10)]
        assert [type(error) for _, error in diary.told("lost")] == [StorageFullError]
        assert len(diary.told("made")) == 2


def test_a_journal_that_is_closed_too_early_fails_the_asker(held: MemoryJournal, diary: Diary) -> None:
    with holding(held, diary) as account:
        assert account.ask(Audit(), timeout=60) == 0
        held.close()

        with pytest.raises(RuntimeClosedError):
            account.ask(Deposit(1), timeout=60)


def test_a_stop_waits_for_the_step_in_flight(held: MemoryJournal, diary: Diary) -> None:
    with holding(held, diary) as account:
        deposit = account.ask_future(Deposit(5))
        held.wait_for_appends()
        stopping = threading.Thread(target=account.stop)
        stopping.start()
        assert diary.told("stopped") == []

        held.commit()
        stopping.join()

        assert deposit.get(timeout=0) == 5
        assert diary[-2:] == [("committed", (Deposited(5),), 5, 1), ("stopped", 5)]


def test_an_event_sourced_actor_cannot_be_started_without_a_system() -> None:
    with pytest.raises(TypeError, match="ActorSystem"):
        Account.start()


def test_an_actor_may_send_commands_to_itself(journal: MemoryJournal) -> None:
    class Saver(Account):
        """Puts something aside after each deposit, until there is 50."""

        def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
            if self.state < 50:
                self.actor_ref.tell(Deposit(10))

    with ActorSystem(journal) as system:
        system.actor(Saver, "a").tell(Deposit(10))

    assert events_of(journal) == [Deposited(10)] * 5


def test_an_actor_that_quits_while_it_starts_leaves_what_waits_to_the_next(journal: MemoryJournal) -> None:
    quits = iter([True])

    class Hesitant(Account):
        def on_start(self) -> None:
            if next(quits, False):
                raise SystemExit

    with ActorSystem(journal) as system:
        assert system.actor(Hesitant, "a").ask(Deposit(1), timeout=60) == 1


def test_who_cannot_read_again_after_a_conflict_is_lost(held: MemoryJournal, diary: Diary) -> None:
    with holding(held, diary) as account:
        deposit = account.ask_future(Deposit(5))
        held.wait_for_appends()
        held.write("a", Deposited(1))
        held.fail_next_recovery(StorageError("unreadable"))

        held.commit()

        with pytest.raises(StorageError, match="unreadable"):
            deposit.get(timeout=60)
        assert account.ask(Audit(), timeout=60) == 1
        assert len(diary.told("lost")) == 1


def test_a_lost_command_that_was_told_is_logged(
    journal: MemoryJournal, system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    journal.fail_next(StorageFullError("no space"))
    account = system.actor(Account, "a")

    account.tell(Deposit(5))

    assert account.ask(Audit()) == 0
    (logged,) = caplog.records
    assert logged.getMessage() == "Deposit, a message to a, has failed: StorageFullError('no space')"
    assert logged.exc_info is None, "the message says it all"


def test_a_command_that_is_postponed_comes_again_and_its_asker_hears_what_becomes_of_it(
    system: ActorSystem, journal: MemoryJournal, diary: Diary
) -> None:
    come: list[Callable[[object], None]] = []

    def prepare(command: Command) -> Command:
        if command == Deposit(1):
            raise Postponed(lambda again, _: come.append(again))
        return command

    account = hooked(system, diary, prepare=prepare)
    waiting = account.ask_future(Deposit(1))
    assert account.ask(Deposit(5)) == 5  # other commands are handled meanwhile

    come.pop()(Deposit(2))

    assert waiting.get() == 7
    assert events_of(journal) == [Deposited(5), Deposited(2)]


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_postponed_command_that_will_not_come_fails_its_asker_or_is_a_dead_letter(
    system: ActorSystem,
    diary: Diary,
    is_asked: bool,  # noqa: FBT001 - a value
) -> None:
    letters: list[object] = []

    def prepare(command: Command) -> Command:
        if command == Deposit(1):
            raise Postponed(lambda _, fail: fail(ValueError("nobody knows")))
        return command

    account = hooked(system, diary, prepare=prepare)
    system.on_dead_letter(lambda letter: letters.append(letter.message))
    if is_asked:
        with pytest.raises(ValueError, match="nobody knows"):
            account.ask(Deposit(1))
    else:
        account.tell(Deposit(1))

    assert account.ask(Deposit(5)) == 5
    assert letters == ([] if is_asked else [Deposit(1)])


def test_a_postponed_command_that_comes_after_the_system_is_closed_fails_its_asker(
    system: ActorSystem, diary: Diary
) -> None:
    come: list[Callable[[object], None]] = []

    def prepare(_: Command) -> Command:
        raise Postponed(lambda again, _: come.append(again))

    account = hooked(system, diary, prepare=prepare)
    waiting = account.ask_future(Deposit(1))
    system.close()

    come.pop()(Deposit(2))

    with pytest.raises(RuntimeClosedError):
        waiting.get()


def test_an_asker_is_told_when_nobody_can_see_to_its_postponed_command(system: ActorSystem, diary: Diary) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no more threads")

    def prepare(_: Command) -> Command:
        raise Postponed(fails)

    account = hooked(system, diary, prepare=prepare)
    with pytest.raises(ValueError, match="no more threads"):
        account.ask(Deposit(1))
