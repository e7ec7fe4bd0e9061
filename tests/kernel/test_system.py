"""Identities: found on demand, one incarnation at most, nothing lost between two, all stopped together."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pykka
import pytest

from reenact.actors.kernel import ActorContext, ActorSystem, PooledActor, PooledFuture, Reference
from reenact.domain.errors import RequestTimeoutError, RuntimeClosedError
from tests.kernel.account import Account, Audit, Command, Deposit, Deposited, Diary, WatchedAccount
from tests.kernel.memory import MemoryJournal


class Doubler(PooledActor):
    def on_receive(self, message: int) -> int:
        return message * 2


def test_a_reference_alone_starts_nothing(system: ActorSystem, diary: Diary) -> None:
    system.actor(WatchedAccount, "a")

    assert diary == []
    assert system.live() == 0


def test_references_are_equal_if_class_and_id_are(system: ActorSystem) -> None:
    account = system.actor(Account, "a")

    assert account == system.actor(Account, "a")
    assert hash(account) == hash(system.actor(Account, "a"))
    assert account != system.actor(Account, "b")
    assert account != system.actor(WatchedAccount, "a")
    assert account != "a"
    assert account.id == "a"
    assert repr(account) == "<Account 'a'>"


def test_a_class_may_name_its_streams(system: ActorSystem, journal: MemoryJournal) -> None:
    class Named(Account):
        @classmethod
        def stream(cls, id: str) -> str:  # noqa: A002
            return f"account-{id}"

    system.actor(Named, "a").ask(Deposit(1))

    assert [recorded.stream for recorded in journal.read_all()] == ["account-a"]


def test_all_references_lead_to_one_incarnation(system: ActorSystem, diary: Diary) -> None:
    for _ in range(10):
        system.actor(WatchedAccount, "a").ask(Deposit(1))

    assert len(diary.told("made")) == 1
    assert system.live() == 1


def test_a_stopped_actor_comes_back_with_the_next_message(system: ActorSystem, diary: Diary) -> None:
    account = system.actor(WatchedAccount, "a")
    account.ask(Deposit(5))

    account.stop()

    assert system.live() == 0
    assert account.ask(Audit()) == 5
    assert [entry[0] for entry in diary if entry[0] != "announced"] == [
        "made",
        "recovered",
        "committed",
        "stopped",
        "made",
        "recovered",
    ]


def test_stopping_who_is_not_live_starts_nobody(system: ActorSystem, diary: Diary) -> None:
    account = system.actor(WatchedAccount, "a")

    account.stop()
    account.tell(Deposit(1))
    account.stop()
    account.stop()

    assert len(diary.told("made")) == 1


def test_messages_behind_a_stop_go_to_the_next_incarnation(held: MemoryJournal, diary: Diary) -> None:
    with ActorSystem(held) as system:
        system.register(WatchedAccount, lambda context: WatchedAccount(context, diary))
        account = system.actor(WatchedAccount, "a")
        first = account.ask_future(Deposit(1))
        held.wait_for_appends()
        stopping = [threading.Thread(target=account.stop) for _ in range(2)]
        for thread in stopping:
            thread.start()
        behind = account.ask_future(Audit())

        held.commit()

        assert first.get(timeout=60) == 1
        assert behind.get(timeout=60) == 1
        for thread in stopping:
            thread.join()
        assert len(diary.told("stopped")) in (1, 2)


def test_who_cannot_be_made_fails_who_waits(system: ActorSystem) -> None:
    def fall_over(context: ActorContext) -> Account:
        raise ZeroDivisionError(context.id)

    system.register(Account, fall_over)

    with pytest.raises(ZeroDivisionError, match="a"):
        system.actor(Account, "a").ask(Audit())
    assert system.live() == 0


def test_who_does_not_get_a_reply_in_time_is_told_so_and_the_command_takes_effect(held: MemoryJournal) -> None:
    with ActorSystem(held) as system:
        account = system.actor(Account, "a")

        with pytest.raises(RequestTimeoutError, match="'a'"):
            account.ask(Deposit(5), timeout=0.001)
        held.wait_for_appends()
        with pytest.raises(RequestTimeoutError, match="'a'"):
            account.stop(timeout=0.001)
        held.commit()

        assert account.ask(Audit(), timeout=60) == 5


def test_a_future_of_a_reply_calls_back(held: MemoryJournal) -> None:
    heard: list[object] = []
    came = threading.Event()

    def hear(future: PooledFuture[int]) -> None:
        heard.append(future.get())
        came.set()

    with ActorSystem(held) as system:
        future = system.actor(Account, "a").ask_future(Deposit(5))
        future.add_done_callback(hear)
        held.wait_for_appends()
        assert heard == []

        held.commit()

        assert came.wait(60)
        assert heard == [5]


def test_an_actor_asks_another_and_neither_needs_a_second_worker_to_be_free(journal: MemoryJournal) -> None:
    """Each account asks the one below it; the last only deposits."""

    class Chained(Account):
        def __init__(self, context: ActorContext, below: Reference[Command, int] | None) -> None:
            super().__init__(context)
            self._below = below

        def prepare(self, command: Command) -> Command:
            return command if self._below is None else Deposit(self._below.ask(command) + 1)

    with ActorSystem(journal, workers=1) as system:
        system.register(
            Chained,
            lambda context: Chained(
                context, system.actor(Chained, str(int(context.id) - 1)) if context.id != "0" else None
            ),
        )

        assert system.actor(Chained, "40").ask(Deposit(1), timeout=60) == 41


def test_actors_without_a_log_live_beside_them(system: ActorSystem) -> None:
    ref = system.start(Doubler)

    assert ref.ask(21) == 42
    assert system.live() == 1
    system.stop(ref)
    assert system.live() == 0
    assert pykka.ActorRegistry.get_all() == []


def test_closing_finishes_what_was_accepted(journal: MemoryJournal) -> None:
    system = ActorSystem(journal)
    plain = system.start(Doubler)
    replies = [system.actor(Account, str(n % 10)).ask_future(Deposit(1)) for n in range(1000)]

    system.close()

    assert sum(future.get(timeout=0) == 100 for future in replies) == 10
    assert len(journal.read_all(limit=2000)) == 1000
    assert not plain.is_alive()
    assert system.live() == 0


def test_closing_hears_out_those_whom_others_still_wake(journal: MemoryJournal) -> None:
    class Handing(Account):
        """Hands one less on to the next account."""

        def __init__(self, context: ActorContext, next_one: Callable[[], Reference[Command]]) -> None:
            super().__init__(context)
            self._next = next_one

        def on_committed(self, command: Command, events: object) -> None:
            if isinstance(command, Deposit) and command.amount > 1:
                self._next().tell(Deposit(command.amount - 1))

    system = ActorSystem(journal)
    system.register(Handing, lambda context: Handing(context, lambda: system.actor(Handing, str(int(context.id) + 1))))
    system.actor(Handing, "0").tell(Deposit(8))

    system.close()

    assert [recorded.event for recorded in journal.read_all()] == [Deposited(n) for n in range(8, 0, -1)]


def test_closing_ends_a_conversation_that_has_no_end(journal: MemoryJournal) -> None:
    class Restless(Account):
        def __init__(self, context: ActorContext, other: Callable[[], Reference[Command]]) -> None:
            super().__init__(context)
            self._other = other

        def on_committed(self, command: Command, events: object) -> None:
            try:
                self._other().tell(command)
            except RuntimeClosedError:
                assert events

    system = ActorSystem(journal)
    system.register(
        Restless,
        lambda context: Restless(context, lambda: system.actor(Restless, "b" if context.id == "a" else "a")),
    )
    system.actor(Restless, "a").ask(Deposit(1))

    system.close()

    assert system.live() == 0


def test_a_closed_system_accepts_nothing_and_closes_again_in_silence(journal: MemoryJournal) -> None:
    system = ActorSystem(journal)
    account = system.actor(Account, "a")
    account.ask(Deposit(1))
    system.close()
    system.close()

    with pytest.raises(RuntimeClosedError):
        account.ask(Audit())
    with pytest.raises(RuntimeClosedError):
        account.ask_future(Audit())
    with pytest.raises(RuntimeClosedError):
        account.tell(Audit())
    with pytest.raises(RuntimeClosedError):
        system.start(Doubler)
    account.stop()


def test_an_actor_cannot_close_the_system_it_lives_in(journal: MemoryJournal) -> None:
    class Closer(PooledActor):
        def on_receive(self, message: ActorSystem) -> None:
            message.close()

    with ActorSystem(journal) as system:
        closer = system.start(Closer)

        with pytest.raises(RuntimeError, match="cannot close"):
            closer.ask(system)


def test_two_systems_know_nothing_of_each_other(journal: MemoryJournal) -> None:
    with ActorSystem(journal) as one, ActorSystem(journal) as other:
        one.actor(Account, "a").ask(Deposit(1))

        assert other.live() == 0
        assert other.actor(Account, "a").ask(Audit()) == 1
